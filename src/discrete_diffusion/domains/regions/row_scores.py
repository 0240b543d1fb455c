"""Hidden rows predicted by a model, filled by a sampler, and guessed without either."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.domains.regions import RegionDataset
from discrete_diffusion.domains.regions.baselines import (
    ColumnMean,
    MaskedWindows,
    NeighbourMean,
    ProgrammeMean,
    RowBaseline,
    WindowMean,
    column_scale,
)
from discrete_diffusion.domains.regions.filling import (
    Filling,
    draw_held_out_masks,
    fill_held_out,
)
from discrete_diffusion.domains.regions.metrics import RowScores, score_rows

if TYPE_CHECKING:
    from discrete_diffusion.evaluation.trained_model import Model

MASK_RATES = (0.15, 0.3, 0.5, 0.7, 0.9)
NEIGHBOURS, ORACLE = "neighbour_mean", "oracle"
_TRAINING_MASKS = 72
"""Keeps the masks that baselines are fitted under apart from those they are scored under."""


@dataclass(frozen=True)
class RowBaselines:
    """What the training split says of a row without a network.

    ``mean``, ``scale``: Float64[M], mean and standard deviation of its rows. ``by_name``:
    ``column_mean``, ``neighbour_mean``, ``window_mean`` and, of simulated data, ``oracle``.
    """

    mean: Tensor
    scale: Tensor
    by_name: Mapping[str, RowBaseline]

    def scores(self, predicted: Tensor, filling: Filling) -> RowScores:
        """Of Float[W, N, M], against the truth of a filling."""
        return score_rows(
            predicted,
            filling.truth,
            filling.masked,
            column_mean=self.mean,
            column_scale=self.scale,
        )


def fit_baselines(data: RegionDataset, mask_rate: float, seed: int = 0) -> RowBaselines:
    """Baselines for rows masked at ``mask_rate``; ``seed``: of the masks they are fitted under."""
    train = data.splits["train"]
    column_mean = ColumnMean.fit(train.x0, train.real)
    mean = column_mean.mean
    masked = _training_masks(data, mask_rate, seed)
    by_name: dict[str, RowBaseline] = {
        "column_mean": column_mean,
        NEIGHBOURS: NeighbourMean.fit(train.x0, train.real, masked, mean=mean),
        "window_mean": WindowMean.fit(train.x0, train.real, masked, mean=mean),
    }
    if data.programmes is not None:
        of = data.programmes["train"]
        by_name[ORACLE] = ProgrammeMean.fit(train.x0, train.real, of, mean=mean)
    return RowBaselines(mean, column_scale(train.x0, train.real, mean), by_name)


def _training_masks(data: RegionDataset, mask_rate: float, seed: int) -> Tensor:
    """Bool[W, N]: the masks that baselines are fitted under."""
    generator = make_generator(seed, _TRAINING_MASKS)
    return draw_held_out_masks(data.splits["train"].real, mask_rate, generator)


@dataclass(frozen=True)
class FillingScores:
    """What ``score_filling`` returns. ``predicted``: of the model's expected rows. ``filled``: of
    the sampler's rows, None without one. ``baselines``: by name; ``oracle`` only of simulated data.

    Rows that a sampler draws have the spread that expected rows lack: the squared error of an exact
    model's draws is twice that of its expectations.
    """

    predicted: RowScores
    filled: RowScores | None
    baselines: Mapping[str, RowScores]
    mask_rate: float
    num_windows: int

    @property
    def oracle(self) -> RowScores | None:
        """None of data without programmes."""
        return self.baselines.get(ORACLE)

    def as_dict(self) -> dict[str, float]:
        """For ``metrics.json``: ``scores`` and ``counts``."""
        return self.scores() | self.counts()

    def scores(self) -> dict[str, float]:
        """The model's numbers under their own names, the others' with whose they are before
        them."""
        out: dict[str, float] = self.predicted.as_dict()
        if self.filled is not None:
            out |= self.filled.as_dict("filled_")
        for name, scores in self.baselines.items():
            out |= scores.as_dict(f"{name}_")
        return out

    def counts(self) -> dict[str, float]:
        """What the scores are of: windows, rows, columns and the mask rate."""
        return {
            "num_windows": self.num_windows,
            "num_masked_rows": self.predicted.num_rows,
            "num_columns": self.predicted.num_columns,
            "dropped_columns": self.predicted.dropped_columns,
            "mask_rate": self.mask_rate,
        }


def score_filling(
    filling: Filling,
    data: RegionDataset,
    split: str,
    mask_rate: float,
    seed: int = 0,
    *,
    baselines: RowBaselines | None = None,
    baseline_scores: Mapping[str, RowScores] | None = None,
) -> FillingScores:
    """Model, sampler and baselines on the masked rows of a filling of the first windows of a split.

    ``baselines``: those of ``fit_baselines(data, mask_rate, seed)``, fitted here if not given.
    ``baseline_scores``: what ``score_baselines`` returned for the same windows and masks.
    """
    fitted = fit_baselines(data, mask_rate, seed) if baselines is None else baselines
    if baseline_scores is None:
        baseline_scores = score_baselines(filling, data, split, fitted)
    return FillingScores(
        predicted=fitted.scores(filling.predicted, filling),
        filled=None if filling.filled is None else fitted.scores(filling.filled, filling),
        baselines=dict(baseline_scores),
        mask_rate=mask_rate,
        num_windows=len(filling),
    )


def score_baselines(
    filling: Filling, data: RegionDataset, split: str, baselines: RowBaselines
) -> dict[str, RowScores]:
    """Of each baseline by name, on the masked rows of a filling of the first windows of a split."""
    known = None if data.programmes is None else data.programmes[split][: len(filling)]
    hidden = torch.where(filling.masked.unsqueeze(-1), 0.0, filling.truth)
    windows = MaskedWindows(hidden, filling.masked, filling.real, known)
    return {
        name: baselines.scores(baseline.predict(windows), filling)
        for name, baseline in baselines.by_name.items()
    }


@dataclass(frozen=True)
class ScoresByMaskRate:
    """Scores at R mask rates, by who predicts: ``model``, ``neighbour_mean`` and, of simulated
    data, ``oracle``; R scores each."""

    rates: tuple[float, ...]
    by_name: Mapping[str, tuple[RowScores, ...]]

    def as_dict(self) -> list[dict[str, Any]]:
        """One record per mask rate, for ``metrics.json``."""
        return [
            {"mask_rate": rate}
            | {
                key: value
                for name, scores in self.by_name.items()
                for key, value in scores[k].as_dict("" if name == "model" else f"{name}_").items()
            }
            for k, rate in enumerate(self.rates)
        ]


def scores_by_mask_rate(
    model: Model,
    data: RegionDataset,
    split: str,
    *,
    baselines: RowBaselines,
    rates: Sequence[float] = MASK_RATES,
    num: int | None,
    seed: int,
) -> ScoresByMaskRate:
    """The model's predictions, the neighbour mean and the oracle at several mask rates.

    The rows hidden at one rate are hidden at every higher one too. ``baselines``: of
    ``fit_baselines`` at any rate; what depends on the rate, the neighbour mean, is fitted here.
    The other arguments are those of ``fill_held_out``.
    """
    train, predictor = data.splits["train"], replace(model, sampler=None)
    by_name: dict[str, list[RowScores]] = {}
    for rate in rates:
        filling = fill_held_out(predictor, data, split, num=num, mask_rate=rate, seed=seed)
        masked = _training_masks(data, rate, seed)
        near = NeighbourMean.fit(train.x0, train.real, masked, mean=baselines.mean)
        shown = {NEIGHBOURS: near} | {k: x for k, x in baselines.by_name.items() if k == ORACLE}
        by_name.setdefault("model", []).append(baselines.scores(filling.predicted, filling))
        found = score_baselines(filling, data, split, replace(baselines, by_name=shown))
        for name, scores in found.items():
            by_name.setdefault(name, []).append(scores)
    return ScoresByMaskRate(tuple(rates), {name: tuple(x) for name, x in by_name.items()})
