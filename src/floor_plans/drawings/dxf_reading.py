"""DXF read as a plan: closed polylines on ROOMS, names on LABELS, and lines on DOORS."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from floor_plans.diagrams.files.fields import NO_NAMES, DiagramError, OwnNames
from floor_plans.diagrams.files.foreign_files import load_json
from floor_plans.diagrams.geometry import UNITS, DrawnIn, metres_per
from floor_plans.drawings.drawn_parts import DrawnDoor, DrawnRoom
from floor_plans.drawings.drawn_plan import (
    Drawing,
    check_installed,
    corners_of,
    flip_y,
    largest_boundary,
    rooms_of_labels,
)
from floor_plans.drawings.dxf import APP, BOUNDARY, DOOR, FLOOR, HOLE
from floor_plans.drawings.dxf_entities import (
    entities_by_layer,
    names_of_floors,
    place_of,
    read_document,
    read_tags,
    reason_without_name,
    ring_of,
)
from floor_plans.plans.floor_plan import FRONT_DOOR, Point
from floor_plans.plans.floors import is_same
from floor_plans.plans.outline import LONGEST

if TYPE_CHECKING:
    from ezdxf.document import Drawing as Document
    from shapely.geometry.base import BaseGeometry

_CENTIMETRE = 0.01

LINES, DOUBLED, OPEN = "lines that close no room", "doubled outlines", "open plot outlines"
"""Names of what is left out: lines on ROOMS that are not closed, outlines drawn twice, and open
boundaries."""


def read_dxf(content: bytes, unit: str = UNITS[0], names: OwnNames = NO_NAMES) -> Drawing:
    """Read a drawing as ``dxf_of`` writes it, or a similar one.

    A closed polyline on ROOMS is a room, the text on LABELS inside it begins with its type, and a
    line on DOORS is a door. Layers may have the names of the AIA. Anything else is left out.
    ``unit``: unit of a drawing whose header states none; pixels are not allowed. ``names``: the
    user's own names of rooms. Raises ``DiagramError``.
    """
    check_installed()
    document = read_document(content)
    drawn = _drawn_in(document, unit)
    scale = drawn.metres
    layers = entities_by_layer(document)
    # floors, which have to be those of one plan
    left_out: list[str] = []
    _check_one_level(layers)
    floors = _floors(layers.get("ROOMS", []), scale, left_out)
    if not floors:
        raise DiagramError(
            "ROOMS",
            "no closed polyline on this layer, as every room is; the layers with lines are "
            f"{', '.join(layers) or 'none'}",
        )
    # names of the rooms
    texts, notes = names_of_floors(layers.get("LABELS", []), floors, scale, names)
    for number, floor in floors.items():
        if number not in texts:
            raise DiagramError(place_of(floor), reason_without_name(number, floors, texts, layers))
    types = rooms_of_labels(
        [texts[number] for number in floors],
        [*floors.values()],
        [place_of(floor) for floor in floors.values()],
    )
    rooms = tuple(
        DrawnRoom(room, flip_y(floor), number)
        for room, (number, floor) in zip(types, floors.items(), strict=True)
    )
    # boundary
    rings = []
    for entity in layers.get(BOUNDARY, []):
        if (ring := ring_of(entity)) is None:
            left_out.append(OPEN)
        else:
            rings.append(flip_y(_scaled(ring, scale)))
    boundary, others = largest_boundary(rings)
    return Drawing(
        rooms,
        tuple(_doors(layers.get("DOORS", []), scale)),
        boundary,
        _read_embedded_json(document),
        (*left_out, *others),
        notes=tuple(notes),
        drawn=drawn,
    )


def _check_one_level(layers: Mapping[str, Sequence[Any]]) -> None:
    """Raise ``DiagramError`` if rooms are on several layers, such as ROOMS-EG and ROOMS-OG."""

    def is_named_after_rooms(layer: str) -> bool:
        if "ROOMS" in re.split(r"[\W_]+", layer):
            return True
        minor = layer.removeprefix("A-AREA-")
        # the AIA has minor groups of four letters, as A-AREA-IDEN
        return minor != layer and not re.fullmatch("[A-Z]{4}", minor)

    those = [layer for layer in layers if is_named_after_rooms(layer)]
    if len(those) > 1:  # a layer without an outline draws no rooms
        those = [layer for layer in those if any(ring_of(each) for each in layers[layer])]
    if len(those) > 1:
        raise DiagramError(
            "ROOMS",
            f"rooms are on the layers {', '.join(those)}, as those of several storeys or dwellings "
            "are, and a drawing is one plan; write each to a file of its own, its rooms on ROOMS",
        )


def plot_of_dxf(content: bytes) -> tuple[Point, ...]:
    """Corners of a plot in metres from (0, 0), y downwards, rounded to a centimetre.

    The plot is the largest closed polyline that does not cross itself, on the layer of outlines or
    else on any. Raises ``DiagramError`` for content that is not DXF, has no unit or closed
    polyline, or is longer than a plan may be.
    """
    check_installed()
    document = read_document(content)
    drawn = _drawn_in(document, UNITS[0])
    layers = entities_by_layer(document)
    refused: list[DiagramError] = []
    # on the layer of boundaries, or on any
    rings = _plots(layers.get(BOUNDARY, []), refused)
    rings = rings or _plots(chain(*layers.values()), refused)
    if not rings:
        why = f"; {refused[0]}" if refused else ""
        raise DiagramError("", f"no closed polyline, as the outline of a plot is{why}")
    # the largest, in metres
    largest = max(rings, key=lambda ring: ring.area)
    outline = flip_y(_scaled(largest, drawn.metres))
    left, top, right, bottom = outline.bounds
    if not (right - left <= LONGEST and bottom - top <= LONGEST):
        raise DiagramError(
            "$INSUNITS",
            f"drawn in {drawn.unit} the plot is {right - left:g} x {bottom - top:g} m, expected at "
            f"most {LONGEST} m each way; set the unit that it is drawn in (in AutoCAD: UNITS)",
        )
    outline = outline.simplify(_CENTIMETRE)
    corners = corners_of(outline)
    return tuple((round(x - left, 2), round(y - top, 2)) for x, y in corners)


def _plots(entities: Iterable[Any], refused: list[DiagramError]) -> list[BaseGeometry]:
    """Return the closed polylines; errors of invalid polylines are added to ``refused``."""
    found = []
    for each in entities:
        try:
            ring = ring_of(each)
        except DiagramError as error:
            refused.append(error)
            continue
        if ring is not None:
            found.append(ring)
    return found


def _drawn_in(document: Document, unit: str) -> DrawnIn:
    """Unit of the header, or else ``unit``. Raises ``DiagramError`` if neither is stated."""
    from ezdxf.units import InsertUnits, conversion_factor

    key = "set $INSUNITS to {} (in AutoCAD: UNITS)"
    # the header states no unit
    if document.units == 0:
        if unit == UNITS[0]:
            raise DiagramError(
                "$INSUNITS",
                "0: the drawing has no unit; state it with data.unit=metres (evaluate: unit=, "
                "discrete-diffusion data: --unit), or another unit, or set it, in AutoCAD with "
                "the command UNITS",
            )
        return DrawnIn(unit, metres_per(unit), "unit=", "give data.unit={} (--unit {})")
    # the unit of the header, in metres
    try:
        found = InsertUnits(document.units)
        metres = (
            1.0 if found == InsertUnits.Meters else conversion_factor(found, InsertUnits.Meters)
        )
    except (KeyError, ValueError) as error:
        raise DiagramError("$INSUNITS", f"{document.units}: an unknown unit of length") from error
    name = found.name.lower().replace("meters", "metres")
    return DrawnIn(name, metres, f"$INSUNITS={document.units} of its header", key)


def _scaled(shape: BaseGeometry, scale: float) -> BaseGeometry:
    import shapely

    return shape if scale == 1 else shapely.transform(shape, lambda corners: corners * scale)


def _floors(entities: Iterable[Any], scale: float, left_out: list[str]) -> dict[int, BaseGeometry]:
    """Return floors in metres by number. Polylines without a number are separate rooms. Names of
    open or repeated polylines are added to ``left_out``."""
    import shapely

    parts: dict[int, list[BaseGeometry]] = {}
    holes: dict[int, list[BaseGeometry]] = {}
    own: list[BaseGeometry] = []
    others: dict[tuple[float, ...], list[BaseGeometry]] = {}  # by their bounds
    for entity in entities:
        if (ring := ring_of(entity)) is None:
            left_out.append(LINES)
            continue
        ring = _scaled(ring, scale)
        # parts and holes of numbered rooms
        kind, numbers = read_tags(entity)
        if kind in (FLOOR, HOLE) and len(numbers) == 1:
            (parts if kind == FLOOR else holes).setdefault(numbers[0], []).append(ring)
            continue
        # rooms without a number, except repeated ones
        alike = others.setdefault(tuple(round(side, 3) for side in ring.bounds), [])
        if any(is_same(ring, other) for other in alike):
            left_out.append(DOUBLED)
        else:
            alike.append(ring)
            own.append(ring)
    # parts less holes
    floors = {
        number: shapely.union_all(rings).difference(shapely.union_all(holes.get(number, [])))
        for number, rings in sorted(parts.items())
    }
    first = max(floors, default=-1) + 1
    return floors | dict(enumerate(own, start=first))


def _doors(entities: Iterable[Any], scale: float) -> Iterable[DrawnDoor]:
    """Doors: the lines on their layer, with the rooms of their tags."""
    from shapely import LineString

    for entity in entities:
        if entity.dxftype() != "LINE":
            continue
        ends = [(end.x, end.y) for end in (entity.dxf.start, entity.dxf.end)]
        line = flip_y(_scaled(LineString(ends), scale))
        kind, numbers = read_tags(entity)
        rooms = (numbers[0], numbers[1]) if kind == DOOR and len(numbers) == 2 else None
        yield DrawnDoor(line, rooms is not None and rooms[1] == FRONT_DOOR, rooms)


def _read_embedded_json(document: Document) -> object:
    """JSON of the plan that was drawn, or None."""
    from ezdxf.entities import XRecord

    record = document.rootdict.get(APP)
    if not isinstance(record, XRecord):
        return None
    text = "".join(str(tag.value) for tag in record.tags if tag.code == 1)
    try:
        return load_json(text.encode())
    except DiagramError as error:
        raise DiagramError(APP, f"the record of the plan is {error.reason}; delete it") from error
