"""Share of the bound by time: its integrand against t, split by token group."""

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
from discrete_diffusion.evaluation.json_values import rounded
from discrete_diffusion.noise_schedules.base import SMALLEST_TIME
from discrete_diffusion.runtime import progress


@dataclass(frozen=True)
class BoundByTime:
    """The integrand of the NELBO in T bins of equal width that cover t in [0, 1], for G groups.

    ``groups``: their names. ``integrand``: Float64[T, G], nats per sample; the mean over the bins
    of its sum over groups is the NELBO, ``nelbo``. ``standard_error``: Float64[T], of that sum.
    ``cross_entropy``: Float64[T, G], nats per uncertain token (a MASK, under an absorbing process):
    the mean of -log p(x0_l | xt); NaN where there was none. ``uniform``: Float64[G], what a uniform
    guess over the legal ids costs per token. ``nelbo_standard_error`` is over samples, of which
    there are ``num_samples``.
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
        """Float64[T + 1]: the limits of the bins."""
        return torch.linspace(0, 1, len(self.integrand) + 1, dtype=torch.float64)

    @property
    def nelbo(self) -> float:
        """Nats per sample: the area under the integrand."""
        return float(self.integrand.sum(dim=1).mean())

    def as_dict(self) -> dict[str, Any]:
        """Plain lists for ``metrics.json``."""
        return {
            "t": rounded((self.edges[1:] + self.edges[:-1]) / 2),
            "integrand": self._by_group(self.integrand),
            "standard_error": rounded(self.standard_error),
            "cross_entropy_per_token": self._by_group(self.cross_entropy),
            "area": self.nelbo,
            "area_standard_error": self.nelbo_standard_error,
        }

    def _by_group(self, values: Tensor) -> dict[str, list[float | None]]:
        return {name: rounded(values[:, g]) for g, name in enumerate(self.groups)}


class _Measured(NamedTuple):
    """Measures of a batch of B, for G groups; of all T bins with an axis before those.

    ``integrand``: Float64[B, G]. ``cross_entropy``, ``num_tokens``: Float64[G], summed over the
    uncertain tokens. On the CPU.
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

    Within a bin t is uniform and spread evenly over a batch, so the mean over bins is the bound of
    ``estimate_bound`` (for an algorithm of T discrete steps, that of infinitely many), without
    bias but with more variance: near t = 0 the integrand is rarely not 0, and then large, so the
    first bin's error is itself uncertain. Report the bound of ``estimate_bound``.

    Raises ``ValueError`` for less than one bin, or no sample.
    """
    if num_bins < 1:
        raise ValueError(f"num_bins={num_bins}: expected at least 1")
    num_passes = num_bins * length_hint(batches) or None

    def measure(numbered: tuple[int, Batch]) -> _Measured:
        b, batch = numbered
        moved, bins = batch.to(settings.device), []
        for k in range(num_bins):
            generator = settings.generator(b, k, 0)
            u = sample_times("low_discrepancy", len(moved), generator, moved.x0.device)
            t = ((k + u) / num_bins).clamp(SMALLEST_TIME, 1 - SMALLEST_TIME)
            bins.append(_measure(algorithm, moved, t, generator))
            measuring.advance(settings.shard.world_size)
        return _Measured(*map(torch.stack, zip(*bins, strict=True)))

    with (
        eval_mode(algorithm),
        progress.task("the bound by time", num_passes, "batches") as measuring,
    ):
        parts = settings.shard.map(measure, enumerate(batches))
    if not any(part.integrand.shape[1] for part in parts):
        raise ValueError("no samples to measure the bound on; give a split that is not empty")
    return _averaged(parts, algorithm)


def _averaged(parts: Sequence[_Measured], algorithm: TokenAlgorithm) -> BoundByTime:
    """Means over all samples of the measures of all batches."""
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
        uniform=torch.stack([log_k[rows].cpu().mean() for rows in _groups(algorithm)]),
        nelbo_standard_error=float(_standard_error(total.mean(dim=0))),
        num_samples=total.shape[1],
    )


def _measure(
    algorithm: TokenAlgorithm, batch: Batch, t: Tensor, generator: torch.Generator
) -> _Measured:
    """A batch corrupted at times t Float64[B]."""
    process = algorithm.process
    xt = process.corrupt(batch.x0, t, batch.real, generator)
    conditions = algorithm.teacher_forcing(batch)
    weights = algorithm.log_prediction(xt, t, batch.real, conditions)
    log_d0 = log_softmax_on(weights, algorithm.layout.support)
    log_p = process.posterior_log_probs(xt, log_d0, t, torch.zeros_like(t))
    nll = -log_prob_at(batch.x0, log_p)
    uncertain = uncertain_positions(process, xt, batch.real)
    terms = general_bound(process, xt, batch.x0, weights, t, batch.real)
    groups = _groups(algorithm)
    return _Measured(
        torch.stack([terms[:, group].sum(dim=1) for group in groups], dim=1).double().cpu(),
        torch.stack([nll[uncertain & group].sum() for group in groups]).cpu(),
        torch.stack([(uncertain & group).sum() for group in groups]).double().cpu(),
    )


def _groups(algorithm: TokenAlgorithm) -> list[Tensor]:
    """Bool[L] of every group: its positions."""
    layout = algorithm.layout
    return [layout.group == g for g in range(len(layout.group_names))]


def _standard_error(values: Tensor) -> Tensor:
    """Standard error of the mean of values Float64[..., M] over M; 0 of a single one."""
    num = values.shape[-1]
    return (values.var(dim=-1, correction=0) / max(num - 1, 1)).sqrt()
