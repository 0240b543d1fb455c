"""Options of samplers: what they refuse, and the times that grids are made of."""

from __future__ import annotations

import inspect

import pytest
import torch

from discrete_diffusion.algorithms import D3PM, MDLM
from discrete_diffusion.forward_process import Absorbing, Uniform
from discrete_diffusion.noise_schedules import LogLinear, Polynomial
from discrete_diffusion.sampling import (
    Ancestral,
    PredictorCorrector,
    ReMDM,
    Renoise,
    Sampler,
    build_sampler,
)
from discrete_diffusion.sampling.ancestral import GridSampler
from discrete_diffusion.sampling.registry import SAMPLERS
from toy_algorithms import ZeroBackbone
from toy_samplers import draw_from, exact
from toy_world import ExactBackbone, toy_layout

ON_TOKENS = [name for name, cls in SAMPLERS.all().items() if cls.state == "tokens"]
GRIDS = [name for name, cls in SAMPLERS.all().items() if issubclass(cls, GridSampler)]
K_PER_CALL = ["confidence", "entropy", "first-hitting", "margin"]


def refused(name: str, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_sampler({"name": name, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -1}, "temperature=-1"),
        ({"temperature": float("inf")}, "temperature=inf"),
        ({"temperature": float("nan")}, "temperature=nan"),
        ({"temperature": "hot"}, r"sampling\.temperature=hot: expected a number"),
        ({"top_p": 1.5}, r"top_p=1\.5"),
        ({"top_p": 0.0}, r"top_p=0\.0: expected a number in \(0, 1\]"),
        ({"guidance": -0.5}, r"sampling\.guidance=-0\.5: expected a number, at least 0"),
        ({"guidance": float("inf")}, "guidance=inf"),
        ({"top_q": 0.5}, "has no setting 'top_q'; it has"),
    ],
)
def test_options_of_all(options, message):
    refused("first-hitting", options, message)


def test_no_sampler_takes_a_temperature_of_zero():
    for name in ON_TOKENS:
        refused(name, {"temperature": 0.0}, r"temperature=0\.0: expected a number above 0")


def test_one_verb_for_all_states():
    of_all = list(inspect.signature(Sampler.sample).parameters)
    for name in SAMPLERS.names():
        own = list(inspect.signature(SAMPLERS.find(name).sample).parameters)
        assert own[: len(of_all)] == of_all, name


def test_options_of_grids():
    for name in GRIDS:
        refused(name, {"steps": 0}, r"sampling\.steps=0: expected a whole number")
        refused(name, {"steps": 2.5}, r"sampling\.steps=2\.5")
        refused(name, {"grid": "quadratc"}, "did you mean 'quadratic'")


def test_options_of_k_per_call():
    for name in K_PER_CALL:
        refused(name, {"tokens_per_call": 0}, r"sampling\.tokens_per_call=0: expected a whole n")
        refused(name, {"tokens_per_call": 1.5}, r"tokens_per_call=1\.5")
        refused(name, {"tokens_per_call": True}, "tokens_per_call=True")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "entropy-bounded",
            {"entropy_budget": -0.1},
            r"entropy_budget=-0\.1: expected a number, at least 0",
        ),
        ("entropy-bounded", {"entropy_budget": float("inf")}, "entropy_budget=inf"),
        ("entropy-bounded", {"order": "entropi"}, "did you mean 'entropy'"),
        ("entropy-bounded", {"tokens_per_call": 2}, "no setting 'tokens_per_call'"),
        ("first-surprise", {"surprises": -1}, r"sampling\.surprises=-1"),
        ("predictor-corrector", {"corrector_steps": -1}, r"sampling\.corrector_steps=-1"),
        ("remdm", {"strategy": "cup"}, "did you mean 'cap'"),
        ("remdm", {"eta": 0.0}, r"sampling\.eta=0\.0: expected a number in \(0, 1\]"),
        ("margin", {"group_by_group": "yes"}, r"sampling\.group_by_group=yes: expected true or f"),
        ("first_hitting", {}, "did you mean 'first-hitting'"),
    ],
)
def test_options_of_one(name, options, message):
    refused(name, options, message)


def test_the_grid_is_finer_near_the_data_where_noise_leaves_doubt():
    """auto: t = i / T for absorbing processes, (i / T)^2 for the others; either can be chosen."""
    absorbing, uniform = exact("mdlm"), exact("udlm")
    even = torch.tensor([1, 0.75, 0.5, 0.25, 0], dtype=torch.float64)
    for make in (Ancestral, PredictorCorrector, Renoise, ReMDM):
        assert torch.equal(make().times(absorbing, 4), even)
        assert torch.equal(make(grid="quadratic").times(absorbing, 4), even**2)
        if make is not ReMDM:
            assert torch.equal(make().times(uniform, 4), even**2)
            assert torch.equal(make(grid="uniform").times(uniform, 4), even)


def test_a_model_of_discrete_steps_is_asked_at_its_own_times():
    """d3pm of T = 10 knows t = i / 10 only: as many steps give them all, fewer a part."""
    algorithm = D3PM(ZeroBackbone(), Uniform(toy_layout(), LogLinear()), num_steps=10)
    every = torch.linspace(1, 0, 11, dtype=torch.float64)
    torch.testing.assert_close(Ancestral(grid="uniform").times(algorithm, 10), every)
    few = Ancestral().times(algorithm, 6)  # quadratic: 1, 25/36, 16/36, 9/36, 4/36, 1/36, 0
    expected = torch.tensor([1, 0.7, 0.4, 0.3, 0.2, 0.1, 0], dtype=few.dtype)
    torch.testing.assert_close(few, expected)  # as many steps as asked for, no time twice


def test_unmask_times_that_underflow_do_no_harm():
    process = Absorbing(toy_layout(), Polynomial(exponent=0.01))
    algorithm = MDLM(ExactBackbone(process), process)
    tokens = draw_from(algorithm, "first-hitting", 4000, seed=0).x0
    algorithm.layout.check(tokens)
