"""DXF read as a plan: closed polylines on ROOMS, names on LABELS, and lines on DOORS.

Entities are sorted by layer first, and blocks opened.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Any

from floor_plans.diagrams.files.fields import NO_NAMES, DiagramError, OwnNames, room_code
from floor_plans.diagrams.files.foreign_files import load_plan_json
from floor_plans.diagrams.files.records import Note
from floor_plans.diagrams.geometry import UNITS, DrawnIn, metres_per
from floor_plans.drawings import drawn_plan
from floor_plans.drawings.drawn_parts import DrawnDoor, is_same, type_of_name
from floor_plans.drawings.drawn_plan import Drawing, flip_y, scale_shape
from floor_plans.drawings.dxf import APP, BOUNDARY, DOOR, FLOOR, HOLE, LABEL, PLAIN_LAYERS
from floor_plans.plans.floor_plan import Point
from floor_plans.plans.libraries import ezdxf, shapely
from floor_plans.plans.outline import LONGEST

LINES, DOUBLED, OPEN = "lines that close no room", "doubled outlines", "open plot outlines"
"""Names of what is left out: open lines on ROOMS, outlines drawn twice, and open boundaries."""

_STOREY = 3  # least number of rooms that may be a storey or dwelling
_ONE_LEVEL = (
    "as those of several storeys or dwellings are, and a drawing is one plan; write each to a file "
    "of its own"
)


def read_dxf(content: bytes, unit: str = UNITS[0], names: OwnNames = NO_NAMES) -> Drawing:
    """Read a drawing as ``dxf_of`` writes it, or a similar one: a closed polyline on ROOMS is a
    room, the text on LABELS inside it begins with its type, and a line on DOORS is a door. Layers
    may have the names of the AIA. ``unit``: unit of a drawing whose header states none. Raises
    ``DiagramError``."""
    drawn_plan.check_installed()
    from ezdxf.entities import XRecord

    document = _read_document(content)
    drawn = _unit_of_drawing(document, unit)
    scale = drawn.metres
    layers = entities_by_layer(document)
    # floors, which have to be those of one plan
    left_out: list[str] = []
    _check_one_level(layers)
    floors = _read_floors(layers.get("ROOMS", []), scale, left_out)
    if not floors:
        reason = "no closed polyline on this layer, as every room is; the layers with lines are"
        raise DiagramError("ROOMS", f"{reason} {', '.join(layers) or 'none'}")
    texts, notes = _names_of_floors(layers.get("LABELS", []), floors, scale, names)
    for number, floor in floors.items():
        if number not in texts:
            reason = _reason_without_name(number, floors, texts, layers)
            raise DiagramError(_place_of(floor), reason)
    named = [(texts[number], _place_of(floor), flip_y(floor)) for number, floor in floors.items()]
    rooms = drawn_plan.named_rooms(named, floors)
    rings = [ring_of(entity) for entity in layers.get(BOUNDARY, [])]
    closed = [flip_y(scale_shape(ring, scale)) for ring in rings if ring is not None]
    left_out += [OPEN] * (len(rings) - len(closed))
    boundary, others = drawn_plan.largest_boundary(closed)
    # JSON of the plan that was drawn
    embedded, record = None, document.rootdict.get(APP)
    if isinstance(record, XRecord):
        text = "".join(str(tag.value) for tag in record.tags if tag.code == 1)
        try:
            embedded = load_plan_json(text.encode())
        except DiagramError as error:
            reason = f"the record of the plan is {error.reason}; delete it"
            raise DiagramError(APP, reason) from error
    doors, omitted = tuple(_read_doors(layers.get("DOORS", []), scale)), (*left_out, *others)
    return Drawing(rooms, doors, boundary, embedded, omitted, notes=tuple(notes), drawn=drawn)


def _check_one_level(layers: Mapping[str, Sequence[Any]]) -> None:
    """Raise ``DiagramError`` if rooms are on several layers, such as ROOMS-EG and ROOMS-OG."""
    # the AIA has minor groups of four letters, as A-AREA-IDEN
    areas = {layer for layer in layers if layer.startswith("A-AREA-")}
    minor = {layer for layer in areas if re.fullmatch("A-AREA-[A-Z]{4}", layer)}
    named = {layer for layer in layers if "ROOMS" in re.split(r"[\W_]+", layer)}
    those = [layer for layer in layers if layer in named | (areas - minor)]
    if len(those) > 1:  # a layer without an outline draws no rooms
        those = [layer for layer in those if any(ring_of(each) for each in layers[layer])]
    if len(those) > 1:
        where = f"rooms are on the layers {', '.join(those)}"
        raise DiagramError("ROOMS", f"{where}, {_ONE_LEVEL}, its rooms on ROOMS")


def plot_of_dxf(content: bytes) -> tuple[Point, ...]:
    """Corners of a plot in metres from (0, 0), y downwards, rounded to a centimetre: the largest
    closed polyline on the layer of boundaries, or else on any. Raises ``DiagramError`` without a
    unit or such a polyline, or for a plot longer than a plan may be."""
    drawn_plan.check_installed()
    document = _read_document(content)
    drawn = _unit_of_drawing(document, UNITS[0])
    layers = entities_by_layer(document)
    refused: list[DiagramError] = []
    rings = [*_closed_polylines(layers.get(BOUNDARY, []), refused)]
    rings = rings or [*_closed_polylines(chain(*layers.values()), refused)]
    if not rings:
        why = f"; {refused[0]}" if refused else ""
        raise DiagramError("", f"no closed polyline, as the outline of a plot is{why}")
    largest = max(rings, key=lambda ring: ring.area)
    outline = flip_y(scale_shape(largest, drawn.metres))
    left, top, right, bottom = outline.bounds
    if not (right - left <= LONGEST and bottom - top <= LONGEST):
        size = f"drawn in {drawn.unit} the plot is {right - left:g} x {bottom - top:g} m"
        remedy = "set the unit that it is drawn in (in AutoCAD: UNITS)"
        reason = f"{size}, expected at most {LONGEST} m each way; {remedy}"
        raise DiagramError("$INSUNITS", reason)
    outline = outline.simplify(0.01)
    corners = drawn_plan.corners_of(outline)
    return tuple((round(x - left, 2), round(y - top, 2)) for x, y in corners)


def _closed_polylines(
    entities: Iterable[Any], refused: list[DiagramError]
) -> Iterator[shapely.Geometry]:
    """Yield the closed polylines; errors of invalid polylines are added to ``refused``."""
    for each in entities:
        try:
            if (ring := ring_of(each)) is not None:
                yield ring
        except DiagramError as error:
            refused.append(error)


def _unit_of_drawing(document: ezdxf.document.Drawing, unit: str) -> DrawnIn:
    """Unit of the header, or else ``unit``. Raises ``DiagramError`` if neither is stated."""
    from ezdxf.units import InsertUnits, conversion_factor

    key = "set $INSUNITS to {} (in AutoCAD: UNITS)"
    if document.units == 0:
        if unit == UNITS[0]:
            options = "data.unit=metres (evaluate: unit=, discrete-diffusion data: --unit)"
            remedy = f"state it with {options}, or another unit, or set it, in AutoCAD with the "
            reason = f"0: the drawing has no unit; {remedy}command UNITS"
            raise DiagramError("$INSUNITS", reason)
        return DrawnIn(unit, metres_per(unit), "unit=", "give data.unit={} (--unit {})")
    try:
        found, metre = InsertUnits(document.units), InsertUnits.Meters
        metres = 1.0 if found == metre else conversion_factor(found, metre)
    except (KeyError, ValueError) as error:
        raise DiagramError("$INSUNITS", f"{document.units}: an unknown unit of length") from error
    name = found.name.lower().replace("meters", "metres")
    return DrawnIn(name, metres, f"$INSUNITS={document.units} of its header", key)


def _read_floors(
    entities: Iterable[Any], scale: float, left_out: list[str]
) -> dict[int, shapely.Geometry]:
    """Read floors in metres by number. Names of open or repeated polylines are added to
    ``left_out``. Raises ``DiagramError`` for several storeys."""
    parts: dict[int, list[shapely.Geometry]] = {}
    holes: dict[int, list[shapely.Geometry]] = {}
    own: list[shapely.Geometry] = []
    others: dict[tuple[float, ...], list[shapely.Geometry]] = {}  # by their bounds
    for entity in entities:
        if (ring := ring_of(entity)) is None:
            left_out.append(LINES)
            continue
        ring = scale_shape(ring, scale)
        # parts and holes of numbered rooms
        words, numbers = _read_tags(entity)
        if words[:1] in ([FLOOR], [HOLE]) and len(numbers) == 1:
            (parts if words[0] == FLOOR else holes).setdefault(numbers[0], []).append(ring)
            continue
        # rooms without a number, except repeated ones
        alike = others.setdefault(tuple(round(side, 3) for side in ring.bounds), [])
        if any(is_same(ring, other) for other in alike):
            left_out.append(DOUBLED)
        else:
            alike.append(ring)
            own.append(ring)
    # parts less holes, then the rooms without a number
    floors = {
        number: shapely.union_all(rings).difference(shapely.union_all(holes.get(number, [])))
        for number, rings in sorted(parts.items())
    }
    first = max(floors, default=-1) + 1
    floors |= dict(enumerate(own, start=first))
    groups = drawn_plan.far_groups([*floors.values()])
    if (num := sum(len(group) >= _STOREY for group in groups)) > 1:
        raise DiagramError("ROOMS", f"{num} groups of rooms lie far apart, {_ONE_LEVEL}")
    return floors


def _read_doors(entities: Iterable[Any], scale: float) -> Iterable[DrawnDoor]:
    """Doors: the lines on their layer, with the rooms of their tags."""
    for entity in entities:
        if entity.dxftype() != "LINE":
            continue
        ends = [(end.x, end.y) for end in (entity.dxf.start, entity.dxf.end)]
        line = flip_y(scale_shape(shapely.LineString(ends), scale))
        words, numbers = _read_tags(entity)
        is_tagged = words[:1] == [DOOR] and len(numbers) == 2
        yield DrawnDoor(line, (numbers[0], numbers[1]) if is_tagged else None)


_UNREADABLE = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, OSError, RecursionError),
    *(StopIteration, TypeError, ValueError),
)
"""Exceptions that ezdxf raises for a damaged drawing, in addition to its own."""

_MOST_OF_BLOCKS, _DEEPEST = 50_000, 16
"""Most entities of all blocks together, and most levels of nested blocks."""


def _read_document(content: bytes) -> ezdxf.document.Drawing:
    """Read a drawing; raise ``DiagramError`` if it is damaged. ``ezdxf.recover`` is not used, since
    it would read 5.9 for a damaged "5.9]625"."""
    from ezdxf.filemanagement import dxf_stream_info

    try:
        # decode the text as its header says, and check that it has a model space
        info = dxf_stream_info(io.StringIO(content.decode("latin-1")))
        text = content.decode(info.encoding, errors="surrogateescape")
        document = ezdxf.read(io.StringIO(text))
        document.modelspace()  # a damaged drawing may lack it
        return document
    except (ezdxf.DXFError, *_UNREADABLE) as error:
        reason = f"not a DXF drawing that can be read ({_shown(error)}); save it again as DXF"
        raise DiagramError("", reason) from error


def entities_by_layer(document: ezdxf.document.Drawing) -> dict[str, list[Any]]:
    """Lines and texts of a drawing, by the plain name of their layer. A block counts as its
    content, where it is inserted, and its attributes as texts there; its layer 0 is the layer of
    the block. Blocks on DOORS are symbols and left out."""
    layers: dict[str, list[Any]] = {}
    num_of_blocks = 0
    for layer, entity, depth in _open_blocks(document.modelspace(), "0", 0):
        # limit the content of blocks, counting repeated ones
        num_of_blocks += depth > 0
        is_block = entity.dxftype() == "INSERT"
        if num_of_blocks + (entity.mcount if is_block else 0) > _MOST_OF_BLOCKS:
            reason = f"more than {_MOST_OF_BLOCKS:,} lines and texts in blocks"
            remedy = "write the layers of its rooms to a file of their own"
            raise DiagramError("", f"{reason}; {remedy}")
        if not is_block:
            layers.setdefault(layer, []).append(entity)
    return layers


def _open_blocks(entities: Iterable[Any], above: str, depth: int) -> Iterator[tuple[str, Any, int]]:
    """Yield entities with layer and number of blocks around. ``above``: the block's own layer."""
    if depth > _DEEPEST:
        raise DiagramError("", f"more than {_DEEPEST} blocks inside one another; explode them")
    for entity in entities:
        if not entity.dxf.hasattr("layer"):
            continue
        # layer 0 of a block is the layer around it
        layer = entity.dxf.layer.upper()
        layer = above if layer == "0" else PLAIN_LAYERS.get(layer, layer)
        yield layer, entity, depth
        if entity.dxftype() != "INSERT" or layer == "DOORS" or entity.block() is None:
            continue
        # the content of a block, and of its copies in an array
        for insert in entity.multi_insert() if entity.mcount > 1 else (entity,):
            yield layer, insert, depth + 1  # counted even if it is empty
            # attributes lie at the insertion point
            place = insert.ocs().to_wcs(insert.dxf.insert)
            for attribute in insert.attribs:
                attribute.dxf.insert = attribute.ocs().from_wcs(place)
            yield from _open_blocks((*insert.attribs,), layer, depth)
            yield from _open_blocks(_entities_of_block(insert), layer, depth + 1)


def _entities_of_block(insert: Any) -> Iterator[Any]:
    """Lines and texts of an inserted block. Raises ``DiagramError`` for a damaged one."""
    try:
        yield from insert.virtual_entities()
    except (ezdxf.DXFError, *_UNREADABLE) as error:
        reason = f"its block {insert.dxf.name} cannot be read ({_shown(error)}); explode it"
        raise DiagramError("", reason) from error


def _shown(error: Exception) -> str:
    return " ".join(str(error)[:200].split()) or type(error).__name__


_CHORD = 5e-4  # largest distance of a chord from its arc, as a share of the polyline's size
_ROUNDING = 1e-9  # tolerance between an arc's end and the next corner, as such a share
_MOST_CORNERS = 10_000  # of a polyline, including the corners of chords
_FARTHEST = 1e12  # largest coordinate in units of the drawing; beyond it areas lose precision


def ring_of(entity: Any) -> shapely.Geometry | None:
    """Return a closed polyline as a polygon, with arcs as chords; None for other entities. Raises
    ``DiagramError`` if it crosses itself, has too many corners, or is too far from 0, 0."""
    from ezdxf.path import make_path

    # meshes are polylines too, but not outlines
    kind = entity.dxftype()
    is_polyline = kind == "POLYLINE" and (entity.is_2d_polyline or entity.is_3d_polyline)
    if kind != "LWPOLYLINE" and not is_polyline:
        return None
    where = f"the polyline on {entity.dxf.layer}"
    try:
        path = make_path(entity)
    except _UNREADABLE as error:
        raise DiagramError(where, f"its arcs cannot be drawn ({error})") from error
    # an open polyline, or one of two corners, encloses nothing
    corners = _corners_of_polyline(path, where)
    if len(corners) < 4 or not (entity.is_closed or path.is_closed):
        return None
    ring = shapely.Polygon(corners)
    if not ring.is_valid:
        raise DiagramError(_place_of(ring.envelope), "its outline crosses itself")
    return ring


def _corners_of_polyline(path: ezdxf.path.Path, where: str) -> list[Point]:
    """Corners without repetitions. The number of chords depends on the shape, not on its size."""
    # places of corners and of arcs' control points
    reached = [(point.x, point.y) for point in path.control_vertices()]
    if not all(abs(value) <= _FARTHEST for value in chain(*reached)):  # NaN is not
        reason = f"a corner or arc is farther than {_FARTHEST:g} units from 0, 0, or not a number"
        raise DiagramError(where, reason)
    # the size decides how close chords are to their arcs
    extent = max((max(axis) - min(axis) for axis in zip(*reached, strict=True)), default=0.0)
    if not extent:
        return []
    points = [*islice(path.flattening(_CHORD * extent), _MOST_CORNERS + 1)]
    if len(points) > _MOST_CORNERS:
        reason = f"more than {_MOST_CORNERS:,} corners, those of arcs included"
        raise DiagramError(where, f"{reason}; draw its outline with fewer")
    corners: list[Point] = []
    for point in points:
        corner = (point.x, point.y)
        if not corners or math.dist(corners[-1], corner) > _ROUNDING * extent:
            corners.append(corner)
    return corners


def _place_of(floor: shapely.Geometry) -> str:
    """Name of a room in errors: ``the room at (3.1, 4.2)``."""
    at = floor.representative_point()
    return f"the room at ({at.x:.1f}, {at.y:.1f})"


_TEXTS = ("TEXT", "MTEXT", "ATTRIB")

_MEASURE = re.compile(
    r"(?:\w{1,8}\s*[:=])?[\s\d.,+-]*(?:m\s?[2²]|m\^2|sqm|qm|sq\.?\s?(?:m|ft)|sf|ft2)?\.?", re.I
)
"""Pattern of a number or an area: ``20.0 m2``, ``A = 20,0 qm``, ``1.03``."""


def _read_tags(entity: Any) -> tuple[list[str], list[int]]:
    """Words and numbers of rooms that ``dxf_of`` gave an entity; the first word is its meaning."""
    tags = entity.get_xdata(APP) if entity.has_xdata(APP) else []
    words = [str(value) for code, value in tags if code == 1000]
    return words, [int(value) for code, value in tags if code == 1071]


def _names_of_floors(
    entities: Iterable[Any], floors: Mapping[int, shapely.Geometry], scale: float, names: OwnNames
) -> tuple[dict[int, str], list[Note]]:
    """Names of rooms by number, tagged or on the floor, and notes on rooms with several names."""
    noted: dict[int, str] = {}
    lines: dict[int, list[str]] = {}
    for entity in entities:
        if entity.dxftype() not in _TEXTS:
            continue
        # texts tagged with the number of a room
        is_long = getattr(entity, "has_embedded_mtext_entity", False)  # an attribute of lines
        text = entity.plain_mtext() if is_long else entity.plain_text()
        words, numbers = _read_tags(entity)
        if words[:1] == [LABEL] and len(numbers) == 1:
            first = (text.strip().splitlines() or [""])[0]
            noted[numbers[0]] = names.room_type(type_of_name(first, words[-1]))
            continue
        place = entity.dxf.insert
        # other texts belong to the smallest floor around them
        if entity.dxftype() != "MTEXT":  # an MTEXT is in world coordinates
            place = entity.ocs().to_wcs(place)
        at = shapely.Point(place.x * scale, place.y * scale)
        inside = [number for number, floor in floors.items() if floor.covers(at)]
        if inside:
            smallest = min(inside, key=lambda number: floors[number].area)
            own = [line.strip() for line in text.splitlines() if line.strip()]
            lines.setdefault(smallest, []).extend(own)
    # the name among the texts of each floor
    found, notes = {}, []
    for number, texts in lines.items():
        texts = [names.room_type(type_of_name(text)) for text in texts]
        types: dict[int, str] = {}
        for text in texts:
            with suppress(DiagramError):
                types.setdefault(room_code(text), text)
        # the first name of a type, or else the first text that is not a number or an area
        words = [text for text in texts if not _MEASURE.fullmatch(text)]
        found[number] = [*types.values(), *words, *texts, ""][0]
        if len(types) > 1 and number not in noted:
            what = f"{_place_of(floors[number])}: {', '.join(types.values())}"
            notes.append(Note("room with several names", what))
    return found | noted, notes


def _reason_without_name(
    number: int,
    floors: Mapping[int, shapely.Geometry],
    texts: Mapping[int, str],
    layers: Mapping[str, Sequence[Any]],
) -> str:
    """Reason for a room without a name, with a remedy."""
    reason = "no room type: on LABELS no text or attribute is inside its outline"
    inner = [k for k in texts if floors[k].within(floors[number])]
    if inner:
        return (
            f"{reason} and in no smaller one; the outline of {texts[inner[0]]!r} lies within it: "
            "if both are of one room, as the two faces of its walls, delete one; else give it a "
            "text of its own"
        )
    there = [layer for layer, each in layers.items() if any(e.dxftype() in _TEXTS for e in each)]
    return f"{reason}; the layers with texts are {', '.join(there) or 'none'}"
