"""MDLM: its closed form, its variance, and the calls of its network."""

from __future__ import annotations

import math

import torch

from discrete_diffusion.algorithms import MDLM, general_bound
from discrete_diffusion.algorithms.time_sampling import MASK_DRAWS
from discrete_diffusion.algorithms.token_algorithm import SamplingOptions
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from discrete_diffusion.noise_schedules import LogLinear
from toy_algorithms import ZeroBackbone
from toy_world import MASK, PADDED, ExactBackbone, ToyWorld, all_schedules, toy_layout


def absorbing(name: str) -> Absorbing:
    layout = toy_layout()
    return Absorbing(layout, all_schedules(layout)[name])


def exact_mdlm(name: str, tilt: float = 0.0, **options) -> MDLM:
    process = absorbing(name)
    return MDLM(ExactBackbone(process, tilt), process, **options).eval()


def closed_form(process: Absorbing, xt, x0, log_d0, t, real):
    masked = (xt == MASK) & real
    nll = -log_d0.gather(-1, x0.unsqueeze(-1)).squeeze(-1)
    return torch.where(masked, process.weight(t) * nll, 0.0).sum(1)


def test_closed_form_equals_the_general_bound_pointwise():
    """For a denoiser that is wrong, state by state and time by time."""
    for name in ("cosine", "per_group"):
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


def test_forced_mask_has_the_least_variance_and_is_bounded():
    vocab = RPLAN_VOCAB_CONFIG
    algorithm = MDLM(ZeroBackbone(28), Absorbing(vocab.layout(), LogLinear()))
    real = vocab.real_positions(torch.full((4000,), 6))
    x0 = torch.where(real, algorithm.layout.support.long().argmax(dim=1), vocab.pad_id)
    spread = {
        draw: algorithm.loss(Batch(x0, real), make_generator(4), draw).nelbo.std().item()
        for draw in MASK_DRAWS
    }
    assert spread["uniform_count"] < 0.1 * spread["low_discrepancy"]
    worst = algorithm.loss(Batch(x0, real), make_generator(4), "uniform_count").nelbo.max()
    assert worst <= 21 * math.log(13) + 1e-3


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
    batch = Batch(world.x0[:1].expand(len(xt), -1), real)
    nll = algorithm.cross_entropy(algorithm.denoise(xt, t, real), batch)
    assert (nll[~real] == 0).all()


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


def test_same_generator_same_loss_and_the_global_rng_is_untouched():
    algorithm, world = exact_mdlm("cosine"), ToyWorld.make()
    batch = Batch(world.x0, world.real.expand(len(world.x0), -1))
    before = torch.random.get_rng_state()
    first, second = (algorithm.loss(batch, make_generator(9)).nelbo for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(before, torch.random.get_rng_state())
