"""Validity of a graph, by the kind of graph, and novelty."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.domains.graphs.metrics.block_model import is_block_model
from discrete_diffusion.domains.graphs.metrics.graph_set import GraphSet


def as_networkx(graph: TypedGraph) -> Any:
    """networkx graph without types."""
    import networkx

    found = networkx.empty_graph(len(graph.nodes))
    found.add_edges_from((i, j) for i, j, _ in graph.edges)
    return found


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
