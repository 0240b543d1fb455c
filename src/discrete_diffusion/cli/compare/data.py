"""The data of a comparison: read once, held out, the same for all cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from discrete_diffusion.cli.compare.cells import Cell

if TYPE_CHECKING:
    from discrete_diffusion.data import Dataset


def read_data(cells: Sequence[Cell]) -> dict[str, Dataset]:
    """The data sets of the cells by name, that of the first cell first.

    Raises ``ValueError`` if one holds out fewer than two samples, or two do not hold the same.
    """
    first, *others = found = {
        name: _read(next(cell.config for cell in cells if cell.data == name))
        for name in dict.fromkeys(cell.data for cell in cells)
    }
    for name in others:
        cells[0].measurement.check_same(found[first], found[name])
    return found


def _read(config: DictConfig) -> Dataset:
    from discrete_diffusion.domains import build_data, complete_data
    from discrete_diffusion.evaluation.equal_terms import held_out_split

    data = build_data(complete_data(config))
    if (num := len(data.splits[split := held_out_split(data)])) < 2:
        source = config.data.get("path") or f"data={config.data.name}"
        raise ValueError(
            f"{source}: the {split} split holds {num}, expected at least two samples to compare "
            f"models on; give it a larger share than data.split={config.data.get('split')}, or "
            "more data"
        )
    return data
