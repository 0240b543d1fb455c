"""IFC 4: a plan as a building of one storey, with spaces, walls, doors and windows."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from discrete_diffusion.runtime import install_command
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.drawings.drawing_style import DrawingStyle
from floor_plans.drawings.drawn_plan import flipped, upwards
from floor_plans.drawings.ifc_model import Frame, IfcModel
from floor_plans.drawings.room_names import names_of_rooms
from floor_plans.drawings.wall_pieces import wall_pieces
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.plans.swings import Swing, door_space
from floor_plans.solver.shapes import PlanShapes, window_space
from floor_plans.solver.windows import HEIGHT, SILL

if TYPE_CHECKING:
    from shapely import Polygon

    from floor_plans.plans.door import Door
    from floor_plans.plans.floor_plan import Point

DOOR_HEIGHT, RAILING_HEIGHT = 2.1, 1.0
"""Metres."""

_LEAF, _GLASS = 0.05, 0.06
"""Thickness of a door's leaf and of a window in its frame."""
_THROUGH = 0.05
"""Metres by which the solid of an opening stands out of its wall."""
_SPECK = 1e-4
"""Square metres that are nothing."""


def ifc_of(plan: FloorPlan, style: DrawingStyle) -> str:
    """Project, site, building and storey; a space for each room, walls as straight pieces with
    openings, doors, windows (a proposal) and railings, in metres, y upwards.

    The solid of a space is the floor that is free between the walls. Its quantities
    (``Qto_SpaceBaseQuantities``): NetFloorArea, NetPerimeter and NetVolume are of this solid,
    GrossFloorArea and GrossPerimeter of the plan's floor, up to the middle of the walls.

    Ids are derived from the plan: the same plan is the same file. Raises ``DiagramError`` without
    the extra ``ifc``.
    """
    check_ifc()
    return _Building(plan, style).model.text()


def check_ifc() -> None:
    """``DiagramError`` naming the extra ``ifc`` if it is missing."""
    if find_spec("ifcopenshell") is None:
        raise DiagramError(
            "",
            f"IFC files take ifcopenshell, which is not installed: {install_command('ifc')}",
        )


class _Building:
    """A building of one storey, in ``model``."""

    def __init__(self, plan: FloorPlan, style: DrawingStyle) -> None:
        text = json.dumps(plan.to_json(), sort_keys=True)
        self.plan, self.style, self.shapes = plan, style, PlanShapes(plan)
        self.model = model = IfcModel(text, plan.north)
        self.elements: list[Any] = []
        self.storey = self._storey(str(plan.diagram.metadata.get("name") or "Floor plan"))
        spaces = [self._space(k) for k in range(plan.diagram.num_rooms)]
        self._aggregate(self.storey, [space for space in spaces if space is not None])
        self.walls = [self._wall(piece) for piece in wall_pieces(flipped(self.shapes.solid))]
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
        model = self.model
        project = model.add(
            "IfcProject",
            "project",
            Name=name,
            RepresentationContexts=[model.world],
            UnitsInContext=model.units(),
        )
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
        self.model.add(
            "IfcRelAggregates", whole.GlobalId, RelatingObject=whole, RelatedObjects=parts
        )

    def _element(
        self, kind: str, name: str, frame: Frame, bodies: list[Polygon], height: float, **more: Any
    ) -> Any:
        """``within``: the placement that its own is relative to, by default the storey's."""
        within = more.pop("within", self.storey.ObjectPlacement)
        return self.model.add(
            kind,
            name,
            **({"Name": name} | more),
            ObjectPlacement=self.model.place(frame, within),
            Representation=self.model.body(frame, bodies, height),
        )

    def _space(self, room: int) -> Any:
        """None for a room that the walls leave nothing of."""
        import shapely

        gross, shapes = self.shapes.floors[room], self.shapes
        net = flipped(gross.difference(shapely.union_all([shapes.solid, shapes.railings])))
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
        x0, y0, x1, y1 = piece.bounds
        frame = Frame(x0, y0) if x1 - x0 >= y1 - y0 else Frame(x1, y0, 0.0, 1.0)
        number = f"{len(self.elements) + 1}"
        wall = self._element(
            "IfcWall", number, frame, [piece], self.style.storey, PredefinedType="SOLIDWALL"
        )
        outside = piece.distance(flipped(self.shapes.shell).boundary) < _SPECK
        self.model.properties(wall, "Pset_WallCommon", {"IsExternal": bool(outside)})
        self.elements.append(wall)
        return wall, piece

    def _openings(self, name: str, space: Polygon, frame: Frame, height: float) -> list[Any]:
        """An opening in each piece of wall that ``space`` goes through, the largest first."""
        from shapely import Polygon, box

        found = []
        for wall, piece in self.walls:
            cut = piece.intersection(space)
            if cut.area < _SPECK:
                continue
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
            self.model.add(
                "IfcRelVoidsElement",
                own,
                RelatingBuildingElement=wall,
                RelatedOpeningElement=opening,
            )
            found.append((cut.area, opening))
        return [opening for _, opening in sorted(found, key=lambda each: -each[0])]

    def _door(self, number: str, door: Door, swing: Swing | None) -> None:
        """In the frame of its opening it opens towards y, its hinge to the left or the right."""
        start, end = upwards(door.start), upwards(door.end)
        kind, name = "SLIDING_TO_LEFT", f"door {number}"
        if swing is not None:
            hinge, leaf = map(upwards, swing.leaf)
            other = end if hinge == start else start
            opens = (leaf[0] - hinge[0], leaf[1] - hinge[1])
            along = (other[0] - hinge[0], other[1] - hinge[1])
            is_left = along[0] * opens[1] - along[1] * opens[0] > 0
            start, end = (hinge, other) if is_left else (other, hinge)
            kind = f"SINGLE_SWING_{'LEFT' if is_left else 'RIGHT'}"
        made = self._fill(
            "IfcDoor", name, (start, end), flipped(door_space(door)), (0, DOOR_HEIGHT)
        )
        made.PredefinedType, made.OperationType = "DOOR", kind
        outside = door.is_front or swing is None
        self.model.properties(made, "Pset_DoorCommon", {"IsExternal": outside})

    def _window(self, number: int) -> None:
        window = self.shapes.windows[number]
        ends = upwards(window.start), upwards(window.end)
        space = flipped(window_space(window))
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
        """A door or window between its ``ends``, in the opening that it fills; ``heights``: of its
        foot, and its own."""
        from shapely import LineString

        line, (foot, height) = LineString(ends), heights
        frame = Frame.along(*ends, foot)
        openings = self._openings(name, space, frame, height)
        thickness = _LEAF if kind == "IfcDoor" else _GLASS
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
        from shapely import get_parts

        for k, part in enumerate(get_parts(flipped(self.shapes.railings))):
            made = self._element(
                "IfcRailing",
                f"railing {k + 1}",
                Frame(),
                [part],
                RAILING_HEIGHT,
                PredefinedType="BALUSTRADE",
            )
            self.elements.append(made)
