"""A U-Net over images, modulated by time and by a condition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from discrete_diffusion.config import check_divides
from discrete_diffusion.models import (
    MultiHeadCrossAttention,
    TimestepEmbedder,
    distinct_time,
    modulate,
    process_t,
    zeroed,
)


class ConditionalResBlock(nn.Module):
    """Residual block of two convolutions, modulated by time and condition on separate paths
    (feature-wise linear modulation, Perez et al., arXiv 1709.07871).

        scale, shift = time_cond(SiLU(time_emb)) + ctx_cond(SiLU(cond_emb))      each (B, C', 1, 1)
        h = conv1(SiLU(norm1(x)))
        h = conv2(dropout(SiLU(norm2(h) * (1 + scale) + shift)))
        x <- (skip(x) + h) / sqrt(2)

    ``ctx_cond`` starts at 0, so that the condition has no effect at first. ``skip`` is a
    convolution with kernels of one pixel if C' differs from C, else the identity. ``groups``:
    number of groups of both group norms.

    Raises ``ValueError`` if ``groups`` does not divide C and C'.
    """

    def __init__(
        self,
        *,
        in_channels: int,
        out_channels: int,
        emb_dim: int,
        groups: int = 32,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        # two convolutions, the second one modulated
        self.norm1 = checked_group_norm(groups, in_channels)
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, padding=1)
        self.time_cond = nn.Linear(emb_dim, 2 * out_channels)
        self.ctx_cond = zeroed(nn.Linear(emb_dim, 2 * out_channels))
        self.norm2 = checked_group_norm(groups, out_channels)
        self.dropout = nn.Dropout(dropout)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1)
        # another number of channels needs a convolution
        self.skip: nn.Module = nn.Identity()
        if in_channels != out_channels:
            self.skip = nn.Conv2d(in_channels, out_channels, 1)

    def time_film(self, time_emb: Tensor) -> Tensor:
        """Scale and shift from the time embedding: (B or 1, emb_dim) -> (B or 1, 2 C')."""
        return self.time_cond(F.silu(time_emb))

    def cond_film(self, cond_emb: Tensor) -> Tensor:
        """Scale and shift from the condition embedding: (B or 1, emb_dim) -> (B or 1, 2 C')."""
        return self.ctx_cond(F.silu(cond_emb))

    def forward(self, x: Tensor, time_emb: Tensor, cond_emb: Tensor) -> Tensor:
        """Map x (B, C, H, W) and both embeddings (B or 1, emb_dim) to (B, C', H, W)."""
        # scale and shift of the second norm
        film = self.time_film(time_emb) + self.cond_film(cond_emb)
        scale, shift = rearrange(film, "b (two c) -> two b c 1 1", two=2).unbind(0)
        h = self.conv1(F.silu(self.norm1(x)))
        h = F.silu(modulate(self.norm2(h), shift, scale))
        h = self.conv2(self.dropout(h))
        return (self.skip(x) + h) / math.sqrt(2)


class CrossAttention(MultiHeadCrossAttention):
    """Attention of pixels to condition tokens: x + attention(norm(x), token_norm(tokens)). ``out``
    starts at 0, so the block starts as the identity. Raises ``ValueError`` if ``n_heads`` or
    ``groups`` does not divide ``channels``."""

    def __init__(self, *, channels: int, token_dim: int, n_heads: int, groups: int = 32) -> None:
        check_divides(n_heads, channels, f"{channels} channels")
        super().__init__(d_model=channels, context_dim=token_dim, n_heads=n_heads)
        self.norm = checked_group_norm(groups, channels)
        self.token_norm = nn.LayerNorm(token_dim)
        zeroed(self.out)

    def forward(  # type: ignore[override]  # images in, images out
        self, x: Tensor, tokens: Tensor, keep: Tensor | None = None
    ) -> Tensor:
        """Attend from pixels x (B, C, H, W) to tokens (B, N, D); returns (B, C, H, W). ``keep``:
        Bool[B], False where a sample stays unchanged."""
        pixels = rearrange(self.norm(x), "b c h w -> b (h w) c")
        branch = super().forward(pixels, self.token_norm(tokens))
        branch = rearrange(branch, "b (h w) c -> b c h w", h=x.shape[2])
        if keep is not None:
            branch = branch.masked_fill(~rearrange(keep, "b -> b 1 1 1"), 0.0)
        return x + branch


def checked_group_norm(groups: int, channels: int) -> nn.GroupNorm:
    """Create ``nn.GroupNorm``; raise ``ValueError``, naming possible ``groups``, if ``groups`` does
    not divide ``channels``."""
    check_divides(groups, channels, f"{channels} channels", key="groups")
    return nn.GroupNorm(groups, channels)


class FiLMUNet(nn.Module):
    """U-Net of DDPM (arXiv 2006.11239) with FiLM (arXiv 1709.07871) instead of added times, and
    without self-attention. E = 4 ``channels``; level k has C_k = multiplier_k * ``channels``.

        time_emb = MLP(sinusoid(1000 t))                                         (B, E)
        cond_emb = sigmoid(cond_gate) * Linear(cond), 0 without a condition      (B, E)
        h = stem = conv_in(x)                                         (B, channels, H, W)
        per level, down:  h = two blocks(h), kept; h = conv(h), every second pixel
        middle:           h = two blocks(h)
        per level, up:    h = two blocks([h, what was kept]); h = conv(h, every pixel doubled)
        out = conv_out(SiLU(norm([h, stem])))                     (B, out_channels, H, W)

    Blocks are ``ConditionalResBlock``s, in which the condition has no effect at first.

    ``cond_dim``: K, the width of the condition. ``cond_gate_init``: initial value of the E gates
    before the sigmoid; -4 gives 0.018.
    ``zero_init_out``: conv_out starts at 0, so that the first predictions are exactly 0.
    ``token_dim``: width of condition tokens; if given, every stage except those of the finest level
    (with one level: only the middle) ends with attention to the tokens, with ``attention_heads``
    heads.

    Deviation: t is multiplied by 1000; ``time_scale=1`` is the literal sinusoid of t in [0, 1].
    Deviation: the experiments ``eit`` and ``eit_levels`` open the gates by 0.5 from the start,
    ``cond_gate_init=0``; the default is the described one, 0.018.

    Raises ``ValueError`` for multipliers that are not whole numbers above 0, and if ``groups`` or
    ``attention_heads`` does not divide the channels of a level.
    """

    def __init__(
        self,
        *,
        in_channels: int,
        out_channels: int,
        channels: int,
        multipliers: Sequence[int],
        cond_dim: int,
        groups: int = 32,
        dropout: float = 0.0,
        cond_gate_init: float = -4.0,
        zero_init_out: bool = True,
        time_scale: float = 1000.0,
        token_dim: int | None = None,
        attention_heads: int = 4,
    ) -> None:
        super().__init__()
        if not multipliers or any(m != int(m) or m < 1 for m in multipliers):
            raise ValueError(
                f"multipliers={list(multipliers)}: expected whole numbers above 0, one per level, "
                "e.g. [1, 2, 2]"
            )
        self.in_channels, self.out_channels = in_channels, out_channels
        self.cond_dim, self.token_dim = cond_dim, token_dim
        self.num_levels = len(multipliers)
        # both embeddings of the last forward pass in training, for ``film_sizes``
        self._last_embeddings: tuple[Tensor, Tensor] | None = None
        widths = [int(m) * channels for m in multipliers]
        emb_dim = 4 * channels
        # embeddings of time and condition
        self.time_embedder = TimestepEmbedder(
            emb_dim, frequency_embedding_size=channels, time_scale=time_scale
        )
        self.cond_proj = nn.Linear(cond_dim, emb_dim)
        self.cond_gate = nn.Parameter(torch.full((emb_dim,), float(cond_gate_init)))
        stage = partial(
            Stage, emb_dim=emb_dim, groups=groups, dropout=dropout, attention_heads=attention_heads
        )
        # stages of the levels, down and up; the finest level has no attention
        steps = [*pairwise(widths)]
        per_level = [None, *[token_dim] * (self.num_levels - 1)]
        self.conv_in = nn.Conv2d(in_channels, channels, 3, padding=1)
        self.down = nn.ModuleList(
            stage(c, c, token_dim=t) for c, t in zip(widths, per_level, strict=True)
        )
        self.shrink = nn.ModuleList(nn.Conv2d(c, d, 3, stride=2, padding=1) for c, d in steps)
        self.middle = stage(widths[-1], widths[-1], token_dim=token_dim)
        self.up = nn.ModuleList(
            stage(2 * c, c, token_dim=t) for c, t in zip(widths, per_level, strict=True)
        )
        self.enlarge = nn.ModuleList(nn.Conv2d(d, c, 3, padding=1) for c, d in steps)
        # back at the finest level there are widths[0] channels; the stem has ``channels``
        self.norm = checked_group_norm(groups, widths[0] + channels)
        self.conv_out = nn.Conv2d(widths[0] + channels, out_channels, 3, padding=1)
        if zero_init_out:
            zeroed(self.conv_out)

    def forward(
        self,
        x: Tensor,
        t: Tensor | float,
        cond: Tensor | None = None,
        *,
        tokens: Tensor | None = None,
        keep: Tensor | None = None,
    ) -> Tensor:
        """Map images x Float[B, in_channels, H, W] at times t Float[B] in [0, 1] (1 is noise) to
        Float[B, out_channels, H, W]. ``cond``: Float[B, K], or None without a condition.
        ``tokens``: Float[B, N, D], condition tokens, for a network with ``token_dim``. ``keep``:
        Bool[B], False where a sample's condition is dropped. Raises ``ValueError`` for other
        shapes, and if H or W cannot be halved at every level."""
        self._check(x, cond, tokens, keep)
        # embeddings of time and of the condition, 0 where it is dropped
        time_emb = self.time_embedder(distinct_time(process_t(t, len(x), x.device)))  # (B or 1, E)
        cond_emb = torch.zeros_like(time_emb[:1])
        if cond is not None:
            cond_emb = self.gate * self.cond_proj(cond.to(time_emb.dtype))  # (B, E)
            if keep is not None:
                cond_emb = cond_emb.masked_fill(~keep.unsqueeze(-1), 0.0)
        if self.training and not torch.compiler.is_compiling():
            self._last_embeddings = time_emb.detach(), cond_emb.detach()
        attended = None
        if cond is not None and self.token_dim is not None and tokens is not None:
            attended = tokens.to(time_emb.dtype)
        modulation = time_emb, cond_emb, attended, keep
        # down, keeping the output of each level
        h = stem = self.conv_in(x.to(self.conv_in.weight.dtype))
        kept = []
        for level, stage in enumerate(self.down):
            h = stage(h, *modulation)
            kept.append(h)
            if level < len(self.shrink):
                h = self.shrink[level](h)
        # middle, and up with what each level kept
        h = self.middle(h, *modulation)
        for level in reversed(range(self.num_levels)):
            h = self.up[level](torch.cat([h, kept[level]], dim=1), *modulation)
            if level > 0:
                h = self.enlarge[level - 1](F.interpolate(h, scale_factor=2, mode="nearest"))
        return self.conv_out(F.silu(self.norm(torch.cat([h, stem], dim=1))))

    @property
    def gate(self) -> Tensor:
        """Gates Float[E] in (0, 1), which multiply the channels of the condition embedding."""
        return torch.sigmoid(self.cond_gate)

    @torch.no_grad()
    def film_sizes(self) -> dict[str, float]:
        """Root mean squares of scale and shift: from time (``time_film``) and from the condition
        (``cond_film``). They are over blocks and samples of the last forward pass in training;
        empty before it.
        """
        if self._last_embeddings is None:
            return {}
        # under autocast the embeddings have another type than the weights
        time_emb, cond_emb = (x.to(self.cond_gate.dtype) for x in self._last_embeddings)
        blocks = [module for module in self.modules() if isinstance(module, ConditionalResBlock)]
        films = {
            "time_film": [block.time_film(time_emb) for block in blocks],
            "cond_film": [block.cond_film(cond_emb) for block in blocks],
        }
        return {
            name: float(torch.stack([x.float().square().mean() for x in terms]).mean()) ** 0.5
            for name, terms in films.items()
        }

    def check_size(self, height: int, width: int) -> None:
        """Raise ``ValueError``, naming possible sizes, if the network cannot take images of this
        size."""
        unit = 2 ** (self.num_levels - 1)
        if height % unit == 0 and width % unit == 0 and height and width:
            return
        # the sizes next to the given one that can be halved
        fits = [max(unit, size // unit * unit) for size in (height, width)]
        larger = [-(-max(size, 1) // unit) * unit for size in (height, width)]
        choices = dict.fromkeys(f"{h} x {w}" for h, w in (fits, larger))
        raise ValueError(
            f"images of {height} x {width} pixels cannot be halved {self.num_levels - 1} times, "
            f"as {self.num_levels} multipliers require; choose sizes that {unit} divides, e.g. "
            f"{' or '.join(choices)}"
        )

    def _check(
        self, x: Tensor, cond: Tensor | None, tokens: Tensor | None, keep: Tensor | None
    ) -> None:
        # images
        if x.ndim != 4 or x.shape[1] != self.in_channels:
            raise ValueError(
                f"x has shape {tuple(x.shape)}; expected (B, {self.in_channels}, H, W)"
            )
        self.check_size(*x.shape[2:])
        # condition and its tokens
        if cond is not None and cond.shape != (len(x), self.cond_dim):
            raise ValueError(
                f"cond has shape {tuple(cond.shape)}; expected {(len(x), self.cond_dim)}"
            )
        if self.token_dim is not None and cond is not None:
            expected = (len(x), "N", self.token_dim)
            if tokens is None:
                raise ValueError(f"cross-attention needs the tokens of cond, {expected}")
            if tokens.ndim != 3 or tokens.shape[::2] != expected[::2]:
                raise ValueError(f"tokens have shape {tuple(tokens.shape)}; expected {expected}")
        # flags of samples with a condition
        if keep is not None and (keep.shape != x.shape[:1] or keep.dtype != torch.bool):
            raise ValueError(
                f"keep is {keep.dtype} {tuple(keep.shape)}; expected torch.bool ({len(x)},), one "
                "flag per sample"
            )


class Stage(nn.Module):
    """Two residual blocks, then attention to the condition's tokens if ``token_dim`` is given."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        emb_dim: int,
        groups: int,
        dropout: float,
        token_dim: int | None,
        attention_heads: int,
    ) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            ConditionalResBlock(
                in_channels=width,
                out_channels=out_channels,
                emb_dim=emb_dim,
                groups=groups,
                dropout=dropout,
            )
            for width in (in_channels, out_channels)
        )
        self.attention = None
        if token_dim is not None:
            self.attention = CrossAttention(
                channels=out_channels, token_dim=token_dim, n_heads=attention_heads, groups=groups
            )

    def forward(
        self,
        x: Tensor,
        time_emb: Tensor,
        cond_emb: Tensor,
        tokens: Tensor | None,
        keep: Tensor | None,
    ) -> Tensor:
        """Map x (B, C, H, W), embeddings (B or 1, E) and tokens (B, N, D) to (B, C', H, W).
        ``keep``: Bool[B], False where a sample reads no tokens."""
        for block in self.blocks:
            x = block(x, time_emb, cond_emb)
        if self.attention is not None and tokens is not None:
            x = self.attention(x, tokens, keep)
        return x
