"""Canonical order of the nodes of a graph, and the number of its distinct orders.

Nodes of a graph have no order. ``canonical_orders`` sorts them by type, then by the directions
of their own edges, if edges have any, then by colour refinement, then by exact branching, so that
graphs equal up to relabelling get identical tokens. Every step but the last is vectorised.

The branching is individualisation and refinement (McKay and Piperno, arXiv 1301.1493) in its
plainest form: pick the first colour that several nodes share, give each of them in turn a new
colour, refine, repeat until all colours differ, and keep the leaf with the smallest tokens. Two
leaves with the same tokens are an automorphism; branches that known automorphisms map to searched
ones are skipped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discrete_diffusion.layout.vocab_config import RPLAN_VOCAB_CONFIG, VocabConfig

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class CanonicalLabelling:
    """``order``: Int[n], new node k is old node ``order[k]``; ``num_automorphisms``: |Aut|."""

    order: Ints
    num_automorphisms: int


def label_canonically(colours: Ints, pairs: Ints) -> CanonicalLabelling:
    """Compute the canonical order of one graph within its node colours, and |Aut|.

    ``colours``: Int[n] ranks independent of the numbering of nodes; the order respects them.
    ``pairs``: Int[n, n] edge type of every ordered pair, the inverse type below the diagonal.
    Automorphisms keep colours and edge types.
    """
    search = _Search(pairs)
    leaf, num_automorphisms = search.smallest_leaf(search.refine(colours))
    return CanonicalLabelling(leaf.order, num_automorphisms)


class _Leaf(NamedTuple):
    order: Ints
    tokens: bytes


class _Search:
    """Search tree over one graph; ``automorphisms``: automorphisms found so far."""

    def __init__(self, pairs: Ints) -> None:
        self.pairs = pairs.astype(np.int64)
        self.upper = np.triu_indices(len(pairs), k=1)
        self.automorphisms: list[Ints] = []

    def refine(self, colours: Ints) -> Ints:
        """Compute the coarsest stable refinement as dense ranks, by sorting neighbour lists."""
        n = len(colours)
        num_colours = 0
        while True:
            # colour and sorted neighbours of each node
            neighbours = np.sort(self.pairs * n + colours, axis=-1)
            signatures = np.column_stack([colours, neighbours])
            distinct, colours = np.unique(signatures, axis=0, return_inverse=True)
            colours = colours.reshape(-1)
            if len(distinct) in (n, num_colours):
                return colours
            num_colours = len(distinct)

    def individualise(self, colours: Ints, node: int) -> Ints:
        """Give ``node`` a new colour just below that of its class, and refine."""
        # a colour below the others of its class
        split = 2 * colours + 1
        split[node] -= 1
        return self.refine(np.unique(split, return_inverse=True)[1].reshape(-1))

    def target(self, colours: Ints) -> list[int]:
        """Nodes of the first colour that several nodes share; [] if all colours differ."""
        shared = np.flatnonzero(np.bincount(colours) > 1)
        return np.flatnonzero(colours == shared[0]).tolist() if shared.size else []

    def leaf(self, colours: Ints) -> _Leaf:
        order = np.argsort(colours)
        tokens = self.pairs[order[:, None], order][self.upper]
        # bytes that sort like the integers
        return _Leaf(order, tokens.astype(">u4").tobytes())

    def smallest_leaf(self, colours: Ints) -> tuple[_Leaf, int]:
        """Find the leaf with the smallest tokens below refined ``colours``, and |Aut| given them.

        |Aut| is |orbit of the first branch's node| times |Aut| of the first branch."""
        target = self.target(colours)
        if not target:
            return self.leaf(colours), 1
        leaves: dict[bytes, _Leaf] = {}
        explored: list[int] = []
        best: _Leaf | None = None
        stabiliser = 1
        for node in target:
            # skip a node that an automorphism maps to an explored one
            orbits = self.orbits(colours)
            if any(orbits[node] == orbits[other] for other in explored):
                continue
            branch = self.individualise(colours, node)
            finer = branch
            while tied := self.target(finer):
                finer = self.individualise(finer, tied[0])
            first = self.leaf(finer)
            if explored and self.found_automorphism(leaves, first):
                continue
            # search the branch, and compare its leaf with the best
            leaf, num_automorphisms = self.smallest_leaf(branch)
            if not explored:
                stabiliser = num_automorphisms
            self.found_automorphism(leaves, leaf)
            leaves[first.tokens], leaves[leaf.tokens] = first, leaf
            explored.append(node)
            if best is None or leaf.tokens < best.tokens:
                best = leaf
        # the first node of the target is always explored
        assert best is not None
        orbits = self.orbits(colours)
        return best, int((orbits == orbits[target[0]]).sum()) * stabiliser

    def found_automorphism(self, leaves: dict[bytes, _Leaf], leaf: _Leaf) -> bool:
        """Record the automorphism from an earlier leaf with the same tokens to this one."""
        earlier = leaves.get(leaf.tokens)
        if earlier is None:
            return False
        automorphism = np.empty_like(leaf.order)
        automorphism[earlier.order] = leaf.order
        self.automorphisms.append(automorphism)
        return True

    def orbits(self, colours: Ints) -> Ints:
        """Smallest node in the orbit of each node, Int[n].

        Orbits are under the found automorphisms that keep ``colours``."""
        # spread the smallest label along the automorphisms
        kept = [a for a in self.automorphisms if (colours[a] == colours).all()]
        label = np.arange(len(colours))
        while True:
            before = label
            for automorphism in kept:
                label = np.minimum(label, label[automorphism])
            if (label == before).all():
                return label


Hashes = NDArray[np.uint64]

_CHUNK = 1 << 24
"""Entries of the largest temporary array when nodes are compared (bytes)."""


@dataclass(frozen=True)
class CanonicalOrders:
    """Result of ``canonical_orders``.

    ``orders``: Int64[B, n_max], new node k is old node ``orders[b, k]``; identity from slot n on.
    ``log_num_orders``: Float64[B], ``log(n!/|Aut G|)``, of the number of token sequences of G.
    """

    orders: Tensor
    log_num_orders: Tensor


def canonical_orders(
    x0: Tensor, num_nodes: Tensor, vocab: VocabConfig = RPLAN_VOCAB_CONFIG
) -> CanonicalOrders:
    """Compute the canonical order of the nodes of every graph, and ``log(n!/|Aut G|)``.

    The key of a node is (type, scores, refined colour), with a score for each axis of
    ``vocab.edge_directions``, the sum of the signs of the node's edges. Tied nodes are ordered by
    the lexicographically smallest tokens among the leaves of a search over refinements. Aut G holds
    the permutations that keep the types of nodes and edges (swapping an edge's ends maps r to its
    inverse). Refinement hashes into 64 bits; a collision leaves a tie and costs only time.

    ``x0``: Int[B, L] clean tokens of the concatenated vocabulary; ``num_nodes``: Int[B]. Results
    are on the CPU. Raises ``ValueError`` naming sample and position of a token that is not clean.
    """
    # graphs of one size at a time
    x0, num_nodes = x0.cpu(), num_nodes.cpu()
    vocab.layout().check(x0, vocab.real_positions(num_nodes))
    tokens, counts = x0.numpy(), num_nodes.numpy()
    orders = np.tile(np.arange(vocab.n_max), (len(tokens), 1))
    log_num_orders = np.zeros(len(tokens))
    for n in np.unique(counts).tolist():
        rows = np.flatnonzero(counts == n)
        graphs = tokens[rows]
        found, log_num_automorphisms = _orders_of_size(
            graphs[:, :n].astype(np.int64), _pair_matrix(graphs, n, vocab), vocab
        )
        orders[rows, :n] = found
        log_num_orders[rows] = math.log(math.factorial(n)) - log_num_automorphisms
    return CanonicalOrders(torch.from_numpy(orders), torch.from_numpy(log_num_orders))


def canonical_order(
    types: Ints, pairs: Ints, vocab: VocabConfig = RPLAN_VOCAB_CONFIG
) -> tuple[int, ...]:
    """Canonical order of one graph with ``types`` (n,) and a full matrix ``pairs`` (n, n)."""
    orders, _ = _orders_of_size(types[None], pairs[None], vocab)
    return tuple(orders[0].tolist())


def _pair_matrix(tokens: Ints, n: int, vocab: VocabConfig) -> Ints:
    """Edge types (G, n, n) of tokens (G, L): inverse below the diagonal, "no edge" on it."""
    # positions of the upper triangle in the tokens
    upper_i, upper_j = np.triu_indices(n, k=1)
    n_max = vocab.n_max
    position = n_max + upper_i * n_max - upper_i * (upper_i + 1) // 2 + (upper_j - upper_i - 1)
    upper = tokens[:, position] - vocab.edge_offset
    pairs = np.full((len(tokens), n, n), vocab.no_edge)
    pairs[:, upper_i, upper_j] = upper
    pairs[:, upper_j, upper_i] = np.array(vocab.edge_inverse)[upper]
    return pairs


def _orders_of_size(
    types: Ints, pairs: Ints, vocab: VocabConfig
) -> tuple[Ints, NDArray[np.float64]]:
    """Canonical orders (G, n) and log |Aut| (G,) of graphs with n nodes each."""
    # sort by type, scores and colour
    num_graphs, n = types.shape
    keys = [types, *(np.array(signs)[pairs].sum(-1) for signs in vocab.edge_directions)]
    colours = _refine_colours(keys, pairs)
    orders = np.lexsort((colours, *reversed(keys)), axis=-1)

    # graphs with tied nodes
    log_num_automorphisms = np.zeros(num_graphs)
    sorted_colours = np.take_along_axis(colours, orders, axis=-1)
    tied = np.flatnonzero((sorted_colours[:, 1:] == sorted_colours[:, :-1]).any(-1))
    chunk = max(1, _CHUNK // n**3)
    log_factorial = np.array([math.log(math.factorial(m)) for m in range(n + 1)])
    for start in range(0, len(tied), chunk):
        rows = tied[start : start + chunk]
        # twins may stand in any order, m! of them; other ties need the search
        twins = _twin_nodes(types[rows], pairs[rows], vocab)
        rank_in_class = np.tril(twins, k=-1).sum(-1)
        group = (log_factorial[twins.sum(-1)] * (rank_in_class == 0)).sum(-1)
        for k, row in enumerate(rows.tolist()):
            # ranks step wherever a key changes, twins apart; then a search if ties are left
            by_key = np.stack([key[row, orders[row]].astype(np.uint64) for key in (*keys, colours)])
            step = (by_key[:, 1:] != by_key[:, :-1]).any(0)
            ranks = np.empty_like(orders[row])
            ranks[orders[row]] = np.concatenate([[0], np.cumsum(step)])
            ranks = ranks * n + rank_in_class[k]
            orders[row] = np.argsort(ranks)
            if len(np.unique(ranks)) < n:
                labelling = label_canonically(ranks, pairs[row])
                orders[row] = labelling.order
                group[k] += math.log(labelling.num_automorphisms)
        log_num_automorphisms[rows] = group
    return orders, log_num_automorphisms


def _twin_nodes(types: Ints, pairs: Ints, vocab: VocabConfig) -> NDArray[np.bool_]:
    """Bool (G, n, n): True if nodes u and v are twins: swapping them leaves the graph unchanged.

    Twins have the same type, the same edge to every third node, and a symmetric edge between them.
    Twins form equivalence classes (u is its own twin). Permutations within classes are
    automorphisms; every automorphism is one of these times one that keeps the order in each class.
    """
    # third nodes see both alike
    eye = np.eye(types.shape[-1], dtype=bool)
    # (G, u, v, third)
    third_agrees = pairs[:, :, None, :] == pairs[:, None, :, :]
    agrees = (third_agrees | eye[:, None, :] | eye[None, :, :]).all(-1)
    symmetric = np.array(vocab.edge_inverse)[pairs] == pairs
    return (agrees & symmetric & (types[:, :, None] == types[:, None, :])) | eye


def _mix_bits(values: Hashes) -> Hashes:
    """Splitmix64 finaliser, a bijection of 64-bit integers that spreads every bit."""
    values = values ^ (values >> np.uint64(30))
    values = values * np.uint64(0xBF58476D1CE4E5B9)
    values = values ^ (values >> np.uint64(27))
    values = values * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


_STEP = np.array([0x9E3779B97F4A7C15], dtype=np.uint64)


def _refine_colours(keys: list[Ints], pairs: Ints) -> Hashes:
    """Colour refinement (1-Weisfeiler-Leman) of graphs (G, n): a 64-bit colour per node.

    Nodes start with equal colours if their keys agree; each round hashes a node's colour with the
    multiset of its (edge type, neighbour's colour), until no colour splits.
    """
    colours: Hashes = np.zeros(keys[0].shape, dtype=np.uint64)
    for key in keys:
        colours = _mix_bits(colours * _STEP + key.astype(np.uint64) + _STEP)
    # graphs that are still refined
    n = colours.shape[-1]
    num_colours = _num_distinct(colours)
    active = np.flatnonzero(num_colours < n)
    while active.size:
        neighbour = _mix_bits(
            colours[active, None, :] + (pairs[active].astype(np.uint64) + 1) * _STEP
        )
        refined = _mix_bits(colours[active] * _STEP + neighbour.sum(-1, dtype=np.uint64))
        refined_num = _num_distinct(refined)
        colours[active] = refined
        separated = refined_num > num_colours[active]
        num_colours[active] = refined_num
        active = active[separated & (refined_num < n)]
    return colours


def _num_distinct(colours: Hashes) -> Ints:
    """Number of different colours of each row, Int (G,)."""
    ordered = np.sort(colours, axis=-1)
    return 1 + (ordered[:, 1:] != ordered[:, :-1]).sum(-1)
