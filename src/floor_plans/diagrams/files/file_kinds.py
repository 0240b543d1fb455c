"""Kinds of files of plans, by what stands in them."""

from __future__ import annotations

from discrete_diffusion.runtime import FileKind, beginning, starting

_READ = "data=plans reads it"

GEOJSON = FileKind(
    "GeoJSON",
    beginning(r'\s*\{(?s:.){0,4000}?"type"\s*:\s*"(FeatureCollection|Feature)"'),
    _READ,
    suffixes=(".geojson",),
)
DXF = FileKind(
    "a DXF drawing",
    beginning(r"(\s*999[^\S\n]*\n.*\n)*\s*0[^\S\n]*\n\s*SECTION"),
    _READ,
    suffixes=(".dxf",),
)
WKT = FileKind("WKT", beginning(r"\s*(multi)?polygon\s*\("), _READ, suffixes=(".wkt",))

PLAN_KINDS = (
    GEOJSON,
    DXF,
    WKT,
    FileKind("a DWG drawing", starting(b"AC10"), "save it as DXF", is_text=False),
    FileKind(
        "a binary DXF drawing", starting(b"AutoCAD Binary DXF"), "save it as text", is_text=False
    ),
    FileKind("IFC", beginning(r"\s*ISO-10303-21"), "export its spaces as DXF or GeoJSON"),
)
