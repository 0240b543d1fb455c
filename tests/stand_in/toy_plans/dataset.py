"""The data set of the stand-in."""

from __future__ import annotations

from omegaconf import DictConfig

from discrete_diffusion.data.graph_tokens import (
    GraphDataset,
    TypedGraph,
    decode_graphs,
    split_by_graph,
)
from discrete_diffusion.domains.graphs.records import GraphTypes
from discrete_diffusion.layout import VocabConfig
from toy_graphs import random_graphs


class ToyPlanDataset(GraphDataset):
    """Has what reports of graphs read."""

    types, kind = GraphTypes(VocabConfig().node_types, VocabConfig().edge_types), None

    def graphs(self, split: str) -> list[TypedGraph]:
        return decode_graphs(self.splits[split].x0, self.vocab)


def build_dataset(config: DictConfig, vocab: VocabConfig) -> ToyPlanDataset:
    """``num_plans`` random graphs, split by distinct graph."""
    sizes = config.num_rooms and (config.num_rooms[0], config.num_rooms[-1])
    graphs = random_graphs(config.num_plans, vocab, seed=config.generator_seed, sizes=sizes)
    splits = split_by_graph(graphs, vocab, fractions=config.split, seed=config.split_seed)
    return ToyPlanDataset(splits, vocab, node_order=config.node_order)
