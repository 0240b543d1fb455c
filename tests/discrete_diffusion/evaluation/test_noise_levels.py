"""The bound by time and calibration, on the exact denoiser of the enumerable world."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from discrete_diffusion.algorithms import BD3LM, MDLM, TokenAlgorithm, general_bound
from discrete_diffusion.categorical import log_softmax_on, make_generator
from discrete_diffusion.contracts import Batch
from discrete_diffusion.evaluation.bound import MeasurementSettings, estimate_bound
from discrete_diffusion.evaluation.noise_levels import (
    BoundByTime,
    Calibration,
    bound_by_time,
    measure_calibration,
    time_of_share,
)
from discrete_diffusion.forward_process import Absorbing, ForwardProcess
from discrete_diffusion.noise_schedules import Learned
from toy_algorithms import TOYS
from toy_world import (
    FULL,
    PADDED,
    ExactBackbone,
    ExactBlockBackbone,
    ToyWorld,
    all_schedules,
    marginal_process,
    toy_layout,
    uniform_process,
)

SHARES = (0.2, 0.5, 0.8)


def exact_mdlm(schedule: str = "log_linear", tilt: float = 0.0) -> MDLM:
    layout = toy_layout()
    process = Absorbing(layout, all_schedules(layout)[schedule])
    return MDLM(ExactBackbone(process, tilt), process)


def guessing_mdlm() -> MDLM:
    """It gives every legal id the same probability."""
    algorithm = exact_mdlm()
    algorithm.backbone.table = torch.zeros_like(algorithm.backbone.table)
    return algorithm


class ExactDenoiser(TokenAlgorithm):
    """The Bayes-optimal leave-one-out D of any process, straight from the enumerated world."""

    name = "exact"
    processes = ("absorbing", "uniform", "fixed")
    evaluation_draw = "uniform"

    def __init__(self, world: ToyWorld, process: ForwardProcess) -> None:
        super().__init__(nn.Identity(), process, time_conditioning=False)
        self.world = world

    def loss(self, batch, generator, draw=None):
        raise NotImplementedError

    def denoise(self, x_t, t, real, conditions=None):
        log_d0 = torch.zeros(*x_t.shape, self.layout.vocab_size, dtype=torch.float64)
        for time in t.unique():
            rows = t == time
            log_d0[rows] = self.world.log_d0(self.process, x_t[rows], time[None])
        return log_softmax_on(log_d0, self.layout.support)


def toy_batches(num: int, batch_size: int = 4000, world: ToyWorld | None = None) -> list[Batch]:
    """Samples of the world's exact distribution."""
    world = world or ToyWorld.make()
    rows = torch.multinomial(world.prob, num, replacement=True, generator=make_generator(9))
    return [
        Batch(world.x0[part], world.real.expand(len(part), -1)) for part in rows.split(batch_size)
    ]


def by_time(algorithm: TokenAlgorithm, batches: list[Batch], seed=0, **options) -> BoundByTime:
    return bound_by_time(algorithm, batches, settings=MeasurementSettings((seed,)), **options)


def calibration(algorithm: TokenAlgorithm, batches: list[Batch], *shares: float) -> Calibration:
    settings = MeasurementSettings((0,))
    return measure_calibration(algorithm, batches, shares=shares or SHARES, settings=settings)


@pytest.mark.parametrize("name", ["log_linear", "per_group"])
@pytest.mark.parametrize("tilt", [0.0, 2.0])
def test_the_area_is_the_bound_of_the_same_model(name, tilt):
    algorithm, batches = exact_mdlm(name, tilt), toy_batches(2500)
    found = by_time(algorithm, batches, num_bins=8)
    settings = MeasurementSettings((0,))
    bound = estimate_bound(algorithm, batches, quantity="plain", draws=2, settings=settings)
    error = math.hypot(found.nelbo_standard_error, bound.standard_error)
    assert found.nelbo == pytest.approx(bound.per_sample, abs=4 * error)
    assert found.num_samples == 2500


@pytest.mark.parametrize("real", [FULL, PADDED], ids=["full", "padded"])
def test_with_the_exact_denoiser_it_integrates_to_the_entropy(real):
    world = ToyWorld.make(real)
    found = by_time(exact_mdlm(), toy_batches(4000, world=world), seed=1, num_bins=8)
    assert found.nelbo == pytest.approx(world.entropy, abs=4 * found.nelbo_standard_error)
    assert found.nelbo_standard_error < 0.04
    if real is FULL:
        assert (found.cross_entropy < found.uniform).all()


@pytest.mark.slow
def test_other_processes_integrate_to_the_entropy_too():
    layout = toy_layout()
    world, process = ToyWorld.make(), uniform_process(layout, all_schedules(layout)["cosine"])
    found = by_time(ExactDenoiser(world, process), toy_batches(1000), seed=2, num_bins=8)
    assert found.nelbo == pytest.approx(world.entropy, abs=4 * found.nelbo_standard_error)
    assert found.nelbo_standard_error < 0.18
    assert world.sum_log_k - world.entropy > 4 * found.nelbo_standard_error  # a guess would fail


def test_algorithms_with_blocks_see_the_blocks_before_clean():
    """Else the area would be that of tokens that are drawn all at once, and above the entropy."""
    process = Absorbing(toy_layout(), all_schedules(toy_layout())["log_linear"])
    algorithm = BD3LM(ExactBlockBackbone(process), process, block_lengths=[1, 2])
    found = by_time(algorithm, toy_batches(4000), seed=1, num_bins=8)
    entropy = ToyWorld.make().entropy
    assert found.nelbo == pytest.approx(entropy, abs=4 * found.nelbo_standard_error)
    assert found.nelbo_standard_error < 0.04


def test_groups_add_up_and_bins_are_means_over_samples():
    """Exact for log-linear masking with a uniform guess: it is sum_l log K_l at any t."""
    layout = toy_layout()
    found = by_time(guessing_mdlm(), toy_batches(8000, 8000), seed=3, num_bins=4)
    expected = [layout.num_legal[layout.group == g].double().log().sum() for g in range(2)]
    assert (found.integrand[1:] - torch.stack(expected)).abs().max() < 0.2
    assert torch.allclose(found.uniform, torch.stack([expected[0], expected[1] / 2]), atol=1e-9)
    nodes = found.cross_entropy[:, 0]
    assert torch.allclose(nodes, torch.full_like(nodes, math.log(3)), atol=1e-6)
    assert found.nelbo == pytest.approx(float(found.integrand.sum(1).mean()))
    whole = float(layout.num_legal.double().log().sum())
    assert found.nelbo == pytest.approx(whole, abs=4 * found.nelbo_standard_error)
    assert found.nelbo_standard_error < 0.05
    assert found.edges.tolist() == [0, 0.25, 0.5, 0.75, 1]


@pytest.mark.parametrize("training", [True, False])
def test_the_mode_is_put_back(training):
    algorithm, seen = exact_mdlm().train(training), []
    algorithm.backbone.register_forward_hook(lambda module, *_: seen.append(module.training))
    by_time(algorithm, toy_batches(4), num_bins=2)
    assert algorithm.training is training
    assert seen == [False, False]


def test_every_bin_and_batch_has_noise_of_its_own():
    """The place of the times within their bins says which numbers were drawn."""
    algorithm, places = exact_mdlm(), []
    answer = algorithm.logits

    def logits(x_t, t, real, conditions=None):
        places.append(round(float((t[0] * 4) % 1), 6))
        return answer(x_t, t, real, conditions)

    algorithm.logits = logits
    by_time(algorithm, toy_batches(6, 3), num_bins=4)
    assert len(set(places)) == len(places) == 2 * 4


def test_it_repeats_with_its_seed_and_is_plain_json():
    algorithm, batches = exact_mdlm(), toy_batches(50)
    one, same, other = (by_time(algorithm, batches, seed=s).as_dict() for s in (0, 0, 1))
    assert one == same
    assert one["area"] != other["area"]
    assert set(one["integrand"]) == {"node", "edge"}
    assert len(one["t"]) == len(one["integrand"]["node"]) == 20
    # bins so fine that nothing is masked in the first of them
    fine = by_time(algorithm, toy_batches(2), num_bins=100)
    assert fine.cross_entropy[0].isnan().all()
    assert fine.as_dict()["cross_entropy_per_token"]["node"][0] is None
    assert math.isfinite(fine.nelbo)


@pytest.mark.parametrize("name", ["mdlm", "udlm"])
def test_each_bin_is_the_integrand_at_the_times_the_network_was_told(name):
    """Computed again from what it was asked; the times lie in their bins."""
    algorithm = TOYS[name].exact(all_schedules(toy_layout())["per_group"], tilt=3.0)
    (batch,) = toy_batches(200)
    calls: list[tuple[torch.Tensor, ...]] = []
    answer = algorithm.log_prediction

    def log_prediction(x_t, t, real, conditions=None):
        calls.append((x_t, t, answer(x_t, t, real, conditions)))
        return calls[-1][2]

    algorithm.log_prediction = log_prediction
    found = by_time(algorithm, [batch], num_bins=4)
    assert len(calls) == 4
    for k, (x_t, t, log_d0) in enumerate(calls):
        assert ((t * 4 >= k) & (t * 4 <= k + 1)).all()
        terms = general_bound(algorithm.process, x_t, batch.x0, log_d0, t, batch.real)
        expected = torch.stack([terms[:, :1].sum(), terms[:, 1:].sum()]).double() / len(batch)
        torch.testing.assert_close(found.integrand[k], expected)


def test_nothing_to_measure_is_refused():
    with pytest.raises(ValueError, match="no samples"):
        by_time(exact_mdlm(), [])


@pytest.mark.parametrize("name", ["log_linear", "per_group"])
def test_the_exact_denoiser_is_calibrated_and_a_bent_one_is_not(name):
    batches = toy_batches(12_000)
    exact, bent = (calibration(exact_mdlm(name, tilt), batches) for tilt in (0.0, 4.0))
    # every bin within its own noise: the frequency of n events has s.d. <= sqrt(p (1 - p) / n)
    p, n = exact.predicted, exact.num_events
    noise = (p * (1 - p) / n).sqrt()
    assert ((exact.predicted - exact.observed).abs() <= 4.5 * noise + 1e-9)[n > 0].all()
    assert exact.error.max() < 0.03
    assert bent.error[-1].min() > 2 * exact.error[-1].max()


def test_other_processes_count_every_real_position():
    world = ToyWorld.make(PADDED)
    process = marginal_process(toy_layout(), all_schedules(toy_layout())["cosine"])
    found = calibration(ExactDenoiser(world, process), toy_batches(1500, world=world))
    assert (found.num_positions == 1500).all()  # a node and one edge each; the third is PAD
    assert found.error.max() < 0.06


def test_events_are_counted_once_per_legal_id():
    num = 3000
    found = calibration(exact_mdlm(), toy_batches(num), 0.5)
    nodes, edges = found.num_positions[0].tolist()
    assert nodes == pytest.approx(num / 2, abs=4 * (num / 4) ** 0.5)
    assert edges == pytest.approx(num, abs=4 * (num / 2) ** 0.5)
    assert found.num_events[0, 0].sum() == 3 * nodes  # three legal ids
    mass = (found.num_events * found.predicted.nan_to_num()).sum(dim=2)
    hits = (found.num_events * found.observed.nan_to_num()).sum(dim=2)
    assert torch.allclose(mass, found.num_positions, rtol=1e-5)
    assert torch.allclose(hits, found.num_positions)
    bins, seen = torch.arange(10) / 10, found.num_events > 0
    assert (found.predicted >= bins - 1e-9)[seen].all()
    assert (found.predicted <= bins + 0.1 + 1e-9)[seen].all()


def test_the_error_by_hand():
    """A uniform guess at one position: 1/3 for each of three ids, whatever the truth."""
    found = calibration(guessing_mdlm(), toy_batches(500), 0.9)
    assert found.num_events[0, 0].nonzero().flatten().tolist() == [3]
    assert found.predicted[0, 0, 3] == pytest.approx(1 / 3)
    assert found.observed[0, 0, 3] == pytest.approx(1 / 3)  # one of three ids is always true
    assert found.error[0, 0] == pytest.approx(0, abs=1e-6)
    record = found.as_dict()[0]
    assert record["group"] == "node"
    assert record["predicted"][0] is None
    assert sum(record["num_events"]) == 3 * record["num_positions"]


@pytest.mark.parametrize("name", [*all_schedules(toy_layout()), "learned"])
def test_the_time_of_a_masked_share(name, recwarn):
    layout = toy_layout()
    schedules = {**all_schedules(layout), "learned": Learned(layout, exponent_per="token")}
    process = Absorbing(layout, schedules[name])
    for share in (0.01, 0.5, 0.99):
        t = torch.tensor([time_of_share(process, share)], dtype=torch.float64)
        assert process.one_minus_alpha(t).mean().item() == pytest.approx(share, abs=1e-9)
    assert not recwarn.list  # of a gradient


def test_the_network_is_told_the_time_of_each_share():
    """At which the node is masked with probability t^2 and both edges with t."""
    algorithm, told = exact_mdlm("per_group", 4.0), []
    answer = algorithm.logits

    def logits(x_t, t, real, conditions=None):
        told.append(t)
        return answer(x_t, t, real, conditions)

    algorithm.logits = logits
    calibration(algorithm, toy_batches(30), 0.2, 0.7)
    for share, t in zip((0.2, 0.7), told, strict=True):
        expected = (1 + 3 * share) ** 0.5 - 1
        torch.testing.assert_close(t, torch.full((30,), expected, dtype=torch.float64))
