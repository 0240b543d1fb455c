"""Time on its way into a network: from sigma to t, to one value per sample, to a vector."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def corrupted_share(sigma: Tensor | None) -> Tensor | float:
    """t = 1 - exp(-sigma), the corrupted share of the tokens, whatever the schedule; None -> 0."""
    return 0.0 if sigma is None else -torch.expm1(-sigma)


def process_t(t: Tensor | float, batch_size: int, device: torch.device | str | None) -> Tensor:
    """One floating time per sample, Float[B], from a number, a 0-d, (1,) or (B,) tensor.

    Raises ``ValueError`` for any other shape.
    """
    if not isinstance(t, Tensor):
        return torch.full((batch_size,), float(t), device=device)
    if t.ndim > 1 or (t.ndim == 1 and t.shape[0] not in (1, batch_size)):
        raise ValueError(
            f"t has shape {tuple(t.shape)}; expected a number or a tensor of shape (), (1,) "
            f"or ({batch_size},), one time per sample"
        )
    t = t.to(device)
    return (t if t.is_floating_point() else t.float()).expand(batch_size)


def distinct_time(t: Tensor) -> Tensor:
    """t Float[B], or Float[1] if all samples have the same, so that what follows from it is
    computed once. On the CPU only: elsewhere it would have to be read back."""
    return t[:1] if t.device.type == "cpu" and len(t) > 1 and bool((t == t[0]).all()) else t


def sinusoid(t: Tensor, size: int, max_period: float = 10_000.0) -> Tensor:
    """[cos(t f_k), sin(t f_k)] for f_k = max_period^(-2k/size): Float[B] -> Float[B, size].

    Computed in float32 at least: bfloat16 cannot tell t = 999 from t = 1000.
    """
    half = size // 2
    t = t.to(torch.promote_types(t.dtype, torch.float32))
    exponent = torch.arange(half, device=t.device, dtype=t.dtype) / half
    angle = t.unsqueeze(-1) * torch.exp(-math.log(max_period) * exponent)  # (B, size/2)
    return torch.cat([angle.cos(), angle.sin()], dim=-1)


class TimestepEmbedder(nn.Module):
    """Linear(SiLU(Linear(sinusoid(time_scale * t)))): Float[B] times in [0, 1] -> Float[B, D].

    ``time_scale``: with 1 the fastest of the sinusoids turns by one radian between t = 0 and
    t = 1, so that the two ends look alike (cosine similarity 0.97); 1000 spreads them.
    """

    def __init__(
        self,
        *,
        d_model: int,
        frequency_embedding_size: int = 256,
        max_period: float = 10_000.0,
        time_scale: float = 1000.0,
    ) -> None:
        super().__init__()
        if frequency_embedding_size < 2 or frequency_embedding_size % 2:
            raise ValueError(
                f"frequency_embedding_size={frequency_embedding_size}: expected an even number, "
                "half of it cosines and half sines"
            )
        self.frequency_embedding_size = frequency_embedding_size
        self.max_period = max_period
        self.time_scale = time_scale
        self.mlp = nn.Sequential(
            nn.Linear(frequency_embedding_size, d_model), nn.SiLU(), nn.Linear(d_model, d_model)
        )

    def forward(self, t: Tensor) -> Tensor:
        waves = sinusoid(t * self.time_scale, self.frequency_embedding_size, self.max_period)
        return self.mlp(waves.to(next(self.mlp.parameters()).dtype))
