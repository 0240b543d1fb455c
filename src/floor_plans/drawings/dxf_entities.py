"""Entities of a DXF drawing by layer: blocks are opened, closed polylines are polygons, texts name
rooms."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from floor_plans.diagrams.files.fields import DiagramError, OwnNames, room_code
from floor_plans.diagrams.files.records import Note
from floor_plans.drawings.drawn_parts import type_of_name
from floor_plans.drawings.dxf import APP, LABEL, PLAIN_LAYERS
from floor_plans.plans.floor_plan import Point

if TYPE_CHECKING:
    from ezdxf.document import Drawing as Document
    from ezdxf.path import Path
    from shapely.geometry.base import BaseGeometry

_MOST_OF_BLOCKS, _DEEPEST = 50_000, 16
"""Most entities of all blocks together, and most levels of nested blocks."""


def read_document(content: bytes) -> Document:
    """Read a drawing; raise ``DiagramError`` if it is damaged.

    ``ezdxf.recover`` is not used, since it would read 5.9 for a damaged "5.9]625".
    """
    import ezdxf
    from ezdxf.filemanagement import dxf_stream_info

    try:
        # decode the text as its header says
        info = dxf_stream_info(io.StringIO(content.decode("latin-1")))
        text = content.decode(info.encoding, errors="surrogateescape")
        document = ezdxf.read(io.StringIO(text))
        document.modelspace()  # a damaged drawing may lack it
        return document
    except (ezdxf.DXFError, *UNREADABLE) as error:
        shown = " ".join(str(error)[:200].split()) or type(error).__name__
        raise DiagramError(
            "", f"not a DXF drawing that can be read ({shown}); save it again as DXF"
        ) from error


def entities_by_layer(document: Document) -> dict[str, list[Any]]:
    """Lines and texts of a drawing, by the plain name of their layer.

    A block counts as its content, where it is inserted. Its content on layer 0 is on the layer of
    the block. Attributes of a block are texts at its insertion point. Blocks on DOORS are symbols,
    and their lines are left out.
    """
    layers: dict[str, list[Any]] = {}
    num_of_blocks = 0
    for layer, entity, depth in _opened(document.modelspace(), "0", 0):
        # limit the content of blocks, counting repeated ones
        num_of_blocks += depth > 0
        is_block = entity.dxftype() == "INSERT"
        if num_of_blocks + (entity.mcount if is_block else 0) > _MOST_OF_BLOCKS:
            raise DiagramError(
                "",
                f"more than {_MOST_OF_BLOCKS:,} lines and texts in blocks; write the layers of its "
                "rooms to a file of their own",
            )
        if not is_block:
            layers.setdefault(layer, []).append(entity)
    return layers


def _opened(entities: Iterable[Any], above: str, depth: int) -> Iterator[tuple[str, Any, int]]:
    """Yield entities with their layer and number of surrounding blocks, each block before its
    content. ``above``: the layer of the innermost block."""
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
            yield from _opened((*insert.attribs,), layer, depth)
            yield from _opened(_content(insert), layer, depth + 1)


def _content(insert: Any) -> Iterator[Any]:
    """Lines and texts of an inserted block. Raises ``DiagramError`` for a damaged one."""
    import ezdxf

    try:
        yield from insert.virtual_entities()
    except (ezdxf.DXFError, *UNREADABLE) as error:
        shown = " ".join(str(error)[:200].split()) or type(error).__name__
        raise DiagramError(
            "", f"its block {insert.dxf.name} cannot be read ({shown}); explode it"
        ) from error


UNREADABLE = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, OSError, RecursionError),
    *(StopIteration, TypeError, ValueError),
)
"""Exceptions that ezdxf raises for a damaged drawing, in addition to its own."""

_CHORD = 5e-4
"""Largest distance of a chord from its arc, as a share of the size of the polyline."""

_MOST_CORNERS = 10_000
"""Most corners of a polyline, including the corners of chords."""

_ROUNDING = 1e-9
"""Tolerance between an arc's end and the next corner, as a share of the size of the polyline."""

_FARTHEST = 1e12
"""Largest coordinate in units of the drawing; beyond it areas lose precision."""


def ring_of(entity: Any) -> BaseGeometry | None:
    """Return a closed polyline as a polygon, with arcs as chords; None for other entities.

    Raises ``DiagramError`` if it crosses itself, has too many corners, or is too far from 0, 0.
    """
    from ezdxf.path import make_path
    from shapely import Polygon

    # meshes are polylines too, but not outlines
    is_mesh = entity.dxftype() == "POLYLINE" and not (
        entity.is_2d_polyline or entity.is_3d_polyline
    )
    if entity.dxftype() not in ("LWPOLYLINE", "POLYLINE") or is_mesh:
        return None
    try:
        path = make_path(entity)
    except UNREADABLE as error:
        raise DiagramError(_named(entity), f"its arcs cannot be drawn ({error})") from error
    # an open polyline, or one of two corners, encloses nothing
    corners = _corners(path, entity)
    if len(corners) < 4 or not (entity.is_closed or path.is_closed):
        return None
    ring = Polygon(corners)
    if not ring.is_valid:
        raise DiagramError(place_of(ring.envelope), "its outline crosses itself")
    return ring


def _corners(path: Path, entity: Any) -> list[Point]:
    """Corners of a polyline without repetitions. The number of chords depends on the shape, not
    on the size of its numbers."""
    # places of corners and of arcs' control points
    reached = [(point.x, point.y) for point in path.control_vertices()]
    if not all(abs(value) <= _FARTHEST for value in chain(*reached)):  # NaN is not
        raise DiagramError(
            _named(entity),
            f"a corner or arc is farther than {_FARTHEST:g} units from 0, 0, or not a number",
        )
    # the size decides how close chords are to their arcs
    extent = max((max(axis) - min(axis) for axis in zip(*reached, strict=True)), default=0.0)
    if not extent:
        return []
    points = [*islice(path.flattening(_CHORD * extent), _MOST_CORNERS + 1)]
    if len(points) > _MOST_CORNERS:
        raise DiagramError(
            _named(entity),
            f"more than {_MOST_CORNERS:,} corners, those of arcs included; draw its outline with "
            "fewer",
        )
    # without repeated corners
    corners: list[Point] = []
    for point in points:
        corner = (point.x, point.y)
        if not corners or math.dist(corners[-1], corner) > _ROUNDING * extent:
            corners.append(corner)
    return corners


def _named(entity: Any) -> str:
    """Name of an entity in errors: ``the polyline on PLOT``."""
    return f"the polyline on {entity.dxf.layer}"


def place_of(floor: BaseGeometry) -> str:
    """Name of a room in errors: ``the room at (3.1, 4.2)``."""
    at = floor.representative_point()
    return f"the room at ({at.x:.1f}, {at.y:.1f})"


SEVERAL_NAMES = "room with several names"
"""Note on a room whose texts name several types; the first one counts."""

_TEXTS = ("TEXT", "MTEXT", "ATTRIB")

_MEASURE = re.compile(
    r"(?:\w{1,8}\s*[:=])?[\s\d.,+-]*(?:m\s?[2²]|m\^2|sqm|qm|sq\.?\s?(?:m|ft)|sf|ft2)?\.?", re.I
)
"""Pattern of a number or an area: ``20.0 m2``, ``A = 20,0 qm``, ``1.03``."""


def read_tags(entity: Any) -> tuple[str | None, list[int]]:
    """Tags that ``dxf_of`` gave an entity: its meaning, and the numbers of its rooms."""
    if not entity.has_xdata(APP):
        return None, []
    tags = entity.get_xdata(APP)
    kind = next((str(value) for code, value in tags if code == 1000), None)
    return kind, [int(value) for code, value in tags if code == 1071]


def names_of_floors(
    entities: Iterable[Any], floors: Mapping[int, BaseGeometry], scale: float, names: OwnNames
) -> tuple[dict[int, str], list[Note]]:
    """Names of rooms by number, from the text with that number or the texts on the floor, and notes
    on rooms with several names."""
    from shapely import Point

    noted: dict[int, str] = {}
    lines: dict[int, list[str]] = {}
    for entity in entities:
        if entity.dxftype() not in _TEXTS:
            continue
        # texts tagged with the number of a room
        is_long = getattr(entity, "has_embedded_mtext_entity", False)  # an attribute of lines
        text = entity.plain_mtext() if is_long else entity.plain_text()
        kind, numbers = read_tags(entity)
        if kind == LABEL and len(numbers) == 1:
            kinds = [str(value) for code, value in entity.get_xdata(APP) if code == 1000]
            first = (text.strip().splitlines() or [""])[0]
            noted[numbers[0]] = names.room_type(type_of_name(first, kinds[-1]))
            continue
        place = entity.dxf.insert
        # other texts belong to the smallest floor around them
        if entity.dxftype() != "MTEXT":  # an MTEXT is in world coordinates
            place = entity.ocs().to_wcs(place)
        at = Point(place.x * scale, place.y * scale)
        inside = [number for number, floor in floors.items() if floor.covers(at)]
        if inside:
            smallest = min(inside, key=lambda number: floors[number].area)
            own = [line.strip() for line in text.splitlines() if line.strip()]
            lines.setdefault(smallest, []).extend(own)
    # the name among the texts of each floor
    found, notes = {}, []
    for number, texts in lines.items():
        found[number], further = _name_among(
            [names.room_type(type_of_name(text)) for text in texts]
        )
        if further and number not in noted:
            listed = ", ".join((found[number], *further))
            notes.append(Note(SEVERAL_NAMES, f"{place_of(floors[number])}: {listed}"))
    return found | noted, notes


def _name_among(texts: Sequence[str]) -> tuple[str, list[str]]:
    """Return the first text with the name of a room type, and further texts with other types. If no
    text names a type, the first text that is more than a number or an area."""
    known: dict[int, str] = {}
    for text in texts:
        with suppress(DiagramError):
            known.setdefault(room_code(text), text)
    if known:
        first, *others = known.values()
        return first, others
    words = [text for text in texts if not _MEASURE.fullmatch(text)]
    return (words or texts or [""])[0], []


def reason_without_name(
    number: int,
    floors: Mapping[int, BaseGeometry],
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
