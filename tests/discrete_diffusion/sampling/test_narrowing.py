"""Narrowed supports: always satisfied, and undone by the weights where that is promised."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from discrete_diffusion.algorithms import MDLM
from laws import grid, grid_law
from toy_samplers import CASES, absorbing, draw_from, exact, takes_steps
from toy_world import (
    FULL,
    LENGTH,
    MASK,
    PADDED,
    VOCAB_SIZE,
    ToyWorld,
    noise_floor,
    total_variation,
    toy_layout,
)

NUM = 15_000
POSITIONS, IDS = torch.arange(LENGTH), torch.arange(VOCAB_SIZE)
EXACT = {
    "first-hitting": {},
    "margin": {},
    "entropy": {},
    "entropy-bounded": {"entropy_budget": 0.0, "order": "random"},
}


def narrowed() -> torch.Tensor:
    """Bool[3, V]: without some of the likely ids."""
    support = toy_layout().support.clone()
    support[0, 0] = support[1, 3] = support[1, 1] = False
    return support


def allowed(world: ToyWorld, support: torch.Tensor | None = None) -> torch.Tensor:
    """Bool[K]: which sequences satisfy it, or another support."""
    support = narrowed() if support is None else support
    return (support[POSITIONS, world.x0] | ~world.real).all(dim=1)


def check_weights(
    tokens: torch.Tensor, log_weights: torch.Tensor, law: torch.Tensor, world: ToyWorld
) -> None:
    """Weighted samples are distributed as ``law`` Float64[K], whose mass is the mean weight."""
    weights, mass = log_weights.exp(), float(law.sum())
    error = float(weights.std()) / len(weights) ** 0.5
    assert weights.mean().item() == pytest.approx(mass, abs=4.5 * error + 1e-12)
    effective = int(weights.sum().square() / weights.square().sum())
    assert effective > 1000
    weighted = world.distribution(tokens, weights)
    assert total_variation(weighted, law / mass) < noise_floor(law / mass, effective)


@pytest.mark.parametrize(("name", "sampler"), CASES)
def test_a_narrowed_support_is_always_satisfied(name, sampler):
    steps = {"steps": 6} if takes_steps(name, sampler) else {}
    for real in (FULL, PADDED):
        world = ToyWorld.make(real)
        output = draw_from(name, sampler, 500, real=real, support=narrowed(), **steps)
        assert world.distribution(output.x0)[~allowed(world)].sum() == 0
        assert (output.log_weights < -1e-6).any()


@pytest.mark.parametrize("real", [FULL, PADDED], ids=["full", "padded"])
@pytest.mark.parametrize("sampler", EXACT)
def test_weights_recover_the_exact_conditional(sampler, real):
    """Though each step renormalises locally, which tilts the samples themselves."""
    world = ToyWorld.make(real)
    law = torch.where(allowed(world), world.prob, 0.0)
    output = draw_from(
        "mdlm", sampler, NUM, real=real, seed=6, support=narrowed(), **EXACT[sampler]
    )
    check_weights(output.x0, output.log_weights, law, world)
    if real is FULL:
        share = world.distribution(output.x0)
        assert total_variation(share, law / law.sum()) > 0.02


@pytest.mark.parametrize(("sampler", "options"), EXACT.items())
def test_weights_where_a_position_is_narrowed_to_one_id(sampler, options):
    """Certain once narrowed, such tokens are still drawn one by one: each is worth what D says
    given those before."""
    world, support = ToyWorld.make(), toy_layout().support.clone()
    support[0], support[2] = IDS == 1, IDS == 2
    law = torch.where(allowed(world, support), world.prob, 0.0)
    output = draw_from("mdlm", sampler, NUM, seed=7, support=support, **options)
    assert (output.nfe == LENGTH).all()
    check_weights(output.x0, output.log_weights, law, world)


@pytest.mark.parametrize(
    ("sampler", "options"),
    [
        ("ancestral", {}),
        ("predictor-corrector", {"corrector_steps": 1}),
        ("renoise", {}),
        ("remdm", {"strategy": "cap", "eta": 0.2}),
    ],
)
def test_weights_of_a_grid_are_those_of_all_tokens_drawn(sampler, options):
    """They give the sampler's own law of the runs that never draw a token outside the support."""
    world, algorithm = ToyWorld.make(), exact("mdlm")
    support = narrowed()
    support[:, MASK] = True
    law = grid_law(algorithm, world, grid(algorithm, 5), sampler, allowed=support, **options)
    output = draw_from(algorithm, sampler, NUM, steps=5, support=narrowed(), **options)
    check_weights(output.x0, output.log_weights, law, world)


@pytest.mark.slow
def test_weights_of_ancestral_sampling_near_the_exact_conditional():
    world = ToyWorld.make()
    law = torch.where(allowed(world), world.prob, 0.0)
    output = draw_from("mdlm", "ancestral", NUM, steps=200, support=narrowed())
    weighted = world.distribution(output.x0, output.log_weights.exp())
    assert total_variation(weighted, law / law.sum()) < 0.02
    assert output.log_weights.exp().mean().item() == pytest.approx(float(law.sum()), abs=0.01)


@pytest.mark.slow
def test_weights_of_predictor_corrector_near_the_exact_conditional_unless_noise_is_absorbing():
    """Absorbing noise has every resample multiply another kept mass: more steps leave the weighted
    law, which enumeration gives, where it is, and the mean weight is too small."""
    world, support = ToyWorld.make(), toy_layout().support.clone()
    support[0, 2] = False
    law = torch.where(allowed(world, support), world.prob, 0.0)
    mass, gaps = float(law.sum()), []
    for steps in (4, 32):
        output = draw_from("udlm", "predictor-corrector", 10_000, steps=steps, support=support)
        weights = output.log_weights.exp()
        gaps.append(total_variation(world.distribution(output.x0, weights), law / mass))
        assert weights.mean().item() == pytest.approx(mass, abs=4.5 * float(weights.std()) / 100)
    assert gaps[1] < 0.045 < gaps[0]

    algorithm = exact("mdlm")
    options = {"corrector_steps": 1, "allowed": support | (IDS == MASK)}
    weighted = [
        grid_law(algorithm, world, grid(algorithm, n), "predictor-corrector", **options)
        for n in (16, 64)
    ]
    gaps = [total_variation(found / found.sum(), law / mass) for found in weighted]
    assert 0.015 < gaps[0] < gaps[1]
    output = draw_from(algorithm, "predictor-corrector", 10_000, steps=64, support=support)
    mean = output.log_weights.exp().mean().item()
    assert mean == pytest.approx(float(weighted[1].sum()), abs=0.015)
    assert mean < mass - 0.1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["udlm", "marginal", "gidd"])
@pytest.mark.parametrize("sampler", ["ancestral", "predictor-corrector"])
def test_weights_of_noise_that_leaves_doubt(sampler, name):
    """The narrowing decides only at the end: the sampler's own law, restricted to the support."""
    world, algorithm = ToyWorld.make(), exact(name)
    options = {"corrector_steps": 1} if sampler == "predictor-corrector" else {}
    law = grid_law(algorithm, world, grid(algorithm, 4), sampler, **options)
    support = toy_layout().support.clone()
    support[0, 0] = False
    law = torch.where(allowed(world, support), law, 0.0)
    output = draw_from(algorithm, sampler, NUM, steps=4, support=support, **options)
    check_weights(output.x0, output.log_weights, law, world)


def test_weights_of_confidence_order_do_not_undo_the_tilt():
    """Its order reads tokens drawn from the narrowed D."""
    world = ToyWorld.make()
    law = torch.where(allowed(world), world.prob, 0.0)
    output = draw_from("mdlm", "confidence", NUM, support=narrowed())
    weighted = world.distribution(output.x0, output.log_weights.exp())
    assert total_variation(weighted, law / law.sum()) > 0.1


@pytest.mark.parametrize("sampler", [*EXACT, "ancestral", "confidence", "remdm", "renoise"])
def test_a_dead_end_has_weight_zero(sampler):
    """A network that is sure of what the support excludes: legal tokens still, of no weight, though
    a support may allow ids that are legal nowhere."""

    class Sure(nn.Module):
        def forward(self, x_t, sigma=None):
            logits = torch.zeros(*x_t.shape, 6)
            logits[:, 1, 3] = 1e9
            return logits

    for support in (narrowed(), narrowed() | ~toy_layout().support):
        output = draw_from(MDLM(Sure(), absorbing()), sampler, 200, support=support)
        assert narrowed()[POSITIONS, output.x0].all()
        assert output.log_weights.isfinite().all()
        assert (output.log_weights.exp() == 0).all()
