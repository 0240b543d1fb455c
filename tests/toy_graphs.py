"""Random graphs, of rooms unless a vocabulary says otherwise."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.data.graph_tokens import EncodedGraphs, GraphDataset, split_by_graph
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG, VocabConfig


def random_graphs(
    num: int,
    vocab: VocabConfig = RPLAN_VOCAB_CONFIG,
    *,
    seed: int = 0,
    sizes: tuple[int, int] | None = None,
) -> EncodedGraphs:
    """Graphs of the ``sizes`` between two, else of four nodes or more; the first types and "no
    edge" are the most frequent."""
    generator = make_generator(seed)
    least, most = sizes or (min(4, vocab.n_max), vocab.n_max)

    def ranks(number: int, slots: int) -> Tensor:
        weights = torch.arange(1.0, number + 1) ** -2
        return weights.multinomial(num * slots, True, generator=generator).view(num, slots)

    num_nodes = torch.randint(least, most + 1, (num,), generator=generator)
    nodes = ranks(vocab.num_node_types, vocab.n_max)
    edges = vocab.edge_offset + vocab.no_edge - ranks(vocab.num_edge_types, vocab.num_edges)
    real = vocab.real_positions(num_nodes)
    x0 = torch.cat([nodes, edges], dim=1).masked_fill(~real, vocab.pad_id)
    return EncodedGraphs(x0, real, num_nodes)


def graph_dataset(
    graphs: EncodedGraphs,
    node_order: str,
    vocab: VocabConfig = RPLAN_VOCAB_CONFIG,
    *,
    fractions: Sequence[float] = (0.8, 0.1, 0.1),
    split_seed: int = 0,
) -> GraphDataset:
    """Graphs in splits."""
    splits = split_by_graph(graphs, vocab, fractions=fractions, seed=split_seed)
    return GraphDataset(splits, vocab, node_order=node_order)
