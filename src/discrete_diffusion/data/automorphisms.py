"""Exact canonical labelling of one graph whose nodes colour refinement cannot distinguish.

Individualisation and refinement (McKay and Piperno, arXiv 1301.1493) in its plainest form: pick the
first colour that several nodes share, give each of them in turn a colour of its own, refine, go on
until all colours differ, and keep the leaf with the smallest tokens. Two leaves with the same
tokens are an automorphism; the automorphisms found so far spare the branches that they map to
branches already searched.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class CanonicalLabelling:
    """``order``: Int[n], new node k is old node ``order[k]``; ``num_automorphisms``: |Aut|."""

    order: Ints
    num_automorphisms: int


def label_canonically(colours: Ints, pairs: Ints) -> CanonicalLabelling:
    """The canonical order of one graph within its node colours, and the size of its group.

    ``colours``: Int[n] ranks that do not depend on how nodes are numbered; the order respects them.
    ``pairs``: Int[n, n] edge type of every ordered pair, the inverse type below the diagonal.
    Automorphisms keep colours and edge types.
    """
    search = _Search(pairs)
    leaf, num_automorphisms = search.smallest_leaf(search.refine(colours))
    return CanonicalLabelling(leaf.order, num_automorphisms)


@dataclass(frozen=True)
class _Leaf:
    order: Ints
    tokens: bytes


class _Search:
    """The search tree over one graph; ``automorphisms`` collects what has been found anywhere."""

    def __init__(self, pairs: Ints) -> None:
        self.pairs = pairs.astype(np.int64)
        self.upper = np.triu_indices(len(pairs), k=1)
        self.automorphisms: list[Ints] = []

    def refine(self, colours: Ints) -> Ints:
        """The coarsest stable refinement, as dense ranks; exact, by sorting neighbour lists."""
        n = len(colours)
        num_colours = 0
        while True:
            neighbours = np.sort(self.pairs * n + colours, axis=-1)
            signatures = np.column_stack([colours, neighbours])
            distinct, colours = np.unique(signatures, axis=0, return_inverse=True)
            colours = colours.reshape(-1)
            if len(distinct) in (n, num_colours):
                return colours
            num_colours = len(distinct)

    def individualise(self, colours: Ints, node: int) -> Ints:
        """Refined colours after ``node`` got one of its own, just below that of its class."""
        split = 2 * colours + 1
        split[node] -= 1
        return self.refine(np.unique(split, return_inverse=True)[1].reshape(-1))

    def target(self, colours: Ints) -> list[int]:
        """The nodes of the first colour that several nodes share; empty if there is none."""
        shared = np.flatnonzero(np.bincount(colours) > 1)
        return np.flatnonzero(colours == shared[0]).tolist() if shared.size else []

    def leaf(self, colours: Ints) -> _Leaf:
        order = np.argsort(colours)
        tokens = self.pairs[order[:, None], order][self.upper]
        return _Leaf(order, tokens.astype(">u4").tobytes())  # bytes that sort like the integers

    def first_leaf(self, colours: Ints) -> _Leaf:
        while target := self.target(colours):
            colours = self.individualise(colours, target[0])
        return self.leaf(colours)

    def smallest_leaf(self, colours: Ints) -> tuple[_Leaf, int]:
        """The leaf with the smallest tokens under refined ``colours``, and |Aut| of that colouring.

        |Aut| = |orbit of the first branch's node| times |Aut| of the first branch.
        """
        target = self.target(colours)
        if not target:
            return self.leaf(colours), 1
        leaves: dict[bytes, _Leaf] = {}
        explored: list[int] = []
        best: _Leaf | None = None
        stabiliser = 1
        for node in target:
            orbits = self.orbits(colours)
            if any(orbits[node] == orbits[other] for other in explored):
                continue
            branch = self.individualise(colours, node)
            first = self.first_leaf(branch)
            if explored and self.found_automorphism(leaves, first):
                continue
            leaf, num_automorphisms = self.smallest_leaf(branch)
            if not explored:
                stabiliser = num_automorphisms
            self.found_automorphism(leaves, leaf)
            leaves[first.tokens], leaves[leaf.tokens] = first, leaf
            explored.append(node)
            if best is None or leaf.tokens < best.tokens:
                best = leaf
        assert best is not None  # the first node of the target is always explored
        orbits = self.orbits(colours)
        return best, int((orbits == orbits[target[0]]).sum()) * stabiliser

    def found_automorphism(self, leaves: dict[bytes, _Leaf], leaf: _Leaf) -> bool:
        """Record the automorphism that takes an earlier leaf with the same tokens to this one."""
        earlier = leaves.get(leaf.tokens)
        if earlier is None:
            return False
        automorphism = np.empty_like(leaf.order)
        automorphism[earlier.order] = leaf.order
        self.automorphisms.append(automorphism)
        return True

    def orbits(self, colours: Ints) -> Ints:
        """Int[n]: one label per orbit under the automorphisms found that keep ``colours``: the
        smallest node of each."""
        kept = [a for a in self.automorphisms if (colours[a] == colours).all()]
        label = np.arange(len(colours))
        while True:
            before = label
            for automorphism in kept:
                label = np.minimum(label, label[automorphism])
            if (label == before).all():
                return label
