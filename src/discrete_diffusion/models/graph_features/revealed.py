"""``RevealedGraph``: edges and open pairs of a batch of noisy graphs, and who reaches whom."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


def closure(adjacency: Tensor) -> Tensor:
    """Float[..., N, N], 1 where a path leads from i to j, the empty one included: Float[..., N, N]
    of 0 and 1, squared log2 N times. Numbers of paths grow until they are cut to 1, every third
    time, before they could be too large."""
    n = adjacency.shape[-1]
    reached = (adjacency + torch.eye(n, device=adjacency.device)).clamp(max=1)
    for k in range(max(n - 1, 1).bit_length()):
        reached = reached @ reached
        if k % 3 == 2:
            reached = reached.clamp(max=1)
    return reached.clamp(max=1)


@dataclass(frozen=True)
class RevealedGraph:
    """What the tokens of a batch of graphs show: symmetric matrices of 0 and 1 without a diagonal.

    Args:
        edges: Float[B, G, N, N], revealed edges: of every type together, then of each type by
            itself if there are several undirected ones.
        open: Float[B, N, N], pairs that are still masked.
        real: Float[B, N], 0 at nodes that are PAD.
    """

    edges: Tensor
    open: Tensor
    real: Tensor

    @property
    def all(self) -> Tensor:
        """Float[B, N, N]: revealed edges of any type."""
        return self.edges[:, 0]

    @cached_property
    def components(self) -> Tensor:
        """Float[B, N, N]: 1 where revealed edges connect i and j."""
        return closure(self.all)

    @cached_property
    def sizes(self) -> Tensor:
        """Float[B, 1, 1]: real nodes of each graph."""
        return self.real.sum(dim=1)[:, None, None].clamp(min=1)

    @cached_property
    def density(self) -> Tensor:
        """Float[B, 1, 1]: expected edges in an open pair: the share of edges among revealed pairs,
        with n more pairs of which one is an edge."""
        n, edges = self.sizes, self.all.sum(dim=(1, 2))[:, None, None] / 2
        revealed = n * (n - 1) / 2 - self.open.sum(dim=(1, 2))[:, None, None] / 2
        return (edges + 1) / (revealed + n)
