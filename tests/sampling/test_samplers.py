"""What every sampler promises beside its distribution: legality, knobs, errors, repeatability."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from discrete_diffusion.algorithms import D3PM, MDLM, UDLM
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.forward_process import Absorbing, Uniform
from discrete_diffusion.noise_schedules import LogLinear, Polynomial
from discrete_diffusion.sampling import Ancestral, FirstHitting, build_sampler
from toy_algorithms import ZeroBackbone
from toy_world import FULL, LENGTH, MASK, ExactBackbone, ToyWorld, toy_layout

SAMPLERS = {"ancestral": Ancestral, "first-hitting": FirstHitting}


def mdlm() -> MDLM:
    process = Absorbing(toy_layout(), LogLinear())
    return MDLM(ExactBackbone(process), process)


@pytest.fixture(params=list(SAMPLERS))
def make_sampler(request):
    return SAMPLERS[request.param]


def test_same_seed_same_samples_and_the_global_rng_is_untouched(make_sampler):
    before = torch.random.get_rng_state()
    draws = [
        make_sampler().sample(mdlm(), FULL.expand(64, -1), generator=make_generator(1)).tokens
        for _ in range(2)
    ]
    assert torch.equal(*draws)
    assert torch.equal(before, torch.random.get_rng_state())


def test_low_temperature_and_small_top_p_follow_the_mode(make_sampler):
    """At T -> 0 or top_p -> 0 every token is the most likely one given what is visible."""
    world, algorithm = ToyWorld.make(), mdlm()
    for sampler in (make_sampler(temperature=0.01), make_sampler(top_p=1e-6)):
        output = sampler.sample(
            algorithm, FULL.expand(200, -1), generator=make_generator(2), keep_trajectory=True
        )
        for before, after in zip(output.trajectory[:-1], output.trajectory[1:], strict=True):
            new = (before == MASK) & (after != MASK)
            t = torch.full((200,), 0.5, dtype=torch.float64)
            mode = algorithm.log_prob_x0(before, t, FULL.expand(200, -1)).argmax(-1)
            assert torch.equal(after[new], mode[new])
    assert world.layout.length == LENGTH


def test_high_temperature_flattens(make_sampler):
    output = make_sampler(temperature=1e6).sample(
        mdlm(), FULL.expand(20_000, -1), generator=make_generator(3)
    )
    share = torch.bincount(output.tokens[:, 1]) / 20_000
    assert (share - 0.25).abs().max() < 0.02


def test_sampling_uses_eval_mode_and_restores_training(make_sampler):
    algorithm = mdlm()
    modes = []

    class Spy(nn.Module):
        def forward(self, x_t, sigma=None):
            modes.append(self.training)
            return torch.zeros(*x_t.shape, 6)

    algorithm.backbone = Spy()
    algorithm.train()
    make_sampler().sample(algorithm, FULL.expand(2, -1), generator=make_generator(4))
    assert modes
    assert not any(modes)
    assert algorithm.training
    assert algorithm.backbone.training


def test_everything_clamped_costs_nothing(make_sampler):
    clamp = ToyWorld.make().x0[:5]
    output = make_sampler().sample(
        mdlm(), FULL.expand(5, -1), generator=make_generator(5), clamp=clamp
    )
    assert torch.equal(output.tokens, clamp)
    assert output.nfe.sum() == 0


def test_an_empty_request_gives_no_samples(make_sampler):
    output = make_sampler().sample(mdlm(), FULL.expand(0, -1), generator=make_generator(6))
    assert output.tokens.shape == (0, LENGTH)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"real": torch.ones(2, 5, dtype=torch.bool)}, r"expected Bool\[B, 3\]"),
        ({"clamp": torch.tensor([[3, -1, -1]])}, "clamp holds id 3 at sample 0, position 0"),
        ({"clamp": torch.tensor([[MASK, -1, -1]])}, "clamp holds id 4"),
        ({"clamp": torch.tensor([[99, -1, -1]])}, "clamp holds id 99"),
        ({"support": torch.zeros(1, 3, 6, dtype=torch.bool)}, "support leaves no id at sample 0"),
        ({"support": torch.zeros(1, 3, 2, dtype=torch.bool)}, "support: expected"),
    ],
)
def test_requests_that_cannot_be_met_are_refused(make_sampler, arguments, message):
    request = {"real": FULL.expand(1, -1), **arguments}
    with pytest.raises(ValueError, match=message):
        make_sampler().sample(mdlm(), generator=make_generator(0), **request)


def test_construction_errors():
    with pytest.raises(ValueError, match="temperature=0"):
        Ancestral(temperature=0)
    with pytest.raises(ValueError, match=r"top_p=1\.5"):
        FirstHitting(top_p=1.5)
    with pytest.raises(ValueError, match="did you mean 'first-hitting'"):
        build_sampler({"name": "first_hitting"})
    with pytest.raises(ValueError, match="leave steps unset"):
        FirstHitting().sample(mdlm(), FULL.expand(1, -1), generator=make_generator(0), steps=3)
    with pytest.raises(ValueError, match="steps=0"):
        Ancestral().sample(mdlm(), FULL.expand(1, -1), generator=make_generator(0), steps=0)


def test_first_hitting_refuses_other_processes():
    algorithm = UDLM(ExactBackbone(mdlm().process), Uniform(toy_layout(), LogLinear()))
    with pytest.raises(ValueError, match=r"udlm with uniform noise .* use sampling=ancestral"):
        FirstHitting().sample(algorithm, FULL.expand(1, -1), generator=make_generator(0))
    wrong = mdlm()
    wrong.process = algorithm.process
    with pytest.raises(ValueError, match="needs an absorbing process, got Uniform"):
        FirstHitting().check(wrong)


def test_the_grid_is_finer_near_the_data_where_noise_leaves_doubt():
    """auto: t = i / T for absorbing processes, (i / T)^2 for the others; either can be chosen."""
    absorbing, uniform = mdlm(), UDLM(ZeroBackbone(), Uniform(toy_layout(), LogLinear()))
    even = torch.tensor([1, 0.75, 0.5, 0.25, 0], dtype=torch.float64)
    assert torch.equal(Ancestral().times(absorbing, 4), even)
    assert torch.equal(Ancestral().times(uniform, 4), even**2)
    assert torch.equal(Ancestral(grid="uniform").times(uniform, 4), even)
    assert torch.equal(Ancestral(grid="squared").times(absorbing, 4), even**2)
    with pytest.raises(ValueError, match="did you mean 'squared'"):
        Ancestral(grid="squred")


def test_a_model_of_discrete_steps_is_asked_at_its_own_times():
    """d3pm of T = 10 knows t = i / 10 only: as many steps give them all, fewer a part."""
    algorithm = D3PM(ZeroBackbone(), Uniform(toy_layout(), LogLinear()), num_steps=10)
    every = torch.linspace(1, 0, 11, dtype=torch.float64)
    torch.testing.assert_close(Ancestral(grid="uniform").times(algorithm, 10), every)
    few = Ancestral().times(algorithm, 6)  # squared: 1, 25/36, 16/36, 9/36, 4/36, 1/36, 0
    torch.testing.assert_close(few, torch.tensor([1, 0.7, 0.4, 0.2, 0.1, 0], dtype=few.dtype))


def test_other_processes_spend_no_call_on_a_finished_sample():
    process = Uniform(toy_layout(), LogLinear())
    algorithm = UDLM(ExactBackbone(Absorbing(toy_layout(), LogLinear())), process)
    clamp = ToyWorld.make().x0[:3].clone()
    clamp[2, 1] = -1
    output = Ancestral(default_steps=5).sample(
        algorithm, FULL.expand(3, -1), generator=make_generator(0), clamp=clamp
    )
    assert output.nfe.tolist() == [0, 0, 5]
    assert (output.tokens[clamp >= 0] == clamp[clamp >= 0]).all()


def test_unmask_times_that_underflow_do_no_harm():
    process = Absorbing(toy_layout(), Polynomial(exponent=0.01))
    algorithm = MDLM(ExactBackbone(process), process)
    tokens = (
        FirstHitting().sample(algorithm, FULL.expand(4000, -1), generator=make_generator(0)).tokens
    )
    algorithm.layout.check(tokens)
