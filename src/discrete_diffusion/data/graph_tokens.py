"""Graphs as token sequences, relabelling of nodes, and data sets of graphs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from discrete_diffusion.categorical import make_generator, uniform_draws
from discrete_diffusion.config.values import unknown_name
from discrete_diffusion.contracts import Batch
from discrete_diffusion.data.base import SPLITS, Examples, TokenDataset, shares_of
from discrete_diffusion.data.canonical import canonical_orders
from discrete_diffusion.layout.vocab_config import RPLAN_VOCAB_CONFIG, VocabConfig


class TypedGraph(NamedTuple):
    """Graph given by node types and typed edges.

    ``nodes``: type of each node; ``edges``: (i, j, type) with i < j. Types index
    ``vocab.node_types`` and ``vocab.edge_types``; a pair that is not listed has no edge."""

    nodes: tuple[int, ...]
    edges: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class EncodedGraphs:
    """Graphs as tokens.

    ``x0``: Int64[B, L] ids of the concatenated vocabulary, PAD wherever ``real`` is False.
    ``real``: Bool[B, L], True for node k if k < n, and for pair (i, j) if both nodes are real.
    ``num_nodes``: Int64[B], number n of nodes.
    ``facts``: Float32[B, S] or None, attributes of each graph.
    """

    x0: Tensor
    real: Tensor
    num_nodes: Tensor
    facts: Tensor | None = None

    def __len__(self) -> int:
        return self.x0.shape[0]

    def __getitem__(self, rows: Tensor | slice) -> EncodedGraphs:
        """Select graphs by an index, a mask or a slice."""
        facts = None if self.facts is None else self.facts[rows]
        return EncodedGraphs(self.x0[rows], self.real[rows], self.num_nodes[rows], facts)

    @staticmethod
    def joined(parts: Sequence[EncodedGraphs]) -> EncodedGraphs:
        """Concatenate graphs, and their ``facts`` if all parts have facts."""
        columns = zip(*((part.x0, part.real, part.num_nodes) for part in parts), strict=True)
        x0, real, num_nodes = map(torch.cat, columns)
        # facts of all parts, or None
        held = [part.facts for part in parts if len(part)]
        facts = [each for each in held if each is not None]
        complete = facts and len(facts) == len(held)
        return EncodedGraphs(x0, real, num_nodes, torch.cat(facts) if complete else None)


def encode_graphs(graphs: Sequence[TypedGraph], vocab: VocabConfig) -> EncodedGraphs:
    """Encode graphs as tokens: node slots, then the upper triangle of pairs row by row.

    Raises ``ValueError`` for a graph of more than ``vocab.n_max`` nodes.
    """
    num_nodes = torch.tensor([len(graph.nodes) for graph in graphs], dtype=torch.long)
    if (too_big := (num_nodes > vocab.n_max).nonzero()).numel():
        sample = int(too_big[0])
        raise ValueError(
            f"graph {sample} has {int(num_nodes[sample])} nodes, more than n_max={vocab.n_max}"
        )
    # nodes; pairs have no edge
    real = vocab.real_positions(num_nodes)
    x0 = torch.full(real.shape, vocab.edge_offset + vocab.no_edge).masked_fill(~real, vocab.pad_id)
    types = list(chain.from_iterable(graph.nodes for graph in graphs))
    x0[:, : vocab.n_max][real[:, : vocab.n_max]] = torch.tensor(types, dtype=torch.long)

    # listed edges of all graphs
    num_edges = torch.tensor([len(graph.edges) for graph in graphs], dtype=torch.long)
    triples = chain.from_iterable(graph.edges for graph in graphs)
    flat = np.fromiter(chain.from_iterable(triples), dtype=np.int64)
    i, j, kind = torch.from_numpy(flat).reshape(-1, 3).unbind(1)
    sample_of = torch.repeat_interleave(torch.arange(len(graphs)), num_edges)
    x0[sample_of, vocab.edge_positions[i, j]] = vocab.edge_offset + kind
    return EncodedGraphs(x0, real, num_nodes)


def decode_graphs(tokens: Tensor, vocab: VocabConfig) -> list[TypedGraph]:
    """Decode tokens Int[B, L]; the size of a graph is its number of leading nodes before PAD.

    Raises ``ValueError`` for another shape or dtype. Also raises it, naming sample, position and
    id, for a MASK, PAD or illegal id at a real position, and for an id other than PAD elsewhere.
    """
    num_nodes = count_nodes(tokens, vocab)
    tokens = tokens.cpu()
    vocab.layout().check(tokens, vocab.real_positions(num_nodes))

    # edges of all graphs, then those of each
    nodes = tokens[:, : vocab.n_max].tolist()
    kind = tokens[:, vocab.n_max :] - vocab.edge_offset
    # PAD shifts below 0
    listed = (kind >= 0) & (kind < vocab.no_edge)
    sample, slot = listed.nonzero(as_tuple=True)
    ends = torch.tensor(vocab.endpoints, dtype=torch.long).reshape(-1, 2)
    columns = [*ends[slot].unbind(1), kind[sample, slot]]
    edges = list(zip(*(column.tolist() for column in columns), strict=True))
    ends_at = [0, *listed.sum(dim=1).cumsum(0).tolist()]
    return [
        TypedGraph(tuple(row[:n]), tuple(edges[first:end]))
        for row, n, (first, end) in zip(nodes, num_nodes.tolist(), pairwise(ends_at), strict=True)
    ]


def count_nodes(tokens: Tensor, vocab: VocabConfig = RPLAN_VOCAB_CONFIG) -> Tensor:
    """Count the leading node slots before PAD in tokens Int[B, L]; Int64[B] on the CPU.

    Raises ``ValueError`` for another shape or dtype, or a sample without nodes.
    """
    # ids of whole sequences
    if tokens.ndim != 2 or tokens.shape[1] != vocab.length:
        raise ValueError(f"expected tokens of shape (B, {vocab.length}), got {tuple(tokens.shape)}")
    if tokens.is_floating_point() or tokens.dtype == torch.bool:
        raise ValueError(f"expected integer token ids, got {tokens.dtype}")
    is_node = (tokens[:, : vocab.n_max] != vocab.pad_id).long()
    counts = is_node.cumprod(dim=1).sum(dim=1).cpu()
    if (empty := (counts == 0).nonzero()).numel():
        raise ValueError(f"sample {int(empty[0])}, position 0 (node): PAD; a graph has >= 1 node")
    return counts


def random_orders(num_nodes: Tensor, n_max: int, generator: torch.Generator) -> Tensor:
    """Sample uniform orders of the first n slots, Int64[B, n_max]; other slots stay in place.

    ``num_nodes``: Int[B], n of each graph. The result is on the device of ``num_nodes``.
    """
    # sort random keys; slots from n on keep their places
    keys = uniform_draws((len(num_nodes), n_max), generator, num_nodes.device)
    slot = torch.arange(n_max, device=num_nodes.device)
    keys = torch.where(slot < num_nodes.unsqueeze(1), keys, 1.0 + slot)
    return keys.argsort(dim=1, stable=True)


def relabel(
    x0: Tensor, num_nodes: Tensor, order: Tensor, vocab: VocabConfig = RPLAN_VOCAB_CONFIG
) -> Tensor:
    """Renumber the nodes of every graph: new node k of sample b is old node ``order[b, k]``.

    If the ends of a pair are swapped, its type becomes ``vocab.edge_inverse`` of it. MASK and PAD
    move unchanged, so noisy tokens can be relabelled too.

    ``x0``: Int[B, L] of the concatenated vocabulary; ``num_nodes``: Int[B]; ``order``:
    Int[B, n_max], a permutation of the first n slots, identity on the rest. Returns Int[B, L].
    Raises ``ValueError`` naming the first sample whose order is not such a permutation.
    """
    n_max, device = vocab.n_max, x0.device
    if tuple(order.shape) != (x0.shape[0], n_max):
        raise ValueError(
            f"expected order of shape {(x0.shape[0], n_max)}, got {tuple(order.shape)}"
        )
    # permutations of the first n slots
    order = order.to(device=device, dtype=torch.long)
    slot = torch.arange(n_max, device=device)
    stays = (slot < num_nodes.to(device).unsqueeze(1)) | (order == slot)
    wrong = ~stays.all(dim=1) | (order.sort(dim=1).values != slot).any(dim=1)
    if wrong.any():
        sample = int(wrong.nonzero()[0])
        raise ValueError(
            f"sample {sample}: order {order[sample].tolist()} is not a permutation of its first "
            f"{int(num_nodes[sample])} slots with the others in place"
        )
    # pairs (i, j) from the old places of their nodes, the inverse if those are swapped
    ends = torch.tensor(vocab.endpoints, dtype=torch.long, device=device).reshape(-1, 2)
    old_i, old_j = order[:, ends[:, 0]], order[:, ends[:, 1]]
    edges = x0.gather(1, vocab.edge_positions.to(device)[old_i, old_j])
    edges = torch.where(old_i > old_j, inverse_ids(vocab).to(edges)[edges], edges)
    return torch.cat([x0[:, :n_max].gather(1, order), edges], dim=1)


def inverse_ids(vocab: VocabConfig) -> Tensor:
    """Ids of edges read in the opposite direction, Int64[V], for the concatenated vocabulary."""
    ids = torch.arange(vocab.vocab_size)
    inverse = torch.tensor(vocab.edge_inverse)
    ids[vocab.edge_offset : vocab.edge_offset + vocab.num_edge_types] = vocab.edge_offset + inverse
    return ids


NODE_ORDERS = ("random", "canonical", "given")


class GraphDataset(TokenDataset):
    """Graphs in three splits.

    ``node_order``: order of the nodes in the tokens. ``random`` relabels the nodes each time a
    graph is read; ``canonical`` computes an order from the graph alone, so that equal graphs have
    equal tokens; ``given`` keeps the order of the source. A domain may order the nodes itself, and
    names such orders in ``fixed_orders``.

    ``splits``: encoded graphs by split name, such as the result of ``split_by_graph``.
    ``log_num_orders``: log(n!/|Aut G|) by split, Float64[M], if known; else it is computed with the
    canonical order.
    """

    size_unit = "nodes"
    fixed_orders: tuple[str, ...] = ()

    def __init__(
        self,
        splits: Mapping[str, EncodedGraphs],
        vocab: VocabConfig,
        *,
        node_order: str,
        log_num_orders: Mapping[str, Tensor] | None = None,
    ) -> None:
        known = (*NODE_ORDERS, *self.fixed_orders)
        if node_order not in known:
            raise ValueError(unknown_name("node order", node_order, known))
        self.vocab, self.layout, self.node_order = vocab, vocab.layout(), node_order
        self.bound = "ordered_random" if node_order == "random" else "ordered_fixed"
        orders = log_num_orders or {}
        self.splits = {name: self._examples(splits[name], orders.get(name)) for name in SPLITS}

    def _examples(self, graphs: EncodedGraphs, log_num_orders: Tensor | None) -> Examples:
        # tokens in canonical order, and the number of orders
        x0 = graphs.x0
        if log_num_orders is None or self.node_order == "canonical":
            found = canonical_orders(x0, graphs.num_nodes, self.vocab)
            log_num_orders = found.log_num_orders
            if self.node_order == "canonical":
                x0 = relabel(x0, graphs.num_nodes, found.orders, self.vocab)
        return Examples(x0, graphs.real, log_num_orders, conditions=self.conditions_of(graphs))

    def conditions_of(self, graphs: EncodedGraphs) -> dict[str, Tensor]:
        """Conditions of graphs, by name; they do not depend on the order of nodes."""
        return {}

    def augment(self, examples: Examples, generator: torch.Generator) -> Batch:
        if self.node_order != "random":
            orders = torch.zeros(len(examples), dtype=torch.float64)
            return Batch(examples.x0, examples.real, orders, dict(examples.conditions))
        return self.exchangeable(examples, generator)

    def exchangeable(self, examples: Examples, generator: torch.Generator) -> Batch:
        """Make a batch of examples in uniformly random orders of their nodes."""
        num_nodes = self.sizes(examples)
        order = random_orders(num_nodes, self.vocab.n_max, generator)
        x0 = relabel(examples.x0, num_nodes, order, self.vocab)
        return Batch(x0, examples.real, examples.log_num_orders, dict(examples.conditions))

    def real_positions(self, sizes: Tensor) -> Tensor:
        return self.vocab.real_positions(sizes)

    def sizes(self, examples: Examples) -> Tensor:
        return examples.real[:, : self.vocab.n_max].sum(dim=1)

    def identities(self, split: str) -> list[Hashable]:
        """Keys of the graphs of a split; graphs equal up to relabelling have equal keys."""
        examples = self.splits[split]
        if self.node_order == "canonical" or len(examples) == 0:
            return super().identities(split)
        canonical = _relabel_canonically(examples.x0, self.sizes(examples), self.vocab)
        return [row.numpy().tobytes() for row in canonical]

    def unit_of_bound(self, split: str, num_tokens: float) -> tuple[str, float]:
        return "nats per unordered graph", 1.0

    def summary(self) -> str:
        parts = ", ".join(f"{len(self.splits[name]):,} {name}" for name in SPLITS)
        return f"{parts} graphs; node order {self.node_order}"


def split_by_graph(
    graphs: EncodedGraphs, vocab: VocabConfig, *, fractions: Sequence[float], seed: int
) -> dict[str, EncodedGraphs]:
    """Split graphs such that all relabellings of a graph are in the same split.

    Repeated graphs are kept. ``fractions``: shares of train, val and test *distinct* graphs;
    ``ValueError`` unless they sum to 1.
    """
    keys = distinct_keys(graphs, vocab)
    num = int(keys.max()) + 1 if len(keys) else 0
    order = torch.randperm(num, generator=make_generator(seed))
    parts = shares_of(num, fractions)
    return {name: graphs[torch.isin(keys, order[part])] for name, part in parts.items()}


def remove_held_out(
    train: EncodedGraphs, held_out: Sequence[EncodedGraphs], vocab: VocabConfig
) -> EncodedGraphs:
    """Remove training graphs that equal a held-out graph up to relabelling."""
    if len(train) == 0:
        return train
    keys = distinct_keys(EncodedGraphs.joined([train, *held_out]), vocab)
    return train[~torch.isin(keys[: len(train)], keys[len(train) :])]


def distinct_keys(graphs: EncodedGraphs, vocab: VocabConfig) -> Tensor:
    """Number the distinct graphs up to relabelling: Int[M] from 0, equal for equal graphs."""
    if len(graphs) == 0:
        return torch.zeros(0, dtype=torch.long)
    canonical = _relabel_canonically(graphs.x0, graphs.num_nodes, vocab)
    return canonical.unique(dim=0, return_inverse=True)[1]


def _relabel_canonically(x0: Tensor, num_nodes: Tensor, vocab: VocabConfig) -> Tensor:
    return relabel(x0, num_nodes, canonical_orders(x0, num_nodes, vocab).orders, vocab)
