"""Which positions a call draws: the cheapest plan by what a network that is told t predicts."""

from __future__ import annotations

import itertools
import logging
import re

import pytest
import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms import MDLM, Distill, distill
from discrete_diffusion.algorithms.distill import cheapest_cuts, choose_call_order
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.noise_schedules import LogLinear

MASK, PAD = 2, 3


def bits(length: int) -> Absorbing:
    support = torch.zeros(length, 4, dtype=torch.bool)
    support[:, :2] = True
    return Absorbing(TokenLayout(support, mask_id=MASK, pad_id=PAD), LogLinear())


class Told(nn.Module):
    """Any logits for every state of ``length`` bits, which turn with t."""

    def __init__(self, length: int, seed: int) -> None:
        super().__init__()
        self.code = 4 ** torch.arange(length)
        shape, generator = (2, 4**length, length, 4), make_generator(seed)
        self.table = torch.randn(shape, generator=generator, dtype=torch.float64)

    def forward(self, x_t: Tensor, sigma: Tensor) -> Tensor:
        first, second = self.table[:, (x_t * self.code).sum(-1)]
        return first + 4 * (-torch.expm1(-sigma.double()))[:, None, None] * second


def told(length: int = 5, seed: int = 0) -> tuple[MDLM, Batch]:
    """A network that is told t, and samples of 2 to ``length`` bits."""
    algorithm, generator = MDLM(Told(length, seed), bits(length)), make_generator(seed)
    size = torch.randint(2, length + 1, (40, 1), generator=generator)
    real = torch.arange(length) < size
    x0 = torch.randint(2, (40, length), generator=generator).masked_fill(~real, PAD)
    return algorithm, Batch(x0, real)


def cost_of(algorithm: MDLM, batch: Batch, plan: Tensor) -> float:
    """Nats of a sample that ``plan`` draws, each sample and call for itself."""
    total = 0.0
    for x0, real in zip(batch.x0, batch.real, strict=True):
        for call in plan.unique().tolist():
            hidden, now = (plan >= call) & real, (plan == call) & real
            if not now.any():
                continue
            share = hidden.sum() / real.sum()  # of the log-linear schedule t itself
            x_t = x0.masked_fill(hidden, MASK).unsqueeze(0)
            sigma = -(1 - share.double()).clamp(min=1e-4).log().reshape(1)
            log_d0 = algorithm.backbone(x_t, sigma)[0, :, :2].log_softmax(dim=-1)
            total -= float(log_d0[now, x0[now]].sum())
    return total / len(batch.x0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_the_nats_of_a_plan_are_those_of_its_calls(seed, caplog):
    """What is logged; so that every move, either way, was judged by what it changes."""
    caplog.set_level(logging.INFO)
    algorithm, batch = told(seed=seed)
    plan = choose_call_order(algorithm, batch, 3, make_generator(seed))
    found = re.search(r"a sample takes (\d+\.\d+) nats", caplog.text)
    assert found is not None
    assert float(found[1]) == pytest.approx(cost_of(algorithm, batch, plan), abs=0.006)
    for position, way in itertools.product(range(5), (-1, 1)):  # no move of one position is cheaper
        other = plan.clone()
        other[position] += way
        if other.unique().tolist() == [0, 1, 2]:
            assert cost_of(algorithm, batch, other) > cost_of(algorithm, batch, plan) - 1e-6


@pytest.mark.parametrize("seed", range(2))
def test_an_order_is_cut_where_it_costs_least(seed, monkeypatch):
    """Of all ways to cut it, each measured for itself."""
    monkeypatch.setattr(distill, "NUM_ORDERS", 1)
    monkeypatch.setattr(distill, "MOST_MOVES", 0)
    algorithm, batch = told(seed=seed)
    plan = choose_call_order(algorithm, batch, 3, make_generator(seed))
    generator = make_generator(seed)
    torch.randperm(len(batch), generator=generator)  # of the samples
    order = torch.randperm(5, generator=generator)
    ways = {}
    for cuts in itertools.combinations(range(1, 5), 2):
        other = torch.zeros(5, dtype=torch.long)
        other[order] = torch.bucketize(torch.arange(5), torch.tensor(cuts), right=True)
        ways[cuts] = (cost_of(algorithm, batch, other), other)
    assert torch.equal(plan, min(ways.values(), key=lambda way: way[0])[1])


class Even(nn.Module):
    """Says nothing, of any length."""

    def forward(self, x_t: Tensor, sigma: Tensor) -> Tensor:
        return torch.zeros(*x_t.shape, 4)


@pytest.mark.slow
@pytest.mark.parametrize(("calls", "length"), [(70, 70), (90, 200)])
def test_every_one_of_many_calls_draws_something(calls, length, monkeypatch):
    """More calls than a long sequence is usually cut into."""
    monkeypatch.setattr(distill, "TOKENS", 0)
    monkeypatch.setattr(distill, "FEWEST_SAMPLES", 2)
    algorithm = Distill(Even(), bits(length), calls=calls, components=1)
    x0 = torch.randint(2, (4, length), generator=make_generator(0))
    algorithm.before_first_step(Batch(x0, torch.ones_like(x0, dtype=torch.bool)), make_generator(0))
    assert algorithm.call_order.bincount().shape == (calls,)
    assert int(algorithm.call_order.bincount().min()) >= 1


def test_more_calls_than_positions_are_refused_with_the_most_there_can_be():
    with pytest.raises(ValueError, match=r"calls=71.*take calls=70"):
        Distill(Even(), bits(70), calls=71, components=1)
    with pytest.raises(ValueError, match=r"calls=9.* 8"):
        cheapest_cuts(torch.zeros(8, 9), 9)


@pytest.mark.parametrize("calls", [1, 2, 5, 8])
def test_cheapest_cuts_are_those_of_trying_all(calls):
    cost = torch.rand(8, 9, generator=make_generator(calls), dtype=torch.float64)
    nats, starts = cheapest_cuts(cost, calls)
    tried = {
        (0, *inner): sum(float(cost[i, j]) for i, j in itertools.pairwise((0, *inner, 8)))
        for inner in itertools.combinations(range(1, 8), calls - 1)
    }
    best = min(tried, key=tried.__getitem__)
    assert nats == pytest.approx(tried[best])
    assert tuple(starts.tolist()) == best


class Copies(nn.Module):
    """x1 = x0, and x2 = x3 are as free: what is seen of a pair says the other one."""

    def forward(self, x_t: Tensor, sigma: Tensor | None = None) -> Tensor:
        logits = torch.zeros(*x_t.shape, 4)
        for one, other in ((0, 1), (1, 0), (2, 3), (3, 2)):
            seen = x_t[:, other]
            logits[:, one].scatter_(1, seen.clamp(max=1).unsqueeze(1), 20.0 * (seen < 2)[:, None])
        return logits


def copies() -> tuple[MDLM, Batch]:
    """Two pairs of equal bits, and who knows it."""
    algorithm = MDLM(Copies(), bits(4))
    x0 = torch.randint(2, (300, 2), generator=make_generator(0)).repeat_interleave(2, dim=1)
    return algorithm, Batch(x0, torch.ones_like(x0, dtype=torch.bool))


def parts_copies(plan: Tensor) -> bool:
    """Each of two calls has one of either pair."""
    return bool(plan[0] != plan[1] and plan[2] != plan[3]) and plan.bincount().tolist() == [2, 2]


def test_moves_mend_what_one_order_cannot_cut(monkeypatch):
    algorithm, batch = copies()
    monkeypatch.setattr(distill, "NUM_ORDERS", 1)

    def all_part() -> bool:
        orders = [choose_call_order(algorithm, batch, 2, make_generator(k)) for k in range(8)]
        return all(map(parts_copies, orders))

    assert all_part()
    monkeypatch.setattr(distill, "MOST_MOVES", 0)
    assert not all_part()


def test_even_plans_use_every_call():
    student = Distill(Even(), bits(7), calls=3, components=1)
    assert student.call_order.bincount().tolist() == [3, 2, 2]
