"""Facts about its sample that condition a network: tokens to attend to, each known or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from discrete_diffusion.models.blocks.transformer import MultiHeadCrossAttention, zeroed


class FactTokens(nn.Module):
    """A token per fact, and which of them are known.

        token_k = norm(mlp_k(numbers of fact k / sqrt(how many)))        (B, D)

    All tokens have one scale, and a fact of hundreds of numbers learns no faster than one of a few:
    otherwise a steep step of its token can shut the softmax to it for good. In front of them stands
    a learned token that is always seen: what is attended to where nothing is known.

    ``sizes``: how many numbers each of the N facts has; they follow each other, S in all, and NaN
    is what is not known.
    ``dropout``: the share of facts that training hides, each by itself, so that the network learns
    to do with some of them.

    Raises ``ValueError`` for a fact without numbers.
    """

    def __init__(self, sizes: Sequence[int], d_model: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        if not sizes or min(sizes) < 1:
            raise ValueError(f"condition={list(sizes)}: expected the size of each fact, above 0")
        self.sizes, self.dropout = tuple(sizes), dropout
        self.readers = nn.ModuleList(_reader(size, d_model) for size in sizes)
        self.nothing = nn.Parameter(torch.randn(d_model))
        self.norm = nn.LayerNorm(d_model)

    def forward(
        self, condition: Tensor | None, keep: Tensor | None, batch_size: int
    ) -> tuple[Tensor, Tensor]:
        """(tokens (B, 1 + N, D), seen Bool[B, 1, 1, 1 + N]).

        ``condition``: Float[B, S]; None: nothing is known. ``keep``: Bool[B], False for samples of
        which nothing may be known; None for none.
        """
        nothing = self.nothing.expand(batch_size, 1, -1)
        if condition is None:
            always = torch.ones(batch_size, 1, 1, 1, dtype=torch.bool, device=nothing.device)
            return self.norm(nothing), always
        if condition.shape != (batch_size, sum(self.sizes)):
            raise ValueError(
                f"condition has shape {tuple(condition.shape)}; expected "
                f"({batch_size}, {sum(self.sizes)}), the numbers of {len(self.sizes)} facts"
            )
        parts = condition.split(self.sizes, dim=1)
        known = torch.stack([~part.isnan().any(dim=1) for part in parts], dim=1)  # (B, N)
        if keep is not None:
            known = known & keep.unsqueeze(1)
        if self.training and self.dropout > 0:
            known = known & (torch.rand(known.shape, device=known.device) >= self.dropout)
        tokens = [
            reader(part.nan_to_num().to(nothing.dtype) / part.shape[1] ** 0.5)
            for reader, part in zip(self.readers, parts, strict=True)
        ]
        seen = torch.cat([torch.ones_like(known[:, :1]), known], dim=1)
        return self.norm(torch.stack([nothing.squeeze(1), *tokens], dim=1)), seen[:, None, None]


def _reader(size: int, d_model: int) -> nn.Module:
    first = nn.Linear(size, d_model)
    nn.init.normal_(first.weight)
    return nn.Sequential(first, nn.SiLU(), nn.Linear(d_model, d_model))


class FactAttention(nn.Module):
    """x + attention(norm(x), facts): cross-attention whose last layer starts at 0, so that it
    starts as the identity and a network without it is reproduced bit for bit.

    Source: the gated cross-attention of Flamingo (Alayrac et al., arXiv 2204.14198), the gate being
    the zeros of the last layer.
    """

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.attention = MultiHeadCrossAttention(
            d_model=d_model, context_dim=d_model, n_heads=n_heads
        )
        zeroed(self.attention.out)

    def forward(self, x: Tensor, facts: tuple[Tensor, Tensor]) -> Tensor:
        """x (B, L, D), the result of ``FactTokens`` -> (B, L, D)."""
        tokens, seen = facts
        return x + self.attention(self.norm(x), tokens, seen)


class Facts(nn.Module):
    """Facts as a network of ``n_layers`` blocks reads them: ``tokens``, made once, and an
    ``attention`` to them before every block.

    ``sizes``, ``dropout``: of ``FactTokens``.
    """

    def __init__(
        self, sizes: Sequence[int], *, d_model: int, n_heads: int, n_layers: int, dropout: float
    ) -> None:
        super().__init__()
        self.tokens = FactTokens(sizes, d_model, dropout=dropout)
        self.attention = nn.ModuleList(FactAttention(d_model, n_heads) for _ in range(n_layers))

    def forward(
        self, condition: Tensor | None, keep: Tensor | None, batch_size: int
    ) -> Sequence[Callable[[Tensor], Tensor]]:
        """A function of every block, (B, L, D) -> (B, L, D): what the block reads instead of x.

        ``condition``, ``keep``: as for ``FactTokens``.
        """
        facts = self.tokens(condition, keep, batch_size)
        return [partial(attention, facts=facts) for attention in self.attention]


class NoFacts(nn.Module):
    """The place of ``Facts`` in a network without conditions: every block reads x itself."""

    def __init__(self, n_layers: int) -> None:
        super().__init__()
        self.n_layers = n_layers

    def forward(
        self, condition: Tensor | None, keep: Tensor | None, batch_size: int
    ) -> Sequence[Callable[[Tensor], Tensor]]:
        """The functions of ``Facts``, here identities; ``ValueError`` if it is given something."""
        if condition is not None or keep is not None:
            raise ValueError(
                "this denoiser is unconditional; build it with condition=[...], the sizes of "
                "its facts, or pass condition=None"
            )
        return [lambda x: x] * self.n_layers
