"""Predictions by noise level: the bound by time, and calibration by masked share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import length_hint
from typing import Any, NamedTuple

import torch
from torch import Tensor

from discrete_diffusion.algorithms.base import eval_mode
from discrete_diffusion.algorithms.bounds import general_bound
from discrete_diffusion.algorithms.time_sampling import sample_times
from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.categorical import log_prob_at, log_softmax_on
from discrete_diffusion.contracts import Batch
from discrete_diffusion.evaluation.bound import MeasurementSettings, uncertain_positions
from discrete_diffusion.evaluation.tables import rounded
from discrete_diffusion.forward_process.base import ForwardProcess
from discrete_diffusion.noise_schedules.base import SMALLEST_TIME
from discrete_diffusion.runtime import progress


@dataclass(frozen=True)
class BoundByTime:
    """Integrand of the NELBO in T bins of equal width that cover t in [0, 1], for G groups.

    ``groups``: names of the groups. ``integrand``: Float64[T, G], nats per sample; the mean over
    the bins of its sum over groups is the NELBO, ``nelbo``. ``standard_error``: Float64[T],
    standard error of that sum. ``cross_entropy``: Float64[T, G], nats per uncertain token (a MASK,
    under an absorbing process): the mean of -log p(x0_l | xt); NaN without such tokens.
    ``uniform``: Float64[G], the cost per token of a uniform guess over the legal ids.
    ``nelbo_standard_error``: standard error of ``nelbo`` over ``num_samples`` samples.
    """

    groups: tuple[str, ...]
    integrand: Tensor
    standard_error: Tensor
    cross_entropy: Tensor
    uniform: Tensor
    nelbo_standard_error: float
    num_samples: int

    @property
    def edges(self) -> Tensor:
        """Edges of the bins, Float64[T + 1]."""
        return torch.linspace(0, 1, len(self.integrand) + 1, dtype=torch.float64)

    @property
    def nelbo(self) -> float:
        """Area under the integrand, nats per sample."""
        return float(self.integrand.sum(dim=1).mean())

    def as_dict(self) -> dict[str, Any]:
        """Plain lists for ``metrics.json``."""
        return {
            "t": rounded((self.edges[1:] + self.edges[:-1]) / 2),
            "integrand": self._split_groups(self.integrand),
            "standard_error": rounded(self.standard_error),
            "cross_entropy_per_token": self._split_groups(self.cross_entropy),
            "area": self.nelbo,
            "area_standard_error": self.nelbo_standard_error,
        }

    def _split_groups(self, values: Tensor) -> dict[str, list[float | None]]:
        return {name: rounded(values[:, g]) for g, name in enumerate(self.groups)}


class _Measured(NamedTuple):
    """Measurement of a batch of B samples, for G groups, on the CPU.

    ``integrand``: Float64[B, G]. ``cross_entropy``, ``num_tokens``: Float64[G], sums over the
    uncertain tokens. If all bins are measured, tensors have a leading axis T.
    """

    integrand: Tensor
    cross_entropy: Tensor
    num_tokens: Tensor


def bound_by_time(
    algorithm: TokenAlgorithm,
    batches: Iterable[Batch],
    *,
    num_bins: int = 20,
    settings: MeasurementSettings,
) -> BoundByTime:
    """Measure the integrand of ``general_bound`` once per sample and bin, in eval mode.

    Within a bin t is uniform and spread evenly over a batch. So the mean over bins is an unbiased
    estimate of the bound of ``estimate_bound`` (with infinitely many steps, if the algorithm has
    discrete steps), with more variance: near t = 0 the integrand is mostly 0 and seldom large, so
    the error of the first bin is itself uncertain. Report the bound of ``estimate_bound``.

    Raises ``ValueError`` for empty data.
    """
    num_passes = num_bins * length_hint(batches) or None

    def measure(numbered: tuple[int, Batch]) -> _Measured:
        b, batch = numbered
        moved, bins = batch.to(settings.device), []
        # a random time of each bin for every sample
        for k in range(num_bins):
            generator = settings.generator(b, k, 0)
            u = sample_times("low_discrepancy", len(moved), generator, moved.x0.device)
            t = ((k + u) / num_bins).clamp(SMALLEST_TIME, 1 - SMALLEST_TIME)
            bins.append(_measure_at_times(algorithm, moved, t, generator))
            measuring.advance(settings.shard.world_size)
        return _Measured(*map(torch.stack, zip(*bins, strict=True)))

    # all batches, shared among processes
    with (
        eval_mode(algorithm),
        progress.task("the bound by time", num_passes, "batches") as measuring,
    ):
        parts = settings.shard.map(measure, enumerate(batches))
    if not any(part.integrand.shape[1] for part in parts):
        raise ValueError("no samples to measure the bound on; give a split that is not empty")
    # means over samples, and over uncertain tokens
    integrand = torch.cat([part.integrand for part in parts], dim=1)  # (T, M, G)
    total = integrand.sum(dim=2)  # (T, M)
    cross_entropy = torch.stack([part.cross_entropy for part in parts]).sum(dim=0)  # (T, G)
    num_tokens = torch.stack([part.num_tokens for part in parts]).sum(dim=0)
    log_k = algorithm.layout.num_legal.double().log()
    return BoundByTime(
        groups=algorithm.layout.group_names,
        integrand=integrand.mean(dim=1),
        standard_error=_standard_error(total),
        cross_entropy=cross_entropy / num_tokens,  # 0 / 0: NaN
        uniform=torch.stack([log_k[rows].cpu().mean() for rows in _positions_of_groups(algorithm)]),
        nelbo_standard_error=float(_standard_error(total.mean(dim=0))),
        num_samples=total.shape[1],
    )


def _measure_at_times(
    algorithm: TokenAlgorithm, batch: Batch, t: Tensor, generator: torch.Generator
) -> _Measured:
    """Measure a batch at times t Float64[B]."""
    # predictions for the corrupted batch
    process = algorithm.process
    xt = process.corrupt(batch.x0, t, batch.real, generator)
    conditions = algorithm.teacher_forcing(batch)
    weights = algorithm.log_prediction(xt, t, batch.real, conditions)
    log_d0 = log_softmax_on(weights, algorithm.layout.support)
    log_p = process.posterior_log_probs(xt, log_d0, t, torch.zeros_like(t))
    # cross-entropy of uncertain tokens, and the terms of the bound
    nll = -log_prob_at(batch.x0, log_p)
    uncertain = uncertain_positions(process, xt, batch.real)
    terms = general_bound(process, xt, batch.x0, weights, t, batch.real)
    groups = _positions_of_groups(algorithm)
    return _Measured(
        torch.stack([terms[:, group].sum(dim=1) for group in groups], dim=1).double().cpu(),
        torch.stack([nll[uncertain & group].sum() for group in groups]).cpu(),
        torch.stack([(uncertain & group).sum() for group in groups]).double().cpu(),
    )


def _positions_of_groups(algorithm: TokenAlgorithm) -> list[Tensor]:
    """Positions of every group, Bool[L] each."""
    layout = algorithm.layout
    return [layout.group == g for g in range(len(layout.group_names))]


def _standard_error(values: Tensor) -> Tensor:
    """Standard error of the mean of values Float64[..., M] over M; 0 for one value."""
    num = values.shape[-1]
    return (values.var(dim=-1, correction=0) / max(num - 1, 1)).sqrt()


MASKED_SHARES = tuple(k / 10 for k in range(1, 10))

NUM_BINS = 10


@dataclass(frozen=True)
class Calibration:
    """Reliability of p(x0_l | xt) at S masked shares, for G token groups, in K bins of p.

    At every uncertain position each legal id is one event: it was predicted with probability p, and
    was the clean id or not. Events are binned by p, in bins of equal width.

    ``shares``: the masked (corrupted) shares. ``groups``: names of the groups. ``num_events``:
    Float64[S, G, K]. ``predicted``: Float64[S, G, K], the mean p in a bin; ``observed``: Float64[S,
    G, K], the share of its events that were the clean id; NaN in empty bins. ``num_positions``:
    Float64[S, G].
    """

    shares: tuple[float, ...]
    groups: tuple[str, ...]
    num_events: Tensor
    predicted: Tensor
    observed: Tensor
    num_positions: Tensor

    @property
    def error(self) -> Tensor:
        """Expected calibration error, sum_k w_k |predicted_k - observed_k|: Float64[S, G].

        w_k is the share of all predicted probability that lies in bin k, so this is the gap to
        expect of an id that a sampler samples. 0 if calibrated; above 0 by chance with few
        positions; NaN without positions. Deviation: Guo et al. (arXiv 1706.04599) count the most
        likely ids only.
        """
        # weights by predicted probability
        mass = self.num_events * self.predicted.nan_to_num()
        gap = (self.predicted - self.observed).abs().nan_to_num()
        return (mass * gap).sum(dim=2) / mass.sum(dim=2)

    def as_dict(self) -> list[dict[str, Any]]:
        """One record per group and masked share, for ``metrics.json``."""
        error = self.error
        return [
            {
                "group": group,
                "masked_share": share,
                "error": rounded(error[s, g : g + 1])[0],
                "num_positions": int(self.num_positions[s, g]),
                "predicted": rounded(self.predicted[s, g]),
                "observed": rounded(self.observed[s, g]),
                "num_events": [int(n) for n in self.num_events[s, g]],
            }
            for g, group in enumerate(self.groups)
            for s, share in enumerate(self.shares)
        ]


def measure_calibration(
    algorithm: TokenAlgorithm,
    batches: Iterable[Batch],
    *,
    shares: Sequence[float] = MASKED_SHARES,
    settings: MeasurementSettings,
) -> Calibration:
    """Corrupt every sample once per share, and compare predictions with the clean ids.

    The algorithm is in eval mode. The Bayes-optimal denoiser is calibrated at every share between 0
    and 1, for any process.
    """
    layout = algorithm.layout
    # a time for each share
    times = [time_of_share(algorithm.process, share) for share in shares]
    shape = (len(shares), len(layout.group_names))
    num_passes = len(shares) * length_hint(batches) or None

    def measure(numbered: tuple[int, Batch]) -> tuple[Tensor, Tensor]:
        b, batch = numbered
        sums, num_positions = torch.zeros(3, *shape, NUM_BINS).double(), torch.zeros(shape).double()
        moved = batch.to(settings.device)
        for s, time in enumerate(times):
            # events of one share, by group
            generator = settings.generator(b, s)
            t = torch.full((len(moved),), time, dtype=torch.float64, device=moved.x0.device)
            xt = algorithm.process.corrupt(moved.x0, t, moved.real, generator)
            conditions = algorithm.teacher_forcing(moved)
            prediction = algorithm.predict(
                xt, t, torch.zeros_like(t), moved.real, conditions=conditions
            )
            probs = prediction.log_probs.double().exp()  # (B, L, V)
            uncertain = uncertain_positions(algorithm.process, xt, moved.real)
            for g in range(len(layout.group_names)):
                rows = uncertain & (layout.group == g)
                sums[:, s, g] = _sum_events_by_bin(probs, moved.x0, rows, layout.support)
                num_positions[s, g] = rows.sum().cpu()
            measuring.advance(settings.shard.world_size)
        return sums, num_positions

    with eval_mode(algorithm), progress.task("calibration", num_passes, "batches") as measuring:
        parts = settings.shard.map(measure, enumerate(batches))
    # sums over batches, then means in each bin
    num_events, predicted, observed = torch.stack([sums for sums, _ in parts]).sum(dim=0)
    num_positions = torch.stack([num for _, num in parts]).sum(dim=0)
    return Calibration(
        shares=tuple(shares),
        groups=layout.group_names,
        num_events=num_events,
        predicted=predicted / num_events,
        observed=observed / num_events,
        num_positions=num_positions,
    )


@torch.no_grad()
def time_of_share(process: ForwardProcess, share: float) -> float:
    """Time t at which the mean of 1 - alpha over all positions is ``share``, by bisection."""
    low, high = 0.0, 1.0
    device = process.layout.support.device
    for _ in range(60):
        middle = (low + high) / 2
        t = torch.tensor([middle], dtype=torch.float64, device=device)
        if float(process.one_minus_alpha(t).mean()) < share:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _sum_events_by_bin(probs: Tensor, x0: Tensor, rows: Tensor, support: Tensor) -> Tensor:
    """Sum events, their probabilities and hits (clean ids) by bin of p: Float64[3, K].

    ``rows``: Bool[B, L], the positions that count.
    """
    # an event for each legal id of a position
    legal = support.expand(len(x0), -1, -1)[rows]  # (R, V)
    p = probs[rows][legal]
    ids = torch.arange(probs.shape[-1], device=x0.device)
    true = (ids == x0[rows].unsqueeze(-1))[legal].double()
    # by bin
    index = (p * NUM_BINS).long().clamp(0, NUM_BINS - 1)
    weights = (torch.ones_like(p), p, true)
    return torch.stack([torch.bincount(index, w, minlength=NUM_BINS).cpu() for w in weights])
