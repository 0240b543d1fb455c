"""Metrics of a set of graphs: validity, novelty, and distances from a reference.

The distance of two sets is

    MMD^2 = mean k(x, x') + mean k(y, y') - 2 mean k(x, y)

over all pairs, including a graph with itself, so that a set has distance 0 from itself. The papers
call this number MMD; so do the tables here. Source of the kernels: GRAN (arXiv 1910.00760), whose
code SPECTRE, HSpectre, DiGress and DeFoG measure with.

Whether a graph could be a sample of the benchmark's stochastic block models is tested by a
substitute: the published test fits a degree-corrected block model with graph-tool, which is not on
PyPI. Here blocks maximise the exact integrated likelihood of a Bernoulli block model, and the
criterion is that of the published test.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.domains.graphs import graph_set
from discrete_diffusion.domains.graphs.graph_set import Floats, GraphSet
from discrete_diffusion.evaluation.sample_scores import Metric

Ints = NDArray[np.int64]

BLOCKS, BLOCK_SIZES = (2, 5), (20, 40)
WITHIN, BETWEEN = 0.3, 0.005
"""Probability of an edge within a block, and between two, in the benchmark's graphs."""

_MAX_BLOCKS = 7
"""Most blocks that are tried: a graph of more is not one of the benchmark's."""

_SWEEPS = 20

_MAX_PAIRS = 8_000_000
"""Pairs whose kernel values are in memory at once."""

MMDS = tuple(f"mmd_{statistic.name}" for statistic in graph_set.STATISTICS)
_AVERAGED = ("mmd_degree", "mmd_clustering", "mmd_orbit")
"""Distances that ``mmd_average`` is the mean of."""

_DECIMALS = 4
"""Decimals of the published distances of training graphs; distances that round to 0 are left out of
ratios."""


def mean_kernel(x: Floats, y: Floats, statistic: graph_set.Statistic, kernel: str) -> float:
    """Mean of ``kernel_values`` over all pairs, in parts of bounded memory."""
    rows = max(1, _MAX_PAIRS // len(y))
    if len(x) <= rows:
        return float(kernel_values(x, y, statistic, kernel).mean())
    parts = (x[k : k + rows] for k in range(0, len(x), rows))
    sums = (float(kernel_values(part, y, statistic, kernel).sum()) for part in parts)
    return math.fsum(sums) / (len(x) * len(y))


def kernel_values(x: Floats, y: Floats, statistic: graph_set.Statistic, kernel: str) -> Floats:
    """k(x, y) = exp(-d(x, y)^2 / (2 s^2)) of every row of ``x`` (M, K) and ``y`` (N, K'): (M, N).

    The shorter rows are padded with zeros; s is the bandwidth of the statistic. ``kernel``: ``tv``
    has d = sum |x - y| / 2; ``emd`` has the earth mover's distance of histograms on a line with
    bins ``bin_width`` apart, and the Euclidean distance where that is None.
    """
    from scipy.spatial.distance import cdist  # slow to import

    width = max(x.shape[1], y.shape[1])
    x, y = (np.pad(rows, ((0, 0), (0, width - rows.shape[1]))) for rows in (x, y))
    # the distance that the kernel and the statistic call for
    if kernel == "tv":
        distance = cdist(x, y, "cityblock") / 2
    elif statistic.bin_width is None:
        distance = cdist(x, y, "euclidean")
    else:
        distance = cdist(x.cumsum(axis=1), y.cumsum(axis=1), "cityblock") * statistic.bin_width
    return np.exp(distance**2 / (-2 * statistic.bandwidth**2))


def squared_mmds(samples: GraphSet, reference: GraphSet, kernel: str) -> dict[str, float]:
    """Squared MMD of every statistic by name, with the kernel ``tv`` or ``emd``; and
    ``mmd_average``, of degrees, clustering and orbits, which papers print for small graphs."""
    mmds = {}
    # means over pairs within and across the sets
    for each in graph_set.STATISTICS:
        x, y = samples.statistics[each.name], reference.statistics[each.name]
        pairs = ((x, x), (y, y), (x, y))
        within_x, within_y, across = (mean_kernel(*pair, each, kernel) for pair in pairs)
        mmds[f"mmd_{each.name}"] = float(within_x + within_y - 2 * across)
    mmds["mmd_average"] = float(np.mean([mmds[name] for name in _AVERAGED]))
    return mmds


def mmd_ratios(mmds: Mapping[str, float], training: Mapping[str, float]) -> dict[str, float]:
    """Ratios of MMDs: to the test set, of samples and of training graphs.

    ``ratio``: mean over the five statistics of MMD(samples, test) / MMD(training, test), without
    statistics whose divisor rounds to 0 at four decimals. ``ratio_rounded``: with the divisors
    rounded to four decimals, as in the code of DeFoG (arXiv 2410.04263). Empty if all divisors
    round to 0.
    """
    rounded = {name: round(training[name], _DECIMALS) for name in MMDS}
    kept = [name for name in MMDS if rounded[name] > 0]
    if not kept:
        return {}
    return {
        "ratio": float(np.mean([mmds[name] / training[name] for name in kept])),
        "ratio_rounded": float(np.mean([mmds[name] / rounded[name] for name in kept])),
    }


_OWN, _FAR = "the samples by themselves", "distances from the reference (0 is best)"
_DISTANCES = {
    **{f"mmd_{s.name}": f"squared MMD of the {s.meaning}" for s in graph_set.STATISTICS},
    "mmd_average": "mean of those of degrees, clustering and orbits",
}

METRICS = {
    "valid": Metric(_OWN, "share of valid graphs, of the kind of data.graph_family", share=True),
    "unique": Metric(
        _OWN, "distinct graphs per sample, up to isomorphism", share=True, of_each=False
    ),
    "novel": Metric(_OWN, "share not isomorphic to a graph trained on", share=True),
    "valid_unique_novel": Metric(
        _OWN,
        "share valid, novel and the first of its kind among the samples: V.U.N.",
        share=True,
    ),
    "unique_novel": Metric(
        _OWN, "share novel and the first of its kind among the samples", share=True, of_each=False
    ),
    "connected": Metric(_OWN, "share in one piece", share=True),
    "nodes_per_graph": Metric(_OWN, "mean number of nodes"),
    "edges_per_graph": Metric(_OWN, "mean number of edges"),
    **{name: Metric(_FAR, meaning, digits=5, ratio=2) for name, meaning in _DISTANCES.items()},
    "ratio": Metric(
        _FAR,
        "mean over the five distances of value / that of the graphs trained on (1 is ideal)",
        digits=2,
    ),
    "ratio_rounded": Metric(
        _FAR, "the same, the divisors rounded to four decimals, as some papers do", digits=2
    ),
}
"""All metrics of graphs, in the order of the table."""


def default_kernel(kind: str | None) -> str:
    """``emd`` for the kinds of small graphs, as in the literature, else ``tv``."""
    return "emd" if kind in ("community", "ego") else "tv"


def own_metrics(
    samples: GraphSet, *, training: GraphSet | None = None, kind: str | None = None
) -> dict[str, float]:
    """Metrics that need no reference."""
    return {
        **novelty_shares(samples, training, kind),
        "connected": float(np.mean([is_connected(graph) for graph in samples])),
        "nodes_per_graph": float(np.mean([len(graph.nodes) for graph in samples])),
        "edges_per_graph": float(np.mean([len(graph.edges) for graph in samples])),
    }


def novelty_shares(
    samples: GraphSet, training: GraphSet | None, kind: str | None
) -> dict[str, float]:
    """Shares of the samples, exact up to isomorphism.

    ``unique``: number of distinct graphs / number of samples; ``novel``: not in ``training``;
    ``valid``: only for the kinds in ``VALIDITY``; ``valid_unique_novel``: all three at once, where
    the first of equal samples counts, or ``unique_novel`` for other kinds. Novelty needs
    ``training``.
    """
    num, keys = len(samples), samples.keys
    # the first sample of each isomorphism class
    earliest = {key: k for k, key in reversed([*enumerate(keys)])}
    first = np.array([earliest[key] == k for k, key in enumerate(keys)])
    shares = {"unique": first.sum() / num}
    # not among the graphs trained on
    if training is not None:
        known = {*training.keys}
        novel = np.array([key not in known for key in keys])
        shares["novel"] = novel.sum() / num
        first &= novel
    # valid graphs, if the kind defines them
    check = VALIDITY.get(str(kind))
    if check is None:
        shares |= {} if training is None else {"unique_novel": first.sum() / num}
    else:
        valid = np.array([check(graph) for graph in samples])
        shares = {"valid": valid.sum() / num, **shares}
        shares |= {} if training is None else {"valid_unique_novel": (first & valid).sum() / num}
    return {name: float(share) for name, share in shares.items()}


def is_connected(graph: TypedGraph) -> bool:
    import networkx

    return bool(networkx.is_connected(graph_set.as_networkx(graph)))


def is_tree(graph: TypedGraph) -> bool:
    return len(graph.edges) == len(graph.nodes) - 1 and is_connected(graph)


def is_planar(graph: TypedGraph) -> bool:
    """True if a graph is planar and connected, as the benchmark requires."""
    import networkx

    return is_connected(graph) and bool(networkx.check_planarity(graph_set.as_networkx(graph))[0])


def is_block_model(graph: TypedGraph) -> bool:
    """True for 2 to 5 blocks of 20 to 40 nodes whose densities pass the published test:

    the mean over all pairs of blocks of P(chi^2_1 > W) is above 0.9, with
    W = (p - p')^2 / (p' (1 - p')), p' the observed density, p the benchmark's.

    Source: ``is_sbm_graph`` of SPECTRE (arXiv 2204.01613).
    """
    from scipy.stats import chi2

    adjacency = graph_set.adjacency_of(graph)
    if not BLOCKS[0] * BLOCK_SIZES[0] <= len(adjacency) <= BLOCKS[1] * BLOCK_SIZES[1]:
        return False
    # number and sizes of the blocks
    blocks = find_blocks(adjacency)
    sizes = np.bincount(blocks)
    if not BLOCKS[0] <= len(sizes) <= BLOCKS[1]:
        return False
    if sizes.min() < BLOCK_SIZES[0] or sizes.max() > BLOCK_SIZES[1]:
        return False
    # Wald test of the density of each pair of blocks
    edges, pairs, _ = _block_counts(adjacency, blocks)
    expected = np.full(edges.shape, BETWEEN)
    np.fill_diagonal(expected, WITHIN)
    observed = edges / (pairs + 1e-6)
    wald = (observed - expected) ** 2 / (observed * (1 - observed) + 1e-6)
    return bool(chi2.sf(wald, 1).mean() > 0.9)


VALIDITY: dict[str, Callable[[TypedGraph], bool]] = {
    "planar": is_planar,
    "tree": is_tree,
    "sbm": is_block_model,
}

KINDS = (*VALIDITY, "community", "ego")
"""Values of ``data.graph_family``; the last two choose a kernel, and every graph is valid."""


def graph_rewards(kind: str | None) -> dict[str, Callable[[list[TypedGraph]], list[bool]]]:
    """Scores of graphs by name, 1 or 0: ``connected``, and ``valid`` for kinds in ``VALIDITY``."""
    checks: dict[str, Callable[[TypedGraph], bool]] = {"connected": is_connected}
    if str(kind) in VALIDITY:
        checks["valid"] = VALIDITY[str(kind)]

    def score_by(check: Callable[[TypedGraph], bool]) -> Callable[[list[TypedGraph]], list[bool]]:
        return lambda graphs: [check(graph) for graph in graphs]

    return {name: score_by(check) for name, check in checks.items()}


def find_blocks(adjacency: Floats) -> Ints:
    """Int[N], the block of every node, numbered from 0, by greedy search.

    Single nodes are moved, from spectral clusterings into 1, 2, ... blocks; the most likely result
    is returned.
    """
    found = [_improved(adjacency, start) for start in _spectral_starts(adjacency)]
    return max(found, key=lambda blocks: integrated_likelihood(adjacency, blocks))


def integrated_likelihood(adjacency: Floats, blocks: Ints, num_blocks: int | None = None) -> float:
    """log p(graph, blocks) of a Bernoulli block model, with densities and shares of blocks
    integrated out under flat priors. ``num_blocks``: by default as many as occur.

        sum over pairs of blocks log B(e + 1, m - e + 1) + log (k - 1)! prod n_r! / (n + k - 1)!

    e of m pairs of nodes are linked; k blocks have n_r of the n nodes.
    """
    from scipy.special import betaln, gammaln

    edges, pairs, sizes = _block_counts(adjacency, blocks, num_blocks)
    upper = np.triu_indices(len(sizes))
    density = betaln(edges + 1, pairs - edges + 1)[upper].sum()
    k, n = len(sizes), len(blocks)
    return float(density + gammaln(k) + gammaln(sizes + 1).sum() - gammaln(n + k))


def _block_counts(
    adjacency: Floats, blocks: Ints, num_blocks: int | None = None
) -> tuple[Floats, Floats, Floats]:
    """Numbers of edges and of pairs of nodes by pair of blocks, Float[K, K] symmetric, and numbers
    of nodes, Float[K]."""
    member = np.eye(num_blocks or int(blocks.max()) + 1)[blocks]  # (N, K)
    sizes, edges = member.sum(axis=0), member.T @ adjacency @ member
    pairs = np.outer(sizes, sizes)
    # within a block each pair was counted twice
    np.fill_diagonal(edges, np.diag(edges) / 2)
    np.fill_diagonal(pairs, sizes * (sizes - 1) / 2)
    return edges, pairs, sizes


def _spectral_starts(adjacency: Floats) -> list[Ints]:
    """Blocks of spectral clusterings into 1, 2, ... blocks."""
    from scipy.cluster.vq import kmeans2

    num_nodes = len(adjacency)
    # eigenvectors of small eigenvalues separate blocks
    _, vectors = np.linalg.eigh(graph_set.normalised_laplacian(adjacency))
    starts = [np.zeros(num_nodes, dtype=np.int64)]
    for k in range(2, min(_MAX_BLOCKS, num_nodes) + 1):
        # k-means on the unit sphere of the first k eigenvectors
        rows = vectors[:, :k]
        rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="One of the clusters is empty")
            _, blocks = kmeans2(rows, k, minit="++", rng=np.random.default_rng(k))
        starts.append(np.unique(blocks, return_inverse=True)[1])
    return starts


def _improved(adjacency: Floats, blocks: Ints) -> Ints:
    """Put each node into the block of most likelihood, one after the other, until no node changes
    its block."""
    from scipy.special import gammaln

    blocks, num_nodes = blocks.copy(), len(blocks)
    k = int(blocks.max()) + 1
    diagonal = np.eye(k, dtype=bool)
    # counts that each move updates
    edges, _, sizes = (x.astype(np.int64) for x in _block_counts(adjacency, blocks))
    links_of = (adjacency @ np.eye(k)[blocks]).astype(np.int64)  # (N, K)
    log_factorial = gammaln(np.arange(num_nodes**2 + 2) + 1.0)

    def likelihood(edges: Ints, size: Ints, others: Ints) -> Floats:
        """Sum over blocks of log B(e + 1, m - e + 1) = log e! (m - e)! / (m + 1)!"""
        pairs = np.where(diagonal, (size * (size - 1) // 2)[:, None], np.outer(size, others))
        both = log_factorial[edges] + log_factorial[pairs - edges]
        return (both - log_factorial[pairs + 1]).sum(axis=1)

    # sweeps over all nodes, until none moves
    for _ in range(_SWEEPS if k > 1 else 0):
        moved = False
        for node in range(num_nodes):
            # take the node out of its block
            old, links = blocks[node], links_of[node]
            sizes[old] -= 1
            edges[old] -= links
            edges[:, old] -= np.where(diagonal[old], 0, links)
            # the gain of each block if the node joins it; a tie keeps the old one
            gain = likelihood(edges + links, sizes + 1, sizes) - likelihood(edges, sizes, sizes)
            gain += np.log(sizes + 1)
            new = int(gain.argmax())
            if gain[new] <= gain[old] + 1e-9:
                new = int(old)
            # put it there
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
