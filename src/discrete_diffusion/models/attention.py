"""Attention as a function, and its inputs: masks, rotary positions, cached keys and values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, reduce
from importlib import import_module
from operator import and_
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from discrete_diffusion.categorical import neg_inf

Mask: TypeAlias = Tensor | BlockMask | None
"""Mask of the keys that are seen, see ``attend``."""

_HAS_AVX512 = torch.backends.cpu.get_cpu_capability() == "AVX512"

_MOST_KEYS_FLOAT32, _MOST_KEYS_BFLOAT16, _MOST_KEYS_KEPT = 48, 1024, 512
"""Most keys for which attention is written out on the CPU; its memory grows with their square. In
float32 only with AVX-512 and without gradients, as every layer would keep its attention weights; in
bfloat16 with gradients up to the last."""

_MOST_SHAPES = 64
"""Most compilations of one function, one for each shape; further shapes run uncompiled. PyTorch's
default of 8 is too low for diagrams of all sizes, with and without PAD, and last batches."""


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Mask = None, *, causal: bool = False) -> Tensor:
    """softmax(q k^T / sqrt(d)) v: q (B, H, Q, d), k and v (B, H, K, d) -> (B, H, Q, d).

    ``mask``: broadcastable to (B, H, Q, K): Bool, True where a key may be seen, or Float, added to
    the scores; or ``causal``; or a ``BlockMask`` of flex attention.

    PyTorch's fused kernel is used except where plain products are faster: on the CPU, in bfloat16
    up to 1,024 keys (512 with gradients, which keep the weights), and with AVX-512 without
    gradients up to 48 (``python benchmarks/speed.py``).
    ``causal`` always uses the fused kernel.
    """
    # flex attention, compiled on a GPU alone
    if isinstance(mask, BlockMask):
        compiles = q.is_cuda and not torch.compiler.is_compiling()
        kernel = _flex_kernel() if compiles else flex_attention
        return kernel(q, k, v, block_mask=mask)
    # PyTorch's fused kernel
    if causal or not _written_out_is_faster(q, k):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
    # written out, with a mask of booleans or numbers
    scores = q @ (k * q.shape[-1] ** -0.5).transpose(-1, -2)  # (B, H, Q, K)
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, neg_inf(scores.dtype))
    elif mask is not None:
        scores = scores + mask
    return softmax_of_short_rows(scores) @ v


def softmax_of_short_rows(scores: Tensor) -> Tensor:
    """softmax over the last axis, (..., K) -> (..., K).

    PyTorch processes rows shorter than a vector register number by number, so these are padded.
    """
    num = scores.shape[-1]
    missing = 64 // scores.element_size() - num  # a register of AVX-512 has 64 bytes
    if missing <= 0:
        return scores.softmax(dim=-1)
    return F.pad(scores, (0, missing), value=float("-inf")).softmax(dim=-1)[..., :num]


@cache
def _flex_kernel() -> Any:
    """Compiled flex attention; without compilation it would compute all scores."""
    allow_many_shapes()
    return torch.compile(flex_attention, dynamic=True)


def allow_many_shapes() -> None:
    """Let PyTorch compile one piece of code as often as ``_MOST_SHAPES``."""
    limits: Any = import_module("torch._dynamo.config")
    limits.recompile_limit = max(limits.recompile_limit, _MOST_SHAPES)


def _written_out_is_faster(q: Tensor, k: Tensor) -> bool:
    if q.device.type != "cpu":
        return False
    if q.dtype == torch.bfloat16 or torch.is_autocast_enabled("cpu"):
        kept = torch.is_grad_enabled()
        return k.shape[2] <= (_MOST_KEYS_KEPT if kept else _MOST_KEYS_BFLOAT16)
    return _HAS_AVX512 and k.shape[2] <= _MOST_KEYS_FLOAT32 and not torch.is_grad_enabled()


def causal_mask(
    num_queries: int,
    num_keys: int,
    key_mask: Tensor | None = None,
    device: torch.device | None = None,
) -> Tensor:
    """Bool[Q, K] or, with ``key_mask``, Bool[B, 1, Q, K]: the last Q of K columns each see
    themselves and the columns before them.

    ``key_mask``: Bool[B, 1, 1, K], True where a key may be seen. A column always sees itself:
    otherwise a PAD before all other columns would see nothing.
    """
    square = torch.ones(num_queries, num_keys, dtype=torch.bool, device=device)
    last = num_keys - num_queries
    past = square.tril(last)
    return past if key_mask is None else (past & key_mask) | (past & square.triu(last))


class RotaryEmbedding(nn.Module):
    """Rotary positions (Su et al., arXiv 2104.09864): the tables that ``apply_rotary`` turns the
    queries and keys of a head with, cos and sin of the angles p base^(-2k/d) at position p.

    Raises ``ValueError`` if the width d of a head, ``d_model / n_heads``, is odd, or for a base
    that is not positive.
    """

    def __init__(self, *, d_model: int, n_heads: int, base: float = 10_000.0) -> None:
        super().__init__()
        self.head_dim, self.base = d_model // n_heads, base
        if not base > 0:
            raise ValueError(f"rope_base={base}: expected a number above 0")
        if self.head_dim % 2:
            raise ValueError(
                f"rotary positions need an even width per head; {d_model} over n_heads={n_heads} "
                f"is {self.head_dim}"
            )

    def forward(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Int[L] -> (cos, sin), each Float[L, d/2]."""
        half = self.head_dim // 2
        exponent = torch.arange(half, device=positions.device, dtype=torch.float32) / half
        angle = positions.unsqueeze(-1) * torch.exp(-math.log(self.base) * exponent)  # (L, d/2)
        return angle.cos(), angle.sin()


def apply_rotary(x: Tensor, tables: tuple[Tensor, Tensor]) -> Tensor:
    """Turn the dimensions (k, k + d/2) of x (..., L, d) by the angle of their position.

    The product of a rotated query and a rotated key depends on their distance only.
    """
    cos, sin = (table.to(x.dtype) for table in tables)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


KERNELS = ("sdpa", "flex")
"""Ways to leave out what attention does not see."""


@dataclass(frozen=True)
class Visibility:
    """Pairs of columns that see each other: every rule must allow them; a column sees itself.

    ``groups``: Int[B or 1, K], the block of each column: it sees its own block and earlier ones.
    ``documents``: Int[B, K], the document of each column, which sees its own. At least one is
    given.
    ``key_mask``: Bool[B, 1, 1, K], the columns that may be seen. ``causal``: a column sees no later
    columns.

    ``with_context``, with groups: K noisy columns are followed by their K clean twins (block
    diffusion, arXiv 2503.09573, section 3.2). A noisy column of block b sees the noisy columns of b
    and the clean columns of blocks < b; a clean column sees the clean columns of blocks <= its own.
    """

    groups: Tensor | None = None
    documents: Tensor | None = None
    key_mask: Tensor | None = None
    causal: bool = False
    with_context: bool = False

    @property
    def _given(self) -> list[Tensor]:
        return [x for x in (self.groups, self.documents, self.key_mask) if x is not None]

    @property
    def num_columns(self) -> int:
        """Number of columns, K."""
        return self._given[0].shape[-1]

    def sees(self, b: Tensor, h: Tensor | None, q: Tensor, k: Tensor) -> Tensor:
        """Bool: column q of sample b sees column k, in every head; the indices broadcast."""
        # clean twins have the place of their noisy columns
        place_q, place_k = q % self.num_columns, k % self.num_columns
        rules = [k <= q] if self.causal else []
        # blocks see themselves and earlier ones
        if self.groups is not None:
            sample = b if len(self.groups) > 1 else b * 0
            own, other = self.groups[sample, place_q], self.groups[sample, place_k]
            if self.with_context:
                # written such that few operations run over all pairs: clean keys of earlier
                # blocks, or of its own for a clean query; noisy keys of its own for a noisy one
                own, other = own.long(), other.long()
                clean_q, clean_k = q >= self.num_columns, k >= self.num_columns
                nowhere, first = torch.iinfo(torch.long).max, torch.iinfo(torch.long).min
                clean = torch.where(clean_k, other, nowhere) < own + clean_q
                noisy = torch.where(clean_k, first, other) == torch.where(clean_q, nowhere, own)
                rules.append(clean | noisy)
            else:
                rules.append(other <= own)
        if self.documents is not None:
            rules.append(self.documents[b, place_q] == self.documents[b, place_k])
        seen = reduce(and_, rules)
        # a masked column still sees itself: a softmax over no keys is undefined
        if self.key_mask is not None:
            seen = (seen & self.key_mask[b, 0, 0, place_k]) | (q == k)
        return seen

    @property
    def _sizes(self) -> tuple[int, int]:
        """Number of samples with different masks, and Q, the number of columns with clean twins."""
        return max(map(len, self._given)), self.num_columns * (2 if self.with_context else 1)

    def mask(self) -> Tensor:
        """Bool[B or 1, 1, Q, Q], True where a key may be seen."""
        num_samples, num = self._sizes
        samples = torch.arange(num_samples, device=self._given[0].device)[:, None, None, None]
        columns = torch.arange(num, device=samples.device)
        return self.sees(samples, None, columns[:, None], columns)

    def block_mask(self, num_queries: int | None = None) -> BlockMask:
        """Mask for flex attention; the first ``num_queries`` columns are queries, None: all.

        Flex attention computes no scores of tiles in which no column sees another.
        """

        # a function, as a method is refused
        def sees(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
            return self.sees(b, h, q, k)

        num_samples, num = self._sizes
        return create_block_mask(
            sees, num_samples, None, num_queries or num, num, device=str(self._given[0].device)
        )
