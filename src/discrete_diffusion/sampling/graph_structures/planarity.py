"""Planarity of small graphs, fast enough to be asked for every pair of a sample.

The left-right test (de Fraysseix and Rosenstiehl) as in U. Brandes, "The left-right planarity
test", without the embedding. ``networkx.check_planarity``, which it agrees with, takes five times
as long.
"""

from __future__ import annotations

from collections.abc import Sequence

_NONE = -1
"""In the place of an edge: there is none."""


def is_planar(num_nodes: int, edges: Sequence[tuple[int, int]]) -> bool:
    """Whether a graph can be drawn in the plane without crossings.

    ``edges``: pairs of different nodes below ``num_nodes``, each once.
    """
    if num_nodes > 2 and len(edges) > 3 * num_nodes - 6:
        return False
    return _LeftRight(num_nodes, edges).is_planar()


class _LeftRight:
    """The test of one graph. A directed edge v -> w is the number v n + w.

    ``low``, ``low2``: the two least heights that return edges from an edge or below it reach.
    ``stack``: of conflict pairs [left low, left high, right low, right high], two intervals of
    return edges that must lie on different sides; ``ref``: the next lower edge of an interval.
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
                self._orient(root)
                if not self._test(root):
                    return False
        return True

    def _into(self, v: int) -> int:
        """The edge of the search tree that leads to v."""
        return self.parent[v] * self.n + v if self.parent[v] >= 0 else _NONE

    def _orient(self, v: int) -> None:
        """Depth-first search: directs the edges, and finds how low each returns."""
        n, height, low, low2 = self.n, self.height, self.low, self.low2
        here, into = height[v], self._into(v)
        for w in self.near[v]:
            edge = v * n + w
            if edge in low or w * n + v in low:
                continue
            low[edge] = low2[edge] = here
            self.out[v].append(w)
            if height[w] < 0:
                self.parent[w], height[w] = v, here + 1
                self._orient(w)
            else:
                low[edge] = height[w]
            lowest, second = low[edge], low2[edge]
            self.nesting[edge] = 2 * lowest + (second < here)
            if lowest < low[into]:
                low2[into], low[into] = min(low[into], second), lowest
            elif lowest > low[into]:
                low2[into] = min(low2[into], lowest)
            else:
                low2[into] = min(low2[into], second)

    def _test(self, v: int) -> bool:
        """Put the return edges below v on two sides; False if that cannot be done."""
        n, here, into, out = self.n, self.height[v], self._into(v), self.out[v]
        out.sort(key=lambda w: self.nesting[v * n + w])
        for w in out:
            edge, bottom = v * n + w, len(self.stack)
            if self.parent[w] == v and self.height[w] == here + 1:
                if not self._test(w):
                    return False
            else:
                self.low_edge[edge] = edge
                self.stack.append([_NONE, _NONE, edge, edge])
            if self.low[edge] < here:  # it returns below v
                if w == out[0]:
                    self.low_edge[into] = self.low_edge[edge]
                elif not self._add(edge, into, bottom):
                    return False
        if into != _NONE:
            self._trim(self.parent[v])
        return True

    def _add(self, edge: int, into: int, bottom: int) -> bool:
        """Merge the constraints of ``edge`` with those of its earlier siblings."""
        low, ref, stack = self.low, self.ref, self.stack
        merged = [_NONE] * 4
        while len(stack) > bottom:  # return edges of this edge, all on the right
            pair = stack.pop()
            if pair[0] != _NONE:
                pair = pair[2:] + pair[:2]
            if pair[0] != _NONE:
                return False
            if low[pair[2]] > low[into]:
                if merged[2] == _NONE:
                    merged[3] = pair[3]
                else:
                    ref[merged[2]] = pair[3]
                merged[2] = pair[2]
            else:
                ref[pair[2]] = self.low_edge[into]
        while stack and (
            self._conflicts(stack[-1][1], edge) or self._conflicts(stack[-1][3], edge)
        ):
            pair = stack.pop()  # return edges of siblings that end above, all on the left
            if self._conflicts(pair[3], edge):
                pair = pair[2:] + pair[:2]
            if self._conflicts(pair[3], edge):
                return False
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

    def _conflicts(self, high: int, edge: int) -> bool:
        return high != _NONE and self.low[high] > self.low[edge]

    def _trim(self, u: int) -> None:
        """Forget the return edges that end at u, the parent."""
        stack, low = self.stack, self.low
        while stack:
            lows = [low[edge] for edge in (stack[-1][0], stack[-1][2]) if edge != _NONE]
            if min(lows) != self.height[u]:
                break
            stack.pop()
        if not stack:
            return
        pair = stack[-1]
        for side, other in ((0, 2), (2, 0)):
            while pair[side + 1] != _NONE and pair[side + 1] % self.n == u:
                pair[side + 1] = self.ref.get(pair[side + 1], _NONE)
            if pair[side + 1] == _NONE and pair[side] != _NONE:
                self.ref[pair[side]] = pair[other]
                pair[side] = _NONE
