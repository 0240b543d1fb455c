"""IFC 4: a plan as a building of one storey, with spaces, walls, doors and windows."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from discrete_diffusion.runtime import install_command
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.drawings.drawn_parts import DrawingStyle, names_of_rooms
from floor_plans.drawings.drawn_plan import flip_point, flip_y
from floor_plans.drawings.ifc_model import Frame, IfcModel
from floor_plans.plans.doors import Swing, door_space
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.solver.shapes import HEIGHT, SILL, PlanShapes, window_space

if TYPE_CHECKING:
    from shapely import Geometry, Polygon

    from floor_plans.plans.floor_plan import Door, Point

DOOR_HEIGHT, RAILING_HEIGHT = 2.1, 1.0
"""Heights in metres."""

_LEAF, _GLASS = 0.05, 0.06
"""Thickness of a door's leaf and of a window in its frame, metres."""
_THROUGH = 0.05
"""Metres that the solid of an opening extends beyond its wall."""
_SPECK = 1e-4
"""Areas up to this count as zero, square metres."""


def ifc_of(plan: FloorPlan, style: DrawingStyle) -> str:
    """Write a plan as IFC: project, site, building and storey, and on it a space for each room,
    walls, doors, windows (a proposal) and railings. Lengths are in metres, y upwards; walls are
    straight pieces with openings.

    The solid of a space is the free floor between the walls. Its quantities
    (``Qto_SpaceBaseQuantities``) NetFloorArea, NetPerimeter and NetVolume belong to this solid.
    GrossFloorArea and GrossPerimeter belong to the plan's floor, up to the middle of the walls.

    Ids are derived from the plan, so the same plan yields the same file. Raises ``DiagramError``
    without the extra ``ifc``.
    """
    check_ifc()
    return _Building(plan, style).model.text()


def check_ifc() -> None:
    """Raise ``DiagramError`` naming the extra ``ifc`` if it is missing."""
    if find_spec("ifcopenshell") is None:
        raise DiagramError(
            "",
            f"IFC files need ifcopenshell, which is not installed: {install_command('ifc')}",
        )


class _Building:
    """Building of one storey, in ``model``."""

    def __init__(self, plan: FloorPlan, style: DrawingStyle) -> None:
        text = json.dumps(plan.to_json(), sort_keys=True)
        self.plan, self.style, self.shapes = plan, style, PlanShapes(plan)
        self.model = model = IfcModel(text, plan.north)
        self.elements: list[Any] = []
        self.storey = self._storey(str(plan.diagram.metadata.get("name") or "Floor plan"))
        # spaces and walls
        spaces = [self._space(k) for k in range(plan.diagram.num_rooms)]
        self._aggregate(self.storey, [space for space in spaces if space is not None])
        self.walls = [self._wall(piece) for piece in wall_pieces(flip_y(self.shapes.solid))]
        # doors and windows, each in an opening of its wall
        for k, swing in enumerate(self.shapes.swings):
            self._door(f"{k + 1}", swing.door, swing)
        for k, door in enumerate(self.shapes.sliding):
            self._door(f"sliding {k + 1}", door, None)
        for k in range(len(self.shapes.windows)):
            self._window(k)
        self._railings()
        model.add(
            "IfcRelContainedInSpatialStructure",
            "elements",
            RelatedElements=self.elements,
            RelatingStructure=self.storey,
        )

    def _storey(self, name: str) -> Any:
        """Add project, site, building and storey, each part of the one before."""
        model = self.model
        # the project, with its units
        project = model.add(
            "IfcProject",
            "project",
            Name=name,
            RepresentationContexts=[model.world],
            UnitsInContext=model.units(),
        )
        # site, building and storey, one in another
        above, placement = project, None
        for kind, own in (("IfcSite", "Site"), ("IfcBuilding", name), ("IfcBuildingStorey", "0")):
            placement = model.place(Frame(), placement)
            part = model.add(
                kind, "0", Name=own, ObjectPlacement=placement, CompositionType="ELEMENT"
            )
            self._aggregate(above, [part])
            above = part
        above.Elevation = 0.0
        return above

    def _aggregate(self, whole: Any, parts: list[Any]) -> None:
        """Make entities parts of a whole."""
        self.model.add(
            "IfcRelAggregates", whole.GlobalId, RelatingObject=whole, RelatedObjects=parts
        )

    def _element(
        self, kind: str, name: str, frame: Frame, bodies: list[Polygon], height: float, **more: Any
    ) -> Any:
        """Add an element with a body. ``within``: the placement it is relative to, by default the
        storey's."""
        within = more.pop("within", self.storey.ObjectPlacement)
        return self.model.add(
            kind,
            name,
            **({"Name": name} | more),
            ObjectPlacement=self.model.place(frame, within),
            Representation=self.model.body(frame, bodies, height),
        )

    def _space(self, room: int) -> Any:
        """Add the space of a room; None if its walls leave no floor."""
        import shapely

        gross, shapes = self.shapes.floors[room], self.shapes
        # net floor: without walls and railings
        net = flip_y(gross.difference(shapely.union_all([shapes.solid, shapes.railings])))
        parts = [part for part in shapely.get_parts(net) if part.area > _SPECK]
        if not parts:
            return None
        height, area = self.style.storey, sum(part.area for part in parts)
        outside = self.plan.diagram.room_names[room] == "Balcony"
        space = self._element(
            "IfcSpace",
            f"{room + 1}",
            Frame(),
            parts,
            height,
            LongName=names_of_rooms(self.plan, self.style.language)[room],
            CompositionType="ELEMENT",
            PredefinedType="EXTERNAL" if outside else "INTERNAL",
        )
        # gross quantities include half the walls
        quantities = {
            "Height": ("Length", height),
            "GrossPerimeter": ("Length", gross.length),
            "NetPerimeter": ("Length", sum(part.length for part in parts)),
            "GrossFloorArea": ("Area", gross.area),
            "NetFloorArea": ("Area", area),
            "NetVolume": ("Volume", area * height),
        }
        self.model.quantities(space, "Qto_SpaceBaseQuantities", quantities)
        return space

    def _wall(self, piece: Polygon) -> tuple[Any, Polygon]:
        """Add a piece of wall, with its x-axis along it."""
        x0, y0, x1, y1 = piece.bounds
        frame = Frame(x0, y0) if x1 - x0 >= y1 - y0 else Frame(x1, y0, 0.0, 1.0)
        number = f"{len(self.elements) + 1}"
        wall = self._element(
            "IfcWall", number, frame, [piece], self.style.storey, PredefinedType="SOLIDWALL"
        )
        outside = piece.distance(flip_y(self.shapes.shell).boundary) < _SPECK
        self.model.properties(wall, "Pset_WallCommon", {"IsExternal": bool(outside)})
        self.elements.append(wall)
        return wall, piece

    def _openings(self, name: str, space: Polygon, frame: Frame, height: float) -> list[Any]:
        """Add an opening to each piece of wall that ``space`` crosses. Returns them, the largest
        first."""
        from shapely import Polygon, box

        found = []
        for wall, piece in self.walls:
            # pieces of wall that the space crosses
            cut = piece.intersection(space)
            if cut.area < _SPECK:
                continue
            # the opening in the frame of the door or window
            local = frame.local(cut.envelope.exterior.coords)
            (low, high), (near, far) = ((min(side), max(side)) for side in zip(*local, strict=True))
            corners = box(low, near - _THROUGH, high, far + _THROUGH).exterior.coords
            own = f"{name}, wall {wall.Name}"
            opening = self._element(
                "IfcOpeningElement",
                own,
                frame,
                [Polygon(frame.on_storey(corners))],
                height,
                within=wall.ObjectPlacement,
                PredefinedType="OPENING",
            )
            # void the wall
            self.model.add(
                "IfcRelVoidsElement",
                own,
                RelatingBuildingElement=wall,
                RelatedOpeningElement=opening,
            )
            found.append((cut.area, opening))
        return [opening for _, opening in sorted(found, key=lambda each: -each[0])]

    def _door(self, number: str, door: Door, swing: Swing | None) -> None:
        """Add a door. In the frame of its opening it opens towards y, with its hinge to the left or
        right."""
        start, end = flip_point(door.start), flip_point(door.end)
        kind, name = "SLIDING_TO_LEFT", f"door {number}"
        # orient the frame so that the leaf opens towards y
        if swing is not None:
            hinge, leaf = map(flip_point, swing.leaf)
            other = end if hinge == start else start
            opens = (leaf[0] - hinge[0], leaf[1] - hinge[1])
            along = (other[0] - hinge[0], other[1] - hinge[1])
            is_left = along[0] * opens[1] - along[1] * opens[0] > 0
            start, end = (hinge, other) if is_left else (other, hinge)
            kind = f"SINGLE_SWING_{'LEFT' if is_left else 'RIGHT'}"
        made = self._fill("IfcDoor", name, (start, end), flip_y(door_space(door)), (0, DOOR_HEIGHT))
        made.PredefinedType, made.OperationType = "DOOR", kind
        outside = door.is_front or swing is None
        self.model.properties(made, "Pset_DoorCommon", {"IsExternal": outside})

    def _window(self, number: int) -> None:
        """Add a window."""
        window = self.shapes.windows[number]
        ends = flip_point(window.start), flip_point(window.end)
        space = flip_y(window_space(window))
        made = self._fill("IfcWindow", f"window {number + 1}", ends, space, (SILL, HEIGHT))
        made.PredefinedType, made.PartitioningType = "WINDOW", "SINGLE_PANEL"
        self.model.properties(made, "Pset_WindowCommon", {"IsExternal": True})

    def _fill(
        self,
        kind: str,
        name: str,
        ends: tuple[Point, Point],
        space: Polygon,
        heights: tuple[float, float],
    ) -> Any:
        """Add a door or window between its ``ends``, in the opening that it fills. ``heights``: of
        its foot above the floor, and its own."""
        from shapely import LineString

        line, (foot, height) = LineString(ends), heights
        # a frame along the opening
        frame = Frame.along(*ends, foot)
        openings = self._openings(name, space, frame, height)
        thickness = _LEAF if kind == "IfcDoor" else _GLASS
        # the element stands in its opening, or else on the storey
        made = self._element(
            kind,
            name,
            frame,
            [line.buffer(thickness / 2, cap_style="flat")],
            height,
            within=openings[0].ObjectPlacement if openings else self.storey.ObjectPlacement,
            OverallHeight=height,
            OverallWidth=line.length,
        )
        if openings:
            self.model.add(
                "IfcRelFillsElement",
                name,
                RelatingOpeningElement=openings[0],
                RelatedBuildingElement=made,
            )
        self.elements.append(made)
        return made

    def _railings(self) -> None:
        """Add the railings of balconies."""
        from shapely import get_parts

        for k, part in enumerate(get_parts(flip_y(self.shapes.railings))):
            made = self._element(
                "IfcRailing",
                f"railing {k + 1}",
                Frame(),
                [part],
                RAILING_HEIGHT,
                PredefinedType="BALUSTRADE",
            )
            self.elements.append(made)


_ROUNDING, _SPECK = 1e-6, 1e-4
"""Metres, and square metres, that are nothing."""


def wall_pieces(walls: Geometry) -> list[Polygon]:
    """Split walls into polygons that do not overlap: rectangles parallel to the axes, the largest
    first, then the rest of slanted walls."""
    import shapely

    # a grid through all corners
    xs, ys = _lines(walls)
    left, top = np.meshgrid(xs[:-1], ys[:-1])
    right, bottom = np.meshgrid(xs[1:], ys[1:])
    cells = shapely.box(left, top, right, bottom)
    shapely.prepare(walls)
    inside = shapely.area(shapely.intersection(cells, walls)) > shapely.area(cells) * (1 - 1e-4)
    found = []
    # take the largest rectangle of cells within walls, again and again
    while inside.any():
        first, last, low, high = _largest(inside, xs, ys)
        inside[low:high, first:last] = False
        found.append(shapely.box(xs[first], ys[low], xs[last], ys[high]))
    rest = shapely.get_parts(walls.difference(shapely.union_all(found)))
    return found + [part for part in rest if part.area > _SPECK]


def _lines(walls: Geometry) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates of all corners on either axis, merged if they hardly differ."""
    import shapely

    found = []
    for values in shapely.get_coordinates(walls).T:
        ordered = np.unique(values)
        found.append(ordered[np.diff(ordered, prepend=-np.inf) > 2 * _ROUNDING])
    return found[0], found[1]


def _largest(inside: np.ndarray, xs: np.ndarray, ys: np.ndarray) -> tuple[int, int, int, int]:
    """Rectangle of cells with the largest area: first and last column, then row."""
    best, area = (0, 0, 0, 0), 0.0
    # widest run of free columns for each range of rows
    for low in range(len(ys) - 1):
        free = np.ones(len(xs) - 1, dtype=bool)
        for high in range(low + 1, len(ys)):
            free &= inside[high - 1]
            if not free.any():
                break
            edges = np.flatnonzero(np.diff(np.concatenate([[0], free.astype(int), [0]])))
            widths = xs[edges[1::2]] - xs[edges[::2]]
            k = int(widths.argmax())
            if (found := widths[k] * (ys[high] - ys[low])) > area + _SPECK * _ROUNDING:
                best, area = (int(edges[2 * k]), int(edges[2 * k + 1]), low, high), found
    return best
