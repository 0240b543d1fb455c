"""Filling hidden rows: the law of the Gaussian world, given rows bit for bit, no wasted call."""

from __future__ import annotations

import pytest
import torch

from continuous_states.sampling import RowAncestral
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.noise_schedules import Cosine
from gaussian_world import GaussianWorld, exact_model

WORLD = GaussianWorld(num_rows=5, num_features=2)
HIDDEN = torch.tensor([True, False, True, True, False])


def given(x0: torch.Tensor, masked: torch.Tensor) -> torch.Tensor:
    return x0.masked_fill(masked.unsqueeze(-1), torch.nan)


def windows(num: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    x0 = WORLD.draw(num)
    real = torch.ones(num, 5, dtype=torch.bool)
    return x0, HIDDEN.expand_as(real).clone(), real


@pytest.mark.parametrize("steps", [1, 2, 30])
def test_conditional_means_of_conditional_means_are_those(steps):
    """Whatever the order and the steps, by the tower property."""
    x0, masked, real = windows(40)
    model = exact_model(WORLD, schedule=Cosine())
    filled = RowAncestral().sample(
        model, real, clamp=given(x0, masked), generator=make_generator(steps), steps=steps
    )
    assert torch.allclose(filled.x0, model.predict(x0, masked, real), atol=1e-4)
    assert int(filled.nfe.max()) <= min(steps, 3)  # of three rows


@pytest.mark.parametrize("objective", ["mask", "ddpm"])
def test_given_rows_come_back_bit_for_bit(objective):
    x0, masked, real = windows(6)
    real[2, 3:] = False
    masked[1] = False  # nothing to do
    masked[4] = True  # nothing is known
    x0 = x0 * 1e-3 + 10
    model = exact_model(WORLD, objective=objective).train()
    model.scaling.shift.fill_(10.0)
    model.scaling.scale.fill_(3.3e-3)
    sampler = RowAncestral(temperature=1.0)
    clamp = given(x0, masked & real)
    output = sampler.sample(model, real, clamp=clamp, generator=make_generator(0), steps=4)
    kept = ~(masked & real)
    assert torch.equal(output.x0[kept], x0[kept])
    assert not (output.x0[~kept] == x0[~kept]).any()
    assert int(output.nfe[1]) == 0
    again = sampler.sample(
        model, real, clamp=given(x0, masked), generator=make_generator(0), steps=4
    )
    assert torch.equal(again.x0[real], output.x0[real])
    other = sampler.sample(model, real, clamp=clamp, generator=make_generator(1), steps=4)
    assert not torch.equal(other.x0, output.x0)
    assert model.training


def test_revealing_follows_the_schedule():
    """Of N hidden rows a share alpha is filled after a step to s; no call that reveals nothing."""
    world = GaussianWorld(num_rows=12, num_features=1)
    model = exact_model(world)
    x0 = world.draw(300)
    masked = torch.ones(300, 12, dtype=torch.bool)
    output = RowAncestral().sample(
        model, masked, clamp=given(x0, masked), generator=make_generator(0), steps=2
    )
    told = torch.cat([-torch.expm1(-sigma) for sigma in model.backbone.sigmas])
    assert torch.allclose(told[:300], torch.full((300,), 1 - 1e-4))  # first call: all is hidden
    assert float(told[300:].mean()) == pytest.approx(0.5, abs=0.03)
    assert torch.allclose((told[300:] * 12).round(), told[300:] * 12, atol=1e-4)  # the true share
    assert float(output.nfe.double().mean()) == pytest.approx(2.0, abs=0.02)


def test_draws_of_a_world_whose_rows_are_independent():
    """There N(xhat, I) is the conditional law itself."""
    world = GaussianWorld(num_rows=3, num_features=2)
    world.covariance = torch.eye(6, dtype=torch.float64)
    masked = torch.ones(20_000, 3, dtype=torch.bool)
    x0 = torch.zeros(20_000, 3, 2)
    drawn = RowAncestral(temperature=1.0).sample(
        exact_model(world), masked, clamp=given(x0, masked), generator=make_generator(0), steps=3
    )
    covariance = torch.cov(drawn.x0.flatten(1).T)
    assert torch.allclose(covariance, torch.eye(6), atol=4.5 * 2**0.5 / 20_000**0.5)


@pytest.mark.slow
def test_ddpm_draws_the_conditional_law():
    """Means and covariances of the hidden rows given one window's others, at 200 of 200 steps."""
    num = 3000
    x0, masked, real = windows(1)
    x0, masked, real = (x.expand(num, *x.shape[1:]) for x in (x0, masked, real))
    model = exact_model(WORLD, objective="ddpm", num_timesteps=200, beta_start=5e-4, beta_end=0.1)
    clamp = given(x0, masked)
    drawn = RowAncestral().sample(model, real, clamp=clamp, generator=make_generator(0), steps=200)
    assert drawn.nfe.tolist() == [200] * num
    numbers = WORLD.numbers(HIDDEN)
    gain, left = WORLD.given(HIDDEN)
    seen = x0[0].double().flatten().masked_fill(numbers, 0.0)
    found = drawn.x0.flatten(1)[:, numbers].double()
    spread = left.diagonal().sqrt()
    apart = (found.mean(dim=0) - gain @ seen) / (spread / num**0.5)
    assert apart.abs().max() < 4.5
    relative = (torch.cov(found.T) - left) / torch.outer(spread, spread)
    assert relative.abs().max() < 4.5 * (2 / num) ** 0.5 + 0.02  # and the steps' own error


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"steps": 0}, "sampling.steps=0"),
        ({"temperature": -1.0}, "sampling.temperature=-1.0"),
        ({"temperature": float("nan")}, "sampling.temperature=nan"),
    ],
)
def test_settings_that_there_are_not(options, says):
    with pytest.raises(ValueError, match=says):
        RowAncestral(**options)


@pytest.mark.parametrize(
    ("steps", "change", "says"),
    [
        (0, lambda clamp: clamp, "steps=0: expected at least 1"),
        (8, lambda clamp: None, r"clamp: expected rows \(2, 5, 'M'\), NaN where free; got none"),
        (8, lambda clamp: clamp[:, :4], r"clamp: expected rows .*got \(2, 4, 2\)"),
        (8, lambda clamp: clamp[..., 0], r"clamp: expected rows .*got \(2, 5\)"),
        (8, lambda clamp: clamp.index_fill(2, torch.tensor([1]), torch.nan), "row 1 of sample 0"),
    ],
)
def test_requests_that_do_not_fit(steps, change, says):
    x0, masked, real = windows(2)
    clamp = change(given(x0, masked))
    with pytest.raises(ValueError, match=says):
        RowAncestral().sample(
            exact_model(WORLD), real, clamp=clamp, generator=make_generator(0), steps=steps
        )


@pytest.mark.slow
def test_fewer_steps_of_ddpm_end_at_the_data_too():
    x0, masked, real = windows(30)
    model = exact_model(WORLD, objective="ddpm")
    for steps in (1, 2, 7, 5000):
        output = RowAncestral(temperature=0.0).sample(
            model, real, clamp=given(x0, masked), generator=make_generator(0), steps=steps
        )
        assert output.nfe.unique().tolist() == [min(steps, 1000)]
        assert output.x0.isfinite().all()
    one = RowAncestral(temperature=0.0).sample(
        model, real, clamp=given(x0, masked), generator=make_generator(0), steps=1
    )
    assert torch.allclose(one.x0, model.predict(x0, masked, real), atol=1e-5)
