"""Masked features: bounds and losses against closed forms of the Gaussian world."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from torch import nn

from continuous_states.algorithms.masked_features import MaskedFeatures
from continuous_states.networks.get_region import GetRegion
from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.cli import compose
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing, Uniform
from discrete_diffusion.noise_schedules import Cosine, Learned, LogLinear
from gaussian_world import ExactRows, GaussianWorld, exact_model, row_layout
from toy_world import DROPOUT

WORLD = GaussianWorld(num_rows=4, num_features=2)


def subsets(num: int) -> list[torch.Tensor]:
    return [torch.tensor(bits) for bits in product([False, True], repeat=num)]


def exact_bound(world: GaussianWorld) -> float:
    """E over the data and over orders of sum_i -log N(x_i; E[x_i | earlier rows], I)."""
    total, num = 0.0, world.num_rows
    for hidden in subsets(num):  # each is met with probability 1 / C(N, h)
        h = int(hidden.sum())
        if h == 0:
            continue
        left = world.given(hidden)[1]
        per_set = float(left.trace()) / 2 + h * world.num_features / 2 * math.log(2 * math.pi)
        total += per_set / h / math.comb(num, h)
    return total


def batch_of(world: GaussianWorld, num: int) -> Batch:
    x0 = world.draw(num)
    return Batch(x0, torch.ones(x0.shape[:2], dtype=torch.bool))


@pytest.mark.parametrize(
    ("schedule", "draw"),
    [(LogLinear(), "low_discrepancy"), (Cosine(), "uniform_count")],
    ids=["low discrepancy", "forced mask of another schedule"],
)
def test_the_bound_is_that_of_every_order(schedule, draw):
    model = exact_model(WORLD, schedule=schedule)
    nelbo = model.loss(batch_of(WORLD, 20_000), make_generator(0), draw).nelbo.double()
    error = float(nelbo.std()) / len(nelbo) ** 0.5
    assert float(nelbo.mean()) == pytest.approx(exact_bound(WORLD), abs=4.5 * error)
    assert error < 0.2


def exact_ddpm_bound(world: GaussianWorld, model: MaskedFeatures, hidden: torch.Tensor) -> float:
    """DDPM's bound on the hidden rows given the others, averaged over the data: by closed forms."""
    gaussian = model.gaussian
    numbers = int(world.numbers(hidden).sum())
    kept = gaussian.kept.tolist()  # alpha_bar of steps -1, 0, ..., T - 1
    last = kept[-1]
    spread = float(world.covariance[world.numbers(hidden)][:, world.numbers(hidden)].trace())
    total = (last * spread - numbers * (last + math.log1p(-last))) / 2
    total += numbers / 2 * math.log(2 * math.pi * gaussian.beta_start)
    for k in range(gaussian.num_timesteps):
        left = float(world.given(hidden, kept[k + 1])[1].trace())
        before = kept[k] / (1 - kept[k]) if k else None
        after = kept[k + 1] / (1 - kept[k + 1])
        weight = 1 / gaussian.beta_start if before is None else before - after
        total += weight * left / 2
    return total


@pytest.mark.parametrize(
    ("draw", "most", "num", "end"),
    [(None, 0.2, 12, 0.5), ("uniform_count", 0.08, 3, 0.2)],
    ids=["uniform steps to noise", "important steps halfway, where the prior costs most"],
)
def test_the_bound_of_ddpm_is_that_of_its_steps(draw, most, num, end):
    model = exact_model(WORLD, objective="ddpm", num_timesteps=num, beta_start=0.02, beta_end=end)
    hidden = torch.tensor([True, False, True, False])
    model.sample_rows = lambda real, generator, draw=None: (hidden.expand_as(real), real.double())
    output = model.loss(batch_of(WORLD, 40_000), make_generator(0), draw)
    nelbo = output.nelbo.double()
    error = float(nelbo.std()) / len(nelbo) ** 0.5
    expected = exact_ddpm_bound(WORLD, model, hidden)
    assert float(nelbo.mean()) == pytest.approx(expected, abs=4.5 * error)
    assert error < most
    assert expected > WORLD.entropy(hidden)
    assert output.num_real.tolist() == [2] * 40_000


def process(num_rows: int) -> Absorbing:
    return Absorbing(row_layout(num_rows), LogLinear())


def network(num_features: int = 3, **options: object) -> GetRegion:
    return GetRegion(
        num_features=num_features, d_model=8, n_layers=1, n_heads=2, dropout=DROPOUT, **options
    )


def random_network(num_features: int = 3) -> GetRegion:
    torch.manual_seed(0)
    net = network(num_features)
    for parameter in net.parameters():
        nn.init.normal_(parameter, std=0.3)
    return net


def random_batch(num: int = 5, num_rows: int = 6) -> Batch:
    generator = torch.Generator().manual_seed(3)
    real = torch.arange(num_rows) < torch.tensor([num_rows] * (num - 1) + [num_rows - 2])[:, None]
    x0 = 2 + 3 * torch.randn(num, num_rows, 3, generator=generator)
    return Batch(x0.masked_fill(~real.unsqueeze(-1), 0.0), real)


@pytest.mark.parametrize("objective", ["mask", "ddpm"])
def test_at_initialisation_the_loss_is_the_masked_second_moment(objective):
    batch = random_batch()
    model = MaskedFeatures(network(), process(6), num_features=3, objective=objective)
    model.prepare(batch)
    masked, _ = model.sample_rows(batch.real, make_generator(0))
    expected = model.scaling(batch.x0)[masked].square().mean()
    loss = model.loss(batch, make_generator(0)).loss.item()
    assert loss == pytest.approx(expected.item(), abs=1e-6)


class Share(nn.Module):
    """Predicts its time, the share of rows that are masked; with dropout."""

    def forward(self, x_t, sigma, real=None, masked=None, noisy=None):
        share = -torch.expm1(-sigma)[:, None, None].expand_as(x_t)
        return nn.functional.dropout(share, DROPOUT, self.training)


def test_only_masked_rows_are_targets():
    batch = random_batch()
    model = MaskedFeatures(Share(), process(6), num_features=3, normalise="none").eval()
    masked, _ = model.sample_rows(batch.real, make_generator(0))

    def loss(x0):
        return float(model.loss(Batch(x0, batch.real), make_generator(0)).loss)

    share = masked.sum(dim=1) / batch.real.sum(dim=1)
    errors = batch.x0 - share.clamp(max=1 - 1e-4)[:, None, None]
    assert loss(batch.x0) == pytest.approx(float(errors[masked].square().mean()), rel=1e-4)
    elsewhere = torch.where(masked.unsqueeze(-1), batch.x0, batch.x0 + 7)
    assert loss(elsewhere) == loss(batch.x0)
    assert loss(torch.where(masked.unsqueeze(-1), batch.x0 + 7, batch.x0)) > loss(batch.x0)


@pytest.mark.parametrize("objective", ["mask", "ddpm"])
def test_a_prediction_does_not_read_what_it_predicts(objective):
    batch = random_batch()
    model = MaskedFeatures(random_network(), process(6), num_features=3, objective=objective).eval()
    masked, _ = model.sample_rows(batch.real, make_generator(1))
    hidden = masked.unsqueeze(-1)
    found = model.predict(batch.x0, masked, batch.real)
    again = model.predict(batch.x0.masked_fill(hidden, torch.nan), masked, batch.real)
    assert torch.equal(found, again)
    assert torch.equal(found[~masked], batch.x0[~masked])
    assert not torch.allclose(found[masked], batch.x0[masked])
    assert not found.requires_grad


@pytest.mark.parametrize("objective", ["mask", "ddpm"])
def test_a_step_trains_every_parameter(objective):
    batch = random_batch()
    model = MaskedFeatures(random_network(), process(6), num_features=3, objective=objective)
    model.loss(batch, make_generator(0)).loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_predictions_are_in_the_units_of_the_data():
    """The exact network of the scaled world gives the exact prediction of the raw one."""
    x0 = 5 + 2 * WORLD.draw(400)
    batch = Batch(x0, torch.ones(x0.shape[:2], dtype=torch.bool))
    model = exact_model(WORLD, normalise="zscore")
    model.scaling.shift.fill_(5.0)
    model.scaling.scale.fill_(2.0)
    masked, _ = model.sample_rows(batch.real, make_generator(0))
    plain = exact_model(WORLD).predict((x0 - 5) / 2, masked, batch.real)
    found = model.predict(x0, masked, batch.real)
    assert torch.allclose(found[masked], 5 + 2 * plain[masked], atol=1e-4)


def told(model: MaskedFeatures) -> torch.Tensor:
    """The times a network was told in its last call."""
    assert isinstance(model.backbone, ExactRows)
    sigma = model.backbone.sigmas[-1]
    assert sigma is not None
    return -torch.expm1(-sigma)


def test_the_network_is_told_the_mask_rate_or_a_random_time_in_training_or_none():
    model, batch = exact_model(WORLD, network_time="random"), batch_of(WORLD, 4000)
    model.train()
    masked, _ = model.sample_rows(batch.real, make_generator(0))
    model.loss(batch, make_generator(0))
    share, times = masked.float().mean(dim=1), told(model)
    assert abs(float(torch.corrcoef(torch.stack([share, times]))[0, 1])) < 0.05
    assert torch.allclose(times.sort().values, torch.arange(4000) / 4000, atol=2e-3)  # all of them
    for exact in (model.eval(), exact_model(WORLD)):
        exact.loss(batch, make_generator(0))
        assert torch.allclose(told(exact), share.clamp(max=1 - 1e-4), atol=1e-6)
    timeless = exact_model(WORLD, time_conditioning=False)
    timeless.loss(batch, make_generator(0))
    assert timeless.backbone.sigmas == [None]


@pytest.mark.parametrize("rate", [0.1, 0.5, 1.0])
def test_a_fixed_mask_rate(rate):
    world = GaussianWorld(num_rows=8, num_features=1)
    model = exact_model(world, mask_rate=rate)
    real = torch.ones(5000, 8, dtype=torch.bool)
    real[0, 5:] = False
    masked, weight = model.sample_rows(real, make_generator(0))
    assert masked.any(dim=1).all()
    assert not (masked & ~real).any()
    assert weight.isnan().all()
    expected = rate + (1 - rate) ** 8 / 8  # a window of which no row was hidden gets one
    assert float(masked[1:].double().mean()) == pytest.approx(expected, abs=0.012)
    assert (
        not model.loss(batch_of(world, 4), make_generator(0), "uniform_count").nelbo.isnan().any()
    )


@pytest.mark.slow
def test_the_elbo_of_ddpm_is_minimised_by_important_steps():
    batch = batch_of(WORLD, 64)
    model = exact_model(WORLD, objective="ddpm", weighting="elbo")
    losses = [float(model.loss(batch, make_generator(k)).loss) for k in range(30)]
    assert torch.tensor(losses).std() < 1.5


def test_the_elbo_can_be_minimised():
    batch = batch_of(WORLD, 30)
    output = exact_model(WORLD, weighting="elbo").loss(batch, make_generator(0))
    assert float(output.loss) == pytest.approx(float(output.nelbo.mean()) / 8, rel=1e-5)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"objective": "masks"}, "did you mean 'mask'"),
        ({"normalise": "z-score"}, "did you mean 'zscore'"),
        ({"weighting": "elb"}, "did you mean 'elbo'"),
        ({"network_time": "mask"}, "did you mean 'mask_rate'"),
        ({"time_sampling": "uniform_cnt"}, "did you mean 'uniform_count'"),
        ({"mask_rate": 0.0}, "algo.mask_rate=0.0: expected a number in"),
        ({"mask_rate": 0.5, "weighting": "elbo"}, "leave one of the two out"),
        (
            {"objective": "ddpm", "network_time": "random"},
            "network_time=random is for algo.objective=mask",
        ),
    ],
)
def test_options_that_there_are_not(options, says):
    with pytest.raises(ValueError, match=says):
        MaskedFeatures(network(), process(6), num_features=3, **options)


def test_parts_that_do_not_fit():
    with pytest.raises(ValueError, match="set forward_process=absorbing"):
        MaskedFeatures(network(), Uniform(row_layout(6), LogLinear()), num_features=3)
    with pytest.raises(ValueError, match="cannot learn a noise schedule"):
        MaskedFeatures(network(), Absorbing(row_layout(6), Learned(row_layout(6))), num_features=3)
    with pytest.raises(ValueError, match=r"data.num_features is not set; .* complete_data\(config"):
        build_algorithm(compose("train", ["algo=masked-features"]))
