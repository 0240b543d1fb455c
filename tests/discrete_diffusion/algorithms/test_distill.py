"""The student of few calls: its loss is the -log p of its sampler, and a mixture can be any law."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms import MDLM, Distill, call_order
from discrete_diffusion.algorithms.call_order import choose_call_order
from discrete_diffusion.algorithms.preflight import try_backbone
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling import build_sampler, fixed_orders, partial_samples, tokens
from toy_algorithms import ZeroBackbone
from toy_world import (
    DROPOUT,
    FULL,
    LENGTH,
    PADDED,
    VOCAB_SIZE,
    ExactBackbone,
    ToyWorld,
    noise_floor,
    total_variation,
    turned,
)

CODE = torch.tensor([VOCAB_SIZE**2, VOCAB_SIZE, 1])
NUM, FEW_CALL = 100_000, build_sampler({"name": "few-call"})


class TabularMixture(nn.Module):
    """A free table of logits for every state and component, in float64, which turn with t: the
    share that is corrupted tilts them by ``told``; while training they have dropout."""

    def __init__(
        self, components: int, scale: float = 1.0, seed: int = 0, told: float = 4.0
    ) -> None:
        super().__init__()
        shape = (VOCAB_SIZE**LENGTH, components, LENGTH, VOCAB_SIZE)
        table = torch.randn(shape, generator=make_generator(seed), dtype=torch.float64)
        self.table, self.told = nn.Parameter(scale * table), told
        self.shares: list[Tensor] = []

    def forward(self, x_t: Tensor, sigma: Tensor, *, component=None) -> Tensor:
        share = -torch.expm1(-sigma.double())
        self.shares.append(share)
        logits = turned(self.table[(x_t * CODE).sum(-1)], sigma, by=self.told)
        logits = nn.functional.dropout(logits, DROPOUT, self.training)
        if isinstance(component, str):
            return logits
        return logits[:, 0] if component is None else logits[torch.arange(len(x_t)), component]


class Told(Distill):
    """In float64, as the table is."""

    def apply_backbone(self, x_t, sigma, conditions=None):
        return self.call(self.backbone, x_t, sigma, self.accepted(conditions))


def student(components: int = 8, plan=(0, 1, 1), **options) -> Told:
    world = ToyWorld.make()
    calls = max(plan) + 1
    made = Told(
        TabularMixture(components, **options),
        Absorbing(world.layout, LogLinear()),
        calls=calls,
        components=components,
    )
    made.call_order.copy_(torch.tensor(plan))
    return made.eval()


def everything(world: ToyWorld) -> Batch:
    return Batch(world.x0, world.real.expand(len(world.x0), -1))


def law(algorithm: Distill, world: ToyWorld) -> Tensor:
    """p of every clean sequence, from the loss: Float64[K]."""
    with torch.no_grad():
        return (-algorithm.loss(everything(world), make_generator(0), "exact").nelbo.double()).exp()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["alike", "each", "by masks"])
@pytest.mark.parametrize("real", [FULL, PADDED], ids=["full", "padded"])
@pytest.mark.parametrize("plan", [(1, 0, 0), (2, 0, 1)])
def test_the_loss_is_minus_log_p_of_the_sampler(real, plan, how, monkeypatch):
    """Whether samples that are all alike are computed once or not, and as on a GPU."""
    if how == "by masks":
        for module in (partial_samples, tokens):
            monkeypatch.setattr(module, "keeps_shapes", lambda device: True)
    if how == "each":
        monkeypatch.setattr(fixed_orders, "are_alike", lambda *of: False)
    world, algorithm = ToyWorld.make(real), student(3, plan)
    p = law(algorithm, world)
    assert float(p.sum()) == pytest.approx(1, abs=1e-6)  # nelbo is float32
    drawn = FEW_CALL.sample(algorithm, real.expand(NUM, -1), generator=make_generator(1))
    assert total_variation(world.distribution(drawn.x0), p / p.sum()) < noise_floor(p, NUM)
    used = len(set(torch.tensor(plan)[real].tolist()))
    assert (drawn.nfe == used).all()


@pytest.mark.slow
def test_one_call_is_an_unbiased_draw_of_the_whole():
    world, algorithm = ToyWorld.make(), student(4, (2, 0, 1))
    batch, num = everything(world), 3
    exact = algorithm.loss(batch, make_generator(0), "exact").nelbo
    seen = [algorithm.call_nll(batch, torch.full((len(batch),), k)) for k in range(num)]
    torch.testing.assert_close(torch.stack(seen).sum(dim=0).float(), exact)
    drawn = [algorithm.loss(batch, make_generator(k), "one_call").nelbo for k in range(3000)]
    mean, spread = torch.stack(drawn).mean(dim=0), torch.stack(drawn).std(dim=0)
    assert ((mean - exact).abs() < 5 * spread / 3000**0.5).all()
    for row in drawn[:50]:  # of every batch each call has a third
        nearest = (row / num - torch.stack(seen)).abs().argmin(dim=0)
        assert nearest.bincount(minlength=num).tolist() == [8, 8, 8]


def test_a_mask_chooses_the_tokens_of_a_call_as_their_places_do():
    """The former where a device would have to be waited for."""
    batch, algorithm = everything(ToyWorld.make()), student(3, (0, 1, 1))
    logits = torch.randn(len(batch), 3, LENGTH, VOCAB_SIZE, generator=make_generator(2))
    now = torch.rand(batch.x0.shape, generator=make_generator(3)) < 0.5
    by_mask = algorithm._log_p_by_mask(logits, batch.x0, now)
    torch.testing.assert_close(by_mask, algorithm._log_p(logits, batch.x0, now))


@pytest.mark.parametrize("real", [FULL, PADDED], ids=["full", "padded"])
def test_the_network_is_told_the_share_of_real_tokens_that_is_masked(real):
    """In every call of training and of sampling, clamped tokens counted among the real ones."""
    world, algorithm = ToyWorld.make(real), student(3, (0, 1, 1))
    algorithm.loss(everything(world), make_generator(0), "exact")
    num = int(real.sum())
    after_first = (num - 1) / num
    told = [float(share.unique()) for share in algorithm.backbone.shares]
    assert told == pytest.approx([1.0, after_first], abs=1e-4)  # sigma is cut at alpha = 1e-4
    algorithm.backbone.shares.clear()
    clamp = torch.tensor([[1, -1, -1]])

    FEW_CALL.sample(algorithm, real.unsqueeze(0), generator=make_generator(1), clamp=clamp)
    assert [float(share) for share in algorithm.backbone.shares] == pytest.approx([after_first])


@pytest.mark.parametrize(
    ("build", "named"),
    [
        (lambda process: Distill(ZeroBackbone(), process, calls=0), "algo.calls=0"),
        (lambda process: Distill(ZeroBackbone(), process, calls=4), "calls=4.*take calls=3"),
        (lambda process: Distill(ZeroBackbone(), process, components=0), "algo.components=0"),
        (lambda process: Distill(ZeroBackbone(), process, calls=2, train_on="some"), "one_call"),
        (
            lambda process: Distill(ExactBackbone(process), process, calls=2),
            r"takes component.*set algo.components=1",
        ),
        (lambda process: FEW_CALL.check(MDLM(ExactBackbone(process), process)), "algo=distill"),
        (lambda process: FEW_CALL.check(student(2), steps=5), "calls=5"),
    ],
)
def test_what_is_refused(build, named):
    with pytest.raises(ValueError, match=named):
        build(Absorbing(ToyWorld.make().layout, LogLinear()))


def test_another_number_of_components_than_the_backbone_has_is_found_before_training():
    world = ToyWorld.make()
    process = Absorbing(world.layout, LogLinear())
    algorithm = Distill(TabularMixture(2), process, calls=2, components=3)
    shapes = r"shape \(4, 2, 3, 6\); expected .* \(4, 3, 3, 6\) \(samples, components, "
    with pytest.raises(ValueError, match=shapes):
        try_backbone(algorithm, Batch(world.x0[:4], world.real.expand(4, -1)))


HIDDEN, NOTHING = 2, 3


def bits(length: int) -> Absorbing:
    support = torch.zeros(length, 4, dtype=torch.bool)
    support[:, :2] = True
    return Absorbing(TokenLayout(support, mask_id=HIDDEN, pad_id=NOTHING), LogLinear())


class Timed(nn.Module):
    """Any logits for every state of ``length`` bits, which turn with t."""

    def __init__(self, length: int, seed: int) -> None:
        super().__init__()
        self.code = 4 ** torch.arange(length)
        shape, generator = (2, 4**length, length, 4), make_generator(seed)
        self.table = torch.randn(shape, generator=generator, dtype=torch.float64)

    def forward(self, x_t: Tensor, sigma: Tensor) -> Tensor:
        first, second = self.table[:, (x_t * self.code).sum(-1)]
        return first + 4 * (-torch.expm1(-sigma.double()))[:, None, None] * second


def timed_network(length: int = 5, seed: int = 0) -> tuple[MDLM, Batch]:
    """A network that is timed_network t, and samples of 2 to ``length`` bits."""
    algorithm, generator = MDLM(Timed(length, seed), bits(length)), make_generator(seed)
    size = torch.randint(2, length + 1, (40, 1), generator=generator)
    real = torch.arange(length) < size
    x0 = torch.randint(2, (40, length), generator=generator).masked_fill(~real, NOTHING)
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
            x_t = x0.masked_fill(hidden, HIDDEN).unsqueeze(0)
            sigma = -(1 - share.double()).clamp(min=1e-4).log().reshape(1)
            log_d0 = algorithm.backbone(x_t, sigma)[0, :, :2].log_softmax(dim=-1)
            total -= float(log_d0[now, x0[now]].sum())
    return total / len(batch.x0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_the_nats_of_a_plan_are_those_of_its_calls(seed):
    """So that every move, either way, was judged by what it changes."""
    algorithm, batch = timed_network(seed=seed)
    found = choose_call_order(algorithm, batch, 3, make_generator(seed))
    plan = found.call
    assert found.nats == pytest.approx(cost_of(algorithm, batch, plan), abs=1e-6)
    for position, way in itertools.product(range(5), (-1, 1)):  # no move of one position is cheaper
        other = plan.clone()
        other[position] += way
        if other.unique().tolist() == [0, 1, 2]:
            assert cost_of(algorithm, batch, other) > cost_of(algorithm, batch, plan) - 1e-6


@pytest.mark.parametrize("seed", range(2))
def test_an_order_is_cut_where_it_costs_least(seed, monkeypatch):
    """Of all ways to cut it, each measured for itself."""
    monkeypatch.setattr(call_order, "NUM_ORDERS", 1)
    monkeypatch.setattr(call_order, "MOST_MOVES", 0)
    algorithm, batch = timed_network(seed=seed)
    plan = choose_call_order(algorithm, batch, 3, make_generator(seed)).call
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
    monkeypatch.setattr(call_order, "NUM_ORDERS", 1)

    def all_part() -> bool:
        orders = [choose_call_order(algorithm, batch, 2, make_generator(k)).call for k in range(8)]
        return all(map(parts_copies, orders))

    assert all_part()
    monkeypatch.setattr(call_order, "MOST_MOVES", 0)
    assert not all_part()


def test_even_plans_use_every_call():
    student = Distill(Even(), bits(7), calls=3, components=1)
    assert student.call_order.bincount().tolist() == [3, 2, 2]


def test_checkpoints_of_earlier_students_are_read():
    """Their order of the calls is called ``plan``."""
    made = student(plan=(2, 0, 1))
    earlier = {**made.state_dict(), "plan": torch.tensor([1, 2, 0])}
    made.load_state_dict(earlier)
    assert made.call_order.tolist() == [1, 2, 0]
