"""Hidden rows of held-out windows: filled by a model, guessed by baselines, and scored.

Axes: ``W`` windows, ``N`` rows of a window, ``M`` columns, ``P`` programmes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from einops import rearrange
from torch import Tensor
from torch.nn.functional import pad

from continuous_states.evaluation import (
    ConditionalSamples,
    Tensors,
    first_examples,
    sample_conditional,
)
from continuous_states.regions.dataset import RegionDataset
from discrete_diffusion.categorical import make_generator, uniform_draws
from discrete_diffusion.data import Dataset, bucket_batches
from discrete_diffusion.sampling import Model

NEIGHBOUR_RADIUS = 8
CHUNK = 16
"""Windows that are worked on in float64 at once; a split may fill much of the memory."""

CONSTANT = 1e-12
"""A column is constant if its range is at most this part of its largest magnitude."""

NEIGHBOURS, ORACLE = "neighbour_mean", "oracle"

_MASK_STREAM, _FILL_STREAM, _TRAINING_MASKS = 70, 71, 72
"""Streams of random numbers: masks of held-out windows, fillings, masks that baselines are fitted
under."""


@dataclass(frozen=True)
class RowScores:
    """Accuracy of M columns, NaN in those that were dropped. A number "per motif" is a mean over
    all kept columns, accessibility among them; NaN if none is kept.

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
    def mean_r(self) -> float:
        """Mean of ``r`` over the kept columns."""
        return float(self.r[self.kept].mean())

    def as_dict(self, prefix: str = "") -> dict[str, float]:
        """The means of ``r``, ``r2`` and ``mse`` over the kept columns, by name."""
        return {
            f"{prefix}per_motif_r": self.mean_r,
            f"{prefix}per_motif_r2": float(self.r2[self.kept].mean()),
            f"{prefix}masked_mse": float(self.mse[self.kept].mean()),
        }


def score_rows(
    predicted: Tensor, truth: Tensor, masked: Tensor, *, column_mean: Tensor, column_scale: Tensor
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
    kept = ~_constant_columns(x)
    squares = (x - y).square()
    # correlation by column, 0 where the prediction is constant
    dx, dy = x - x.mean(dim=0), y - y.mean(dim=0)
    r = (dx * dy).sum(dim=0) / (dx.square().sum(dim=0) * dy.square().sum(dim=0)).sqrt()
    r = torch.where(_constant_columns(y), 0.0, r)
    # errors as shares of the spread about the training mean, and in training deviations
    r2 = 1 - squares.sum(dim=0) / (x - column_mean.double()).square().sum(dim=0)
    mse = squares.mean(dim=0) / torch.where(column_scale > 0, column_scale, 1.0).double().square()
    r, r2, mse = (torch.where(kept, values, torch.nan) for values in (r, r2, mse))
    return RowScores(r, r2, mse, kept, num_rows=len(x))


def _constant_columns(values: Tensor) -> Tensor:
    """Bool[M]: columns of Float[rows, M] whose range is 0 to a relative ``CONSTANT``."""
    low, high = values.amin(dim=0), values.amax(dim=0)
    return high - low <= CONSTANT * torch.maximum(low.abs(), high.abs())


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
    """Prediction of masked rows, fitted on training windows."""

    @abstractmethod
    def guess(self, windows: MaskedWindows) -> Tensor:
        """Float[W, N, M]: a guess of every row; only those of masked rows count."""

    def predict(self, windows: MaskedWindows) -> Tensor:
        """Float[W, N, M]: the masked rows predicted, the others unchanged."""
        out = windows.rows.clone()
        for part, rows in zip(windows.chunks(), out.split(CHUNK), strict=True):
            rows[part.masked] = self.guess(part)[part.masked].to(rows.dtype)
        return out


@dataclass(frozen=True)
class ColumnMean(RowBaseline):
    """The mean training row, which ignores the observed rows. ``mean``: Float64[M]."""

    mean: Tensor

    @classmethod
    def fit(cls, train: MaskedWindows) -> ColumnMean:
        """Raises ``ValueError`` without a real row."""
        return cls(_mean_row(train, lambda rows: rows))

    def guess(self, windows: MaskedWindows) -> Tensor:
        return self.mean.expand_as(windows.rows)


def column_scale(train: MaskedWindows, mean: Tensor) -> Tensor:
    """Float64[M]: the standard deviation of the real rows about their ``mean`` Float64[M]."""
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
        ``ColumnMean.fit(train)``. A column without spread has slope 0. Raises ``ValueError`` for a
        radius below 1."""
        if radius is not None and radius < 1:
            raise ValueError(f"radius={radius}: expected at least 1 row, or None for the window")
        products, spread = torch.zeros_like(mean), torch.zeros_like(mean)
        # least squares over the masked rows
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
    error; a lower one has seen the masked rows. ``means``: Float64[P + 1, M], the last one that of
    all training rows, for a programme that they do not have.
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
            raise ValueError("windows without programmes, which only simulated data has")
        return self.means[windows.programmes.clamp(max=len(self.means) - 1)]  # -1 is the last


def _mean_row(train: MaskedWindows, transform: Callable[[Tensor], Tensor]) -> Tensor:
    """Float64[M]: the mean over real rows of ``transform`` of Float64[rows, M]."""
    if not train.real.any():
        raise ValueError("no real row to take the mean of; give a training split with rows")
    total = torch.zeros(train.rows.shape[-1], dtype=torch.float64, device=train.rows.device)
    for part in train.chunks():
        total += transform(part.rows[part.real].double()).sum(dim=0)
    return total / train.real.sum()


def _near_means(windows: MaskedWindows, mean: Tensor, radius: int | None) -> tuple[Tensor, Tensor]:
    """Mean of the observed rows within ``radius``, less ``mean``, Float64[W, N, M] (0 without any),
    and their number Float64[W, N]."""
    seen = rearrange(windows.real & ~windows.masked, "w n -> w n 1")
    centred = torch.where(seen, windows.rows.double() - mean, 0.0)
    # sums over a range of rows are differences of cumulative sums; sums[n]: of the first n rows
    both = torch.cat([seen.double(), centred], dim=2)
    sums = pad(both.cumsum(dim=1), (0, 0, 1, 0))
    num = both.shape[1]
    radius = num if radius is None else radius
    at = torch.arange(num, device=both.device)
    near = sums[:, (at + radius + 1).clamp(max=num)] - sums[:, (at - radius).clamp(min=0)]
    count = near[..., 0].round()
    return near[..., 1:] / count.clamp(min=1).unsqueeze(-1), count


@dataclass(frozen=True)
class Filling:
    """W windows of a split, in its order, with rows hidden; on the CPU.

    ``truth``: Float32[W, N, M]. ``real``: Bool[W, N], rows that exist. ``masked``: Bool[W, N], rows
    that were hidden. ``predicted``: Float32[W, N, M], by one network call. ``filled``: Float32
    [W, N, M] or None, by a sampler, with the network calls ``nfe`` Int[W]; both hold the truth in
    rows that were not hidden. ``seconds``: that the sampler took, of all processes together.
    """

    truth: Tensor
    real: Tensor
    masked: Tensor
    predicted: Tensor
    filled: Tensor | None = None
    nfe: Tensor | None = None
    seconds: float = 0.0

    def __len__(self) -> int:
        return self.truth.shape[0]

    def __getitem__(self, windows: slice) -> Filling:
        """Some windows; ``seconds`` stay those of all."""
        tensors: dict[str, Any] = {
            k: x[windows] for k, x in vars(self).items() if torch.is_tensor(x)
        }
        return replace(self, **tensors)


def sample_held_out_masks(real: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Bool[W, N]: rows to hide, each real one with probability ``rate``, and in every window at
    least one; of two real rows or more, at least one stays. ``real``: Bool[W, N]. From one state of
    the generator, what is hidden at one rate is hidden at every higher one. Raises ``ValueError``
    for a rate outside (0, 1)."""
    if not 0 < rate < 1:
        raise ValueError(f"mask_rate={rate}: expected a share of the rows between 0 and 1")
    u = uniform_draws(tuple(real.shape), generator, real.device)
    masked = real & (u < rate)
    # of each window the real row that is hidden first, and the one that is hidden last
    order = torch.where(real, u, 2.0).argsort(dim=1)
    sizes = real.sum(dim=1)
    windows = torch.arange(len(real), device=real.device)
    first, last = order[:, 0], order[windows, (sizes - 1).clamp(min=0)]
    # at least one hidden row, and one that is seen
    masked[windows, first] |= sizes > 0
    masked[windows, last] &= sizes < 2
    return masked


def fill_held_out(
    model: Model, data: Dataset, split: str, *, num: int | None, mask_rate: float, seed: int
) -> Filling:
    """Hide rows of the first ``num`` windows of a split (None: of all) and have them predicted, and
    filled if the model has a sampler. Windows of one size go together, at most ``model.batch_size``
    at once. The masks are a function of ``seed``; what is filled, not what is predicted, depends on
    ``model.batch_size``, and nothing on the number of processes. Raises ``ValueError`` if the split
    is empty or ``num`` below 0."""
    # masks of the first windows
    examples = first_examples(data, split, num)
    truth, real = examples.x0.float(), examples.real
    masked = sample_held_out_masks(real, mask_rate, make_generator(seed, _MASK_STREAM))
    if len(truth) == 0:
        return Filling(truth, real, masked, truth)
    # the model never sees the hidden values
    hidden = torch.where(masked.unsqueeze(-1), 0.0, truth)
    windows = {"rows": hidden, "masked": masked, "real": real}
    # windows of one size together
    batches = bucket_batches(real.sum(dim=1), model.rows_at_once)
    filling = Filling(truth, real, masked, predict_rows(model, windows, batches))
    if model.sampler is None:
        return filling
    filled = fill_rows(model, windows, (seed, _FILL_STREAM), batches)
    return replace(
        filling[: len(filled)],
        filled=filled.values["rows"],
        nfe=filled.values["nfe"],
        seconds=filled.seconds,
    )


def predict_rows(model: Model, windows: Tensors, batches: list[Tensor] | None = None) -> Tensor:
    """Float32[W, N, M]: masked rows as the algorithm expects them, by one network call.
    ``windows``: ``rows`` Float32[W, N, M], ``masked`` and ``real`` Bool[W, N]. ``batches``: as for
    ``sample_conditional``."""

    def predict(given: Tensors, generator: torch.Generator) -> Tensors:
        return {"rows": model.algorithm.predict(**given).float()}

    whole = replace(model, on_sampled=None)
    return sample_conditional(whole, windows, predict, entropy=(), batches=batches).values["rows"]


def fill_rows(
    model: Model, windows: Tensors, entropy: tuple[int, ...], batches: list[Tensor] | None = None
) -> ConditionalSamples:
    """Masked rows of the sampler: ``rows`` Float32[W, N, M] and ``nfe`` Int[W]; the arguments
    are those of ``predict_rows`` and ``sample_conditional``."""

    def fill(given: Tensors, generator: torch.Generator) -> Tensors:
        clamp = given["rows"].masked_fill(given["masked"].unsqueeze(-1), torch.nan)
        output = model.sampler.sample(
            model.algorithm, given["real"], clamp=clamp, generator=generator, steps=model.steps
        )
        return {"rows": output.x0.float(), "nfe": output.nfe}

    return sample_conditional(model, windows, fill, entropy=entropy, batches=batches)


@dataclass(frozen=True)
class FillingScores:
    """Scores of model, sampler and baselines on the hidden rows of ``num_windows`` windows.

    ``by_name``: of the ``model``'s expected rows, of those ``filled`` by a sampler, if any, then
    of the baselines; ``oracle`` only of simulated data.

    Sampled rows have the spread that expected rows lack: the squared error of an exact model's
    samples is twice that of its expectations.
    """

    by_name: Mapping[str, RowScores]
    mask_rate: float
    num_windows: int

    def scores(self) -> dict[str, float]:
        """The model's numbers under their plain names, the others' after the name of each."""
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

    def refit(self, mask_rate: float, seed: int) -> RowBaselines:
        """The neighbour mean, fitted anew for rows masked at another rate, and the oracle."""
        train = _with_training_masks(self.train, mask_rate, seed)
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
        """Model, sampler and baselines on the masked rows of a filling. ``programmes``: of its
        windows, Int64[W, N]; None leaves out the oracle. ``known``: scores of the baselines on the
        same windows and masks, if they are there already."""

        def score(predicted: Tensor) -> RowScores:
            means = {"column_mean": self.mean, "column_scale": self.scale}
            return score_rows(predicted, filling.truth, filling.masked, **means)

        # baselines see the windows without the hidden values
        if known is None:
            hidden = torch.where(filling.masked.unsqueeze(-1), 0.0, filling.truth)
            windows = MaskedWindows(hidden, filling.masked, filling.real, programmes)
            known = {
                name: score(baseline.predict(windows))
                for name, baseline in self.by_name.items()
                if name != ORACLE or programmes is not None
            }
        # model and sampler
        scores = {"model": score(filling.predicted)}
        if filling.filled is not None:
            scores["filled"] = score(filling.filled)
        return FillingScores({**scores, **known}, self.mask_rate, len(filling))


def fit_baselines(data: RegionDataset, mask_rate: float, seed: int = 0) -> RowBaselines:
    """Baselines for rows masked at ``mask_rate``; ``seed``: of the masks they are fitted under."""
    examples = data.splits["train"]
    programmes = None if data.programmes is None else data.programmes["train"]
    nothing = torch.zeros_like(examples.real)
    windows = MaskedWindows(examples.x0, nothing, examples.real, programmes)
    train = _with_training_masks(windows, mask_rate, seed)
    # means of all rows, of near rows and of the window
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


def _with_training_masks(train: MaskedWindows, mask_rate: float, seed: int) -> MaskedWindows:
    """The same windows under the masks that baselines are fitted under."""
    generator = make_generator(seed, _TRAINING_MASKS)
    return replace(train, masked=sample_held_out_masks(train.real, mask_rate, generator))
