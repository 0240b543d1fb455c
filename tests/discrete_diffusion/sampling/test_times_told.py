"""The time that every sampler tells the network: with sizes mixed, tokens clamped, and groups whose
noise differs, so that another time is another prediction."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from discrete_diffusion.algorithms import D3PM, MDLM, TokenAlgorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import SampleOutput
from discrete_diffusion.sampling import FirstHitting, build_sampler
from discrete_diffusion.sampling.likelihood import log_prob_of
from laws import grid, grid_law
from toy_samplers import Call, absorbing, ar, bd3lm, draw_from, record_calls
from toy_world import FULL, MASK, PADDED, ExactBackbone, ToyWorld, noise_floor, total_variation

NUM = 20_000
EVERYWHERE = torch.zeros(3, dtype=torch.long)
REAL = torch.stack([FULL, PADDED]).repeat_interleave(4, dim=0)
CLAMP = torch.tensor([[-1, -1, -1], [1, -1, -1], [-1, 2, -1], [2, 3, -1]]).repeat(2, 1)


def told(schedule: str = "per_group") -> MDLM:
    """A network that is wrong, and differently so at every t."""
    process = absorbing(schedule)
    return MDLM(ExactBackbone(process, tilt=3.0), process).eval()


def time_of_share(call: Call, blocks: Tensor = EVERYWHERE) -> Tensor:
    """Float64[R]: the t at which of the block of the first MASK as many tokens are masked as are,
    on average: a t^2 + b t = m, as the node is masked with probability t^2 and an edge with t."""
    masked = call.x_t == MASK
    block = torch.where(masked & call.real, blocks, blocks[-1]).amin(dim=1, keepdim=True)
    own = call.real & (blocks == block)
    a, b = own[:, 0].double(), own[:, 1:].sum(dim=1).double()
    m = (masked & own).sum(dim=1).double()
    return torch.where(a > 0, (-b + (b.square() + 4 * m).sqrt()) / 2, m / b.clamp(min=1))


def sample(algorithm: TokenAlgorithm, name: str, **options: object) -> SampleOutput:
    """All sizes and clamps in one batch."""
    sampler = build_sampler({"name": name, **options})
    return sampler.sample(algorithm, REAL, generator=make_generator(3), clamp=CLAMP)


BY_SHARE = {
    "confidence": {},
    "margin": {},
    "entropy": {"group_by_group": True},
    "two at once": {"name": "margin", "tokens_per_call": 2},
    "entropy-bounded": {"entropy_budget": 0.1},
}


@pytest.mark.parametrize("make", [told, lambda: bd3lm("per_group", "pairs", tilt=3.0)])
@pytest.mark.parametrize("case", BY_SHARE)
def test_the_time_is_that_of_the_masked_share_of_real_tokens(case, make: Callable):
    """Of those of the block, if there are blocks; clamped tokens count, and PAD does not."""
    algorithm, options = make(), {"name": case, **BY_SHARE[case]}
    calls = record_calls(algorithm)
    sample(algorithm, **options)
    blocks = EVERYWHERE if algorithm.blocks is None else algorithm.blocks
    assert calls
    for call in calls:
        expected = time_of_share(call, blocks)
        torch.testing.assert_close(call.t.double(), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("sampler", ["confidence", "margin"])
def test_a_model_of_steps_is_told_the_next_later_of_its_times(sampler):
    process = absorbing("per_group")
    algorithm = D3PM(ExactBackbone(process, tilt=3.0), process, num_steps=7)
    calls = record_calls(algorithm)
    sample(algorithm, sampler)
    for call in calls:
        late = call.t.double() - time_of_share(call)
        assert ((late >= -1e-6) & (late < 1 / 7 - 1e-6)).all()
        torch.testing.assert_close(call.t * 7, (call.t * 7).round())


GRIDS = {
    "ancestral": {},
    "predictor-corrector": {"corrector_steps": 1},
    "renoise": {},
    "remdm": {"strategy": "cap", "eta": 0.3},
    "rescale": {"name": "remdm", "strategy": "rescale", "eta": 0.3},
}


@pytest.mark.parametrize("real", [FULL, PADDED], ids=["full", "padded"])
@pytest.mark.parametrize("case", GRIDS)
def test_a_step_is_told_where_it_begins(case, real):
    """By the exact law of what a network that is told t draws in three steps."""
    world, algorithm, options = ToyWorld.make(real), told(), {"name": case, **GRIDS[case]}
    name = options.pop("name")
    law = grid_law(algorithm, world, grid(algorithm, 3), name, **options)
    output = draw_from(algorithm, name, NUM, real=real, steps=3, seed=4, **options)
    assert total_variation(world.distribution(output.x0), law) < noise_floor(law, NUM)


def test_each_token_is_told_its_own_time_in_descending_order():
    algorithm = told()
    calls = record_calls(algorithm)
    FirstHitting().sample(algorithm, FULL.expand(2000, -1), generator=make_generator(1))
    times = torch.stack([call.t for call in calls]).double()  # (3, B)
    assert (times.diff(dim=0) < 0).all()
    # one node at the root of a uniform number, two edges at one: the mean number still masked at t
    for t in (0.2, 0.5, 0.8):
        expected, left = t**2 + 2 * t, (times < t).sum(dim=0).double()
        assert abs(float(left.mean()) - expected) < 5 * float(left.std()) / 2000**0.5


@pytest.mark.parametrize("blocks", [None, "groups", "pairs"])
def test_known_tokens_are_scored_at_the_time_of_the_masked_share(blocks):
    """Mixed sizes; ascending, so that what is known is drawn first, by block."""
    algorithm = told() if blocks is None else bd3lm("per_group", blocks, tilt=3.0)
    tokens = torch.tensor([[1, 2, 3], [0, 1, 2], [2, 3, 5], [1, 0, 5]])
    real = torch.stack([FULL, FULL, PADDED, PADDED])
    of_blocks = EVERYWHERE if blocks is None else algorithm.blocks
    for size in (1, 2, 3):
        known = real & (torch.arange(3) < size)
        found = log_prob_of(algorithm, tokens, known, real, generator=make_generator(0)).log_prob
        state, expected = torch.where(real, MASK, tokens), torch.zeros(4, dtype=torch.float64)
        for position in range(size):
            t = time_of_share(Call(state, state, real), of_blocks)
            log_d0 = algorithm.denoise(state, t, real)[torch.arange(4), position]
            each = log_d0.gather(1, tokens[:, position : position + 1].clamp(max=4)).squeeze(1)
            expected += torch.where(known[:, position], each.double(), 0.0)
            state[:, position] = tokens[:, position]
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_an_autoregressive_network_is_told_how_many_tokens_are_real():
    """The share n / (L + 1), with a cache and without, in a batch of both sizes."""
    algorithm, shares = ar(), []
    ask = algorithm.call

    class Told:
        def __call__(self, backbone, x_t, sigma, conditions):
            shares.extend((-torch.expm1(-sigma)).tolist())
            return ask(backbone, x_t, sigma, conditions)

        def __getattr__(self, name):
            return getattr(ask, name)

    algorithm.call = Told()
    for sampler in ("autoregressive", "first-hitting"):
        shares.clear()
        build_sampler({"name": sampler}).sample(algorithm, REAL, generator=make_generator(0))
        assert {round(4 * share, 5) for share in shares} == {3.0, 2.0}
