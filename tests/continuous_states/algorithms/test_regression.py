"""Regression and its sampler: against closed forms of Gaussian images."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from continuous_states.algorithms.fields import FlowMatching, Regression
from continuous_states.sampling import Direct, Ode
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import Batch
from discrete_diffusion.sampling import build_sampler, check_sampler
from gaussian_images import GaussianImages
from toy_samplers import fitting_samplers
from toy_world import DROPOUT

IMAGES = GaussianImages()
TRACE = float(IMAGES.world.covariance.trace())


class Mean(nn.Module):
    """E[x0 | condition] of the world, moved by ``off``; keeps what it was asked."""

    def __init__(self, off: float = 0.0) -> None:
        super().__init__()
        self.mean, self.off = nn.Parameter(IMAGES.mean.float()), off
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x_t, sigma=None, dtn=None):
        self.asked = (x_t, sigma)
        mean = dtn.flatten()[:, None] * self.mean + self.off
        return self.dropout(mean).reshape(x_t.shape)


def regression(off: float = 0.0, **options) -> Regression:
    return Regression(Mean(off), channels=1, **options).eval()


def batch_of(num: int) -> Batch:
    x0, sign = IMAGES.draw(num)
    return Batch(x0, torch.ones(num, 1, dtype=torch.bool), conditions={"dtn": sign})


def test_the_loss_is_the_variance_that_is_left_and_the_error_of_the_mean():
    off, model = 0.3, regression(0.3)
    output = model.loss(batch_of(100_000), make_generator(0))
    error = float(output.nelbo.std()) * 2 / 9 / len(output.nelbo) ** 0.5
    assert output.loss.item() == pytest.approx(TRACE / 9 + off**2, abs=4.5 * error)
    assert error < 0.005
    blank, sigma = model.backbone.asked
    assert (float(blank.abs().max()), sigma) == (0, None)  # no image and, unless wanted, no time
    model = regression(time_conditioning=True)
    model.loss(batch_of(4), make_generator(0))
    assert model.backbone.asked[1].tolist() == [0.0] * 4


def test_the_bound_is_the_entropy_and_the_divergence_from_unit_noise():
    """KL(N(m, covariance), N(m, I)) = (trace - 9 - log det) / 2."""
    output = regression().loss(batch_of(100_000), make_generator(0), "exact")
    entropy = IMAGES.world.entropy(torch.tensor([True]))
    apart = (TRACE - 9 - float(torch.logdet(IMAGES.world.covariance))) / 2
    error = float(output.nelbo.std()) / len(output.nelbo) ** 0.5
    assert apart > 20 * error
    assert float(output.nelbo.mean()) == pytest.approx(entropy + apart, abs=4.5 * error)
    assert output.num_real.unique().tolist() == [9]
    again = regression().loss(batch_of(100_000), make_generator(1))
    assert torch.equal(again.nelbo, output.nelbo)  # whatever the generator


def test_the_image_that_is_returned_is_raw_and_the_same_every_time():
    model = regression().train()
    model.scaling.fit(5 + 2 * torch.randn(400, 1, 3, 3, generator=make_generator(0)))
    _, sign = IMAGES.draw(4)
    first, second = (
        Direct().sample(
            model,
            torch.ones(4, 1, 3, 3, dtype=torch.bool),
            conditions={"dtn": sign},
            generator=make_generator(seed),
        )
        for seed in (0, 1)
    )
    assert model.training
    assert torch.equal(first.x0, second.x0)
    scaled = sign * IMAGES.mean.float().reshape(3, 3)
    torch.testing.assert_close(first.x0[:, 0], model.scaling.inverse(scaled[:, None])[:, 0])
    assert first.nfe.tolist() == [1] * 4


def test_samplers_and_algorithms_that_do_not_fit():
    assert fitting_samplers(regression()) == ["direct"]
    with pytest.raises(
        ValueError, match="regression cannot be sampled by ode; use sampling=direct"
    ):
        check_sampler(Ode(), regression())
    with pytest.raises(ValueError, match="cannot be sampled by direct; use sampling=ode"):
        check_sampler(build_sampler({"name": "direct"}), FlowMatching(Mean(), channels=1))
    with pytest.raises(ValueError, match="steps=2: sampling=direct makes one step; leave steps"):
        check_sampler(Direct(), regression(), steps=2)
    with pytest.raises(ValueError, match=r"unknown draw 'importance'\. Available: exact"):
        regression().loss(batch_of(2), make_generator(0), "importance")
