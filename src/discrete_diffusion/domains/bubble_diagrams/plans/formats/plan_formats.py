"""Every format that a dimensioned plan can be written in, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from discrete_diffusion.config.naming import unknown_name
from discrete_diffusion.domains.bubble_diagrams.plans.floor_plan import FloorPlan
from discrete_diffusion.domains.bubble_diagrams.plans.formats.drawn_plan import check_installed
from discrete_diffusion.domains.bubble_diagrams.plans.formats.dxf import dxf_of
from discrete_diffusion.domains.bubble_diagrams.plans.formats.geojson import geojson_of
from discrete_diffusion.domains.bubble_diagrams.plans.formats.houseganpp import houseganpp_of
from discrete_diffusion.domains.bubble_diagrams.plans.formats.rlvr import rlvr_of
from discrete_diffusion.domains.bubble_diagrams.plans.formats.wkt import wkt_of
from discrete_diffusion.runtime.atomic_files import write_text


@dataclass(frozen=True)
class PlanFormat:
    """``suffix``: how a file's name ends; ``text_of``: what is in the file of a plan."""

    suffix: str
    text_of: Callable[[FloorPlan], str]


FORMATS = {
    "dxf": PlanFormat(".dxf", dxf_of),
    "geojson": PlanFormat(".geojson", geojson_of),
    "wkt": PlanFormat(".wkt", wkt_of),
    "houseganpp": PlanFormat(".houseganpp.json", houseganpp_of),
    "rlvr": PlanFormat(".rlvr.json", rlvr_of),
}
"""A file of any of them holds one plan."""


def check_format(name: str) -> None:
    """``ValueError`` if there is no such format."""
    if name not in FORMATS:
        raise ValueError(f"format={name}: {unknown_name('format of plans', name, FORMATS)}")


def write_plan(path: Path, plan: FloorPlan, format: str) -> None:
    """Write one plan in one of ``FORMATS``, whole or not at all.

    ``read_diagrams`` reads it back, and ``FloorPlan.of`` makes it a plan. Raises ``ValueError`` for
    another format, for metadata that JSON cannot hold, and without the extra ``plans``.
    """
    check_format(format)
    check_installed()
    write_text(Path(path), FORMATS[format].text_of(plan))
