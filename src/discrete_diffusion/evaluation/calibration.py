"""Does 70 % mean 70 %? Predicted probabilities against observed frequencies, by masked share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import length_hint
from typing import Any

import torch
from torch import Tensor

from discrete_diffusion.algorithms.base import eval_mode
from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.contracts import Batch
from discrete_diffusion.evaluation.bound import MeasurementSettings, uncertain_positions
from discrete_diffusion.evaluation.json_values import rounded
from discrete_diffusion.forward_process.base import ForwardProcess
from discrete_diffusion.runtime import progress

MASKED_SHARES = tuple(k / 10 for k in range(1, 10))
NUM_BINS = 10


@dataclass(frozen=True)
class Calibration:
    """Reliability of p(x0_l | xt) at S masked shares, for G token groups, in K bins of p.

    At every uncertain position each legal id is one event: it was given the probability p, and it
    was the clean id or not. Events are binned by p, in bins of equal width.

    ``shares``: the masked (corrupted) shares. ``groups``: names.
    ``num_events``: Float64[S, G, K]. ``predicted``: Float64[S, G, K], the mean p of a bin;
    ``observed``: Float64[S, G, K], the share of its events that came true; NaN in empty bins.
    ``num_positions``: Float64[S, G].
    """

    shares: tuple[float, ...]
    groups: tuple[str, ...]
    num_events: Tensor
    predicted: Tensor
    observed: Tensor
    num_positions: Tensor

    @property
    def error(self) -> Tensor:
        """Float64[S, G]: expected calibration error, sum_k w_k |predicted_k - observed_k|.

        w_k is the share of all predicted probability that lies in bin k, so this is the gap to
        expect of an id sampled from the prediction, as a sampler does. 0 if calibrated;
        above that by chance with few positions; NaN without any.
        Deviation: Guo et al. (arXiv 1706.04599) count the most likely ids only.
        """
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
    """Corrupt every sample once per share and compare predictions with what was there.

    In eval mode. The Bayes-optimal denoiser is calibrated at every share, for any process.
    Raises ``ValueError`` for a share outside (0, 1).
    """
    if not all(0 < share < 1 for share in shares):
        raise ValueError(f"shares={list(shares)}: expected masked shares between 0 and 1")
    layout = algorithm.layout
    times = [time_of_share(algorithm.process, share) for share in shares]
    shape = (len(shares), len(layout.group_names))
    num_passes = len(shares) * length_hint(batches) or None

    def measure(numbered: tuple[int, Batch]) -> tuple[Tensor, Tensor]:
        b, batch = numbered
        sums, num_positions = torch.zeros(3, *shape, NUM_BINS).double(), torch.zeros(shape).double()
        moved = batch.to(settings.device)
        for s, time in enumerate(times):
            generator = settings.generator(b, s)
            probs, uncertain = _predict(algorithm, moved, time, generator)
            for g in range(len(layout.group_names)):
                rows = uncertain & (layout.group == g)
                sums[:, s, g] = _binned(probs, moved.x0, rows, layout.support)
                num_positions[s, g] = rows.sum().cpu()
            measuring.advance(settings.shard.world_size)
        return sums, num_positions

    with eval_mode(algorithm), progress.task("calibration", num_passes, "batches") as measuring:
        parts = settings.shard.map(measure, enumerate(batches))
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
    """The t at which the mean of 1 - alpha over all positions is ``share``, by bisection."""
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


def _predict(
    algorithm: TokenAlgorithm, batch: Batch, time: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """p(x0 | xt) Float64[B, L, V] of a batch corrupted at one time, and where it is uncertain."""
    t = torch.full((len(batch),), time, dtype=torch.float64, device=batch.x0.device)
    xt = algorithm.process.corrupt(batch.x0, t, batch.real, generator)
    prediction = algorithm.predict(
        xt, t, torch.zeros_like(t), batch.real, conditions=algorithm.teacher_forcing(batch)
    )
    uncertain = uncertain_positions(algorithm.process, xt, batch.real)
    return prediction.log_probs.double().exp(), uncertain


def _binned(probs: Tensor, x0: Tensor, rows: Tensor, support: Tensor) -> Tensor:
    """Float64[3, K]: events, their probabilities and how many came true, summed by bin of p.

    ``rows``: Bool[B, L], the positions that count.
    """
    legal = support.expand(len(x0), -1, -1)[rows]  # (R, V)
    p = probs[rows][legal]
    ids = torch.arange(probs.shape[-1], device=x0.device)
    true = (ids == x0[rows].unsqueeze(-1))[legal].double()
    index = (p * NUM_BINS).long().clamp(0, NUM_BINS - 1)
    weights = (torch.ones_like(p), p, true)
    return torch.stack([torch.bincount(index, w, minlength=NUM_BINS).cpu() for w in weights])
