"""MATHS checks 1, 4, 5 and 6 for MDLM: the bound is a bound, tight, and drawn without bias."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from discrete_diffusion.algorithms import MDLM, build_algorithm, general_bound
from discrete_diffusion.algorithms.time_sampling import MASK_DRAWS, sample_masks
from discrete_diffusion.algorithms.token_algorithm import SamplingOptions
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.cli import compose
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from discrete_diffusion.noise_schedules import LogLinear
from toy_world import (
    FULL,
    LENGTH,
    MASK,
    PADDED,
    VOCAB_SIZE,
    ExactBackbone,
    ToyWorld,
    all_schedules,
    quadrature,
    toy_layout,
    uniform_process,
)

SCHEDULES = list(all_schedules(toy_layout()))


class ZeroBackbone(nn.Module):
    def __init__(self, vocab_size: int = VOCAB_SIZE) -> None:
        super().__init__()
        self.vocab_size = vocab_size

    def forward(self, x_t, sigma=None):
        return torch.zeros(*x_t.shape, self.vocab_size)


def absorbing(name: str) -> Absorbing:
    layout = toy_layout()
    return Absorbing(layout, all_schedules(layout)[name])


def exact_mdlm(name: str, tilt: float = 0.0, **options) -> MDLM:
    process = absorbing(name)
    return MDLM(ExactBackbone(process, tilt), process, **options).eval()


def integrate(world: ToyWorld, process, integrand) -> float:
    """E over t, x0 and xt of integrand(xt, x0, t) -> Float[S], by quadrature and enumeration."""
    xt, total = world.states(process), 0.0
    x0 = world.x0.repeat_interleave(len(xt), dim=0)
    every = xt.repeat(len(world.x0), 1)
    for t, weight in quadrature():
        mass = (world.log_q(process, xt, t).sum(-1).exp() * world.prob).T.flatten()  # x0 first
        value = integrand(every, x0, t.expand(len(every)))
        total += float(weight * (mass * value)[mass > 0].sum())
    return total


def closed_form(process: Absorbing, xt, x0, log_d0, t, real):
    masked = (xt == MASK) & real
    nll = -log_d0.gather(-1, x0.unsqueeze(-1)).squeeze(-1)
    return torch.where(masked, process.weight(t) * nll, 0.0).sum(1)


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("real", [FULL, PADDED], ids=["full", "padded"])
def test_bound_is_tight_with_the_exact_denoiser(name, real):
    """NELBO = H to 1e-3 by quadrature, in the closed form and in the general one."""
    world, process = ToyWorld.make(real), absorbing(name)
    log_d0 = world.log_d0(process, world.states(process), torch.tensor([0.5]).double())
    log_d0 = log_d0.repeat(len(world.x0), 1, 1)

    def closed(xt, x0, t):
        return closed_form(process, xt, x0, log_d0, t, world.real)

    def general(xt, x0, t):
        real = world.real.expand(len(xt), -1)
        return general_bound(process, xt, x0, log_d0, t, real).sum(1)

    assert integrate(world, process, closed) == pytest.approx(world.entropy, abs=1e-3)
    assert integrate(world, process, general) == pytest.approx(world.entropy, abs=1e-3)


def test_closed_form_equals_the_general_bound_pointwise():
    """For a denoiser that is wrong, state by state and time by time."""
    for name in SCHEDULES:
        world, algorithm = ToyWorld.make(), exact_mdlm(name, tilt=2.0)
        process = algorithm.process
        xt = world.states(process)
        real = world.real.expand(len(xt), -1)
        for time in (0.02, 0.4, 0.9):
            t = torch.full((len(xt),), time, dtype=torch.float64)
            log_d0 = algorithm.denoise(xt, t, real).double()
            for x0 in world.x0[::7]:
                x0 = x0.expand(len(xt), -1)
                ours = closed_form(process, xt, x0, log_d0, t, real)
                general = general_bound(process, xt, x0, log_d0, t, real).sum(1)
                possible = ((xt == MASK) | (xt == x0)).all(1)
                torch.testing.assert_close(ours[possible], general[possible], rtol=1e-6, atol=1e-9)


def test_a_wrong_denoiser_pays():
    world, algorithm = ToyWorld.make(), exact_mdlm("cosine", tilt=2.0)
    process = algorithm.process

    def closed(xt, x0, t):
        log_d0 = algorithm.denoise(xt, t, world.real.expand(len(xt), -1)).double()
        return closed_form(process, xt, x0, log_d0, t, world.real)

    assert integrate(world, process, closed) > world.entropy + 0.01


@pytest.mark.parametrize("name", ["polynomial", "geometric"])  # others: test_every_algorithm.py
@pytest.mark.parametrize("draw", MASK_DRAWS)
def test_shipped_loss_agrees_with_the_entropy(name, draw):
    """Every way of drawing t has the same mean: H of the mixture of full and padded data.

    2^16 draws; the per-batch mean decides, within 4.5 standard errors.
    """
    worlds = [ToyWorld.make(FULL), ToyWorld.make(PADDED)]
    algorithm = exact_mdlm(name)
    num, batches = 4096, 16
    generator = make_generator(11)
    means, entropy = [], 0.0
    for world in worlds:
        entropy += world.entropy / 2
    for _ in range(batches):
        rows = [
            w.x0[torch.multinomial(w.prob, num // 2, True, generator=generator)] for w in worlds
        ]
        x0 = torch.cat(rows)[torch.randperm(num, generator=generator)]
        real = algorithm.layout.is_real(x0)
        output = algorithm.loss(Batch(x0, real), generator, draw)
        assert output.loss.item() == pytest.approx(output.nelbo.mean().item() / LENGTH, rel=1e-5)
        means.append(output.nelbo.mean().double())
    means = torch.stack(means)
    error = means.std() / math.sqrt(batches)
    assert abs(means.mean() - entropy) < 4.5 * error + 1e-4


@pytest.mark.parametrize("draw", MASK_DRAWS)
def test_zero_logits_cost_the_log_of_the_legal_ids(draw):
    """At initialisation the bound of n rooms is n log 13 + n(n-1)/2 log 11, in expectation."""
    vocab = RPLAN_VOCAB_CONFIG
    algorithm = MDLM(ZeroBackbone(28), Absorbing(vocab.layout(), LogLinear()))
    generator = make_generator(2)
    for n in (4, 8):
        num = 4000
        real = vocab.real_positions(torch.full((num,), n))
        first_legal = algorithm.layout.support.long().argmax(dim=1)
        x0 = torch.where(real, first_legal, vocab.pad_id)
        nelbo = algorithm.loss(Batch(x0, real), generator, draw).nelbo.double()
        expected = n * math.log(13) + n * (n - 1) / 2 * math.log(11)
        error = nelbo.std() / math.sqrt(num)
        # plain draws of t have infinite variance, so their error estimate is itself too small
        assert abs(nelbo.mean() - expected) < (4 if draw == "forced_mask" else 8) * error
    assert expected == pytest.approx(87.66, abs=0.01)


@pytest.mark.parametrize("model", ["bd_tiny", "dit_tiny"])
def test_a_fresh_backbone_costs_exactly_that(model):
    """With a shared schedule a forced-mask draw of a fresh network has no noise but log 13 / 11."""
    backbone = "dit" if model == "dit_tiny" else "bd-denoiser"
    config = compose("train", [f"algo.backbone={backbone}", f"model={model}"])
    algorithm = build_algorithm(config)
    vocab = RPLAN_VOCAB_CONFIG
    real = vocab.real_positions(torch.arange(1, 9).repeat(60))
    x0 = torch.where(real, algorithm.layout.support.long().argmax(dim=1), vocab.pad_id)
    nelbo = algorithm.eval().loss(Batch(x0, real), make_generator(0)).nelbo
    n = torch.arange(1.0, 9.0)
    expected = n * math.log(13) + n * (n - 1) / 2 * math.log(11)
    found = nelbo.unflatten(0, (60, 8)).mean(0)
    torch.testing.assert_close(found, expected, rtol=8e-3, atol=1e-4)


def test_forced_mask_has_the_least_variance_and_is_bounded():
    vocab = RPLAN_VOCAB_CONFIG
    algorithm = MDLM(ZeroBackbone(28), Absorbing(vocab.layout(), LogLinear()))
    real = vocab.real_positions(torch.full((4000,), 6))
    x0 = torch.where(real, algorithm.layout.support.long().argmax(dim=1), vocab.pad_id)
    spread = {
        draw: algorithm.loss(Batch(x0, real), make_generator(4), draw).nelbo.std().item()
        for draw in MASK_DRAWS
    }
    assert spread["forced_mask"] < 0.1 * spread["low_discrepancy"]
    worst = algorithm.loss(Batch(x0, real), make_generator(4), "forced_mask").nelbo.max()
    assert worst <= 21 * math.log(13) + 1e-3


def test_forced_mask_strata():
    """Shared schedule: n masked of L is uniform on 1..L, evenly spread over a batch."""
    process = absorbing("cosine")
    x0 = ToyWorld.make().x0[:1].expand(300, -1)
    masked = sample_masks(
        "forced_mask", process, Batch(x0, torch.ones_like(x0, dtype=torch.bool)), make_generator(0)
    )
    count = (masked.xt == MASK).sum(1)
    assert torch.bincount(count, minlength=4).tolist() == [0, 100, 100, 100]
    torch.testing.assert_close(masked.weight.sum(1), torch.full((300,), 3.0).double())


def test_log_prob_x0_is_normalised_over_the_support():
    for tilt in (0.0, 1.5):
        algorithm = exact_mdlm("cosine", tilt)
        for world in (ToyWorld.make(FULL), ToyWorld.make(PADDED)):
            xt = world.states(algorithm.process)
            real = world.real.expand(len(xt), -1)
            t = torch.full((len(xt),), 0.6, dtype=torch.float64)
            probs = algorithm.log_prob_x0(xt, t, real).double().exp()
            torch.testing.assert_close(
                probs.sum(-1), torch.ones(probs.shape[:2]).double(), rtol=0, atol=1e-6
            )
            assert (probs[:, ~algorithm.layout.support] == 0).all()
            visible = (xt != MASK) & real
            assert (probs.gather(-1, xt.unsqueeze(-1)).squeeze(-1)[visible] == 1).all()
            if tilt == 0.0:
                exact = world.posterior(algorithm.process, xt, t[:1])
                torch.testing.assert_close(probs[real], exact[real], rtol=0, atol=1e-6)


def test_log_prob_step_keeps_padding_and_narrowing_reports_its_mass():
    algorithm, world = exact_mdlm("log_linear"), ToyWorld.make(PADDED)
    xt = world.states(algorithm.process)
    real = world.real.expand(len(xt), -1)
    t, s = torch.full((len(xt),), 0.6).double(), torch.full((len(xt),), 0.3).double()
    step = algorithm.log_prob_step(xt, t, s, real).exp()
    assert (step.gather(-1, xt.unsqueeze(-1)).squeeze(-1)[~real] == 1).all()
    support = algorithm.layout.support.clone()
    support[1, 3] = False
    zero = torch.zeros_like(t)
    narrowed = algorithm.predict(
        xt, t, zero, real, SamplingOptions(support.expand(len(xt), -1, -1))
    )
    full = algorithm.predict(xt, t, zero, real)
    masked = xt[:, 1] == MASK
    assert (narrowed.log_probs[masked, 1, 3].exp() == 0).all()
    torch.testing.assert_close(
        narrowed.log_weights[masked, 1, 0].exp(), 1 - full.log_probs[masked, 1, 3].exp()
    )
    assert full.log_weights is None


def test_time_conditioning_decides_what_the_backbone_sees():
    seen = []

    class Spy(ZeroBackbone):
        def forward(self, x_t, sigma=None):
            seen.append(sigma)
            return super().forward(x_t, sigma)

    world = ToyWorld.make()
    batch = Batch(world.x0, world.real.expand(len(world.x0), -1))
    for conditioned in (True, False):
        MDLM(Spy(), absorbing("cosine"), time_conditioning=conditioned).loss(
            batch, make_generator(0)
        )
    assert seen[0].shape == (len(world.x0),)
    assert seen[0].dtype == torch.float32
    assert seen[1] is None


def test_construction_errors_name_the_fix():
    layout = toy_layout()
    with pytest.raises(ValueError, match="forward_process=absorbing"):
        MDLM(ZeroBackbone(), uniform_process(layout, LogLinear()))
    with pytest.raises(ValueError, match="did you mean 'antithetic'"):
        MDLM(ZeroBackbone(), absorbing("cosine"), draw="antithetc")


def test_same_generator_same_loss_and_the_global_rng_is_untouched():
    algorithm, world = exact_mdlm("cosine"), ToyWorld.make()
    batch = Batch(world.x0, world.real.expand(len(world.x0), -1))
    before = torch.random.get_rng_state()
    first, second = (algorithm.loss(batch, make_generator(9)).nelbo for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(before, torch.random.get_rng_state())
