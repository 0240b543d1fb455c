"""DXF: a plan as a CAD drawing in metres, y upwards, with a layer for each kind of line."""

from __future__ import annotations

import io
import json
import math
from itertools import pairwise
from typing import Any

from floor_plans.drawings.drawn_parts import EMBEDDED, DrawingStyle, embedded_json, names_of_rooms
from floor_plans.drawings.drawn_plan import drawn_floor, flip_point, flip_y
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.plans.libraries import ezdxf, shapely
from floor_plans.plans.site import site_of_plan
from floor_plans.plans.walls import clear_areas
from floor_plans.solver.shapes import PlanShapes, dimension_lines

LAYERS = {
    "OUTLINE": (8, "A-FLOR-OTLN"),
    "BOUNDARY": (8, "C-PROP"),
    "SITE": (8, "C-PROP-LINE"),
    "SETBACKS": (8, "C-PROP-SBCK"),
    "ROOMS": (9, "A-AREA"),
    "WALLS": (7, "A-WALL"),
    "DOORS": (30, "A-DOOR"),
    "WINDOWS": (4, "A-GLAZ"),
    "RAILINGS": (8, "A-FLOR-HRAL"),
    "DIMENSIONS": (8, "A-ANNO-DIMS"),
    "LABELS": (7, "A-AREA-IDEN"),
}
"""Colour of each layer, and its name in the guidelines of the American Institute of Architects. A
plan with a boundary has BOUNDARY instead of OUTLINE; one with a site SITE and SETBACKS as well."""

PLAIN_LAYERS = {aia: plain for plain, (_, aia) in LAYERS.items()}

BOUNDARY = "BOUNDARY"
_OF_SITES = ["SITE", "SETBACKS"]
APP = EMBEDDED.upper()  # name of our records in the file

FLOOR, HOLE, DOOR, LABEL = "floor", "hole", "door", "label"
"""Tags for the meaning of a polyline, line or text, followed by the number of its room."""

_WALL_WEIGHT = 50  # width of wall lines on paper, in hundredths of a millimetre

_LETTER, _LETTER_WIDTH, _LINES = 0.25, 0.8, 2.0
"""Height of letters in metres, their width in heights, and half the height of two lines."""

_FIRST_LINE, _NEXT_LINE = 1.0, 0.6
"""Metres from a plan to its first line of dimensions, and between lines."""

_DIMENSIONS = {
    "dimtxt": 0.18,  # height of figures
    "dimtsz": 0.09,  # oblique ticks
    "dimexo": 0.25,
    "dimexe": 0.1,
    "dimgap": 0.06,
    "dimtad": 1,  # figures above the line
    "dimtih": 0,  # and along it
    "dimdec": 2,
    "dimzin": 0,  # with all zeros
    "dimlunit": 2,
    "dimdsep": 46,
    **dict.fromkeys(("dimclrd", "dimclre", "dimclrt"), 8),
}
"""Variables of the dimension style, in metres."""

_SWUNG, _THICK = "DOOR", 0.05  # block of a door that is 1 m wide, and the thickness of its leaf

_MARGIN, _NARROWEST_WINDOW = 0.1, 1.2
"""Margin of the initial view in heights of the plan, and the least width of a window in heights."""

_CHUNK = 250  # characters of a string that every reader of DXF accepts


def dxf_of(plan: FloorPlan, style: DrawingStyle) -> str:
    """Write a plan as DXF.

    Layers: WALLS (closed polylines, open at doors and windows), DOORS (their openings as lines, and
    blocks with leaf and arc), WINDOWS (a proposal), RAILINGS, DIMENSIONS, LABELS (names, and square
    metres between walls), ROOMS (floors up to the middle of walls, closed polylines; not plotted)
    and BOUNDARY, or OUTLINE for a plan without a boundary; SITE, and SETBACKS within it. The plan's
    own JSON is a record, DISCRETE_DIFFUSION, which CAD programs keep.
    """
    from ezdxf import bbox

    sheet = _Sheet(plan, style)
    outline = "OUTLINE" if plan.boundary is None else BOUNDARY
    sheet.ring(outline, flip_y(plan.outline).exterior)
    for layer, land in zip(_OF_SITES, sheet.site, strict=False):
        sheet.polygons(layer, land)
    for k in range(plan.diagram.num_rooms):
        sheet.room(k)
    sheet.polygons("WALLS", sheet.shapes.walls)
    sheet.polygons("RAILINGS", sheet.shapes.railings)
    sheet.doors()
    sheet.windows()
    sheet.dimensions()
    document = sheet.document
    # the embedded JSON; a backslash may begin a code of DXF, so JSON escapes it
    text = json.dumps(embedded_json(plan)).replace("\\\\", "\\u005c")
    chunks = [text[start : start + _CHUNK] for start in range(0, len(text), _CHUNK)]
    document.rootdict.add_xrecord(APP).reset([(1, chunk) for chunk in chunks])
    # extents and limits, and a view with a margin
    space = document.modelspace()
    drawn = bbox.extents(space, fast=True)
    (x0, y0, _), (x1, y1, _) = drawn.extmin, drawn.extmax
    space.reset_extents((x0, y0, 0), (x1, y1, 0))
    space.reset_limits((x0, y0), (x1, y1))
    for name, corner in (("MIN", (x0, y0)), ("MAX", (x1, y1))):
        document.header[f"$EXT{name}"] = (*corner, 0)
        document.header[f"$LIM{name}"] = corner
    height = max(y1 - y0, (x1 - x0) / _NARROWEST_WINDOW) * (1 + _MARGIN)
    document.set_modelspace_vport(height, ((x0 + x1) / 2, (y0 + y1) / 2))
    file = io.StringIO()
    document.write(file)
    return file.getvalue()


class _Sheet:
    """Drawing that a plan is put on, part by part."""

    def __init__(self, plan: FloorPlan, style: DrawingStyle) -> None:
        from ezdxf import units

        self.plan, self.style, self.shapes = plan, style, PlanShapes(plan)
        self.names = [name.whole for name in names_of_rooms(plan, style.language)]
        self.areas = clear_areas(plan)
        # a document in metres, with its layers
        self.document = ezdxf.new("R2010")
        self.document.units = units.M  # $INSUNITS = 6
        self.document.appids.add(APP)
        self.space = self.document.modelspace()
        self.site = site_of_plan(plan) or ()
        unused = {"OUTLINE" if plan.boundary is not None else BOUNDARY}
        unused |= set() if self.site else {*_OF_SITES}
        for name, (colour, _) in LAYERS.items():
            if name not in unused:
                layer = self.document.layers.add(self.layer(name), color=colour)
                layer.dxf.plot = int(name not in ("ROOMS", "OUTLINE"))
        self.document.layers.get(self.layer("WALLS")).dxf.lineweight = _WALL_WEIGHT
        if self.site:
            self.document.linetypes.add("DASHED", [0.75, 0.5, -0.25])
            self.document.layers.get(self.layer("SETBACKS")).dxf.linetype = "DASHED"
        # styles of texts and dimensions, and the block of a door
        self.document.styles.add("PLAN", font="arial.ttf")
        self.document.dimstyles.new("PLAN", dxfattribs=_DIMENSIONS | {"dimtxsty": "PLAN"})
        block = self.document.blocks.new(_SWUNG)
        leaf = [(0, 0), (_THICK, 0), (_THICK, 1), (0, 1)]
        block.add_lwpolyline(leaf, close=True)
        block.add_arc((0, 0), radius=1, start_angle=0, end_angle=90)

    def layer(self, name: str) -> str:
        """Name of a layer in the chosen set."""
        return LAYERS[name][1] if self.style.layers == "aia" else name

    def ring(self, layer: str, ring: shapely.Geometry, *about: Any) -> None:
        """Add a closed polyline. ``about``: tag of its meaning, and number of its room."""
        look = {"layer": self.layer(layer)}
        line = self.space.add_lwpolyline(list(ring.coords)[:-1], close=True, dxfattribs=look)
        if about:
            kind, number = about
            line.set_xdata(APP, [(1000, kind), (1071, number)])

    def polygons(self, layer: str, shape: shapely.Geometry, *, number: int | None = None) -> None:
        """Add the rings of polygons. ``number``: the room whose floor they are."""
        for part in shapely.get_parts(flip_y(shape)):
            for kind, rings in ((FLOOR, [part.exterior]), (HOLE, part.interiors)):
                for ring in rings:
                    self.ring(layer, ring, *(() if number is None else (kind, number)))

    def room(self, number: int) -> None:
        """Add a floor with its holes, and the label on it, as large as fits."""
        from ezdxf.enums import MTextEntityAlignment

        floor = drawn_floor(self.plan, number)
        self.polygons("ROOMS", floor, number=number)
        parts = shapely.get_parts(self.shapes.free_floor(number))
        # the label is in the middle of the free floor, at the height of its inscribed circle
        free = [part for part in parts if part.area > 0]
        around = flip_y(max(free, key=lambda part: part.area, default=floor))
        inscribed = shapely.maximum_inscribed_circle(around, tolerance=0.05)
        x0, _, x1, _ = around.bounds
        y = inscribed.coords[0][1]
        across = shapely.LineString([(x0 - 1, y), (x1 + 1, y)]).intersection(around)
        across = max(shapely.get_parts(across), key=lambda part: part.length)
        at, name = across.interpolate(0.5, normalized=True), self.names[number]
        # its letters are as large as the width allows
        text = [name, f"{self.areas[number]:.2f} m²"]
        longest = _LETTER_WIDTH * max(map(len, text))
        height = min(_LETTER, across.length / longest, inscribed.length / _LINES)
        look = {"layer": self.layer("LABELS"), "char_height": height, "style": "PLAN"}
        label = self.space.add_mtext("\\P".join(text), dxfattribs=look)
        label.set_location((at.x, at.y), attachment_point=MTextEntityAlignment.MIDDLE_CENTER)
        kind = self.plan.diagram.room_names[number]
        label.set_xdata(APP, [(1000, LABEL), (1071, number), (1000, kind)])

    def doors(self) -> None:
        """Add the opening of each door as a line in mid-wall, then leaves, arcs and panes."""
        on_layer = {"layer": self.layer("DOORS")}
        for door in self.plan.doors:
            start, end = flip_point(door.start), flip_point(door.end)
            line = self.space.add_line(start, end, dxfattribs=on_layer)
            line.set_xdata(APP, [(1000, DOOR), *((1071, room) for room in door.rooms)])
        # a leaf is a block, scaled, mirrored and rotated
        for swing in self.shapes.swings:
            hinge, shut = flip_point(swing.leaf[0]), flip_point(swing.arc[-1])
            width, x, y = math.dist(hinge, shut), shut[0] - hinge[0], shut[1] - hinge[1]
            scale = {"xscale": width, "yscale": width if swing.is_left else -width, "zscale": width}
            turned = {"rotation": math.degrees(math.atan2(y, x))}
            self.space.add_blockref(_SWUNG, hinge, dxfattribs=on_layer | scale | turned)
        for pane in self.shapes.panes:
            self.polygons("DOORS", shapely.Polygon(pane))

    def windows(self) -> None:
        """Add the break in the wall with a line along either face, and the glass in the middle."""
        for window, opening in zip(self.shapes.windows, self.shapes.glazed, strict=True):
            self.polygons("WINDOWS", opening)
            ends = flip_point(window.start), flip_point(window.end)
            self.space.add_line(*ends, dxfattribs={"layer": self.layer("WINDOWS")})

    def dimensions(self) -> None:
        """Add the lines of dimensions."""
        x0, y0, x1, y1 = flip_y(self.shapes.solid).bounds
        look: dict[str, Any] = {"dxfattribs": {"layer": self.layer("DIMENSIONS")}}
        for line in dimension_lines(self.shapes, chained=True):
            away = _FIRST_LINE + line.number * _NEXT_LINE
            if line.axis == 0:
                side = y0 if line.far else y1
                base = (0, side - away if line.far else side + away)
                marks = [(x, side) for x in line.stops]
            else:
                side = x1 if line.far else x0
                base = (side + away if line.far else side - away, 0)
                marks = [(side, 0.0 - y) for y in reversed(line.stops)]
            look |= {"angle": 90 * line.axis, "dimstyle": "PLAN"}
            for first, last in pairwise(marks):
                self.space.add_linear_dim(base, first, last, **look).render()
