"""A graph as JSON has it: ``{"n": 3, "edges": [[0, 1], [1, 2]]}``, with types where there are some.

    {"n": 3, "edges": [[0, 1, "bond"], [1, 2, "bond"]], "node_types": ["a", "b", "a"]}

Other keys are left out and counted. Node-link JSON is read too, see ``node_links``.
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from discrete_diffusion.data.base import SPLITS
from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.domains.graphs.files.node_links import is_node_link, plain_record
from discrete_diffusion.domains.graphs.files.notes import Notes
from discrete_diffusion.domains.graphs.graph_types import GraphTypes
from discrete_diffusion.layout.vocab_config import MOST_NODES
from discrete_diffusion.runtime.atomic_files import write_text

Pair = tuple[int, int]

Records = Iterator[tuple[str, str, Callable[[], TypedGraph]]]
"""The split of a graph, its place in the file, and what reads it or raises ``GraphError``."""

ALL = "all"
"""Graphs of no split."""

SPLIT_NAMES = {**{name: name for name in (*SPLITS, ALL)}, "valid": "val", "validation": "val"}
"""The split by its name in a file."""

_KEYS = ("n", "edges", "node_types")


class GraphError(ValueError):
    """Fault of a graph, without the name of its file."""


def failing(reason: str) -> Callable[[], TypedGraph]:
    """Function in the place of what reads a graph: it raises the error."""

    def fail() -> TypedGraph:
        raise GraphError(reason)

    return fail


def parse_graph(record: Any, types: GraphTypes, notes: Notes | None = None) -> TypedGraph:
    """Raises ``GraphError`` naming the field. An edge may be listed from both ends."""
    notes = notes or Notes()
    if is_node_link(record):
        try:
            record = plain_record(record, notes)
        except ValueError as error:
            raise GraphError(str(error)) from error
    num_nodes = parse_size(record)
    if "edges" not in record:
        raise GraphError('has no "edges"; expected [[u, v], ...]')
    edges = parse_edges(record["edges"], num_nodes, types)
    if again := len(record["edges"]) - len(edges):
        notes.remarks[EDGES_AGAIN] += again
    notes.drop_others(record, _KEYS, "graph")
    names = record.get("node_types")
    return TypedGraph(
        parse_node_types(names, num_nodes, types),
        tuple((i, j, kind) for (i, j), kind in sorted(edges.items())),
    )


EDGES_AGAIN = "edges listed again, from the other end or twice, which count once"
"""A remark."""


def graph_record(graph: TypedGraph, types: GraphTypes) -> dict[str, Any]:
    """The inverse of ``parse_graph``; types are written where there are several."""
    edges: list[list[Any]] = [[i, j] for i, j, _ in graph.edges]
    if len(types.edges) > 2:
        edges = [[i, j, types.edges[kind]] for i, j, kind in graph.edges]
    record: dict[str, Any] = {"n": len(graph.nodes), "edges": edges}
    if len(types.nodes) > 1:
        record["node_types"] = [types.nodes[kind] for kind in graph.nodes]
    return record


def parse_size(record: Any) -> int:
    if not isinstance(record, Mapping):
        raise GraphError(
            f'expected an object {{"n": ..., "edges": [[u, v], ...]}}, got {reprlib.repr(record)}'
        )
    num_nodes: Any = record.get("n")
    if not _is_index(num_nodes) or num_nodes == 0:
        raise GraphError(
            f"n: expected the number of nodes, at least 1, got {reprlib.repr(num_nodes)}"
        )
    if num_nodes > MOST_NODES:
        raise GraphError(
            f"n: {num_nodes:,} nodes, more than {MOST_NODES:,}: a token for each pair of them is "
            "more than memory holds"
        )
    return int(num_nodes)


def parse_node_types(names: Any, num_nodes: int, types: GraphTypes) -> tuple[int, ...]:
    """Types of its nodes; where the file names none, the only type that there is."""
    if names is None:
        if len(types.nodes) > 1:
            raise GraphError(f"has no node_types; expected {num_nodes} of {', '.join(types.nodes)}")
        return (0,) * num_nodes
    check_length(names, num_nodes)
    found = []
    for k, name in enumerate(names):
        try:
            found.append(types.node(name))
        except ValueError as error:
            raise GraphError(f"node_types[{k}]: {error}") from error
    return tuple(found)


def check_length(names: Any, num_nodes: int) -> None:
    """``GraphError`` if ``node_types`` is not a list with a name for every node."""
    if not isinstance(names, Sequence) or isinstance(names, str) or len(names) != num_nodes:
        raise GraphError(
            f"node_types: expected a list of n={num_nodes} names, got {reprlib.repr(names)}"
        )


def parse_edges(
    edges: Any, num_nodes: int, types: GraphTypes, key: str = "edges"
) -> dict[Pair, int]:
    """(i, j), i < j -> type, of a list of [u, v] or [u, v, type]."""
    found: dict[Pair, int] = {}
    for k, (pair, rest) in enumerate(parse_pairs(edges, num_nodes, key, most=1)):
        try:
            kind = types.edge(*rest) if rest else 0
        except ValueError as error:
            raise GraphError(f"{key}[{k}]: {error}") from error
        if not rest and len(types.edges) > 2:
            names = ", ".join(types.edges[:-1])
            raise GraphError(f"{key}[{k}]: expected [u, v, type] with one of {names}")
        if found.setdefault(pair, kind) != kind:
            raise GraphError(f"{key}[{k}]: {list(pair)} is listed with two types")
    return found


def parse_pairs(
    pairs: Any, num_nodes: int, key: str, *, most: int = 0
) -> Iterable[tuple[Pair, Sequence[Any]]]:
    """Each pair (i, j), i < j, and what follows its ends, ``most`` things."""
    if not isinstance(pairs, Sequence) or isinstance(pairs, str):
        raise GraphError(f"{key}: expected a list [[u, v], ...], got {reprlib.repr(pairs)}")
    for k, edge in enumerate(pairs):
        if not isinstance(edge, Sequence) or not 2 <= len(edge) <= 2 + most:
            raise GraphError(f"{key}[{k}]: expected [u, v], got {reprlib.repr(edge)}")
        u, v, *rest = edge
        for node in (u, v):
            if not _is_index(node, num_nodes):
                raise GraphError(
                    f"{key}[{k}]: expected nodes 0 to {num_nodes - 1}, got {reprlib.repr(node)}"
                )
        if u == v:
            raise GraphError(f"{key}[{k}]: node {u} is linked to itself; leave such edges out")
        yield (min(u, v), max(u, v)), rest


def _is_index(value: Any, end: float = math.inf) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < end


def lines_of(graphs: Iterable[TypedGraph], types: GraphTypes, **more: Any) -> str:
    """JSON lines, as ``read_graphs`` reads them; ``more``: further keys, a list with a value for
    each graph."""
    records = [graph_record(graph, types) for graph in graphs]
    for key, values in more.items():
        for record, value in zip(records, values, strict=True):
            record[key] = value
    return "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records)


def write_graphs(path: Path, graphs: Iterable[TypedGraph], types: GraphTypes, **more: Any) -> None:
    write_text(path, lines_of(graphs, types, **more))
