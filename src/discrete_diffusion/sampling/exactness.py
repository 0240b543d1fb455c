"""Exactness: reasons for which samples do not follow the distribution of the model."""

from __future__ import annotations

import logging
from typing import Any, cast

import torch
from torch import Tensor

from discrete_diffusion.algorithms.base import Algorithm
from discrete_diffusion.sampling.base import Exactness, Sampler

logger = logging.getLogger(__name__)

_REASONS = {
    Exactness.UNKNOWN: "sampling={name} does not state which distribution its samples have",
    Exactness.APPROXIMATE: "sampling={name} is approximate",
    Exactness.GRID: "sampling={name} is approximate: it tends to the model as its steps grow",
    Exactness.ANY_ORDER: (
        "sampling={name} samples in an order of its own: exact only where a network that is not "
        "given t predicts the same in every order"
    ),
}
_UNCHANGED = {
    "temperature": 1.0,
    "top_p": 1.0,
    "guidance": 1.0,
    "refresh": 1,
    "top_k": None,
    "stop_similarity": None,
}
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
    """Return reasons for which samples do not follow the model's distribution; empty if they do.

    The model's distribution is the one whose bound is reported: that of the reverse process with
    the trained network, however well trained. For absorbing noise this reveals one token per call
    at the times of the process; for a model of discrete steps it takes all steps. Given tokens are
    visible from the start, so a completion follows the same process started with them. This equals
    the conditional distribution of fresh samples as far as the network's predictions belong to one
    joint distribution.

    ``steps``: number of steps requested. ``real``, ``known``: Bool[M, L], the positions of each
    sample, and the given ones among these; None for fresh samples of any size. ``log_weights``:
    Float64[M], log weights of narrowed samples, else None.

    A sampler class that only inherits ``exactness`` counts as UNKNOWN: it may sample differently.
    """
    if real is not None and known is not None and not (real & ~known).any():
        return []  # nothing was sampled
    reasons = []
    # noise, blocks, and samplers that do not allow for given tokens
    if real is not None and known is not None and (real & known).any():
        process = cast(Any, algorithm).process
        if not process.absorbing:
            reasons.append(
                f"with {process.name} noise the network takes given tokens for noisy ones"
            )
        if unseen_position(algorithm, known, real) is not None:
            reasons.append(
                f"{algorithm.name} samples tokens without seeing those given behind them"
            )
        if not type(sampler).sees_given:
            reasons.append(f"sampling={sampler.name} was not made for given tokens")
    num_free = _most_free(algorithm, real, known)
    reasons += _reasons_of_sampler(sampler, algorithm, steps, num_free)
    # settings that change the distribution
    changed = [
        key
        for key, value in _UNCHANGED.items()
        if getattr(sampler, key, value) not in (value, None)
    ]
    if changed:
        settings = " and ".join(f"sampling.{key}={getattr(sampler, key):g}" for key in changed)
        reasons.append(f"{settings} change{'s' * (len(changed) == 1)} the distribution")
    # narrowed tokens
    if log_weights is not None and log_weights.any():
        undo = "undo" if not reasons else "undo in part"
        reasons.append(f"tokens were narrowed, which the weights (log_weight) {undo}")
    return reasons


def exactness_facts(reasons: list[str], *, of: str = "") -> dict[str, Any]:
    """Entries ``exact`` and ``approximate_because`` of ``metrics.json``.

    ``of``: name of the samples for the log, such as ``completions``. If it is given, the reasons
    are logged.
    """
    if of and reasons:
        logger.info("the %s are approximate: %s", of, "; ".join(reasons))
    return {"exact": not reasons, "approximate_because": "; ".join(reasons) or None}


def unseen_position(algorithm: Any, known: Tensor, real: Tensor) -> tuple[int, int] | None:
    """Find a known token that the network does not see while it samples unknown tokens.

    An algorithm with ``blocks`` does not see blocks after the one that it samples. Returns row and
    position, or None. ``known``, ``real``: Bool[B, L].
    """
    if algorithm.blocks is None:
        return None
    # known tokens behind the first block that has a free position
    blocks = algorithm.blocks.to(real.device)
    last = int(blocks.max()) + 1
    first_free = torch.where(real & ~known, blocks, last).amin(dim=1, keepdim=True)  # (B, 1)
    unseen = (known & real & (blocks > first_free)).nonzero()
    return None if len(unseen) == 0 else (int(unseen[0, 0]), int(unseen[0, 1]))


def _reasons_of_sampler(
    sampler: Sampler[Any], algorithm: Algorithm, steps: int | None, num: int
) -> list[str]:
    """Reasons due to the sampler; ``num``: the most tokens that are sampled one after the other."""
    # an inherited statement does not count
    stated = "exactness" in vars(type(sampler))
    exactness = sampler.exactness if stated else Exactness.UNKNOWN
    reasons = []
    if exactness in _REASONS:
        reasons.append(_REASONS[exactness].format(name=sampler.name))
    if exactness in (Exactness.UNKNOWN, Exactness.APPROXIMATE):
        return reasons
    # a model of discrete steps is sampled by making all of them
    discrete = getattr(algorithm, "num_steps", None)
    if discrete is not None:
        made = getattr(sampler, "steps", 0) if steps is None else steps
        if exactness is Exactness.GRID:
            short = f"sampling={sampler.name} makes {made} of the {discrete} steps of the model"
            return [] if made >= discrete else [short]
        return reasons or [f"sampling={sampler.name} does not make the steps of the model"]
    # a single token has the network's distribution, in every order
    if not algorithm.time_conditioning and num <= 1:
        reasons = []
    if sampler.samples_together(num, steps):
        reasons.append("several tokens are sampled per call")
    return reasons


def _most_free(algorithm: Any, real: Tensor | None, known: Tensor | None) -> int:
    """Largest number of tokens to sample in a block; 0 if the samples are not tokens."""
    if algorithm.state != "tokens":
        return 0
    layout, blocks = algorithm.layout, algorithm.blocks
    # free positions of each block
    free = torch.ones(1, layout.length, dtype=torch.bool) if real is None else real.cpu()
    free = free if known is None else free & ~known.cpu()
    ids = torch.zeros(layout.length).long() if blocks is None else blocks.cpu()
    return max(int((free & (ids == block)).sum(dim=1).max()) for block in ids.unique())
