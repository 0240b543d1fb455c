import torch

from discrete_diffusion.models.attention import RotaryEmbedding, apply_rotary


def tables(positions: torch.Tensor, head_dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    return RotaryEmbedding(d_model=head_dim, n_heads=1)(positions)


def test_rotary_is_multiplication_by_a_complex_phase():
    positions = torch.tensor([0, 1, 5, 100])
    x = torch.randn(2, 3, 4, 8, dtype=torch.float64)
    rotated = apply_rotary(x, tables(positions, 8))
    phase = torch.tensor([[p * 10_000 ** (-k / 4) for k in range(4)] for p in positions.tolist()])
    expected = torch.complex(x[..., :4], x[..., 4:]) * torch.exp(1j * phase.double())
    torch.testing.assert_close(
        rotated, torch.cat([expected.real, expected.imag], dim=-1), atol=1e-5, rtol=0
    )


def test_scores_depend_on_the_distance_only():
    q, k = torch.randn(8, dtype=torch.float64), torch.randn(8, dtype=torch.float64)

    def score(i, j):
        qi, kj = (apply_rotary(x[None], tables(torch.tensor([p]), 8)) for x, p in ((q, i), (k, j)))
        return (qi * kj).sum()

    torch.testing.assert_close(score(2, 5), score(40, 43), atol=1e-5, rtol=0)
    assert abs(score(2, 5) - score(2, 6)) > 1e-3


def test_position_zero_and_norms_are_untouched():
    x = torch.randn(5, 6)
    rotated = apply_rotary(x, tables(torch.arange(5), 6))
    torch.testing.assert_close(rotated[0], x[0])
    torch.testing.assert_close(rotated.norm(dim=-1), x.norm(dim=-1))
