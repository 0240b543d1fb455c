"""A map in, the image that is expected of it out: the encoder of ``DtNUNet`` with a head."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from einops import rearrange
from torch import Tensor, nn

from continuous_states.networks.dtn_encoder import DtNEncoder
from discrete_diffusion.models import zeroed


class DtNRegressor(nn.Module):
    """A Dirichlet-to-Neumann map to an image, as far as the encoder's vector says.

        image = head(norm(encoder(dtn).vector))                                  (B, C, H, W)

    ``shape``: (C, H, W). ``head_widths``: of the hidden layers of ``head``, each followed by GELU;
    the last layer starts at 0, and so does the image. ``read_tokens``: the head reads the n tokens
    too, one after the other behind the vector. Noisy images are not read, times neither: the
    encoder has none. Its weights fit those of a ``DtNUNet`` whose encoder reads no time.

    Raises ``ValueError`` for an encoder that reads the time, or a width below 1.
    """

    def __init__(
        self,
        *,
        encoder: DtNEncoder,
        shape: tuple[int, int, int],
        head_widths: Sequence[int],
        read_tokens: bool = False,
    ) -> None:
        super().__init__()
        if encoder.reads_time:
            raise ValueError("a regressor has no time; give an encoder without time_conditioning")
        if any(hidden < 1 for hidden in head_widths):
            raise ValueError(f"head_widths={[*head_widths]}: expected numbers of at least 1")
        self.encoder, self.shape, self.read_tokens = encoder, shape, read_tokens
        width = encoder.d_model * (1 + (encoder.num_boundary if read_tokens else 0))
        self.norm = nn.LayerNorm(width)
        self.head = _perceptron(width, *head_widths, math.prod(shape))

    def fit_conditions(self, conditions: Mapping[str, Tensor]) -> None:
        """Fit conditions as ``DtNUNet.fit_conditions`` does."""
        if "dtn" in conditions:
            self.encoder.fit_condition(conditions["dtn"])

    def forward(
        self, x_t: Tensor, sigma: Tensor | None = None, dtn: Tensor | None = None
    ) -> Tensor:
        """dtn Float[B, n, n] -> images Float[B, C, H, W]; of x_t Float[B, C, H, W] only the shape
        is read.

        Raises ``ValueError`` without a map, or for images of another shape.
        """
        if dtn is None or tuple(x_t.shape) != (len(dtn), *self.shape):
            maps = "no maps" if dtn is None else f"maps of shape {tuple(dtn.shape)}"
            raise ValueError(
                f"x_t has shape {tuple(x_t.shape)} and there are {maps}; expected (B, "
                f"{', '.join(map(str, self.shape))}) and as many maps"
            )
        channels, height, _ = self.shape
        encoded = self.encoder(dtn)
        read = encoded.vector
        if self.read_tokens:
            read = torch.cat([read, rearrange(encoded.tokens, "b n d -> b (n d)")], dim=1)
        return rearrange(self.head(self.norm(read)), "b (c h w) -> b c h w", c=channels, h=height)


def _perceptron(*widths: int) -> nn.Sequential:
    """Linear layers with GELU between them, the last one 0."""
    layers: list[nn.Module] = []
    for inside, outside in pairwise(widths):
        layers += [nn.Linear(inside, outside), nn.GELU()]
    zeroed(layers[-2])
    return nn.Sequential(*layers[:-1])
