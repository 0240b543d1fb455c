"""The autoregressive baseline: the exact likelihood, over real positions only."""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.algorithms import AR, build_algorithm
from discrete_diffusion.algorithms.block_reader import BlockReader
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.cli import compose
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing, Uniform
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from discrete_diffusion.models.dit import DiT
from discrete_diffusion.noise_schedules import LogLinear
from toy_samplers import random_ar
from toy_world import (
    FULL,
    LENGTH,
    PAD,
    PADDED,
    ExactCausalBackbone,
    ToyWorld,
    all_schedules,
    toy_layout,
)

SMALL_DIT = ["algo=ar", "model=dit_tiny"]


def exact_ar(schedule: str = "log_linear") -> AR:
    layout = toy_layout()
    process = Absorbing(layout, all_schedules(layout)[schedule])
    return AR(ExactCausalBackbone(process), process).eval()


def diagrams(algorithm: AR, sizes: list[int], seed: int = 0) -> Batch:
    real = RPLAN_VOCAB_CONFIG.real_positions(torch.tensor(sizes))
    legal = torch.multinomial(
        algorithm.layout.support.float(), len(sizes), True, generator=make_generator(seed)
    ).T
    return Batch(torch.where(real, legal, RPLAN_VOCAB_CONFIG.pad_id), real)


@pytest.mark.parametrize("draw", [None, "uniform_count"])
def test_the_likelihood_is_exact(draw):
    """-log p(x0) of every sample, full and padded together: no noise, so no draw matters."""
    algorithm = exact_ar("per_group")
    worlds = [ToyWorld.make(FULL), ToyWorld.make(PADDED)]
    x0 = torch.cat([world.x0 for world in worlds])
    output = algorithm.loss(Batch(x0, algorithm.layout.is_real(x0)), make_generator(0), draw)
    expected = -torch.cat([world.prob for world in worlds]).log()
    torch.testing.assert_close(output.nelbo.double(), expected, rtol=1e-5, atol=1e-5)
    assert output.loss.item() == pytest.approx(output.nelbo.mean().item() / LENGTH)
    assert torch.equal(output.num_real, (x0 != PAD).sum(dim=1))


def test_the_input_is_shifted_over_real_positions():
    algorithm = build_algorithm(compose("train", SMALL_DIT))
    real = torch.zeros(1, 36, dtype=torch.bool)
    real[0, [1, 2, 8, 30]] = True
    x = torch.arange(36).masked_fill(~real, RPLAN_VOCAB_CONFIG.pad_id)
    expected = torch.full((1, 36), RPLAN_VOCAB_CONFIG.pad_id)
    expected[0, [1, 2, 8, 30]] = torch.tensor([RPLAN_VOCAB_CONFIG.mask_id, 1, 2, 8])
    assert torch.equal(algorithm.shifted(x, real), expected)


def test_no_position_sees_itself_or_the_future():
    """Through dit, PAD between the real positions."""
    algorithm = random_ar()
    batch = diagrams(algorithm, [6, 4])
    t = torch.zeros(2)
    log_p = algorithm.denoise(batch.x0, t, batch.real)
    position = 3
    changed = batch.x0.clone()
    changed[:, position] = (changed[:, position] + 1) % 13
    moved = (algorithm.denoise(changed, t, batch.real) - log_p).abs().amax(dim=-1)
    assert (moved[:, : position + 1][batch.real[:, : position + 1]] < 1e-5).all()
    assert moved[:, position + 1 :][batch.real[:, position + 1 :]].min() > 1e-6


def test_the_number_of_real_tokens_is_told_through_sigma():
    """Position 0 sees nothing but MASK: only sigma can tell 4 rooms from 6."""
    for conditioned in (True, False):
        algorithm = random_ar(f"algo.time_conditioning={conditioned}")
        batch = diagrams(algorithm, [4, 6])
        sigma = algorithm.size_sigma(batch.real)
        if conditioned:
            torch.testing.assert_close(1 - (-sigma).exp(), torch.tensor([10 / 37, 21 / 37]))
        else:
            assert sigma is None
        first = algorithm.denoise(batch.x0, torch.zeros(2), batch.real)[:, 0]
        assert torch.allclose(first[0], first[1], atol=1e-6) != conditioned


def test_a_reader_with_a_cache_predicts_the_same():
    """Every real position in order, and only some of them (the columns between come along)."""
    algorithm = random_ar()
    batch = diagrams(algorithm, [5, 5, 5])
    with torch.no_grad():
        log_p = algorithm.denoise(batch.x0, torch.zeros(3), batch.real)
        for wanted in (range(15), (0, 4, 5, 11, 14), (3,)):
            reader = BlockReader(algorithm, batch.x0, batch.real, {})
            for k in wanted:
                here = batch.real & (batch.real.cumsum(dim=1) == k + 1)
                found = reader.lazy_log_d0(torch.arange(3), batch.x0, torch.zeros(3), here).read()
                torch.testing.assert_close(found, log_p[here], rtol=1e-5, atol=1e-5)


def test_backbones_that_see_the_future_are_refused():
    with pytest.raises(ValueError, match=r"algo\.backbone=dit"):
        build_algorithm(compose("train", ["algo=ar", "algo.backbone=bd-denoiser"]))
    with pytest.raises(ValueError, match=r"set algo\.causal_attention=true"):
        build_algorithm(compose("train", [*SMALL_DIT, "algo.causal_attention=false"]))
    layout = toy_layout()
    dit = DiT(vocab_size=6, hidden_size=8, n_blocks=1, n_heads=2, causal=True)
    with pytest.raises(ValueError, match="forward_process=absorbing"):
        AR(dit, Uniform(layout, LogLinear()))
