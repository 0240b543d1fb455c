"""MELD: its bound holds for every exponent, and its gradient is that of the bound."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from discrete_diffusion.algorithms import MELD
from discrete_diffusion.algorithms.meld import run_race
from discrete_diffusion.algorithms.time_sampling import MASK_DRAWS
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.noise_schedules import Learned
from toy_world import (
    FULL,
    LENGTH,
    MASK,
    PAD,
    PADDED,
    ExactBackbone,
    ToyWorld,
    quadrature,
    toy_layout,
)

THETAS = {"equal": (0.0, 0.0, 0.0), "apart": (0.9, -0.6, 0.3), "far": (-3.0, 2.0, 5.0)}


class Forgetful(ExactBackbone):
    """Knows nothing until the first position is visible, so the order of masking matters; with
    ``timed`` it is too sure at small times and not sure enough at large ones."""

    def __init__(self, process, timed: bool = False) -> None:
        super().__init__(process)
        self.timed = timed

    def forward(self, x_t, sigma=None):
        logits = super().forward(x_t)
        known = (x_t[:, 0] != MASK).to(logits)[:, None, None]
        if self.timed:
            known = known * 4 * torch.exp(-4 * -torch.expm1(-sigma.double()))[:, None, None]
        return logits * known


BACKBONES = {
    "exact": lambda process: ExactBackbone(process),
    "forgetful": lambda process: Forgetful(process),
    "forgetful in time": lambda process: Forgetful(process, timed=True),
}


def make_meld(theta: str = "equal", backbone: str = "exact") -> MELD:
    process = Absorbing(toy_layout(), Learned(toy_layout(), exponent_per="token"))
    with torch.no_grad():
        process.schedule.theta.copy_(torch.tensor(THETAS[theta]))
        built = BACKBONES[backbone](process)
    timed = backbone == "forgetful in time"
    return MELD(built, process, time_conditioning=timed).eval()


def expected_nelbo(algorithm: MELD, world: ToyWorld) -> Tensor:
    """E f over t, x0 and every set of masked positions, differentiable in the exponents."""
    subsets = torch.cartesian_prod(*[torch.tensor([False, True])] * LENGTH)
    subsets = subsets[~(subsets & ~world.real).any(dim=1)]  # (S, 3)
    xt = torch.where(subsets[:, None], MASK, world.x0)  # (S, K, 3)
    real = world.real.expand(xt[..., 0].numel(), -1)
    exponents = algorithm.schedule.exponents()
    total = torch.zeros((), dtype=torch.float64)
    for t, weight in quadrature():
        hidden = t**exponents
        prob = torch.where(subsets, hidden, 1 - hidden)[:, world.real].prod(dim=1)  # (S,)
        log_d0 = algorithm.denoise(xt.flatten(0, 1), t.expand(len(real)), real)
        ids = world.x0.expand(len(subsets), -1, -1).reshape(-1, LENGTH, 1)
        nll = -log_d0.double().gather(-1, ids).view(xt.shape)
        f = torch.where(subsets[:, None], exponents / t * nll, 0.0).sum(dim=-1)  # (S, K)
        total = total + weight * torch.einsum("s,k,sk->", prob, world.prob, f)
    return total


def gradient_of(value: Tensor, algorithm: MELD) -> Tensor:
    return torch.autograd.grad(value, algorithm.schedule.theta)[0].double()


def drawn_gradients(algorithm: MELD, world: ToyWorld, batches: int, num: int) -> Tensor:
    """The shipped gradient of the bound, one row per batch."""
    generator, found = make_generator(5), []
    for _ in range(batches):
        x0 = world.x0[torch.multinomial(world.prob, num, True, generator=generator)]
        loss = algorithm.loss(Batch(x0, x0 != PAD), generator).loss
        found.append(gradient_of(loss * LENGTH, algorithm))
    return torch.stack(found)


@pytest.mark.parametrize("theta", THETAS)
@pytest.mark.parametrize("real", [FULL, PADDED], ids=["full", "padded"])
def test_bound_is_tight_for_every_exponent(theta, real):
    """By quadrature and in every draw, for the exact denoiser."""
    world, algorithm = ToyWorld.make(real), make_meld(theta)
    if theta != "far":  # where the quadrature over t would need more nodes
        assert expected_nelbo(algorithm, world).item() == pytest.approx(world.entropy, abs=1e-3)
    generator, num = make_generator(1), 20_000
    x0 = world.x0[torch.multinomial(world.prob, num, True, generator=generator)]
    for draw in (None, *MASK_DRAWS):
        output = algorithm.loss(Batch(x0, x0 != PAD), generator, draw)
        assert output.loss.item() == pytest.approx(output.nelbo.mean().item() / LENGTH, rel=1e-5)
        nelbo = output.nelbo.double()
        # plain draws of t have infinite variance, so their error estimate is itself too small
        limit = (4.5 if draw in (None, "uniform_count") else 8) / math.sqrt(num)
        assert abs(nelbo.mean() - world.entropy) < limit * nelbo.std()


@pytest.mark.parametrize("theta", ["equal", "apart"])
@pytest.mark.parametrize("backbone", BACKBONES)
def test_the_gradient_is_unbiased(theta, backbone):
    """The mean of 40 batches is within 4.5 standard errors of the exact gradient, which is 0 for
    the exact denoiser and 6 standard errors from 0 for the others."""
    world, algorithm = ToyWorld.make(), make_meld(theta, backbone)
    true = gradient_of(expected_nelbo(algorithm, world), algorithm)
    found = drawn_gradients(algorithm, world, batches=40, num=2048)
    error = found.std(dim=0) / math.sqrt(len(found))
    assert ((found.mean(dim=0) - true).abs() < 4.5 * error).all()
    if backbone == "exact":
        torch.testing.assert_close(true, torch.zeros(3).double(), rtol=0, atol=1e-4)
    else:
        assert true.abs().max() > 6 * error.max()


def test_the_race_has_the_law_of_its_exponents():
    """Which position is revealed first, its probability, and the time of the next reveal."""
    num, exponents = 60_000, torch.tensor([2.0, 0.5, 1.0]).double()
    real = torch.ones(num, 3, dtype=torch.bool)
    race = run_race(exponents, MASK, Batch(torch.zeros(num, 3).long(), real), make_generator(3))
    hidden = race.xt == MASK
    count = hidden.sum(dim=1)
    assert torch.bincount(count).tolist() == [0, num // 3, num // 3, num // 3]
    seen = ~hidden[count == 2]
    share = seen.double().mean(dim=0)
    error = (share * (1 - share) / len(seen)).sqrt()
    first = exponents / exponents.sum()
    assert ((share - first).abs() < 4.5 * error).all()
    torch.testing.assert_close(race.log_prob[count == 2], (seen * first).sum(1).log())
    assert (race.log_prob[count == 3] == 0).all()
    rate = -race.t[count == 3].log() * exponents.sum()  # the first arrival, exponential
    assert abs(rate.mean() - 1) < 4.5 / math.sqrt(len(rate))
    torch.testing.assert_close(race.weight.sum(dim=1), torch.full((num,), 3.0).double())


def test_padding_takes_no_part_in_the_race():
    x0 = torch.tensor([[0, 1, PAD]]).expand(200, -1)
    exponents = torch.tensor([1.0, 1.0, 50.0]).double()
    race = run_race(exponents, MASK, Batch(x0, x0 != PAD), make_generator(0))
    assert (race.xt[:, 2] == PAD).all()
    assert (race.weight[:, 2] == 0).all()
    assert torch.isfinite(race.log_prob).all()
    torch.testing.assert_close(race.weight.sum(dim=1), torch.full((200,), 2.0).double())


def test_statistics_name_the_spread():
    found = make_meld("apart").statistics()
    assert make_meld("equal").statistics()["alpha_spread_at_half"] == 0.0
    w = make_meld("apart").schedule.exponents().detach()
    assert found == {
        "alpha_spread_at_half": pytest.approx(float(0.5 ** w.min() - 0.5 ** w.max())),
        "exponent_min_node": pytest.approx(float(w[0])),
        "exponent_max_node": pytest.approx(float(w[0])),
        "exponent_min_edge": pytest.approx(float(w[1])),
        "exponent_max_edge": pytest.approx(float(w[2])),
    }
