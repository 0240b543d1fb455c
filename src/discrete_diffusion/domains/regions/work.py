"""All that this kind of data needs torch for, imported as one when ``domain`` first needs it."""

from __future__ import annotations

from discrete_diffusion.domains.regions.build import (
    build_regions,
    build_test_regions,
    complete_regions,
)
from discrete_diffusion.domains.regions.evaluation import evaluate_rows
from discrete_diffusion.domains.regions.row_report import RowReport
from discrete_diffusion.domains.regions.sampling import sample_rows

__all__ = [
    "RowReport",
    "build_regions",
    "build_test_regions",
    "complete_regions",
    "evaluate_rows",
    "sample_rows",
]
