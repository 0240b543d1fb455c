"""Tokens that are held: exact conditionals, and never hidden again."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from discrete_diffusion.algorithms import AR, MDLM, TokenAlgorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling import build_sampler
from laws import GridLaw, grid
from toy_samplers import CASES, draw_from, exact, record_calls, takes_steps
from toy_world import (
    FULL,
    LEGAL,
    LENGTH,
    MASK,
    PAD,
    PADDED,
    VOCAB_SIZE,
    ExactBackbone,
    ExactCausalBackbone,
    ToyWorld,
    all_tokens,
    noise_floor,
    total_variation,
)

NUM = 8_000
EXACT = {
    "first-hitting": {},
    "margin": {},
    "entropy": {},
    "entropy-bounded": {"entropy_budget": 0.0, "order": "random"},
}
SUBSETS = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]


def held_at(positions: tuple[int, ...], world: ToyWorld) -> torch.Tensor:
    """Int[3]: the rarest sequence's tokens there: clamping must not follow the prior."""
    clamp = torch.full((LENGTH,), -1)
    clamp[list(positions)] = world.x0[world.prob.argmin()][list(positions)]
    return clamp


def conditional_on(clamp: torch.Tensor, world: ToyWorld) -> torch.Tensor:
    match = ((world.x0 == clamp) | (clamp < 0)).all(dim=1)
    law = torch.where(match, world.prob, 0.0)
    return law / law.sum()


@pytest.mark.parametrize("positions", SUBSETS)
@pytest.mark.parametrize("schedule", ["log_linear", "per_group"])
@pytest.mark.parametrize("sampler", list(EXACT))
def test_clamping_gives_the_exact_conditional(sampler, schedule, positions):
    world = ToyWorld.make()
    clamp = held_at(positions, world)
    output = draw_from(exact("mdlm", schedule), sampler, NUM, clamp=clamp, **EXACT[sampler])
    conditional = conditional_on(clamp, world)
    share = world.distribution(output.x0)
    assert total_variation(share, conditional) < noise_floor(conditional, NUM)
    assert (output.nfe == LENGTH - len(positions)).all()


def test_clamping_is_exact_with_padding_too():
    world = ToyWorld.make(PADDED)
    clamp = torch.tensor([2, -1, -1])
    for sampler, options in EXACT.items():
        output = draw_from("mdlm", sampler, NUM, real=PADDED, clamp=clamp, **options)
        conditional = conditional_on(clamp, world)
        share = world.distribution(output.x0)
        assert total_variation(share, conditional) < noise_floor(conditional, NUM)


@pytest.mark.parametrize("sampler", list(EXACT))
def test_every_sample_may_hold_its_own(sampler):
    world, clamps = ToyWorld.make(), torch.tensor([[1, -1, -1], [-1, 2, 3], [-1, -1, -1]])
    output = build_sampler({"name": sampler, **EXACT[sampler]}).sample(
        exact("mdlm"),
        FULL.expand(3 * NUM, -1),
        generator=make_generator(2),
        clamp=clamps.repeat(NUM, 1),
    )
    for k, clamp in enumerate(clamps):
        conditional = conditional_on(clamp, world)
        share = world.distribution(output.x0[k::3])
        assert total_variation(share, conditional) < noise_floor(conditional, NUM)


@pytest.mark.parametrize("sampler", ["ancestral", "predictor-corrector", "renoise"])
@pytest.mark.parametrize("positions", [(0,), (1, 2)])
def test_grid_samplers_near_the_conditional(sampler, positions):
    """For absorbing noise as the steps grow, by enumeration."""
    world, algorithm = ToyWorld.make(), exact("mdlm")
    clamp = held_at(positions, world)
    gaps = []
    for steps in (8, 64):
        law = GridLaw(algorithm, world, free=clamp < 0, held=clamp)
        times = grid(algorithm, steps)
        for t, s in itertools.pairwise(times):
            law.move(law.renoise(t, s) if sampler == "renoise" else law.ancestral(t, s))
            if sampler == "predictor-corrector" and s > 0:
                law.move(law.noising(s, t))
                law.move(law.ancestral(t, s))
        gaps.append(total_variation(law.clean(), conditional_on(clamp, world)))
        if steps == 8:
            output = draw_from(algorithm, sampler, NUM, clamp=clamp, steps=steps)
            share = world.distribution(output.x0)
            assert total_variation(share, law.clean()) < noise_floor(law.clean(), NUM)
    assert gaps[1] < gaps[0] or gaps[0] < 1e-12  # one free token leaves nothing to get wrong
    assert gaps[1] < 0.02


@pytest.mark.parametrize(("name", "sampler"), CASES)
def test_held_tokens_stay_in_every_frame(name, sampler):
    """From the noise on: no sampler hides or redraws them, however often it revises others."""
    steps = {"steps": 8} if takes_steps(name, sampler) else {}
    options = {"strategy": "rescale", "eta": 1.0} if sampler == "remdm" else {}
    for real, held in ((FULL, [1, -1, 3]), (FULL, [-1, 0, -1]), (PADDED, [-1, 2, -1])):
        clamp = torch.tensor(held)
        output = draw_from(
            name, sampler, 200, real=real, clamp=clamp, keep_trajectory=True, **steps, **options
        )
        fixed = clamp >= 0
        assert len(output.trajectory) > 1
        assert (output.trajectory[:, :, fixed] == clamp[fixed]).all()
        assert torch.equal(output.trajectory[-1], output.x0)


# -- positions that are given ----------------------------------------------------------------------


WORLD = ToyWorld.make()
BEHIND = torch.tensor([False, True, True])
EACH = 6000


class ExactBehindGiven(nn.Module):
    """Next-token distributions of a causal network that reads [x0, MASK, x1]."""

    causal = True

    def __init__(self, process: Absorbing) -> None:
        super().__init__()
        self.whole = ExactBackbone(process)

    new_cache = ExactCausalBackbone.new_cache

    def forward(self, x_t, sigma=None, cache=None):
        num_new = x_t.shape[1]
        x_t = x_t if cache is None else all_tokens(cache, x_t)
        masked = torch.full((len(x_t), LENGTH), MASK)
        after_given = torch.cat([x_t[:, :1], masked[:, 1:]], dim=1)
        seen = [masked, after_given]
        if x_t.shape[1] == LENGTH:
            seen.append(torch.cat([x_t[:, :1], x_t[:, 2:], masked[:, :1]], dim=1))
        columns = range(x_t.shape[1])
        logits = torch.stack([self.whole(seen[k])[:, k] for k in columns], dim=1)
        return logits[:, -num_new:]


def built(kind: type[TokenAlgorithm], backbone: type[nn.Module]) -> TokenAlgorithm:
    layout = TokenLayout(WORLD.layout.support, mask_id=MASK, pad_id=PAD, num_given=1)
    process = Absorbing(layout, LogLinear())
    return kind(backbone(process), process).eval()


def conditional(first: int) -> torch.Tensor:
    law = torch.where(WORLD.x0[:, 0] == first, WORLD.prob, 0.0)
    return law / law.sum()


def exact_cost() -> torch.Tensor:
    """Float64[K]: -log p(x1, x2 | x0) of every clean sequence."""
    first = torch.zeros(VOCAB_SIZE, dtype=torch.float64).index_add(0, WORLD.x0[:, 0], WORLD.prob)
    return -(WORLD.prob / first[WORLD.x0[:, 0]]).log()


@pytest.mark.parametrize("sampler", ["first-hitting", "margin", "entropy"])
def test_mdlm_draws_the_exact_conditional(sampler):
    check_draws(built(MDLM, ExactBackbone), sampler)


@pytest.mark.parametrize("sampler", ["autoregressive", "first-hitting"])
def test_ar_draws_the_exact_conditional(sampler):
    check_draws(built(AR, ExactBehindGiven), sampler)


def check_draws(algorithm: TokenAlgorithm, sampler: str) -> None:
    calls = record_calls(algorithm)
    first = torch.tensor(LEGAL[0]).repeat_interleave(EACH)
    clamp = torch.full((len(first), LENGTH), -1)
    clamp[:, 0] = first
    output = build_sampler({"name": sampler}).sample(
        algorithm,
        BEHIND.expand(len(first), -1),
        clamp=clamp,
        generator=make_generator(0),
    )
    assert torch.equal(output.x0[:, 0], first)
    for value in LEGAL[0]:
        law = conditional(value)
        share = WORLD.distribution(output.x0[first == value])
        assert total_variation(share, law) < noise_floor(law, EACH)
    if sampler != "autoregressive":  # whose cache asks the network itself
        assert torch.equal(calls[0].x_t[:, 0], first)
    if sampler in ("margin", "entropy"):
        assert (calls[0].t == 1).all()  # all there is to draw is masked


def test_the_bound_is_the_conditional_entropy():
    """An exact D masks and predicts in any order: every pair's mean is -log p(x1, x2 | x0)."""
    algorithm, copies = built(MDLM, ExactBackbone), 800
    x0 = WORLD.x0.repeat(copies, 1)
    output = algorithm.loss(Batch(x0, BEHIND.expand(len(x0), -1)), make_generator(1))
    nelbo = output.nelbo.double().reshape(copies, -1)
    assert (output.num_real == 2).all()
    error = nelbo.std(dim=0) / copies**0.5
    assert ((nelbo.mean(dim=0) - exact_cost()).abs() < 4.5 * error).all()
    entropy = float((WORLD.prob * exact_cost()).sum())
    mean_error = float((WORLD.prob * error).square().sum().sqrt())
    assert abs(float((WORLD.prob * nelbo.mean(dim=0)).sum()) - entropy) < 4 * mean_error
    assert entropy < WORLD.entropy - 0.5  # what is given is not paid for


def test_the_likelihood_of_ar_is_that_behind_what_is_given():
    algorithm = built(AR, ExactBehindGiven)
    batch = Batch(WORLD.x0, BEHIND.expand(len(WORLD.x0), -1))
    nelbo = algorithm.loss(batch, make_generator(0)).nelbo.double()
    torch.testing.assert_close(nelbo, exact_cost(), rtol=1e-5, atol=1e-5)


def test_only_what_is_given_may_be_held_where_nothing_is_real():
    algorithm = built(MDLM, ExactBackbone)
    real = torch.tensor([[False, True, False]])
    for held, message in (
        ([-1, -1, 2], "clamp holds id 2 at sample 0, position 2"),
        ([PAD, -1, -1], "clamp holds id 5 at sample 0, position 0"),
    ):
        with pytest.raises(ValueError, match=message):
            build_sampler({"name": "first-hitting"}).sample(
                algorithm, real, clamp=torch.tensor([held]), generator=make_generator(0)
            )
