"""Embeddings of node tokens, edge tokens and of what each position stands for in the graph."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG, VocabConfig


class NodeEmbedding(nn.Embedding):
    """Node ids (types, MASK, PAD) -> vectors: Int[B, N] -> Float[B, N, D]."""

    def __init__(self, *, d_model: int, vocab_config: VocabConfig = RPLAN_VOCAB_CONFIG) -> None:
        super().__init__(vocab_config.node_vocab_size, d_model)


class EdgeEmbedding(nn.Embedding):
    """Edge ids (relations, "no edge", MASK, PAD) -> vectors: Int[B, E] -> Float[B, E, D]."""

    def __init__(self, *, d_model: int, vocab_config: VocabConfig = RPLAN_VOCAB_CONFIG) -> None:
        super().__init__(vocab_config.edge_vocab_size, d_model)


class CompositePositionalEncoding(nn.Module):
    """What each of the L positions stands for: Float[L, D].

        node k        entity_type(0) + node_index(k)
        edge (i, j)   entity_type(1) + pair_index(i) + pair_index(j)

    ``pair_index`` is shared by both ends: the relation itself carries the direction.
    """

    entity_types: Tensor
    node_indices: Tensor
    edge_i: Tensor
    edge_j: Tensor

    def __init__(self, vocab_config: VocabConfig, d_model: int) -> None:
        super().__init__()
        n_max, num_edges = vocab_config.n_max, vocab_config.num_edges
        self.entity_type_emb = nn.Embedding(2, d_model)
        self.node_index_emb = nn.Embedding(n_max, d_model)
        self.pair_index_emb = nn.Embedding(n_max, d_model)
        indices = {
            "entity_types": [0] * n_max + [1] * num_edges,
            "node_indices": list(range(n_max)),
            "edge_i": [i for i, _ in vocab_config.endpoints],
            "edge_j": [j for _, j in vocab_config.endpoints],
        }
        for name, values in indices.items():
            index = torch.tensor(values, dtype=torch.long)
            self.register_buffer(name, index, persistent=False)

    def forward(self) -> Tensor:
        nodes = self.node_index_emb(self.node_indices)  # (N, D)
        edges = self.pair_index_emb(self.edge_i) + self.pair_index_emb(self.edge_j)  # (E, D)
        return torch.cat([nodes, edges]) + self.entity_type_emb(self.entity_types)
