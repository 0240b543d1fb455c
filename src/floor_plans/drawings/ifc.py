"""IFC 4: a plan as a building of one storey, with spaces, slabs, walls, doors and windows.

``IfcModel`` builds a file entity by entity, ``Frame`` is the place of an entity.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from floor_plans.drawings.drawn_parts import SPECK, DrawingStyle, names_of_rooms, wall_pieces
from floor_plans.drawings.drawn_plan import check_installed, flip_point, flip_y
from floor_plans.plans.doors import Swing, door_space
from floor_plans.plans.floor_plan import Door, FloorPlan, Point
from floor_plans.plans.libraries import shapely
from floor_plans.plans.site import site_of_plan
from floor_plans.rules.finding import kinds_of
from floor_plans.solver.shapes import HEIGHT, SILL, PlanShapes, window_space

_NAMESPACE = uuid.UUID("5d4f7f1e-6d62-4b8e-9a67-3c1f0a7b2d94")
"""Namespace of the ids of files; any constant would do."""

_NO_TIME = "1970-01-01T00:00:00"
"""Time of creation in the header, fixed so that the same plan yields the same file."""

_Vector = Sequence[float]

_PRECISION = 1e-6  # precision of coordinates, metres


@dataclass(frozen=True)
class Frame:
    """Place on the storey, y upwards: origin in metres and x-axis as x + iy, and height."""

    origin: complex = 0j
    axis: complex = 1 + 0j
    z: float = 0.0

    @classmethod
    def along(cls, start: Point, end: Point, z: float = 0.0) -> Frame:
        """Frame at ``start`` with its x-axis towards ``end``."""
        way = complex(*end) - complex(*start)
        return cls(complex(*start), way / abs(way), z)

    def local(self, points: Iterable[Sequence[float]]) -> list[Point]:
        """Convert points of the storey to this frame."""
        moved = [(complex(*point[:2]) - self.origin) / self.axis for point in points]
        return [(point.real, point.imag) for point in moved]


class IfcModel:
    """File of the schema IFC4, in metres. ``key``: text that ids are derived from, with their
    names. ``north``: degrees clockwise from the y-axis."""

    def __init__(self, key: str, north: float | None = None) -> None:
        import ifcopenshell

        self.file = ifcopenshell.file(schema="IFC4")
        self.file.header.file_name.time_stamp = _NO_TIME
        self._ids = uuid.uuid5(_NAMESPACE, key)
        self._frames: dict[int, Frame] = {}
        self._layered: dict[str, Any] = {}
        self._up = self.new("IfcDirection", (0.0, 0.0, 1.0))
        # the coordinate system, and the one of bodies
        origin = self.new("IfcAxis2Placement3D", self.new("IfcCartesianPoint", (0.0, 0.0, 0.0)))
        self.world = self.new(
            "IfcGeometricRepresentationContext", None, "Model", 3, _PRECISION, origin
        )
        if north is not None:
            turned = math.radians(north)
            self.world.TrueNorth = self.new("IfcDirection", (math.sin(turned), math.cos(turned)))
        self._body = self._subcontext("Body", "MODEL_VIEW")

    def _subcontext(self, name: str, view: str) -> Any:
        """Add the context of representations called ``name``."""
        context = self.new("IfcGeometricRepresentationSubContext", name, "Model")
        context.ParentContext, context.TargetView = self.world, view
        return context

    def new(self, kind: str, *values: Any, **named: Any) -> Any:
        """Add an entity without an id."""
        return self.file.create_entity(kind, *values, **named)

    def add(self, kind: str, name: str, **attributes: Any) -> Any:
        """Add an entity with an id derived from its unique ``name``."""
        import ifcopenshell.guid

        own = ifcopenshell.guid.compress(uuid.uuid5(self._ids, f"{kind} {name}").hex)
        return self.new(kind, GlobalId=own, **attributes)

    def units(self) -> Any:
        """Add metres, square metres, cubic metres and radians."""
        names = ("METRE", "SQUARE_METRE", "CUBIC_METRE", "RADIAN")
        kinds = ("LENGTHUNIT", "AREAUNIT", "VOLUMEUNIT", "PLANEANGLEUNIT")
        named = zip(kinds, names, strict=True)
        units = [self.new("IfcSIUnit", UnitType=kind, Name=name) for kind, name in named]
        return self.new("IfcUnitAssignment", units)

    def place(self, frame: Frame, parent: Any = None) -> Any:
        """Add the placement of ``frame``, relative to the placement ``parent``."""
        # placements are relative to their parent
        outer = Frame() if parent is None else self._frames[parent.id()]
        axis = frame.axis / outer.axis
        ((x, y),) = outer.local([(frame.origin.real, frame.origin.imag)])
        axes = self._axes((x, y, frame.z - outer.z), (axis.real, axis.imag, 0.0), (0.0, 0.0, 1.0))
        placement = self.new("IfcLocalPlacement", parent, axes)
        self._frames[placement.id()] = frame
        return placement

    def body(self, frame: Frame, polygons: Iterable[shapely.Polygon], height: float) -> Any:
        """Add solids over polygons of the storey, ``height`` high, for an entity in ``frame``."""
        solids = []
        for polygon in polygons:
            outer, *holes = self._rings(frame, polygon)
            kind = f"IfcArbitrary{'ProfileDefWithVoids' if holes else 'ClosedProfileDef'}"
            profile = self.new(kind, "AREA", None, outer, *([holes] if holes else []))
            solids.append(self.new("IfcExtrudedAreaSolid", profile, None, self._up, height))
        return self._shape(self._body, "SweptSolid", solids)

    def footprint(self, polygon: shapely.Polygon) -> Any:
        """Add the border of a polygon of the storey as a curve on the ground."""
        context = self._subcontext("FootPrint", "PLAN_VIEW")
        return self._shape(context, "Curve2D", self._rings(Frame(), polygon))

    def _rings(self, frame: Frame, polygon: shapely.Polygon) -> list[Any]:
        """Add the border of a polygon and its holes as closed curves in ``frame``."""
        polygon, curves = shapely.geometry.polygon.orient(polygon), []
        for ring in (polygon.exterior, *polygon.interiors):
            points = frame.local(ring.coords)[:-1]
            corners = [self.new("IfcCartesianPoint", point) for point in points]
            curves.append(self.new("IfcPolyline", [*corners, corners[0]]))
        return curves

    def _shape(self, context: Any, kind: str, items: list[Any]) -> Any:
        shape = self.new("IfcShapeRepresentation", context, context.ContextIdentifier, kind, items)
        return self.new("IfcProductDefinitionShape", Representations=[shape])

    def face(self, polygon: shapely.Polygon, z: float) -> Any:
        """Add a level surface over a polygon of the storey, as that of two touching entities."""
        return self._surface((0.0, 0.0, z), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0), polygon)

    def upright_face(self, start: Point, end: Point, foot: float, height: float) -> Any:
        """Add the surface above a line of the storey from its ``foot``, ``height`` high."""
        along = Frame.along(start, end).axis
        sides = (along.real, along.imag, 0.0), (along.imag, -along.real, 0.0)
        face = shapely.box(0, 0, math.dist(start, end), height)
        return self._surface((*start, foot), *sides, face)

    def _surface(self, at: _Vector, x: _Vector, normal: _Vector, polygon: shapely.Polygon) -> Any:
        """Add the surface over a polygon of the plane at ``at`` with this x-axis and normal."""
        plane = self.new("IfcPlane", self._axes(at, x, normal))
        outer, *holes = self._rings(Frame(), polygon)
        surface = self.new("IfcCurveBoundedPlane", plane, outer, holes)
        return self.new("IfcConnectionSurfaceGeometry", surface)

    def _axes(self, at: _Vector, x: _Vector, z: _Vector) -> Any:
        """Add a coordinate system at a point, with the directions of its x-axis and z-axis."""
        point = self.new("IfcCartesianPoint", tuple(at))
        x_axis, z_axis = (self.new("IfcDirection", tuple(way)) for way in (x, z))
        return self.new("IfcAxis2Placement3D", point, z_axis, x_axis)

    def layers(self, of: Any, name: str, thickness: float) -> None:
        """Add the material of an entity: one layer, ``name`` and ``thickness`` metres."""
        key = f"{name}, {thickness:.3f} m"
        if key not in self._layered:
            layer = self.new("IfcMaterialLayer", self.new("IfcMaterial", name), thickness)
            layers = self.new("IfcMaterialLayerSet", [layer], key)
            related = self.add("IfcRelAssociatesMaterial", key, RelatingMaterial=layers)
            self._layered[key] = related
        related = self._layered[key]
        related.RelatedObjects = [*(related.RelatedObjects or ()), of]

    def properties(self, of: Any, name: str, values: Mapping[str, bool]) -> None:
        """Add a set of properties of an entity, such as ``Pset_WallCommon``."""
        made = [
            self.new("IfcPropertySingleValue", Name=key, NominalValue=self.new("IfcBoolean", value))
            for key, value in values.items()
        ]
        self._define(of, name, "IfcPropertySet", HasProperties=made)

    def quantities(self, of: Any, name: str, values: Mapping[str, tuple[str, float]]) -> None:
        """Add a set of quantities of an entity. ``values``: kind ("Area") and value by name."""
        made = [
            self.new(f"IfcQuantity{kind}", Name=key, **{f"{kind}Value": value})
            for key, (kind, value) in values.items()
        ]
        self._define(of, name, "IfcElementQuantity", Quantities=made)

    def _define(self, of: Any, name: str, kind: str, **values: Any) -> None:
        """Add a definition of this kind, and attach it to an entity."""
        own = f"{name} {of.GlobalId}"
        made = self.add(kind, own, Name=name, **values)
        related = self.add("IfcRelDefinesByProperties", own)
        related.RelatedObjects, related.RelatingPropertyDefinition = [of], made


DOOR_HEIGHT, RAILING_HEIGHT = 2.1, 1.0  # heights in metres
_LEAF, _GLASS = 0.05, 0.06  # thickness of a door's leaf and of a window in its frame, metres
_SLAB = 0.2  # thickness of the slabs below and above the storey, metres
_SHORTEST = 0.02  # least length of a line that is the border of a space, metres

_Polygons = list["shapely.Polygon"]


class _Bound(NamedTuple):
    """Element that bounds spaces: its shape on the storey, and heights of foot and body."""

    element: Any
    shape: shapely.Geometry
    foot: float
    height: float
    is_outer: bool | None


def ifc_of(plan: FloorPlan, style: DrawingStyle) -> str:
    """Write a plan as IFC, in metres, y upwards: project, site, building and storey, and on it
    spaces, straight pieces of wall with openings, doors, windows (a proposal) and railings, between
    two slabs. An opening lies in one wall. Walls and slabs have a material of one layer, spaces
    their boundaries of first level, the site its border, or that of the plot or of the plan.

    NetFloorArea, NetPerimeter and NetVolume of a space are those of its solid, the free floor
    between walls; GrossFloorArea and GrossPerimeter go to the middle of the walls. Ids are derived
    from the plan, so the same plan yields the same file. Raises ``DiagramError`` without the extra
    ``ifc``.
    """
    check_installed("ifc")
    return str(_Building(plan, style).model.file.to_string())


class _Building:
    """Building of one storey, in ``model``."""

    def __init__(self, plan: FloorPlan, style: DrawingStyle) -> None:
        text = json.dumps(plan.to_json(), sort_keys=True)
        self.plan, self.style, self.shapes = plan, style, PlanShapes(plan)
        self.model = model = IfcModel(text, plan.north)
        self.slabs: list[tuple[Any, shapely.Geometry, float]] = []
        self.storey = self._storey(str(plan.diagram.metadata.get("name") or "Floor plan"))
        # spaces, slabs and walls
        spaces = [self._space(k) for k in range(plan.diagram.num_rooms)]
        self._aggregate(self.storey, [made for made, _ in filter(None, spaces)])
        self.bounds: list[_Bound] = []
        self._slabs()
        for number, piece in enumerate(self._wall_pieces(), start=1):
            self._wall(f"{number}", piece)
        self.walls = [(bound.element, bound.shape) for bound in self.bounds]
        # doors and windows, each in an opening of its wall
        for k, swing in enumerate(self.shapes.swings):
            self._door(f"{k + 1}", swing.door, swing)
        for k, door in enumerate(self.shapes.sliding):
            self._door(f"sliding {k + 1}", door, None)
        for k, window in enumerate(self.shapes.windows):
            ends, space = (flip_point(window.start), flip_point(window.end)), window_space(window)
            name, heights = f"window {k + 1}", (SILL, HEIGHT)
            made = self._fill("IfcWindow", name, ends, flip_y(space), heights, is_outer=True)
            made.PredefinedType, made.PartitioningType = "WINDOW", "SINGLE_PANEL"
            model.properties(made, "Pset_WindowCommon", {"IsExternal": True})
        # railings of balconies
        for k, part in enumerate(shapely.get_parts(flip_y(self.shapes.railings))):
            made = self._element("IfcRailing", f"railing {k + 1}", Frame(), [part], RAILING_HEIGHT)
            made.PredefinedType = "BALUSTRADE"
            self.bounds.append(_Bound(made, part, 0.0, RAILING_HEIGHT, True))
        # rooms open to each other
        for k, door in enumerate(door for door in plan.doors if door.is_open):
            name, place = f"opening {k + 1}", model.place(Frame(), self.storey.ObjectPlacement)
            made = model.add("IfcVirtualElement", name, Name=name, ObjectPlacement=place)
            line = flip_y(shapely.LineString([door.start, door.end]))
            self.bounds.append(_Bound(made, line, 0.0, style.storey, False))
        contained = model.add("IfcRelContainedInSpatialStructure", "elements")
        elements = [slab for slab, *_ in self.slabs] + [bound.element for bound in self.bounds]
        contained.RelatedElements, contained.RelatingStructure = elements, self.storey
        for space in filter(None, spaces):
            self._boundaries(*space)

    def _slabs(self) -> None:
        """Add the slab below all floors and walls, and the one above the rooms."""
        shapes = self.shapes
        house = shapely.union_all([shapes.house, shapes.solid])
        whole = shapely.union_all([house, *shapes.floors, shapes.railings])
        for kind, area, z in (("FLOOR", whole, -_SLAB), ("ROOF", house, self.style.storey)):
            parts = list(shapely.get_parts(flip_y(area)))
            made = self._element("IfcSlab", kind.lower(), Frame(z=z), parts, _SLAB)
            made.PredefinedType = kind
            self.model.layers(made, "Slab", _SLAB)
            self.slabs.append((made, flip_y(area), max(z, 0.0)))

    def _wall_pieces(self) -> _Polygons:
        """Straight pieces of wall, such that every opening lies in one of them."""
        shapes, solid = self.shapes, flip_y(self.shapes.solid)
        doors = [swing.door for swing in shapes.swings] + shapes.sliding
        spaces = [*map(door_space, doors), *map(window_space, shapes.windows)]
        waiting, own = list(map(flip_y, spaces)), []
        pieces = wall_pieces(solid)
        # an opening across two pieces gets a piece of its own, and the rest is cut again
        while crossing := [
            space
            for space in waiting
            if sum(piece.intersection(space).area > SPECK for piece in pieces) > 1
        ]:
            waiting = [space for space in waiting if space not in crossing]
            own += [solid.intersection(space) for space in crossing]
            pieces = wall_pieces(solid.difference(shapely.union_all(own)))
        return pieces + [part for part in shapely.get_parts(own) if part.area > SPECK]

    def _wall(self, name: str, piece: shapely.Polygon) -> None:
        """Add a piece of wall, whose x-axis is along it."""
        x0, y0, x1, y1 = piece.bounds
        is_level = x1 - x0 >= y1 - y0
        frame = Frame(complex(x0, y0)) if is_level else Frame(complex(x1, y0), 1j)
        height = self.style.storey
        wall = self._element("IfcWall", name, frame, [piece], height)
        wall.PredefinedType = "SOLIDWALL"
        is_outer = bool(piece.distance(flip_y(self.shapes.shell).boundary) < SPECK)
        self.model.properties(wall, "Pset_WallCommon", {"IsExternal": is_outer})
        kind = "Outer wall" if is_outer else "Inner wall"
        self.model.layers(wall, kind, min(x1 - x0, y1 - y0))
        self.bounds.append(_Bound(wall, piece, 0.0, height, is_outer))

    def _boundaries(self, space: Any, parts: _Polygons) -> None:
        """Add the boundaries of a space: slabs, walls, doors, windows and railings."""
        for k, part in enumerate(parts):
            for slab, area, z in self.slabs:
                if area.intersection(part).area > SPECK:
                    self._bound(space, slab, f"{k}", self.model.face(part, z), is_outer=None)
            for each in self.bounds:
                # lines of the floor's border at the element
                near = part.boundary.intersection(each.shape.buffer(SPECK)).simplify(SPECK)
                pieces = shapely.get_parts(near)
                lines = [line for piece in pieces for line in pairwise(piece.coords)]
                for n, ends in enumerate(lines):
                    if math.dist(*ends) > _SHORTEST:
                        face = self.model.upright_face(*ends, each.foot, each.height)
                        self._bound(space, each.element, f"{k}.{n}", face, is_outer=each.is_outer)

    def _bound(
        self, space: Any, element: Any, name: str, face: Any, *, is_outer: bool | None
    ) -> None:
        kinds = {True: "EXTERNAL", False: "INTERNAL", None: "NOTDEFINED"}
        name = f"{space.GlobalId} {element.GlobalId} {name}"
        made = self.model.add("IfcRelSpaceBoundary1stLevel", name, Name="1stLevel")
        made.RelatingSpace, made.RelatedBuildingElement = space, element
        made.ConnectionGeometry, made.InternalOrExternalBoundary = face, kinds[is_outer]
        is_virtual = element.is_a("IfcVirtualElement")
        made.PhysicalOrVirtualBoundary = "VIRTUAL" if is_virtual else "PHYSICAL"

    def _storey(self, name: str) -> Any:
        """Add project, site, building and storey, each part of the one before."""
        model = self.model
        # the project, with its units
        project = model.add("IfcProject", "project", Name=name, UnitsInContext=model.units())
        project.RepresentationContexts = [model.world]
        # site, building and storey, one in another
        above, placement = project, None
        for kind, own in (("IfcSite", "Site"), ("IfcBuilding", name), ("IfcBuildingStorey", "0")):
            placement = model.place(Frame(), placement)
            part = model.add(kind, "0", Name=own, ObjectPlacement=placement)
            part.CompositionType = "ELEMENT"
            self._aggregate(above, [part])
            if kind == "IfcSite":
                land, _ = site_of_plan(self.plan) or (self.plan.outline, None)
                part.Representation = model.footprint(flip_y(land))
            above = part
        above.Elevation = 0.0
        return above

    def _aggregate(self, whole: Any, parts: list[Any]) -> None:
        """Make entities parts of a whole."""
        made = self.model.add("IfcRelAggregates", whole.GlobalId)
        made.RelatingObject, made.RelatedObjects = whole, parts

    def _element(
        self, kind: str, name: str, frame: Frame, base: _Polygons, height: float, within: Any = None
    ) -> Any:
        """Add an element with a body on its base, within another one or else on the storey."""
        place = self.model.place(frame, (within or self.storey).ObjectPlacement)
        body = self.model.body(frame, base, height)
        return self.model.add(kind, name, Name=name, ObjectPlacement=place, Representation=body)

    def _space(self, room: int) -> tuple[Any, _Polygons] | None:
        """Add the space of a room, and return it with its floor; None if walls leave none."""
        gross, shapes = self.shapes.floors[room], self.shapes
        # net floor: without walls and railings
        net = flip_y(gross.difference(shapely.union_all([shapes.solid, shapes.railings])))
        parts = [part for part in shapely.get_parts(net) if part.area > SPECK]
        if not parts:
            return None
        height, area = self.style.storey, sum(part.area for part in parts)
        kind = kinds_of(self.plan)[room]
        space = self._element("IfcSpace", f"{room + 1}", Frame(), parts, height)
        space.LongName = names_of_rooms(self.plan, self.style.language)[room].whole
        space.CompositionType, space.ObjectType = "ELEMENT", kind
        space.PredefinedType = "EXTERNAL" if kind == "Balcony" else "INTERNAL"
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
        return space, parts

    def _door(self, number: str, door: Door, swing: Swing | None) -> None:
        """Add a door, which opens towards y in the frame of its opening."""
        start, end = flip_point(door.start), flip_point(door.end)
        kind, name = "SLIDING_TO_LEFT", f"door {number}"
        # orient the frame so that the leaf opens towards y
        if swing is not None:
            hinge = flip_point(swing.leaf[0])
            other = end if hinge == start else start
            start, end = (hinge, other) if swing.is_left else (other, hinge)
            kind = f"SINGLE_SWING_{'LEFT' if swing.is_left else 'RIGHT'}"
        outside, space = door.is_front or swing is None, flip_y(door_space(door))
        heights = (0.0, DOOR_HEIGHT)
        made = self._fill("IfcDoor", name, (start, end), space, heights, is_outer=outside)
        made.PredefinedType, made.OperationType = "DOOR", kind
        self.model.properties(made, "Pset_DoorCommon", {"IsExternal": outside})

    def _fill(
        self,
        kind: str,
        name: str,
        ends: tuple[Point, Point],
        space: shapely.Polygon,
        heights: tuple[float, float],
        *,
        is_outer: bool,
    ) -> Any:
        """Add a door or window between its ``ends``, in the opening that it fills. ``heights``:
        height of its foot above the floor, and from foot to head."""
        line, (foot, height) = shapely.LineString(ends), heights
        frame = Frame.along(*ends, foot)
        # an opening in each wall that the space crosses, the one with the largest cut first
        cuts = [(piece.intersection(space), wall) for wall, piece in self.walls]
        cuts = sorted((c for c in cuts if c[0].area >= SPECK), key=lambda c: -c[0].area)
        openings = []
        for _, wall in cuts:
            own = f"{name}, wall {wall.Name}"
            made = self._element("IfcOpeningElement", own, frame, [space], height, wall)
            made.PredefinedType = "OPENING"
            voids = self.model.add("IfcRelVoidsElement", own)
            voids.RelatingBuildingElement, voids.RelatedOpeningElement = wall, made
            openings.append(made)
        # the element stands in its opening, or else on the storey
        thickness = _LEAF if kind == "IfcDoor" else _GLASS
        body = line.buffer(thickness / 2, cap_style="flat")
        made = self._element(kind, name, frame, [body], height, next(iter(openings), None))
        made.OverallHeight, made.OverallWidth = height, round(line.length, 6)
        if openings:
            fills = self.model.add("IfcRelFillsElement", name)
            fills.RelatingOpeningElement, fills.RelatedBuildingElement = openings[0], made
        cut = cuts[0][0] if cuts else space
        self.bounds.append(_Bound(made, cut, foot, height, is_outer))
        return made
