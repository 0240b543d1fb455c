"""Kinds of plan files, recognised by their content."""

from __future__ import annotations

from discrete_diffusion.runtime import FileKind, begins_with_bytes, begins_with_text

_READ = "data=plans reads it"

GEOJSON = FileKind(
    "GeoJSON",
    begins_with_text(r'\s*\{(?s:.){0,4000}?"type"\s*:\s*"(FeatureCollection|Feature)"'),
    _READ,
    suffixes=(".geojson",),
)
DXF = FileKind(
    "a DXF drawing",
    begins_with_text(r"(\s*999[^\S\n]*\n.*\n)*\s*0[^\S\n]*\n\s*SECTION"),
    _READ,
    suffixes=(".dxf",),
)
WKT = FileKind("WKT", begins_with_text(r"\s*(multi)?polygon\s*\("), _READ, suffixes=(".wkt",))

PLAN_KINDS = (
    GEOJSON,
    DXF,
    WKT,
    FileKind("a DWG drawing", begins_with_bytes(b"AC10"), "save it as DXF", is_text=False),
    FileKind(
        "a binary DXF drawing",
        begins_with_bytes(b"AutoCAD Binary DXF"),
        "save it as text",
        is_text=False,
    ),
    FileKind("IFC", begins_with_text(r"\s*ISO-10303-21"), "export its spaces as DXF or GeoJSON"),
)
