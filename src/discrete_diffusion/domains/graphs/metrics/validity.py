"""Validity of a graph, by the kind of graph, and novelty.

That a graph could be a sample of the stochastic block models of the benchmark is tested by a
substitute: the published test fits a degree-corrected block model with graph-tool, which is not on
PyPI. Here blocks are found by maximising the exact integrated likelihood of a Bernoulli block
model, and the criterion then is that of the published test.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.domains.graphs.metrics.graph_set import (
    Floats,
    GraphSet,
    adjacency_of,
    as_networkx,
    normalised_laplacian,
)

Ints = NDArray[np.int64]

BLOCKS, BLOCK_SIZES = (2, 5), (20, 40)
WITHIN, BETWEEN = 0.3, 0.005
"""How likely two nodes of one block, and of two, are linked in the benchmark's graphs."""

_MOST_BLOCKS = 7
"""That are tried: a graph of more is none of the benchmark's."""

_SWEEPS = 20


def is_block_model(graph: TypedGraph) -> bool:
    """2 to 5 blocks of 20 to 40 nodes, whose densities pass the published test:

    the mean over all pairs of blocks of P(chi^2_1 > W) is above 0.9, with
    W = (p - p')^2 / (p' (1 - p')), p' the observed density, p the benchmark's.

    Source: ``is_sbm_graph`` of SPECTRE (arXiv 2204.01613).
    """
    adjacency = adjacency_of(graph)
    num_nodes = len(adjacency)
    if not BLOCKS[0] * BLOCK_SIZES[0] <= num_nodes <= BLOCKS[1] * BLOCK_SIZES[1]:
        return False
    blocks = find_blocks(adjacency)
    sizes = np.bincount(blocks)
    if not BLOCKS[0] <= len(sizes) <= BLOCKS[1]:
        return False
    if sizes.min() < BLOCK_SIZES[0] or sizes.max() > BLOCK_SIZES[1]:
        return False
    return _agreement(adjacency, blocks) > 0.9


def find_blocks(adjacency: Floats) -> Ints:
    """Int[N], the block of every node, numbered 0, 1, ...: the best of what greedy moves of single
    nodes make of a spectral clustering into 1, 2, ... blocks."""
    found = [_improved(adjacency, start) for start in _spectral_starts(adjacency)]
    return max(found, key=lambda blocks: integrated_likelihood(adjacency, blocks))


def integrated_likelihood(adjacency: Floats, blocks: Ints, num_blocks: int | None = None) -> float:
    """log p(graph, blocks) of a Bernoulli block model of ``num_blocks``, or as many as there are,
    its densities and shares integrated out under flat priors.

        sum over pairs of blocks log B(e + 1, m - e + 1) + log (k - 1)! prod n_r! / (n + k - 1)!

    e of m pairs of nodes are linked; k blocks of n_r of the n nodes.
    """
    from scipy.special import betaln, gammaln

    edges, pairs, sizes = _block_counts(adjacency, blocks, num_blocks)
    upper = np.triu_indices(len(sizes))
    density = betaln(edges + 1, pairs - edges + 1)[upper].sum()
    k, n = len(sizes), len(blocks)
    return float(density + gammaln(k) + gammaln(sizes + 1).sum() - gammaln(n + k))


def _agreement(adjacency: Floats, blocks: Ints) -> float:
    from scipy.stats import chi2

    edges, pairs, _ = _block_counts(adjacency, blocks)
    expected = np.full(edges.shape, BETWEEN)
    np.fill_diagonal(expected, WITHIN)
    observed = edges / (pairs + 1e-6)
    wald = (observed - expected) ** 2 / (observed * (1 - observed) + 1e-6)
    return float(chi2.sf(wald, 1).mean())


def _block_counts(
    adjacency: Floats, blocks: Ints, num_blocks: int | None = None
) -> tuple[Floats, Floats, Floats]:
    """Edges and pairs of nodes, Float[K, K] symmetric, and nodes Float[K], of blocks."""
    member = np.eye(num_blocks or int(blocks.max()) + 1)[blocks]  # (N, K)
    sizes, edges = member.sum(axis=0), member.T @ adjacency @ member
    pairs = np.outer(sizes, sizes)
    np.fill_diagonal(edges, np.diag(edges) / 2)
    np.fill_diagonal(pairs, sizes * (sizes - 1) / 2)
    return edges, pairs, sizes


def _spectral_starts(adjacency: Floats) -> list[Ints]:
    from scipy.cluster.vq import kmeans2

    num_nodes = len(adjacency)
    _, vectors = np.linalg.eigh(normalised_laplacian(adjacency))
    starts = [np.zeros(num_nodes, dtype=np.int64)]
    for k in range(2, min(_MOST_BLOCKS, num_nodes) + 1):
        rows = vectors[:, :k]
        length = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = rows / np.maximum(length, 1e-12)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="One of the clusters is empty")
            _, blocks = kmeans2(rows, k, minit="++", rng=np.random.default_rng(k))
        starts.append(np.unique(blocks, return_inverse=True)[1])
    return starts


def _improved(adjacency: Floats, blocks: Ints) -> Ints:
    """Nodes go, one after the other, where the likelihood gains most, until none would move."""
    from scipy.special import gammaln

    blocks, num_nodes = blocks.copy(), len(blocks)
    k = int(blocks.max()) + 1
    diagonal = np.eye(k, dtype=bool)
    member = np.eye(k)[blocks]
    edges, _, sizes = (x.astype(np.int64) for x in _block_counts(adjacency, blocks))
    links_of = (adjacency @ member).astype(np.int64)  # (N, K)
    log_factorial = gammaln(np.arange(num_nodes**2 + 2) + 1.0)

    def likelihood(edges: Ints, size: Ints, others: Ints) -> Floats:
        """Likelihood of a block with all: log B(e + 1, m - e + 1) = log e! (m - e)! / (m + 1)!"""
        pairs = np.where(diagonal, (size * (size - 1) // 2)[:, None], np.outer(size, others))
        both = log_factorial[edges] + log_factorial[pairs - edges]
        return (both - log_factorial[pairs + 1]).sum(axis=1)

    for _ in range(_SWEEPS if k > 1 else 0):
        moved = False
        for node in range(num_nodes):
            old, links = blocks[node], links_of[node]
            sizes[old] -= 1
            edges[old] -= links
            edges[:, old] -= np.where(diagonal[old], 0, links)
            gain = likelihood(edges + links, sizes + 1, sizes) - likelihood(edges, sizes, sizes)
            gain += np.log(sizes + 1)
            new = int(gain.argmax())
            if gain[new] <= gain[old] + 1e-9:
                new = int(old)
            sizes[new] += 1
            edges[new] += links
            edges[:, new] += np.where(diagonal[new], 0, links)
            if new != old:
                blocks[node], moved = new, True
                neighbours = adjacency[node] > 0
                links_of[neighbours, old] -= 1
                links_of[neighbours, new] += 1
        if not moved:
            break
    return np.unique(blocks, return_inverse=True)[1]


def is_connected(graph: TypedGraph) -> bool:
    import networkx

    return bool(networkx.is_connected(as_networkx(graph)))


def is_tree(graph: TypedGraph) -> bool:
    return len(graph.edges) == len(graph.nodes) - 1 and is_connected(graph)


def is_planar(graph: TypedGraph) -> bool:
    """And connected, as the benchmark asks."""
    import networkx

    found = as_networkx(graph)
    return bool(networkx.is_connected(found) and networkx.check_planarity(found)[0])


VALIDITY: dict[str, Callable[[TypedGraph], bool]] = {
    "planar": is_planar,
    "tree": is_tree,
    "sbm": is_block_model,
}

KINDS = (*VALIDITY, "community", "ego")
"""The last two say how distances are measured; every graph is valid."""


def graph_rewards(kind: str | None) -> dict[str, Callable[[list[TypedGraph]], list[bool]]]:
    """Scores of graphs by name, 1 or 0: ``connected``, and ``valid`` of kinds in ``VALIDITY``."""
    checks: dict[str, Callable[[TypedGraph], bool]] = {"connected": is_connected}
    if str(kind) in VALIDITY:
        checks["valid"] = VALIDITY[str(kind)]
    return {name: partial(_each, check) for name, check in checks.items()}


def _each(check: Callable[[TypedGraph], bool], graphs: list[TypedGraph]) -> list[bool]:
    return [check(graph) for graph in graphs]


def novelty_shares(
    samples: GraphSet, training: GraphSet | None, kind: str | None
) -> dict[str, float]:
    """Shares of the samples, exact up to isomorphism.

    ``unique``: distinct graphs among them, per sample; ``novel``: not in ``training``; ``valid``,
    of the kinds in ``VALIDITY``; ``valid_unique_novel``: all of it at once, where of equal samples
    the first counts; without a validity ``unique_novel``. Without ``training`` none with novelty.
    """
    num, keys = len(samples), samples.keys
    earliest = {key: k for k, key in reversed([*enumerate(keys)])}
    first = [earliest[key] == k for k, key in enumerate(keys)]
    shares = {"unique": sum(first) / num}
    if training is not None:
        known = set(training.keys)
        novel = [key not in known for key in keys]
        shares["novel"] = sum(novel) / num
        first = [a and b for a, b in zip(first, novel, strict=True)]
    check = VALIDITY.get(str(kind))
    if check is None:
        return shares if training is None else {**shares, "unique_novel": sum(first) / num}
    valid = [check(graph) for graph in samples]
    shares = {"valid": sum(valid) / num, **shares}
    if training is not None:
        both = [a and b for a, b in zip(first, valid, strict=True)]
        shares["valid_unique_novel"] = sum(both) / num
    return shares
