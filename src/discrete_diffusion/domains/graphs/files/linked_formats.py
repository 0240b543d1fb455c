"""Graphs as networkx reads and writes them: GraphML, graph6."""

from __future__ import annotations

import re
import warnings
from typing import Any
from xml.etree.ElementTree import ParseError, fromstring

from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.domains.graphs.files.node_links import TYPE
from discrete_diffusion.domains.graphs.files.notes import Notes
from discrete_diffusion.domains.graphs.files.records import GraphError, graph_record, parse_graph
from discrete_diffusion.domains.graphs.graph_types import GraphTypes
from discrete_diffusion.layout.vocab_config import MOST_NODES


def parse_graphml(text: str, types: GraphTypes, notes: Notes) -> TypedGraph:
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
    found = fromstring(text.lstrip()).iter()
    names = [each.get("id") for each in found if each.tag.rpartition("}")[2] == "node"]
    if len({*names}) < len(names) or {*names} != {*graph}:
        wrong = next((n for n in graph if n not in names), max(names, key=names.count))
        raise GraphError(
            f"node {wrong} is listed {names.count(wrong)} times; expected each node of an edge, "
            "with its id, once"
        )
    return _from_networkx(graph, types, notes)


def to_graphml(graph: TypedGraph, types: GraphTypes) -> str:
    """GraphML text, with the attribute ``type`` of nodes and edges where there are several."""
    import networkx

    record = graph_record(graph, types)
    written = networkx.empty_graph(record["n"])
    for node, name in enumerate(record.get("node_types", ())):
        written.nodes[node][TYPE] = name
    for i, j, *rest in record["edges"]:
        written.add_edge(i, j, **dict(zip((TYPE,), rest, strict=False)))
    return "\n".join(networkx.generate_graphml(written)) + "\n"


def parse_graph6(line: str, types: GraphTypes, notes: Notes) -> TypedGraph:
    """A line of graph6 or, behind a colon, of sparse6, which have no types."""
    import networkx

    body = re.sub("^>>(graph6|sparse6)<<", "", line.strip())
    read = networkx.from_sparse6_bytes if body[:1] == ":" else networkx.from_graph6_bytes
    if body[:1] in ("&", ";"):
        raise GraphError(f"begins with {body[0]!r}: directed or incremental; write it as graph6")
    wrong = re.search("[^?-~]", body.removeprefix(":"))
    if wrong is not None:
        raise GraphError(
            f"not graph6: character {body.index(wrong[0]) + 1} is {wrong[0]!a}; expected bytes 63 "
            "to 126, ? to ~"
        )
    try:
        num, _ = networkx.readwrite.graph6.data_to_n([ord(c) - 63 for c in body.removeprefix(":")])
        if num > MOST_NODES:  # a few bytes of sparse6 may mean as many as memory holds
            raise GraphError(f"{num:,} nodes, more than {MOST_NODES:,}")
        graph = read(body.encode("ascii"))
    except GraphError:
        raise
    except (UnicodeEncodeError, networkx.NetworkXError, ValueError, IndexError) as error:
        raise GraphError(f"not graph6: {' '.join(str(error).split())}") from error
    return _from_networkx(graph, types, notes)


def _from_networkx(graph: Any, types: GraphTypes, notes: Notes) -> TypedGraph:
    for _, data in graph.nodes(data=True):
        notes.drop_others(data, (TYPE,), "node")
    for _, _, data in graph.edges(data=True):
        notes.drop_others(data, (TYPE, "id"), "edge")
    notes.drop_others(graph.graph, ("node_default", "edge_default"), "graph")
    number = {node: k for k, node in enumerate(graph)}
    named = [data.get(TYPE) for _, data in graph.nodes(data=True)]
    edges = [
        [number[u], number[v], *([data[TYPE]] if TYPE in data else [])]
        for u, v, data in graph.edges(data=True)
    ]
    record: dict[str, Any] = {"n": len(graph), "edges": edges}
    if any(name is not None for name in named):
        record["node_types"] = named
    return parse_graph(record, types, notes)
