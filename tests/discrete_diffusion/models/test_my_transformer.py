import pytest
import torch

from discrete_diffusion.models.my_transformer import MyTransformer

TINY = {"vocab_size": 12, "length": 9, "hidden_size": 32, "n_blocks": 2, "n_heads": 4}


def test_time_conditioning_can_be_absent():
    torch.manual_seed(0)
    x, sigma = torch.randint(0, 12, (2, 9)), torch.tensor([0.1, 3.0])
    with_time, without = (
        MyTransformer(**TINY).eval(),
        MyTransformer(**TINY, time_conditioning=False),
    )
    assert not torch.allclose(with_time(x, sigma), with_time(x, None))
    without.eval()
    torch.testing.assert_close(without(x, sigma), without(x, None))


def test_shorter_sequences_fit_and_longer_ones_are_refused():
    model = MyTransformer(**TINY)
    assert model(torch.zeros(2, 4, dtype=torch.long)).shape == (2, 4, 12)
    with pytest.raises(ValueError, match="got 10 tokens; this model was built for at most 9"):
        model(torch.zeros(2, 10, dtype=torch.long))


def test_tied_weights_are_one_tensor():
    model = MyTransformer(**TINY, tie_word_embeddings=True)
    assert model.head.weight is model.token_emb.weight
    assert model(torch.zeros(1, 9, dtype=torch.long)).abs().max() < 2


@torch.no_grad()
def test_evaluation_without_gradients_agrees_with_training_code(randomise):
    """``nn.TransformerEncoder`` switches to another kernel there."""
    model = randomise(MyTransformer(**TINY, pad_id=11))
    x = torch.randint(0, 11, (3, 9))
    x[0, 5:], x[2] = 11, 11
    with torch.enable_grad():
        expected = model(x)
    assert expected.isfinite().all()
    real = x != 11
    assert model(x).isfinite().all()  # the sample of nothing but PAD as well
    torch.testing.assert_close(model(x)[real], expected[real], atol=1e-5, rtol=1e-5)


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="n_heads=5 does not divide hidden_size=32"):
        MyTransformer(**{**TINY, "n_heads": 5})
    with pytest.raises(ValueError, match="pad_id=12 is outside"):
        MyTransformer(**TINY, pad_id=12)
