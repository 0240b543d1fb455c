"""The bound by time: its area is the bound, and the bound of the exact denoiser is the entropy."""

from __future__ import annotations

import math

import pytest
import torch
from toy_batches import ExactDenoiser, exact_mdlm, toy_batches

from discrete_diffusion.algorithms import BD3LM, general_bound
from discrete_diffusion.evaluation.bound import MeasurementSettings, estimate_bound
from discrete_diffusion.evaluation.noise_levels import bound_by_time
from discrete_diffusion.forward_process import Absorbing
from toy_algorithms import TOYS
from toy_world import (
    FULL,
    PADDED,
    ExactBlockBackbone,
    ToyWorld,
    all_schedules,
    toy_layout,
    uniform_process,
)


@pytest.mark.parametrize("name", ["log_linear", "cosine", "per_group"])
@pytest.mark.parametrize("tilt", [0.0, 2.0])
def test_the_area_is_the_bound_of_the_same_model(name, tilt):
    algorithm, batches = exact_mdlm(name, tilt), toy_batches(ToyWorld.make(), 2500)
    by_time = bound_by_time(algorithm, batches, num_bins=8, settings=MeasurementSettings((0,)))
    bound = estimate_bound(
        algorithm, batches, quantity="plain", draws=2, settings=MeasurementSettings((0,))
    )
    error = math.hypot(by_time.nelbo_standard_error, bound.standard_error)
    assert by_time.nelbo == pytest.approx(bound.per_sample, abs=4 * error)
    assert by_time.num_samples == 2500


@pytest.mark.parametrize("real", [FULL, PADDED], ids=["full", "padded"])
def test_with_the_exact_denoiser_it_integrates_to_the_entropy(real):
    world = ToyWorld.make(real)
    by_time = bound_by_time(
        exact_mdlm(), toy_batches(world, 4000), num_bins=8, settings=MeasurementSettings((1,))
    )
    assert by_time.nelbo == pytest.approx(world.entropy, abs=4 * by_time.nelbo_standard_error)
    assert by_time.nelbo_standard_error < 0.04
    if real is FULL:
        assert (by_time.cross_entropy < by_time.uniform).all()


@pytest.mark.slow
def test_other_processes_integrate_to_the_entropy_too():
    layout = toy_layout()
    world, process = ToyWorld.make(), uniform_process(layout, all_schedules(layout)["cosine"])
    by_time = bound_by_time(
        ExactDenoiser(world, process),
        toy_batches(world, 1000),
        num_bins=8,
        settings=MeasurementSettings((2,)),
    )
    assert by_time.nelbo == pytest.approx(world.entropy, abs=4 * by_time.nelbo_standard_error)
    assert by_time.nelbo_standard_error < 0.18
    assert world.sum_log_k - world.entropy > 4 * by_time.nelbo_standard_error  # a guess would fail


def test_groups_add_up_and_bins_are_means_over_samples():
    """Exact for log-linear masking with a uniform guess: it is sum_l log K_l at any t."""
    algorithm = exact_mdlm()
    algorithm.backbone.table = torch.zeros_like(algorithm.backbone.table)
    layout = algorithm.layout
    by_time = bound_by_time(
        algorithm,
        toy_batches(ToyWorld.make(), 8000, batch_size=8000),
        num_bins=4,
        settings=MeasurementSettings((3,)),
    )
    expected = [layout.num_legal[layout.group == g].double().log().sum() for g in range(2)]
    assert (by_time.integrand[1:] - torch.stack(expected)).abs().max() < 0.2
    assert torch.allclose(by_time.uniform, torch.stack([expected[0], expected[1] / 2]), atol=1e-9)
    nodes = by_time.cross_entropy[:, 0]
    assert torch.allclose(nodes, torch.full_like(nodes, math.log(3)), atol=1e-6)
    assert by_time.nelbo == pytest.approx(float(by_time.integrand.sum(1).mean()))
    assert by_time.nelbo == pytest.approx(
        float(layout.num_legal.double().log().sum()), abs=4 * by_time.nelbo_standard_error
    )
    assert by_time.nelbo_standard_error < 0.05
    assert by_time.edges.tolist() == [0, 0.25, 0.5, 0.75, 1]


@pytest.mark.parametrize("training", [True, False])
def test_the_mode_is_put_back(training):
    algorithm = exact_mdlm().train(training)
    seen = []
    algorithm.backbone.register_forward_hook(lambda module, *_: seen.append(module.training))
    bound_by_time(
        algorithm, toy_batches(ToyWorld.make(), 4), num_bins=2, settings=MeasurementSettings((0,))
    )
    assert algorithm.training is training
    assert seen == [False, False]


def test_every_bin_and_batch_has_noise_of_its_own():
    """The place of the times within their bins says which numbers were drawn."""
    algorithm, places = exact_mdlm(), []
    answer = algorithm.logits

    def logits(x_t, t, real, conditions=None):
        places.append(float((t[0] * 4) % 1))
        return answer(x_t, t, real, conditions)

    algorithm.logits = logits
    bound_by_time(
        algorithm,
        toy_batches(ToyWorld.make(), 6, batch_size=3),
        num_bins=4,
        settings=MeasurementSettings((0,)),
    )
    assert len(places) == 2 * 4
    assert len({round(place, 6) for place in places}) == len(places)


def test_algorithms_with_blocks_see_the_blocks_before_clean():
    """Else the area would be that of tokens that are drawn all at once, and above the entropy."""
    world, layout = ToyWorld.make(), toy_layout()
    process = Absorbing(layout, all_schedules(layout)["log_linear"])
    algorithm = BD3LM(ExactBlockBackbone(process), process, block_lengths=[1, 2])
    by_time = bound_by_time(
        algorithm, toy_batches(world, 4000), num_bins=8, settings=MeasurementSettings((1,))
    )
    assert by_time.nelbo == pytest.approx(world.entropy, abs=4 * by_time.nelbo_standard_error)
    assert by_time.nelbo_standard_error < 0.04


def test_it_repeats_with_its_seed_and_is_plain_json():
    algorithm, batches = exact_mdlm(), toy_batches(ToyWorld.make(), 50)
    one, same, other = (
        bound_by_time(algorithm, batches, settings=MeasurementSettings((s,))).as_dict()
        for s in (0, 0, 1)
    )
    assert one == same
    assert one["area"] != other["area"]
    assert set(one["integrand"]) == {"node", "edge"}
    assert len(one["t"]) == len(one["integrand"]["node"]) == 20


def test_a_bin_without_masks_says_so():
    """Two samples, and bins so fine that nothing is masked in the first of them."""
    by_time = bound_by_time(
        exact_mdlm(),
        toy_batches(ToyWorld.make(), 2),
        num_bins=100,
        settings=MeasurementSettings((0,)),
    )
    assert by_time.cross_entropy[0].isnan().all()
    assert by_time.as_dict()["cross_entropy_per_token"]["node"][0] is None
    assert math.isfinite(by_time.nelbo)


def test_nothing_to_measure_is_refused():
    with pytest.raises(ValueError, match="no samples"):
        bound_by_time(exact_mdlm(), [], settings=MeasurementSettings((0,)))
    with pytest.raises(ValueError, match="num_bins=0"):
        bound_by_time(exact_mdlm(), [], num_bins=0, settings=MeasurementSettings((0,)))


@pytest.mark.parametrize("name", ["mdlm", "udlm"])
def test_each_bin_is_the_integrand_at_the_times_the_network_was_told(name):
    """Computed again from what it was asked; the times lie in their bins."""
    world, num = ToyWorld.make(), 4
    algorithm = TOYS[name].exact(all_schedules(world.layout)["per_group"], tilt=3.0)
    (batch,) = toy_batches(world, 200)
    calls: list[tuple[torch.Tensor, ...]] = []
    answer = algorithm.log_prediction

    def log_prediction(x_t, t, real, conditions=None):
        calls.append((x_t, t, answer(x_t, t, real, conditions)))
        return calls[-1][2]

    algorithm.log_prediction = log_prediction
    found = bound_by_time(algorithm, [batch], num_bins=num, settings=MeasurementSettings((0,)))
    assert len(calls) == num
    for k, (x_t, t, log_d0) in enumerate(calls):
        assert ((t * num >= k) & (t * num <= k + 1)).all()
        terms = general_bound(algorithm.process, x_t, batch.x0, log_d0, t, batch.real)
        expected = torch.stack([terms[:, :1].sum(), terms[:, 1:].sum()]).double() / len(batch)
        torch.testing.assert_close(found.integrand[k], expected)
