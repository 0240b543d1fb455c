"""Every format that a dimensioned plan can be written in, by name."""

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
from floor_plans.rules.extents import check_extents

DEFAULT = DrawingStyle()


@dataclass(frozen=True)
class PlanFormat:
    """``suffix``: how a file's name ends; ``content_of``: what is in the file of a plan;
    ``is_read``: that file is read as a plan again."""

    suffix: str
    content_of: Callable[[FloorPlan, DrawingStyle], str | bytes]
    is_read: bool = True


def _without_style(text_of: Callable[[FloorPlan], str]) -> Callable[[FloorPlan, DrawingStyle], str]:
    """A format in which nothing is left to choose."""
    return lambda plan, style: text_of(plan)


def sheets() -> Any:
    """The module that draws sheets, for which matplotlib is loaded."""
    from floor_plans.drawings.pictures import plan_sheets

    return plan_sheets


def _svg_of(plan: FloorPlan, style: DrawingStyle) -> str:
    return str(sheets().svg_sheet(plan, style))


def _pdf_of(plan: FloorPlan, style: DrawingStyle) -> bytes:
    return bytes(sheets().pdf_sheet(plan, style))


FORMATS = {
    "dxf": PlanFormat(".dxf", dxf_of),
    "ifc": PlanFormat(".ifc", ifc_of, is_read=False),
    "pdf": PlanFormat(".pdf", _pdf_of, is_read=False),
    "svg": PlanFormat(".svg", _svg_of, is_read=False),
    "geojson": PlanFormat(".geojson", _without_style(geojson_of)),
    "wkt": PlanFormat(".wkt", _without_style(wkt_of)),
    "houseganpp": PlanFormat(".houseganpp.json", _without_style(houseganpp_of)),
    "rlvr": PlanFormat(".rlvr.json", _without_style(rlvr_of)),
}
"""A file of any of them holds one plan."""


def check_format(name: str) -> None:
    """``ValueError`` if there is no such format."""
    if name not in FORMATS:
        raise ValueError(f"format={name}: {unknown_name('format of plans', name, FORMATS)}")


def write_plan(path: Path, plan: FloorPlan, format: str, style: DrawingStyle = DEFAULT) -> None:
    """Write one plan in one of ``FORMATS``, whole or not at all.

    ``read_diagrams`` reads those that are read back, and ``FloorPlan.of`` makes it a plan. Raises
    ``ValueError`` for another format, for metadata that JSON cannot hold, for a room or door
    without extent, and without the extra ``plans`` (of IFC, ``ifc``).
    """
    check_format(format)
    check_installed()
    check_extents(plan)
    content = FORMATS[format].content_of(plan, style)
    if isinstance(content, str):
        write_text(Path(path), content)
        return
    with atomic_write(Path(path)) as unfinished:
        unfinished.write_bytes(content)
