"""Speculative sampling: the law of one token per call for any network, and what a round costs."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms import MDLM, TokenAlgorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import SampleOutput
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling import build_sampler
from discrete_diffusion.sampling.partial_samples import time_of_masked_share
from laws import grid, grid_law, order_law
from toy_samplers import CODE, EVERY_STATE, absorbing, draw_from, record_calls
from toy_world import FULL, LENGTH, MASK, PADDED, VOCAB_SIZE, ToyWorld, noise_floor, total_variation

NUM, MANY = 20_000, 50_000
EVERY_K = pytest.mark.parametrize("k", [1, 2, 3, None])
REAL = pytest.mark.parametrize("real", [FULL, PADDED], ids=["full", "padded"])


class RandomBackbone(nn.Module):
    """Random logits for every state: no joint distribution has these conditionals."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        shape = (len(EVERY_STATE), LENGTH, VOCAB_SIZE)
        self.table = 2 * torch.randn(shape, generator=make_generator(seed), dtype=torch.float64)

    def forward(self, x_t: Tensor, sigma: Tensor | None = None) -> Tensor:
        return self.table[(x_t * CODE).sum(-1)]


def wrong(schedule: str = "log_linear") -> MDLM:
    return MDLM(RandomBackbone(), absorbing(schedule))


def one_by_one(algorithm: TokenAlgorithm, world: ToyWorld) -> Tensor:
    """Float64[K]: the mean over orders of prod_j D_{l_j}(x_{l_j} | x_{l_1}, ..., x_{l_{j-1}}), at
    the time of the masked share."""
    law = torch.zeros_like(world.prob)
    real, orders = world.real.expand(len(world.x0), -1), 0
    for order in itertools.permutations(world.real.nonzero().flatten().tolist()):
        state = torch.where(real, MASK, world.x0)
        chance = torch.ones_like(world.prob)
        for position in order:
            t = time_of_masked_share(algorithm, state == MASK, real)
            d0 = algorithm.denoise(state, t, real)[:, position].double().exp()
            chance *= d0.gather(1, world.x0[:, position : position + 1]).squeeze(1)
            state[:, position] = world.x0[:, position]
        law, orders = law + chance, orders + 1
    return law / orders


def check(output: SampleOutput, world: ToyWorld, law: Tensor) -> None:
    share = world.distribution(output.x0)
    assert total_variation(share, law) < noise_floor(law, len(output.x0))


def rounds_of(output: SampleOutput) -> Tensor:
    """Int[B]: in how many frames each sample changes."""
    assert output.trajectory is not None
    return (output.trajectory[1:] != output.trajectory[:-1]).any(dim=2).sum(dim=0)


@EVERY_K
def test_it_reproduces_the_joint(k):
    world = ToyWorld.make()
    output = draw_from("mdlm", "speculative", MANY, draft_length=k)
    check(output, world, world.prob)
    assert (output.log_weights == 0).all()


@EVERY_K
@REAL
def test_a_network_of_no_joint_is_followed_token_by_token(k, real):
    """Whatever is proposed, and though most of it is refused."""
    world, algorithm = ToyWorld.make(real), wrong()
    law = order_law(algorithm, world, "random")
    torch.testing.assert_close(law, one_by_one(algorithm, world), rtol=0, atol=1e-7)
    assert total_variation(law, order_law(algorithm, world, "random", 2)) > 0.1
    output = draw_from(algorithm, "speculative", MANY, real=real, draft_length=k)
    check(output, world, law)


@pytest.mark.slow
def test_the_order_is_that_of_the_unmask_times():
    """With a schedule per group it is not uniform, which a network of no joint shows."""
    world, algorithm = ToyWorld.make(), wrong("per_group")
    limit = grid_law(algorithm, world, grid(algorithm, 400), "ancestral")
    assert total_variation(limit, one_by_one(algorithm, world)) > 0.02
    for sampler in ("speculative", "first-hitting"):
        output = draw_from(algorithm, sampler, MANY)
        share = world.distribution(output.x0)
        assert total_variation(share, limit) < noise_floor(limit, MANY) + 2e-3


@EVERY_K
def test_what_a_sample_costs(k, each_by_itself):
    """At most as many rounds as tokens, and as many evaluations as it was shown states, each of
    them one that still has a token to draw."""
    algorithm = wrong()
    calls = record_calls(algorithm)
    output = draw_from(algorithm, "speculative", 500, draft_length=k, keep_trajectory=True)
    rounds = rounds_of(output)
    assert len(calls) == int(rounds.max()) == len(output.trajectory) - 1
    assert (rounds <= LENGTH).all()
    assert (output.nfe >= LENGTH).all()
    assert sum(len(call.x_t) for call in calls) == output.nfe.sum()
    assert all((call.x_t == MASK).any(dim=1).all() for call in calls)
    if k == 1:
        assert (rounds == LENGTH).all()
        assert (output.nfe == LENGTH).all()
    else:
        assert rounds.unique().tolist() == [2, 3]  # some proposals are kept, and some are not
    if k is None:  # 1 for the first token, 2 for the two after it, 1 more if one was refused
        assert torch.equal(output.nfe, torch.where(rounds == 2, 3, 4))


K, L = 5, 9


class LoneTokens(nn.Module):
    """Tokens that know nothing of each other."""

    def forward(self, x_t: Tensor, sigma: Tensor | None = None) -> Tensor:
        logits = torch.arange(K).double().sin() * torch.arange(L).unsqueeze(1)
        return nn.functional.pad(logits, (0, 2)).expand(len(x_t), -1, -1)


class CountedTokens(nn.Module):
    """Every token is the number of those that are visible, modulo K: never what was said before."""

    def forward(self, x_t: Tensor, sigma: Tensor | None = None) -> Tensor:
        count = (x_t != K).sum(dim=1) % K
        return 100 * nn.functional.one_hot(count, K + 2).double()[:, None].expand(-1, L, -1)


def drawn(backbone: nn.Module, k: int | None) -> SampleOutput:
    algorithm = MDLM(
        backbone, Absorbing(TokenLayout.flat(L, K + 2, mask_id=K, pad_id=K + 1), LogLinear())
    )
    return build_sampler({"name": "speculative", "draft_length": k}).sample(
        algorithm,
        torch.ones(60, L, dtype=torch.bool),
        generator=make_generator(0),
        keep_trajectory=True,
    )


@pytest.mark.parametrize(("k", "rounds"), [(1, 9), (2, 5), (3, 4), (8, 2), (20, 2), (None, 2)])
def test_independent_tokens_are_never_refused(k, rounds):
    """One, and then k in every round, at one evaluation each."""
    output = drawn(LoneTokens(), k)
    assert (rounds_of(output) == rounds).all()
    assert (output.nfe == L).all()


@pytest.mark.parametrize("k", [1, 2, 3, None])
def test_where_every_proposal_is_refused_a_round_draws_one_token(k):
    output = drawn(CountedTokens(), k)
    assert (rounds_of(output) == L).all()
    asked = 1 + sum(min(k or L, left) for left in range(1, L))
    assert (output.nfe == asked).all()
    assert (output.x0.sort(dim=1).values == torch.tensor([0, 0, 1, 1, 2, 2, 3, 3, 4])).all()


def test_a_call_shows_the_proposals_one_after_the_other():
    algorithm = wrong()
    calls = record_calls(algorithm)
    draw_from(algorithm, "speculative", 40, draft_length=None)
    first, second = calls[:2]
    assert (first.x_t == MASK).all()
    shown = second.x_t.view(40, LENGTH - 1, LENGTH)
    hidden = shown == MASK
    assert (hidden.sum(dim=2) == torch.tensor([2, 1])).all()
    assert (hidden[:, 0] | ~hidden[:, 1]).all()
    visible = ~hidden[:, 0]
    assert torch.equal(shown[:, 0][visible], shown[:, 1][visible])
