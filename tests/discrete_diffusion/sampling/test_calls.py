"""What the network is asked: how often, about what, and the time it is told."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from discrete_diffusion.algorithms import D3PM, MDLM
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling import FirstHitting, build_sampler, tokens
from discrete_diffusion.sampling.partial_samples import time_of_masked_share
from toy_algorithms import ZeroBackbone
from toy_samplers import (
    CASES,
    absorbing,
    ar,
    bd3lm,
    draw_from,
    exact,
    fitting_samplers,
    record_calls,
    runs_a_grid,
)
from toy_world import FULL, LENGTH, MASK, PAD, PADDED, ExactBackbone

CHOOSING = ("confidence", "margin", "entropy", "entropy-bounded", "first-surprise")
REQUESTS = [
    (FULL, [-1, -1, -1]),
    (FULL, [-1, 2, -1]),
    (FULL, [1, -1, 3]),
    (PADDED, [-1, -1, -1]),
    (PADDED, [2, -1, -1]),
]


def test_a_share_that_is_a_time_of_the_model_is_that_time():
    """11 of 20 masked: 0.55 * 100 is a little more than 55 in float64."""
    process = absorbing()
    algorithm = D3PM(ExactBackbone(process), process, num_steps=100)
    masked = torch.arange(20) < torch.tensor([[11], [7], [20]])
    t = time_of_masked_share(algorithm, masked, torch.ones_like(masked))
    assert t.tolist() == [0.55, 0.35, 1.0]


@pytest.mark.parametrize(
    ("number", "means"), [(1, [0.75, 0.5, 0.25]), (2, [0.75, 0.25]), (3, [0.75])]
)
def test_first_hitting_tells_the_largest_time_of_the_tokens_of_a_call(number, means):
    """Of three independent uniform times the largest is .75 in the mean, the next .5, then .25."""
    algorithm = exact("mdlm", "log_linear")
    calls = record_calls(algorithm)
    draw_from(algorithm, "first-hitting", 4000, tokens_per_call=number)
    told = torch.stack([call.t for call in calls])  # (calls, samples)
    torch.testing.assert_close(told.mean(dim=1), torch.tensor(means).double(), rtol=0, atol=0.02)
    assert (told.diff(dim=0) < 0).all()


@pytest.mark.parametrize("number", [1, 2, 3, 8])
@pytest.mark.parametrize("sampler", ["confidence", "margin", "entropy", "first-hitting"])
def test_calls_are_the_free_tokens_by_k_and_none_is_empty(sampler, number):
    for real, clamp in REQUESTS:
        algorithm, held = exact("mdlm"), torch.tensor(clamp)
        calls = record_calls(algorithm)
        output = draw_from(algorithm, sampler, 30, real=real, clamp=held, tokens_per_call=number)
        free = int((real & (held < 0)).sum())
        assert (output.nfe == math.ceil(free / number)).all()
        assert len(calls) == math.ceil(free / number)
        for call in calls:
            assert (call.x_t == MASK).any(dim=1).all()
        masked = [(call.x_t == MASK).sum(dim=1) for call in calls] + [torch.zeros(30).long()]
        for before, after in itertools.pairwise(masked):
            assert (before - after == before.clamp(max=number)).all()


@pytest.mark.parametrize("sampler", ["confidence", "margin", "entropy", "first-hitting"])
def test_tokens_are_spread_evenly_over_the_calls(sampler):
    """10 tokens and fewer: calls differ by one token at most, and none has more than k."""
    vocab = VocabConfig(n_max=4)
    process = Absorbing(vocab.layout(), LogLinear())
    algorithm = MDLM(ZeroBackbone(vocab.vocab_size), process)
    real = vocab.real_positions(torch.tensor([1, 2, 3, 4, 4]))
    clamp = torch.full(real.shape, -1)
    clamp[4, :3] = 2
    free = (real & (clamp < 0)).sum(dim=1)
    requests = [({"tokens_per_call": k}, None, -(-free // k)) for k in (1, 3, 4)]
    requests += [({}, steps, free.clamp(max=steps)) for steps in (1, 4, 7, 20)]
    for options, steps, expected in requests:
        output = build_sampler({"name": sampler, **options}).sample(
            algorithm,
            real,
            generator=make_generator(0),
            clamp=clamp,
            steps=steps,
            keep_trajectory=True,
        )
        assert torch.equal(output.nfe, expected)
        hidden = (output.trajectory == vocab.mask_id).sum(dim=2)  # (K, B)
        for b in range(len(real)):
            revealed = -hidden[:, b].diff()
            revealed = revealed[revealed > 0]
            assert revealed.max() - revealed.min() <= 1
            assert revealed.max() <= options.get("tokens_per_call", 10)


ABSORBING = fitting_samplers(exact("mdlm"))


@pytest.mark.parametrize("sampler", ABSORBING)
def test_absorbing_noise_costs_a_call_only_where_a_mask_is_revealed(sampler, each_by_itself):
    """Every call changes every sample that it is about, so none is about a finished one."""
    algorithm, num = exact("mdlm"), 200
    calls = record_calls(algorithm)
    steps = {"steps": 40} if runs_a_grid(sampler) else {}
    output = draw_from(algorithm, sampler, num, keep_trajectory=True, **steps)
    assert sum(len(call.x_t) for call in calls) == output.nfe.sum()
    for call in calls:
        assert (call.x_t == MASK).any(dim=1).all()
    if sampler in ("ancestral", "first-hitting", *CHOOSING):
        assert (output.nfe <= LENGTH).all()
    # which has two rounds of calls in a step
    if sampler != "predictor-corrector":
        hidden = output.trajectory == MASK
        revealed = (hidden[:-1] & ~hidden[1:]).any(dim=2).sum(dim=0)
        assert torch.equal(output.nfe, revealed)
    if sampler == "ancestral":
        assert (output.nfe == LENGTH).double().mean() > 0.8


@pytest.mark.parametrize("sampler", ["ancestral", *CHOOSING])
def test_samples_that_are_all_alike_are_computed_once(sampler, monkeypatch):
    """The same samples from fewer rows: the first call is about one, later ones about each."""
    algorithm, num = exact("mdlm"), 200
    calls = record_calls(algorithm)
    steps = {"steps": 40} if runs_a_grid(sampler) else {}
    output = draw_from(algorithm, sampler, num, **steps)
    rows = [len(call.x_t) for call in calls]
    assert rows[0] == 1
    assert len(calls[-1].x_t) > 1
    assert sum(rows) < output.nfe.sum() - num * 0.05
    monkeypatch.setattr(tokens, "are_alike", lambda *of: False)
    again = draw_from(exact("mdlm"), sampler, num, **steps)
    assert torch.equal(again.x0, output.x0)
    assert torch.equal(again.nfe, output.nfe)


def test_samples_with_different_given_tokens_are_not_alike():
    algorithm = exact("mdlm")
    calls = record_calls(algorithm)
    clamp = torch.full((2, LENGTH), -1)
    clamp[0, 0], clamp[1, 0] = 0, 1
    draw_from(algorithm, "ancestral", 2, clamp=clamp, steps=1)
    assert len(calls[0].x_t) == 2


@pytest.mark.parametrize(("name", "sampler"), CASES)
def test_everything_given_costs_no_call(name, sampler):
    algorithm = exact(name)
    calls = record_calls(algorithm)
    reads = []
    algorithm.backbone.register_forward_pre_hook(lambda *given: reads.append(given))
    for real, clamp in ((FULL, [2, 1, 3]), (PADDED, [0, 3, -1])):
        held = torch.tensor(clamp)
        output = draw_from(algorithm, sampler, 7, real=real, clamp=held, keep_trajectory=True)
        expected = torch.where(real, held, PAD).expand(7, -1)
        assert torch.equal(output.x0, expected)
        assert output.nfe.tolist() == [0] * 7
        assert output.log_weights.tolist() == [0.0] * 7
        assert (output.trajectory == expected).all()
    assert calls == []
    assert reads == []


@pytest.mark.parametrize("algorithm", [exact("mdlm"), exact("udlm"), bd3lm(), ar()])
def test_the_work_of_a_sample_is_its_calls_times_its_columns(algorithm):
    """At most; exactly so where the number of calls is known before."""
    real = FULL.expand(20, -1)
    for name in fitting_samplers(algorithm):
        sampler = build_sampler({"name": name})
        nfe = sampler.sample(algorithm, real, generator=make_generator(0)).nfe
        columns = 1 if name == "autoregressive" else LENGTH
        calls = sampler.work(LENGTH, algorithm) / columns
        assert nfe.max() <= calls, name
        if name in ("first-hitting", "autoregressive", "confidence", "margin", "entropy"):
            assert nfe.min() == calls, name
    assert FirstHitting(tokens_per_call=2).work(LENGTH) == 2 * LENGTH
