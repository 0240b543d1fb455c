"""``Visibility``: which columns of packed or blocked sequences see which."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask

KERNELS = ("sdpa", "flex")
"""How attention leaves out what is not seen."""


@dataclass(frozen=True)
class Visibility:
    """A column sees itself and the columns that all of these let it see.

    ``groups``: Int[B or 1, K], the block of each column: it sees its own block and earlier ones.
    ``documents``: Int[B, K], the document of each: it sees its own. At least one is given.
    ``key_mask``: Bool[B, 1, 1, K], the columns that may be seen. ``causal``: those before it.

    ``with_context``, with groups: K noisy columns are followed by their K clean twins (block
    diffusion, arXiv 2503.09573, section 3.2). A noisy column of block b sees the noisy columns of b
    and the clean ones of blocks < b; a clean one sees the clean columns of blocks <= its own.
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
        """K."""
        return self._given[0].shape[-1]

    def sees(self, b: Tensor, h: Tensor | None, q: Tensor, k: Tensor) -> Tensor:
        """Bool: column q of sample b sees column k, in every head; the indices broadcast."""
        place_q, place_k = q % self.num_columns, k % self.num_columns
        rules = [k <= q] if self.causal else []
        if self.groups is not None:
            sample = b if len(self.groups) > 1 else b * 0
            own, other = self.groups[sample, place_q], self.groups[sample, place_k]
            rules.append(
                self._sees_clean(own, other, q >= self.num_columns, k >= self.num_columns)
                if self.with_context
                else other <= own
            )
        if self.documents is not None:
            rules.append(self.documents[b, place_q] == self.documents[b, place_k])
        seen = reduce(and_, rules)
        if self.key_mask is not None:
            seen = (seen & self.key_mask[b, 0, 0, place_k]) | (q == k)
        return seen

    @staticmethod
    def _sees_clean(group_q: Tensor, group_k: Tensor, clean_q: Tensor, clean_k: Tensor) -> Tensor:
        """Clean columns of blocks before, or of its own if it is clean; or noisy ones of its own.
        Few operations are of all pairs."""
        group_q, group_k = group_q.long(), group_k.long()
        nowhere, first = torch.iinfo(torch.long).max, torch.iinfo(torch.long).min
        clean = torch.where(clean_k, group_k, nowhere) < group_q + clean_q
        noisy = torch.where(clean_k, first, group_k) == torch.where(clean_q, nowhere, group_q)
        return clean | noisy

    @property
    def _sizes(self) -> tuple[int, int]:
        """How many samples differ, and Q, all columns, the clean twins among them."""
        return max(map(len, self._given)), self.num_columns * (2 if self.with_context else 1)

    def mask(self) -> Tensor:
        """Bool[B or 1, 1, Q, Q], True where a key may be seen."""
        num_samples, num = self._sizes
        samples = torch.arange(num_samples, device=self._given[0].device)[:, None, None, None]
        columns = torch.arange(num, device=samples.device)
        return self.sees(samples, None, columns[:, None], columns)

    def block_mask(self, num_queries: int | None = None) -> BlockMask:
        """The same for flex attention, of the first ``num_queries`` columns, None for all. It
        computes no scores of tiles in which no column sees another."""

        def sees(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:  # a method is refused
            return self.sees(b, h, q, k)

        num_samples, num = self._sizes
        return create_block_mask(
            sees, num_samples, None, num_queries or num, num, device=str(self._given[0].device)
        )
