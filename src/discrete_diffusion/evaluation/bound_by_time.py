"""Where in time the bound is spent: its integrand against t, split by token group."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from discrete_diffusion.algorithms import Algorithm, general_bound
from discrete_diffusion.algorithms.times import draw_times
from discrete_diffusion.categorical import log_softmax_on, make_generator
from discrete_diffusion.evaluation.json_values import rounded
from discrete_diffusion.evaluation.measuring import eval_mode, uncertain_positions
from discrete_diffusion.noise_schedules import SMALLEST_TIME
from discrete_diffusion.types import Batch


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


def bound_by_time(
    algorithm: Algorithm,
    batches: Iterable[Batch],
    *,
    num_bins: int = 20,
    draws: int = 1,
    seed: int,
    stream: tuple[int, ...] = (),
    device: torch.device | str = "cpu",
) -> BoundByTime:
    """Measure the integrand of ``general_bound``, ``draws`` times per sample and bin, in eval mode.

    Within a bin t is uniform and spread evenly over a batch, so the mean over bins is the bound of
    ``estimate_bound`` (for an algorithm of T discrete steps, that of infinitely many), without
    bias but with more variance: near t = 0 the integrand is rarely not 0, and then large, so the
    first bin's error is itself uncertain. Report the bound of ``estimate_bound``. ``stream`` as for
    that one.

    Raises ``ValueError`` for less than one bin or draw, or no sample.
    """
    if num_bins < 1 or draws < 1:
        raise ValueError(f"num_bins={num_bins}, draws={draws}: expected at least 1 of each")
    sums = _Sums(algorithm, num_bins)
    with eval_mode(algorithm):
        for b, batch in enumerate(batches):
            moved = batch.to(device)
            by_bin = []
            for k in range(num_bins):
                measured = []
                for d in range(draws):
                    generator = make_generator(seed, *stream, b, k, d, device=device)
                    u = draw_times("low_discrepancy", len(moved), generator, moved.x0.device)
                    t = ((k + u) / num_bins).clamp(SMALLEST_TIME, 1 - SMALLEST_TIME)
                    measured.append(sums.measure(moved, t, k, generator))
                by_bin.append(torch.stack(measured).mean(dim=0))
            sums.add(torch.stack(by_bin))
    return sums.result()


class _Sums:
    """Running sums over samples. Axes: T bins, G groups, B samples of a batch."""

    def __init__(self, algorithm: Algorithm, num_bins: int) -> None:
        self.algorithm, layout = algorithm, algorithm.layout
        self.masks = [layout.group == g for g in range(len(layout.group_names))]
        shape = (num_bins, len(self.masks))
        self.integrand, self.cross_entropy, self.num_tokens = torch.zeros(
            (3, *shape), dtype=torch.float64
        )
        self.squares = torch.zeros(num_bins, dtype=torch.float64)
        self.nelbo_squares, self.num_samples = 0.0, 0

    def measure(self, batch: Batch, t: Tensor, k: int, generator: torch.Generator) -> Tensor:
        """Float64[B, G], the integrand at t of one corrupted batch; adds its cross-entropy."""
        algorithm, process = self.algorithm, self.algorithm.process
        xt = process.corrupt(batch.x0, t, batch.real, generator)
        conditions = algorithm.teacher_forcing(batch)
        weights = algorithm.log_weights(xt, t, batch.real, conditions)
        log_d0 = log_softmax_on(weights, algorithm.layout.support)
        log_p = process.posterior_log_probs(xt, log_d0, t, torch.zeros_like(t))
        nll = -log_p.gather(-1, batch.x0.unsqueeze(-1)).squeeze(-1).double()
        uncertain = uncertain_positions(process, xt, batch.real)
        terms = general_bound(process, xt, batch.x0, weights, t, batch.real)
        parts = []
        for g, mask in enumerate(self.masks):
            here = uncertain & mask
            self.cross_entropy[k, g] += nll[here].sum().cpu()
            self.num_tokens[k, g] += here.sum().cpu()
            parts.append(terms[:, mask].sum(dim=1))
        return torch.stack(parts, dim=1).double()

    def add(self, integrand: Tensor) -> None:
        """One batch: Float64[T, B, G]."""
        total = integrand.sum(dim=2)  # (T, B)
        self.integrand += integrand.sum(dim=1).cpu()
        self.squares += total.square().sum(dim=1).cpu()
        self.nelbo_squares += float(total.mean(dim=0).square().sum())
        self.num_samples += integrand.shape[1]

    def result(self) -> BoundByTime:
        if self.num_samples == 0:
            raise ValueError("no samples to measure the bound on; give a split that is not empty")
        num, layout = self.num_samples, self.algorithm.layout
        mean = self.integrand / num
        log_k = layout.num_legal.double().log().cpu()
        return BoundByTime(
            groups=layout.group_names,
            integrand=mean,
            standard_error=_standard_error(self.squares, mean.sum(dim=1), num),
            cross_entropy=self.cross_entropy / self.num_tokens,  # 0 / 0: NaN
            uniform=torch.stack([log_k[mask.cpu()].mean() for mask in self.masks]),
            nelbo_standard_error=float(
                _standard_error(torch.tensor(self.nelbo_squares), mean.sum(dim=1).mean(), num)
            ),
            num_samples=num,
        )


def _standard_error(squares: Tensor, mean: Tensor, num: int) -> Tensor:
    """Of a mean over ``num`` samples, from the sum of their squares."""
    variance = (squares / num - mean.square()).clamp(min=0) * num / max(num - 1, 1)
    return (variance / num).sqrt()
