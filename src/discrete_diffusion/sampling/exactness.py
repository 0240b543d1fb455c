"""Exactness: the one place that states whether samples follow the model's own distribution; and the
probability that a model gives to some of the tokens of a sequence, the others unknown.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from discrete_diffusion.algorithms.base import Algorithm, eval_mode
from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.categorical import log_prob_at
from discrete_diffusion.sampling.base import Law, Sampler
from discrete_diffusion.sampling.draft import time_of_masked_share
from discrete_diffusion.sampling.model import not_finite

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class KnownLogProb:
    """Result of ``log_prob_of``.

    ``log_prob``: Float64[B], the log-probability of each row's known tokens, nats.
    ``num_evaluated``: sequences that the network was shown, over all rows, in ``num_batches``
    forward passes; equal ones count once.
    """

    log_prob: Tensor
    num_evaluated: int
    num_batches: int


def log_prob_of(
    algorithm: TokenAlgorithm,
    tokens: Tensor,
    known: Tensor,
    real: Tensor,
    *,
    generator: torch.Generator,
    batch_size: int = 1024,
) -> KnownLogProb:
    """log p of the tokens Int[B, L] at the positions ``known`` Bool[B, L]; ``real``: Bool[B, L].

    For absorbing noise the chain rule, from the state that is all MASK on:

        log p(known) = sum_k log D_{l_k}(x_{l_k} | x_{l_1}, ..., x_{l_{k-1}})

    l_1, l_2, ... ascending by block and position, the network's time being that at which as many
    tokens are masked. Exact where the network's predictions are those of one joint distribution;
    a trained network's depend a little on the order.

    For other noise D is computed once, at t = 1 on noise sampled from the prior, and the tokens'
    logs add up: an approximation that takes them for independent.

    Raises ``ValueError`` if the algorithm has ``blocks`` and would not see a known token, see
    ``unseen_position``, or for logits that are not finite.
    """
    if (unseen := unseen_position(algorithm, known, real)) is not None:
        raise ValueError(
            f"position {unseen[1]} of row {unseen[0]} is known, but {algorithm.name} samples an "
            "earlier block without seeing it"
        )
    if len(tokens) == 0:
        return KnownLogProb(torch.zeros(0, dtype=torch.float64, device=tokens.device), 0, 0)
    score = _by_chain_rule if algorithm.process.absorbing else _from_noise
    with eval_mode(algorithm):
        found = score(algorithm, tokens, known, real, generator, batch_size)
    check_weighed(algorithm, found.log_prob)
    return found


def check_weighed(algorithm: TokenAlgorithm, log_probs: Tensor) -> None:
    """Raise ``ValueError`` if the network that weighs what is given has logits that are not
    finite."""
    if log_probs.isnan().any():
        raise not_finite(algorithm.backbone, "while it weighed what is given")


def unseen_position(
    algorithm: TokenAlgorithm, known: Tensor, real: Tensor
) -> tuple[int, int] | None:
    """Row and position of a known token that is not seen when unknown ones are sampled: an
    algorithm with ``blocks`` does not see a later block than its own. None if all are seen.

    ``known``, ``real``: Bool[B, L].
    """
    if algorithm.blocks is None:
        return None
    blocks = algorithm.blocks.to(real.device)
    last = int(blocks.max()) + 1
    first_free = torch.where(real & ~known, blocks, last).amin(dim=1, keepdim=True)  # (B, 1)
    unseen = (known & real & (blocks > first_free)).nonzero()
    return None if len(unseen) == 0 else (int(unseen[0, 0]), int(unseen[0, 1]))


def _by_chain_rule(
    algorithm: TokenAlgorithm,
    tokens: Tensor,
    known: Tensor,
    real: Tensor,
    generator: torch.Generator,
    batch_size: int,
) -> KnownLogProb:
    length = tokens.shape[1]
    blocks = torch.zeros_like(tokens[0]) if algorithm.blocks is None else algorithm.blocks
    place = blocks * length + torch.arange(length, device=tokens.device)
    order = place.masked_fill(~known, length * length).argsort(dim=1, stable=True)  # (B, L)
    count = known.sum(dim=1)
    x = algorithm.process.prior_sample(real, generator)
    log_prob = torch.zeros(len(tokens), dtype=torch.float64, device=tokens.device)
    num_evaluated = num_batches = 0
    for k in range(int(count.max())):
        rows = (count > k).nonzero().squeeze(1)
        position = order[rows, k]
        states = torch.stack([x[rows], real[rows].long()], dim=1)
        states = torch.cat([states.flatten(1), position.unsqueeze(1)], dim=1)
        distinct, which = states.unique(dim=0, return_inverse=True)
        batches = distinct.split(batch_size)
        log_d0 = torch.cat([_log_d0_at(algorithm, part, length) for part in batches])
        token = tokens[rows, position]
        log_prob[rows] += log_d0[which, token].double()
        x[rows, position] = token
        num_evaluated += len(distinct)
        num_batches += len(batches)
    return KnownLogProb(log_prob, num_evaluated, num_batches)


def _log_d0_at(algorithm: TokenAlgorithm, states: Tensor, length: int) -> Tensor:
    """log D Float[R, V] at one position: states Int[R, 2 L + 1] holds x, real and the position."""
    x, real, position = states[:, :length], states[:, length:-1].bool(), states[:, -1]
    of_block = real
    if algorithm.blocks is not None:
        of_block = real & (algorithm.blocks == algorithm.blocks[position].unsqueeze(1))
    t = time_of_masked_share(algorithm, x == algorithm.layout.mask_id, of_block)
    here = torch.arange(len(x), device=x.device)
    return algorithm.denoise(x, t, real)[here, position]


def _from_noise(
    algorithm: TokenAlgorithm,
    tokens: Tensor,
    known: Tensor,
    real: Tensor,
    generator: torch.Generator,
    batch_size: int,
) -> KnownLogProb:
    distinct, which = real.unique(dim=0, return_inverse=True)
    x = algorithm.process.prior_sample(distinct, generator)
    t = torch.ones(len(x), dtype=torch.float64, device=x.device)
    batches = list(zip(*(part.split(batch_size) for part in (x, t, distinct)), strict=True))
    log_d0 = torch.cat([algorithm.denoise(*batch) for batch in batches])[which]
    log_p = log_prob_at(tokens.clamp(min=0), log_d0)
    return KnownLogProb(log_p.masked_fill(~known, 0.0).sum(dim=1), len(distinct), len(batches))


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


def exactness(reasons: list[str], *, of: str = "") -> dict[str, Any]:
    """``exact`` and ``approximate_because`` of ``metrics.json``; ``of``: name of samples whose
    reasons are also logged, ``completions``."""
    if of and reasons:
        logger.info("the %s are approximate: %s", of, "; ".join(reasons))
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
