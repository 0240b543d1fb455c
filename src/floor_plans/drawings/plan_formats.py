"""``FORMATS``: the formats that a floor plan can be written in, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discrete_diffusion.config import unknown_name
from discrete_diffusion.runtime import atomic_write, write_text
from floor_plans.drawings.drawing_style import DrawingStyle
from floor_plans.drawings.drawn_plan import check_installed
from floor_plans.drawings.dxf import dxf_of
from floor_plans.drawings.geojson import geojson_of
from floor_plans.drawings.houseganpp import houseganpp_of
from floor_plans.drawings.ifc import ifc_of
from floor_plans.drawings.rlvr import rlvr_of
from floor_plans.drawings.wkt import wkt_of
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.rules.finding import check_extents

DEFAULT = DrawingStyle()


@dataclass(frozen=True)
class PlanFormat:
    """Format of a plan. ``suffix``: end of a file's name; ``content_of``: content of a plan's file;
    ``is_read``: the file can be read as a plan again."""

    suffix: str
    content_of: Callable[[FloorPlan, DrawingStyle], str | bytes]
    is_read: bool = True


def _ignore_style(text_of: Callable[[FloorPlan], str]) -> Callable[[FloorPlan, DrawingStyle], str]:
    """Adapt a format that has no choice of style."""
    return lambda plan, style: text_of(plan)


def sheet_module() -> Any:
    """Import the module that plots sheets, and with it matplotlib."""
    from floor_plans.drawings.pictures import plan_sheets

    return plan_sheets


FORMATS = {
    "dxf": PlanFormat(".dxf", dxf_of),
    "ifc": PlanFormat(".ifc", ifc_of, is_read=False),
    "pdf": PlanFormat(".pdf", lambda *plan: sheet_module().pdf_sheet(*plan), is_read=False),
    "svg": PlanFormat(".svg", lambda *plan: sheet_module().svg_sheet(*plan), is_read=False),
    "geojson": PlanFormat(".geojson", _ignore_style(geojson_of)),
    "wkt": PlanFormat(".wkt", _ignore_style(wkt_of)),
    "houseganpp": PlanFormat(".houseganpp.json", _ignore_style(houseganpp_of)),
    "rlvr": PlanFormat(".rlvr.json", _ignore_style(rlvr_of)),
}
"""Formats by name. A file of any of them holds one plan."""


def check_format(name: str) -> None:
    """Raise ``ValueError`` for an unknown format."""
    if name not in FORMATS:
        raise ValueError(f"format={name}: {unknown_name('format of plans', name, FORMATS)}")


def write_plan(path: Path, plan: FloorPlan, format: str, style: DrawingStyle = DEFAULT) -> None:
    """Write one plan in one of ``FORMATS``, whole or not at all.

    ``read_diagrams`` reads the formats with ``is_read``, and ``FloorPlan.of`` returns the plan.
    Raises ``ValueError`` for an unknown format, for metadata that JSON cannot hold, for a room or
    door without a size, and without the extra ``plans`` (for IFC, ``ifc``).
    """
    check_format(format)
    check_installed()
    check_extents(plan)
    # text or bytes, written whole
    content = FORMATS[format].content_of(plan, style)
    if isinstance(content, str):
        write_text(Path(path), content)
        return
    with atomic_write(Path(path)) as unfinished:
        unfinished.write_bytes(content)
