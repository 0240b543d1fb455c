"""Flow matching: loss and bound against closed forms of Gaussian images."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from continuous_states.algorithms.fields import SMALLEST_T, FlowMatching
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import Batch
from gaussian_images import GaussianImages, exact_flow
from toy_world import DROPOUT

IMAGES = GaussianImages()


def batch_of(num: int) -> Batch:
    x0, sign = IMAGES.draw(num)
    return Batch(x0, torch.ones(num, 1, dtype=torch.bool), conditions={"dtn": sign})


def exact_bound() -> float:
    """By quadrature: the end, and the integral of (1 - t) / t^3 times the variance that is left."""
    pixels, s = 9, SMALLEST_T / (1 - SMALLEST_T)
    left = float(IMAGES.left(SMALLEST_T).sum())
    end = left / (2 * s**2) + pixels / 2 * math.log(2 * math.pi * s**2)
    grid = torch.linspace(math.log(SMALLEST_T), 0, 2001, dtype=torch.float64)
    values = [
        (1 - t) / t**2 * float(IMAGES.left(t).sum()) for t in grid.exp().tolist()
    ]  # times dt = t d(log t)
    return end + float(torch.trapezoid(torch.tensor(values, dtype=torch.float64), grid))


@pytest.mark.slow
def test_the_bound_is_that_of_its_path():
    output = exact_flow(IMAGES).loss(batch_of(200_000), make_generator(0), "importance")
    nelbo = output.nelbo.double()
    error = float(nelbo.std()) / len(nelbo) ** 0.5
    assert float(nelbo.mean()) == pytest.approx(exact_bound(), abs=4.5 * error)
    assert error < 0.06
    assert output.num_real.unique().tolist() == [9]


@pytest.mark.parametrize(
    ("time_sampling", "times", "weighting"),
    [
        ("uniform", lambda u: u, "velocity"),
        ("quadratic", lambda u: u.square(), "velocity"),
        ("logit_normal", lambda u: torch.sigmoid(0.8 + 0.8 * torch.special.ndtri(u)), "velocity"),
        ("uniform", lambda u: u, "image"),
    ],
)
def test_the_loss_is_the_cut_off_error_of_the_velocity_or_of_the_image(
    time_sampling, times, weighting
):
    u = (torch.arange(4000, dtype=torch.float64) + 0.5) / 4000
    t = times(u)
    left = torch.tensor([float(IMAGES.left(x).sum()) / 9 for x in t.tolist()])
    weight = t.clamp(min=SMALLEST_T) ** (-2 if weighting == "velocity" else 0)
    expected = (left * weight).mean()
    model = exact_flow(IMAGES, time_sampling=time_sampling, weighting=weighting)
    losses = [float(model.loss(batch_of(4000), make_generator(k)).loss) for k in range(8)]
    error = torch.tensor(losses).std() / 8**0.5
    assert sum(losses) / 8 == pytest.approx(float(expected), abs=float(5 * error) + 1e-3)


class Grey(nn.Module):
    """Predicts 4 t for every pixel, with dropout."""

    def forward(self, x_t, sigma, dtn=None):
        t = -torch.expm1(-sigma).view(-1, 1, 1, 1)
        return nn.functional.dropout(4 * t.expand_as(x_t), DROPOUT, self.training)


def test_the_loss_in_training_is_of_a_prediction_with_dropout():
    """E[w (1 - 4 t d)^2] for uniform t, w = 1 / max(t, .05)^2, d of the dropout, E[d] = 1."""
    torch.manual_seed(0)
    batch = Batch(torch.ones(20_000, 1, 2, 2), torch.ones(20_000, 1, dtype=torch.bool))
    model = FlowMatching(Grey(), channels=1).train()
    of_w, of_wt, of_wt2 = 39, 1 / 2 - math.log(0.05), 1 - 0.05 * 2 / 3
    expected = of_w - 8 * of_wt + 16 * of_wt2 / (1 - DROPOUT)  # E[d^2]
    loss = float(model.loss(batch, make_generator(0)).loss)
    assert loss == pytest.approx(expected, rel=4e-3)


def test_the_bound_of_grey_images_is_its_integral_and_its_end():
    """Antiderivatives of (1 - t) / t^3 times 1, t and t^2; s = .05 / .95 at the end."""
    x0, x, c, s = torch.full((20_000, 1, 2, 2), 1.5), 1.5, 0.05, 0.05 / 0.95
    batch = Batch(x0, torch.ones(20_000, 1, dtype=torch.bool))
    model = FlowMatching(Grey(), channels=1).eval()
    output = model.loss(batch, make_generator(0), "importance")
    end = 4 * (x - 4 * c) ** 2 / (2 * s**2) + 4 / 2 * math.log(2 * math.pi * s**2)
    of_1, of_t = (1 - 1 / 2) - (1 / c - 1 / (2 * c**2)), 1 / c - 1 + math.log(c)
    of_t2 = -math.log(c) - (1 - c)
    integral = 4 * (x**2 * of_1 - 8 * x * of_t + 16 * of_t2)
    assert float(output.nelbo.mean()) == pytest.approx(end + integral, rel=1e-4)
    assert float(output.loss) == pytest.approx((end + integral) / 4, rel=1e-4)


def test_scaling_is_that_of_the_training_images():
    x0 = 3 + 2 * torch.randn(200, 1, 4, 4, generator=make_generator(0))
    model = FlowMatching(Grey(), channels=1)
    model.prepare(Batch(x0, torch.ones(200, 1, dtype=torch.bool)))
    scaled = model.scaling(x0)
    assert float(scaled.mean()) == pytest.approx(0.0, abs=1e-5)
    assert float(scaled.std()) == pytest.approx(1.0, abs=1e-3)
    assert torch.allclose(model.scaling.inverse(scaled), x0, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"time_sampling": "unform"}, "did you mean 'uniform'"),
        ({"weighting": "images"}, "did you mean 'image'"),
        ({"condition_dropout": 1.0}, "algo.condition_dropout=1.0"),
    ],
)
def test_options_that_there_are_not(options, says):
    with pytest.raises(ValueError, match=says):
        FlowMatching(Grey(), channels=1, **options)
