"""Which positions a model of few calls draws in which call."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from discrete_diffusion.algorithms.base import eval_mode
from discrete_diffusion.categorical import log_softmax_on
from discrete_diffusion.forward_process.absorbing import Absorbing
from discrete_diffusion.runtime import progress
from discrete_diffusion.types import Batch

if TYPE_CHECKING:
    from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm

logger = logging.getLogger(__name__)

ORDERS, MOST_CUTS, MOST_MOVES = 4, 64, 200
"""How many random orders are tried, of long sequences, in how many places one may be cut (if there
are many calls, twice as many as calls), and how many moves of one position follow."""
MOST_SAMPLES, FEWEST_SAMPLES, TOKENS = 128, 32, 2**13
"""Samples that a plan is tried on: as many as have so many tokens, within these limits."""
_AT_ONCE = 64


def even_plan(length: int, calls: int) -> Tensor:
    """Int[L]: the call of each position, sets of equal size spread over the sequence."""
    return torch.arange(length) % calls


def plan_calls(
    algorithm: TokenAlgorithm, train: Batch, calls: int, generator: torch.Generator
) -> Tensor:
    """Int[L]: the call of each position, such that few nats are lost by drawing the tokens of a
    call apart.

    The network says how many nats e_l(S) position l takes given the positions of a set S, so a
    sample drawn by a plan takes the sum over l of e_l(the positions of all earlier calls). Of some
    random orders that are cut into calls where it costs least, by dynamic programming (Watson et
    al., arXiv 2106.03802), the cheapest is kept; then single positions are moved to the call before
    or behind theirs, as long as that is cheaper.
    """
    length, device = train.x0.shape[1], algorithm.layout.support.device
    num = min(max(TOKENS // length, FEWEST_SAMPLES), MOST_SAMPLES)
    some = torch.randperm(len(train), generator=generator, device=generator.device)[:num]
    examples = _rows(train, some.to(train.x0.device))
    num_cuts = min(length, max(MOST_CUTS, 2 * calls))
    cuts = torch.linspace(0, length, num_cuts + 1).round().long()
    moves = min(4 * length, MOST_MOVES)  # each position twice either way
    found: list[tuple[float, Tensor]] = []
    with (
        progress.task("planning the calls", ORDERS * (len(cuts) - 1) + moves, "states") as trying,
        eval_mode(algorithm),
    ):
        for _ in range(ORDERS):
            order = torch.randperm(length, generator=generator, device=generator.device).cpu()
            cost, starts = cheapest_cuts(_costs(algorithm, examples, order, cuts), calls)
            plan = torch.zeros(length, dtype=torch.long)
            plan[order] = torch.bucketize(torch.arange(length), cuts[starts], right=True) - 1
            found.append((cost, plan))
            trying.advance(len(cuts) - 1)
        plan = min(found, key=lambda each: each[0])[1]
        order = torch.randperm(length, generator=generator, device=generator.device)
        ways = [(position, way) for position in order.tolist() for way in (-1, 1)]
        nats = torch.stack([_nats(algorithm, examples, plan < k) for k in range(calls)])
        for position, way in (2 * ways)[:moves]:
            plan, nats = _moved(algorithm, examples, plan, nats, position, way)
            trying.advance(1)
    logger.info(
        "the calls draw %s positions; before training, a sample takes %.2f nats",
        ", ".join(map(str, plan.bincount(minlength=calls).tolist())),
        float(nats.gather(0, plan[None]).sum()),
    )
    return plan.to(device)


def _moved(
    algorithm: TokenAlgorithm, batch: Batch, plan: Tensor, nats: Tensor, position: int, way: int
) -> tuple[Tensor, Tensor]:
    """The plan with a position in the call before (-1) or behind (1) its own, if that is cheaper,
    and ``nats`` Float64[K, L] of every position given those of the calls before each call."""
    call = int(plan[position])
    if not 0 <= call + way < len(nats) or int((plan == call).sum()) == 1:
        return plan, nats
    other, moved = plan.clone(), nats.clone()
    other[position] = call + way
    changed = max(call, call + way)  # the one that is given other tokens
    moved[changed] = _nats(algorithm, batch, other < changed)
    cheaper = moved.gather(0, other[None]).sum() < nats.gather(0, plan[None]).sum()
    return (other, moved) if cheaper else (plan, nats)


def cheapest_cuts(cost: Tensor, calls: int) -> tuple[float, Tensor]:
    """The least sum of ``cost`` Float[G, G + 1] of ``calls`` runs i..j-1 of 0..G-1, one behind the
    other, and where they start, Int[calls]; ``cost[i, j]``: of the run i..j-1.

    Raises ``ValueError`` for more runs than G.
    """
    num = len(cost)
    if not 1 <= calls <= num:
        raise ValueError(f"calls={calls}: expected 1 to {num}, as many as there are to part")
    empty = torch.ones(num, num + 1, dtype=torch.bool).tril()  # runs that end where they start
    cost = cost.masked_fill(empty.to(cost.device), torch.inf)
    best = torch.full((calls + 1, num + 1), torch.inf, dtype=cost.dtype)
    before = torch.zeros(calls + 1, num + 1, dtype=torch.long)
    best[0, 0] = 0
    for k in range(1, calls + 1):
        best[k], before[k] = (best[k - 1, :num, None] + cost).min(dim=0)
    starts, end = [], num
    for k in range(calls, 0, -1):
        end = int(before[k, end])
        starts.append(end)
    return float(best[calls, num]), torch.tensor(starts[::-1])


def _costs(algorithm: TokenAlgorithm, batch: Batch, order: Tensor, cuts: Tensor) -> Tensor:
    """Float64[G, G + 1]: nats per sample of the positions of an order between two ``cuts``
    Int[G + 1], drawn apart given those before the first."""
    place = order.argsort()
    nats = torch.stack([_nats(algorithm, batch, place < cut) for cut in cuts[:-1].tolist()])
    so_far = torch.cat([torch.zeros(len(nats), 1).to(nats), nats[:, order].cumsum(dim=1)], dim=1)
    so_far = so_far[:, cuts]  # (G, G + 1), from the start of the order
    return so_far - so_far.diagonal().unsqueeze(1)


def _nats(algorithm: TokenAlgorithm, batch: Batch, shown: Tensor) -> Tensor:
    """Float64[L]: mean nats of every position given those ``shown`` Bool[L], 0 if never real."""
    layout, process = algorithm.layout, algorithm.process
    assert isinstance(process, Absorbing)
    total = torch.zeros(layout.length, dtype=torch.float64)
    for rows in torch.arange(len(batch)).split(_AT_ONCE):
        part = _rows(batch, rows).to(layout.support.device)
        hidden = part.real & ~shown.to(part.real.device)
        x_t = part.x0.masked_fill(hidden, layout.mask_id)
        t = process.time_of_masked(hidden, part.real)
        logits = algorithm.logits(x_t, t, part.real, part.conditions)
        log_d0 = log_softmax_on(logits, layout.support)
        total += algorithm.cross_entropy(log_d0, part).double().sum(dim=0).cpu()
    return total / len(batch)


def _rows(batch: Batch, rows: Tensor) -> Batch:
    conditions = {name: value[rows] for name, value in batch.conditions.items()}
    return Batch(batch.x0[rows], batch.real[rows], conditions=conditions)
