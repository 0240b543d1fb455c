"""Graphs as other programs write them: GraphML, graph6, lists of edges."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any
from xml.etree.ElementTree import ParseError

from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.domains.graphs.files.records import (
    GraphError,
    graph_record,
    parse_edges,
    parse_graph,
)
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

    Nodes are any words. They are numbered in the order of whole numbers if all of them are such,
    else in the order in which they come first. Types of nodes have no place in it.
    """
    found: dict[str, None] = {}
    links: list[list[str]] = []
    for at, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].replace(",", " ").split()
        if len(words) > 3:
            raise GraphError(f"line {at}: expected u v, or u v type, got {line.strip()!r}")
        found |= dict.fromkeys(words[:2])
        if len(words) > 1:
            _check_link(words, types, at)
            links.append(words)
    if not found:
        raise GraphError("holds no edge")
    names = sorted(found, key=int) if all(name.isdecimal() for name in found) else [*found]
    number = {name: k for k, name in enumerate(names)}
    edges = [[number[u], number[v], *rest] for u, v, *rest in links]
    return parse_graph({"n": len(names), "edges": edges}, types)


def _check_link(words: Sequence[str], types: GraphTypes, at: int) -> None:
    """So that an error names its line."""
    ends = [0, int(words[0] != words[1])]
    try:
        parse_edges([[*ends, *words[2:]]], 2, types)
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
