"""``GraphFeatures``: features of the revealed graph, for the streams and heads of a denoiser."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from discrete_diffusion.config.naming import check_name
from discrete_diffusion.layout.vocab_config import VocabConfig
from discrete_diffusion.models.blocks.transformer import zero_linear, zeroed
from discrete_diffusion.models.graph_features.features import FEATURES, base
from discrete_diffusion.models.graph_features.revealed import RevealedGraph

Revealed = tuple[Tensor, Tensor] | None
"""Features of the revealed graph: of nodes Float[B, F, N], of pairs Float[B, F', K]; or none."""


class AddedLinear(nn.Linear):
    """A linear map of features that come before their places, Float[B, F, N] -> Float[B, N, D],
    which is added to something, and is 0 at the start. In float32."""

    zero_initialised = True
    """Weights of a network without it are all that a network with it needs to start from."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(in_features, out_features, bias=False)

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            weight = self.weight.expand(x.shape[0], -1, -1)  # matmul would copy x first
            return torch.bmm(weight, x.to(weight.dtype)).mT


class Head(nn.Linear):
    """Logits: a linear map of the last states, and one of the features of the revealed graph, both
    0 at the start.

    Args:
        dim: width of the states.
        num_ids: of the logits.
        features: of the revealed graph, how many.
    """

    def __init__(self, dim: int, num_ids: int, features: int) -> None:
        super().__init__(dim, num_ids)
        zeroed(self)
        self.skip = AddedLinear(features, num_ids)

    def forward(self, x: Tensor, features: Tensor | None = None) -> Tensor:
        """Float[B, N, dim], Float[B, features, N] -> Float[B, N, num_ids]."""
        logits = super().forward(x)
        return logits if features is None else logits + self.skip(features)


def build_head(dim: int, num_ids: int, features: int) -> nn.Linear:
    """``Head``, or a linear map that starts as 0 where there are no features of a graph."""
    return Head(dim, num_ids, features) if features else zero_linear(dim, num_ids)


class GraphFeatures(nn.Module):
    """Features of the graph that the tokens of a sample reveal, of its nodes and of its pairs.

        h <- h + W f_nodes,   z <- z + W' f_pairs              before the first block
        logits = head(h) + V f_nodes, head'(z) + V' f_pairs    after the last one

    where every W and V is 0 at the start. They are functions of the tokens alone, and equivariant:
    relabelled tokens have relabelled features.

    Edge types without direction count one by one and together, others together.

    Args:
        names: of ``FEATURES``; degrees are always among them.
        vocab_config: vocabularies and slots of the graphs.
        d_node: width of the node stream.
        d_pair: width of the pair stream.
        walk_length: longest walk K of ``walks``.

    Raises:
        ValueError: a name is not one of ``FEATURES``.
    """

    def __init__(
        self,
        names: Sequence[str],
        vocab_config: VocabConfig,
        *,
        d_node: int,
        d_pair: int,
        walk_length: int = 8,
    ) -> None:
        super().__init__()
        for name in names:
            check_name("model.features", name, FEATURES)
        self.names, self.vocab_config, self.walk_length = tuple(names), vocab_config, walk_length
        types = vocab_config.no_edge
        undirected = vocab_config.edge_inverse == tuple(range(vocab_config.num_edge_types))
        self.by_type = undirected and types > 1
        none = torch.full((1, 2, 2), vocab_config.no_edge, device="cpu")
        self.widths = tuple(features.shape[1] for features in self.measure(none))
        self.to_nodes = AddedLinear(self.widths[0], d_node)
        self.to_pairs = AddedLinear(self.widths[1], d_pair)

    def forward(
        self,
        h: Tensor,
        z: Tensor,
        relations: Tensor,
        real: Tensor | None = None,
        *,
        nodes: Tensor | None = None,
        pairs: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Revealed]:
        """Add the features to both streams.

        Args:
            h: Float[B, K, D], nodes.
            z: Float[B, K', P], pairs.
            relations: Int[B, N, N], edge ids; the diagonal is not read.
            real: Bool[B, N], False at nodes that are PAD; None: none is.
            nodes: Int[K], which of the N nodes h has; None: all.
            pairs: Int[K'], which of the N N pairs z has, row by row; None: all.

        Returns:
            h, z, and the features of their nodes and pairs, for the heads.
        """
        of_nodes, of_pairs = self.measure(relations, real)
        of_nodes = of_nodes if nodes is None else of_nodes[..., nodes]
        of_pairs = of_pairs if pairs is None else of_pairs[..., pairs]
        return h + self.to_nodes(of_nodes), z + self.to_pairs(of_pairs), (of_nodes, of_pairs)

    def measure(self, relations: Tensor, real: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The features themselves, Float[B, F, N] and Float[B, F', N N]; arguments of ``forward``.

        In float32 and without gradients.
        """
        with torch.no_grad(), torch.autocast(relations.device.type, enabled=False):
            graph = self.reveal(relations, real)
            nodes, pairs = base(graph)
            for name in self.names:
                options = {"length": self.walk_length} if name == "walks" else {}
                of_nodes, of_pairs = FEATURES[name](graph, **options)
                nodes, pairs = nodes + of_nodes, pairs + of_pairs
            return torch.stack(nodes, dim=1), torch.stack(pairs, dim=1).flatten(2)

    def reveal(self, relations: Tensor, real: Tensor | None = None) -> RevealedGraph:
        """The graph that edge ids show; arguments of ``forward``."""
        vocab, n = self.vocab_config, relations.shape[1]
        real = relations.new_ones(relations.shape[:2]).bool() if real is None else real
        pairs = real.unsqueeze(1) & real.unsqueeze(2)
        pairs = pairs & ~torch.eye(n, dtype=torch.bool, device=relations.device)
        edges = [(relations < vocab.no_edge) & pairs]
        if self.by_type:
            edges += [(relations == kind) & pairs for kind in range(vocab.no_edge)]
        masked = (relations == vocab.edge_mask_id) & pairs
        return RevealedGraph(torch.stack(edges, dim=1).float(), masked.float(), real.float())


class NoGraphFeatures(nn.Module):
    """The place of ``GraphFeatures`` in a network without them."""

    widths = (0, 0)

    def forward(
        self, h: Tensor, z: Tensor, relations: Tensor, real: Tensor | None = None
    ) -> tuple[Tensor, Tensor, None]:
        """h and z as they are."""
        return h, z, None


def graph_features(
    names: Sequence[str], vocab_config: VocabConfig, *, d_node: int, d_pair: int, walk_length: int
) -> GraphFeatures | NoGraphFeatures:
    """``GraphFeatures`` of these arguments, or what stands for none at all."""
    if isinstance(names, str):
        raise ValueError(f"model.features={names}: expected a list, model.features=[{names}]")
    if not names:
        return NoGraphFeatures()
    return GraphFeatures(names, vocab_config, d_node=d_node, d_pair=d_pair, walk_length=walk_length)
