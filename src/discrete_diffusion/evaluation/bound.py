"""Bounds of data sets: mean, error, value per token; whether few noise samples dominate them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import length_hint
from typing import Any

import torch
from torch import Tensor

from discrete_diffusion.algorithms.base import Algorithm, eval_mode
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import ORDERINGS, Batch, BoundEstimate, LossOutput
from discrete_diffusion.data.base import TokenDataset
from discrete_diffusion.forward_process.base import ForwardProcess
from discrete_diffusion.runtime import progress
from discrete_diffusion.runtime.processes import Shard

_MOST = 10_000
"""Most noise samples per sample that are recommended."""


@dataclass(frozen=True)
class DrawTail:
    """Upper tail of the bound over ``draws`` noise samples for each of ``num_samples`` samples.

    ``shape``: Pareto k of the largest bounds per token; from k = 1/2 on the variance is infinite,
    from 1 on the mean; None if too few values differ. ``effective``: the number of equal deviations
    from the mean that give the same variance and fourth moment, (sum d^2)^2 / sum d^4: about 1 if a
    single noise sample makes the error, a third of all for a normal distribution.
    ``largest_share``: share of the bound due to the largest 1 % of the noise samples.
    ``expected_share``: mean excess of the largest over their threshold by the fitted distribution,
    as a share of the bound; None if infinite.
    """

    shape: float | None
    effective: float
    largest_share: float
    num_samples: int
    draws: int
    expected_share: float | None = None

    @property
    def enough(self) -> int:
        """Number of noise samples needed per sample, at most ``_MOST + 1``.

        It is 10^(1 / (1 - k)) in all (arXiv 1507.02646, sec. 3), if the tail is a relevant share of
        the bound. If fewer than 5 are effective, it is enough for 50 effective ones.
        """
        # a tail that is 1 % of the bound may have any shape
        counts = self.expected_share is None or self.expected_share > 0.01
        shape = max(0.0, self.shape or 0.0) if counts else 0.0
        most = math.log10((_MOST + 1) * self.num_samples)
        if shape >= 1 - 1 / most:
            return _MOST + 1
        num = max(1, math.ceil(10 ** (1 / (1 - shape)) / self.num_samples))
        # by the effective number
        if self.effective < 5:
            num = max(num, math.ceil(self.draws * 50 / self.effective))
        if num > _MOST:
            return _MOST + 1
        step = 10 ** max(0, len(str(num)) - 2)
        return -(-num // step) * step  # two figures

    @property
    def is_doubtful(self) -> bool:
        """True if more noise samples are needed, since a few of them dominate the bound."""
        return self.enough > self.draws

    def warning(self, whose: str = "") -> str:
        """Format a warning of a doubtful bound. ``whose``: the model, as in ``of mdlm``."""
        bound = f"The bound {whose}".strip()
        remedy = f"noise_samples={self.enough} would do"
        if self.enough > _MOST:
            remedy = f"even noise_samples={_MOST} would not do"
        return (
            f"{bound} hangs on a few of its {self.num_samples * self.draws:,} noise draws, so "
            f"neither it nor its error is to be trusted: the largest 1 % of them carry "
            f"{100 * self.largest_share:.0f} % of it (effective draws {self.effective:.1f}"
            f"{'' if self.shape is None else f', Pareto k {self.shape:.2f}'}); {remedy}."
        )

    def as_dict(self) -> dict[str, Any]:
        """Values for ``metrics.json``, with the noise samples needed if the bound is doubtful."""
        values: dict[str, Any] = {
            "nelbo_pareto_k": self.shape,
            "nelbo_effective_draws": self.effective,
            "nelbo_largest_draws_share": self.largest_share,
        }
        return values | ({"nelbo_draws_needed": self.enough} if self.is_doubtful else {})


def draw_tail(draws: Tensor, num_real: Tensor) -> DrawTail | None:
    """Fit the tail of bounds ``draws`` Float[M, D], nats, of samples of ``num_real`` Int[M] tokens.

    None if there are fewer than 100 values, whose tail is the largest 20, or all are the same.
    """
    num = draws.numel()
    if num < 100 or not bool(draws.isfinite().all()):
        return None
    # excesses of the largest over a threshold
    per_token = (draws.double() / num_real.clamp(min=1).unsqueeze(1)).flatten().sort().values
    size = min(num // 5, math.ceil(3 * math.sqrt(num)))
    excess = per_token[-size:] - per_token[-size - 1]
    squares = (per_token - per_token.mean()).square()
    if per_token[0] == per_token[-1]:
        return None
    # how much of the bound they carry
    nats = draws.double().flatten()
    shape, mean_excess = pareto_fit(excess[excess > 0])
    share = mean_excess * size / num / float(per_token.abs().mean())
    return DrawTail(
        shape,
        float(squares.sum() ** 2 / squares.square().sum()),
        float(nats.topk(math.ceil(num / 100)).values.sum() / nats.abs().sum()),
        num_samples=len(draws),
        draws=draws.shape[1],
        expected_share=share if math.isfinite(share) else None,
    )


def pareto_fit(excess: Tensor) -> tuple[float | None, float]:
    """Fit a generalised Pareto distribution to ``excess`` Float[n]: its shape k and mean.

    ``excess``: ascending and above 0, the excesses over a threshold. For fewer than 5 values the
    result is None and infinity. The mean is s / (1 - k) with the fitted scale s, infinite from k =
    1 on.

    The method is the posterior mean of Zhang and Stephens (Technometrics 51, 2009), with the weak
    prior of Pareto smoothed importance sampling (arXiv 1507.02646, appendix C) that k is 1/2.
    """
    n = len(excess)
    if n < 5:
        return None, math.inf
    # profile likelihood on a grid of theta
    m = 30 + math.isqrt(n)
    grid = 1 - (m / (torch.arange(1, m + 1, dtype=torch.float64) - 0.5)).sqrt()
    theta = 1 / excess[-1] + grid / (3 * excess[(n + 2) // 4 - 1])  # (m,)
    k = torch.log1p(-theta.unsqueeze(1) * excess).mean(dim=1)
    log_profile = n * ((-theta / k).log() - k - 1)
    # posterior mean, and the prior of the shape, which weighs as 10 samples
    best = (log_profile.softmax(dim=0) * theta).sum()
    likely = float(torch.log1p(-best * excess).mean())
    shape = (likely * n + 0.5 * 10) / (n + 10)
    return shape, -likely / float(best) / (1 - shape) if shape < 1 else math.inf


@dataclass(frozen=True)
class MeasurementSettings:
    """Noise of a measurement, the device it runs on and the processes that share its batches.

    ``entropy``: a seed, and numbers that keep the noise apart from other noise of this seed.
    ``shard``: every process gets all batches, measures some and returns the result of all. Noise
    depends only on the batch, so the result does not depend on the number of processes.
    """

    entropy: tuple[int, ...]
    device: torch.device | str = "cpu"
    shard: Shard = field(default_factory=Shard)

    def generator(self, *numbers: int) -> torch.Generator:
        """Make the generator of one pass, such as (batch, repeat), on ``device``."""
        return make_generator(*self.entropy, *numbers, device=self.device)


def uncertain_positions(process: ForwardProcess, xt: Tensor, real: Tensor) -> Tensor:
    """Real positions whose clean id xt does not show, Bool[B, L].

    Under an absorbing process these are the MASKs. Under any other process the network cannot know
    whether a noisy token is the clean token, so every real position counts.
    """
    return (xt == process.layout.mask_id) & real if process.absorbing else real


@dataclass(frozen=True)
class BoundBySize:
    """Bound of the samples of each size.

    ``unit``: unit of sizes, such as nodes; ``estimates``: bounds by size, smallest first. A single
    sample of a size has no standard error.
    """

    unit: str
    estimates: Mapping[int, BoundEstimate]

    def as_dict(self) -> dict[str, Any]:
        """Values for ``metrics.json``: a list per column, with an entry per size."""
        estimates = self.estimates.values()
        return {
            "unit": self.unit,
            "quantity": next(estimate.headline[0] for estimate in estimates),
            "size": list(self.estimates),
            "num_samples": [estimate.num_samples for estimate in estimates],
            "nelbo": [estimate.headline[1] for estimate in estimates],
            "standard_error": [
                estimate.headline[2] if estimate.num_samples > 1 else None for estimate in estimates
            ],
            "nelbo_per_token": [estimate.headline_per_token for estimate in estimates],
        }


@dataclass(frozen=True)
class SampleBounds:
    """Bound of each of M samples.

    ``nelbo``: Float[M], nats, means over noise samples; ``num_real``: Int[M], numbers of tokens;
    ``log_num_orders``: Float[M] or None, as in ``Batch``; ``draws``: Float[M, D], bounds by noise
    sample, or None.
    """

    nelbo: Tensor
    num_real: Tensor
    log_num_orders: Tensor | None
    draws: Tensor | None = None

    @property
    def tail(self) -> DrawTail | None:
        """Tail over the noise samples; None if there are too few."""
        return None if self.draws is None else draw_tail(self.draws, self.num_real)

    @property
    def unordered(self) -> Tensor:
        """Bounds of unordered objects: less ``log_num_orders``, if it is not None: Float[M]."""
        return self.nelbo if self.log_num_orders is None else self.nelbo - self.log_num_orders

    def estimate(self, quantity: str) -> BoundEstimate:
        """Bound over all samples."""
        meter = BoundMeter()
        meter.add(self.nelbo, self.num_real, self.log_num_orders)
        return meter.estimate(quantity)

    def estimate_by_size(self, sizes: Tensor, quantity: str, *, unit: str) -> BoundBySize:
        """Bound by ``sizes`` Int[M].

        Weighted with the numbers of samples, the estimates add up to the bound of all samples.
        """
        estimates = {}
        for size in sizes.unique().tolist():
            # samples of one size
            rows, orders = sizes == size, self.log_num_orders
            some = SampleBounds(
                self.nelbo[rows], self.num_real[rows], None if orders is None else orders[rows]
            )
            estimates[size] = some.estimate(quantity)
        return BoundBySize(unit, estimates)


class BoundMeter:
    """Six sums of NELBO values, which can be added over processes."""

    def __init__(self) -> None:
        self.sums = torch.zeros(6, dtype=torch.float64)

    def add(self, nelbo: Tensor, num_real: Tensor, log_num_orders: Tensor | None) -> None:
        """Add a batch: nelbo Float[B], num_real Int[B], log_num_orders Float[B] or None."""
        nelbo = nelbo.double()
        orders = torch.zeros_like(nelbo) if log_num_orders is None else log_num_orders.double()
        unordered = nelbo - orders
        # sums of values and of squares, with and without orders
        parts = (nelbo, nelbo.square(), num_real.double(), unordered, unordered.square())
        sums = [part.sum() for part in (torch.ones_like(nelbo), *parts)]
        self.sums += torch.stack(sums).cpu()

    def estimate(self, quantity: str) -> BoundEstimate:
        """Estimate the bound so far; all values are NaN if nothing was added."""
        count, total, squares, tokens, unordered, unordered_squares = self.sums.tolist()
        if count == 0:
            return BoundEstimate(quantity, math.nan, math.nan, math.nan, None, None, 0)
        mean, mean_error = None, None  # of unordered objects
        if quantity in ORDERINGS:
            mean = unordered / count
            mean_error = _standard_error(count, unordered, unordered_squares)
        # per ordered sample and per token
        error = _standard_error(count, total, squares)
        return BoundEstimate(
            quantity, total / count, error, total / tokens, mean, mean_error, int(count)
        )


def _standard_error(count: float, total: float, squares: float) -> float:
    """Standard error of a mean over ``count`` values, from both sums; NaN for one value."""
    if count < 2:
        return math.nan
    variance = max(squares / count - (total / count) ** 2, 0.0) * count / (count - 1)
    return math.sqrt(variance / count)


def estimate_bound(
    algorithm: Algorithm,
    batches: Iterable[Batch],
    *,
    quantity: str,
    draws: int,
    settings: MeasurementSettings,
) -> BoundEstimate:
    """Estimate the bound of a split, with ``draws`` noise samples per sample, in eval mode."""
    meter = BoundMeter()
    for part in _bounds_by_batch(algorithm, batches, draws, settings):
        meter.add(part.nelbo, part.num_real, part.log_num_orders)
    return meter.estimate(quantity)


def sample_bounds(
    algorithm: Algorithm, batches: Iterable[Batch], *, draws: int, settings: MeasurementSettings
) -> SampleBounds:
    """Measure the bound of every sample, in the order of the batches.

    Arguments as for ``estimate_bound``. Raises ``ValueError`` for empty data.
    """
    parts = _bounds_by_batch(algorithm, batches, draws, settings)
    if not parts:
        raise ValueError("no samples to measure the bound on; give a split that is not empty")
    # join the batches
    orders = [part.log_num_orders for part in parts if part.log_num_orders is not None]
    kept = [part.draws for part in parts if part.draws is not None]
    return SampleBounds(
        nelbo=torch.cat([part.nelbo for part in parts]).double(),
        num_real=torch.cat([part.num_real for part in parts]),
        log_num_orders=torch.cat(orders).double() if orders else None,
        draws=torch.cat(kept) if kept else None,
    )


def _bounds_by_batch(
    algorithm: Algorithm, batches: Iterable[Batch], draws: int, settings: MeasurementSettings
) -> list[SampleBounds]:
    """Bounds of each batch, in eval mode, on the CPU."""
    num_draws = 1 if algorithm.evaluation_draw == "exact" else draws  # an exact loss has no noise
    num_passes = num_draws * length_hint(batches) or None

    def measure(numbered: tuple[int, Batch]) -> SampleBounds:
        # the loss for every noise sample
        k, batch = numbered
        moved = algorithm.prepare_batch(batch).to(settings.device)
        outputs: list[LossOutput] = []
        for d in range(num_draws):
            generator = settings.generator(k, d)
            outputs.append(algorithm.loss(moved, generator, algorithm.evaluation_draw))
            measuring.advance(settings.shard.world_size)
        # their mean
        nelbo = torch.stack([output.nelbo for output in outputs], dim=1).cpu()  # (B, D)
        orders = None if batch.log_num_orders is None else batch.log_num_orders.cpu()
        draws = None if algorithm.evaluation_draw == "exact" else nelbo
        return SampleBounds(nelbo.mean(dim=1), outputs[0].num_real.cpu(), orders, draws)

    with eval_mode(algorithm), progress.task("the bound", num_passes, "batches") as measuring:
        return settings.shard.map(measure, enumerate(batches))


def blind_bounds(
    data: TokenDataset, split: str, *, stream: tuple[int, ...] = ()
) -> dict[str, float]:
    """Bounds on a split of two models without a network, nats per sample.

    ``uniform``: knows nothing, log K_l per position, the value at initialisation. ``blind``: knows
    only the marginals, independent tokens with the frequencies of each group (nodes, edges) in the
    training split, add-one smoothed. Both are exchangeable, so for data of unordered objects they
    are given per *unordered* object: random order, minus log(n!/|Aut|). The orders are sampled with
    a fixed seed, so runs on the same data agree; ``stream`` keeps them apart from other random
    numbers.

    Where ``data.bound`` is ``ordered_fixed``, both are also given for that one order, as the
    model's bound is, under names that end in ``_ordered_fixed``.
    """
    # relabelled data
    layout = data.layout
    train = data.exchangeable(data.splits["train"], make_generator(0, *stream, 0))
    held_out = data.exchangeable(data.splits[split], make_generator(0, *stream, 1))
    # add-one smoothed id frequencies of each group, (groups, V)
    counts = []
    for g in range(len(layout.group_names)):
        columns = layout.group == g
        ids = train.x0[:, columns][train.real[:, columns]]
        counts.append(torch.bincount(ids, minlength=layout.vocab_size))
    log_marginal = (torch.stack(counts).double() + 1).log()
    # both distributions at every position, in one row if all positions are alike
    kinds = slice(1 if layout.rows_alike and len(counts) == 1 else None)
    blind = log_marginal[layout.group[kinds]].masked_fill(~layout.support[kinds], -math.inf)
    blind = (blind - blind.logsumexp(dim=1, keepdim=True)).expand(layout.length, -1)
    bounds = {
        "nelbo_uniform": _independent_nelbo(held_out, layout.uniform_log_probs()),
        "nelbo_blind": _independent_nelbo(held_out, blind),
    }
    if data.bound == "ordered_fixed" and held_out.log_num_orders is not None:
        log_orders = float(held_out.log_num_orders.mean())
        bounds |= {f"{name}_{data.bound}": value + log_orders for name, value in bounds.items()}
    return bounds


def _independent_nelbo(batch: Batch, log_probs: Tensor) -> float:
    """Mean over samples of -log prod_l p_l(x0_l), less log_num_orders; log_probs Float64[L, V]."""
    position = torch.arange(log_probs.shape[0])
    # positions are independent
    nll = -log_probs[position, batch.x0].masked_fill(~batch.real, 0.0).sum(dim=1)
    orders = 0.0 if batch.log_num_orders is None else batch.log_num_orders.mean()
    return float(nll.mean() - orders)
