"""Constraints on sampled graphs: trees, forests, connected and planar graphs, edge by edge.

A value of a pair is excluded only if no completion of the graph with it has the property, so the
weighted samples follow the model given the property. Types of edges do not matter.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from discrete_diffusion.layout.vocab_config import VocabConfig
from discrete_diffusion.sampling.partial_samples import Narrowing

_NONE = -1
"""Stands for no edge."""


def is_planar(num_nodes: int, edges: Sequence[tuple[int, int]]) -> bool:
    """Return True if a graph can be drawn in the plane without crossings.

    The left-right test (de Fraysseix and Rosenstiehl) as in U. Brandes, "The left-right planarity
    test", without the embedding. ``networkx.check_planarity`` gives the same answer and takes five
    times as long, which matters since the test runs for every pair of a sample.

    ``edges``: pairs of different nodes below ``num_nodes``, each pair once.
    """
    # Euler's formula
    if num_nodes > 2 and len(edges) > 3 * num_nodes - 6:
        return False
    return _LeftRight(num_nodes, edges).is_planar()


class _LeftRight:
    """Left-right planarity test of one graph. A directed edge v -> w is the number v n + w.

    ``low``, ``low2``: the two lowest heights that back edges reach from an edge or its descendants.
    ``stack``: conflict pairs [left low, left high, right low, right high], two intervals of back
    edges that must lie on different sides; ``ref``: by back edge, the next lower edge of its
    interval.
    """

    def __init__(self, num_nodes: int, edges: Sequence[tuple[int, int]]) -> None:
        self.n = num_nodes
        self.near: list[list[int]] = [[] for _ in range(num_nodes)]
        for u, v in edges:
            self.near[u].append(v)
            self.near[v].append(u)
        self.height, self.parent = [-1] * num_nodes, [-1] * num_nodes
        self.out: list[list[int]] = [[] for _ in range(num_nodes)]
        self.low: dict[int, int] = {_NONE: -1}
        self.low2: dict[int, int] = {_NONE: -1}
        self.nesting: dict[int, int] = {}
        self.stack: list[list[int]] = []
        self.ref: dict[int, int] = {}
        self.low_edge: dict[int, int] = {}

    def is_planar(self) -> bool:
        for root in range(self.n):
            if self.near[root] and self.height[root] < 0:
                self.height[root] = 0
                self.orient(root)
                if not self.split_returns(root):
                    return False
        return True

    def parent_edge(self, v: int) -> int:
        """Edge of the search tree that leads to v."""
        return self.parent[v] * self.n + v if self.parent[v] >= 0 else _NONE

    def orient(self, v: int) -> None:
        """Direct the edges by depth-first search from v, and compute ``low`` and ``low2``."""
        n, height, low, low2 = self.n, self.height, self.low, self.low2
        here, into = height[v], self.parent_edge(v)
        for w in self.near[v]:
            edge = v * n + w
            if edge in low or w * n + v in low:
                continue
            low[edge] = low2[edge] = here
            self.out[v].append(w)
            # a tree edge, or a return edge
            if height[w] < 0:
                self.parent[w], height[w] = v, here + 1
                self.orient(w)
            else:
                low[edge] = height[w]
            # order of the edges at v, and low points of the edge above
            lowest, second = low[edge], low2[edge]
            self.nesting[edge] = 2 * lowest + (second < here)
            if lowest < low[into]:
                low2[into], low[into] = min(low[into], second), lowest
            elif lowest > low[into]:
                low2[into] = min(low2[into], lowest)
            else:
                low2[into] = min(low2[into], second)

    def split_returns(self, v: int) -> bool:
        """Assign the back edges below v to two sides; False if that is impossible."""
        n, here, into, out = self.n, self.height[v], self.parent_edge(v), self.out[v]
        # children by nesting order
        out.sort(key=lambda w: self.nesting[v * n + w])
        for w in out:
            edge, bottom = v * n + w, len(self.stack)
            # a tree edge, or a return edge, which starts a conflict pair
            if self.parent[w] == v and self.height[w] == here + 1:
                if not self.split_returns(w):
                    return False
            else:
                self.low_edge[edge] = edge
                self.stack.append([_NONE, _NONE, edge, edge])
            # merge the constraints of what returns below v
            if self.low[edge] < here:
                if w == out[0]:
                    self.low_edge[into] = self.low_edge[edge]
                elif not self.merge_siblings(edge, into, bottom):
                    return False
        if into != _NONE:
            self.forget_returns_to(self.parent[v])
        return True

    def merge_siblings(self, edge: int, into: int, bottom: int) -> bool:
        """Merge the constraints of ``edge`` with those of earlier siblings; False on conflict."""
        low, ref, stack = self.low, self.ref, self.stack
        merged = [_NONE] * 4
        # return edges of this edge go to the right
        while len(stack) > bottom:
            pair = stack.pop()
            if pair[0] != _NONE:
                pair = pair[2:] + pair[:2]
            if pair[0] != _NONE:
                return False
            # an interval that ends below stays, one that ends at the parent edge is aligned
            if low[pair[2]] > low[into]:
                if merged[2] == _NONE:
                    merged[3] = pair[3]
                else:
                    ref[merged[2]] = pair[3]
                merged[2] = pair[2]
            else:
                ref[pair[2]] = self.low_edge[into]
        # return edges of siblings that conflict with it go to the left
        while stack and (self.conflicts(stack[-1][1], edge) or self.conflicts(stack[-1][3], edge)):
            pair = stack.pop()
            if self.conflicts(pair[3], edge):
                pair = pair[2:] + pair[:2]
            if self.conflicts(pair[3], edge):
                return False
            # join the intervals of both sides
            if merged[2] != _NONE:
                ref[merged[2]] = pair[3]
            if pair[2] != _NONE:
                merged[2] = pair[2]
            if merged[0] == _NONE:
                merged[1] = pair[1]
            else:
                ref[merged[0]] = pair[1]
            merged[0] = pair[0]
        if merged != [_NONE] * 4:
            stack.append(merged)
        return True

    def conflicts(self, high: int, edge: int) -> bool:
        return high != _NONE and self.low[high] > self.low[edge]

    def forget_returns_to(self, u: int) -> None:
        """Remove the back edges that end at u, the parent, from the constraints."""
        stack, low = self.stack, self.low
        # pairs of which all edges end there
        while stack:
            lows = [low[edge] for edge in (stack[-1][0], stack[-1][2]) if edge != _NONE]
            if min(lows) != self.height[u]:
                break
            stack.pop()
        if not stack:
            return
        # intervals of the next pair of which some do
        pair = stack[-1]
        for side, other in ((0, 2), (2, 0)):
            while pair[side + 1] != _NONE and pair[side + 1] % self.n == u:
                pair[side + 1] = self.ref.get(pair[side + 1], _NONE)
            if pair[side + 1] == _NONE and pair[side] != _NONE:
                self.ref[pair[side]] = pair[other]
                pair[side] = _NONE


_LEAST_EDGES = 9
"""Fewest edges of a graph that is not planar."""


class GraphNarrowing(Narrowing):
    """Constraint on the edges of graphs, given the pairs sampled so far; nodes stay free.

    A subclass defines which pairs may have an edge, which may have none, or both.
    """

    shuffles = True
    narrows_order = False

    def __init__(self, vocab: VocabConfig) -> None:
        self.vocab = vocab
        self.ends = torch.tensor(vocab.endpoints, dtype=torch.long).reshape(-1, 2)
        self.slots = vocab.edge_positions

    def allows_edge(self, x: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Return True where the pair (i, j), Int[R] each, of x Int[R, L] may have an edge."""
        return torch.ones(len(x), dtype=torch.bool)

    def allows_none(self, x: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Return True where the pair may have no edge, Bool[R]."""
        return torch.ones(len(x), dtype=torch.bool)

    def support(self, x: Tensor, position: Tensor) -> Tensor:
        vocab, device = self.vocab, x.device
        x, position = x.cpu(), position.cpu()
        # only pairs are narrowed
        allowed = torch.ones(len(x), vocab.vocab_size, dtype=torch.bool)
        rows = (position >= vocab.n_max).nonzero().squeeze(1)
        if len(rows):
            i, j = self.ends[position[rows] - vocab.n_max].unbind(dim=1)
            edge, none = self.allows_edge(x[rows], i, j), self.allows_none(x[rows], i, j)
            first = vocab.edge_offset
            allowed[rows, first : first + vocab.no_edge] = edge.unsqueeze(1)
            allowed[rows, first + vocab.no_edge] = none
        return allowed.to(device)

    def contradictions(self, x: Tensor) -> dict[int, str]:
        x = x.cpu()
        rows = (~self.is_possible(x)).nonzero().squeeze(1).tolist()
        return {row: self.contradiction(x[row]) for row in rows}

    def is_possible(self, x: Tensor) -> Tensor:
        """Return True where a graph with the tokens x Int[R, L] may have the property, Bool[R]."""
        return torch.ones(len(x), dtype=torch.bool)

    def contradiction(self, x: Tensor) -> str:
        """Reason why no graph with the tokens x Int[L] has the property, if none has."""
        return "no graph with its edges is possible"

    def is_edge(self, tokens: Tensor) -> Tensor:
        """Return True where tokens are edges."""
        first = self.vocab.edge_offset
        return (tokens >= first) & (tokens < first + self.vocab.no_edge)

    def may_be_edge(self, tokens: Tensor) -> Tensor:
        """Return True where tokens are edges, or MASK."""
        return self.is_edge(tokens) | (tokens == self.vocab.mask_id)

    def pairs(self, x: Tensor) -> Tensor:
        """Tokens of all pairs, Int[..., E]."""
        return x[..., self.vocab.n_max :]

    def edges(self, x: Tensor) -> list[tuple[int, int]]:
        """Edges of one graph x Int[L]."""
        return [(i, j) for i, j in self.ends[self.is_edge(self.pairs(x))].tolist()]

    def pieces(self, linked: Tensor) -> Tensor:
        """Connected component of each node, Int[R, n_max], if the pairs ``linked`` are edges."""
        # one sparse graph of all rows
        n = self.vocab.n_max
        row, pair = linked.nonzero(as_tuple=True)
        u, v = ((row * n + end).numpy() for end in self.ends[pair].unbind(dim=1))
        size = len(linked) * n
        graph = coo_array((torch.ones(len(row)).numpy(), (u, v)), shape=(size, size))
        return torch.from_numpy(connected_components(graph, directed=False)[1]).view(-1, n)

    def are_joined(self, linked: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Return True where nodes i and j, Int[R], are connected by the pairs ``linked``."""
        pieces = self.pieces(linked)
        return pieces.gather(1, i.unsqueeze(1)).eq(pieces.gather(1, j.unsqueeze(1))).squeeze(1)


class Forest(GraphNarrowing):
    """Graphs without cycles: an edge is excluded if other edges already join its ends."""

    def allows_edge(self, x: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return ~self.are_joined(self.is_edge(self.pairs(x)), i, j)

    def is_possible(self, x: Tensor) -> Tensor:
        linked = self.is_edge(self.pairs(x))
        # edges of a forest with as many pieces
        pieces = self.pieces(linked).sort(dim=1).values
        return linked.sum(dim=1) == pieces.diff(dim=1).eq(0).sum(dim=1)

    def contradiction(self, x: Tensor) -> str:
        import networkx

        graph = networkx.Graph(self.edges(x))
        circle = [tuple(sorted(edge)) for edge in networkx.find_cycle(graph)]
        return f"the edges {', '.join(str([*edge]) for edge in circle)} close a circle"


class Connected(GraphNarrowing):
    """Connected graphs: a pair must be an edge if no other edges and MASKs can join all nodes."""

    def allows_none(self, x: Tensor, i: Tensor, j: Tensor) -> Tensor:
        # most pairs can be joined by a third node
        near = self._may_be_near(x, i) & self._may_be_near(x, j)
        allowed = near.any(dim=1)
        # the others by what remains without the pair
        rows = (~allowed).nonzero().squeeze(1)
        if len(rows):
            linked = self.may_be_edge(self.pairs(x[rows]))
            i, j = i[rows], j[rows]
            linked[torch.arange(len(rows)), self.slots[i, j] - self.vocab.n_max] = False
            allowed[rows] = self.are_joined(linked, i, j)
        return allowed

    def _may_be_near(self, x: Tensor, node: Tensor) -> Tensor:
        """Return True for other nodes that may be neighbours of ``node`` Int[R], Bool[R, n_max]."""
        near = self.may_be_edge(x.gather(1, self.slots[node]))
        return near.scatter(1, node.unsqueeze(1), False)

    def is_possible(self, x: Tensor) -> Tensor:
        return ~self._apart(x).any(dim=1)

    def _apart(self, x: Tensor) -> Tensor:
        """Return True for nodes that no path of edges and MASKs joins to node 0, Bool[R, n_max]."""
        pieces = self.pieces(self.may_be_edge(self.pairs(x)))
        return (x[:, : self.vocab.n_max] != self.vocab.pad_id) & (pieces != pieces[:, :1])

    def contradiction(self, x: Tensor) -> str:
        node = int(self._apart(x.unsqueeze(0))[0].nonzero()[0])
        return f"nothing that is left open can join node {node} to node 0"


class Tree(Forest, Connected):
    """Trees: connected graphs without cycles.

    The rules of ``Forest`` and ``Connected`` never exclude all values of a pair: if edges already
    join its ends, the graph stays connected without it.
    """

    def is_possible(self, x: Tensor) -> Tensor:
        return Forest.is_possible(self, x) & Connected.is_possible(self, x)

    def contradiction(self, x: Tensor) -> str:
        rule = Connected if bool(Forest.is_possible(self, x.unsqueeze(0))) else Forest
        return rule.contradiction(self, x)


class Planar(GraphNarrowing):
    """Planar graphs: an edge is excluded if the graph with it has no drawing without crossings.

    The test is skipped if the answer is known: ends in different components, few edges, or more
    than 3 n - 6.
    """

    def allows_edge(self, x: Tensor, i: Tensor, j: Tensor) -> Tensor:
        # by the number of edges
        linked = self.is_edge(self.pairs(x))
        num_edges = 1 + linked.sum(dim=1)
        num_nodes = (x[:, : self.vocab.n_max] != self.vocab.pad_id).sum(dim=1)
        few = num_edges < _LEAST_EDGES
        allowed = few | (num_edges <= 3 * num_nodes - 6)
        # by the test, unless the ends are in different pieces
        unsure = (allowed & ~few).nonzero().squeeze(1)
        if len(unsure):
            unsure = unsure[self.are_joined(linked[unsure], i[unsure], j[unsure])]
        for row in unsure.tolist():
            edges = [*self.edges(x[row]), (int(i[row]), int(j[row]))]
            allowed[row] = is_planar(self.vocab.n_max, edges)
        return allowed

    def is_possible(self, x: Tensor) -> Tensor:
        possible = self.is_edge(self.pairs(x)).sum(dim=1) < _LEAST_EDGES
        for row in (~possible).nonzero().squeeze(1).tolist():
            possible[row] = is_planar(self.vocab.n_max, self.edges(x[row]))
        return possible

    def contradiction(self, x: Tensor) -> str:
        return "its edges cannot be drawn in the plane without crossings"
