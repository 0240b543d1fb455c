"""Which columns see which, beyond plain and causal attention."""

from __future__ import annotations

import torch
from torch import Tensor


def block_causal_mask(
    groups: Tensor, key_mask: Tensor | None = None, *, with_context: bool = False
) -> Tensor:
    """Bool[G, 1, K, K]: a column sees the columns of its own block and of earlier ones.

    ``groups``: Int[G, K], the block of each column; G is 1 if the samples share their blocks.
    ``key_mask``: Bool[B, 1, 1, K], True where a key may be seen (a column always sees itself).

    ``with_context``: Bool[G, 1, 2K, 2K] for K noisy columns followed by their K clean twins (block
    diffusion, arXiv 2503.09573, section 3.2). A noisy column of block b sees the noisy columns of b
    and the clean ones of blocks < b; a clean one sees the clean columns of blocks <= its own.
    """
    query, key = groups[:, None, :, None], groups[:, None, None, :]
    mask = key <= query
    if with_context:
        noisy = torch.cat([key == query, key < query], dim=-1)
        clean = torch.cat([torch.zeros_like(mask), mask], dim=-1)
        mask = torch.cat([noisy, clean], dim=-2)
        key_mask = None if key_mask is None else torch.cat([key_mask, key_mask], dim=-1)
    if key_mask is None:
        return mask
    return (mask & key_mask) | torch.eye(mask.shape[-1], dtype=torch.bool, device=mask.device)


def causal_mask(
    num_queries: int,
    num_keys: int,
    key_mask: Tensor | None = None,
    device: torch.device | None = None,
) -> Tensor:
    """Bool[Q, K] or, with ``key_mask``, Bool[B, 1, Q, K]: the last Q of K columns each see
    themselves and the columns before them.

    ``key_mask``: as above; a PAD in front of every other column would otherwise see nothing.
    """
    square = torch.ones(num_queries, num_keys, dtype=torch.bool, device=device)
    last = num_keys - num_queries
    past = square.tril(last)
    return past if key_mask is None else (past & key_mask) | (past & square.triu(last))
