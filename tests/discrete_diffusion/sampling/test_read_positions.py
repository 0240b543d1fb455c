"""Logits are computed at the positions that are read: equal tokens, fewer rows through the head."""

from __future__ import annotations

import pytest
import torch
from test_finished_blocks import LENGTH, MASK, PAD, SAMPLERS, VOCAB_SIZE, built, request, sampled
from torch import Tensor, nn

from discrete_diffusion.algorithms import MDLM, TokenAlgorithm, many_ids
from discrete_diffusion.categorical import log_softmax_on, make_generator
from discrete_diffusion.contracts import Batch, SampleOutput
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.models.dit import DiT
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling import Narrowing, partial_samples
from discrete_diffusion.sampling.likelihood import order_log_probs, random_order_log_probs


class Labelled(nn.Module):
    """A network conditioned on t and on a label, whose last states can be had."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.tokens, self.labels = nn.Embedding(VOCAB_SIZE, width), nn.Embedding(3, width)
        self.mixer, self.head = nn.Linear(LENGTH, LENGTH), nn.Linear(width, VOCAB_SIZE)

    def forward(self, x_t, sigma, *, label=None, keep=None, states=False):
        x = self.tokens(x_t) + torch.exp(-sigma).float()[:, None, None]
        if label is not None:
            x = x + self.labels(label if keep is None else label * keep)[:, None]
        x = (x + self.mixer(x.mT).mT).tanh()
        return x if states else self.head(x)


def mdlm(network: nn.Module | None = None, kind: type[MDLM] = MDLM, **options) -> MDLM:
    """With random weights, conditioned on t."""
    torch.manual_seed(0)
    support = torch.ones(LENGTH, VOCAB_SIZE, dtype=torch.bool)
    support[:, [MASK, PAD]] = False
    support[3, 4:6] = False
    sizes = {"hidden_size": 16, "n_blocks": 2, "n_heads": 2}
    network = DiT(vocab_size=VOCAB_SIZE, pad_id=PAD, **sizes) if network is None else network
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_().div_(parameter.shape[-1] ** 0.5 if parameter.ndim > 1 else 1)
    layout = TokenLayout(support, mask_id=MASK, pad_id=PAD)
    return kind(network, Absorbing(layout, LogLinear()), **options)


@pytest.fixture
def both_ways(monkeypatch):
    """Results with logits of all positions, then with those read, and the rows of both."""

    def run(algorithm: TokenAlgorithm, compute):
        num_rows: list[int] = []
        head = algorithm.backbone.head
        hook = head.register_forward_pre_hook(lambda module, args: num_rows.append(args[0].numel()))
        results, totals = [], []
        for threshold in (2**62, 0):
            monkeypatch.setattr(many_ids, "MANY_IDS", threshold)
            num_rows.clear()
            results.append(compute())
            totals.append(sum(num_rows))
        hook.remove()
        assert 0 < totals[1] < totals[0]
        return results

    return run


def check_equal(both_ways, algorithm: TokenAlgorithm, sampler: str, **options) -> None:
    expected, found = both_ways(algorithm, lambda: sampled(algorithm, sampler, **options))
    assert isinstance(found, SampleOutput)
    assert torch.equal(found.x0, expected.x0)
    assert torch.equal(found.nfe, expected.nfe)
    torch.testing.assert_close(found.log_weights, expected.log_weights, atol=1e-5, rtol=0)


def legal_request(name: str, algorithm: TokenAlgorithm) -> dict[str, Tensor | Narrowing]:
    """``request``, without clamps on ids that are not legal."""
    found = request(name)
    ids = found["clamp"].clamp(min=0)
    legal = algorithm.layout.support[torch.arange(LENGTH), ids]
    return {**found, "clamp": found["clamp"].where(legal, -1)}


@pytest.mark.parametrize(("sampler", "options"), [one for one in SAMPLERS if one[0] != "planned"])
def test_every_sampler_samples_the_same_tokens(sampler, options, both_ways):
    name = "blanks" if "tokens_per_call" in options else "pad"
    check_equal(both_ways, mdlm(), sampler, **legal_request(name, mdlm()), **options)


@pytest.mark.parametrize("name", ["support", "narrowing"])
@pytest.mark.parametrize("sampler", ["first-hitting", "entropy", "entropy-bounded"])
def test_narrowed_samples_are_the_same(sampler, name, both_ways):
    check_equal(both_ways, mdlm(), sampler, **legal_request(name, mdlm()))


@pytest.mark.parametrize(
    ("kind", "sampler"), [("bd3lm", "entropy-bounded"), ("ar", "first-hitting")]
)
def test_so_are_those_of_a_network_that_keeps_finished_blocks(
    kind, sampler, both_ways, monkeypatch
):
    monkeypatch.setattr(partial_samples, "COLUMNS_OF_A_CALL", 0)
    algorithm = built(kind)
    algorithm.backbone.float()
    check_equal(both_ways, algorithm, sampler, **request("blanks"))


@pytest.mark.parametrize("sampler", ["first-hitting", "entropy", "confidence"])
def test_so_are_guided_samples(sampler, both_ways):
    algorithm = mdlm(Labelled(), condition_dropout=0.1)
    given = {"conditions": {"label": torch.arange(7) % 3}, "guidance": 2.0}
    check_equal(both_ways, algorithm, sampler, **legal_request("plain", algorithm), **given)


def test_so_are_samples_in_bfloat16(both_ways):
    with torch.autocast("cpu", torch.bfloat16):
        check_equal(both_ways, mdlm(), "first-hitting", **legal_request("pad", mdlm()))


def test_so_are_samples_of_a_language_model(both_ways):
    pytest.importorskip("transformers")
    from discrete_diffusion.models.transformers_backbone import build_language_model

    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    network = build_language_model(layout=mdlm().layout, model_type="bert", **sizes)
    algorithm = mdlm(network, time_conditioning=False)
    check_equal(both_ways, algorithm, "first-hitting", **legal_request("pad", algorithm))


@pytest.mark.parametrize("score", ["left-to-right", "entropy", None])
def test_log_probabilities_of_samples_are_the_same(score, both_ways):
    algorithm = mdlm()
    batch = Batch(sampled(algorithm, "first-hitting", **request("pad")).x0, request("pad")["real"])
    u = torch.rand(batch.x0.shape, dtype=torch.float64, generator=make_generator(6))

    def compute() -> Tensor:
        if score is None:
            return random_order_log_probs(algorithm, batch, u)
        return order_log_probs(algorithm, batch, score)

    expected, found = both_ways(algorithm, compute)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


class Sharper(MDLM):
    def denoise(self, x_t, t, real, conditions=None):
        return log_softmax_on(2 * self.logits(x_t, t, real, conditions), self.layout.support)


class Halved(MDLM):
    def logits(self, x_t, t, real, conditions=None):
        return super().logits(x_t, t, real, conditions) / 2


class Scaled(MDLM):
    def apply_backbone(self, x_t, sigma, conditions=None):
        return 2 * super().apply_backbone(x_t, sigma, conditions)


class Headless(nn.Module):
    """A network whose head is hidden from others."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Labelled()

    def forward(self, x_t, sigma):
        return self.inner(x_t, sigma)


@pytest.mark.parametrize("kind", [Sharper, Halved, Scaled, MDLM])
def test_predictions_of_its_own_are_computed_everywhere(kind, monkeypatch):
    monkeypatch.setattr(many_ids, "MANY_IDS", 0)
    algorithm = mdlm(Headless() if kind is MDLM else None, kind).eval()
    assert algorithm.states_head is None
    real = request("pad")["real"]
    x, t = torch.where(real, MASK, PAD), torch.rand(7, generator=make_generator(7))
    at = real & (torch.rand(real.shape, generator=make_generator(8)) < 0.3)
    found = algorithm.denoise_at(x, t, real, at)
    assert torch.equal(found, algorithm.denoise(x, t, real)[at])


def test_d_at_some_positions_is_that_of_all(monkeypatch):
    """Also at 0 to 3 positions, whose product with the head is filled up."""
    monkeypatch.setattr(many_ids, "MANY_IDS", 0)
    algorithm, real = mdlm().eval(), request("pad")["real"]
    x, t = torch.where(real, MASK, PAD), torch.rand(7, generator=make_generator(7))
    whole = algorithm.denoise(x, t, real)
    for num in (0, 1, 2, 3, 4, 30):
        at = torch.zeros_like(real)
        at[tuple(real.nonzero()[:num].T)] = True
        assert torch.equal(algorithm.denoise_at(x, t, real, at), whole[at])
