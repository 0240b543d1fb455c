"""Transformer over rows of real numbers, in which a learned token marks hidden rows."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from discrete_diffusion.config import check_name
from discrete_diffusion.models import (
    AdaLNZeroBlock,
    ColumnPacking,
    TimestepEmbedder,
    corrupted_share,
    distinct_time,
    pack_columns,
    process_t,
    sinusoid,
    zeroed,
)

POSITIONS = ("sinusoidal", "none")


class GetRegion(nn.Module):
    """GETRegionDiffusion: the masked region-motif transformer of GET (Fu et al., Nature 2025,
    doi 10.1038/s41586-024-08391-z), conditioned on t: N rows of M features in, clean rows out.

        h = region_embedding(x_t)                                        (B, N, D)
        h = mask_token where masked, h + mask_token where noisy          (B, N, D)
        x = [cls_token; h + sinusoid(row index)]                         (B, 1 + N, D)
        c = SiLU(timestep_embedder(1 - exp(-sigma)))                     (B, D)
        x = block(x, c), norms without scale and shift                   n_layers times
        rows = head(norm(x without its first column))                    (B, N, M)

    Blocks start as the identity (Peebles & Xie, arXiv 2212.09748); tokens start as a truncated
    normal of std 0.02. Every layer norm has eps 1e-6; only the last one is affine.

    ``position_embedding``: ``sinusoidal``, or ``none``, with which permuted rows give permuted
    outputs. ``zero_init_head``: the head starts at 0, so that the first predictions are exactly 0.
    ``time_scale``: factor of t before its sinusoid; published: 1000 steps.

    Raises ``ValueError`` for an unknown ``position_embedding``, an odd ``d_model`` with sinusoidal
    positions, and if ``n_heads`` does not divide ``d_model``.

    Deviation: rows have positions. The published network has none, but neighbours in a window
    predict each other; ``position_embedding="none"`` is as published.
    Deviation: the head starts at 0; as published it is a default linear layer,
    ``zero_init_head=False``.
    Deviation: where the published text and code disagree, this is the code: the exact GELU, not the
    tanh formula; [cos, sin] side by side, not interleaved; modulation in the order shift, scale,
    gate.
    """

    def __init__(
        self,
        *,
        num_features: int,
        d_model: int,
        n_layers: int,
        n_heads: int,
        mlp_ratio: float = 4,
        dropout: float = 0.0,
        frequency_embedding_size: int = 256,
        time_scale: float = 1000.0,
        position_embedding: str = "sinusoidal",
        zero_init_head: bool = True,
    ) -> None:
        super().__init__()
        check_name("model.position_embedding", position_embedding, POSITIONS)
        if position_embedding == "sinusoidal" and d_model % 2:
            raise ValueError(
                f"sinusoidal positions need an even d_model, got {d_model}; choose "
                f"{d_model + 1}, or position_embedding=none"
            )
        # embedding of rows, tokens of hidden rows and of the window
        self.num_features, self.position_embedding = num_features, position_embedding
        self.region_embedding = nn.Linear(num_features, d_model)
        self.mask_token = nn.Parameter(torch.empty(d_model))
        self.cls_token = nn.Parameter(torch.empty(d_model))
        for token in (self.mask_token, self.cls_token):
            nn.init.trunc_normal_(token, std=0.02)
        # blocks modulated by the time
        self.timestep_embedder = TimestepEmbedder(
            d_model, frequency_embedding_size=frequency_embedding_size, time_scale=time_scale
        )
        self.blocks = nn.ModuleList(
            AdaLNZeroBlock(
                d_model,
                n_heads,
                cond_dim=d_model,
                mlp_ratio=mlp_ratio,
                dropout=dropout,
                norm_affine=False,
                norm_eps=1e-6,
            )
            for _ in range(n_layers)
        )
        # head
        self.norm = nn.LayerNorm(d_model, eps=1e-6)
        head = nn.Linear(d_model, num_features)
        self.head = zeroed(head) if zero_init_head else head

    def forward(
        self,
        x_t: Tensor,
        sigma: Tensor | None = None,
        *,
        masked: Tensor | None = None,
        noisy: Tensor | None = None,
        real: Tensor | None = None,
        packing: ColumnPacking | None = None,
    ) -> Tensor:
        """Predict clean rows Float[B, N, M] from x_t Float[B, N, M] and sigma Float[B] (None: 0).

        ``masked``: Bool[B, N], rows that are hidden; their values in x_t, NaN included, change
        neither outputs nor gradients.
        ``noisy``: Bool[B, N], rows that hold noisy values; a row that is masked too counts as
        masked.
        ``real``: Bool[B, N], False where a window has no row. Such positions are not attended,
        outputs there are unspecified, and columns without any real row are left out of the
        computation.
        ``packing``: packing of ``real``, if it was computed before.

        Raises ``ValueError`` for other shapes, or flags that are not Bool.
        """
        self._check(x_t, masked=masked, noisy=noisy, real=real)
        # leave out columns without a real row; every row sees CLS
        if packing is None:
            packing = ColumnPacking.full(x_t.shape[1]) if real is None else pack_columns(real)
        x = self._embed(x_t, masked, noisy, real, packing)  # (B, 1 + K, D)
        mask = packing.key_mask
        if mask is not None:
            mask = F.pad(mask, (1, 0), value=True)
        # blocks modulated by the time
        t = distinct_time(process_t(corrupted_share(sigma), len(x_t), x_t.device))  # (B or 1,)
        c = F.silu(self.timestep_embedder(t))
        for block in self.blocks:
            x = block(x, c, mask)
        return packing.unpack(self.head(self.norm(x[:, 1:])))

    def _embed(
        self,
        x_t: Tensor,
        masked: Tensor | None,
        noisy: Tensor | None,
        real: Tensor | None,
        packing: ColumnPacking,
    ) -> Tensor:
        """Embeddings of CLS and of the K rows that are computed, (B, 1 + K, D)."""
        x = packing.pack(x_t).to(self.mask_token.dtype)  # (B, K, M)
        # zero first: values of a row that is not read must not reach the embedding's gradient
        for unread in (masked, None if real is None else ~real):
            if unread is not None:
                x = x.masked_fill(packing.pack(unread).unsqueeze(-1), 0)
        x = self.region_embedding(x)
        if noisy is not None:
            x = torch.where(packing.pack(noisy).unsqueeze(-1), x + self.mask_token, x)
        if masked is not None:
            x = torch.where(packing.pack(masked).unsqueeze(-1), self.mask_token, x)
        if self.position_embedding == "sinusoidal":
            # a row keeps its index in the window
            rows = packing.columns
            if rows is None:
                rows = torch.arange(x.shape[1], device=x.device)
            x = x + sinusoid(rows.float(), x.shape[2]).to(self.mask_token.dtype)
        return torch.cat([self.cls_token.expand(len(x), 1, -1), x], dim=1)

    def _check(self, x_t: Tensor, **flags: Tensor | None) -> None:
        if x_t.ndim != 3 or x_t.shape[2] != self.num_features:
            raise ValueError(
                f"x_t has shape {tuple(x_t.shape)}; expected (B, N, {self.num_features}), rows of "
                f"{self.num_features} features"
            )
        for name, flag in flags.items():
            if flag is not None and (flag.shape != x_t.shape[:2] or flag.dtype != torch.bool):
                raise ValueError(
                    f"{name} is {flag.dtype} {tuple(flag.shape)}; expected torch.bool "
                    f"{tuple(x_t.shape[:2])}, one flag per row"
                )
