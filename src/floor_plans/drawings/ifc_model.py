"""``IfcModel``: builds a file of IFC 4 entity by entity; ``Frame`` is the place of an entity."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shapely import Polygon

    from floor_plans.plans.floor_plan import Point

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
        self._layered: dict[str, Any] = {}
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
        self._body = self._subcontext("Body", "MODEL_VIEW")

    def _subcontext(self, name: str, view: str) -> Any:
        """Add the context of representations called ``name``."""
        return self.new(
            "IfcGeometricRepresentationSubContext",
            ContextIdentifier=name,
            ContextType="Model",
            ParentContext=self.world,
            TargetView=view,
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
        solids = []
        for polygon in polygons:
            outer, *holes = self._rings(frame, polygon)
            kind = f"IfcArbitrary{'ProfileDefWithVoids' if holes else 'ClosedProfileDef'}"
            profile = self.new(kind, "AREA", None, outer, *([holes] if holes else []))
            solids.append(self.new("IfcExtrudedAreaSolid", profile, None, self._up, height))
        return self._shape(self._body, "SweptSolid", solids)

    def footprint(self, polygon: Polygon) -> Any:
        """Add the border of a polygon of the storey as a curve on the ground."""
        context = self._subcontext("FootPrint", "PLAN_VIEW")
        return self._shape(context, "Curve2D", self._rings(Frame(), polygon))

    def _rings(self, frame: Frame, polygon: Polygon) -> list[Any]:
        """Add the border of a polygon and its holes as closed curves in ``frame``."""
        from shapely.geometry.polygon import orient

        polygon, curves = orient(polygon), []
        for ring in (polygon.exterior, *polygon.interiors):
            points = frame.local(ring.coords)[:-1]
            corners = [self.new("IfcCartesianPoint", point) for point in points]
            curves.append(self.new("IfcPolyline", [*corners, corners[0]]))
        return curves

    def _shape(self, context: Any, kind: str, items: list[Any]) -> Any:
        shape = self.new("IfcShapeRepresentation", context, context.ContextIdentifier, kind, items)
        return self.new("IfcProductDefinitionShape", Representations=[shape])

    def face(self, polygon: Polygon, z: float) -> Any:
        """Add a level surface over a polygon of the storey, as that of two touching entities."""
        return self._surface((0.0, 0.0, z), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0), polygon)

    def upright_face(self, start: Point, end: Point, foot: float, height: float) -> Any:
        """Add the surface above a line of the storey from its ``foot``, ``height`` high."""
        from shapely import box

        along = Frame.along(start, end)
        sides = (along.ux, along.uy, 0.0), (along.uy, -along.ux, 0.0)
        return self._surface((*start, foot), *sides, box(0, 0, math.dist(start, end), height))

    def _surface(
        self, at: Sequence[float], x: Sequence[float], normal: Sequence[float], polygon: Polygon
    ) -> Any:
        """Add the surface over a polygon of the plane at ``at`` with this x-axis and normal."""
        axes = self.new(
            "IfcAxis2Placement3D",
            self.new("IfcCartesianPoint", tuple(at)),
            self.new("IfcDirection", tuple(normal)),
            self.new("IfcDirection", tuple(x)),
        )
        outer, *holes = self._rings(Frame(), polygon)
        surface = self.new("IfcCurveBoundedPlane", self.new("IfcPlane", axes), outer, holes)
        return self.new("IfcConnectionSurfaceGeometry", surface)

    def layers(self, of: Any, name: str, thickness: float) -> None:
        """Add the material of an entity: one layer, ``name`` and ``thickness`` metres."""
        key = f"{name}, {thickness:.3f} m"
        if key not in self._layered:
            layer = self.new("IfcMaterialLayer", self.new("IfcMaterial", name), thickness)
            self._layered[key] = self.add(
                "IfcRelAssociatesMaterial",
                key,
                RelatedObjects=[],
                RelatingMaterial=self.new("IfcMaterialLayerSet", [layer], key),
            )
        related = self._layered[key]
        related.RelatedObjects = [*related.RelatedObjects, of]

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
