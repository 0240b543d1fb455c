"""log p of samples under a sampler, and bounds of several orders, where all can be enumerated."""

from __future__ import annotations

import itertools
import math
from functools import cache

import pytest
import torch
from test_what_is_exact import OrderDependent, student

from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG as VOCAB
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.models.bd_denoiser import BDDenoiser, BDDenoiserBackbone
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling import likelihood
from discrete_diffusion.sampling.likelihood import (
    order_draws,
    order_log_probs,
    order_sampler,
    path_log_prob,
    random_order_log_probs,
)
from discrete_diffusion.sampling.unmasking import ONE_PATH
from graph_worlds import tabulated_graphs
from toy_graphs import random_graphs
from toy_samplers import absorbing, draw_from, exact, record_calls
from toy_world import FULL, LENGTH, PADDED, ExactBackbone, ToyWorld, noise_floor, total_variation

NUM = 20_000
ORDERS = [*ONE_PATH, [2, 0, 1]]
WORLDS = {"full": ToyWorld.make(FULL), "padded": ToyWorld.make(PADDED)}
PERMUTATIONS = list(itertools.permutations(range(LENGTH)))


@cache
def network(name):
    """Wrong in a way that depends on t, or on what is visible; or exact."""
    process = absorbing("per_group" if name == "per group" else "cosine")
    if name in ("told", "per group"):
        return MDLM(ExactBackbone(process, tilt=3.0), process).eval()
    backbone = OrderDependent(process) if name == "untold" else ExactBackbone(process)
    return MDLM(backbone, process, time_conditioning=False).eval()


def everything(*worlds):
    """All clean sequences, those of the worlds one after the other."""
    return Batch(
        torch.cat([world.x0 for world in worlds]),
        torch.cat([world.real.expand(len(world.x0), -1) for world in worlds]),
    )


def random_order_law(name, world):
    """Float64[K]: p under first-hitting of a network that is not told t: the mean over orders."""
    found = [order_log_probs(network(name), everything(world), [*p]).exp() for p in PERMUTATIONS]
    return torch.stack(found).mean(dim=0)


def repeated(world, times):
    return Batch(world.x0.repeat(times, 1), world.real.expand(len(world.x0) * times, -1))


@pytest.mark.parametrize("name", ["told", "untold"])
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_it_sums_to_one_and_is_the_frequency_of_the_samplers_own_draws(name, order):
    """Sequences of both sizes in one batch."""
    log_p = order_log_probs(network(name), everything(*WORLDS.values()), order)
    assert log_p.dtype == torch.float64
    for world, law in zip(WORLDS.values(), log_p.exp().split([24, 12]), strict=True):
        assert float(law.sum()) == pytest.approx(1, abs=1e-5)
        options = {"real": world.real, "order": order, "entropy_budget": 0.0}
        drawn = draw_from(network(name), "entropy-bounded", NUM, **options)
        assert total_variation(world.distribution(drawn.x0), law) < noise_floor(law, NUM)


@pytest.mark.parametrize("order", ["entropy", "margin"])
def test_samplers_of_that_name_have_it_too(order):
    world = WORLDS["full"]
    law = order_log_probs(network("told"), everything(world), order).exp()
    drawn = draw_from(network("told"), order, NUM)
    assert total_variation(world.distribution(drawn.x0), law) < noise_floor(law, NUM)
    other = order_log_probs(network("told"), everything(world), "left-to-right").exp()
    assert total_variation(world.distribution(drawn.x0), other) > noise_floor(law, NUM)


@pytest.mark.parametrize("name", ["meld", "sedd-absorbing", "d3pm-absorbing", "bd3lm"])
def test_every_absorbing_algorithm_has_one(name):
    world, algorithm = WORLDS["full"], exact(name)
    for order in ("entropy", "left-to-right"):
        found = order_log_probs(algorithm, everything(world), order)
        torch.testing.assert_close(found, world.prob.log(), atol=1e-5, rtol=0)


def test_models_with_an_order_of_their_own():
    world = WORLDS["full"]
    found = order_log_probs(exact("ar"), everything(world), "left-to-right")
    torch.testing.assert_close(found, world.prob.log(), atol=1e-5, rtol=0)
    for components in (1, 3):
        law = order_log_probs(student(components), everything(world), "plan").exp()
        assert float(law.sum()) == pytest.approx(1, abs=1e-5)
        drawn = draw_from(student(components), "few-call", NUM)
        assert total_variation(world.distribution(drawn.x0), law) < noise_floor(law, NUM)
    with pytest.raises(
        ValueError, match=r"likelihood_order=entropy.*likelihood_order=left-to-right"
    ):
        order_log_probs(exact("ar"), everything(world), "entropy")


@pytest.mark.parametrize(
    ("order", "named"),
    [
        (
            "confidence",
            r"likelihood_order=confidence.*compares tokens.*many paths.*choose.*entropy",
        ),
        ("first-hitting", r"likelihood_order=first-hitting.*num_orders=K"),
        ("random", "num_orders=K"),
        ("ancestral", r"likelihood_order 'ancestral'.*Available: entropy.*approximate samplers"),
        ("entrpy", "did you mean 'entropy'"),
        ([0, 1], "from 0 to 2"),
        ([0, 1, 1], "from 0 to 2"),
    ],
)
def test_orders_that_have_none_are_refused_with_the_reason(order, named):
    with pytest.raises(ValueError, match=named):
        order_sampler(network("told"), order)


def test_noise_that_is_no_mask_is_refused():
    with pytest.raises(ValueError, match=r"likelihood_order=entropy.*many paths.*bound"):
        order_sampler(exact("udlm"), "entropy")
    with pytest.raises(ValueError, match=r"num_orders=K.*many paths"):
        likelihood.check_orders(exact("udlm"))
    with pytest.raises(ValueError, match=r"num_orders=K: ar has one order"):
        likelihood.check_orders(exact("ar"))
    with pytest.raises(ValueError, match=r"num_orders=K.*discrete steps"):
        likelihood.check_orders(exact("d3pm-absorbing"))


@cache
def plan_model(time_conditioning):
    torch.manual_seed(0)
    denoiser = BDDenoiser(d_model=32, n_layers=2, n_heads=2, vocab_config=VOCAB, dropout=0.0)
    backbone = BDDenoiserBackbone(denoiser)
    for weight in backbone.parameters():
        torch.nn.init.normal_(weight, std=0.2)
    process = Absorbing(VOCAB.layout(), LogLinear())
    return MDLM(backbone, process, time_conditioning=time_conditioning).eval()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("order", "time_conditioning"), [("entropy", True), ("margin", False), ([*range(36)], True)]
)
def test_its_bits_do_not_depend_on_the_batch(order, time_conditioning):
    """One by one, in any order, in any company, whatever the number of threads: of graphs of
    all sizes, many positions of which are alike, so that ties are frequent."""
    model, encoded = plan_model(time_conditioning), random_graphs(14, seed=2)
    whole = Batch(encoded.x0, encoded.real)
    u = order_draws(whole.real, 0, (1,))

    def found(rows):
        some = Batch(whole.x0[rows], whole.real[rows])
        of_random = random_order_log_probs(model, some, u[rows])
        return torch.stack([order_log_probs(model, some, order), of_random])

    expected = found(torch.arange(14))
    mixed = torch.randperm(14, generator=make_generator(0))
    for size in (1, 5):
        parts = [found(rows) for rows in mixed.split(size)]
        assert torch.equal(torch.cat(parts, dim=1), expected[:, mixed])
    try:
        torch.set_num_threads(3)
        assert torch.equal(found(mixed), expected[:, mixed])
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(1)


def test_every_pass_of_the_network_has_as_many_rows(monkeypatch):
    """However many samples there are; fewer where samples are large."""
    world = WORLDS["full"]
    for at_once, rows in ((2**22, 32), (100, 4), (1, 2)):
        monkeypatch.setattr(likelihood, "AT_ONCE", at_once)
        algorithm = exact("mdlm")
        calls = record_calls(algorithm)
        found = order_log_probs(algorithm, everything(*WORLDS.values()), "entropy")
        assert {len(call.x_t) for call in calls} == {rows}
        assert all((call.real == call.real[:1]).all() for call in calls)
        torch.testing.assert_close(found[: len(world.x0)], world.prob.log(), atol=1e-5, rtol=0)


@pytest.mark.slow
def test_gradients_flow_along_a_path():
    model, encoded = plan_model(True), random_graphs(3, seed=2)
    sampler = order_sampler(model, "entropy")
    path_log_prob(sampler, model, Batch(encoded.x0, encoded.real)).sum().backward()
    assert any(weight.grad is not None and weight.grad.any() for weight in model.parameters())
    model.zero_grad(set_to_none=True)


def test_draws_of_orders_are_uniform_and_each_position_is_first_in_turn():
    real = torch.cat([FULL.expand(4000, -1), PADDED.expand(4000, -1)])
    draws = [order_draws(real, k, (5,)) for k in range(4)]
    assert torch.equal(draws[1], order_draws(real, 1, (5,)))
    assert not torch.equal(draws[1], order_draws(real, 1, (6,)))
    firsts = [u.masked_fill(~real, 2.0).argmin(dim=1) for u in draws]
    for rows, num in ((slice(0, 4000), 3), (slice(4000, 8000), 2)):
        turns = torch.stack(firsts)[:num, rows].sort(dim=0).values
        assert (turns == torch.arange(num).unsqueeze(1)).all()
        for u in draws:
            values = u[rows, :num]
            error = 4 / math.sqrt(12 * 4000)
            assert (values.mean(dim=0) - 0.5).abs().max() < error
            covariance = torch.cov(values.T)
            assert (covariance - torch.eye(num) / 12).abs().max() < 8 / 12 / math.sqrt(4000)
            shares = (values < 0.25).double().mean(dim=0)
            assert (shares - 0.25).abs().max() < 4 * math.sqrt(0.25 * 0.75 / 4000)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["told", "untold", "per group"])
def test_the_mean_over_orders_is_the_law_of_first_hitting(name):
    world, times = WORLDS["full"], 4000
    batch = repeated(world, times)
    p = random_order_log_probs(network(name), batch, order_draws(batch.real, 0, (2,))).exp()
    p = p.view(times, -1)
    error = p.std(dim=0) / math.sqrt(times)
    if name == "untold":
        law = random_order_law(name, world)
        assert ((p.mean(dim=0) - law).abs() < 4.5 * error + 1e-6).all()
    drawn = draw_from(network(name), "first-hitting", NUM)
    distance = total_variation(world.distribution(drawn.x0), p.mean(dim=0))
    assert distance < noise_floor(p.mean(dim=0), NUM) + float(error.sum())


def expected_bounds(name, world, most, times=300):
    """By number of orders 1, 2, 4, ..., the mean over the law of the data of the K-order bound,
    and its standard error."""
    batch = repeated(world, times)
    log_p = torch.stack(
        [
            random_order_log_probs(network(name), batch, order_draws(batch.real, k, (3,)))
            for k in range(most)
        ]
    ).view(most, times, -1)
    found = {}
    for num in (2**k for k in range(most.bit_length())):
        bound = math.log(num) - log_p[:num].logsumexp(dim=0)  # (times, K)
        of_data = bound @ world.prob
        found[num] = (float(of_data.mean()), float(of_data.std() / math.sqrt(times)))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["told", "untold"])
def test_one_order_is_the_plain_bound_and_more_orders_fall_to_the_exact_likelihood(name):
    world, algorithm = WORLDS["full"], network(name)
    found = expected_bounds(name, world, 16)
    values = [value for value, _ in found.values()]
    for (one, error), (two, other) in itertools.pairwise(found.values()):
        assert two < one + 3 * math.hypot(error, other)
    batch = repeated(world, 4000)
    nelbo = algorithm.loss(batch, make_generator(1), "uniform_count").nelbo.double()
    nelbo = nelbo.view(4000, -1) @ world.prob
    spread = math.hypot(found[1][1], float(nelbo.std()) / math.sqrt(4000))
    assert values[0] == pytest.approx(float(nelbo.mean()), abs=4 * spread)
    if name == "untold":
        law = random_order_law(name, world)
        exact_nll = -float(world.prob @ law.log())
        one = [order_log_probs(algorithm, everything(world), [*p]) for p in PERMUTATIONS]
        one_order = -float(world.prob @ torch.stack(one).mean(dim=0))
        assert values[0] == pytest.approx(one_order, abs=4 * found[1][1])
        assert one_order > exact_nll + 0.05
        assert all(value > exact_nll - 3 * error for value, error in found.values())
        assert values[-1] - exact_nll < 0.15 * (values[0] - exact_nll)


def test_with_an_exact_network_every_order_says_the_same():
    world = WORLDS["padded"]
    u = order_draws(everything(world).real, 3, (0,))
    for algorithm in (network("exact"), *map(exact, ("meld", "sedd-absorbing", "bd3lm"))):
        found = random_order_log_probs(algorithm, everything(world), u)
        torch.testing.assert_close(found, world.prob.log(), atol=1e-5, rtol=0)


def test_tokens_that_are_certain_share_a_call():
    """Of the samples too, so that it stays their law."""
    vocab = VocabConfig(n_max=3)
    algorithm, rows, prob = tabulated_graphs(random_graphs(8, vocab), vocab)
    calls = record_calls(algorithm)
    found = order_log_probs(
        algorithm, Batch(rows, rows != algorithm.layout.pad_id), "most-uncertain"
    )
    torch.testing.assert_close(found, prob.log(), atol=1e-5, rtol=0)
    assert len(calls) < rows.shape[1]
