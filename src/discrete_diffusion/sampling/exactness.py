"""Exactness: the one place that states whether samples follow the model's own distribution."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from discrete_diffusion.algorithms.base import Algorithm
from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.sampling.base import Law, Sampler
from discrete_diffusion.sampling.scoring import unseen_position

_LAWS = {
    Law.UNKNOWN: "sampling={name} does not state which distribution its samples have",
    Law.APPROXIMATE: "sampling={name} is approximate",
    Law.GRID: "sampling={name} is approximate: it tends to the model as its steps grow",
    Law.MASKED_SHARE: (
        "sampling={name} is exact only for a network that is not given t: it gives the time of the "
        "masked share, not that at which a token is revealed"
    ),
    Law.ANY_ORDER: (
        "sampling={name} samples in an order of its own: exact only where a network that is not "
        "given t predicts the same in every order"
    ),
}
_UNCHANGED = {"temperature": 1.0, "top_p": 1.0, "guidance": 1.0, "top_k": None, "stop_cosine": None}
"""Settings of samplers at which the distribution of samples is the model's."""


def approximations(
    sampler: Sampler[Any],
    algorithm: Algorithm,
    *,
    steps: int | None = None,
    real: Tensor | None = None,
    known: Tensor | None = None,
    log_weights: Tensor | None = None,
) -> list[str]:
    """Why samples do not follow the model's own distribution; empty if they do.

    That distribution is the one whose bound is reported: of the reverse process that the trained
    network makes, whatever it predicts; for absorbing noise of one token a call, revealed at the
    times of the process, of discrete steps that of all of them. Given tokens are visible from the
    start, so a completion follows the same process begun with them. It is the conditional of the
    samples without them as far as the network's predictions are those of one joint distribution.

    ``steps``: of the request. ``real``, ``known``: Bool[M, L], the positions of each sample, and
    which of them are given; without them samples are fresh and of any size. ``log_weights``:
    Float64[M], those of the samples, if they were narrowed.

    A sampler speaks for itself alone: what a class inherits of ``Sampler.law`` is not believed,
    since a subclass may sample differently.
    """
    if real is not None and known is not None and not (real & ~known).any():
        return []  # nothing was sampled
    reasons = _of_given(sampler, algorithm, real, known)
    reasons += _of_law(sampler, algorithm, steps, _most_drawn(algorithm, real, known))
    changed = [
        key
        for key, value in _UNCHANGED.items()
        if getattr(sampler, key, value) not in (value, None)
    ]
    if changed:
        settings = " and ".join(f"sampling.{key}={getattr(sampler, key):g}" for key in changed)
        reasons.append(f"{settings} change{'s' * (len(changed) == 1)} the distribution")
    if log_weights is not None and log_weights.any():
        undo = "undo" if not reasons else "undo in part"
        reasons.append(f"tokens were narrowed, which the weights (log_weight) {undo}")
    return reasons


def exactness(reasons: list[str]) -> dict[str, Any]:
    """``exact`` and ``approximate_because``, as every ``metrics.json`` of samples has them."""
    return {"exact": not reasons, "approximate_because": "; ".join(reasons) or None}


def _of_given(
    sampler: Sampler[Any], algorithm: Any, real: Tensor | None, known: Tensor | None
) -> list[str]:
    if real is None or known is None or not (real & known).any():
        return []
    process, reasons = algorithm.process, []
    if not process.absorbing:
        reasons.append(f"with {process.name} noise the network takes given tokens for noisy ones")
    if unseen_position(algorithm, known, real) is not None:
        reasons.append(f"{algorithm.name} samples tokens without seeing those given behind them")
    if not type(sampler).sees_given:
        reasons.append(f"sampling={sampler.name} was not made for given tokens")
    return reasons


def _of_law(sampler: Sampler[Any], algorithm: Algorithm, steps: int | None, num: int) -> list[str]:
    """``num``: the most tokens that are sampled one after the other."""
    law = sampler.law if "law" in vars(type(sampler)) else Law.UNKNOWN
    knows_t, discrete = algorithm.time_conditioning, getattr(algorithm, "num_steps", None)
    reasons = [_LAWS[law].format(name=sampler.name)] if law in _LAWS else []
    if law in (Law.UNKNOWN, Law.APPROXIMATE):
        return reasons
    if discrete is not None:
        made = getattr(sampler, "steps", 0) if steps is None else steps
        if law is Law.GRID:
            short = f"sampling={sampler.name} makes {made} of the {discrete} steps of the model"
            return [] if made >= discrete else [short]
        return reasons or [f"sampling={sampler.name} does not make the steps of the model"]
    if not knows_t and (num <= 1 or law is Law.MASKED_SHARE):
        reasons = []  # a single token has the network's distribution, in every order
    if sampler.samples_together(num, steps):
        reasons.append("several tokens are sampled per call")
    return reasons


def _most_drawn(algorithm: Any, real: Tensor | None, known: Tensor | None) -> int:
    """The most tokens of a block that are to be sampled; of samples other than tokens 0."""
    if not isinstance(algorithm, TokenAlgorithm):
        return 0
    layout, blocks = algorithm.layout, algorithm.blocks
    free = torch.ones(1, layout.length, dtype=torch.bool) if real is None else real.cpu()
    free = free if known is None else free & ~known.cpu()
    ids = torch.zeros(layout.length).long() if blocks is None else blocks.cpu()
    return max(int((free & (ids == block)).sum(dim=1).max()) for block in ids.unique())
