"""Tables of regions made up for tests, and the config they are read with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig, OmegaConf

from continuous_states.regions.files import RegionTable
from discrete_diffusion.config.files import shipped_files


def region_config(**changes: Any) -> DictConfig:
    """``configs/data/regions.yaml`` at test size."""
    config = OmegaConf.load(shipped_files("data")["regions"])
    small = {"num_windows": 20, "rows": 10, "num_motifs": 4, "peak_length": 50}
    return OmegaConf.merge(config, small, changes)


def table_config(path: Path, **changes: Any) -> DictConfig:
    """The same for a table: windows of 4, halves and quarters."""
    shares = {"rows": 4, "split": [0.5, 0.25, 0.25]}
    return region_config(path=str(path), **{**shares, **changes})


def peak_names(chromosome: str, num: int, step: int = 1000) -> list[str]:
    return [f"{chromosome}:{k * step + 100}-{k * step + 600}" for k in range(num)]


def made_table(cell_types: tuple[str, ...] = ("b_cell", "cd8 t"), seed: int = 0) -> RegionTable:
    """60 peaks on chromosomes 1, 2 and 10 in random order, 3 motifs; a fifth of aTPM is 0."""
    rng = np.random.default_rng(seed)
    names = [*peak_names("chr1", 30), *peak_names("chr2", 20), *peak_names("chr10", 10)]
    names = [names[k] for k in rng.permutation(60)]
    atpm = {c: rng.exponential(size=60) * (rng.random(60) > 0.2) for c in cell_types}
    return RegionTable(
        scores=rng.exponential(size=(60, 3)).astype(np.float32),
        peak_names=tuple(names),
        motif_names=("CTCF", "GATA/1", "SPI1 α"),
        atpm={name: values.astype(np.float32) for name, values in atpm.items()},
    )
