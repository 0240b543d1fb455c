"""Guesses of hidden rows without a network: means of columns, neighbours, programmes.

Axes: ``W`` windows, ``N`` rows of a window, ``M`` columns, ``P`` programmes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from einops import rearrange
from torch import Tensor

NEIGHBOUR_RADIUS = 8
CHUNK = 16
"""Windows that are worked on in float64 at once; a split may fill much of the memory."""


@dataclass(frozen=True)
class MaskedWindows:
    """Windows with rows to predict; training windows to fit a baseline on have the same form.

    ``rows``: Float[W, N, M]; those that are masked are read by ``fit`` alone. ``masked``:
    Bool[W, N], real rows to predict. ``real``: Bool[W, N], rows that exist. ``programmes``:
    Int64[W, N] or None, the simulator's truth, -1 where there is none; only ``ProgrammeMean``
    reads it.
    """

    rows: Tensor
    masked: Tensor
    real: Tensor
    programmes: Tensor | None = None

    def chunks(self) -> Iterator[MaskedWindows]:
        """``CHUNK`` windows at a time, in their order; views."""
        given = [x for x in (self.rows, self.masked, self.real, self.programmes) if x is not None]
        for part in zip(*(x.split(CHUNK) for x in given), strict=True):
            yield MaskedWindows(*part)


class RowBaseline(ABC):
    """Fitted on training windows; predicts the masked rows of others."""

    @abstractmethod
    def guess(self, windows: MaskedWindows) -> Tensor:
        """Float[W, N, M]: a guess of every row; only those of masked rows count."""

    def predict(self, windows: MaskedWindows) -> Tensor:
        """Float[W, N, M]: the masked rows predicted, the others as they are."""
        out = windows.rows.clone()
        for part, rows in zip(windows.chunks(), out.split(CHUNK), strict=True):
            rows[part.masked] = self.guess(part)[part.masked].to(rows.dtype)
        return out


@dataclass(frozen=True)
class ColumnMean(RowBaseline):
    """The mean training row, whatever is observed. ``mean``: Float64[M]."""

    mean: Tensor

    @classmethod
    def fit(cls, train: MaskedWindows) -> ColumnMean:
        """Raises ``ValueError`` without a real row."""
        return cls(_mean_row(train, lambda rows: rows))

    def guess(self, windows: MaskedWindows) -> Tensor:
        return self.mean.expand_as(windows.rows)


def column_scale(train: MaskedWindows, mean: Tensor) -> Tensor:
    """Float64[M]: the standard deviation of the real rows about their ``mean`` Float64[M].

    Raises ``ValueError`` without a real row.
    """
    return _mean_row(train, lambda rows: (rows - mean).square()).sqrt()


@dataclass(frozen=True)
class NeighbourMean(RowBaseline):
    """The mean of the observed rows near a masked one, shrunk towards the mean training row:

        y_m = mu_m + b_m (n_m - mu_m),    n_m the mean over observed rows at most ``radius`` away.

    With no such row, y = mu. ``mean``: mu, Float64[M]. ``slope``: b, Float64[M], by least squares
    over the masked training rows; it depends on how many rows are masked. ``radius``: in rows;
    None: the whole window.
    """

    mean: Tensor
    slope: Tensor
    radius: int | None

    @classmethod
    def fit(
        cls, train: MaskedWindows, mean: Tensor, radius: int | None = NEIGHBOUR_RADIUS
    ) -> NeighbourMean:
        """``train``: masked at the rate of the rows to predict. ``mean``: that of
        ``ColumnMean.fit(train)``. A column without spread has slope 0.

        Raises ``ValueError`` for a radius below 1.
        """
        if radius is not None and radius < 1:
            raise ValueError(f"radius={radius}: expected at least 1 row, or None for the window")
        products, spread = torch.zeros_like(mean), torch.zeros_like(mean)
        for part in train.chunks():
            near, count = _near_means(part, mean, radius)
            used = part.masked & (count > 0)
            n, x = near[used], part.rows[used].double() - mean  # (rows, M)
            products += (n * x).sum(dim=0)
            spread += n.square().sum(dim=0)
        return cls(mean, torch.where(spread > 0, products / spread, 0.0), radius)

    def guess(self, windows: MaskedWindows) -> Tensor:
        return self.mean + self.slope * _near_means(windows, self.mean, self.radius)[0]


@dataclass(frozen=True)
class ProgrammeMean(RowBaseline):
    """The oracle: the mean training row of the programme that a masked row was simulated from.

    If rows are independent given their programmes, no prediction has a lower expected squared
    error: what is above it has seen the masked rows. ``means``: Float64[P + 1, M], the last one
    that of all training rows, for a programme that they do not have.
    """

    means: Tensor

    @classmethod
    def fit(cls, train: MaskedWindows, mean: Tensor) -> ProgrammeMean:
        """``train``: with programmes. ``mean``: that of ``ColumnMean.fit(train)``."""
        assert train.programmes is not None
        known = train.real & (train.programmes >= 0)
        count = torch.bincount(train.programmes[known]).unsqueeze(-1)
        sums = mean.new_zeros(len(count), len(mean))
        for part, here in zip(train.chunks(), known.split(CHUNK), strict=True):
            assert part.programmes is not None
            sums.index_add_(0, part.programmes[here], part.rows[here].double())
        return cls(torch.cat([torch.where(count > 0, sums / count, mean), mean.unsqueeze(0)]))

    def guess(self, windows: MaskedWindows) -> Tensor:
        """Raises ``ValueError`` if the windows come without programmes."""
        if windows.programmes is None:
            raise ValueError(
                "these windows come without programmes, which only simulated data has; use "
                "another baseline"
            )
        return self.means[windows.programmes.clamp(max=len(self.means) - 1)]  # -1 is the last


def _mean_row(train: MaskedWindows, of: Callable[[Tensor], Tensor]) -> Tensor:
    """Float64[M]: the mean over real rows of what ``of`` makes of Float64[rows, M]."""
    if not train.real.any():
        raise ValueError("no real row to take the mean of; give a training split with rows")
    total = torch.zeros(train.rows.shape[-1], dtype=torch.float64, device=train.rows.device)
    for part in train.chunks():
        total += of(part.rows[part.real].double()).sum(dim=0)
    return total / train.real.sum()


def _near_means(windows: MaskedWindows, mean: Tensor, radius: int | None) -> tuple[Tensor, Tensor]:
    """Mean of the observed rows within ``radius``, less ``mean``, Float64[W, N, M] (0 without any),
    and their number Float64[W, N], by differences of cumulative sums."""
    seen = rearrange(windows.real & ~windows.masked, "w n -> w n 1")
    centred = torch.where(seen, windows.rows.double() - mean, 0.0)
    both = torch.cat([seen.double(), centred], dim=2)
    sums = torch.nn.functional.pad(both.cumsum(dim=1), (0, 0, 1, 0))  # sums[n]: of the first n
    num = both.shape[1]
    radius = num if radius is None else radius
    at = torch.arange(num, device=both.device)
    first, end = (at - radius).clamp(min=0), (at + radius + 1).clamp(max=num)
    near = sums[:, end] - sums[:, first]
    count = near[..., 0].round()
    return near[..., 1:] / count.clamp(min=1).unsqueeze(-1), count
