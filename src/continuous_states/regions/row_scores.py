"""Hidden rows predicted by a model, filled by a sampler, and guessed without either."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from continuous_states.regions.baselines import (
    ColumnMean,
    MaskedWindows,
    NeighbourMean,
    ProgrammeMean,
    RowBaseline,
    column_scale,
)
from continuous_states.regions.dataset import RegionDataset
from continuous_states.regions.filling import Filling, sample_held_out_masks
from continuous_states.regions.metrics import RowScores, score_rows
from discrete_diffusion.categorical import make_generator

NEIGHBOURS, ORACLE = "neighbour_mean", "oracle"
_TRAINING_MASKS = 72
"""Keeps the masks that baselines are fitted under apart from those they are scored under."""


@dataclass(frozen=True)
class FillingScores:
    """Scores of all who guess the hidden rows of ``num_windows`` windows.

    ``by_name``: of the ``model``'s expected rows, of those ``filled`` by a sampler, if any, then
    of the baselines; ``oracle`` only of simulated data.

    Sampled rows have the spread that expected rows lack: the squared error of an exact model's
    samples is twice that of its expectations.
    """

    by_name: Mapping[str, RowScores]
    mask_rate: float
    num_windows: int

    def scores(self) -> dict[str, float]:
        """The model's numbers under their own names, the others' with whose they are in front."""
        return {
            name: value
            for who, scores in self.by_name.items()
            for name, value in scores.as_dict("" if who == "model" else f"{who}_").items()
        }

    def as_dict(self) -> dict[str, float]:
        """The ``scores`` for ``metrics.json``, and numbers of windows, rows and columns. A
        column is dropped whose masked truth is constant."""
        model = self.by_name["model"]
        return self.scores() | {
            "num_windows": self.num_windows,
            "num_masked_rows": model.num_rows,
            "num_columns": int(model.kept.sum()),
            "dropped_columns": int((~model.kept).sum()),
            "mask_rate": self.mask_rate,
        }


@dataclass(frozen=True)
class RowBaselines:
    """Guesses of a row from the training split, without a network.

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
        known: Mapping[str, RowScores] | None = None,
    ) -> FillingScores:
        """Model, sampler and baselines on the masked rows of a filling.

        ``programmes``: of its windows, Int64[W, N]; None leaves out the oracle.
        ``known``: scores of the baselines on the same windows and masks, found here if not given.
        """

        def score(predicted: Tensor) -> RowScores:
            return score_rows(
                predicted,
                filling.truth,
                filling.masked,
                column_mean=self.mean,
                column_scale=self.scale,
            )

        if known is None:
            hidden = torch.where(filling.masked.unsqueeze(-1), 0.0, filling.truth)
            windows = MaskedWindows(hidden, filling.masked, filling.real, programmes)
            known = {
                name: score(baseline.predict(windows))
                for name, baseline in self.by_name.items()
                if name != ORACLE or programmes is not None
            }
        made = {"model": score(filling.predicted)}
        if filling.filled is not None:
            made["filled"] = score(filling.filled)
        return FillingScores({**made, **known}, self.mask_rate, len(filling))


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
    return replace(train, masked=sample_held_out_masks(train.real, mask_rate, generator))
