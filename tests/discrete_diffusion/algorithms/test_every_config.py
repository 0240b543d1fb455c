"""Every algorithm on tokens as its config builds it, on diagrams and on text."""

from __future__ import annotations

from functools import lru_cache

import pytest
import torch
from omegaconf import DictConfig

from discrete_diffusion.algorithms import (
    BD3LM,
    D3PM,
    GIDD,
    MDLM,
    MELD,
    SEDD,
    UDLM,
    TokenAlgorithm,
    build_algorithm,
)
from discrete_diffusion.algorithms.registry import algorithms_on
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.cli import compose
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing, Hybrid, Marginal, Uniform
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from discrete_diffusion.noise_schedules import Learned, LogLinear
from discrete_diffusion.sampling import build_sampler
from toy_algorithms import ZeroBackbone
from toy_world import toy_layout

ALGORITHMS = algorithms_on("tokens")
LAYOUT, ZERO = toy_layout(), ZeroBackbone()
MASKS, EVEN = Absorbing(LAYOUT, LogLinear()), Uniform(LAYOUT, LogLinear())
OWN = Absorbing(LAYOUT, Learned(LAYOUT))
DIT = ("algo.backbone=dit", "model=dit_tiny", "model.n_blocks=1", "model.hidden_size=32")
TEXT = ("data=text", "data.length=10", "data.vocab_size=7", "data.mask_id=5", "data.pad_id=6")


@pytest.mark.parametrize(
    ("build", "fix"),
    [
        (lambda: MDLM(ZERO, EVEN), "forward_process=absorbing"),
        (lambda: MDLM(ZERO, MASKS, time_sampling="antithetc"), "did you mean 'antithetic'"),
        (lambda: MDLM(ZERO, OWN), "algo=meld"),
        (lambda: MELD(ZERO, MASKS), "set schedule=learned"),
        (lambda: MELD(ZERO, OWN, gradient="unbised"), "did you mean 'unbiased'"),
        (lambda: BD3LM(ZERO, EVEN), "forward_process=absorbing"),
        (lambda: build_algorithm(composed("bd3lm", "algo.backbone=bd-denoiser")), "backbone=dit"),
        (
            lambda: build_algorithm(composed("bd3lm", "+algo.causal_attention=true")),
            r"set algo\.causal_attention=false",
        ),
        (lambda: SEDD(ZERO, Marginal(LAYOUT, LogLinear())), "=absorbing or forward_process=unifo"),
        (
            lambda: SEDD(ZERO, EVEN, time_sampling="uniform_count"),
            r"algo\.time_sampling for uniform noise",
        ),
        (lambda: UDLM(ZERO, EVEN, parameterization="leave_one"), "did you mean 'leave_one_out'"),
        (lambda: UDLM(ZERO, EVEN, time_sampling="importanc"), "did you mean 'importance'"),
        (lambda: GIDD(ZERO, Hybrid(LAYOUT, LogLinear()), weighting="dynamc"), "mean 'dynamic'"),
        (lambda: D3PM(ZERO, EVEN, num_steps=10.5), r"algo\.num_steps=10\.5: expected a whole"),
        (lambda: D3PM(ZERO, EVEN, time_sampling="uniform_count"), r"algo\.time_sampling"),
    ],
)
def test_what_cannot_be_built_is_refused_with_the_fix(build, fix):
    with pytest.raises(ValueError, match=fix):
        build()


@lru_cache
def composed(name: str, *overrides: str) -> DictConfig:
    """To be read, never changed."""
    return compose("train", [f"algo={name}", *DIT, *overrides])


def built(config: DictConfig) -> TokenAlgorithm:
    torch.manual_seed(0)
    algorithm = build_algorithm(config)
    if algorithm.has_reward:
        algorithm.score = lambda x0: (x0[:, 0] == x0[0, 0]).double()
    return algorithm


def clean(algorithm: TokenAlgorithm, num: int, size: int) -> Batch:
    """Random legal tokens: diagrams of ``size`` rooms, or texts of ``size`` tokens."""
    layout = algorithm.layout
    if layout.length == RPLAN_VOCAB_CONFIG.length:
        real = RPLAN_VOCAB_CONFIG.real_positions(torch.full((num,), size))
    else:
        real = (torch.arange(layout.length) < size).expand(num, -1)
    ids = torch.multinomial(layout.support.float(), num, True, generator=make_generator(1)).T
    return Batch(torch.where(real, ids, layout.pad_id), real)


@pytest.mark.parametrize("data", [(), TEXT], ids=["diagrams", "text"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_it_trains_samples_and_survives_its_own_state(name, data):
    """One optimiser step; then a second instance with its state has the same bound and samples."""
    config = composed(name, *data).copy()
    if "steps" in config.sampling:
        config.sampling.steps = 8
    algorithm, sampler = built(config), build_sampler(config)
    sampler.check(algorithm)
    batch = clean(algorithm, 16, 5)
    algorithm.process.fit(batch.x0, batch.real)
    optimizer = torch.optim.SGD(algorithm.parameters(), lr=0.1)
    algorithm.loss(batch, make_generator(0)).loss.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in algorithm.parameters())
    optimizer.step()
    twin = built(config)
    twin.load_state_dict(algorithm.state_dict())
    found = []
    for instance in (algorithm.eval(), twin.eval()):
        nelbo = instance.loss(batch, make_generator(3), instance.evaluation_draw).nelbo
        tokens = sampler.sample(instance, batch.real, generator=make_generator(4)).x0
        instance.layout.check(tokens, batch.real)
        found.append((nelbo, tokens))
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
