"""The two networks of any token sequence: their options, documents, what is refused."""

import pytest
import torch

from discrete_diffusion.models.dit import DiT
from discrete_diffusion.models.my_transformer import MyTransformer

TINY = {"vocab_size": 12, "hidden_size": 32, "n_blocks": 2, "n_heads": 4}


@pytest.mark.parametrize("length", [0, 5])
def test_any_length_is_read_and_every_logit_starts_at_zero(length):
    model = DiT(**TINY)
    x = torch.randint(0, 12, (3, length))
    logits = model(x, torch.rand(3))
    assert logits.shape == (3, length, 12)
    assert (logits == 0).all()


@pytest.mark.parametrize("causal", [True, False])
def test_causal_hides_the_future(randomise, causal):
    model = randomise(DiT(**TINY, causal=causal))
    x = torch.randint(0, 12, (2, 9))
    changed = x.clone()
    changed[:, 6:] = (changed[:, 6:] + 1) % 12
    same = torch.allclose(model(x)[:, :6], model(changed)[:, :6], atol=1e-5)
    assert same == causal


@pytest.mark.parametrize("causal", [True, False])
def test_padding_on_either_side_only_shifts(randomise, causal):
    model = randomise(DiT(**TINY, pad_id=11, causal=causal))
    x = torch.randint(0, 11, (2, 6))
    pad = torch.full((2, 3), 11)
    alone = model(x)
    # Rotary scores depend on distances, so three columns of PAD in front change nothing.
    for padded, columns in (
        (torch.cat([x, pad], 1), slice(6)),
        (torch.cat([pad, x], 1), slice(3, 9)),
    ):
        torch.testing.assert_close(model(padded)[:, columns], alone, atol=1e-5, rtol=0)


def test_left_out_columns_keep_the_positions_of_the_others(randomise):
    model = randomise(DiT(**TINY, pad_id=11))
    x = torch.randint(0, 11, (1, 8))
    x[:, 3] = 11
    full = torch.cat([x, torch.randint(0, 11, (1, 8))])  # column 3 is computed here
    torch.testing.assert_close(model(x)[0, 4:], model(full)[0, 4:], atol=1e-5, rtol=0)


def test_tied_weights_are_one_tensor_and_start_small():
    model = DiT(**{**TINY, "hidden_size": 128}, tie_word_embeddings=True)
    assert model.head.weight is model.token_embedding.weight
    logits = model(torch.randint(0, 12, (2, 9)))
    assert 0 < logits.abs().max() < 4  # an embedding of std 1 would say 128


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"pad_id": 12}, r"pad_id=12 is outside the vocabulary 0\.\.11"),
        ({"hidden_size": 12}, "even width per head; 12 over n_heads=4 is 3"),
        ({"activation": "gelu-tanh"}, "did you mean 'gelu_tanh'"),
        ({"sigma_input": "sigm"}, "did you mean 'sigma'"),
        ({"attention": "flex"}, r"at least 16 .* has 8 .*model\.n_heads=4"),
    ],
)
def test_bad_arguments_are_refused(options, says):
    with pytest.raises(ValueError, match=says):
        DiT(**{**TINY, **options})


X, BLOCKS = torch.zeros(2, 9, dtype=torch.long), torch.arange(9) // 3


@pytest.mark.parametrize(
    ("causal", "given", "says"),
    [
        (False, {"context": X}, "context needs group_idxs"),
        (True, {"group_idxs": BLOCKS}, r"set algo\.causal_attention=false"),
        (False, {"group_idxs": BLOCKS[:8]}, r"group_idxs has shape \(8,\); expected \(2, 9\), or"),
        (False, {"group_idxs": BLOCKS, "context": X[:, :8]}, r"context has shape \(2, 8\); .*2, 9"),
        (True, {"document_idxs": X[:, :3]}, "document_idxs"),
        (True, {"document_idxs": X, "cache": True}, "document_idxs"),
    ],
)
def test_wrong_conditions_are_refused(causal, given, says):
    model = DiT(**TINY, causal=causal)

    def call(cache=False, **options):
        columns = torch.arange(9)
        return model(X, **options, cache=model.new_cache(columns, columns, 2) if cache else None)

    with pytest.raises(ValueError, match=says):
        call(**given)


def test_sigma_itself_or_the_corrupted_share_is_embedded(randomise):
    model = randomise(DiT(**TINY))
    other = randomise(DiT(**TINY, sigma_input="sigma"))
    other.load_state_dict(model.state_dict())
    x, sigma = torch.randint(0, 12, (2, 9)), torch.tensor([0.3, 1.7])
    torch.testing.assert_close(other(x, -torch.expm1(-sigma)), model(x, sigma))
    assert not torch.allclose(other(x, sigma), model(x, sigma))
    torch.testing.assert_close(other(x, None), model(x, None))
    for form in (0.3, torch.full((2, 1), 0.3)):
        torch.testing.assert_close(other(x, form), other(x, torch.full((2,), 0.3)))


def test_a_network_without_biases_has_none_but_in_its_perceptrons():
    names = [name for name, _ in DiT(**TINY, bias=False, adaln=False).named_parameters()]
    biases = {name.split(".")[-2] for name in names if name.endswith("bias")}
    assert biases == {"up", "down", "head"}
    assert not [name for name in names if "modulation" in name or "timestep" in name]


def test_a_network_without_adaln_reads_no_noise_level(randomise):
    model = randomise(DiT(**TINY, adaln=False, causal=True))
    x = torch.randint(0, 12, (2, 9))
    assert torch.equal(model(x, torch.tensor([0.1, 5.0])), model(x))
    cache, parts = model.new_cache(torch.arange(9), torch.arange(9), 2), []
    for start, stop in ((0, 4), (4, 9)):
        cache.begin(None, start, stop, stop)
        parts.append(model(x[:, start:stop], cache=cache))
    torch.testing.assert_close(torch.cat(parts, dim=1), model(x), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "kind", [{}, {"causal": True}, {"pad_id": 11}], ids=["plain", "causal", "pad"]
)
def test_documents_of_one_row_do_not_see_each_other(randomise, kind):
    """Rotary scores depend on distances, so each has the logits that it has alone."""
    model = randomise(DiT(**TINY, **kind))
    parts = [torch.randint(0, 11, (2, length)) for length in (4, 1, 5)]
    documents = torch.tensor([[0] * 4 + [1] + [2] * 5] * 2)
    sigma, end = torch.rand(2), torch.full((2, 2), 11)
    row, more = torch.cat(parts, dim=1), torch.full((2, 2), 3)
    if "pad_id" in kind:  # behind the last document
        row, documents = torch.cat([row, end], dim=1), torch.cat([documents, more], dim=1)
    logits = model(row, sigma, document_idxs=documents)
    alone = torch.cat([model(part, sigma) for part in parts], dim=1)
    torch.testing.assert_close(logits[:, :10], alone, atol=1e-5, rtol=0)
    assert not torch.allclose(model(row, sigma)[:, :10], alone, atol=1e-3)


def test_documents_and_blocks_together(randomise):
    """A position sees what both let it see: clean tokens of earlier blocks of its own document."""
    model = randomise(DiT(**TINY))
    noisy, clean = torch.randint(0, 12, (2, 2, 8)).unbind()
    blocks, documents = torch.arange(8) // 2, torch.tensor([[0] * 4 + [1] * 4] * 2)
    given = {"group_idxs": blocks, "context": clean}
    logits = model(noisy, None, document_idxs=documents, **given)
    second = {"group_idxs": blocks[4:], "context": clean[:, 4:]}
    alone = model(noisy[:, 4:], None, **second)
    torch.testing.assert_close(logits[:, 4:], alone, atol=1e-5, rtol=0)
    torch.testing.assert_close(logits[:, :4], model(noisy, None, **given)[:, :4], atol=1e-5, rtol=0)


SMALL = {**TINY, "length": 9}


def test_time_conditioning_can_be_absent():
    torch.manual_seed(0)
    x, sigma = torch.randint(0, 12, (2, 9)), torch.tensor([0.1, 3.0])
    for timed in (True, False):
        model = MyTransformer(**SMALL, time_conditioning=timed).eval()
        assert torch.allclose(model(x, sigma), model(x, None)) != timed


def test_shorter_sequences_fit_and_longer_ones_are_refused():
    model = MyTransformer(**SMALL)
    assert model(torch.zeros(2, 4, dtype=torch.long)).shape == (2, 4, 12)
    with pytest.raises(ValueError, match="got 10 tokens; this model was built for at most 9"):
        model(torch.zeros(2, 10, dtype=torch.long))
    with pytest.raises(ValueError, match="n_heads=5 does not divide hidden_size=32"):
        MyTransformer(**{**SMALL, "n_heads": 5})
    with pytest.raises(ValueError, match="pad_id=12 is outside"):
        MyTransformer(**SMALL, pad_id=12)


def test_its_tied_weights_are_one_tensor():
    model = MyTransformer(**SMALL, tie_word_embeddings=True)
    assert model.head.weight is model.token_emb.weight
    assert model(torch.zeros(1, 9, dtype=torch.long)).abs().max() < 2


@torch.no_grad()
def test_evaluation_without_gradients_agrees_with_training_code(randomise):
    """``nn.TransformerEncoder`` switches to another kernel there."""
    model = randomise(MyTransformer(**SMALL, pad_id=11))
    x = torch.randint(0, 11, (3, 9))
    x[0, 5:], x[2] = 11, 11
    with torch.enable_grad():
        expected = model(x)
    assert expected.isfinite().all()
    real = x != 11
    assert model(x).isfinite().all()  # the sample of nothing but PAD as well
    torch.testing.assert_close(model(x)[real], expected[real], atol=1e-5, rtol=1e-5)
