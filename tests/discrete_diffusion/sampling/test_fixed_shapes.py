"""Samplers on another device than the CPU: masks in the place of rows that are dropped, and nothing
read back; the same random numbers where the host knows how many there are, else the same law."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import pytest
import torch
from test_laws import DRAWN
from test_laws import SAMPLERS as OF_GRIDS
from torch import Tensor

from discrete_diffusion.algorithms import TokenAlgorithm, build_algorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.cli import compose
from discrete_diffusion.contracts import SampleOutput
from discrete_diffusion.domains import build_data, complete_data
from discrete_diffusion.sampling import build_sampler, tokens
from discrete_diffusion.sampling import partial_samples as drafts
from discrete_diffusion.sampling.ancestral import GridSampler
from discrete_diffusion.sampling.first_hitting import FirstHitting
from discrete_diffusion.sampling.partial_samples import PartialSamples
from laws import grid, grid_law
from no_read_back import META, Unread
from toy_samplers import exact
from toy_world import FULL, LENGTH, PADDED, VOCAB_SIZE, ToyWorld, noise_floor, total_variation

NUM = 20_000
ALIKE = [
    ("mdlm", "first-hitting", {}),
    ("mdlm", "first-hitting", {"tokens_per_call": 2}),
    ("mdlm", "first-hitting", {"steps": 2}),
    ("mdlm", "first-hitting", {"temperature": 0.7, "top_p": 0.9}),
    ("bd3lm", "first-hitting", {}),
    ("bd3lm", "first-hitting", {"steps": 1}),
    ("ar", "first-hitting", {}),
    ("mdlm", "margin", {}),
    ("mdlm", "entropy", {"steps": 2}),
    ("mdlm", "entropy", {"group_by_group": True}),
    ("bd3lm", "margin", {"tokens_per_call": 2}),
    ("d3pm-absorbing", "margin", {}),
    *((noise, "ancestral", {"steps": 4}) for noise in ("udlm", "gidd", "matrix", "d3pm-uniform")),
    ("udlm", "predictor-corrector", {"steps": 4}),
    ("udlm", "renoise", {"steps": 4}),
]
"""Where the host knows how many tokens a call reveals, and of whom."""
OF_ONE_LAW = [
    ("mdlm", "confidence", {}),
    ("mdlm", "entropy-bounded", {}),
    ("mdlm", "entropy-bounded", {"order": "top_probability", "entropy_budget": 0.7}),
    ("mdlm", "entropy-bounded", {"order": [2, 0, 1], "entropy_budget": 0.0}),
    ("bd3lm", "entropy-bounded", {"group_by_group": True}),
    ("mdlm", "first-surprise", {"surprises": 0.9}),
    ("bd3lm", "first-surprise", {"surprises": 1.5}),
    ("bd3lm", "ancestral", {"steps": 4}),
]


@pytest.fixture
def fixed(monkeypatch):
    """The CPU is taken for another device: its values are there, and what a GPU runs runs."""

    of_rows = tokens.TokenSampler.log_d0

    def refused(*_: object) -> Tensor:
        raise AssertionError("rows were dropped")

    def switch(on: bool = True) -> None:
        for module in (drafts, tokens):
            monkeypatch.setattr(module, "keeps_shapes", lambda device: on)
        monkeypatch.setattr(tokens.TokenSampler, "log_d0", refused if on else of_rows)

    switch()
    return switch


def mixed(num: int) -> tuple[Tensor, Tensor]:
    """``real`` and ``clamp`` of full and shorter samples, some with tokens given, one with all."""
    real = torch.stack([FULL, PADDED, FULL, FULL]).repeat(num // 4 + 1, 1)[:num]
    clamp = torch.full_like(real, -1, dtype=torch.long)
    clamp[2::4, 1] = 3
    clamp[3] = torch.tensor([0, 1, 2])
    return real, clamp


def sampled(
    algorithm: TokenAlgorithm, sampler: str, real: Tensor, clamp: Tensor | None = None, **options
) -> SampleOutput:
    request = {
        name: options.pop(name) for name in ("support", "keep_trajectory") if name in options
    }
    steps = None if "tokens_per_call" in options else options.pop("steps", None)
    return build_sampler({"name": sampler, **options}).sample(
        algorithm, real, generator=make_generator(5), clamp=clamp, steps=steps, **request
    )


@pytest.mark.parametrize(("name", "sampler", "options"), ALIKE)
def test_equal_seeds_sample_the_same_by_masks(name, sampler, options, fixed):
    algorithm, (real, clamp) = exact(name), mixed(40)
    clamp = None if name == "ar" else clamp  # which sees a prefix alone
    support = torch.ones(len(real), LENGTH, VOCAB_SIZE, dtype=torch.bool)
    support[::2, 1, 2] = False
    for narrowed in ({}, {"support": support}):
        request = {**options, **narrowed, "keep_trajectory": True}
        found = sampled(algorithm, sampler, real, clamp, **request)
        fixed(False)
        expected = sampled(algorithm, sampler, real, clamp, **request)
        fixed()
        assert torch.equal(found.x0, expected.x0)
        assert torch.equal(found.nfe, expected.nfe)
        torch.testing.assert_close(found.log_weights, expected.log_weights, rtol=0, atol=1e-9)
        assert torch.equal(found.trajectory, expected.trajectory)


@pytest.mark.parametrize(("noise", "case", "real"), DRAWN)
def test_grids_follow_their_exact_law_by_masks(noise, case, real, fixed):
    world, algorithm = ToyWorld.make(real), exact(noise, "cosine")
    sampler, options = OF_GRIDS[case]
    law = grid_law(algorithm, world, grid(algorithm, 4), sampler, **options)
    output = sampled(algorithm, sampler, real.expand(NUM, -1), steps=4, **options)
    assert total_variation(world.distribution(output.x0), law) < noise_floor(law, NUM)


@pytest.mark.parametrize("real", [FULL, PADDED], ids=["full", "padded"])
@pytest.mark.parametrize(("name", "sampler", "options"), OF_ONE_LAW)
def test_masks_and_dropped_rows_have_one_law(name, sampler, options, real, fixed):
    """Two samples of a law are apart by at most what one of half the size is from the law."""
    world, algorithm, rows = ToyWorld.make(real), exact(name), real.expand(NUM, -1)
    found = sampled(algorithm, sampler, rows, **options)
    fixed(False)
    expected = sampled(algorithm, sampler, rows, **options)
    shares = [world.distribution(output.x0) for output in (found, expected)]
    both = (shares[0] + shares[1]) / 2
    assert total_variation(*shares) < noise_floor(both, NUM // 2)
    error = 5 * (expected.nfe.double().var() * 2 / NUM).sqrt()
    assert (found.nfe.double().mean() - expected.nfe.double().mean()).abs() <= error


class OwnNumbers(FirstHitting):
    """Each row by random numbers of its own, as where rows must not depend on each other."""

    generators: Sequence[torch.Generator] = ()

    def uniform(self, samples: PartialSamples, where: Tensor) -> Tensor:
        counts = where.sum(dim=1).tolist()
        rows = zip(counts, self.generators, strict=True)
        return torch.cat([torch.rand(num, generator=g).double() for num, g in rows])


def test_rows_keep_random_numbers_of_their_own(fixed):
    algorithm, (real, clamp) = exact("mdlm"), mixed(12)
    found = []
    for on in (True, False):
        fixed(on)
        sampler = OwnNumbers()
        sampler.generators = [make_generator(3, row) for row in range(len(real))]
        found.append(sampler.sample(algorithm, real, generator=make_generator(0), clamp=clamp).x0)
    assert torch.equal(*found)


@pytest.mark.parametrize("sampler", ["first-hitting", "confidence", "entropy-bounded", "ancestral"])
def test_nothing_to_sample_is_sampled_by_masks(sampler, fixed):
    algorithm = exact("mdlm")
    clamp = torch.tensor([[0, 1, 2]] * 3)
    for rows in (clamp, clamp[:0]):
        real = torch.ones_like(rows, dtype=torch.bool)
        output = sampled(algorithm, sampler, real, rows)
        assert torch.equal(output.x0, rows)
        assert not output.nfe.any()


TINY = ("model=bd_tiny", "data.num_plans=60", "data.batch_size=16")
DIT = ("algo.backbone=dit", "model=dit_tiny")
PAIR = ("algo.backbone=bd-denoiser-pair", "model=bd_pair_tiny")
ON_META = [
    *((("algo=mdlm",), {"name": name}) for name in ("first-hitting", "ancestral", "renoise")),
    (("algo=mdlm",), {"name": "first-hitting", "tokens_per_call": 4, "temperature": 0.8}),
    (("algo=mdlm",), {"name": "ancestral", "top_p": 0.9}),
    (("algo=mdlm",), {"name": "predictor-corrector"}),
    (("algo=mdlm",), {"name": "confidence"}),
    (("algo=mdlm",), {"name": "margin", "group_by_group": True}),
    *((("algo=mdlm",), {"name": "remdm", "strategy": strategy}) for strategy in ("cap", "rescale")),
    (("algo=meld",), {"name": "first-hitting"}),
    (("algo=distill",), {"name": "few-call"}),
    *(
        (("algo=" + noise,), {"name": "ancestral"})
        for noise in ("udlm", "sedd", "gidd", "marginal", "ctmc", "d3pm")
    ),
    (("algo=udlm",), {"name": "renoise"}),
    (("algo=mdlm", *PAIR), {"name": "first-hitting"}),
    *((("algo=bd3lm", *DIT), {"name": name}) for name in ("first-hitting", "ancestral")),
    (("algo=ar", *DIT), {"name": "first-hitting"}),
]


def on_meta(words: tuple[str, ...], monkeypatch) -> PartialSamples:
    """A samples of plans of several sizes, begun on the CPU and moved with its algorithm."""
    config = complete_data(compose("train", [*TINY, *words]))
    algorithm, data = build_algorithm(config), build_data(config)
    train = data.splits["train"].batch()
    algorithm.prepare(train)
    rows = train.real.sum(dim=1).argsort()[:8]
    real = train.real[rows]
    with monkeypatch.context() as patch:
        patch.setattr(drafts, "keeps_shapes", lambda device: True)
        free = torch.full_like(real, -1, dtype=torch.long)
        samples = PartialSamples.start(algorithm, real, free, make_generator(0))
    algorithm.eval().to(META)
    moved = {f.name: getattr(samples, f.name) for f in fields(samples)}
    moved = {k: x.to(META) if isinstance(x, Tensor) else x for k, x in moved.items()}
    packing = samples.on_host.packing
    assert packing is not None
    return replace(
        samples, **{**moved, "on_host": samples.on_host._replace(packing=packing.to(META))}
    )


@pytest.mark.parametrize(("words", "sampling"), ON_META)
def test_a_sampler_reads_nothing_back(words, sampling, monkeypatch):
    """From its start, when sizes are known, to its end; on the meta device (``no_read_back``)."""
    samples = on_meta(words, monkeypatch)
    sampler = build_sampler(sampling)
    samples.steps = 4 if isinstance(sampler, GridSampler) else None
    begun, calls = samples.begin_call, []
    monkeypatch.setattr(PartialSamples, "begin_call", lambda self: calls.append(begun()))
    with torch.no_grad(), Unread():
        sampler.run(samples)
    assert samples.x.is_meta
    assert len(calls) > 1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("name", ["first-hitting", "ancestral", "remdm", "margin", "confidence"])
def test_a_sampler_on_a_gpu_waits_for_nothing(name):
    """What would block the host is an error there, once sizes are known."""
    config = complete_data(compose("train", [*TINY, "algo=mdlm"]))
    algorithm, data = build_algorithm(config).to("cuda").eval(), build_data(config)
    real = data.splits["train"].real[:8].to("cuda")
    free = torch.full(real.shape, -1, device="cuda")
    samples = PartialSamples.start(algorithm, real, free, make_generator(0, device="cuda"))
    try:
        torch.cuda.set_sync_debug_mode("error")
        with torch.no_grad():
            build_sampler({"name": name}).run(samples)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert not bool((samples.masked & samples.free).any())


@pytest.mark.slow
def test_entropy_bounded_reads_once_a_call_whether_it_was_the_last(monkeypatch):
    samples = on_meta(("algo=mdlm",), monkeypatch)
    begun, calls = samples.begin_call, []
    monkeypatch.setattr(PartialSamples, "begin_call", lambda self: calls.append(begun()))
    with torch.no_grad(), Unread(answer=True) as mode:
        build_sampler({"name": "entropy-bounded"}).run(samples)
    assert len(calls) == int(samples.on_host.free.sum(dim=1).max())
    assert mode.num_read == len(calls) - 1
