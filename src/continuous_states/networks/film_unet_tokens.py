"""The U-Net conditioned on a Dirichlet-to-Neumann map, over images whose pixels are ids."""

from __future__ import annotations

from collections.abc import Mapping

from einops import rearrange
from torch import Tensor, nn

from continuous_states.networks.dtn_encoder import EncodedDtN
from continuous_states.networks.dtn_unet import DtNUNet


class FilmUNetTokens(nn.Module):
    """Pixel ids in, a row of logits per pixel out; row-major, L = H W.

        x = embedding(x_t) as an image                                           (B, D, H, W)
        logits = network(x, sigma, dtn)                                          (B, V, H, W)

    D and V are the channels that ``network`` takes and returns. MASK is an id like any other: its
    logit is left to the algorithm. Other methods are those of ``DtNUNet``.

    Raises ``ValueError`` if the network cannot take images of ``height`` x ``width``.
    """

    def __init__(self, *, network: DtNUNet, height: int, width: int) -> None:
        super().__init__()
        network.unet.check_size(height, width)
        self.network, self.height, self.width = network, height, width
        self.embedding = nn.Embedding(network.unet.out_channels, network.unet.in_channels)

    @property
    def encoder_reads_time(self) -> bool:
        return self.network.encoder_reads_time

    def fit_conditions(self, conditions: Mapping[str, Tensor]) -> None:
        self.network.fit_conditions(conditions)

    def encode(self, dtn: Tensor, sigma: Tensor | None = None) -> EncodedDtN:
        return self.network.encode(dtn, sigma)

    def diagnostics(self) -> dict[str, float]:
        return self.network.diagnostics()

    def forward(
        self,
        x_t: Tensor,
        sigma: Tensor | None = None,
        dtn: Tensor | None = None,
        *,
        keep: Tensor | None = None,
        encoded: EncodedDtN | None = None,
    ) -> Tensor:
        """x_t Int[B, L], sigma Float[B] or None (read as 0) -> logits Float[B, L, V]; ``dtn``,
        ``keep`` and ``encoded`` as for ``DtNUNet``.

        Raises ``ValueError`` for other shapes.
        """
        if x_t.ndim != 2 or x_t.shape[1] != self.height * self.width:
            raise ValueError(
                f"x_t has shape {tuple(x_t.shape)}; expected (B, {self.height * self.width}), the "
                f"pixels of {self.height} x {self.width} images"
            )
        x = rearrange(self.embedding(x_t), "b (h w) d -> b d h w", h=self.height)
        logits = self.network(x, sigma, dtn, keep=keep, encoded=encoded)
        return rearrange(logits, "b v h w -> b (h w) v")
