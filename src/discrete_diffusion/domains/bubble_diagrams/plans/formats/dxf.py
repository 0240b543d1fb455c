"""DXF: a plan as a drawing for CAD, in metres, y upwards, a layer for each kind of line."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from discrete_diffusion.domains.bubble_diagrams.plans.door import FRONT_DOOR
from discrete_diffusion.domains.bubble_diagrams.plans.floor_plan import FloorPlan
from discrete_diffusion.domains.bubble_diagrams.plans.formats.drawing_style import DrawingStyle
from discrete_diffusion.domains.bubble_diagrams.plans.formats.drawn_plan import (
    drawn_floor,
    flipped,
)
from discrete_diffusion.domains.bubble_diagrams.plans.formats.embedded_json import (
    WRITTEN,
    written_text,
)

if TYPE_CHECKING:
    from ezdxf.document import Drawing as Document
    from shapely.geometry.base import BaseGeometry

LAYERS = {"OUTLINE": 8, "ROOMS": 9, "WALLS": 7, "DOORS": 30, "LABELS": 3}
"""Layer -> its colour. BOUNDARY takes the place of OUTLINE in a plan that has a boundary."""

BOUNDARY = "BOUNDARY"
APP = WRITTEN.upper()
"""The name of what is ours in the file."""

FLOOR, HOLE, DOOR, LABEL = "floor", "hole", "door", "label"
"""Tags for what a polyline, line or text stands for, with the number of its room."""

_WALL_WEIGHT = 50
"""Hundredths of a millimetre on paper."""

_REACH = 0.01
"""Metres by which an opening is deeper than its wall."""

_LETTER, _LETTER_WIDTH = 0.25, 0.7
"""The height of letters in metres, and their width in heights."""

_MARGIN, _NARROWEST_WINDOW = 0.1, 1.2
"""Size of the view when the file is opened: what is free around the plan, a share of its height;
and the width of a window in its heights."""

_CHUNK = 250
"""Characters of a string that every reader of DXF takes."""


def dxf_of(plan: FloorPlan, style: DrawingStyle) -> str:
    """Layers ROOMS (the floors, closed polylines), WALLS (open at doors), DOORS, LABELS (room types
    and square metres) and BOUNDARY, or OUTLINE where the plan has no boundary.

    The plan's own JSON is a record of the file, DISCRETE_DIFFUSION, which CAD programs keep.
    """
    import ezdxf
    from ezdxf import units
    from shapely import union_all

    document = ezdxf.new("R2010")
    document.units = units.M  # $INSUNITS = 6
    document.appids.add(APP)
    outline = "OUTLINE" if plan.boundary is None else BOUNDARY
    for name, colour in LAYERS.items():
        document.layers.add(outline if name == "OUTLINE" else name, color=colour)
    document.layers.get("WALLS").dxf.lineweight = _WALL_WEIGHT
    _draw_ring(document, outline, flipped(plan.outline).exterior)
    for k in range(plan.diagram.num_rooms):
        _draw_room(document, plan, k)
    for wall in _walls(plan):
        document.modelspace().add_lwpolyline(
            list(flipped(wall).coords), dxfattribs={"layer": "WALLS"}
        )
    for door in plan.doors:
        (x0, y0), (x1, y1) = door.start, door.end
        line = document.modelspace().add_line(
            (x0, 0.0 - y0), (x1, 0.0 - y1), dxfattribs={"layer": "DOORS"}
        )
        line.set_xdata(APP, [(1000, DOOR), *((1071, room) for room in door.rooms)])
    # A backslash may begin a code of DXF, so JSON writes it as its own escape.
    text = json.dumps(written_text(plan)).replace("\\\\", "\\u005c")
    chunks = [text[start : start + _CHUNK] for start in range(0, len(text), _CHUNK)]
    document.rootdict.add_xrecord(APP).reset([(1, chunk) for chunk in chunks])
    _show(document, flipped(plan.outline).union(flipped(union_all(plan.boxes))).bounds)
    file = io.StringIO()
    document.write(file)
    return file.getvalue()


def _show(document: Document, bounds: tuple[float, ...]) -> None:
    """Open on what is drawn: extents and limits of the drawing, and a view somewhat larger."""
    x0, y0, x1, y1 = bounds
    document.modelspace().reset_extents((x0, y0, 0), (x1, y1, 0))
    document.modelspace().reset_limits((x0, y0), (x1, y1))
    for name, corner in (("MIN", (x0, y0)), ("MAX", (x1, y1))):
        document.header[f"$EXT{name}"] = (*corner, 0)
        document.header[f"$LIM{name}"] = corner
    height = max(y1 - y0, (x1 - x0) / _NARROWEST_WINDOW) * (1 + _MARGIN)
    document.set_modelspace_vport(height, ((x0 + x1) / 2, (y0 + y1) / 2))


def _draw_ring(document: Document, layer: str, ring: BaseGeometry, *about: Any) -> None:
    """A closed polyline; ``about``: what it stands for, and its room."""
    line = document.modelspace().add_lwpolyline(
        list(ring.coords)[:-1], close=True, dxfattribs={"layer": layer}
    )
    if about:
        kind, number = about
        line.set_xdata(APP, [(1000, kind), (1071, number)])


def _draw_room(document: Document, plan: FloorPlan, number: int) -> None:
    """The floor with its holes, and the label on it."""
    import shapely
    from ezdxf.enums import MTextEntityAlignment

    floor = flipped(drawn_floor(plan, number))
    for part in shapely.get_parts(floor):
        _draw_ring(document, "ROOMS", part.exterior, FLOOR, number)
        for hole in part.interiors:
            _draw_ring(document, "ROOMS", hole, HOLE, number)
    name = plan.diagram.room_names[number]
    x0, _, x1, _ = floor.bounds
    height = min(_LETTER, (x1 - x0) / (_LETTER_WIDTH * len(name)))
    label = document.modelspace().add_mtext(
        f"{name}\\P{plan.areas[number]:.2f} m²",
        dxfattribs={"layer": "LABELS", "char_height": height or _LETTER},
    )
    at = floor.representative_point()
    label.set_location((at.x, at.y), attachment_point=MTextEntityAlignment.MIDDLE_CENTER)
    label.set_xdata(APP, [(1000, LABEL), (1071, number)])


def _walls(plan: FloorPlan) -> Iterator[BaseGeometry]:
    """The lines around the floors, once where two rooms share one, without the openings."""
    import shapely

    floors = [drawn_floor(plan, k) for k in range(plan.diagram.num_rooms)]
    openings = []
    for door in plan.doors:
        line = shapely.LineString([door.start, door.end])
        inside = [floors[room] for room in door.rooms if room != FRONT_DOOR]
        reach = max(line.distance(floor) for floor in inside) + _REACH
        openings.append(line.buffer(reach, cap_style="flat"))
    lines = shapely.union_all([floor.boundary for floor in floors])
    walls = shapely.line_merge(lines.difference(shapely.union_all(openings)))
    yield from shapely.get_parts(walls)
