"""Hidden rows of held-out windows: filled by a model, predicted by baselines, and scored.

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
"""Number of windows converted to float64 at once, to save memory."""

CONSTANT = 1e-12
"""Largest range of a column that counts as constant, as a share of its largest magnitude."""

NEIGHBOURS, ORACLE = "neighbour_mean", "oracle"

_MASK_STREAM, _FILL_STREAM, _TRAINING_MASKS = 70, 71, 72
"""Streams of random numbers: masks of held-out windows, fillings, and masks for fitting
baselines."""


@dataclass(frozen=True)
class RowScores:
    """Accuracy of M columns, NaN in dropped columns. A number "per motif" is a mean over all kept
    columns, including accessibility; NaN if no column is kept.

    ``r``: Float64[M], Pearson's correlation of prediction and truth. ``r2``: Float64[M], explained
    share of the truth's squared deviation from the training mean; below 0 if the mean is better.
    ``mse``: Float64[M]. ``kept``: Bool[M]. ``num_rows``: number of masked rows of all windows.
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
    """Score the masked rows of all windows together. For column m over masked rows n:

        r_m  = corr_n(x_nm, y_nm)
        r2_m = 1 - sum_n (x_nm - y_nm)^2 / sum_n (x_nm - mu_m)^2
        mse_m = mean_n ((x_nm - y_nm) / s_m)^2

    with the truth x, the prediction y, and mu and s of the *training* rows. A column whose masked
    truth is constant is dropped, as r and r2 are undefined. A prediction that is constant in a
    column has r = 0 there.

    ``predicted``, ``truth``: Float[W, N, M]. ``masked``: Bool[W, N], rows that were hidden.
    ``column_mean``, ``column_scale``: Float[M], mean and standard deviation of the training rows; a
    scale of 0 counts as 1.
    """
    x, y = truth[masked].double(), predicted[masked].double()  # (rows, M)
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
    """Bool[M]: True for columns of Float[rows, M] that are constant up to a relative
    ``CONSTANT``."""
    low, high = values.amin(dim=0), values.amax(dim=0)
    return high - low <= CONSTANT * torch.maximum(low.abs(), high.abs())


@dataclass(frozen=True)
class MaskedWindows:
    """Windows with rows to predict, or training windows to fit a baseline.

    ``rows``: Float[W, N, M]; only ``fit`` reads masked rows. ``masked``: Bool[W, N], real rows to
    predict. ``real``: Bool[W, N], rows that exist. ``programmes``: Int64[W, N] or None, the
    simulated programmes, -1 where unknown; only ``ProgrammeMean`` reads them.
    """

    rows: Tensor
    masked: Tensor
    real: Tensor
    programmes: Tensor | None = None

    def chunks(self) -> Iterator[MaskedWindows]:
        """Yield ``CHUNK`` windows at a time, in their order, as views."""
        given = [x for x in (self.rows, self.masked, self.real, self.programmes) if x is not None]
        for part in zip(*(x.split(CHUNK) for x in given), strict=True):
            yield MaskedWindows(*part)


class RowBaseline(ABC):
    """Prediction of masked rows, fitted on training windows."""

    @abstractmethod
    def guess(self, windows: MaskedWindows) -> Tensor:
        """Predict every row, Float[W, N, M]; only the predictions of masked rows are used."""

    def predict(self, windows: MaskedWindows) -> Tensor:
        """Replace masked rows by their predictions, Float[W, N, M]; other rows stay unchanged."""
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
        """Fit the mean of all real rows. Raises ``ValueError`` without a real row."""
        return cls(_mean_training_row(train, lambda rows: rows))

    def guess(self, windows: MaskedWindows) -> Tensor:
        return self.mean.expand_as(windows.rows)


def column_scale(train: MaskedWindows, mean: Tensor) -> Tensor:
    """Standard deviation Float64[M] of the real rows about their ``mean`` Float64[M]."""
    return _mean_training_row(train, lambda rows: (rows - mean).square()).sqrt()


@dataclass(frozen=True)
class NeighbourMean(RowBaseline):
    """The mean of the observed rows near a masked one, shrunk towards the mean training row:

        y_m = mu_m + b_m (n_m - mu_m),    n_m the mean over observed rows at most ``radius`` away.

    If no observed row is that near, y = mu. ``mean``: mu, Float64[M]. ``slope``: b, Float64[M],
    fitted by least squares to the masked training rows; it depends on how many rows are masked.
    ``radius``: number of rows; None: the whole window.
    """

    mean: Tensor
    slope: Tensor
    radius: int | None

    @classmethod
    def fit(
        cls, train: MaskedWindows, mean: Tensor, radius: int | None = NEIGHBOUR_RADIUS
    ) -> NeighbourMean:
        """Fit the slopes. ``train``: masked at the same rate as the rows to predict. ``mean``: mean
        of ``ColumnMean.fit(train)``. A column without variation has slope 0."""
        products, spread = torch.zeros_like(mean), torch.zeros_like(mean)
        # least squares over the masked rows
        for part in train.chunks():
            near, count = _means_of_near_rows(part, mean, radius)
            used = part.masked & (count > 0)
            n, x = near[used], part.rows[used].double() - mean  # (rows, M)
            products += (n * x).sum(dim=0)
            spread += n.square().sum(dim=0)
        return cls(mean, torch.where(spread > 0, products / spread, 0.0), radius)

    def guess(self, windows: MaskedWindows) -> Tensor:
        return self.mean + self.slope * _means_of_near_rows(windows, self.mean, self.radius)[0]


@dataclass(frozen=True)
class ProgrammeMean(RowBaseline):
    """The oracle: the mean training row of the programme that a masked row was simulated from.

    If rows are independent given their programmes, no prediction has a lower expected squared error
    without reading the masked rows. ``means``: Float64[P + 1, M]; the last is the mean of all
    training rows, for programmes that do not occur in training.
    """

    means: Tensor

    @classmethod
    def fit(cls, train: MaskedWindows, mean: Tensor) -> ProgrammeMean:
        """Fit the mean row of every programme. ``train``: windows with programmes. ``mean``: mean
        of ``ColumnMean.fit(train)``."""
        assert train.programmes is not None
        known = train.real & (train.programmes >= 0)
        count = torch.bincount(train.programmes[known]).unsqueeze(-1)
        sums = mean.new_zeros(len(count), len(mean))
        for part, here in zip(train.chunks(), known.split(CHUNK), strict=True):
            assert part.programmes is not None
            sums.index_add_(0, part.programmes[here], part.rows[here].double())
        return cls(torch.cat([torch.where(count > 0, sums / count, mean), mean.unsqueeze(0)]))

    def guess(self, windows: MaskedWindows) -> Tensor:
        """Predict the mean row of each row's programme."""
        assert windows.programmes is not None
        return self.means[windows.programmes.clamp(max=len(self.means) - 1)]  # -1 is the last


def _mean_training_row(train: MaskedWindows, transform: Callable[[Tensor], Tensor]) -> Tensor:
    """Mean Float64[M] over the real rows of ``transform``, a function of Float64[rows, M]."""
    if not train.real.any():
        raise ValueError("no real row to take the mean of; give a training split with rows")
    total = torch.zeros(train.rows.shape[-1], dtype=torch.float64, device=train.rows.device)
    for part in train.chunks():
        total += transform(part.rows[part.real].double()).sum(dim=0)
    return total / train.real.sum()


def _means_of_near_rows(
    windows: MaskedWindows, mean: Tensor, radius: int | None
) -> tuple[Tensor, Tensor]:
    """Mean of the observed rows within ``radius`` minus ``mean``, Float64[W, N, M] (0 without such
    rows), and the number of these rows Float64[W, N]."""
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
    """The first W windows of a split, with hidden rows and their predictions; on the CPU.

    ``truth``: Float32[W, N, M]. ``real``: Bool[W, N], rows that exist. ``masked``: Bool[W, N], rows
    that were hidden. ``predicted``: Float32[W, N, M], by one network call. ``filled``: Float32[W,
    N, M], by a sampler, or None. In both, rows that were not hidden hold the truth. ``nfe``:
    Int[W], network calls of the sampler. ``seconds``: time that the sampler took, summed over
    processes.
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
        """Select windows; ``seconds`` remains the time for all windows."""
        tensors: dict[str, Any] = {
            k: x[windows] for k, x in vars(self).items() if torch.is_tensor(x)
        }
        return replace(self, **tensors)


def sample_held_out_masks(real: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Sample rows to hide, Bool[W, N]: each real row with probability ``rate``, at least one per
    window, and never all rows of a window with two or more. ``real``: Bool[W, N]. For the same
    state of the generator, rows hidden at one rate are also hidden at every higher rate. Raises
    ``ValueError`` for a rate outside (0, 1)."""
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
    """Hide rows of the first ``num`` windows of a split (None: all), predict them, and fill them if
    the model has a sampler. A batch has windows of one size, at most ``model.batch_size``. The
    masks are a function of ``seed``. Filled rows, but not predicted rows, depend on
    ``model.batch_size``; neither depends on the number of processes. Raises ``ValueError`` if the
    split is empty or ``num`` below 0."""
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
    """Predict the expected masked rows, Float32[W, N, M], by one network call.
    ``windows``: ``rows`` Float32[W, N, M], ``masked`` and ``real`` Bool[W, N]. ``batches``: see
    ``sample_conditional``."""

    def predict(given: Tensors, generator: torch.Generator) -> Tensors:
        return {"rows": model.algorithm.predict(**given).float()}

    whole = replace(model, on_sampled=None)
    return sample_conditional(whole, windows, predict, entropy=(), batches=batches).values["rows"]


def fill_rows(
    model: Model, windows: Tensors, entropy: tuple[int, ...], batches: list[Tensor] | None = None
) -> ConditionalSamples:
    """Sample masked rows; the samples are ``rows`` Float32[W, N, M] and ``nfe`` Int[W]. Arguments
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

    ``by_name``: scores of the ``model``'s expected rows, of the rows ``filled`` by a sampler (if
    any), then of the baselines; ``oracle`` only for simulated data.

    Sampled rows vary, unlike expected rows: the squared error of an exact model's samples is twice
    that of its expectations.
    """

    by_name: Mapping[str, RowScores]
    mask_rate: float
    num_windows: int

    def scores(self) -> dict[str, float]:
        """Scores by name: the model's have plain names, the others have the name of the method as
        prefix."""
        return {
            name: value
            for who, scores in self.by_name.items()
            for name, value in scores.as_dict("" if who == "model" else f"{who}_").items()
        }

    def as_dict(self) -> dict[str, float]:
        """The ``scores`` for ``metrics.json``, and numbers of windows, rows and columns. Columns
        whose masked truth is constant are dropped."""
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
    """Baselines that predict rows without a network, fitted to the training split.

    ``train``: training windows, masked at ``mask_rate``. ``mean``, ``scale``: Float64[M], mean and
    standard deviation of the training rows. ``by_name``: ``column_mean``, ``neighbour_mean``,
    ``window_mean`` and, for simulated data, ``oracle``.
    """

    train: MaskedWindows
    mask_rate: float
    mean: Tensor
    scale: Tensor
    by_name: Mapping[str, RowBaseline]

    def refit(self, mask_rate: float, seed: int) -> RowBaselines:
        """Refit the neighbour mean for rows masked at another rate; only it and the oracle are
        kept."""
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
        """Score model, sampler and baselines on the masked rows of a filling. ``programmes``:
        programmes of its windows, Int64[W, N]; None leaves out the oracle. ``known``: scores of the
        baselines on the same windows and masks, to be reused."""

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
    """Fit baselines for rows masked at ``mask_rate``. ``seed``: seed of the masks of training
    rows."""
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
    """Training windows with the masks for fitting baselines."""
    generator = make_generator(seed, _TRAINING_MASKS)
    return replace(train, masked=sample_held_out_masks(train.real, mask_rate, generator))
