"""Vocabularies: ``VocabConfig`` of graphs, ``Sequences``, and ``Numbers`` of other states.

A bubble diagram of n rooms is ``n_max`` node slots followed by the upper triangle of room pairs,
row-major. Both kinds of token share one *concatenated* vocabulary, so that any backbone that maps
ids to logits serves: ids ``0..14`` are the node vocabulary, ``15..27`` the edge vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from discrete_diffusion.layout.room_tables import (
    RELATION_X_ORDER,
    RELATION_Y_ORDER,
    RELATIONS,
    ROOM_TYPES,
)
from discrete_diffusion.layout.token_layout import TokenLayout, first_positions

MOST_NODES = 4096
"""Largest ``n_max``: it has 8 million pairs, and a batch of one such graph takes gigabytes."""


class Vocabulary(ABC):
    """Meaning of samples: base of ``Sequences``, ``VocabConfig`` (graphs) and ``Numbers``."""

    @property
    def largest(self) -> int:
        """Size of the largest sample."""
        raise TypeError(f"{type(self).__name__} has no sizes: it is not of ids")

    def layout(self) -> TokenLayout:
        """The legal ids by position."""
        raise TypeError(f"{type(self).__name__} has no layout: it is not of ids")

    def real_positions(self, sizes: Tensor) -> Tensor:
        """Positions that carry data.

        Args:
            sizes: Int[B], lengths of the samples, or numbers of nodes of graphs.

        Returns:
            Bool[B, L].
        """
        raise TypeError(f"{type(self).__name__} has no positions: it is not of ids")

    @abstractmethod
    def digest(self) -> dict[str, Any]:
        """Description of the vocabulary for checkpoints; a checkpoint with another one is refused.

        Returns:
            Values that JSON can hold, by name.
        """


@dataclass(frozen=True)
class Numbers(Vocabulary):
    """The vocabulary of samples that are not ids.

    Args:
        meaning: entries of a checkpoint that describe the samples.
    """

    meaning: Mapping[str, Any]

    def digest(self) -> dict[str, Any]:
        return dict(self.meaning)


@dataclass(frozen=True)
class Sequences(Vocabulary):
    """The vocabulary of plain sequences: every id but MASK and PAD is legal at every position.

    Args:
        length: L, number of positions.
        vocab_size: V, number of ids, MASK and PAD included.
        mask_id: the id of MASK.
        pad_id: the id of PAD, or None.
        num_given: number of leading positions that are given.
    """

    length: int
    vocab_size: int
    mask_id: int
    pad_id: int | None = None
    num_given: int = 0

    @classmethod
    def of(cls, data_config: Mapping[str, Any]) -> Sequences:
        """Vocabulary of the sequences that a ``config.data`` describes.

        Args:
            data_config: ``length``, ``vocab_size``, ``mask_id`` and, optionally, ``pad_id`` and
                ``source_length``, the number of leading positions that are given.

        Returns:
            The vocabulary.

        Raises:
            ValueError: a key is not set; the message names it.
        """
        for key in ("length", "vocab_size", "mask_id"):
            if data_config.get(key) is None:
                raise ValueError(
                    f"data.{key} is not set; plain sequences need data.length, data.vocab_size and "
                    "data.mask_id"
                )
        return cls(
            data_config["length"],
            data_config["vocab_size"],
            data_config["mask_id"],
            data_config.get("pad_id"),
            data_config.get("source_length") or 0,
        )

    @property
    def largest(self) -> int:
        return self.length - self.num_given

    def layout(self) -> TokenLayout:
        return TokenLayout.flat(
            self.length,
            self.vocab_size,
            mask_id=self.mask_id,
            pad_id=self.pad_id,
            num_given=self.num_given,
        )

    def real_positions(self, sizes: Tensor) -> Tensor:
        return first_positions(self.length, self.num_given, sizes)

    def digest(self) -> dict[str, Any]:
        return self.layout().digest()


@dataclass(frozen=True)
class VocabConfig(Vocabulary):
    """The vocabularies and slots of graphs with at most ``n_max`` nodes.

    Node vocabulary: types, then MASK, then PAD (15 ids for rooms); edge vocabulary likewise (13).
    In the concatenated vocabulary (28 ids) the edge ids are shifted by ``edge_offset``; its single
    ``mask_id`` and ``pad_id`` are those of the node vocabulary, at every position.

    Args:
        n_max: largest number of nodes.
        node_types: names of the node types.
        edge_types: names of the edge types; the *last* one means "no edge".
        edge_inverse: for each edge type, the type of the same edge read from its other end; by
            default ``9 - r`` for the room relations and the identity (undirected) otherwise.
        type_names: names of the two tables in checkpoints.

    Raises:
        ValueError: ``n_max`` is below 1 or above 4,096, a table of types is empty, or
            ``edge_inverse`` is not an involution.
    """

    n_max: int = 8
    node_types: tuple[str, ...] = ROOM_TYPES
    edge_types: tuple[str, ...] = RELATIONS
    edge_inverse: tuple[int, ...] | None = None
    type_names: tuple[str, str] = field(default=("node_types", "edge_types"), compare=False)

    def __post_init__(self) -> None:
        if self.n_max < 1:
            raise ValueError(f"n_max={self.n_max}: a graph needs at least one node slot")
        if self.n_max > MOST_NODES:
            raise ValueError(
                f"n_max={self.n_max}: expected at most {MOST_NODES:,}, as each pair is a token"
            )
        if not self.node_types or not self.edge_types:
            raise ValueError("node_types and edge_types must each name at least one type")
        # undirected edges by default; the inverse of a room relation is known
        inverse = tuple(range(len(self.edge_types)))
        if self.edge_inverse is not None:
            inverse = tuple(self.edge_inverse)
        elif self.edge_types == RELATIONS:
            inverse = (*inverse[-2::-1], inverse[-1])
        # inverting twice must lead back
        involution = len(inverse) == len(self.edge_types) and all(
            0 <= r < len(inverse) and inverse[r] == k for k, r in enumerate(inverse)
        )
        if not involution:
            raise ValueError(
                f"edge_inverse={inverse}: expected a permutation of the edge types that is its own "
                "inverse (an involution)"
            )
        object.__setattr__(self, "edge_inverse", inverse)

    @property
    def largest(self) -> int:
        return self.n_max

    @property
    def num_edges(self) -> int:
        """Number of pair slots, E = n_max (n_max - 1) / 2."""
        return self.n_max * (self.n_max - 1) // 2

    @property
    def length(self) -> int:
        """Number of positions, L = n_max + E."""
        return self.n_max + self.num_edges

    @property
    def num_node_types(self) -> int:
        """Number of node types."""
        return len(self.node_types)

    @property
    def num_edge_types(self) -> int:
        """Number of edge types, "no edge" included."""
        return len(self.edge_types)

    @property
    def no_edge(self) -> int:
        """The edge type (in the edge vocabulary) that stands for two unrelated nodes."""
        return self.num_edge_types - 1

    @property
    def edge_directions(self) -> tuple[tuple[int, ...], ...]:
        """Sign of every edge type along each axis.

        Room relations: left to right, and top to bottom; other edges have no directions.
        """
        return (RELATION_X_ORDER, RELATION_Y_ORDER) if self.edge_types == RELATIONS else ()

    @property
    def node_vocab_size(self) -> int:
        """Number of node ids, MASK and PAD included."""
        return self.num_node_types + 2

    @property
    def edge_vocab_size(self) -> int:
        """Number of edge ids, MASK and PAD included."""
        return self.num_edge_types + 2

    @property
    def node_mask_id(self) -> int:
        """MASK in the node vocabulary."""
        return self.num_node_types

    @property
    def node_pad_id(self) -> int:
        """PAD in the node vocabulary."""
        return self.num_node_types + 1

    @property
    def edge_mask_id(self) -> int:
        """MASK in the edge vocabulary (not shifted by ``edge_offset``)."""
        return self.num_edge_types

    @property
    def edge_pad_id(self) -> int:
        """PAD in the edge vocabulary (not shifted by ``edge_offset``)."""
        return self.num_edge_types + 1

    @property
    def edge_offset(self) -> int:
        """First edge id of the concatenated vocabulary."""
        return self.node_vocab_size

    @property
    def vocab_size(self) -> int:
        """Number of ids V of the concatenated vocabulary."""
        return self.node_vocab_size + self.edge_vocab_size

    @property
    def mask_id(self) -> int:
        """MASK of the concatenated vocabulary, at every position."""
        return self.node_mask_id

    @property
    def pad_id(self) -> int:
        """PAD of the concatenated vocabulary, at every position."""
        return self.node_pad_id

    @cached_property
    def endpoints(self) -> tuple[tuple[int, int], ...]:
        """The node pair (i, j), i < j, of every edge slot, in order."""
        return tuple((i, j) for i in range(self.n_max) for j in range(i + 1, self.n_max))

    @property
    def edge_positions(self) -> Tensor:
        """Int64[n_max, n_max]: position of the pair (i, j), in either order; 0 on the diagonal."""
        # edges are numbered row by row of the upper triangle
        table = torch.zeros(self.n_max, self.n_max, dtype=torch.long)
        i, j = torch.triu_indices(self.n_max, self.n_max, offset=1)
        table[i, j] = table[j, i] = self.n_max + torch.arange(self.num_edges)
        return table

    def edge_position(self, i: int, j: int) -> int:
        """Position of an edge in the sequence, n_max + i n_max - i(i+1)/2 + j-i-1.

        Args:
            i: one end, 0 <= i < j.
            j: the other end, j < n_max.

        Returns:
            A position in n_max..L-1.

        Raises:
            ValueError: i and j are not in this order and range.
        """
        if not 0 <= i < j < self.n_max:
            raise ValueError(f"edge ({i}, {j}): expected 0 <= i < j < n_max={self.n_max}")
        return self.n_max + i * self.n_max - i * (i + 1) // 2 + (j - i - 1)

    def real_positions(self, sizes: Tensor) -> Tensor:
        """Positions that carry data: node k if k < n, edge (i, j) if both ends are real.

        Args:
            sizes: Int[B], number of nodes n of each graph.

        Returns:
            Bool[B, L].

        Raises:
            ValueError: a number lies outside 1..n_max.
        """
        if ((sizes < 1) | (sizes > self.n_max)).any():
            raise ValueError(f"node counts must lie in 1..{self.n_max}, got {sizes.tolist()}")
        # the later node of each slot
        last_node = torch.tensor([*range(self.n_max), *(j for _, j in self.endpoints)])
        return last_node.to(sizes.device) < sizes.unsqueeze(1)

    def compute_pad_mask(self, num_rooms: int) -> Tensor:
        """Real positions of one graph.

        Args:
            num_rooms: number of nodes n.

        Returns:
            Bool[L], True at real positions.

        Raises:
            ValueError: the number lies outside 1..n_max.
        """
        return self.real_positions(torch.tensor([num_rooms]))[0]

    def separate(self, x0: Tensor) -> SeparateIds:
        """Ids of the two separate vocabularies, which ``BDDenoiser`` takes.

        The MASK and PAD of either vocabulary mean MASK and PAD at every position. An id that is
        illegal at its position (a room type in an edge slot) is read as MASK.

        Args:
            x0: Int[B, L], concatenated ids, clean or noisy.

        Returns:
            The ids, and which positions are real.

        Raises:
            ValueError: the shape does not fit, or an id lies outside the concatenated vocabulary.
        """
        if x0.ndim != 2 or x0.shape[1] != self.length:
            raise ValueError(
                f"x0 has shape {tuple(x0.shape)}; expected (B, {self.length}) for "
                f"n_max={self.n_max}"
            )
        if ((x0 < 0) | (x0 >= self.vocab_size)).any():
            raise ValueError(
                f"x0 has ids {int(x0.min())}..{int(x0.max())}; expected concatenated ids "
                f"0..{self.vocab_size - 1}: node ids as they are, edge ids with {self.edge_offset} "
                "added"
            )
        # look every id up in the table of its position
        table = self.separation_table().to(x0.device)
        tokens = table[torch.arange(self.length, device=x0.device), x0]
        pads = (self.pad_id, self.edge_offset + self.edge_pad_id)
        return SeparateIds(tokens, (x0 != pads[0]) & (x0 != pads[1]))

    def separation_table(self) -> Tensor:
        """Table from concatenated ids to ids of the separate vocabularies.

        Returns:
            Int[L, V], for each position and concatenated id the id in the position's vocabulary.
        """
        # illegal ids read as MASK, the PAD of either vocabulary as PAD
        nodes = torch.full((self.vocab_size,), self.node_mask_id)
        edges = torch.full((self.vocab_size,), self.edge_mask_id)
        offset = self.edge_offset
        nodes[: self.num_node_types] = torch.arange(self.num_node_types)
        edges[offset : offset + self.num_edge_types] = torch.arange(self.num_edge_types)
        for pad_id in (self.pad_id, offset + self.edge_pad_id):
            nodes[pad_id] = self.node_pad_id
            edges[pad_id] = self.edge_pad_id
        return torch.cat([nodes.expand(self.n_max, -1), edges.expand(self.num_edges, -1)])

    def layout(self) -> TokenLayout:
        # groups of the concatenated vocabulary: node types in node slots, edge types in edge slots
        support = torch.zeros(self.length, self.vocab_size, dtype=torch.bool)
        support[: self.n_max, : self.num_node_types] = True
        support[self.n_max :, self.edge_offset : self.edge_offset + self.num_edge_types] = True
        group = torch.tensor([0] * self.n_max + [1] * self.num_edges)
        nodes, pairs = torch.arange(self.n_max), torch.triu_indices(self.n_max, self.n_max, 1)
        return TokenLayout(
            support,
            mask_id=self.mask_id,
            pad_id=self.pad_id,
            group=group,
            group_names=("node", "edge"),
            sites=torch.cat([nodes.expand(2, -1), pairs], dim=1).T,
        )

    def digest(self) -> dict[str, Any]:
        tables = zip(self.type_names, (self.node_types, self.edge_types), strict=True)
        return {"n_max": self.n_max, **{name: list(types) for name, types in tables}}


@dataclass(frozen=True)
class SeparateIds:
    """Graphs in the two separate vocabularies.

    ``tokens``: Int[B, L], node ids in the first n_max columns, edge ids in the rest.
    ``pad_mask``: Bool[B, L], True at real positions.
    """

    tokens: Tensor
    pad_mask: Tensor


RPLAN_VOCAB_CONFIG = VocabConfig(n_max=8)
"""Rooms and relations of RPLAN plans: 8 + 28 = 36 positions, 15 + 13 = 28 ids."""
