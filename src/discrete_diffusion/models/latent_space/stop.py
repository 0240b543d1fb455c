"""The latent vectors of the end of a text."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from discrete_diffusion.naming import unknown_name

STOPS = ("random_normalized", "zero")


class StopLatent(nn.Module):
    """K latent vectors that stand for the end of a text.

    ``init``: ``random_normalized``, rows of norm 1 drawn with ``seed``, or ``zero``.
    ``learnable``: a parameter; otherwise a buffer, which keeps its first value. Either is the entry
    ``value`` of the state dict.

    Raises ``ValueError`` for another ``init``.
    """

    value: Tensor

    def __init__(
        self,
        *,
        latent_dim: int = 256,
        latent_seq_len: int = 8,
        init: str = "random_normalized",
        seed: int = 1337,
        learnable: bool = True,
    ) -> None:
        super().__init__()
        if init not in STOPS:
            raise ValueError(unknown_name("model.stop_latent.init", str(init), STOPS))
        value = torch.zeros(latent_seq_len, latent_dim)
        if init == "random_normalized":
            generator = torch.Generator().manual_seed(seed)
            drawn = torch.randn(value.shape, generator=generator, device="cpu")
            value.copy_(F.normalize(drawn, dim=-1))
        if learnable:
            self.value = nn.Parameter(value)
        else:
            self.register_buffer("value", value)

    def forward(self) -> Tensor:
        """Float[K, D]."""
        return self.value
