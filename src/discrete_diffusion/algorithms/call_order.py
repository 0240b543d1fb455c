"""Choice of the positions that each of a few network calls samples, so that few nats are lost."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from discrete_diffusion.algorithms.base import eval_mode
from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.categorical import log_softmax_on
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process.interpolating import Absorbing
from discrete_diffusion.runtime import progress

NUM_ORDERS, MOST_CUTS, MOST_MOVES = 4, 64, 200
"""Numbers of random orders to try, of positions where a long order may be cut, and of single
positions to move to another call afterwards."""
_LEVELS = 24
"""Numbers of visible positions at which the nats of a random order in many calls are computed."""
_AT_ONCE = 64


@dataclass(frozen=True)
class CallOrder:
    """Network call, from 0, that samples each position, and the predicted cost in nats per sample.

    ``call``: Int[L]; ``sizes``: number of positions of each call that are real in some example.
    ``nats``: sum over l of e_l(positions of earlier calls), see ``choose_call_order``.
    ``slow_nats``: mean for random orders in ``slow_calls`` calls, one per token up to 64 tokens, in
    many calls, or with a largest loss. With one per token the difference estimates KL(the model's
    distribution || that of the samples); with fewer it is smaller, as these calls lose nats too.
    """

    call: Tensor
    sizes: tuple[int, ...]
    nats: float
    slow_nats: float
    slow_calls: int

    @property
    def lost(self) -> float:
        """Nats lost by sampling the tokens of a call independently."""
        return self.nats - self.slow_nats

    def sentence(self) -> str:
        """Sentence on the sizes of the calls and the nats that they lose."""
        sizes = ", ".join(map(str, self.sizes))
        return (
            f"{len(self.sizes)} calls sample {sizes} positions; {self.nats:.2f} nats a sample, "
            f"{abs(self.lost):.2f} {'less' if self.lost < 0 else 'more'} than {self.slow_calls} "
            "calls in random order"
        )


def choose_call_order(
    algorithm: TokenAlgorithm,
    examples: Batch,
    calls: int | None,
    generator: torch.Generator,
    *,
    are_samples: bool = False,
    lost: float | None = None,
    within: Tensor | None = None,
    before: Tensor | None = None,
) -> CallOrder:
    """Choose the call of each position so that few nats are lost by sampling the tokens of a call
    independently.

    The network predicts the nats e_l(S) of position l given the positions of a set S, so a sample
    costs the sum over l of e_l(the positions of all earlier calls). Some random orders are cut into
    calls where it costs least, by dynamic programming (Watson et al., arXiv 2106.03802), and the
    cheapest is kept; then single positions are moved to the previous or next call where that is
    cheaper. For more than 64 tokens only the sizes are chosen if there are more than 32 calls, or
    if the layout has ``sites``, as many as tokens a call: then the order is that of ``spread``.

    ``examples``: clean data, some of which are used. ``are_samples``: they are samples of the
    model, whose e_l is the mean entropy of D_l: -log D_l(x_l) has the same mean, and more noise.
    ``calls``: number of calls; None: the smallest number that loses at most ``lost`` nats per
    sample. ``within``: Bool[L], positions to sample, such as those of a block, None for all;
    ``before``: Bool[L], positions sampled before.
    """
    length = examples.x0.shape[1]
    some = torch.randperm(len(examples), generator=generator, device=generator.device)
    examples = examples.rows(some[: num_tried(length)])
    within = torch.ones(length, dtype=torch.bool) if within is None else within
    before = torch.zeros(length, dtype=torch.bool) if before is None else before
    places = (examples.real.any(dim=0).cpu() & within).nonzero().squeeze(1)
    num_cuts, num_orders = min(len(places), MOST_CUTS), NUM_ORDERS
    if calls is None:  # the loss is measured against one position per call
        num_cuts = len(places)
        num_orders = max(1, min(num_orders, num_orders * MOST_CUTS // max(num_cuts, 1)))
    cuts = torch.linspace(0, len(places), num_cuts + 1).round().long()
    num_moves = min(4 * len(places), MOST_MOVES)  # each position twice either way
    sites = _sites_to_spread(algorithm.layout.sites, len(places), calls)

    def random_order() -> Tensor:
        found = torch.randperm(len(places), generator=generator, device=generator.device)
        order = places[found.cpu()]
        return order if sites is None else spread(order, sites)

    def nats_given(shown: Tensor) -> Tensor:
        nats = _nats_given(algorithm, examples, (shown & within) | before, within, are_samples)
        return torch.zeros_like(nats).index_copy(0, places, nats[places])

    device = algorithm.layout.support.device
    if calls is not None and (sites is not None or 2 * calls > MOST_CUTS < len(places)):
        orders = [random_order() for _ in range(NUM_ORDERS)]
        with eval_mode(algorithm):
            return _many_calls(nats_given, torch.arange(length, device=device), orders, calls)

    candidates: list[tuple[int, float, Tensor]] = []
    slow_nats = 0.0
    with (
        progress.task("choosing the calls", num_orders * num_cuts + num_moves, "states") as trying,
        eval_mode(algorithm),
    ):
        # cut random orders
        for _ in range(num_orders):
            order = random_order()
            cost = _costs(nats_given, length, order, cuts)
            slow = float(cost.diagonal(1).sum())
            slow_nats += slow / num_orders
            for number in range(calls or 1, (calls or num_cuts) + 1):
                nats, starts = cheapest_cuts(cost, number)
                if nats <= slow + (lost or 0.0):
                    break
            call_of = torch.full((length,), -1)  # of positions that no example has
            call_of[order] = torch.bucketize(torch.arange(len(order)), cuts[starts], right=True) - 1
            candidates.append((number, nats, call_of))
            trying.advance(num_cuts)
        number, _, call_of = min(candidates, key=lambda each: each[:2])
        # move single positions; nats Float64[K, L] of every position given those of earlier calls
        moves = [(position, step) for position in random_order().tolist() for step in (-1, 1)]
        nats_of = torch.stack([nats_given(call_of < k) for k in range(number)])
        for position, step in (2 * moves)[:num_moves]:
            call_of, nats_of = _try_move(nats_given, call_of, nats_of, position, step)
            trying.advance(1)
    call_of = call_of.where(call_of >= 0, torch.arange(length) % number)
    nats = float(nats_of.gather(0, call_of[None])[0, places].sum())
    sizes = tuple(call_of[places].bincount(minlength=number).tolist())
    return CallOrder(call_of.to(device), sizes, nats, slow_nats, num_cuts)


def num_tried(length: int) -> int:
    """Number of samples of ``length`` tokens that an order is tried on: 32 to 128."""
    return min(max(2**13 // length, 32), 128)


def _sites_to_spread(sites: Tensor | None, num: int, calls: int | None) -> Tensor | None:
    """Sites if ``num`` tokens are spread by them: few calls share sites in any order."""
    is_many = sites is not None and MOST_CUTS < num <= (calls or num) * (int(sites.max()) + 1)
    return sites if is_many else None


def spread(order: Tensor, sites: Tensor) -> Tensor:
    """Reorder positions Int[N] such that successive ones share few ``sites`` Int[L, K].

    Of the next 2 S positions, S the number of sites, one follows whose sites have rested longest.
    So a run of up to S / 2 pairs of nodes is nearly a matching, whose edges share no node. Those of
    a uniform random tree are independent of each other if all pairs are open: their transfer
    current is 0 (Burton and Pemantle, Annals of Probability 21, 1993).
    """
    rest, touched, found = order.tolist(), sites.cpu().numpy(), []
    last = np.zeros(touched.max() + 1)  # turn, from 1, at which a site was touched
    for turn in range(1, len(rest) + 1):
        window = touched[rest[: 2 * len(last)]]
        found.append(rest.pop(last[window].max(axis=1).argmin()))
        last[touched[found[-1]]] = turn
    return torch.tensor(found)


def _many_calls(
    nats_given: Callable[[Tensor], Tensor], position: Tensor, orders: Sequence[Tensor], calls: int
) -> CallOrder:
    """Choose the sizes of calls, which follow the first order. ``position``: 0..L-1, Int[L].

    i..j-1 of an order cost (j - i) e(i), where e(i) is the mean nats of a hidden position given i
    others. It is a mean over positions and orders, at a few i. The nats of i..j-1 alone have more
    noise, and the cheapest of many cuts would be those with the most.
    """
    num = len(orders[0])
    hidden = torch.logspace(math.log10(num), 0, _LEVELS).round().long().unique().flip(0)
    mean = torch.zeros(len(hidden), dtype=torch.float64)
    for order in progress.track(orders, "choosing the calls", "orders"):
        for k, left in enumerate(hidden.tolist()):
            shown = torch.zeros(len(position), dtype=torch.bool)
            shown[order[: num - left]] = True
            mean[k] += nats_given(shown)[order[num - left :]].mean() / len(orders)
    # more tokens never have fewer nats: what rises is noise
    falling = mean.cummin(dim=0).values.numpy()
    e = np.interp(np.arange(num), (num - hidden).numpy(), falling)
    even = torch.linspace(0, num, min(num, 2 * calls) + 1).round().long()
    cuts = torch.cat([even, torch.arange(max(0, num - calls), num)]).unique()
    starts, each = cuts[:-1], torch.from_numpy(e)
    nats, first = cheapest_cuts((cuts - starts.unsqueeze(1)) * each[starts].unsqueeze(1), calls)
    sizes = starts[first].diff(append=torch.tensor([num]))
    call_of = position % calls
    call_of[orders[0]] = torch.arange(calls).repeat_interleave(sizes).to(call_of)
    return CallOrder(call_of, tuple(sizes.tolist()), nats, float(e.sum()), num)


def _try_move(
    nats_given: Callable[[Tensor], Tensor], call_of: Tensor, nats: Tensor, position: int, step: int
) -> tuple[Tensor, Tensor]:
    """Move a position to the previous (-1) or next (1) call if cheaper; return calls and nats."""
    call = int(call_of[position])
    if not 0 <= call + step < len(nats) or int((call_of == call).sum()) == 1:
        return call_of, nats
    moved, nats_moved = call_of.clone(), nats.clone()
    moved[position] = call + step
    changed = max(call, call + step)  # the only call that is given other tokens
    nats_moved[changed] = nats_given(moved < changed)
    after, before = (of.clamp(min=0)[None] for of in (moved, call_of))
    cheaper = nats_moved.gather(0, after).sum() < nats.gather(0, before).sum()
    return (moved, nats_moved) if cheaper else (call_of, nats)


def cheapest_cuts(cost: Tensor, calls: int) -> tuple[float, Tensor]:
    """Cut 0..G-1 into ``calls`` <= G runs of minimal total cost; return the cost and the starts,
    Int[calls]. ``cost[i, j]``, Float[G, G + 1]: cost of the run i..j-1."""
    num = len(cost)
    empty = torch.ones(num, num + 1, dtype=torch.bool).tril()  # runs that end where they start
    cost = cost.masked_fill(empty.to(cost.device), torch.inf)
    # best[k, j]: least cost of 0..j-1 in k runs, the last of which starts at before[k, j]
    best = torch.full((calls + 1, num + 1), torch.inf, dtype=cost.dtype)
    before = torch.zeros(calls + 1, num + 1, dtype=torch.long)
    best[0, 0] = 0
    for k in range(1, calls + 1):
        best[k], before[k] = (best[k - 1, :num, None] + cost).min(dim=0)
    # follow the starts back from the end
    starts, end = [], num
    for k in range(calls, 0, -1):
        end = int(before[k, end])
        starts.append(end)
    return float(best[calls, num]), torch.tensor(starts[::-1])


def _costs(
    nats_given: Callable[[Tensor], Tensor], length: int, order: Tensor, cuts: Tensor
) -> Tensor:
    """Float64[G, G + 1]: nats per sample of the positions of an order between two ``cuts``
    Int[G + 1], sampled independently given the positions before the first cut."""
    place = torch.full((length,), len(order)).index_put((order,), torch.arange(len(order)))
    nats = torch.stack([nats_given(place < cut) for cut in cuts[:-1].tolist()])
    # sums from the start of the order to each cut, less those to the first cut
    so_far = torch.cat([torch.zeros(len(nats), 1).to(nats), nats[:, order].cumsum(dim=1)], dim=1)
    so_far = so_far[:, cuts]
    return so_far - so_far.diagonal().unsqueeze(1)


def _nats_given(
    algorithm: TokenAlgorithm, batch: Batch, shown: Tensor, within: Tensor, of_samples: bool
) -> Tensor:
    """Float64[L]: mean nats of every position given the positions ``shown`` Bool[L], the entropy if
    ``of_samples``; 0 if it is real in no sample."""
    layout, process = algorithm.layout, algorithm.process
    assert isinstance(process, Absorbing)
    total = torch.zeros(layout.length, dtype=torch.float64)
    for rows in torch.arange(len(batch)).split(_AT_ONCE):
        part = batch.rows(rows).to(layout.support.device)
        hidden = part.real & ~shown.to(part.real.device)
        x_t = part.x0.masked_fill(hidden, layout.mask_id)
        timed = part.real & within.to(part.real.device)
        t = process.time_of_masked(hidden & timed, timed)
        logits = algorithm.logits(x_t, t, part.real, part.conditions)
        log_d0 = log_softmax_on(logits, layout.support)
        nats = algorithm.cross_entropy(log_d0, part)
        if of_samples:
            nats = torch.special.entr(log_d0.exp()).sum(dim=-1).masked_fill(~part.real, 0.0)
        total += nats.double().sum(dim=0).cpu()
    return total / len(batch)
