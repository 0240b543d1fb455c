"""A U-Net over images, conditioned on a Dirichlet-to-Neumann map."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from continuous_states.networks.dtn_encoder import DtNEncoder, EncodedDtN
from continuous_states.networks.film_unet import FiLMUNet
from discrete_diffusion.models import corrupted_share


class DtNUNet(nn.Module):
    """The conditional transformer U-Net: noisy images and a map in, clean images out.

        cond = norm(bridge(encoder(dtn, t).vector))                              (B, K)
        clean = unet(x_t, t, cond), t = 1 - exp(-sigma)                          (B, C, H, W)

    With ``unet.token_dim`` the pixels also attend to the encoder's tokens.

    At first the condition has no effect at all: the linear layers that read it start at 0. They
    get a gradient only when the output layer has moved off 0, and the encoder only when they have:
    with ``zero_init_out`` at the third step, without it at the second.

    Raises ``ValueError`` if ``unet.token_dim`` is not ``encoder.d_model``.
    """

    def __init__(self, *, unet: FiLMUNet, encoder: DtNEncoder) -> None:
        super().__init__()
        if unet.token_dim not in (None, encoder.d_model):
            raise ValueError(
                f"the U-Net attends to tokens of width {unet.token_dim}, the encoder has "
                f"d_model={encoder.d_model}; make them equal"
            )
        self.unet, self.encoder = unet, encoder
        self.bridge = nn.Linear(encoder.d_model, unet.cond_dim)
        self.norm = nn.LayerNorm(unet.cond_dim)
        self._last_weights: Tensor | None = None  # of the last forward pass in training

    @property
    def encoder_reads_time(self) -> bool:
        """True if what ``encode`` returns holds for one time only."""
        return self.encoder.reads_time

    def fit_conditions(self, conditions: Mapping[str, Tensor]) -> None:
        """Standardise the entries of maps by those of training, ``dtn`` Float[S, n, n], if any."""
        if "dtn" in conditions:
            self.encoder.fit_condition(conditions["dtn"])

    def encode(self, dtn: Tensor, sigma: Tensor | None = None) -> EncodedDtN:
        """Encode maps Float[B, n, n]; with sigma None it reads no time."""
        reads = sigma is not None and self.encoder.reads_time
        return self.encoder(dtn, corrupted_share(sigma) if reads else None)

    def forward(
        self,
        x_t: Tensor,
        sigma: Tensor | None = None,
        dtn: Tensor | None = None,
        *,
        keep: Tensor | None = None,
        encoded: EncodedDtN | None = None,
    ) -> Tensor:
        """x_t Float[B, C, H, W], sigma Float[B] or None (read as 0) -> clean images, the same
        shape.

        ``dtn``: Float[B, n, n]; None: without a condition.
        ``keep``: Bool[B], False where a sample's condition is dropped (classifier-free guidance,
        arXiv 2207.12598).
        ``encoded``: what ``encode`` returned for ``dtn``, which is then not read.
        """
        if encoded is None and dtn is not None:
            encoded = self.encode(dtn, sigma)
        cond = tokens = None
        if encoded is not None:
            cond, tokens = self.norm(self.bridge(encoded.vector)), encoded.tokens
        if self.training and not torch.compiler.is_compiling():
            self._last_weights = None if encoded is None else encoded.weights.detach()
        return self.unet(x_t, corrupted_share(sigma), cond, tokens=tokens, keep=keep)

    @torch.no_grad()
    def diagnostics(self) -> dict[str, float]:
        """Numbers to log about the effect of the condition in the network.

        ``cond_gate``: mean of the gates. Of the last forward pass in training: ``time_film`` and
        ``cond_film``, the root mean square of what time and condition add to scale and shift, over
        samples and blocks; ``pool_entropy`` in nats and ``pool_largest`` of the pooling weights,
        means over the samples.
        """
        found = {"cond_gate": float(self.unet.gate.mean()), **self.unet.film_sizes()}
        if self._last_weights is not None:
            weights = self._last_weights.float()
            found["pool_entropy"] = float(torch.special.entr(weights).sum(dim=-1).mean())
            found["pool_largest"] = float(weights.amax(dim=-1).mean())
        return found
