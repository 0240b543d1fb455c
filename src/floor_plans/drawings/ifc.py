"""IFC 4: a plan as a building of one storey, with spaces, walls, doors and windows.

``IfcModel`` builds the file entity by entity; ``Frame`` is the place of an entity.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from discrete_diffusion.runtime import install_command
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.drawings.drawn_parts import SPECK, DrawingStyle, names_of_rooms, wall_pieces
from floor_plans.drawings.drawn_plan import flip_point, flip_y
from floor_plans.plans.doors import Swing, door_space
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.solver.shapes import HEIGHT, SILL, PlanShapes, window_space

if TYPE_CHECKING:
    from shapely import Polygon

    from floor_plans.plans.floor_plan import Door, Point

_NAMESPACE = uuid.UUID("5d4f7f1e-6d62-4b8e-9a67-3c1f0a7b2d94")
"""Namespace of the ids of files; any constant would do."""

_NO_TIME = "1970-01-01T00:00:00"
"""Time of creation in the header, fixed so that the same plan yields the same file."""

_PRECISION = 1e-6  # precision of coordinates, metres


@dataclass(frozen=True)
class Frame:
    """Place on the storey: origin in metres, y upwards, direction of its x-axis, and height."""

    x: float = 0.0
    y: float = 0.0
    ux: float = 1.0
    uy: float = 0.0
    z: float = 0.0

    @classmethod
    def along(cls, start: Point, end: Point, z: float = 0.0) -> Frame:
        """Frame at ``start`` with its x-axis towards ``end``."""
        length = math.dist(start, end)
        return cls(*start, (end[0] - start[0]) / length, (end[1] - start[1]) / length, z)

    def local(self, points: Iterable[Sequence[float]]) -> list[Point]:
        """Convert points of the storey to this frame."""
        moved = [(point[0] - self.x, point[1] - self.y) for point in points]
        return [(x * self.ux + y * self.uy, y * self.ux - x * self.uy) for x, y in moved]

    def on_storey(self, points: Iterable[Sequence[float]]) -> list[Point]:
        """Convert points of this frame to the storey; inverse of ``local``."""
        return [
            (self.x + x * self.ux - y * self.uy, self.y + x * self.uy + y * self.ux)
            for x, y in points
        ]

    def within(self, other: Frame) -> Frame:
        """Return this frame relative to another frame."""
        # origin and direction, seen from the other frame
        (origin,) = other.local([(self.x, self.y)])
        ux = self.ux * other.ux + self.uy * other.uy
        uy = self.uy * other.ux - self.ux * other.uy
        return Frame(*origin, ux, uy, self.z - other.z)


class IfcModel:
    """File of the schema IFC4, in metres. ``key``: text that ids are derived from, with their
    names. ``north``: degrees clockwise from the y-axis."""

    def __init__(self, key: str, north: float | None = None) -> None:
        import ifcopenshell

        self.file = ifcopenshell.file(schema="IFC4")
        self.file.header.file_name.time_stamp = _NO_TIME
        self._ids = uuid.uuid5(_NAMESPACE, key)
        self._frames: dict[int, Frame] = {}
        # shared points and directions
        self._origin = self.new("IfcCartesianPoint", (0.0, 0.0, 0.0))
        self._up = self.new("IfcDirection", (0.0, 0.0, 1.0))
        # the coordinate system, and the one of bodies
        self.world = self.new(
            "IfcGeometricRepresentationContext",
            ContextType="Model",
            CoordinateSpaceDimension=3,
            Precision=_PRECISION,
            WorldCoordinateSystem=self.new("IfcAxis2Placement3D", self._origin),
        )
        if north is not None:
            turned = math.radians(north)
            self.world.TrueNorth = self.new("IfcDirection", (math.sin(turned), math.cos(turned)))
        self._body = self.new(
            "IfcGeometricRepresentationSubContext",
            ContextIdentifier="Body",
            ContextType="Model",
            ParentContext=self.world,
            TargetView="MODEL_VIEW",
        )

    def new(self, kind: str, *values: Any, **named: Any) -> Any:
        """Add an entity without an id."""
        return self.file.create_entity(kind, *values, **named)

    def add(self, kind: str, name: str, **attributes: Any) -> Any:
        """Add an entity with an id derived from its unique ``name``."""
        import ifcopenshell.guid

        own = ifcopenshell.guid.compress(uuid.uuid5(self._ids, f"{kind} {name}").hex)
        return self.new(kind, GlobalId=own, **attributes)

    def text(self) -> str:
        return str(self.file.to_string())

    def units(self) -> Any:
        """Add metres, square metres, cubic metres and radians."""
        named = {
            "LENGTHUNIT": "METRE",
            "AREAUNIT": "SQUARE_METRE",
            "VOLUMEUNIT": "CUBIC_METRE",
            "PLANEANGLEUNIT": "RADIAN",
        }
        units = [self.new("IfcSIUnit", UnitType=kind, Name=name) for kind, name in named.items()]
        return self.new("IfcUnitAssignment", units)

    def place(self, frame: Frame, parent: Any = None) -> Any:
        """Add the placement of ``frame``, relative to the placement ``parent``."""
        outer = Frame() if parent is None else self._frames[parent.id()]
        # placements are relative to their parent
        seen = frame.within(outer)
        axes = self.new(
            "IfcAxis2Placement3D",
            self.new("IfcCartesianPoint", (seen.x, seen.y, seen.z)),
            self._up,
            self.new("IfcDirection", (seen.ux, seen.uy, 0.0)),
        )
        placement = self.new("IfcLocalPlacement", parent, axes)
        self._frames[placement.id()] = frame
        return placement

    def body(self, frame: Frame, polygons: Iterable[Polygon], height: float) -> Any:
        """Add solids over polygons of the storey, ``height`` high, for an entity placed in
        ``frame``."""
        from shapely.geometry.polygon import orient

        solids = []
        for polygon in map(orient, polygons):
            # the border, and holes
            curves = []
            for ring in (polygon.exterior, *polygon.interiors):
                points = frame.local(ring.coords)[:-1]
                corners = [self.new("IfcCartesianPoint", point) for point in points]
                curves.append(self.new("IfcPolyline", [*corners, corners[0]]))
            # the profile, extruded
            outer, *holes = curves
            kind = f"IfcArbitrary{'ProfileDefWithVoids' if holes else 'ClosedProfileDef'}"
            profile = self.new(kind, "AREA", None, outer, *([holes] if holes else []))
            solids.append(self.new("IfcExtrudedAreaSolid", profile, None, self._up, height))
        shape = self.new(
            "IfcShapeRepresentation",
            ContextOfItems=self._body,
            RepresentationIdentifier="Body",
            RepresentationType="SweptSolid",
            Items=solids,
        )
        return self.new("IfcProductDefinitionShape", Representations=[shape])

    def properties(self, of: Any, name: str, values: Mapping[str, bool]) -> None:
        """Add a set of properties of an entity, such as ``Pset_WallCommon``."""
        made = [
            self.new("IfcPropertySingleValue", Name=key, NominalValue=self.new("IfcBoolean", value))
            for key, value in values.items()
        ]
        own = f"{name} {of.GlobalId}"
        self._define(of, own, self.add("IfcPropertySet", own, Name=name, HasProperties=made))

    def quantities(self, of: Any, name: str, values: Mapping[str, tuple[str, float]]) -> None:
        """Add a set of quantities of an entity. ``values``: kind ("Area") and value by name."""
        made = [
            self.new(f"IfcQuantity{kind}", Name=key, **{f"{kind}Value": value})
            for key, (kind, value) in values.items()
        ]
        own = f"{name} {of.GlobalId}"
        self._define(of, own, self.add("IfcElementQuantity", own, Name=name, Quantities=made))

    def _define(self, of: Any, name: str, definition: Any) -> None:
        """Attach a definition to an entity."""
        self.add(
            "IfcRelDefinesByProperties",
            name,
            RelatedObjects=[of],
            RelatingPropertyDefinition=definition,
        )


DOOR_HEIGHT, RAILING_HEIGHT = 2.1, 1.0  # heights in metres
_LEAF, _GLASS = 0.05, 0.06  # thickness of a door's leaf and of a window in its frame, metres
_THROUGH = 0.05  # metres that the solid of an opening extends beyond its wall


def ifc_of(plan: FloorPlan, style: DrawingStyle) -> str:
    """Write a plan as IFC, in metres, y upwards: project, site, building and storey, and on it
    spaces, straight pieces of wall with openings, doors, windows (a proposal) and railings.

    NetFloorArea, NetPerimeter and NetVolume of a space are those of its solid, the free floor
    between walls; GrossFloorArea and GrossPerimeter go to the middle of the walls. Ids are derived
    from the plan, so the same plan yields the same file. Raises ``DiagramError`` without the extra
    ``ifc``.
    """
    check_ifc()
    return _Building(plan, style).model.text()


def check_ifc() -> None:
    """Raise ``DiagramError`` naming the extra ``ifc`` if it is missing."""
    if find_spec("ifcopenshell") is None:
        raise DiagramError(
            "", f"IFC files need ifcopenshell, which is not installed: {install_command('ifc')}"
        )


class _Building:
    """Building of one storey, in ``model``."""

    def __init__(self, plan: FloorPlan, style: DrawingStyle) -> None:
        from shapely import get_parts

        text = json.dumps(plan.to_json(), sort_keys=True)
        self.plan, self.style, self.shapes = plan, style, PlanShapes(plan)
        self.model = model = IfcModel(text, plan.north)
        self.elements: list[Any] = []
        self.storey = self._storey(str(plan.diagram.metadata.get("name") or "Floor plan"))
        # spaces and walls
        spaces = [self._space(k) for k in range(plan.diagram.num_rooms)]
        self._aggregate(self.storey, [space for space in spaces if space is not None])
        self.walls: list[tuple[Any, Polygon]] = []
        border = flip_y(self.shapes.shell).boundary
        for number, piece in enumerate(wall_pieces(flip_y(self.shapes.solid)), start=1):
            # the x-axis of a wall is along it
            x0, y0, x1, y1 = piece.bounds
            frame = Frame(x0, y0) if x1 - x0 >= y1 - y0 else Frame(x1, y0, 0.0, 1.0)
            wall = self._element(
                "IfcWall", f"{number}", frame, [piece], style.storey, PredefinedType="SOLIDWALL"
            )
            is_outer = bool(piece.distance(border) < SPECK)
            model.properties(wall, "Pset_WallCommon", {"IsExternal": is_outer})
            self.walls.append((wall, piece))
        self.elements += [wall for wall, _ in self.walls]
        # doors and windows, each in an opening of its wall
        for k, swing in enumerate(self.shapes.swings):
            self._door(f"{k + 1}", swing.door, swing)
        for k, door in enumerate(self.shapes.sliding):
            self._door(f"sliding {k + 1}", door, None)
        for k, window in enumerate(self.shapes.windows):
            ends, space = (flip_point(window.start), flip_point(window.end)), window_space(window)
            made = self._fill("IfcWindow", f"window {k + 1}", ends, flip_y(space), (SILL, HEIGHT))
            made.PredefinedType, made.PartitioningType = "WINDOW", "SINGLE_PANEL"
            model.properties(made, "Pset_WindowCommon", {"IsExternal": True})
        # railings of balconies
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
        """Add an element with a body. ``within``: its parent placement, by default the storey's."""
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
        parts = [part for part in shapely.get_parts(net) if part.area > SPECK]
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

    def _openings(self, name: str, space: Polygon, frame: Frame, height: float) -> list[Any]:
        """Add an opening to each piece of wall that ``space`` crosses; return them, the largest
        first."""
        from shapely import Polygon, box

        found = []
        for wall, piece in self.walls:
            # pieces of wall that the space crosses
            cut = piece.intersection(space)
            if cut.area < SPECK:
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
        """Add a door. In the frame of its opening it opens towards y, hinged to the left or
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

    def _fill(
        self,
        kind: str,
        name: str,
        ends: tuple[Point, Point],
        space: Polygon,
        heights: tuple[float, float],
    ) -> Any:
        """Add a door or window between its ``ends``, in the opening that it fills. ``heights``:
        height of its foot above the floor, and from foot to head."""
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
