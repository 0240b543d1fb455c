"""``sampling.refresh``: most network calls compute few columns, and keep the others as they are."""

from __future__ import annotations

import pytest
import torch
from test_finished_blocks import LENGTH, PAD, VOCAB_SIZE, OtherNetwork, built, request, sampled
from torch import nn

from discrete_diffusion.algorithms import MDLM, UDLM, TokenAlgorithm, column_reader
from discrete_diffusion.algorithms.column_reader import ColumnReader
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.forward_process import Absorbing, Uniform
from discrete_diffusion.models.dit import DiT
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling import FirstHitting, build_sampler, partial_samples, tokens
from discrete_diffusion.sampling.exactness import approximations
from toy_algorithms import ZeroBackbone


class OtherMasked(OtherNetwork):
    """The stranger's network, whose columns all see each other."""

    def forward(self, x_t, sigma=None, *, label=None, keep=None, cache=None):
        groups = None if cache is not None else torch.zeros_like(x_t)
        return super().forward(x_t, sigma, group_idxs=groups, label=label, keep=keep, cache=cache)


def masked(kind: str = "dit", layers: int = 2, **options) -> TokenAlgorithm:
    """Networks of random weights in float64, whose predictions depend on what they see."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "n_blocks": layers, "n_heads": 2}
    network: nn.Module = DiT(vocab_size=VOCAB_SIZE, pad_id=PAD, **sizes)
    network = OtherMasked() if kind == "other" else network
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_().div_(parameter.shape[-1] ** 0.5 if parameter.ndim > 1 else 1)
        if isinstance(network, DiT):
            network.final.modulation.weight.mul_(0.1)
            network.head.weight.mul_(2)
    process = Absorbing(built().layout, LogLinear())
    return MDLM(network.double(), process, **options).eval()


def compare(algorithm, sampler: str, asked: str, refresh: int, **options):
    """Samples with and without columns kept; equal except for the columns computed."""
    given = {**request(asked), **options}
    plain = sampled(algorithm, sampler, **dict(given))
    kept = sampled(algorithm, sampler, **dict(given), refresh=refresh)
    torch.testing.assert_close(kept.x0, plain.x0)
    torch.testing.assert_close(kept.nfe, plain.nfe)
    torch.testing.assert_close(kept.log_weights, plain.log_weights)
    return kept, plain


@pytest.mark.parametrize(
    ("kind", "sampler", "asked", "options"),
    [
        ("dit", "first-hitting", "pad", {}),
        ("dit", "first-hitting", "narrowing", {"tokens_per_call": 3}),
        ("dit", "confidence", "blanks", {"tokens_per_call": 2}),
        ("dit", "remdm", "pad", {"steps": 6}),
        ("other", "ancestral", "pad", {"steps": 6, "top_p": 0.9}),
        ("other", "dilated", "prompt", {"guidance": 2.0}),
    ],
)
def test_samples_are_the_same_where_every_call_computes_all(
    monkeypatch, kind, sampler, asked, options
):
    class Always(ColumnReader):
        def __init__(self, *given, refresh):
            super().__init__(*given, refresh=1)

    monkeypatch.setattr(column_reader, "ColumnReader", Always)
    dropout = {"condition_dropout": 0.1} if "guidance" in options else {}
    if dropout:
        options = {**options, "conditions": {"label": torch.arange(7) % 3}}
    algorithm = masked(kind, **dropout)  # conditioned on t
    kept, plain = compare(algorithm, sampler, asked, 2, **options)
    assert (kept.columns <= plain.columns).all()


@pytest.mark.parametrize("asked", ["pad", "prompt"])
@pytest.mark.parametrize("sampler", ["first-hitting", "remdm", "entropy"])
def test_one_layer_loses_nothing(sampler, asked):
    """Keys and values of one layer are of their own column alone, and each token has its own."""
    algorithm = masked(layers=1, time_conditioning=False)
    kept, plain = compare(algorithm, sampler, asked, 9)
    assert 1.3 * kept.columns.sum() < plain.columns.sum()


def test_columns_computed_between(caplog):
    """One column per token that is predicted, and one for the token before it."""
    caplog.set_level("INFO")
    column_reader._log_approximate.cache_clear()
    algorithm, real = masked("other"), request("pad")["real"]
    plain = sampled(algorithm, "first-hitting", real)
    kept = sampled(algorithm, "first-hitting", real, refresh=4)
    num = real.sum(dim=1)
    whole = (num / 4).ceil().long()
    assert torch.equal(kept.columns, whole * num + 2 * (num - whole))
    assert not torch.equal(kept.x0, plain.x0)
    assert "sampling.refresh=4 is approximate" in caplog.text


def test_a_sample_does_not_depend_on_the_others():
    """Nor on their numbers of columns or of calls."""
    algorithm, asked = masked(), request("pad")
    x = torch.where(asked["real"], 7, PAD)
    states = [x.clone()]
    generator = make_generator(2)
    for _ in range(5):
        change = (torch.rand(x.shape, generator=generator) < 0.15) & asked["real"]
        drawn = torch.randint(7, x.shape, generator=generator)
        states.append(torch.where(change, drawn, states[-1]))
    real, both = asked["real"], ([2], slice(7))
    readers = [ColumnReader(algorithm, x[rows], real[rows], {}, refresh=3) for rows in both]
    for k, state in enumerate(states):
        rows = torch.tensor([0, 2, 5] if k % 2 else [1, 2])
        here = (state == 7) & (torch.rand(x.shape, generator=generator) < 0.5)
        here[:, 0] = True
        t = torch.linspace(0.2, 0.9, 7)
        alone = readers[0].lazy_log_d0(torch.tensor([0]), state[[2]], t[[2]], here[[2]]).read()
        found = readers[1].lazy_log_d0(rows, state[rows], t[rows], here[rows]).read()
        of_row = here[rows].nonzero()[:, 0] == rows.tolist().index(2)
        torch.testing.assert_close(found[of_row], alone, rtol=0, atol=1e-12)


def test_a_gpu_keeps_columns_too(monkeypatch):
    algorithm, real = masked(), request("pad")["real"]
    plain = sampled(algorithm, "first-hitting", real, refresh=4)
    for module in (partial_samples, tokens):
        monkeypatch.setattr(module, "keeps_shapes", lambda device: True)
    assert torch.equal(sampled(algorithm, "first-hitting", real, refresh=4).x0, plain.x0)


def test_refused():
    real = torch.ones(1, LENGTH, dtype=torch.bool)
    layout, network = built().layout, DiT(vocab_size=9, hidden_size=8, n_blocks=1, n_heads=2)
    causal = MDLM(built("ar").backbone, Absorbing(layout, LogLinear()))
    for algorithm, why in (
        (built(), "bd3lm keeps finished blocks, exactly"),
        (built("ar"), "ar keeps finished blocks, exactly"),
        (UDLM(network, Uniform(layout, LogLinear())), "uniform noise changes"),
        (MDLM(ZeroBackbone(9), Absorbing(layout, LogLinear())), "ZeroBackbone has no new_cache"),
        (causal, "the network is causal"),
    ):
        name = "ancestral" if "uniform" in why else "first-hitting"
        with pytest.raises(ValueError, match=rf"sampling\.refresh=8: {why}.*; leave it out"):
            sampled(algorithm, name, real, refresh=8)
    with pytest.raises(ValueError, match=r"refresh=0"):
        build_sampler({"name": "first-hitting", "refresh": 0})


class ReadsAll(FirstHitting):
    def run(self, samples):
        self.log_d0(samples, torch.arange(len(samples.x)), torch.ones(len(samples.x)))


def test_a_sampler_that_predicts_all_positions_refuses_it():
    algorithm = masked()
    with pytest.raises(ValueError, match=r"sampling\.refresh=8: .* all positions .*leave it out"):
        ReadsAll(refresh=8).sample(
            algorithm, torch.ones(1, LENGTH, dtype=torch.bool), generator=make_generator(0)
        )


def test_samples_are_said_to_be_approximate():
    reasons = approximations(FirstHitting(refresh=8), masked())
    assert reasons == ["sampling.refresh=8 changes the distribution"]
