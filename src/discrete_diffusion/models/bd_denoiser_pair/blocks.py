"""``PairBlock``: what a block of the pair network does to its nodes and its pairs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from discrete_diffusion.categorical import neg_inf
from discrete_diffusion.models.blocks.transformer import MLP, AdaLNZeroBlock, modulate, zero_linear

TRIANGLES = ("outgoing", "incoming")

_COLUMNS, _LINE = 1024, 16
"""Pairs side by side in a product, at least, and numbers of a line of the cache: rows that are
short and end within a line make slow products (``python benchmarks/speed.py --only networks``)."""


class TriangleProducts(nn.Module):
    """Products of (i, k) and (k, j) that update (i, j), summed over every node k.

        outgoing_ij = sum_k a(z_ik) * b(z_kj)                            (B, N, N, P)
        incoming_ij = sum_k a'(z_ki) * b'(z_kj)                          (B, N, N, P)
        out_ij = sigmoid(gate(z_ij)) * Linear(norm([outgoing_ij; incoming_ij]))

    a, b, a', b' are linear maps, each times the sigmoid of another. O(N^3 P) time.

    Source: the triangular multiplicative updates of AlphaFold 2 (Jumper et al., Nature 2021).
    Deviation: both directions at once, from the same z, and one norm, output and gate for both.

    ``triangles``: the directions, of ``TRIANGLES``.
    """

    def __init__(self, d_pair: int, triangles: Sequence[str] = TRIANGLES) -> None:
        super().__init__()
        self.triangles, self.d_pair = tuple(triangles), d_pair
        width = len(self.triangles) * d_pair
        self.factors = nn.Linear(d_pair, 4 * width)
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, d_pair)
        self.gate = nn.Linear(d_pair, d_pair)

    def forward(self, z: Tensor, real: Tensor | None = None) -> Tensor:
        """Update of the pairs: z (B, N N, P) -> (B, N N, P).

        ``real``: Bool[B, N], the nodes k that count; None: all.
        """
        side = _side_by_side(*z.shape[:2])  # S of the B samples
        grouped = rearrange(z, "(b s) ij p -> b (s ij) p", s=side)
        n = round(z.shape[1] ** 0.5)
        sums = []
        for k, triangle in enumerate(self.triangles):
            a, b = (  # (B / S, P, S, N, N) each
                self._factor(grouped, which, k).unflatten(-1, (side, n, n)) for which in (0, 1)
            )
            if real is not None:  # a node that is not there is in no sum
                b = b * rearrange(real, "(b s) k -> b 1 s k 1", s=side)
            sums.append((a if triangle == "outgoing" else a.mT) @ b)  # a_ik, or a'_ki as (i, k)
        together = rearrange(torch.cat(sums, dim=1), "b w s i j -> (b s) (i j) w")  # W = P each
        return self.out(self.norm(together)) * self.gate(z).sigmoid()

    def _factor(self, z: Tensor, which: int, triangle: int) -> Tensor:
        """a (0) or b (1) of a direction for pairs z (G, K, P), channels first as its products read
        them: (G, P, K)."""
        parts = (2, 2, len(self.triangles), self.d_pair)  # map or gate, a or b, direction, width
        weight = self.factors.weight.unflatten(0, parts)[:, which, triangle].flatten(0, 1)
        bias = self.factors.bias.unflatten(0, parts)[:, which, triangle].flatten()
        factor = torch.baddbmm(bias[:, None], weight.expand(z.shape[0], -1, -1), z.mT)
        return F.glu(factor, dim=1)


def _side_by_side(batch_size: int, num_pairs: int) -> int:
    """Samples whose pairs are columns of one matrix: the fewest that fill ``_COLUMNS`` and divide a
    batch, or all of it. One where the pairs of a sample fill whole lines of the cache, and in a
    compiled network or an export, which are for any batch."""
    if torch.compiler.is_compiling() or batch_size == 0 or num_pairs % _LINE == 0:
        return 1
    enough = range(max(1, -(-_COLUMNS // num_pairs)), batch_size)
    return next((side for side in enough if batch_size % side == 0), batch_size)


class PairBlock(nn.Module):
    """One block of both streams, each branch modulated and gated by c as in adaLN-Zero.

        h <- h + attention(h; scores_ij + bias(z_ij));   h <- h + mlp(h)          (B, N, D)
        z_ij <- z_ij + triangles(z)_ij + first(h_i) + second(h_j);  z <- z + mlp(z)  (B, N N, P)

    The modulation starts at 0, so the block starts as the identity.
    """

    def __init__(
        self,
        *,
        d_model: int,
        d_pair: int,
        n_heads: int,
        cond_dim: int,
        mlp_ratio: float = 4,
        dropout: float = 0.1,
        triangles: Sequence[str] = TRIANGLES,
    ) -> None:
        super().__init__()
        self.nodes = AdaLNZeroBlock(
            d_model, n_heads, cond_dim, mlp_ratio=mlp_ratio, dropout=dropout
        )
        self.bias = nn.Linear(d_pair, n_heads, bias=False)  # one for all keys would cancel
        self.norm1 = nn.LayerNorm(d_pair)
        self.triangles = TriangleProducts(d_pair, triangles) if triangles else None
        self.ends = nn.Linear(d_model, 2 * d_pair)
        self.norm2 = nn.LayerNorm(d_pair)
        self.mlp = MLP(d_pair, mlp_ratio)
        self.dropout = nn.Dropout(dropout)
        self.modulation = zero_linear(cond_dim, 6 * d_pair)

    def forward(
        self, h: Tensor, z: Tensor, c: Tensor, real: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """h (B, N, D), z (B, N N, P), c (B or 1, cond_dim), ``real`` Bool[B, N] or None -> h, z."""
        h = self.nodes(h, c, self._scores(z, real))
        first, second = self.ends(h).chunk(2, dim=-1)  # (B, N, P) each
        ends = rearrange(first.unsqueeze(2) + second.unsqueeze(1), "b i j p -> b (i j) p")
        shift1, scale1, gate1, shift2, scale2, gate2 = (
            self.modulation(c).unsqueeze(1).chunk(6, dim=-1)
        )
        branch = ends
        if self.triangles is not None:
            branch = self.triangles(modulate(self.norm1(z), shift1, scale1), real) + ends
        z = torch.addcmul(z, gate1, self.dropout(branch))
        branch = self.mlp(modulate(self.norm2(z), shift2, scale2))
        return h, torch.addcmul(z, gate2, self.dropout(branch))

    def _scores(self, z: Tensor, real: Tensor | None) -> Tensor:
        """Bias of the pairs on the attention of node i to node j: Float[B, H, N, N]."""
        n = round(z.shape[1] ** 0.5)
        bias = rearrange(self.bias(z), "b (i j) h -> b h i j", i=n)
        return bias if real is None else bias.masked_fill(~real[:, None, None], neg_inf(bias.dtype))
