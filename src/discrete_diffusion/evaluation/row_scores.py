"""Hidden rows predicted by a model, filled by a sampler, and guessed without either."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.data.regions import RegionDataset
from discrete_diffusion.evaluation.filling import (
    Filling,
    RowPredictor,
    draw_held_out_masks,
    fill_held_out,
)
from discrete_diffusion.metrics import (
    ColumnMean,
    MaskedWindows,
    NeighbourMean,
    ProgrammeMean,
    RowBaseline,
    RowScores,
    WindowMean,
    score_rows,
)
from discrete_diffusion.shards import Shard

MASK_RATES = (0.15, 0.3, 0.5, 0.7, 0.9)
ORACLE = "oracle"
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
    masked = draw_held_out_masks(train.real, mask_rate, make_generator(seed, _TRAINING_MASKS))
    by_name: dict[str, RowBaseline] = {
        "column_mean": column_mean,
        "neighbour_mean": NeighbourMean.fit(train.x0, train.real, masked),
        "window_mean": WindowMean.fit(train.x0, train.real, masked),
    }
    if data.programmes is not None:
        by_name[ORACLE] = ProgrammeMean.fit(train.x0, train.real, data.programmes["train"])
    scale = train.x0[train.real].double().std(dim=0, correction=0)
    return RowBaselines(column_mean.mean, scale, by_name)


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
        """For ``metrics.json``: the model's numbers under their own names, the others' with whose
        they are before them."""
        out: dict[str, float] = self.predicted.as_dict()
        if self.filled is not None:
            out |= self.filled.as_dict("filled_")
        for name, scores in self.baselines.items():
            out |= scores.as_dict(f"{name}_")
        return out | {
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
) -> FillingScores:
    """Model, sampler and baselines on the masked rows of a filling of the first windows of a split.

    ``baselines``: those of ``fit_baselines(data, mask_rate, seed)``, fitted here if not given.
    """
    fitted = fit_baselines(data, mask_rate, seed) if baselines is None else baselines
    return FillingScores(
        predicted=fitted.scores(filling.predicted, filling),
        filled=None if filling.filled is None else fitted.scores(filling.filled, filling),
        baselines=dict(_baseline_scores(fitted, filling, data, split, fitted.by_name)),
        mask_rate=mask_rate,
        num_windows=len(filling),
    )


def _baseline_scores(
    fitted: RowBaselines, filling: Filling, data: RegionDataset, split: str, names: Iterable[str]
) -> Iterator[tuple[str, RowScores]]:
    """Each of the named baselines, in turn."""
    known = None if data.programmes is None else data.programmes[split][: len(filling)]
    hidden = torch.where(filling.masked.unsqueeze(-1), 0.0, filling.truth)
    windows = MaskedWindows(hidden, filling.masked, filling.real, known)
    for name in names:
        yield name, fitted.scores(fitted.by_name[name].predict(windows), filling)


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
    algorithm: RowPredictor,
    data: RegionDataset,
    split: str,
    *,
    rates: Sequence[float] = MASK_RATES,
    num: int | None,
    seed: int,
    batch_size: int,
    device: torch.device | str = "cpu",
    shard: Shard | None = None,
) -> ScoresByMaskRate:
    """The model's predictions, the neighbour mean and the oracle at several mask rates.

    The rows hidden at one rate are hidden at every higher one too. Arguments as ``fill_held_out``.
    """
    by_name: dict[str, list[RowScores]] = {}
    for rate in rates:
        filling = fill_held_out(
            algorithm,
            None,
            data,
            split,
            num=num,
            mask_rate=rate,
            seed=seed,
            batch_size=batch_size,
            device=device,
            shard=shard,
        )
        fitted = fit_baselines(data, rate, seed)
        names = [name for name in ("neighbour_mean", ORACLE) if name in fitted.by_name]
        by_name.setdefault("model", []).append(fitted.scores(filling.predicted, filling))
        for name, scores in _baseline_scores(fitted, filling, data, split, names):
            by_name.setdefault(name, []).append(scores)
    return ScoresByMaskRate(tuple(rates), {name: tuple(x) for name, x in by_name.items()})
