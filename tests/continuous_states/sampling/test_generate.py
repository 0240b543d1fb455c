"""Generated texts: their law by enumeration, what is computed for them, when they end."""

from __future__ import annotations

from collections import Counter
from importlib.util import find_spec
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from continuous_states.networks.text_models import build_text_decoder
from continuous_states.sampling import Direct, Generate
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import SampleOutput
from discrete_diffusion.sampling import approximations, build_sampler, check_sampler
from toy_latents import EOS, PAD, E, V, latent_algorithm, latent_model, text_pairs
from toy_samplers import fitting_samplers

PLAIN = {"temperature": 1.0, "top_k": None, "top_p": 1.0}


def generated(
    algorithm, source: Tensor, *, length: int = 6, seed: int = 0, sampler=None, **options
) -> SampleOutput:
    sampler = sampler or Generate(**options)
    real = torch.ones(len(source), length, dtype=torch.bool)
    asked = {"conditions": {"source": source}, "generator": make_generator(seed)}
    return sampler.sample(algorithm, real, **asked)


def one_source(num: int) -> Tensor:
    return text_pairs(4).conditions["source"][3:].expand(num, -1)


def cut(logits: Tensor, temperature: float, top_k: int | None, top_p: float) -> list[float]:
    """The probabilities of logits Float[V], token by token."""
    probs = (logits.double() / temperature).softmax(-1)
    order = probs.argsort(descending=True).tolist()[:top_k]
    of_them = sum(float(probs[token]) for token in order)
    kept, mass = [], 0.0
    for token in order:
        if mass < top_p:
            kept.append(token)
            mass += float(probs[token]) / of_them
    total = sum(float(probs[token]) for token in kept)
    return [float(probs[token]) / total if token in kept else 0.0 for token in range(V)]


def sharp_algorithm():
    algorithm = latent_algorithm().eval()
    algorithm.backbone.decoder.head.weight.data *= 4
    return algorithm


def law_of_two(algorithm, source: Tensor, options) -> dict[tuple[int, ...], float]:
    """All texts of at most two tokens; the decoder reads each from its start."""
    model, expected = algorithm.backbone, {}
    with torch.no_grad():
        prefix = model.prefix(algorithm.target_latents(source[:1]))
        first = cut(model.token_logits(prefix, torch.tensor([[0]]))[0, 0], **options)
        for a in range(V):
            second = cut(model.token_logits(prefix, torch.tensor([[a, 0]]))[0, 1], **options)
            expected |= {(a, b): first[a] * second[b] for b in range(V) if a != EOS}
    expected[EOS, PAD] = first[EOS]
    return expected


SHAPED = [
    {"temperature": 0.5, "top_k": 4, "top_p": 1.0},
    {"temperature": 2.0, "top_k": None, "top_p": 0.7},
    {"temperature": 1.5, "top_k": 5, "top_p": 0.8},
]


@pytest.mark.parametrize("options", [PLAIN, *SHAPED])
def test_texts_have_the_law_of_the_decoder(options):
    num, algorithm = 10_000, sharp_algorithm()
    source = one_source(num)
    expected = law_of_two(algorithm, source, options)
    assert sum(expected.values()) == pytest.approx(1)
    found = Counter(map(tuple, generated(algorithm, source, length=2, **options).x0.tolist()))
    assert all(expected.get(text, 0.0) > 0 for text in found)
    for text, share in expected.items():
        error = (share * (1 - share) / num) ** 0.5
        assert found[text] / num == pytest.approx(share, abs=4.5 * error + 1e-4), text
    exact = approximations(Generate(**options, stop_similarity=None), algorithm) == []
    assert exact == (options == PLAIN)
    assert "stop_similarity" in " ".join(approximations(Generate(**options), algorithm))


def test_without_temperature_it_is_the_likeliest_token():
    algorithm, source = latent_algorithm().train(), text_pairs(30).conditions["source"]
    found = generated(algorithm, source, temperature=0.0)
    assert algorithm.training
    algorithm.eval()  # nothing was dropped out
    for temperature in (0.0, 1e-40, 1e-300):
        again = generated(algorithm, source, temperature=temperature, seed=1)
        assert torch.equal(found.x0, again.x0)
    with torch.no_grad():
        prefix = algorithm.backbone.prefix(algorithm.target_latents(source))
        forced = algorithm.backbone.token_logits(prefix, found.x0).argmax(-1)
    before = (found.x0 == EOS).cumsum(dim=1) - (found.x0 == EOS).long() == 0
    assert torch.equal(forced[before], found.x0[before])
    assert (found.x0[~before] == PAD).all()


def test_a_sample_that_has_ended_costs_nothing():
    algorithm = latent_algorithm()
    found = generated(algorithm, text_pairs(40).conditions["source"], **PLAIN)
    ended = (found.x0 == EOS).any(dim=1)
    lengths = torch.where(ended, (found.x0 == EOS).long().argmax(dim=1) + 1, 6)
    assert len(lengths.unique()) > 3
    assert torch.equal(found.nfe, lengths + 1)
    rows = algorithm.backbone.decoder.cache.num_rows
    assert rows == [int((lengths > position).sum()) for position in range(6)]
    assert all(more >= fewer for more, fewer in pairwise(rows))


def test_latents_near_the_stop_latent_are_the_empty_text():
    algorithm = latent_algorithm().eval()
    source = text_pairs(4).conditions["source"]
    before = generated(algorithm, source, stop_similarity=None)
    with torch.no_grad():
        latents = algorithm.target_latents(source)
        algorithm.backbone.stop_latent.value.copy_(2 * latents[1])
    found = generated(algorithm, source, stop_similarity=0.999999)
    assert found.x0[1].tolist() == [EOS] + 5 * [PAD]
    assert found.nfe[1] == 1
    assert (found.nfe[[0, 2, 3]] > 1).all()
    assert torch.equal(generated(algorithm, source, stop_similarity=None).x0, before.x0)
    everything = generated(algorithm, source, stop_similarity=-1.0)
    assert everything.x0[:, 0].tolist() == [EOS] * 4
    assert algorithm.backbone.decoder.cache.num_rows == []  # no call without a row


@pytest.mark.skipif(find_spec("transformers") is None, reason="needs the extra text")
def test_what_a_decoder_of_transformers_keeps_is_what_it_would_compute_again():
    decoder = build_text_decoder(
        vocab_size=V,
        hidden_size=E,
        num_layers=2,
        num_heads=2,
        head_dim=8,
        intermediate_size=8,
    )
    algorithm = latent_algorithm(latent_model(decoder=decoder)).eval()
    source = text_pairs(12).conditions["source"]

    class Recording(Generate):
        def draw_tokens(self, logits: Tensor, generator: torch.Generator) -> Tensor:
            seen.append(logits)
            return super().draw_tokens(logits, generator)

    seen: list[Tensor] = []
    found = generated(algorithm, source, sampler=Recording(**PLAIN))
    with torch.no_grad():
        prefix = algorithm.backbone.prefix(algorithm.target_latents(source))
        again = algorithm.backbone.token_logits(prefix, found.x0)
    going = torch.arange(12)
    for position, logits in enumerate(seen):
        torch.testing.assert_close(logits, again[going, position])
        going = going[found.x0[going, position] != EOS]
    assert 0 < len(going) < 12


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"temperature": -1}, "sampling.temperature=-1: expected a number, at least 0"),
        ({"top_k": 0}, "sampling.top_k=0"),
        ({"top_p": 0.0}, "sampling.top_p=0.0"),
        ({"stop_similarity": 2}, "sampling.stop_similarity=2: expected a number"),
    ],
)
def test_settings_that_there_are_not(options, says):
    with pytest.raises(ValueError, match=says):
        build_sampler({"name": "generate", **options})


def test_samplers_and_algorithms_that_do_not_fit():
    assert fitting_samplers(latent_algorithm()) == ["generate"]
    with pytest.raises(ValueError, match="on latent and cannot be sampled by direct, which sampl"):
        check_sampler(Direct(), latent_algorithm())
    with pytest.raises(ValueError, match="steps=5: sampling=generate makes one call per token"):
        check_sampler(Generate(), latent_algorithm(), steps=5)
    real = torch.ones(2, 3, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"give conditions={'source'"):
        Generate().sample(latent_algorithm(), real, generator=make_generator(0))
