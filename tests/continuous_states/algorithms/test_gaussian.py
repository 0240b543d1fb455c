"""Linear Gaussian noise: published numbers, and Bayes' rule."""

from __future__ import annotations

import pytest
import torch

from continuous_states.algorithms.gaussian import LinearGaussian, RowScaling
from discrete_diffusion.categorical import make_generator


def steps(*k: int) -> torch.Tensor:
    return torch.tensor(k)


def test_alpha_bar_is_that_of_ddpm():
    gaussian = LinearGaussian()
    assert float(gaussian.alpha_bar(steps(999))) == pytest.approx(4.0358e-5, rel=1e-4)
    assert float(gaussian.alpha_bar(steps(499))) == pytest.approx(0.078587, rel=1e-4)
    assert float(gaussian.alpha_bar(steps(-1))) == 1.0
    assert float(gaussian.alpha_bar(steps(0))) == pytest.approx(1 - 1e-4, rel=1e-12)


def test_a_backbone_is_told_the_share_of_steps():
    sigma = LinearGaussian(num_timesteps=10).sigma(steps(0, 3, 9))
    assert torch.allclose(-torch.expm1(-sigma), torch.tensor([0.0, 0.3, 0.9]))


@pytest.mark.parametrize(("k", "j"), [(1, 0), (9, 4)], ids=["neighbours", "a jump"])
def test_the_posterior_is_bayes_rule(k, j):
    """q(x_j | x_k, x0) against q(x_k | x_j) q(x_j | x0), normalised on a fine grid."""
    gaussian = LinearGaussian(num_timesteps=10, beta_start=0.05, beta_end=0.3)
    x0, xk = 0.7, -0.4
    kept_k, kept_j = (float(gaussian.alpha_bar(steps(i))) for i in (k, j))
    between = kept_k / kept_j
    grid = torch.linspace(-8, 8, 200_001, dtype=torch.float64)
    log_density = -(xk - between**0.5 * grid).square() / (2 * (1 - between))
    log_density -= (grid - kept_j**0.5 * x0).square() / (2 * (1 - kept_j))
    weight = (log_density - log_density.max()).exp()
    mean = (weight * grid).sum() / weight.sum()
    variance = (weight * (grid - mean).square()).sum() / weight.sum()
    as_rows = torch.full((1, 1, 1), 1.0, dtype=torch.float64)
    found = gaussian.posterior(xk * as_rows, x0 * as_rows, steps(k), steps(j))
    assert float(found[0]) == pytest.approx(float(mean), abs=1e-9)
    assert float(found[1]) == pytest.approx(float(variance), abs=1e-9)


def test_the_last_step_ends_with_the_prediction():
    gaussian = LinearGaussian(num_timesteps=10)
    x0, xk = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    mean, variance = gaussian.posterior(xk, x0, steps(6, 0), steps(-1, -1))
    assert torch.equal(mean.float(), x0)
    assert torch.equal(variance, torch.zeros(2, 1, 1, dtype=torch.float64))


def test_corrupted_data_have_the_stated_variance():
    gaussian, noise = LinearGaussian(), torch.randn(2000, 5, 2)
    x0 = torch.full_like(noise, 3.0)
    k = torch.full((2000,), 250)
    kept = float(gaussian.alpha_bar(steps(250)))
    found = gaussian.corrupt(x0, k, noise)
    assert torch.allclose(found, kept**0.5 * x0 + (1 - kept) ** 0.5 * noise, atol=1e-6)


def test_important_steps_sum_up_every_step():
    gaussian = LinearGaussian(num_timesteps=50)
    values = torch.rand(50, generator=make_generator(1), dtype=torch.float64)
    k, weight = gaussian.sample_important_steps(200_000, make_generator(0), torch.device("cpu"))
    terms = values[k] * weight
    error = float(terms.std()) / len(k) ** 0.5
    assert float(terms.mean()) == pytest.approx(float(values.sum()), abs=4.5 * error)
    assert sorted(set(k.tolist())) == list(range(50))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"num_timesteps": 1}, "num_timesteps"),
        ({"beta_start": 0.0}, "beta_start"),
        ({"beta_start": 0.5, "beta_end": 0.1}, "beta_start <= beta_end"),
        ({"beta_end": 1.0}, "beta_end"),
    ],
)
def test_impossible_noise_is_refused(options, says):
    with pytest.raises(ValueError, match=says):
        LinearGaussian(**options)


def rows() -> tuple[torch.Tensor, torch.Tensor]:
    """Windows of which the last row of the first is not there; feature 2 is constant."""
    x0 = torch.rand(20, 6, 3, generator=torch.Generator().manual_seed(0)) * 4 + 1
    x0[..., 2] = 1.0
    real = torch.ones(20, 6, dtype=torch.bool)
    real[0, 5] = False
    x0[0, 5] = 1e6
    return x0, real


@pytest.mark.parametrize("how", ["zscore", "max", "none"])
def test_scaling_is_that_of_the_rows_that_are_there_whatever_the_chunks(how, monkeypatch):
    x0, real = rows()
    x0[..., 1] -= 1e4  # far from 0, and below it, where max does not divide
    real[4:6] = False
    there, zeros = x0[real].double(), torch.zeros(3).double()
    shift, scale = {
        "zscore": (there.mean(dim=0), there.std(dim=0, correction=0)),
        "max": (zeros, there.amax(dim=0)),
        "none": (zeros, zeros),
    }[how]
    scale = torch.where(scale > 0, scale, 1.0).float()
    for size in (1, 3, 100):
        monkeypatch.setattr("continuous_states.algorithms.gaussian.CHUNK", size)
        scaling = RowScaling(how, 3)
        scaling.fit(x0, real)
        assert torch.allclose(scaling.shift, shift.float(), rtol=1e-7)
        assert torch.allclose(scaling.scale, scale, rtol=1e-6)
    torch.testing.assert_close(scaling(x0), (x0 - scaling.shift) / scaling.scale)
    assert torch.allclose(scaling.inverse(scaling(x0))[real], x0[real], rtol=1e-6, atol=1e-5)
    scaling.fit(x0, real & False)
    assert torch.allclose(scaling.scale, scale, rtol=1e-6)  # nothing to fit to


def test_other_features_and_names_are_refused():
    x0, real = rows()
    with pytest.raises(ValueError, match=r"the data has 3 features, the model 5; .*num_features"):
        RowScaling("none", 5).fit(x0, real)
    with pytest.raises(ValueError, match="did you mean 'zscore'"):
        RowScaling("zscor", 3)
