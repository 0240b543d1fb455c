"""Random trees: a kind of data whose samples are graphs, in one module.

discrete-diffusion train plugins=[toy_trees] --config-dir my_configs data=toy_trees
"""

from __future__ import annotations

import json
import random
from pathlib import Path

from omegaconf import DictConfig
from torch import Tensor

from discrete_diffusion.data import (
    GraphDataset,
    TypedGraph,
    decode_graphs,
    encode_graphs,
    split_by_graph,
)
from discrete_diffusion.domains import Domain, register_domain
from discrete_diffusion.evaluation import Column, TokenReport
from discrete_diffusion.layout import VocabConfig


def is_tree(graph: TypedGraph) -> bool:
    """Check that there is one edge less than nodes, in one piece."""
    piece = {0}
    for _ in graph.nodes:
        piece |= {k for i, j, _ in graph.edges if {i, j} & piece for k in (i, j)}
    return len(graph.edges) == len(graph.nodes) - 1 == len(piece) - 1


class TreeReport(TokenReport):
    columns = (Column("share_of_trees", "trees", 1, up=True, share=True, of_samples=True),)

    def measure(self, samples: Tensor) -> dict[str, float]:
        graphs = decode_graphs(samples, self.data.vocab)
        return {"share_of_trees": sum(map(is_tree, graphs)) / len(graphs)} if graphs else {}

    def save(self, samples: Tensor, folder: Path) -> None:
        edges = [list(graph.edges) for graph in decode_graphs(samples, self.data.vocab)]
        (folder / "samples.json").write_text(json.dumps(edges))


@register_domain
class Trees(Domain):
    """Trees of 2 to ``max_nodes`` nodes."""

    name, title, data_sets = "toy_trees", "trees", {"toy_trees": "tokens"}
    group_titles = {"node": "nodes", "edge": "edges"}
    report, sample_files = TreeReport, ("samples.json",)

    def vocabulary(self, data: DictConfig) -> VocabConfig:
        return VocabConfig(data["max_nodes"], ("node",), ("edge", "none"))  # the last one: no edge

    def build(self, data: DictConfig) -> GraphDataset:
        vocab, rng, trees = self.vocabulary(data), random.Random(0), []
        for num in rng.choices(range(2, data.max_nodes + 1), k=data.num_trees):
            edges = [(rng.randrange(node), node, 0) for node in range(1, num)]
            trees.append(TypedGraph((0,) * num, tuple(edges)))
        splits = split_by_graph(encode_graphs(trees, vocab), vocab, fractions=data.split, seed=0)
        return GraphDataset(splits, vocab, node_order=data.node_order)
