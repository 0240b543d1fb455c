"""An encoder and a decoder of texts with latent vectors between them."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from continuous_states.networks.latent_space.parts import (
    LatentEncoder,
    MiddleTransformer,
    PrefixAdapter,
    StopLatent,
    rms_norm,
)

if TYPE_CHECKING:
    from continuous_states.networks.text_models import TextDecoder, TextEncoder

_SMALLEST_NORM = 1e-3
"""Shorter rows are not scaled to 1, or the gradient of a row of zeros would be without bound."""


def unit_rows(latents: Tensor) -> Tensor:
    """z / |z| of each latent vector, (..., K, D) -> (..., K, D)."""
    return F.normalize(latents, dim=-1, eps=_SMALLEST_NORM)


@dataclass(frozen=True)
class LatentOutput:
    """``source_latents`` Float[B, K, D] of the encoder; ``latents`` Float[B, K, D] of the middle;
    ``logits`` Float[B, T, V], those at t for target token t."""

    source_latents: Tensor
    latents: Tensor
    logits: Tensor


class LatentSpaceModel(nn.Module):
    """A text encoder, a few latent vectors and a text decoder.

        z_in = compression(encoder(source))                              (B, K, D)
        z_out = middle(z_in)                                             (B, K, D)
        prefix = prefix_norm(adapter(z_out / |z_out|, per vector))       (B, P, E)
        logits = decoder([prefix, target]), from prefix position P-1 on  (B, T, V)

    The parts are the attributes ``encoder``, ``compression``, ``middle``, ``adapter``,
    ``prefix_norm``, ``stop_latent`` and ``decoder``.

    Deviation: the compression is trained like the other parts; in the public code it keeps its
    random weights.
    Deviation: the stop latent is learned; in the public code it is a buffer.
    Deviation: attention turns and mixes each head by itself; the public code mixes the heads of
    tokens.
    Deviation: the prefix is not turned by its index after ``prefix_norm``.
    Deviation: ``num_unfrozen_layers`` belongs to the text encoder, and None, all of its layers, is
    the default instead of 0.

    Raises ``ValueError`` if the widths of the parts do not fit each other.
    """

    def __init__(
        self,
        *,
        encoder: TextEncoder,
        decoder: TextDecoder,
        compression: LatentEncoder | None = None,
        middle: MiddleTransformer | None = None,
        adapter: PrefixAdapter | None = None,
        stop_latent: StopLatent | None = None,
    ) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder
        self.compression = compression or LatentEncoder()
        self.middle = middle or MiddleTransformer()
        self.adapter = adapter or PrefixAdapter()
        self.prefix_norm = rms_norm(self.adapter.decoder_dim)
        self.stop_latent = stop_latent or StopLatent()
        self._check_widths()

    def encode(self, source: Tensor, real: Tensor) -> Tensor:
        """source Int[B, L], real Bool[B, L] -> latents Float[B, K, D]."""
        return self.compression(self.encoder(source, real), real)

    def with_stop(self, latents: Tensor) -> Tensor:
        """Float[B, K, D] -> Float[B + 1, K, D], the stop latent behind the samples."""
        return torch.cat([latents, self.stop_latent().to(latents.dtype).unsqueeze(0)])

    def prefix(self, latents: Tensor) -> Tensor:
        """Latents of any scale, Float[B, K, D] -> prefix embeddings Float[B, P, E]."""
        return self.prefix_norm(self.adapter(unit_rows(latents)))

    def token_logits(self, prefix: Tensor, target: Tensor) -> Tensor:
        """prefix Float[B, P, E], target Int[B, T] -> Float[B, T, V], those at t for token t.

        The decoder reads the prefix and the tokens 0..T-2, and its outputs from position P-1 on are
        returned. It is causal: padding behind a target changes no logits of its tokens.
        """
        if target.shape[1] < 1:
            raise ValueError("targets have no tokens; end every target with an end-of-text id")
        embedded = self.decoder.embed(target[:, :-1])
        joined = torch.cat([prefix.to(embedded.dtype), embedded], dim=1)
        return self.decoder(joined, num_logits=target.shape[1])

    def forward(self, source: Tensor, source_real: Tensor, target: Tensor) -> LatentOutput:
        """source Int[B, L], source_real Bool[B, L], target Int[B, T], padded behind."""
        source_latents = self.encode(source, source_real)
        latents = self.middle(source_latents)
        logits = self.token_logits(self.prefix(latents), target)
        return LatentOutput(source_latents, latents, logits)

    def _check_widths(self) -> None:
        shared = {
            "states": ("encoder.hidden_size", "compression.hidden_dim"),
            "latent vectors": (
                *("compression.latent_dim", "middle.latent_dim", "adapter.latent_dim"),
                "stop_latent.latent_dim",
            ),
            "sequences of latent vectors": (
                "compression.latent_seq_len",
                "stop_latent.latent_seq_len",
            ),
            "embeddings": ("adapter.decoder_dim", "decoder.hidden_size"),
        }
        for what, names in shared.items():
            widths = [attrgetter(name)(self) for name in names]
            if len({*widths}) > 1:
                found = ", ".join(f"{n}={width}" for n, width in zip(names, widths, strict=True))
                raise ValueError(f"the parts disagree on their {what}: {found}; make them equal")
