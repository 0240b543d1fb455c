import torch

from discrete_diffusion.models.blocks import RMSNorm


def test_rms_norm_is_its_equation():
    norm, x = RMSNorm(d_model=6).double(), torch.randn(2, 3, 6, dtype=torch.float64)
    torch.nn.init.normal_(norm.weight)
    expected = x / (x.pow(2).mean(dim=-1, keepdim=True) + 1e-6).sqrt() * norm.weight
    torch.testing.assert_close(norm(x), expected)
    assert (norm(torch.zeros_like(x)) == 0).all()
