"""The exact checks, the same for every algorithm: normalised, tight, unbiased, legal."""

from __future__ import annotations

import math
from functools import cache

import pytest
import torch
from torch import Tensor

from discrete_diffusion.algorithms import D3PM, MDLM, TokenAlgorithm, general_bound
from discrete_diffusion.algorithms.time_sampling import MASK_DRAWS, WEIGHTED_DRAWS
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from discrete_diffusion.noise_schedules import PerGroup
from toy_algorithms import TOYS, ZeroBackbone, leave_one_out
from toy_world import (
    FULL,
    LENGTH,
    MASK,
    PADDED,
    ExactBackbone,
    ToyWorld,
    all_schedules,
    quadrature,
    toy_layout,
)

TWO_SCHEDULES = [
    (name, how)
    for k, name in enumerate(TOYS)
    for how in ("per_group", ("log_linear", "cosine", "linear")[k % 3])
]
"""A time per token, and one for all tokens, by three schedules in turn."""
CONTINUOUS = [name for name, toy in TOYS.items() if not toy.steps]


def schedule(name: str):
    return all_schedules(toy_layout())[name]


def draws_of(algorithm: TokenAlgorithm) -> tuple[str, ...]:
    """Those whose variance is finite enough to be tested by their mean."""
    if algorithm.process.name == "hybrid":  # grows like t^(-3/2) under a plain draw
        return ("importance",)
    return MASK_DRAWS if algorithm.evaluation_draw == "uniform_count" else WEIGHTED_DRAWS


def integrate(world: ToyWorld, algorithm: TokenAlgorithm) -> float:
    """The NELBO by quadrature over t and enumeration of x0 and xt."""
    process = algorithm.process
    predict = algorithm.log_prediction
    xt = world.states(process)
    x0, every, real = pairs(world, xt)
    total = 0.0
    for t, weight in quadrature():
        mass = (world.log_q(process, xt, t).sum(-1).exp() * world.prob).T.flatten()  # x0 first
        predicted = predict(xt, t.expand(len(xt)), real[: len(xt)]).double()
        predicted = predicted.repeat(len(world.x0), 1, 1)
        value = general_bound(process, every, x0, predicted, t.expand(len(every)), real).sum(dim=1)
        total += float(weight * (mass * value)[mass > 0].sum())
    return total


def pairs(world: ToyWorld, xt: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """x0, xt and which positions are real for every pair of them, x0 outermost: (K S, 3) each."""
    x0 = world.x0.repeat_interleave(len(xt), dim=0)
    return x0, xt.repeat(len(world.x0), 1), world.real.expand(len(x0), -1)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_the_bound_is_tight_and_a_wrong_denoiser_pays(name):
    """NELBO = H with the exact denoiser, with PAD too; more with one that is wrong."""
    toy, full, padded = TOYS[name], ToyWorld.make(), ToyWorld.make(PADDED)
    exact = toy.exact(schedule("per_group"))
    assert integrate(full, exact) == pytest.approx(full.entropy, abs=1e-3)
    assert integrate(padded, exact) == pytest.approx(padded.entropy, abs=1e-3)
    assert integrate(full, toy.exact(schedule("cosine"), tilt=2.0)) > full.entropy + 0.01


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, toy in TOYS.items() if toy.steps])
def test_the_bound_of_t_steps_falls_to_the_entropy(name):
    """Like 1 / T; slower where noise rises like t^(1/2)."""
    entropy = ToyWorld.make().entropy
    above = [bound_of_steps(name, "cosine", FULL, steps) - entropy for steps in (1, 4, 16, 64)]
    assert above == sorted(above, reverse=True)
    assert above[-1] > 0
    if name != "d3pm-hybrid":
        assert above[-1] / above[-2] == pytest.approx(0.25, abs=0.06)


@cache
def bound_of_steps(name: str, how: str, pattern: Tensor, steps: int) -> float:
    """sum over steps of the shipped terms, by enumeration; ``pattern``: FULL or PADDED."""
    world, algorithm = ToyWorld.make(pattern), TOYS[name].exact(schedule(how))
    xt = world.states(algorithm.process)
    x0, every, real = pairs(world, xt)
    total = 0.0
    for i in range(1, steps + 1):
        t = torch.tensor([i / steps], dtype=torch.float64)
        mass = (world.log_q(algorithm.process, xt, t).sum(-1).exp() * world.prob).T.flatten()
        log_d0 = algorithm.denoise(xt, t.expand(len(xt)), real[: len(xt)])
        log_d0, at_t = log_d0.repeat(len(world.x0), 1, 1), t.expand(len(every))
        terms = algorithm.step_terms(every, x0, log_d0, at_t, at_t - 1 / steps)
        terms = terms.masked_fill(~real, 0.0).sum(dim=1)
        possible = mass > 1e-200
        total += float((mass * terms)[possible].sum())
    return total


@pytest.mark.parametrize(
    ("name", "how", "num"),
    [
        *((*case, 60 if "matrix" in case[0] else 250) for case in TWO_SCHEDULES),
    ],
)
def test_the_shipped_loss_agrees(name, how, num):
    """Every way of drawing t has the same mean, within 4.5 standard errors: H, or H of T steps."""
    algorithm = TOYS[name].exact(schedule(how))
    worlds = [ToyWorld.make(FULL), ToyWorld.make(PADDED)]
    expected = sum(world.entropy for world in worlds) / 2
    if isinstance(algorithm, D3PM):
        steps = algorithm.num_steps
        expected = sum(bound_of_steps(name, how, real, steps) for real in (FULL, PADDED)) / 2
    for draw in draws_of(algorithm):
        generator, means = make_generator(11), []
        for _ in range(12):
            rows = [w.x0[torch.multinomial(w.prob, num, True, generator=generator)] for w in worlds]
            x0 = torch.cat(rows)[torch.randperm(2 * num, generator=generator)]
            batch = Batch(x0, algorithm.layout.is_real(x0))
            means.append(algorithm.loss(batch, generator, draw).nelbo.double().mean())
        error = torch.stack(means).std().item() / math.sqrt(len(means))
        slack = 4.5 if draw in ("uniform_count", "importance") else 6  # infinite variance otherwise
        assert abs(torch.stack(means).mean().item() - expected) < slack * error + 1e-4, draw


@pytest.mark.parametrize("name", [name for name in TOYS if not name.endswith("posterior")])
def test_zero_logits_cost_the_log_of_the_legal_ids(name):
    """At initialisation n rooms cost n log 13 + n(n-1)/2 log 11 in expectation, for every process
    and number of steps."""
    num = 80 if "matrix" in name else 300
    vocab = RPLAN_VOCAB_CONFIG
    layout = vocab.layout()
    noise = PerGroup(layout, exponents={"node": 2.0, "edge": 1.0})
    algorithm = TOYS[name].make(noise, ZeroBackbone(28), layout)
    for n in (4, 8):
        real = vocab.real_positions(torch.full((num,), n))
        legal = torch.multinomial(
            layout.support.float(), num, True, generator=make_generator(1)
        ).T.contiguous()
        x0 = torch.where(real, legal, vocab.pad_id)
        nelbo = algorithm.loss(Batch(x0, real), make_generator(2)).nelbo.double()
        expected = n * math.log(13) + n * (n - 1) / 2 * math.log(11)
        assert abs(nelbo.mean() - expected) < 4.5 * nelbo.std() / math.sqrt(num) + 1e-3
    assert expected == pytest.approx(87.66, abs=0.01)


@pytest.mark.parametrize("name", list(TOYS))
def test_distributions_are_normalised_and_legal(name):
    """log_prob_x0 is the exact ordinary posterior; steps never leave the alphabet or touch PAD."""
    algorithm = TOYS[name].exact(schedule("cosine"))
    for world in (ToyWorld.make(FULL), ToyWorld.make(PADDED)):
        xt = world.states(algorithm.process)
        real = world.real.expand(len(xt), -1)
        t = torch.full((len(xt),), 0.6, dtype=torch.float64)
        p = algorithm.log_prob_x0(xt, t, real).double().exp()
        torch.testing.assert_close(p.sum(-1), torch.ones(len(xt), LENGTH).double())
        assert (p[:, ~algorithm.layout.support] == 0).all()
        exact = leave_one_out(algorithm.process, xt, t, real, posterior=True).exp()
        torch.testing.assert_close(p[real], exact[real], rtol=0, atol=1e-7)
        step = algorithm.log_prob_step(xt, t, t / 2, real).double().exp()
        torch.testing.assert_close(step.sum(-1), torch.ones(len(xt), LENGTH).double())
        kept = step.gather(-1, xt.unsqueeze(-1)).squeeze(-1)
        assert (kept[~real] == 1).all()


# -- the time that a network is told ---------------------------------------------------------------


PER_GROUP = all_schedules(toy_layout())["per_group"]
EXPONENT = torch.tensor([2.0, 1.0, 1.0], dtype=torch.float64)
"""1 - alpha = t^w: of the node and of both edges."""


def mixed() -> Batch:
    """Samples of both sizes."""
    worlds = [ToyWorld.make(FULL), ToyWorld.make(PADDED)]
    real = torch.cat([world.real.expand(len(world.x0), -1) for world in worlds])
    return Batch(torch.cat([world.x0 for world in worlds]), real)


def asked(algorithm: TokenAlgorithm) -> list[tuple[Tensor, Tensor, Tensor]]:
    """What the network is asked from now on, and what it says: x_t, t, log D."""
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    answer = algorithm.denoise

    def denoise(x_t: Tensor, t: Tensor, real: Tensor, conditions=None) -> Tensor:
        found.append((x_t, t, answer(x_t, t, real, conditions)))
        return found[-1][2]

    algorithm.denoise = denoise  # type: ignore[method-assign]
    return found


def told(kind: type[TokenAlgorithm], backbone: type = ExactBackbone, **options) -> TokenAlgorithm:
    process = Absorbing(toy_layout(), PER_GROUP)
    return kind(backbone(process, tilt=3.0), process, **options)


@pytest.mark.parametrize("draw", ["low_discrepancy"])
def test_masked_diffusion_is_told_the_time_that_weighs_its_terms(draw):
    """w_l / t for each MASK of position l."""
    algorithm, batch = told(MDLM), mixed()
    found = asked(algorithm)
    nelbo = algorithm.loss(batch, make_generator(0), draw).nelbo
    ((x_t, t, log_d0),) = found
    weight = (x_t == MASK) * EXPONENT / t.unsqueeze(1)
    expected = (weight * algorithm.cross_entropy(log_d0, batch)).sum(dim=1)
    torch.testing.assert_close(nelbo, expected.float(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["gidd", "matrix-gaussian", "sedd-uniform"])
def test_other_noise_is_told_the_time_of_its_bound(name):
    algorithm, batch = TOYS[name].exact(PER_GROUP, tilt=2.0), mixed()
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    answer = algorithm.log_prediction

    def log_prediction(x_t: Tensor, t: Tensor, real: Tensor, conditions=None) -> Tensor:
        found.append((x_t, t, answer(x_t, t, real, conditions)))
        return found[-1][2]

    algorithm.log_prediction = log_prediction  # type: ignore[method-assign]
    nelbo = algorithm.loss(batch, make_generator(0), "uniform").nelbo
    ((x_t, t, log_d0),) = found
    bound = general_bound(algorithm.process, x_t, batch.x0, log_d0, t, batch.real)
    torch.testing.assert_close(nelbo, bound.sum(dim=1).float(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["d3pm-absorbing", "d3pm-uniform"])
def test_a_model_of_steps_is_told_where_its_step_begins(name):
    """T times the term of the step from t to t - 1 / T."""
    algorithm, batch = TOYS[name].exact(PER_GROUP, tilt=2.0), mixed()
    found, num = asked(algorithm), algorithm.num_steps
    nelbo = algorithm.loss(batch, make_generator(0), "uniform").nelbo
    ((x_t, t, log_d0),) = found
    terms = algorithm.step_terms(x_t, batch.x0, log_d0, t, t - 1 / num)
    expected = num * terms.masked_fill(~batch.real, 0.0).sum(dim=1)
    torch.testing.assert_close(nelbo, expected.float(), rtol=1e-4, atol=1e-5)
