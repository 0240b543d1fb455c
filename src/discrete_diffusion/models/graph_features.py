"""Features of the graph that the tokens of a sample reveal, for denoisers of graphs.

Each feature is a function of a ``RevealedGraph`` that returns numbers for its nodes and its pairs.
All features are equivariant under relabelling of the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from discrete_diffusion.config.values import check_name
from discrete_diffusion.layout.vocab_config import VocabConfig
from discrete_diffusion.models.transformer import zero_linear, zeroed


def closure(adjacency: Tensor) -> Tensor:
    """Reachability: Float[..., N, N] of 0 and 1 -> 1 where i = j or a path leads from i to j.

    The matrix is squared log2 N times. Numbers of paths are cut to 1 every third time, before they
    could be too large.
    """
    n = adjacency.shape[-1]
    reached = (adjacency + torch.eye(n, device=adjacency.device)).clamp(max=1)
    for k in range(max(n - 1, 1).bit_length()):
        reached = reached @ reached
        if k % 3 == 2:
            reached = reached.clamp(max=1)
    return reached.clamp(max=1)


@dataclass(frozen=True)
class RevealedGraph:
    """Revealed part of a batch of graphs: symmetric matrices of 0 and 1 without a diagonal.

    ``edges``: Float[B, G, N, N], revealed edges of all types together, then of each type alone if
    there are several undirected types. ``open``: Float[B, N, N], pairs that are still masked.
    ``real``: Float[B, N], 0 at nodes that are PAD.
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
        """Float[B, 1, 1]: number of real nodes of each graph, at least 1."""
        return self.real.sum(dim=1)[:, None, None].clamp(min=1)

    @cached_property
    def density(self) -> Tensor:
        """Float[B, 1, 1]: estimated probability that an open pair is an edge.

        Share of edges among revealed pairs after adding n pairs, one of them an edge, as a prior.
        """
        # each edge stands in two places of the matrix
        n, edges = self.sizes, self.all.sum(dim=(1, 2))[:, None, None] / 2
        revealed = n * (n - 1) / 2 - self.open.sum(dim=(1, 2))[:, None, None] / 2
        return (edges + 1) / (revealed + n)


Features = tuple[list[Tensor], list[Tensor]]
"""Lists of features of nodes, each Float[B, N], and of pairs, each Float[B, N, N]."""

_CLIP = 1e-5
"""Least distance of a probability from 0 and 1 before its logit is taken."""


def degrees(graph: RevealedGraph) -> Features:
    """Features of nodes: the degree in every graph, and the number of open pairs."""
    return [*(graph.edges.sum(dim=-1) / 4).unbind(1), graph.open.sum(dim=-1).log1p() / 4], []


def reach(graph: RevealedGraph) -> Features:
    """Connections by revealed edges, and the number of open pairs that could connect more.

    C = closure of the edges A,   S = C M C,   out_i = open pairs that leave i's component
    pairs: C_ij, log(1 / out_i + 1 / out_j), log(1 + S_ij), sizes of both components,
           [out_i = 1 or out_j = 1]
    """
    connected, n = graph.components, graph.sizes
    # open pairs from i's component to j's, and those that leave i's component
    between = connected @ graph.open @ connected
    inside = between.diagonal(dim1=1, dim2=2)
    leaving = connected @ graph.open.sum(dim=-1, keepdim=True)
    out = (leaving.squeeze(-1) - inside).round()  # (B, N)
    share = connected.sum(dim=-1) / n.squeeze(-1)
    # a component with a single way out needs it
    scarcity = 1 / out.clamp(min=1)
    last = (out == 1).to(out.dtype)
    pairs = [
        connected,
        (scarcity.unsqueeze(2) + scarcity.unsqueeze(1)).log(),
        between.log1p() / 4,
        (out.log1p().unsqueeze(2) + out.log1p().unsqueeze(1)) / 8,
        (share.unsqueeze(2) + share.unsqueeze(1)) / 2,
        torch.maximum(last.unsqueeze(2), last.unsqueeze(1)),
    ]
    return [out.log1p() / 4, share, last], pairs


def effective_resistance(graph: RevealedGraph) -> tuple[Tensor, Tensor]:
    """Effective resistance between nodes: open pairs are unit resistors, revealed edges are wires.

        R_ij = (e_i - e_j)^T L^+ (e_i - e_j),   L: Laplacian of the components joined by open pairs

    For a uniformly sampled spanning tree R_ij is the probability that an open pair is one of its
    edges (Kirchhoff): the exact posterior of uniform labelled trees. Revealed non-edges do not
    conduct.

    The inverse is that of L, with each component of A at its first node, plus 1/k for each pair
    among the k that open pairs connect; it differs from L^+ by a term that cancels in R. In float64
    where the device has it: counts below 2^24 are exact in float32, the inverse is not.

    Returns R Float[B, N, N], 0 where i and j are not connected, and Bool[B, N, N], True where they
    are.
    """
    # each component contracted to its first node, with its open pairs to the others
    open_, connected = graph.open, graph.components
    first = connected.argmax(dim=-1)  # (B, N): the first node of each one's component
    nodes = torch.eye(open_.shape[-1], dtype=open_.dtype, device=open_.device)
    member = nodes[first]  # (B, N, N): [i, first_i] = 1
    contracted = member.mT @ open_ @ member
    contracted = contracted - torch.diag_embed(contracted.diagonal(dim1=1, dim2=2))
    laplacian = torch.diag_embed(contracted.sum(dim=-1)) - contracted

    # 1/k for each pair of components that open pairs connect makes the Laplacian invertible
    stands = member.amax(dim=1)  # (B, N): 1 at the nodes that stand for a component
    within = closure((graph.all + open_).clamp(max=1))
    joined = within * stands.unsqueeze(1) * stands.unsqueeze(2)
    kind = torch.float32 if open_.device.type == "mps" else torch.float64
    ones = joined.to(kind) / joined.sum(dim=-1, keepdim=True).clamp(min=1)
    inverse = _inverse(laplacian + ones + torch.diag_embed(1 - stands))

    # resistance between components, then between their nodes
    potential = inverse.diagonal(dim1=1, dim2=2)
    resistance = potential.unsqueeze(2) + potential.unsqueeze(1) - 2 * inverse
    rows = first.unsqueeze(2).expand_as(resistance)
    resistance = resistance.gather(1, rows).gather(2, rows.mT)
    return resistance.clamp(min=0) * (within - connected), within.bool()


def _inverse(a: Tensor) -> Tensor:
    """Inverses of positive definite matrices, Float[B, N, N].

    ONNX has no Cholesky factor; an export uses Gauss-Jordan elimination, here without pivoting.
    """
    if not torch.compiler.is_exporting():
        return torch.cholesky_inverse(torch.linalg.cholesky(a))
    eye = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    both = torch.cat([a, eye.expand_as(a)], dim=-1)
    for k in range(a.shape[-1]):
        pivot = both[:, k : k + 1] / both[:, k : k + 1, k : k + 1]
        both = both - (both[:, :, k : k + 1] - eye[:, k : k + 1]) * pivot
    return both[..., a.shape[-1] :]


def resistance(graph: RevealedGraph) -> Features:
    """Features of pairs and nodes from ``effective_resistance`` R.

    Pairs: R / (1 + R), and logit R if the pair is open, else 0. Nodes: a quarter of the expected
    number of their open pairs in a random spanning tree, the sum of R over these pairs.
    """
    ohms = effective_resistance(graph)[0].to(graph.open.dtype)
    logit = torch.logit(ohms.clamp(_CLIP, 1 - _CLIP)) * graph.open
    return [(ohms * graph.open).sum(dim=-1) / 4], [ohms / (1 + ohms), logit]


def walks(graph: RevealedGraph, *, length: int) -> Features:
    """Random walks of 1 to K steps: end probabilities for pairs, return probabilities for nodes.

        pairs: (P^k)_ij and (P^k)_ji,  nodes: (P^k)_ii,   P = D^-1 A,   k = 1 ... K

    for every graph of revealed edges A, and for A + density M, which counts each open pair of M
    with its expected number of edges. Rows of degree 0 are 0.

    Source: relative random walk probabilities (RRWP; Ma et al., ICML 2023), as in DeFoG (2024).
    """
    # transition matrices of each graph, and of the expected one
    expected = graph.all + graph.density * graph.open
    weights = torch.cat([graph.edges, expected.unsqueeze(1)], dim=1)  # (B, G + 1, N, N)
    step = weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-6)
    nodes: list[Tensor] = []
    pairs: list[Tensor] = []
    # their powers, both ways for pairs, the diagonal for nodes
    power = step
    for k in range(length):
        power = power @ step if k else step
        pairs += [*power.unbind(1), *power.mT.unbind(1)]
        nodes += power.diagonal(dim1=-2, dim2=-1).unbind(1)
    return nodes, pairs


def cycles(graph: RevealedGraph) -> Features:
    """Cycles of 3, 4 and 5 edges through each node, and walks of 2 and 3 edges between nodes.

    An edge would close such a walk. For every graph of revealed edges:

        c3 = diag(A^3) / 2,   c4 = (diag(A^4) - d (d - 1) - A d) / 2,
        c5 = (diag(A^5) - 2 diag(A^3) d - 2 (A * A^2) d - A diag(A^3) + 5 diag(A^3)) / 2

    divided by 10 and at most 1; walks as log(1 + number).

    Source: DiGress (Vignac et al., ICLR 2023). Deviation: its c5 also counts walks around a
    triangle that step aside at one of the other two corners.
    """
    # powers of the adjacency matrices, and closed walks
    a = graph.edges  # (B, G, N, N)
    d = a.sum(dim=-1)
    a2 = a @ a
    a3 = a2 @ a
    closed3 = a3.diagonal(dim1=-2, dim2=-1)
    closed4 = (a2 * a2).sum(dim=-1)
    closed5 = (a2 * a3).sum(dim=-1)
    # closed walks without those that are not cycles
    c3 = closed3 / 2
    c4 = (closed4 - d * (d - 1) - (a @ d.unsqueeze(-1)).squeeze(-1)) / 2
    at_triangle = ((a * a2) @ d.unsqueeze(-1)).squeeze(-1)
    to_triangle = (a @ closed3.unsqueeze(-1)).squeeze(-1)
    c5 = (closed5 - 2 * closed3 * d - 2 * at_triangle - to_triangle + 5 * closed3) / 2
    counts = torch.cat([c3, c4, c5], dim=1).div(10).clamp(max=1)
    return [*counts.unbind(1)], [*(torch.cat([a2, a3], dim=1).log1p() / 2).unbind(1)]


FEATURES: dict[str, Callable[..., Features]] = {
    each.__name__: each for each in (reach, resistance, walks, cycles)
}
"""Features that ``model.features`` can name."""


Revealed = tuple[Tensor, Tensor] | None
"""Features of nodes Float[B, F, N] and of pairs Float[B, F', K]; or none."""


class AddedLinear(nn.Linear):
    """A linear map that starts at 0, Float[B, F, N] -> Float[B, N, D], in float32."""

    zero_initialised = True
    """A network with this layer can start from the weights of a network without."""

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            weight = self.weight.expand(x.shape[0], -1, -1)  # matmul would copy x first
            return torch.bmm(weight, x.to(weight.dtype)).mT


class Head(nn.Linear):
    """Logits from the last states and features of the revealed graph: two maps that start at 0.

    ``dim``: width of the states; ``num_ids``: number of logits; ``features``: number of features.
    """

    def __init__(self, dim: int, num_ids: int, features: int) -> None:
        super().__init__(dim, num_ids)
        zeroed(self)
        self.skip = AddedLinear(features, num_ids, bias=False)

    def forward(self, x: Tensor, features: Tensor | None = None) -> Tensor:
        """Float[B, N, dim], Float[B, features, N] -> Float[B, N, num_ids]."""
        logits = super().forward(x)
        return logits if features is None else logits + self.skip(features)


def build_head(dim: int, num_ids: int, features: int) -> nn.Linear:
    """Build a ``Head``; without ``features``, a linear layer that starts at 0."""
    return Head(dim, num_ids, features) if features else zero_linear(dim, num_ids)


class GraphFeatures(nn.Module):
    """Features of the graph that the tokens of a sample reveal, of its nodes and of its pairs.

        h <- h + W f_nodes,   z <- z + W' f_pairs              before the first block
        logits = head(h) + V f_nodes, head'(z) + V' f_pairs    after the last one

    where every W and V is 0 at the start. The features are functions of the tokens alone, and
    equivariant: relabelled tokens have relabelled features. Undirected edge types are counted one
    by one and together, directed types only together.

    ``names``: names of ``FEATURES``; degrees are always included. ``d_node``, ``d_pair``: widths of
    the two streams; ``walk_length``: longest walk K of ``walks``.

    Raises ``ValueError`` for a name that is not one of ``FEATURES``.
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
        self.to_nodes = AddedLinear(self.widths[0], d_node, bias=False)
        self.to_pairs = AddedLinear(self.widths[1], d_pair, bias=False)

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
        """Add the features to h Float[B, K, D], nodes, and z Float[B, K', P], pairs.

        ``relations``: Int[B, N, N], edge ids; the diagonal is not read. ``real``: Bool[B, N], False
        at nodes that are PAD; None: no node is PAD. ``nodes``: Int[K], indices of the nodes in h;
        ``pairs``: Int[K'], indices of the N N pairs in z, row by row; None: all.

        Returns h, z, and the features of their nodes and pairs, for the heads.
        """
        of_nodes, of_pairs = self.measure(relations, real)
        of_nodes = of_nodes[..., slice(None) if nodes is None else nodes]
        of_pairs = of_pairs[..., slice(None) if pairs is None else pairs]
        return h + self.to_nodes(of_nodes), z + self.to_pairs(of_pairs), (of_nodes, of_pairs)

    def measure(self, relations: Tensor, real: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Features Float[B, F, N] and Float[B, F', N N], in float32 and without gradients.

        Arguments as in ``forward``.
        """
        with torch.no_grad(), torch.autocast(relations.device.type, enabled=False):
            # degrees, then the chosen features
            graph = self.reveal(relations, real)
            nodes, pairs = degrees(graph)
            for name in self.names:
                options = {"length": self.walk_length} if name == "walks" else {}
                of_nodes, of_pairs = FEATURES[name](graph, **options)
                nodes, pairs = nodes + of_nodes, pairs + of_pairs
            return torch.stack(nodes, dim=1), torch.stack(pairs, dim=1).flatten(2)

    def reveal(self, relations: Tensor, real: Tensor | None = None) -> RevealedGraph:
        """Graph that edge ids reveal; arguments as in ``forward``."""
        vocab, n = self.vocab_config, relations.shape[1]
        # pairs of two different real nodes
        real = relations.new_ones(relations.shape[:2]).bool() if real is None else real
        pairs = real.unsqueeze(1) & real.unsqueeze(2)
        pairs = pairs & ~torch.eye(n, dtype=torch.bool, device=relations.device)
        # edges of all types, and of each if they have no direction
        edges = [(relations < vocab.no_edge) & pairs]
        if self.by_type:
            edges += [(relations == kind) & pairs for kind in range(vocab.no_edge)]
        masked = (relations == vocab.edge_mask_id) & pairs
        return RevealedGraph(torch.stack(edges, dim=1).float(), masked.float(), real.float())


def graph_features(
    names: Sequence[str], vocab_config: VocabConfig, *, d_node: int, d_pair: int, walk_length: int
) -> tuple[GraphFeatures | None, tuple[int, ...]]:
    """Build ``GraphFeatures`` and return it with its numbers of features; None without names."""
    if isinstance(names, str):
        raise ValueError(f"model.features={names}: expected a list, model.features=[{names}]")
    if not names:
        return None, (0, 0)
    built = GraphFeatures(
        names, vocab_config, d_node=d_node, d_pair=d_pair, walk_length=walk_length
    )
    return built, built.widths
