"""Hidden rows predicted by a model, filled by a sampler, and guessed without either."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.domains.regions.baselines import (
    ColumnMean,
    MaskedWindows,
    NeighbourMean,
    ProgrammeMean,
    RowBaseline,
    column_scale,
)
from discrete_diffusion.domains.regions.dataset import RegionDataset
from discrete_diffusion.domains.regions.filling import Filling, draw_held_out_masks
from discrete_diffusion.domains.regions.metrics import RowScores, score_rows

NEIGHBOURS, ORACLE = "neighbour_mean", "oracle"
_TRAINING_MASKS = 72
"""Keeps the masks that baselines are fitted under apart from those they are scored under."""


@dataclass(frozen=True)
class FillingScores:
    """``predicted``: of the model's expected rows. ``filled``: of the sampler's rows, None without
    one. ``baselines``: by name; ``oracle`` only of simulated data.

    Rows that a sampler draws have the spread that expected rows lack: the squared error of an exact
    model's draws is twice that of its expectations.
    """

    predicted: RowScores
    filled: RowScores | None
    baselines: Mapping[str, RowScores]
    mask_rate: float
    num_windows: int

    @property
    def predictors(self) -> dict[str, RowScores]:
        """Scores of predictions by whose they are: ``model``, then the baselines."""
        return {"model": self.predicted, **self.baselines}

    def as_dict(self) -> dict[str, float]:
        """For ``metrics.json``: ``scores``, and of how many windows, rows and columns they are. A
        column is dropped whose masked truth is constant."""
        kept = self.predicted.kept
        return self.scores() | {
            "num_windows": self.num_windows,
            "num_masked_rows": self.predicted.num_rows,
            "num_columns": int(kept.sum()),
            "dropped_columns": int((~kept).sum()),
            "mask_rate": self.mask_rate,
        }

    def scores(self) -> dict[str, float]:
        """The model's numbers under their own names, the others' with whose they are before
        them."""
        by_prefix = {"": self.predicted, "filled_": self.filled}
        by_prefix |= {f"{name}_": scores for name, scores in self.baselines.items()}
        return {
            name: value
            for prefix, scores in by_prefix.items()
            if scores is not None
            for name, value in scores.as_dict(prefix).items()
        }


@dataclass(frozen=True)
class RowBaselines:
    """What the training split says of a row without a network.

    ``train``: its windows, masked at ``mask_rate``. ``mean``, ``scale``: Float64[M], mean and
    standard deviation of its rows. ``by_name``: ``column_mean``, ``neighbour_mean``,
    ``window_mean`` and, of simulated data, ``oracle``.
    """

    train: MaskedWindows
    mask_rate: float
    mean: Tensor
    scale: Tensor
    by_name: Mapping[str, RowBaseline]

    def at_rate(self, mask_rate: float, seed: int) -> RowBaselines:
        """The neighbour mean, fitted anew for rows masked at another rate, and the oracle."""
        train = _masked(self.train, mask_rate, seed)
        by_name: dict[str, RowBaseline] = {NEIGHBOURS: NeighbourMean.fit(train, self.mean)}
        if ORACLE in self.by_name:
            by_name[ORACLE] = self.by_name[ORACLE]
        return replace(self, train=train, mask_rate=mask_rate, by_name=by_name)

    def measure(
        self,
        filling: Filling,
        programmes: Tensor | None = None,
        *,
        baseline_scores: Mapping[str, RowScores] | None = None,
    ) -> FillingScores:
        """Model, sampler and baselines on the masked rows of a filling.

        ``programmes``: of its windows, Int64[W, N]; None leaves out the oracle.
        ``baseline_scores``: those of the same windows and masks, computed here if not given.
        """

        def score(predicted: Tensor) -> RowScores:
            return score_rows(
                predicted,
                filling.truth,
                filling.masked,
                column_mean=self.mean,
                column_scale=self.scale,
            )

        if baseline_scores is None:
            hidden = torch.where(filling.masked.unsqueeze(-1), 0.0, filling.truth)
            windows = MaskedWindows(hidden, filling.masked, filling.real, programmes)
            baseline_scores = {
                name: score(baseline.predict(windows))
                for name, baseline in self.by_name.items()
                if name != ORACLE or programmes is not None
            }
        return FillingScores(
            predicted=score(filling.predicted),
            filled=None if filling.filled is None else score(filling.filled),
            baselines=baseline_scores,
            mask_rate=self.mask_rate,
            num_windows=len(filling),
        )


def fit_baselines(data: RegionDataset, mask_rate: float, seed: int = 0) -> RowBaselines:
    """Baselines for rows masked at ``mask_rate``; ``seed``: of the masks they are fitted under."""
    examples = data.splits["train"]
    programmes = None if data.programmes is None else data.programmes["train"]
    nothing = torch.zeros_like(examples.real)
    train = _masked(MaskedWindows(examples.x0, nothing, examples.real, programmes), mask_rate, seed)
    column_mean = ColumnMean.fit(train)
    mean = column_mean.mean
    by_name: dict[str, RowBaseline] = {
        "column_mean": column_mean,
        NEIGHBOURS: NeighbourMean.fit(train, mean),
        "window_mean": NeighbourMean.fit(train, mean, radius=None),
    }
    if programmes is not None:
        by_name[ORACLE] = ProgrammeMean.fit(train, mean)
    return RowBaselines(train, mask_rate, mean, column_scale(train, mean), by_name)


def _masked(train: MaskedWindows, mask_rate: float, seed: int) -> MaskedWindows:
    """The same windows under the masks that baselines are fitted under."""
    generator = make_generator(seed, _TRAINING_MASKS)
    return replace(train, masked=draw_held_out_masks(train.real, mask_rate, generator))
