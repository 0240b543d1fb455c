"""Denoisers that are told facts of their samples."""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from discrete_diffusion.models.bd_denoiser import BDDenoiser
from discrete_diffusion.models.bd_denoiser_pair import BDDenoiserPair
from discrete_diffusion.models.transformer import FactTokens

SIZES = (3, 1, 2)
TINY = {"d_model": 32, "n_layers": 2, "n_heads": 4, "vocab_config": RPLAN_VOCAB_CONFIG}
OWN = {BDDenoiser: {}, BDDenoiserPair: {"d_pair": 16}}
NAN = torch.nan


@pytest.fixture(params=OWN)
def build(request):
    """A small denoiser of either class, the same at every call but for what is told."""

    def built(**options):
        torch.manual_seed(0)
        return request.param(**{**TINY, **OWN[request.param], **options}).eval()

    return built


def batch(num: int = 6) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, 10, (num, 36), generator=generator)
    condition = torch.randn(num, sum(SIZES), generator=generator)
    return tokens, torch.ones_like(tokens, dtype=torch.bool), condition


def shaken(model: torch.nn.Module, names: str = "") -> torch.nn.Module:
    """The model with other weights, those alone whose name has ``names`` in it."""
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if names in name:
                parameter += 0.2 * torch.randn(parameter.shape, generator=generator)
    return model


def same(first, second) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_an_unconditional_network_is_reproduced_bit_for_bit(build):
    tokens, real, condition = batch()
    plain, told = shaken(build()), build(condition=SIZES)
    missing = told.load_state_dict(plain.state_dict(), strict=False).missing_keys
    assert {name.split(".")[1] for name in missing} == {"tokens", "attention"}
    assert all(name.startswith("facts.") for name in missing)
    assert {"facts.tokens.nothing", "facts.attention.1.attention.out.weight"} <= {*missing}
    expected = plain(tokens, real, 0.3)
    assert same(told(tokens, real, 0.3, condition), expected)
    assert same(told(tokens, real, 0.3), expected)


def test_what_is_told_changes_what_it_says(build):
    model, (tokens, real, condition) = shaken(build(condition=SIZES)), batch()
    said = model(tokens, real, 0.3, condition)
    for k in range(condition.shape[1]):
        other = condition.clone()
        other[:, k] += 1
        assert not same(model(tokens, real, 0.3, other), said)


def test_what_is_not_known_is_not_read(build):
    model, (tokens, real, condition) = shaken(build(condition=SIZES)), batch()
    unknown = condition.clone()
    unknown[:, 4] = NAN  # one number of the last fact: all of it
    other = unknown.clone()
    other[:, 5] = 7.0
    said = model(tokens, real, 0.3, unknown)
    assert same(model(tokens, real, 0.3, other), said)
    assert all(logits.isfinite().all() for logits in said)
    assert not same(model(tokens, real, 0.3, condition), said)


def test_samples_that_are_dropped_are_told_nothing(build):
    model, (tokens, real, condition) = shaken(build(condition=SIZES)), batch()
    keep = torch.tensor([True, False] * 3)
    mixed = model(tokens, real, 0.3, condition, keep=keep)
    told, nothing = model(tokens, real, 0.3, condition), model(tokens, real, 0.3)
    unknown = model(tokens, real, 0.3, torch.full_like(condition, NAN))
    for k in range(2):
        torch.testing.assert_close(mixed[k][keep], told[k][keep])
        torch.testing.assert_close(mixed[k][~keep], nothing[k][~keep])
        torch.testing.assert_close(unknown[k], nothing[k])
        assert not torch.allclose(told[k], nothing[k])


def test_training_hides_a_share_of_the_facts():
    tokens, (_, _, condition) = FactTokens((1,) * 6, 8, dropout=0.25), batch(4000)
    torch.manual_seed(0)
    _, seen = tokens(condition, None, len(condition))
    assert seen.shape == (4000, 1, 1, 7)
    assert seen[..., 0].all()
    assert float(seen[..., 1:].double().mean()) == pytest.approx(0.75, abs=0.02)
    _, seen = tokens.eval()(condition, None, len(condition))
    assert seen.all()


def test_a_fact_of_many_numbers_is_read_at_the_scale_of_a_few():
    tokens = FactTokens((4,), 8)
    fact = torch.randn(3, 4)
    expected = tokens.norm(tokens.readers[0](fact / 2))
    torch.testing.assert_close(tokens(fact, None, 3)[0][:, 1], expected)
