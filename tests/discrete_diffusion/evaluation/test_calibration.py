"""Calibration: the exact denoiser has it, a bent one has not, and the sums are right."""

from __future__ import annotations

import pytest
import torch
from toy_batches import ExactDenoiser, exact_mdlm, toy_batches

from discrete_diffusion.evaluation.bound import MeasurementSettings
from discrete_diffusion.evaluation.noise_levels import measure_calibration, time_of_share
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.noise_schedules import Learned
from toy_world import PADDED, ToyWorld, all_schedules, marginal_process, toy_layout

SHARES = (0.2, 0.5, 0.8)


@pytest.mark.parametrize("name", ["log_linear", "per_group"])
def test_the_exact_denoiser_is_calibrated_and_a_bent_one_is_not(name):
    batches = toy_batches(ToyWorld.make(), 12_000)
    exact, bent = (
        measure_calibration(
            exact_mdlm(name, tilt), batches, shares=SHARES, settings=MeasurementSettings((0,))
        )
        for tilt in (0.0, 4.0)
    )
    # every bin within its own noise: the frequency of n events has s.d. <= sqrt(p (1 - p) / n)
    p, n = exact.predicted, exact.num_events
    noise = (p * (1 - p) / n).sqrt()
    assert ((exact.predicted - exact.observed).abs() <= 4.5 * noise + 1e-9)[n > 0].all()
    assert exact.error.max() < 0.03
    assert bent.error[-1].min() > 2 * exact.error[-1].max()


def test_a_learned_schedule_is_asked_without_a_gradient(recwarn):
    layout = toy_layout()
    process = Absorbing(layout, Learned(layout, per="token"))
    assert time_of_share(process, 0.3) == pytest.approx(0.3, abs=1e-9)
    assert not recwarn.list


def test_other_processes_count_every_real_position():
    layout = toy_layout()
    world, process = (
        ToyWorld.make(PADDED),
        marginal_process(layout, all_schedules(layout)["cosine"]),
    )
    found = measure_calibration(
        ExactDenoiser(world, process),
        toy_batches(world, 1500),
        shares=SHARES,
        settings=MeasurementSettings((0,)),
    )
    assert (found.num_positions == 1500).all()  # a node and one edge each; the third is PAD
    assert found.error.max() < 0.06


def test_events_are_counted_once_per_legal_id():
    world, num = ToyWorld.make(), 3000
    found = measure_calibration(
        exact_mdlm(), toy_batches(world, num), shares=(0.5,), settings=MeasurementSettings((4,))
    )
    nodes, edges = found.num_positions[0].tolist()
    assert nodes == pytest.approx(num / 2, abs=4 * (num / 4) ** 0.5)
    assert edges == pytest.approx(num, abs=4 * (num / 2) ** 0.5)
    assert found.num_events[0, 0].sum() == 3 * nodes  # three legal ids
    mass = (found.num_events * found.predicted.nan_to_num()).sum(dim=2)
    hits = (found.num_events * found.observed.nan_to_num()).sum(dim=2)
    assert torch.allclose(mass, found.num_positions, rtol=1e-5)
    assert torch.allclose(hits, found.num_positions)
    bins = torch.arange(10) / 10
    seen = found.num_events > 0
    assert (found.predicted >= bins - 1e-9)[seen].all()
    assert (found.predicted <= bins + 0.1 + 1e-9)[seen].all()


def test_the_error_by_hand():
    """A uniform guess at one position: 1/3 for each of three ids, whatever the truth."""
    algorithm = exact_mdlm()
    algorithm.backbone.table = torch.zeros_like(algorithm.backbone.table)
    found = measure_calibration(
        algorithm,
        toy_batches(ToyWorld.make(), 500),
        shares=(0.9,),
        settings=MeasurementSettings((0,)),
    )
    assert found.num_events[0, 0].nonzero().flatten().tolist() == [3]
    assert found.predicted[0, 0, 3] == pytest.approx(1 / 3)
    assert found.observed[0, 0, 3] == pytest.approx(1 / 3)  # one of three ids is always true
    assert found.error[0, 0] == pytest.approx(0, abs=1e-6)
    record = found.as_dict()[0]
    assert record["group"] == "node"
    assert record["predicted"][0] is None
    assert sum(record["num_events"]) == 3 * record["num_positions"]


@pytest.mark.parametrize("name", list(all_schedules(toy_layout())))
def test_the_time_of_a_masked_share(name):
    layout = toy_layout()
    process = Absorbing(layout, all_schedules(layout)[name])
    for share in (0.01, 0.5, 0.99):
        t = torch.tensor([time_of_share(process, share)], dtype=torch.float64)
        assert process.one_minus_alpha(t).mean().item() == pytest.approx(share, abs=1e-9)


def test_shares_outside_the_open_interval_are_refused():
    with pytest.raises(ValueError, match="between 0 and 1"):
        measure_calibration(exact_mdlm(), [], shares=(0.5, 1.0), settings=MeasurementSettings((0,)))


def test_the_network_is_told_the_time_of_each_share():
    """At which the node is masked with probability t^2 and both edges with t."""
    algorithm, told = exact_mdlm("per_group", 4.0), []
    answer = algorithm.logits

    def logits(x_t, t, real, conditions=None):
        told.append(t)
        return answer(x_t, t, real, conditions)

    algorithm.logits = logits
    measure_calibration(
        algorithm,
        toy_batches(ToyWorld.make(), 30),
        shares=(0.2, 0.7),
        settings=MeasurementSettings((0,)),
    )
    for share, t in zip((0.2, 0.7), told, strict=True):
        expected = (1 + 3 * share) ** 0.5 - 1
        torch.testing.assert_close(t, torch.full((30,), expected, dtype=torch.float64))
