"""Models with numbers in place of measurements, and their comparison."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import torch
from omegaconf import OmegaConf

from discrete_diffusion.domains.cell_measurement import CellMeasurement, TokenCells
from discrete_diffusion.evaluation.comparison import Baseline, Column, ComparedModel, Comparison
from discrete_diffusion.evaluation.comparison_table import comparison_table

COLUMNS = (
    Column("valid", "valid", 1, up=True, share=True, of_samples=True),
    Column("transitive", "transitive", 1, up=True, share=True, of_samples=True),
    Column("relation TV", "relation_tv", 4),
    Column("conditional relation TV", "conditional_relation_tv", 4),
    Column("mode coverage", "mode_coverage", 1, up=True, share=True),
)
BY = TokenCells(SimpleNamespace(columns=COLUMNS, axes=()))
"""What is measured of cells of graphs."""
GENERATOR = torch.Generator().manual_seed(0)


def bounds(seeds: int, shift: float = 0.0) -> torch.Tensor:
    return torch.randn(seeds, 40, generator=GENERATOR, dtype=torch.float64) + shift


def model(name: str, bounds: torch.Tensor, **options) -> ComparedModel:
    fields = {
        "backbone": "dit",
        "model": "dit_tiny",
        "instead_of": None,
        "parameters": 182_556,
        "quantity": "nats per unordered diagram",
        "values": {"nelbo": bounds},
        "metrics": {"valid": [0.5] * len(bounds)},
        "config": OmegaConf.create(),
        "folder": Path(),
    }
    return ComparedModel(algorithm=name, **{**fields, **options})


def compared(
    *models: ComparedModel,
    seeds: tuple[int, ...] = (0,),
    by: CellMeasurement | None = None,
    baselines: tuple[Baseline, ...] = (),
) -> Comparison:
    by = by or BY
    return Comparison(models, seeds, by.measures, by.columns, "test", 1, baselines)


def shown(comparison: Comparison, real: dict[str, float]) -> tuple[list[str], list[list[str]]]:
    """Heads and cells."""
    table = comparison_table(comparison, real)
    return table.heads, [[*row] for row in table.rows]
