"""Records of graphs as JSON has them, types included where there are some, and as node-link JSON.

    {"n": 3, "edges": [[0, 1, "bond"], [1, 2, "bond"]], "node_types": ["a", "b", "a"]}

Other keys are left out and counted. Node-link JSON, as networkx and d3 write it, has the edges
under ``links`` or ``edges``; nodes without an ``id`` are known by their place:

    {"nodes": [{"id": "a"}, {"id": "b"}], "links": [{"source": "a", "target": "b"}]}
"""

from __future__ import annotations

import json
import math
import reprlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from discrete_diffusion.config.values import counted
from discrete_diffusion.data.base import SPLITS
from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.domains.graphs.graph_types import GraphTypes
from discrete_diffusion.layout.vocab_config import MOST_NODES
from discrete_diffusion.runtime.atomic_files import write_text


@dataclass
class Notes:
    """``forms``: graphs by how they were read. ``dropped``: by name and what has it, a noun in the
    singular, how many times it was left out. ``remarks``: by sentence, how many times it holds."""

    forms: Counter[str] = field(default_factory=Counter)
    dropped: Counter[tuple[str, str]] = field(default_factory=Counter)
    remarks: Counter[str] = field(default_factory=Counter)

    def drop(self, names: Iterable[str], unit: str, number: int = 1) -> None:
        """Each of ``names`` was left out of so many of ``unit``."""
        for name in names:
            self.dropped[name, unit] += number

    def drop_others(self, found: Mapping[str, object], known: Iterable[str], unit: str) -> None:
        """Drop the values of one ``unit`` under other keys than the ``known`` ones."""
        self.drop((str(key) for key in found.keys() - set(known)), unit)

    def sentences(self) -> list[str]:
        """``dropped: weight of 12 edges, label of 3 nodes``, and the remarks."""
        parts = [
            f"{name} of {counted(number, unit)}"
            for (name, unit), number in sorted(self.dropped.items())
        ]
        dropped = [f"dropped: {', '.join(parts)}"] if parts else []
        return dropped + [
            f"{remark}: {number:,}" for remark, number in sorted(self.remarks.items())
        ]


TYPE = "type"
"""The attribute of nodes and edges that names their type."""

_ENDS = ("source", "target")


def is_node_link(record: Any) -> bool:
    """True if an object lists nodes rather than their number."""
    return isinstance(record, Mapping) and "nodes" in record and "n" not in record


def plain_record(record: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    """The same as ``{"n": ..., "edges": ..., "node_types": ...}``; ``GraphError`` naming the field
    for what is none."""
    key = _edge_key(record)
    if record.get("directed"):
        raise GraphError('is directed; expected "directed": false')
    notes.drop_others(record, ("nodes", key, "directed", "multigraph", "graph"), "graph")
    notes.drop_others(record.get("graph") or {}, (), "graph")
    nodes = record["nodes"]
    if not _is_list(nodes):
        raise GraphError(f'nodes: expected a list [{{"id": ...}}], got {reprlib.repr(nodes)}')
    number, names = _numbered(nodes, notes)
    if not _is_list(record[key]):
        raise GraphError(f"{key}: expected a list, got {reprlib.repr(record[key])}")
    edges = [_edge(each, f"{key}[{k}]", number, notes) for k, each in enumerate(record[key])]
    found = {"n": len(nodes), "edges": edges}
    return found | ({"node_types": names} if any(name is not None for name in names) else {})


def _edge_key(record: Mapping[str, Any]) -> str:
    keys = [key for key in ("edges", "links") if key in record]
    if len(keys) == 2:
        raise GraphError(
            'has "edges" and "links": either may be its edges; leave one of the two out'
        )
    if not keys:
        raise GraphError('has "nodes" and neither "edges" nor "links"; expected one of them')
    return keys[0]


def _numbered(nodes: Sequence[Any], notes: Notes) -> tuple[dict[str, int], list[Any]]:
    """The number of each node by its id as JSON, and its type."""
    number: dict[str, int] = {}
    names: list[Any] = []
    for k, node in enumerate(nodes):
        found = node if isinstance(node, Mapping) else {"id": node}
        name = json.dumps(found.get("id", k))
        if name in number:
            raise GraphError(f"nodes[{k}]: the id {name} is that of another node too")
        number[name] = k
        names.append(found.get(TYPE))
        notes.drop_others(found, ("id", TYPE), "node")
    return number, names


def _edge(edge: Any, place: str, number: Mapping[str, int], notes: Notes) -> list[Any]:
    if isinstance(edge, Mapping):
        notes.drop_others(edge, (*_ENDS, TYPE, "key"), "edge")
        missing = [end for end in _ENDS if end not in edge]
        if missing:
            raise GraphError(f"{place}: has no {missing[0]}; expected source and target")
        edge = [*(edge[end] for end in _ENDS), *([edge[TYPE]] if TYPE in edge else [])]
    if not _is_list(edge) or len(edge) < 2:
        raise GraphError(f"{place}: expected source and target, got {reprlib.repr(edge)}")
    ends = [json.dumps(end) for end in edge[:2]]
    unknown = [end for end in ends if end not in number]
    if unknown:
        raise GraphError(f"{place}: {unknown[0]} is the id of no node")
    return [*(number[end] for end in ends), *edge[2:]]


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


Pair = tuple[int, int]
Id = TypeVar("Id", int, int | None)

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


def parse_graph(
    record: Any, types: GraphTypes, notes: Notes | None = None, form: str = "JSON"
) -> TypedGraph:
    """The graph of a record that was read as ``form``. Raises ``GraphError`` naming the field. An
    edge may be listed from both ends."""
    notes = notes or Notes()
    if is_node_link(record):
        record, form = plain_record(record, notes), "node-link JSON"
    num_nodes = parse_size(record)
    if "edges" not in record:
        raise GraphError('has no "edges"; expected [[u, v], ...]')
    edges = parse_edges(record["edges"], num_nodes, types)
    if again := len(record["edges"]) - len(edges):
        notes.remarks[EDGES_AGAIN] += again
    notes.drop_others(record, _KEYS, "graph")
    names = record.get("node_types")
    if names is None and len(types.nodes) > 1:
        raise GraphError(f"has no node_types; expected {num_nodes} of {', '.join(types.nodes)}")
    nodes = (0,) * num_nodes if names is None else parse_names(names, num_nodes, types.node)
    notes.forms[form] += 1
    return TypedGraph(nodes, tuple((*pair, kind) for pair, kind in sorted(edges.items())))


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


def parse_names(names: Any, num_nodes: int, parse: Callable[[object], Id]) -> tuple[Id, ...]:
    """The type of every node by the name that ``node_types`` has for it. ``GraphError`` if that is
    not a list with a name for every node."""
    if not _is_list(names) or len(names) != num_nodes:
        raise GraphError(
            f"node_types: expected a list of n={num_nodes} names, got {reprlib.repr(names)}"
        )
    found = []
    for k, name in enumerate(names):
        try:
            found.append(parse(name))
        except ValueError as error:
            raise GraphError(f"node_types[{k}]: {error}") from error
    return tuple(found)


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
    if not _is_list(pairs):
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
