"""Graphs as other programs write them: GraphML, graph6, lists of edges."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any
from xml.etree.ElementTree import ParseError

from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.domains.graphs.files.records import GraphError, graph_record, parse_graph
from discrete_diffusion.domains.graphs.graph_types import GraphTypes

TYPE = "type"
"""The attribute of nodes and edges that names their type."""


def parse_graphml(text: str, types: GraphTypes) -> TypedGraph:
    """Nodes in the order of the file. Raises ``GraphError`` for anything else than one undirected
    graph."""
    import networkx

    if (num := len(re.findall(r"<graph[\s>]", text))) > 1:
        raise GraphError(f"holds {num} graphs; expected one, a file each")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="No key type for id")  # text is the default
            graph = networkx.parse_graphml(text)
    except (ParseError, networkx.NetworkXError, KeyError, ValueError) as error:
        raise GraphError(f"not GraphML: {' '.join(str(error).split())}") from error
    if graph.is_directed():
        raise GraphError('is directed; expected edgedefault="undirected"')
    return _from_networkx(graph, types)


def to_graphml(graph: TypedGraph, types: GraphTypes) -> str:
    """With the attribute ``type`` of nodes and edges where there are several."""
    import networkx

    record = graph_record(graph, types)
    written = networkx.empty_graph(record["n"])
    for node, name in enumerate(record.get("node_types", ())):
        written.nodes[node][TYPE] = name
    for i, j, *rest in record["edges"]:
        written.add_edge(i, j, **dict(zip((TYPE,), rest, strict=False)))
    return "\n".join(networkx.generate_graphml(written)) + "\n"


def parse_graph6(line: str, types: GraphTypes) -> TypedGraph:
    """A line of graph6, which has no types."""
    import networkx

    try:
        graph = networkx.from_graph6_bytes(line.strip().encode("ascii"))
    except (UnicodeEncodeError, networkx.NetworkXError, ValueError, IndexError) as error:
        raise GraphError(f"not graph6: {' '.join(str(error).split())}") from error
    return _from_networkx(graph, types)


def parse_edge_list(text: str, types: GraphTypes) -> TypedGraph:
    """A line "u v", or "u v type", for each edge; "u" alone is a node; # starts a comment.

    Nodes are any words; they are numbered in the order in which they come first. Types of nodes
    have no place in it.
    """
    number: dict[str, int] = {}
    edges: list[list[Any]] = []
    for at, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].replace(",", " ").split()
        if not words:
            continue
        if len(words) > 3:
            raise GraphError(f"line {at}: expected u v, or u v type, got {line.strip()!r}")
        ends = [number.setdefault(word, len(number)) for word in words[:2]]
        if len(ends) == 2:
            edges.append([*ends, *words[2:]])
            _check_line(edges, len(number), types, at)
    if not number:
        raise GraphError("holds no edge")
    return parse_graph({"n": len(number), "edges": edges}, types)


def _check_line(edges: Sequence[list[Any]], num_nodes: int, types: GraphTypes, at: int) -> None:
    """The last edge alone, so that an error names its line."""
    try:
        parse_graph({"n": num_nodes, "edges": edges[-1:]}, GraphTypes(edges=types.edges))
    except GraphError as error:
        raise GraphError(f"line {at}: {str(error).removeprefix('edges[0]: ')}") from error


def _from_networkx(graph: Any, types: GraphTypes) -> TypedGraph:
    number = {node: k for k, node in enumerate(graph)}
    named = [data.get(TYPE) for _, data in graph.nodes(data=True)]
    edges = [
        [number[u], number[v], *([data[TYPE]] if TYPE in data else [])]
        for u, v, data in graph.edges(data=True)
    ]
    record: dict[str, Any] = {"n": len(graph), "edges": edges}
    if any(name is not None for name in named):
        record["node_types"] = named
    return parse_graph(record, types)
