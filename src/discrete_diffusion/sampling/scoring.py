"""Probability that a model gives to some of the tokens of a sequence, the others unknown."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from discrete_diffusion.algorithms.base import eval_mode
from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.categorical import log_prob_at
from discrete_diffusion.sampling.draft import time_of_masked_share
from discrete_diffusion.sampling.model import not_finite


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
