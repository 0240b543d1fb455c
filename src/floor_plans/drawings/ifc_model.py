"""``IfcModel``: builds a file of IFC 4 entity by entity; ``Frame`` is the place of an entity."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from floor_plans.plans.floor_plan import Point
from floor_plans.plans.libraries import shapely

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

    def text(self) -> str:
        return str(self.file.to_string())

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
