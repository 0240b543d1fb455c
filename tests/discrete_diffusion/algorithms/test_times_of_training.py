"""The time that a network is told in training is the one at which its batch was corrupted.

What a loss should be is computed from what the network was asked: the noise, and the time it was
told. Groups whose noise differs and mixed sizes make another time another number.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from discrete_diffusion.algorithms import MDLM, TokenAlgorithm, general_bound
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing
from toy_algorithms import TOYS
from toy_world import FULL, MASK, PADDED, ExactBackbone, ToyWorld, all_schedules, toy_layout

PER_GROUP = all_schedules(toy_layout())["per_group"]
EXPONENT = torch.tensor([2.0, 1.0, 1.0], dtype=torch.float64)
"""1 - alpha = t^w: of the node and of both edges."""


def mixed() -> Batch:
    """Samples of both sizes."""
    worlds = [ToyWorld.make(FULL), ToyWorld.make(PADDED)]
    real = torch.cat([world.real.expand(len(world.x0), -1) for world in worlds])
    return Batch(torch.cat([world.x0 for world in worlds]), real)


def asked(algorithm: TokenAlgorithm) -> list[tuple[Tensor, Tensor, Tensor]]:
    """What the network is asked from now on, and what it says: x_t, t, log D."""
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    answer = algorithm.denoise

    def denoise(x_t: Tensor, t: Tensor, real: Tensor, conditions=None) -> Tensor:
        found.append((x_t, t, answer(x_t, t, real, conditions)))
        return found[-1][2]

    algorithm.denoise = denoise  # type: ignore[method-assign]
    return found


def told(kind: type[TokenAlgorithm], backbone: type = ExactBackbone, **options) -> TokenAlgorithm:
    process = Absorbing(toy_layout(), PER_GROUP)
    return kind(backbone(process, tilt=3.0), process, **options)


@pytest.mark.parametrize("draw", ["low_discrepancy"])
def test_masked_diffusion_is_told_the_time_that_weighs_its_terms(draw):
    """w_l / t for each MASK of position l."""
    algorithm, batch = told(MDLM), mixed()
    found = asked(algorithm)
    nelbo = algorithm.loss(batch, make_generator(0), draw).nelbo
    ((x_t, t, log_d0),) = found
    weight = (x_t == MASK) * EXPONENT / t.unsqueeze(1)
    expected = (weight * algorithm.cross_entropy(log_d0, batch)).sum(dim=1)
    torch.testing.assert_close(nelbo, expected.float(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["gidd", "matrix-gaussian", "sedd-uniform"])
def test_other_noise_is_told_the_time_of_its_bound(name):
    algorithm, batch = TOYS[name].exact(PER_GROUP, tilt=2.0), mixed()
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    answer = algorithm.log_prediction

    def log_prediction(x_t: Tensor, t: Tensor, real: Tensor, conditions=None) -> Tensor:
        found.append((x_t, t, answer(x_t, t, real, conditions)))
        return found[-1][2]

    algorithm.log_prediction = log_prediction  # type: ignore[method-assign]
    nelbo = algorithm.loss(batch, make_generator(0), "uniform").nelbo
    ((x_t, t, log_d0),) = found
    bound = general_bound(algorithm.process, x_t, batch.x0, log_d0, t, batch.real)
    torch.testing.assert_close(nelbo, bound.sum(dim=1).float(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["d3pm-absorbing", "d3pm-uniform"])
def test_a_model_of_steps_is_told_where_its_step_begins(name):
    """T times the term of the step from t to t - 1 / T."""
    algorithm, batch = TOYS[name].exact(PER_GROUP, tilt=2.0), mixed()
    found, num = asked(algorithm), algorithm.num_steps
    nelbo = algorithm.loss(batch, make_generator(0), "uniform").nelbo
    ((x_t, t, log_d0),) = found
    terms = algorithm.step_terms(x_t, batch.x0, log_d0, t, t - 1 / num)
    expected = num * terms.masked_fill(~batch.real, 0.0).sum(dim=1)
    torch.testing.assert_close(nelbo, expected.float(), rtol=1e-4, atol=1e-5)
