"""Tables of regions, and windows of rows of which everything is known: programmes, covariances, the
best prediction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import DictConfig, OmegaConf
from torch import Tensor, nn

from continuous_states.regions.dataset import RegionDataset
from continuous_states.regions.files import RegionTable
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.config.files import shipped_files
from discrete_diffusion.contracts import SampleOutput
from discrete_diffusion.data import Examples


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


SHARES = {"train": 60, "val": 12, "test": 12}


def changed(data: RegionDataset, **parts: Any) -> RegionDataset:
    """The same data with other ``splits`` or ``programmes``."""
    kept = {name: getattr(data, name) for name in ("splits", "feature_names", "programmes")}
    return RegionDataset(**(kept | parts), source="toy")


def toy_regions(num_rows: int = 12, num_columns: int = 5, domain: int = 4) -> RegionDataset:
    """Rows x = programme mean + noise, then a column that is 1 everywhere.

    Domains of equal length share one of three programmes; every third window has two rows less.
    """
    generator = make_generator(3)
    means = torch.randn(3, num_columns, generator=generator) * torch.linspace(0.5, 2, num_columns)
    splits, programmes = {}, {}
    for name, num in SHARES.items():
        domains = torch.randint(3, (num, -(-num_rows // domain)), generator=generator)
        of = domains.repeat_interleave(domain, dim=1)[:, :num_rows]
        x0 = 4 + means[of] + torch.randn(num, num_rows, num_columns, generator=generator)
        x0 = torch.cat([x0, torch.ones(num, num_rows, 1)], dim=2)
        real = torch.ones(num, num_rows, dtype=torch.bool)
        real[::3, -2:] = False
        splits[name] = Examples(torch.where(real.unsqueeze(-1), x0, 0.0), real)
        programmes[name] = torch.where(real, of, -1)
    names = (*(f"motif {k}" for k in range(num_columns)), "accessibility")
    return RegionDataset(splits, feature_names=names, programmes=programmes, source="toy")


class ChainModel(nn.Module):
    """The exact E[x_masked | x_observed] of columns that are Gaussian chains over the rows: mean
    ``mean``, variance 1, correlation ``rho^|i - j|`` of rows i and j."""

    def __init__(self, rho: float = 0.8, mean: float = 4.0) -> None:
        super().__init__()
        self.rho, self.mean = rho, mean
        self.calls: list[tuple[int, ...]] = []

    def covariance(self, num: int) -> Tensor:
        at = torch.arange(num)
        return self.rho ** (at[:, None] - at).abs().double()

    def predict(self, rows: Tensor, masked: Tensor, real: Tensor) -> Tensor:
        assert not self.training
        self.calls.append(tuple(rows.shape))
        covariance, out = self.covariance(rows.shape[1]), rows.clone()
        for w in range(len(rows)):
            hidden, seen = masked[w].nonzero()[:, 0], (real[w] & ~masked[w]).nonzero()[:, 0]
            weights = torch.linalg.solve(
                covariance[seen][:, seen], covariance[seen][:, hidden]
            )  # (seen, hidden)
            out[w, hidden] = (self.mean + weights.T @ (rows[w, seen].double() - self.mean)).float()
        return out


class SpreadSampler:
    """What the model expects, and noise of the generator on it; two calls a window."""

    def sample(self, algorithm, real, *, clamp, generator, steps=None) -> SampleOutput:
        rows, masked = clamp.nan_to_num(0.0), clamp.isnan().all(dim=-1)
        expected = algorithm.predict(rows, masked, real)
        noise = torch.randn(rows.shape, generator=generator)
        filled = torch.where(masked.unsqueeze(-1), expected + noise, rows)
        calls = torch.full((len(rows),), 2 if steps is None else steps)
        return SampleOutput(filled, calls, torch.zeros(len(rows)))
