"""Graphs as JSON records, the types of their nodes and edges, and notes on what was dropped.

    {"n": 3, "edges": [[0, 1, "bond"], [1, 2, "bond"]], "node_types": ["a", "b", "a"]}

Types are given where there are several; other keys are dropped and counted. Node-link JSON, as
networkx and d3 write it, has the edges under ``links`` or ``edges``; nodes without an ``id`` are
known by their place:

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

from discrete_diffusion.config.values import counted, unknown_name
from discrete_diffusion.data.base import SPLITS
from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.layout.vocab_config import MOST_NODES, VocabConfig
from discrete_diffusion.runtime.atomic_files import write_text

Pair = tuple[int, int]
Id = TypeVar("Id", int, int | None)

Records = Iterator[tuple[str, str, Callable[[], TypedGraph]]]
"""Split, place in the file, and a function that returns the graph or raises ``GraphError``."""

TYPE = "type"
"""The attribute of nodes and edges that names their type."""

ALL = "all"
"""Name for graphs of no split."""

SPLIT_NAMES = {**{name: name for name in (*SPLITS, ALL)}, "valid": "val", "validation": "val"}
"""The split by its name in a file."""

EDGES_AGAIN = "edges listed again, from the other end or twice, which count once"
_ENDS = ("source", "target")
_KEYS = ("n", "edges", "node_types")


class GraphError(ValueError):
    """Error in a graph; the message does not name the file."""


@dataclass(frozen=True)
class GraphTypes:
    """Names of the types of nodes and edges, in the order of their ids; the last type of edges
    stands for no edge.

    Raises ``ValueError`` naming the key of ``data`` for missing or repeated names.
    """

    nodes: tuple[str, ...] = ("node",)
    edges: tuple[str, ...] = ("edge", "none")

    def __post_init__(self) -> None:
        for key, names, least in (("node_types", self.nodes, 1), ("edge_types", self.edges, 2)):
            if len(names) < least or len(set(names)) < len(names):
                raise ValueError(
                    f"data.{key}={[*names]}: expected at least {least}, each once"
                    + (', such as [edge, none]; the last is "no edge"' if least == 2 else "")
                )

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> GraphTypes:
        """Types that a ``config.data`` names; a whole number is a name too, as in TU folders."""
        types = {}
        for key in ("node_types", "edge_types"):
            names = data[key]
            # a bool is an int in Python, and not a name
            if isinstance(names, str) or not all(
                isinstance(name, str | int) and not isinstance(name, bool) for name in names
            ):
                raise ValueError(f"data.{key}={names}: expected a list of names")
            types[key.removesuffix("_types") + "s"] = tuple(map(str, names))
        return cls(**types)

    def vocabulary(self, n_max: int) -> VocabConfig:
        return VocabConfig(n_max=n_max, node_types=self.nodes, edge_types=self.edges)

    def node(self, name: object) -> int:
        """Id of a type of nodes. Raises ``ValueError`` for an unknown name."""
        return _type_id(name, self.nodes, "node type")

    def edge(self, name: object) -> int:
        """Id of a type of edges. Raises ``ValueError`` for an unknown name, or that of no edge."""
        return _type_id(name, self.edges[:-1], "edge type")


class Untyped(GraphTypes):
    """Types for reading graphs of any types as graphs without types."""

    def node(self, name: object) -> int:
        return 0

    def edge(self, name: object) -> int:
        return 0


def _type_id(name: object, names: Sequence[str], what: str) -> int:
    if name not in names:
        raise ValueError(unknown_name(what, str(name), names))
    return names.index(name)


@dataclass
class Notes:
    """Notes on graphs that were read.

    ``forms``: number of graphs by format. ``dropped``: how often something was left out, by its
    name and by the noun, such as "edge", of the objects that had it. ``remarks``: counts by
    sentence.
    """

    forms: Counter[str] = field(default_factory=Counter)
    dropped: Counter[tuple[str, str]] = field(default_factory=Counter)
    remarks: Counter[str] = field(default_factory=Counter)

    def drop(self, names: Iterable[str], unit: str, number: int = 1) -> None:
        """Count each of ``names`` as left out of ``number`` objects; ``unit`` is a noun such as
        "node"."""
        for name in names:
            self.dropped[name, unit] += number

    def drop_others(self, values: Mapping[str, object], known: Iterable[str], unit: str) -> None:
        """Count the keys that are not ``known`` as left out of one ``unit``."""
        self.drop((str(key) for key in values.keys() - set(known)), unit)

    def sentences(self) -> list[str]:
        """Sentences such as ``dropped: weight of 12 edges, label of 3 nodes``, and the remarks."""
        parts = [
            f"{name} of {counted(n, unit)}" for (name, unit), n in sorted(self.dropped.items())
        ]
        dropped = [f"dropped: {', '.join(parts)}"] if parts else []
        return dropped + [f"{remark}: {n:,}" for remark, n in sorted(self.remarks.items())]


def failing_parser(reason: str) -> Callable[[], TypedGraph]:
    """Parser of a record that always raises ``GraphError`` with the reason."""

    def fail() -> TypedGraph:
        raise GraphError(reason)

    return fail


def parse_graph(
    record: Any, types: GraphTypes, notes: Notes | None = None, form: str = "JSON"
) -> TypedGraph:
    """Graph of a record that was read as ``form``; an edge may be listed from both ends.

    Raises ``GraphError`` naming the field.
    """
    notes = notes or Notes()
    if is_node_link(record):
        record, form = _plain_record(record, notes), "node-link JSON"
    # edges by pair, so that those from both ends count once
    num_nodes = parse_size(record)
    if "edges" not in record:
        raise GraphError('has no "edges"; expected [[u, v], ...]')
    edges = parse_edges(record["edges"], num_nodes, types)
    if again := len(record["edges"]) - len(edges):
        notes.remarks[EDGES_AGAIN] += again
    notes.drop_others(record, _KEYS, "graph")
    # types of nodes
    names = record.get("node_types")
    if names is None and len(types.nodes) > 1:
        raise GraphError(f"has no node_types; expected {num_nodes} of {', '.join(types.nodes)}")
    nodes = (0,) * num_nodes if names is None else parse_names(names, num_nodes, types.node)
    notes.forms[form] += 1
    return TypedGraph(nodes, tuple((*pair, kind) for pair, kind in sorted(edges.items())))


def parse_size(record: Any) -> int:
    """Number of nodes of a record. Raises ``GraphError`` for 0, and for more than memory holds."""
    if not isinstance(record, Mapping):
        raise GraphError(
            f'expected an object {{"n": ..., "edges": [[u, v], ...]}}, got {reprlib.repr(record)}'
        )
    num_nodes: Any = record.get("n")
    # with a number of nodes
    if not _is_index(num_nodes) or num_nodes == 0:
        raise GraphError(
            f"n: expected the number of nodes, at least 1, got {reprlib.repr(num_nodes)}"
        )
    # that fits into memory
    if num_nodes > MOST_NODES:
        raise GraphError(
            f"n: {num_nodes:,} nodes, more than {MOST_NODES:,}: a token for each pair of them is "
            "more than memory holds"
        )
    return int(num_nodes)


def parse_names(names: Any, num_nodes: int, parse: Callable[[object], Id]) -> tuple[Id, ...]:
    """Type of every node, by its name in ``node_types``; ``GraphError`` naming a wrong type."""
    if not _is_list(names) or len(names) != num_nodes:
        raise GraphError(
            f"node_types: expected a list of n={num_nodes} names, got {reprlib.repr(names)}"
        )
    kinds = []
    # each name is a known type
    for k, name in enumerate(names):
        try:
            kinds.append(parse(name))
        except ValueError as error:
            raise GraphError(f"node_types[{k}]: {error}") from error
    return tuple(kinds)


def parse_edges(edges: Any, num_nodes: int, types: GraphTypes) -> dict[Pair, int]:
    """Type by pair (i, j), i < j, for a list of [u, v] or [u, v, type]."""
    kinds: dict[Pair, int] = {}
    # one type for each pair
    for k, (pair, rest) in enumerate(parse_pairs(edges, num_nodes, "edges", most=1)):
        try:
            kind = types.edge(*rest) if rest else 0
        except ValueError as error:
            raise GraphError(f"edges[{k}]: {error}") from error
        if not rest and len(types.edges) > 2:
            names = ", ".join(types.edges[:-1])
            raise GraphError(f"edges[{k}]: expected [u, v, type] with one of {names}")
        if kinds.setdefault(pair, kind) != kind:
            raise GraphError(f"edges[{k}]: {list(pair)} is listed with two types")
    return kinds


def parse_pairs(
    pairs: Any, num_nodes: int, key: str, *, most: int = 0
) -> Iterable[tuple[Pair, Sequence[Any]]]:
    """Yield each pair (i, j), i < j, and up to ``most`` values that follow its ends."""
    if not _is_list(pairs):
        raise GraphError(f"{key}: expected a list [[u, v], ...], got {reprlib.repr(pairs)}")
    # two different nodes, and perhaps more
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


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def is_node_link(record: Any) -> bool:
    """True if an object lists its nodes instead of giving their number."""
    return isinstance(record, Mapping) and "nodes" in record and "n" not in record


def _plain_record(record: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    """Convert node-link JSON to ``{"n": ..., "edges": ..., "node_types": ...}``."""
    # the one key that holds the edges
    keys = [key for key in ("edges", "links") if key in record]
    if len(keys) == 2:
        raise GraphError(
            'has "edges" and "links": either may be its edges; leave one of the two out'
        )
    if not keys:
        raise GraphError('has "nodes" and neither "edges" nor "links"; expected one of them')
    key, nodes = keys[0], record["nodes"]
    if record.get("directed"):
        raise GraphError('is directed; expected "directed": false')
    notes.drop_others(record, ("nodes", key, "directed", "multigraph", "graph"), "graph")
    notes.drop_others(record.get("graph") or {}, (), "graph")
    # nodes, known by their ids as JSON
    if not _is_list(nodes):
        raise GraphError(f'nodes: expected a list [{{"id": ...}}], got {reprlib.repr(nodes)}')
    number: dict[str, int] = {}
    names: list[Any] = []
    for k, node in enumerate(nodes):
        values = node if isinstance(node, Mapping) else {"id": node}
        name = json.dumps(values.get("id", k))
        if name in number:
            raise GraphError(f"nodes[{k}]: the id {name} is that of another node too")
        number[name] = k
        names.append(values.get(TYPE))
        notes.drop_others(values, ("id", TYPE), "node")
    # edges between them
    if not _is_list(record[key]):
        raise GraphError(f"{key}: expected a list, got {reprlib.repr(record[key])}")
    edges = [_plain_edge(each, f"{key}[{k}]", number, notes) for k, each in enumerate(record[key])]
    plain = {"n": len(nodes), "edges": edges}
    return plain | ({"node_types": names} if any(name is not None for name in names) else {})


def _plain_edge(edge: Any, place: str, number: Mapping[str, int], notes: Notes) -> list[Any]:
    """[u, v] or [u, v, type] of an edge of node-link JSON; u and v are numbers of nodes."""
    # an object names its ends
    if isinstance(edge, Mapping):
        notes.drop_others(edge, (*_ENDS, TYPE, "key"), "edge")
        if missing := [end for end in _ENDS if end not in edge]:
            raise GraphError(f"{place}: has no {missing[0]}; expected source and target")
        edge = [*(edge[end] for end in _ENDS), *([edge[TYPE]] if TYPE in edge else [])]
    if not _is_list(edge) or len(edge) < 2:
        raise GraphError(f"{place}: expected source and target, got {reprlib.repr(edge)}")
    # ends are known by their ids
    ends = [json.dumps(end) for end in edge[:2]]
    if unknown := [end for end in ends if end not in number]:
        raise GraphError(f"{place}: {unknown[0]} is the id of no node")
    return [*(number[end] for end in ends), *edge[2:]]


def graph_record(graph: TypedGraph, types: GraphTypes) -> dict[str, Any]:
    """Convert a graph to a record, which ``parse_graph`` reads; types are written where there are
    several."""
    edges: list[list[Any]] = [[i, j] for i, j, _ in graph.edges]
    if len(types.edges) > 2:
        edges = [[i, j, types.edges[kind]] for i, j, kind in graph.edges]
    record: dict[str, Any] = {"n": len(graph.nodes), "edges": edges}
    if len(types.nodes) > 1:
        record["node_types"] = [types.nodes[kind] for kind in graph.nodes]
    return record


def json_lines_of_graphs(graphs: Iterable[TypedGraph], types: GraphTypes, **more: Any) -> str:
    """Return graphs as JSON lines for ``read_graphs``; ``more``: further keys, a value per
    graph."""
    records = [graph_record(graph, types) for graph in graphs]
    for key, values in more.items():
        for record, value in zip(records, values, strict=True):
            record[key] = value
    return "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records)


def write_graphs(path: Path, graphs: Iterable[TypedGraph], types: GraphTypes, **more: Any) -> None:
    """Write ``json_lines_of_graphs`` graphs to a file."""
    write_text(path, json_lines_of_graphs(graphs, types, **more))
