"""Autoregressive sampling column by column, and which samplers fit which algorithm."""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.algorithms import AR, TokenAlgorithm
from discrete_diffusion.categorical import make_generator, uniform_draws
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from discrete_diffusion.sampling import (
    Ancestral,
    Autoregressive,
    FirstHitting,
    Sampler,
    build_sampler,
)
from toy_samplers import absorbing, ar, bd3lm, exact, fitting_samplers, random_ar
from toy_world import FULL, ExactBlockBackbone

CHOOSING = ("confidence", "entropy", "entropy-bounded", "first-surprise", "margin")


@pytest.fixture(scope="module")
def diagram_ar() -> AR:
    return random_ar()


def test_the_cache_changes_no_token(diagram_ar):
    """first-hitting draws unmask times first; after them both draw the same numbers."""
    real = RPLAN_VOCAB_CONFIG.real_positions(torch.full((20,), 5))
    slow = FirstHitting(temperature=0.7, top_p=0.95)
    expected = slow.sample(diagram_ar, real, generator=make_generator(9)).x0
    generator = make_generator(9)
    uniform_draws(tuple(real.shape), generator)
    fast = Autoregressive(temperature=0.7, top_p=0.95)
    output = fast.sample(diagram_ar, real, generator=generator, keep_trajectory=True)
    assert torch.equal(output.x0, expected)
    assert output.trajectory.shape == (16, 20, 36)
    assert torch.equal(output.trajectory[-1], output.x0)


def test_every_column_is_computed_once(diagram_ar):
    computed = []
    hook = diagram_ar.backbone.register_forward_pre_hook(
        lambda module, args, given: computed.append(tuple(args[0].shape)), with_kwargs=True
    )
    real = RPLAN_VOCAB_CONFIG.real_positions(torch.full((4,), 4))
    clamp = torch.full(real.shape, -1)
    clamp[:, [0, 1, 2, 9]] = torch.tensor([3, 4, 5, 20])
    output = Autoregressive().sample(diagram_ar, real, generator=make_generator(0), clamp=clamp)
    hook.remove()
    # rooms 0..2 are given, so the first call reads the columns of all four rooms
    assert computed == [(4, 4), (4, 1), (4, 2), (4, 1), (4, 1), (4, 1)]
    assert (output.nfe == 6).all()


def test_samplers_that_do_not_fit_are_refused_before_anything_runs():
    def refused(sampler: Sampler, algorithm: TokenAlgorithm, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            sampler.check(algorithm)
        with pytest.raises(ValueError, match=message):
            sampler.sample(algorithm, FULL.expand(1, -1), generator=make_generator(0))

    fits = r"use sampling=autoregressive or sampling=first-hitting"
    refused(Ancestral(), ar(), rf"ar cannot be sampled by ancestral; {fits}")
    refused(Autoregressive(), bd3lm(), "needs algo=ar, got bd3lm; use sampling=ancestral")
    refused(Autoregressive(), exact("udlm"), "needs algo=ar, got udlm; use sampling=ancestral")
    for name in (*CHOOSING, "remdm", "renoise"):
        refused(build_sampler({"name": name}), ar(), rf"cannot be sampled by {name}; {fits}")
    process = absorbing("cosine")
    without_cache = AR(ExactBlockBackbone(process), process)
    refused(Autoregressive(), without_cache, r"has none: use sampling=first-hitting")
    with pytest.raises(ValueError, match="leave steps unset"):
        Autoregressive().sample(ar(), FULL.expand(1, -1), generator=make_generator(0), steps=3)


@pytest.mark.parametrize("name", ["udlm", "marginal", "gidd", "d3pm-uniform"])
def test_noise_that_leaves_doubt_fits_grids_alone(name):
    """The others reveal MASKs, and a visible token must be certain then."""
    algorithm = exact(name)
    assert fitting_samplers(algorithm) == ["ancestral", "predictor-corrector", "renoise"]
    for sampler in (*CHOOSING, "first-hitting", "remdm"):
        with pytest.raises(ValueError, match=rf"{sampler}, which needs absorbing noise; use sampl"):
            build_sampler({"name": sampler}).check(algorithm)


def test_what_fits_absorbing_noise():
    grids = ["ancestral", "predictor-corrector", "remdm", "renoise"]
    in_sets = ["dilated", "planned"]
    every = [*grids, *CHOOSING, *in_sets, "first-hitting"]
    assert fitting_samplers(exact("mdlm")) == sorted(every)
    assert fitting_samplers(bd3lm()) == sorted(every)
    assert fitting_samplers(ar()) == ["autoregressive", "first-hitting"]
    in_steps = exact("d3pm-absorbing")  # which knows none of the times of first-hitting
    assert fitting_samplers(in_steps) == sorted([*grids, *CHOOSING, "dilated"])
    with pytest.raises(ValueError, match=r"discrete times only .* use sampling=ancestral"):
        FirstHitting().check(in_steps)
