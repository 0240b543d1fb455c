import pytest
import torch

from continuous_states.networks.latent_space import SwiGLU, rms_norm


def test_swiglu_is_its_equation():
    block, x = SwiGLU(d_model=6, mlp_ratio=2).double(), torch.randn(2, 3, 6, dtype=torch.float64)
    gate, value = block.up(x)[..., :12], block.up(x)[..., 12:]
    torch.testing.assert_close(block(x), block.down(gate * torch.sigmoid(gate) * value))
    assert sum(p.numel() for p in block.parameters()) == 3 * 2 * 36 + 2 * 2 * 6 + 6


def test_dropout_is_of_the_hidden_units():
    block = SwiGLU(d_model=6, dropout=1.0)
    out = block(torch.randn(2, 6))
    assert torch.equal(out, block.down.bias.expand(2, 6))
    assert not torch.equal(block.eval()(torch.randn(2, 6)), out)


def test_no_hidden_unit_is_refused():
    with pytest.raises(ValueError, match=r"mlp_ratio=0\.1 leaves no hidden unit at d_model=6"):
        SwiGLU(d_model=6, mlp_ratio=0.1)


def test_rms_norm_is_its_equation():
    norm, x = rms_norm(6).double(), torch.randn(2, 3, 6, dtype=torch.float64)
    torch.nn.init.normal_(norm.weight)
    expected = x / (x.pow(2).mean(dim=-1, keepdim=True) + 1e-6).sqrt() * norm.weight
    torch.testing.assert_close(norm(x), expected)
    assert (norm(torch.zeros_like(x)) == 0).all()
