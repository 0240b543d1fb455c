"""Graphs of files as a ``GraphDataset``."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import torch

from discrete_diffusion.data.base import SPLITS
from discrete_diffusion.data.graph_dataset import GraphDataset
from discrete_diffusion.data.graph_tokens import TypedGraph, decode_graphs, encode_graphs
from discrete_diffusion.domains.graphs.graph_types import GraphTypes
from discrete_diffusion.domains.graphs.symmetries import breadth_first_order, canonical_key, label
from discrete_diffusion.layout.vocab_config import VocabConfig


class GraphFileDataset(GraphDataset):
    """``types``: names of the types of nodes and edges. ``kind``: what makes a graph valid, one of
    ``metrics.validity.KINDS``, or None."""

    fixed_orders = ("bfs",)

    def __init__(
        self,
        splits: Mapping[str, Sequence[TypedGraph]],
        vocab: VocabConfig,
        *,
        node_order: str,
        types: GraphTypes,
        kind: str | None = None,
    ) -> None:
        self.types, self.kind = types, kind
        labels = {name: [label(graph) for graph in splits[name]] for name in SPLITS}
        if node_order == "bfs":
            splits = {
                name: [
                    reordered(graph, breadth_first_order(graph, found.canonical))
                    for graph, found in zip(splits[name], labels[name], strict=True)
                ]
                for name in SPLITS
            }
        super().__init__(
            {name: encode_graphs(splits[name], vocab) for name in SPLITS},
            vocab,
            node_order=node_order,
            log_num_orders={
                name: torch.tensor([each.log_num_orders for each in found], dtype=torch.float64)
                for name, found in labels.items()
            },
        )

    def graphs(self, split: str) -> list[TypedGraph]:
        """Graphs of a split, in their order there."""
        x0 = self.splits[split].x0
        return decode_graphs(x0, self.vocab) if len(x0) else []

    def identities(self, split: str) -> list[Hashable]:
        return [canonical_key(graph) for graph in self.graphs(split)]


def reordered(graph: TypedGraph, order: Sequence[int]) -> TypedGraph:
    """The same graph; its k-th node is the old node ``order[k]``."""
    place = {node: k for k, node in enumerate(order)}
    edges = [(*sorted((place[i], place[j])), kind) for i, j, kind in graph.edges]
    nodes = tuple(graph.nodes[node] for node in order)
    return TypedGraph(nodes, tuple((i, j, kind) for i, j, kind in sorted(edges)))
