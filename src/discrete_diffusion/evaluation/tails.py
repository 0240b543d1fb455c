"""Tail of the noise draws of a bound: whether a few of them carry it, and how many would do."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_FEWEST = 100
"""Fewest draws whose tail is fitted: the largest 20 of them."""

_MOST = 10_000
"""More draws per sample than this are not recommended."""

_FEW = 5
"""Effective draws below which a few of them carry the bound."""

_MANY = 50
"""Effective draws that would do."""

_LEAST_SHARE = 0.01
"""Of the bound: a tail that carries less may have any shape."""

_PRIOR = 10
"""Weight of the prior that the shape is 1/2, in draws of the tail."""


@dataclass(frozen=True)
class DrawTail:
    """Upper tail of ``draws`` noise draws of each of ``num_samples`` samples.

    ``shape``: Pareto k of their largest, per token: their variance is infinite from 1/2 on, their
    mean from 1 on; None where too few differ. ``effective``: the number of equal deviations from
    the mean that give the same variance and fourth moment, (sum d^2)^2 / sum d^4: about 1 where a
    single draw makes the error, a third of all draws of a normal distribution. ``largest_share``:
    share of the bound that the largest 1 % of the draws carry. ``expected_share``: share of it by
    which the largest exceed their threshold in the mean of the fitted distribution, seen or not;
    None if that is infinite.
    """

    shape: float | None
    effective: float
    largest_share: float
    num_samples: int
    draws: int
    expected_share: float | None = None

    @property
    def enough(self) -> int:
        """Draws of each sample that would do: 10^(1 / (1 - k)) in all (arXiv 1507.02646, sec. 3)
        where the tail is a share of the bound, and so many that ``_MANY`` are effective if ``_FEW``
        are not; at most ``_MOST + 1``."""
        counts = self.expected_share is None or self.expected_share > _LEAST_SHARE
        shape = (self.shape or 0.0) if counts else 0.0
        most = math.log10((_MOST + 1) * self.num_samples)
        if shape >= 1 - 1 / most:
            return _MOST + 1
        num = max(1, math.ceil(10 ** (1 / (1 - max(0.0, shape))) / self.num_samples))
        if self.effective < _FEW:
            num = max(num, math.ceil(self.draws * _MANY / self.effective))
        if num > _MOST:
            return _MOST + 1
        step = 10 ** max(0, len(str(num)) - 2)
        return -(-num // step) * step  # two figures

    @property
    def is_doubtful(self) -> bool:
        """True if there are fewer draws than would do: a few of them carry the bound."""
        return self.enough > self.draws

    def warning(self, whose: str = "") -> str:
        """A sentence for those who read the bound. ``whose``: the model, as in ``of mdlm``."""
        bound = f"The bound {whose}".strip()
        remedy = f"bound_draws={self.enough} would do"
        if self.enough > _MOST:
            remedy = f"even bound_draws={_MOST} would not do"
        return (
            f"{bound} hangs on a few of its {self.num_samples * self.draws:,} noise draws, so "
            f"neither it nor its error is to be trusted: the largest 1 % of them carry "
            f"{100 * self.largest_share:.0f} % of it (effective draws {self.effective:.1f}"
            f"{'' if self.shape is None else f', Pareto k {self.shape:.2f}'}); {remedy}."
        )

    def as_dict(self) -> dict[str, Any]:
        """Values for ``metrics.json``, of a bound that is doubtful with the draws that would do."""
        found: dict[str, Any] = {
            "nelbo_pareto_k": self.shape,
            "nelbo_effective_draws": self.effective,
            "nelbo_largest_draws_share": self.largest_share,
        }
        return found | ({"nelbo_draws_needed": self.enough} if self.is_doubtful else {})


def draw_tail(draws: Tensor, num_real: Tensor) -> DrawTail | None:
    """Tail of ``draws`` Float[M, D], nats, of samples of ``num_real`` Int[M] tokens; None of too
    few to tell, or where all are the same."""
    num = draws.numel()
    if num < _FEWEST or not bool(draws.isfinite().all()):
        return None
    per_token = (draws.double() / num_real.clamp(min=1).unsqueeze(1)).flatten().sort().values
    size = min(num // 5, math.ceil(3 * math.sqrt(num)))
    excess = per_token[-size:] - per_token[-size - 1]
    squares = (per_token - per_token.mean()).square()
    if per_token[0] == per_token[-1]:
        return None
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
    """Shape k and mean of the generalised Pareto distribution of ``excess`` Float[n], ascending and
    above 0, the excesses over a threshold; None and infinity of fewer than 5. The mean is that of
    the fitted scale s and shape, s / (1 - k), infinite from k = 1 on.

    The posterior mean of Zhang and Stephens (Technometrics 51, 2009), with the weak prior of Pareto
    smoothed importance sampling (arXiv 1507.02646, appendix C) that k is 1/2.
    """
    n = len(excess)
    if n < 5:
        return None, math.inf
    m = 30 + math.isqrt(n)
    grid = 1 - (m / (torch.arange(1, m + 1, dtype=torch.float64) - 0.5)).sqrt()
    theta = 1 / excess[-1] + grid / (3 * excess[(n + 2) // 4 - 1])  # (m,)
    k = torch.log1p(-theta.unsqueeze(1) * excess).mean(dim=1)
    log_profile = n * ((-theta / k).log() - k - 1)
    best = (log_profile.softmax(dim=0) * theta).sum()
    likely = float(torch.log1p(-best * excess).mean())
    shape = (likely * n + 0.5 * _PRIOR) / (n + _PRIOR)
    return shape, -likely / float(best) / (1 - shape) if shape < 1 else math.inf
