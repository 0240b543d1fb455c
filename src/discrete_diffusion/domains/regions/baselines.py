"""What hidden rows are guessed to be without a network: means of columns, neighbours, programmes.

Axes: ``W`` windows, ``N`` rows of a window, ``M`` columns, ``P`` programmes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from einops import rearrange
from torch import Tensor

NEIGHBOUR_RADIUS = 8
CHUNK = 16
"""Windows that are worked on in float64 at once; a split may fill much of the memory."""


@dataclass(frozen=True)
class MaskedWindows:
    """What a baseline is given.

    ``rows``: Float[W, N, M]; nothing is read of those that are masked. ``masked``: Bool[W, N], rows
    to predict. ``real``: Bool[W, N], rows that exist. ``programmes``: Int64[W, N] or None, the
    simulator's truth, -1 where there is none; only ``ProgrammeMean`` reads it.
    """

    rows: Tensor
    masked: Tensor
    real: Tensor
    programmes: Tensor | None = None

    @property
    def observed(self) -> Tensor:
        """Bool[W, N]: rows that are there to be read."""
        return self.real & ~self.masked

    def chunks(self) -> Iterator[MaskedWindows]:
        """``CHUNK`` windows at a time, in their order."""
        for rows, masked, real, *of in _chunks(self.rows, self.masked, self.real, self.programmes):
            yield MaskedWindows(rows, masked, real, *of)

    def filled(self, guess: Callable[[MaskedWindows], Tensor]) -> Tensor:
        """``rows``, the masked ones replaced by those of ``guess``, which is asked for Float[w, N,
        M] of w windows at a time."""
        out = self.rows.clone()
        for part, rows in zip(self.chunks(), out.split(CHUNK), strict=True):
            rows[part.masked] = guess(part)[part.masked].to(rows.dtype)
        return out


class RowBaseline(Protocol):
    """Fitted on the training rows; predicts the masked rows of windows."""

    def predict(self, windows: MaskedWindows) -> Tensor:
        """Float[W, N, M]: the masked rows predicted, the others as they are."""
        ...


@dataclass(frozen=True)
class ColumnMean:
    """The mean training row, whatever is observed. ``mean``: Float64[M]."""

    mean: Tensor

    @classmethod
    def fit(cls, x0: Tensor, real: Tensor) -> ColumnMean:
        """x0 Float[W, N, M], real Bool[W, N]. Raises ``ValueError`` without a real row."""
        return cls(_mean_row(x0, real, lambda rows: rows))

    def predict(self, windows: MaskedWindows) -> Tensor:
        return windows.filled(lambda part: self.mean.expand_as(part.rows))


def column_scale(x0: Tensor, real: Tensor, mean: Tensor) -> Tensor:
    """Float64[M]: the standard deviation of the real rows about ``mean`` Float64[M], that of
    ``ColumnMean.fit(x0, real)``. Raises ``ValueError`` without a real row."""
    return _mean_row(x0, real, lambda rows: (rows - mean).square()).sqrt()


@dataclass(frozen=True)
class NeighbourMean:
    """The mean of the observed rows near a masked one, shrunk towards the mean training row:

        y_m = mu_m + b_m (n_m - mu_m),    n_m the mean over observed rows at most ``radius`` away.

    With no such row, y = mu. ``mean``: mu, Float64[M]. ``slope``: b, Float64[M], by least squares
    over the masked rows of the training split; it depends on how many rows are masked.
    ``radius``: in rows; None: the whole window.
    """

    mean: Tensor
    slope: Tensor
    radius: int | None

    @classmethod
    def fit(
        cls,
        x0: Tensor,
        real: Tensor,
        masked: Tensor,
        *,
        mean: Tensor | None = None,
        radius: int | None = NEIGHBOUR_RADIUS,
    ) -> Self:
        """x0 Float[W, N, M], real Bool[W, N]; ``masked``: Bool[W, N], masks of the training rows,
        drawn as those of the rows to predict; ``mean``: that of ``ColumnMean.fit(x0, real)``, taken
        here if not given. A column without spread has slope 0.

        Raises ``ValueError`` for a radius below 1, or without a real row.
        """
        if radius is not None and radius < 1:
            raise ValueError(f"radius={radius}: expected at least 1 row, or None for the window")
        mean = ColumnMean.fit(x0, real).mean if mean is None else mean
        products, spread = torch.zeros_like(mean), torch.zeros_like(mean)
        for part in MaskedWindows(x0, masked & real, real).chunks():
            near, count = _near_means(part, mean, radius)
            used = part.masked & (count > 0)
            n, x = near[used], part.rows[used].double() - mean  # (rows, M)
            products += (n * x).sum(dim=0)
            spread += n.square().sum(dim=0)
        return cls(mean, torch.where(spread > 0, products / spread, 0.0), radius)

    def predict(self, windows: MaskedWindows) -> Tensor:
        def guess(part: MaskedWindows) -> Tensor:
            near, _ = _near_means(part, self.mean, self.radius)
            return self.mean + self.slope * near

        return windows.filled(guess)


class WindowMean(NeighbourMean):
    """``NeighbourMean`` of all observed rows of the window."""

    @classmethod
    def fit(
        cls,
        x0: Tensor,
        real: Tensor,
        masked: Tensor,
        *,
        mean: Tensor | None = None,
        radius: int | None = None,
    ) -> Self:
        """As ``NeighbourMean.fit``."""
        return super().fit(x0, real, masked, mean=mean, radius=radius)


@dataclass(frozen=True)
class ProgrammeMean:
    """The oracle: the mean training row of the programme that a masked row was simulated from.

    If rows are independent given their programmes, no prediction has a lower expected squared
    error: what is above it has seen the masked rows. ``means``: Float64[P, M]; the mean of all
    training rows for a programme that they do not have. ``mean``: Float64[M].
    """

    means: Tensor
    mean: Tensor

    @classmethod
    def fit(
        cls, x0: Tensor, real: Tensor, programmes: Tensor, *, mean: Tensor | None = None
    ) -> ProgrammeMean:
        """x0 Float[W, N, M], real Bool[W, N], programmes Int64[W, N]; ``mean``: that of
        ``ColumnMean.fit(x0, real)``, taken here if not given."""
        mean = ColumnMean.fit(x0, real).mean if mean is None else mean
        known = real & (programmes >= 0)
        of = programmes[known]
        num = int(of.max()) + 1 if len(of) else 0
        sums = mean.new_zeros(num, len(mean))
        for rows, here, programme in _chunks(x0, known, programmes):
            sums.index_add_(0, programme[here], rows[here].double())
        count = torch.bincount(of, minlength=num).unsqueeze(-1)
        return cls(torch.where(count > 0, sums / count, mean), mean)

    def predict(self, windows: MaskedWindows) -> Tensor:
        """Raises ``ValueError`` if the windows come without programmes."""
        if windows.programmes is None:
            raise ValueError(
                "these windows come without programmes, which only simulated data has; use "
                "another baseline"
            )
        table = torch.cat([self.means, self.mean.unsqueeze(0)])  # the last row: not known
        last = len(self.means)

        def guess(part: MaskedWindows) -> Tensor:
            assert part.programmes is not None  # checked above
            of = part.programmes
            return table[torch.where(of < 0, last, of.clamp(max=last))]

        return windows.filled(guess)


def _chunks(*arrays: Tensor | None) -> Iterator[tuple[Tensor, ...]]:
    """The same ``CHUNK`` windows of all that are given, in turn; views."""
    return zip(*(x.split(CHUNK) for x in arrays if x is not None), strict=True)


def _mean_row(x0: Tensor, real: Tensor, of: Callable[[Tensor], Tensor]) -> Tensor:
    """Float64[M]: the mean over real rows of what ``of`` makes of Float64[rows, M]."""
    if not real.any():
        raise ValueError("no real row to take the mean of; give a training split with rows")
    total = torch.zeros(x0.shape[-1], dtype=torch.float64, device=x0.device)
    for rows, there in _chunks(x0, real):
        total += of(rows[there].double()).sum(dim=0)
    return total / real.sum()


def _near_means(windows: MaskedWindows, mean: Tensor, radius: int | None) -> tuple[Tensor, Tensor]:
    """Mean of the observed rows within ``radius``, less ``mean``, Float64[W, N, M] (0 without any),
    and their number Float64[W, N], by differences of cumulative sums."""
    seen = rearrange(windows.observed, "w n -> w n 1")
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
