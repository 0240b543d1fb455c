"""The denoiser of a hidden Markov model is that of its enumeration."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.evaluation.oracles import HiddenMarkov, pair_divergence
from toy_world import noise_floor, total_variation

LENGTH, V = 4, 3
EVERY = torch.tensor(list(itertools.product(range(V), repeat=LENGTH)))


def rows(*shape: int) -> Tensor:
    return torch.rand(*shape, generator=make_generator(*shape), dtype=torch.float64).softmax(-1)


def worlds(uniform: bool = False) -> list[HiddenMarkov]:
    one, two = (HiddenMarkov.chain(rows(*[V] * (k + 1)), length=LENGTH) for k in (1, 2))
    hidden = HiddenMarkov(rows(2), rows(2, 2), rows(2, V), length=LENGTH)
    for world in (one, two, hidden):
        world.uniform = uniform
    return [one, two, hidden]


def enumerated(world: HiddenMarkov, x_t: Tensor, seen: Tensor) -> Tensor:
    """log D Float[L, V] from p(x0) and the probability ``seen`` Float[L, V] of each token seen."""
    prob = world.log_prob(EVERY).exp()
    places = torch.arange(LENGTH)
    factors = seen[places, EVERY]  # (N, L)
    found = torch.zeros(LENGTH, V, dtype=torch.float64)
    for place in range(LENGTH):
        others = factors[:, places != place].prod(dim=1)
        found[place].index_add_(0, EVERY[:, place], prob * others)
    return (found / found.sum(dim=1, keepdim=True)).log()


@pytest.mark.parametrize("kind", range(3))
def test_the_denoiser_is_that_of_the_enumeration(kind):
    world = worlds()[kind]
    assert float(world.log_prob(EVERY).exp().sum()) == pytest.approx(1)
    for shown in itertools.product((False, True), repeat=LENGTH):
        x0 = EVERY[17]
        x_t = torch.where(torch.tensor(shown), x0, V)
        seen = torch.where(torch.tensor(shown).unsqueeze(1), torch.eye(V)[x0], 1.0).double()
        found = world(x_t.unsqueeze(0))[0]
        assert (found[:, V] == -torch.inf).all()
        torch.testing.assert_close(found[:, :V], enumerated(world, x_t, seen))


@pytest.mark.parametrize("kind", range(3))
def test_with_uniform_noise_every_token_is_evidence_of_all_others(kind):
    world, alpha = worlds(uniform=True)[kind], 0.3
    x_t = EVERY[40]
    seen = alpha * torch.eye(V).double()[x_t] + (1 - alpha) / V
    sigma = -torch.tensor([alpha]).double().log()
    found = world(x_t.unsqueeze(0), sigma)[0, :, :V]
    torch.testing.assert_close(found, enumerated(world, x_t, seen))


@pytest.mark.parametrize("kind", range(3))
def test_samples_have_the_probabilities(kind):
    world, num = worlds()[kind], 20_000
    drawn = world.sample(num, make_generator(0))
    law = world.log_prob(EVERY).exp()
    code = drawn @ torch.tensor([V**3, V**2, V, 1])
    share = code.bincount(minlength=len(law)) / num
    assert total_variation(share.double(), law) < noise_floor(law, num)
    pairs = law.view(V, V, V * V).sum(-1)  # a chain is stationary, so of every pair
    if kind < 2:
        assert pair_divergence(drawn, pairs) < 5e-4 < pair_divergence(drawn.flip(1), pairs)


def test_tables_that_are_no_probabilities_are_refused():
    with pytest.raises(ValueError, match="emission"):
        HiddenMarkov(rows(2), rows(2, 2), torch.ones(2, V), length=3)
    with pytest.raises(ValueError, match=r"\[S, S\]"):
        HiddenMarkov(rows(2), rows(3, 3), rows(2, V), length=3)
