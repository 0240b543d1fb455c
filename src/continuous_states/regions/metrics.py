"""Accuracy of predicted hidden rows of real numbers, column by column."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

CONSTANT = 1e-12
"""A column is constant if its range is at most this part of its largest magnitude."""


@dataclass(frozen=True)
class RowScores:
    """Result of ``score_rows`` on M columns; NaN in columns that were dropped. A number "per
    motif" is a mean over all kept columns, accessibility among them; NaN if none is kept.

    ``r``: Float64[M], Pearson's correlation of prediction and truth. ``r2``: Float64[M], the share
    of the truth's spread about the training mean that is explained; below 0 if the mean is better.
    ``mse``: Float64[M]. ``kept``: Bool[M]. ``num_rows``: masked rows, of all windows.
    """

    r: Tensor
    r2: Tensor
    mse: Tensor
    kept: Tensor
    num_rows: int

    @property
    def per_motif_r(self) -> float:
        """Mean of ``r``."""
        return float(self.r[self.kept].mean())

    def as_dict(self, prefix: str = "") -> dict[str, float]:
        """The means of ``r``, ``r2`` and ``mse`` over the kept columns, by name."""
        return {
            f"{prefix}per_motif_r": self.per_motif_r,
            f"{prefix}per_motif_r2": float(self.r2[self.kept].mean()),
            f"{prefix}masked_mse": float(self.mse[self.kept].mean()),
        }


def score_rows(
    predicted: Tensor,
    truth: Tensor,
    masked: Tensor,
    *,
    column_mean: Tensor,
    column_scale: Tensor,
) -> RowScores:
    """Scores of masked rows only, the windows pooled, for column m over masked rows n:

        r_m  = corr_n(x_nm, y_nm)
        r2_m = 1 - sum_n (x_nm - y_nm)^2 / sum_n (x_nm - mu_m)^2
        mse_m = mean_n ((x_nm - y_nm) / s_m)^2

    with the truth x, the prediction y, and mu and s of the *training* rows. A column of the masked
    truth that is constant is dropped: neither r nor r2 exists. A prediction that is constant in a
    column has r = 0 there: it orders no two rows.

    ``predicted``, ``truth``: Float[W, N, M]. ``masked``: Bool[W, N], rows that were hidden.
    ``column_mean``, ``column_scale``: Float[M], mean and standard deviation of the training rows; a
    scale of 0 counts as 1.

    Raises ``ValueError`` for shapes that do not belong together, or if no row is masked.
    """
    if predicted.shape != truth.shape or masked.shape != truth.shape[:-1]:
        raise ValueError(
            f"predicted {tuple(predicted.shape)}, truth {tuple(truth.shape)} and masked "
            f"{tuple(masked.shape)} do not belong together; expected (W, N, M) twice and (W, N)"
        )
    x, y = truth[masked].double(), predicted[masked].double()  # (rows, M)
    if len(x) == 0:
        raise ValueError("no row is masked, so there is nothing to score; mask at least one")
    scale = torch.where(column_scale > 0, column_scale, 1.0).double()
    squares = (x - y).square()
    kept = ~_constant_columns(x)
    spread = (x - column_mean.double()).square().sum(dim=0)

    def of_kept(values: Tensor) -> Tensor:
        return torch.where(kept, values, torch.nan)

    return RowScores(
        r=of_kept(_correlation(x, y)),
        r2=of_kept(1 - squares.sum(dim=0) / spread),
        mse=of_kept(squares.mean(dim=0) / scale.square()),
        kept=kept,
        num_rows=len(x),
    )


def _constant_columns(values: Tensor) -> Tensor:
    """Bool[M]: columns of Float[rows, M] whose range is 0 to a relative ``CONSTANT``."""
    low, high = values.amin(dim=0), values.amax(dim=0)
    return high - low <= CONSTANT * torch.maximum(low.abs(), high.abs())


def _correlation(x: Tensor, y: Tensor) -> Tensor:
    """Pearson's r by column of two Float64[rows, M]; 0 where y is constant."""
    x, flat = x - x.mean(dim=0), _constant_columns(y)
    y = y - y.mean(dim=0)
    r = (x * y).sum(dim=0) / (x.square().sum(dim=0) * y.square().sum(dim=0)).sqrt()
    return torch.where(flat, 0.0, r)
