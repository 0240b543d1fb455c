"""Report on filled rows: numbers, a file, a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from continuous_states.arrays import write_npz
from continuous_states.regions.dataset import RegionDataset
from continuous_states.regions.filling import Filling, fill_held_out
from continuous_states.regions.metrics import RowScores
from continuous_states.regions.region_maps import plot_region_maps
from continuous_states.regions.row_scores import FillingScores, fit_baselines
from continuous_states.reporting import known_numbers
from discrete_diffusion.evaluation import Headline, Report

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.sampling import Model

MASK_RATES = (0.15, 0.3, 0.5, 0.7, 0.9)


class RowReport(Report):
    """Scores of filled windows beside those of baselines, and what they look like.

    The baselines are fitted once, for rows masked at ``mask_rate``. Every ``filling`` is of the
    first windows of ``split``; while the masks are the same, the scores of the baselines are kept.
    """

    headlines = (Headline("per_motif_r"), Headline("per_motif_r2"))

    def __init__(
        self, data: RegionDataset, split: str = "val", mask_rate: float = 0.5, seed: int = 0
    ) -> None:
        self.data, self.split, self.mask_rate, self.seed = data, split, mask_rate, seed
        self.baselines = fit_baselines(data, mask_rate, seed)
        self._last: tuple[Tensor, Mapping[str, RowScores]] | None = None

    def sample(self, model: Model, num: int, seed: int, stream: tuple[int, ...] = ()) -> Filling:
        return self.fill(model, num, seed + sum(stream))

    def fill(
        self, model: Model, num: int | None, seed: int, mask_rate: float | None = None
    ) -> Filling:
        """The first ``num`` windows of the split, all if it is None; masked at the rate of the
        report if none is given."""
        return fill_held_out(
            model,
            self.data,
            self.split,
            num=num,
            mask_rate=self.mask_rate if mask_rate is None else mask_rate,
            seed=seed,
        )

    def scores(self, filling: Filling) -> FillingScores:
        """Model, sampler and baselines."""
        last = self._last
        known = last[1] if last is not None and last[0].equal(filling.masked) else None
        scores = self.baselines.measure(filling, self._programmes(filling), known)
        known = {name: scores.by_name[name] for name in self.baselines.by_name}
        self._last = (filling.masked.clone(), known)
        return scores

    def scores_by_mask_rate(
        self, model: Model, num: int | None, rates: Sequence[float] = MASK_RATES
    ) -> list[FillingScores]:
        """The model's predictions, the neighbour mean and the oracle at several mask rates. The
        rows hidden at one rate are hidden at every higher one too."""
        predicting, found = replace(model, sampler=None), []
        for rate in rates:
            filling = self.fill(predicting, num, self.seed, rate)
            baselines = self.baselines.at_rate(rate, self.seed)
            found.append(baselines.measure(filling, self._programmes(filling)))
        return found

    def _programmes(self, filling: Filling) -> Tensor | None:
        programmes = self.data.programmes
        return None if programmes is None else programmes[self.split][: len(filling)]

    def measure(self, filling: Filling) -> dict[str, float]:
        """Scores by name; none of no window."""
        return self.scores(filling).as_dict() if len(filling) else {}

    def save(self, filling: Filling, folder: Path) -> None:
        """Write ``samples.npz`` and ``samples.png`` into a folder."""
        if len(filling):
            self.write(filling, folder)
            self.plot(filling, folder / "samples.png")

    def write(self, filling: Filling, folder: Path) -> None:
        """``samples.npz``: ``truth``, ``predicted`` and, by a sampler, ``filled`` Float32[W, N, M];
        ``masked`` and ``real`` Bool[W, N]; ``feature_names``; of a table ``peak_names`` text[W, N]
        and ``cell_types`` text[W] too."""
        tensors = {
            name: getattr(filling, name)
            for name in ("truth", "real", "masked", "predicted", "filled")
        }
        num = len(filling)
        places = {name: text[self.split][:num] for name, text in self.data.places.items()}
        write_rows(folder, tensors, self.data.feature_names, places)

    def plot(self, filling: Filling, path: Path) -> None:
        """Draw the first windows: true, masked and filled (predicted, without a sampler)."""
        if len(filling):
            plot_region_maps(filling, path, feature_names=self.data.feature_names)

    def summary(self, metrics: Mapping[str, Any]) -> str:
        if "per_motif_r" not in metrics:
            bound = next(name for name in metrics if name.startswith("nelbo_"))
            return f"metrics: {bound} {metrics[bound]:.2f}"
        parts = []
        for name, shown in (("per_motif_r", "r"), ("per_motif_r2", "R2")):
            others = {f"neighbour_mean_{name}": "neighbour mean", f"oracle_{name}": "oracle"}
            known = known_numbers(metrics, others)
            parts.append(f"per-motif {shown} {metrics[name]:.3f} ({known})")
        num, rate = metrics["num_masked_rows"], metrics["mask_rate"]
        return f"metrics: {', '.join(parts)}  [{num:,} rows hidden at rate {rate:g}]"


def write_rows(
    folder: Path,
    tensors: Mapping[str, Tensor | None],
    feature_names: Sequence[str],
    places: Mapping[str, NDArray[np.str_]] | None = None,
) -> None:
    """``samples.npz``: ``feature_names`` text[M], tensors by name (None is left out), and
    ``places``, text that says where the windows lie."""
    arrays = {name: x.numpy() for name, x in tensors.items() if x is not None}
    names = {"feature_names": np.array(feature_names, dtype=np.str_)}
    write_npz(folder / "samples.npz", {**names, **arrays, **(places or {})})


def report_of_training(data: RegionDataset, split: str, config: DictConfig) -> RowReport:
    """Report on windows masked as ``eval.mask_rate`` of a config of ``train`` says."""
    return RowReport(data, split, config.eval.mask_rate, config.seed)
