"""The student of few calls: its loss is the -log p of its sampler, and a mixture can be any law."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms import MDLM, Distill
from discrete_diffusion.algorithms.preflight import try_backbone
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling import build_sampler, exact_samplers, partial_samples, tokens
from toy_algorithms import ZeroBackbone
from toy_world import (
    DROPOUT,
    FULL,
    LENGTH,
    MASK,
    PADDED,
    VOCAB_SIZE,
    ExactBackbone,
    ToyWorld,
    noise_floor,
    total_variation,
    turned,
)

CODE = torch.tensor([VOCAB_SIZE**2, VOCAB_SIZE, 1])
NUM = 100_000


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
@pytest.mark.parametrize("plan", [(0, 1, 1), (1, 0, 0), (0, 0, 0), (2, 0, 1)])
def test_the_loss_is_minus_log_p_of_the_sampler(real, plan, how, monkeypatch):
    """Whether samples that are all alike are computed once or not, and as on a GPU."""
    if how == "by masks":
        for module in (partial_samples, tokens):
            monkeypatch.setattr(module, "keeps_shapes", lambda device: True)
    if how == "each":
        monkeypatch.setattr(exact_samplers, "are_alike", lambda *of: False)
    world, algorithm = ToyWorld.make(real), student(3, plan)
    p = law(algorithm, world)
    assert float(p.sum()) == pytest.approx(1, abs=1e-6)  # nelbo is float32
    drawn = build_sampler({"name": "few-call"}).sample(
        algorithm, real.expand(NUM, -1), generator=make_generator(1)
    )
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
    sampler = build_sampler({"name": "few-call"})
    sampler.sample(algorithm, real.unsqueeze(0), generator=make_generator(1), clamp=clamp)
    assert [float(share) for share in algorithm.backbone.shares] == pytest.approx([after_first])


def test_one_token_a_call_of_the_exact_network_is_the_joint():
    world = ToyWorld.make()
    process = Absorbing(world.layout, LogLinear())
    algorithm = Distill(ExactBackbone(process), process, calls=3, components=1).eval()
    torch.testing.assert_close(law(algorithm, world), world.prob, atol=1e-6, rtol=0)


def test_clamped_tokens_stay_and_are_seen_from_the_first_call():
    algorithm = student(8)
    clamp = torch.tensor([-1, -1, 3]).expand(500, -1)
    drawn = build_sampler({"name": "few-call"}).sample(
        algorithm, FULL.expand(500, -1), generator=make_generator(1), clamp=clamp
    )
    assert (drawn.x0[:, 2] == 3).all()
    two_thirds = torch.tensor([math.log(3.0)])  # are masked of what is real, not of what is free
    state = torch.tensor([[MASK, MASK, 3]])
    first = algorithm.backbone(state, two_thirds, component="all")[0, :, 0, :3]
    share = drawn.x0[:, 0].bincount(minlength=3).double() / 500
    assert ((share - first.softmax(dim=-1).mean(dim=0)).abs() < 0.12).all()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"calls": 0}, "algo.calls=0"),
        ({"calls": 4}, "calls=3"),
        ({"components": 0}, "algo.components=0"),
        ({"draw": "some"}, "one_call"),
    ],
)
def test_what_is_refused(options, named):
    process = Absorbing(ToyWorld.make().layout, LogLinear())
    with pytest.raises(ValueError, match=named):
        Distill(ZeroBackbone(), process, **{"calls": 2, **options})


def test_components_need_a_backbone_that_has_them():
    process = Absorbing(ToyWorld.make().layout, LogLinear())
    with pytest.raises(ValueError, match=r"takes component.*set algo.components=1"):
        Distill(ExactBackbone(process), process, calls=2)
    with pytest.raises(ValueError, match="algo=distill"):
        build_sampler({"name": "few-call"}).check(MDLM(ExactBackbone(process), process))
    with pytest.raises(ValueError, match="calls=5"):
        build_sampler({"name": "few-call"}).check(student(2), steps=5)


def test_another_number_of_components_than_the_backbone_has_is_found_before_training():
    world = ToyWorld.make()
    process = Absorbing(world.layout, LogLinear())
    algorithm = Distill(TabularMixture(2), process, calls=2, components=3)
    shapes = r"shape \(4, 2, 3, 6\); expected .* \(4, 3, 3, 6\) \(samples, components, "
    with pytest.raises(ValueError, match=shapes):
        try_backbone(algorithm, Batch(world.x0[:4], world.real.expand(4, -1)))


def test_uniform_predictions_cost_log_k():
    world = ToyWorld.make()
    algorithm = student(5, scale=0.0, told=0.0)
    found = algorithm.loss(everything(world), make_generator(0), "exact").nelbo
    torch.testing.assert_close(found, torch.full_like(found, math.log(3 * 4 * 2)))
