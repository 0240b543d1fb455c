"""Bubble diagrams as networkx graphs and as GraphML text."""

from __future__ import annotations

import json
import re
import reprlib
import warnings
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import ParseError

from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.code_tables import CODE_TABLES, OUR_TABLE, areas_of, room_types
from floor_plans.diagrams.files.fields import DiagramError, read_relations, room_code
from floor_plans.diagrams.files.json_text import check_keys, check_metadata, load_json
from floor_plans.diagrams.files.records import Plan
from floor_plans.diagrams.vocabulary import RELATIONS

if TYPE_CHECKING:
    import networkx

_SIDES = ("x0", "y0", "x1", "y1")

NODE_ATTRIBUTES, EDGE_ATTRIBUTES = "node attributes", "edge attributes"
"""Names of the parts of a foreign graph that its diagram leaves out."""

_DEFAULTS = ("node_default", "edge_default")
"""Graph attributes that networkx adds to every GraphML graph, mostly empty."""


def to_networkx(diagram: BubbleDiagram) -> networkx.DiGraph:
    """Convert to a directed graph: node k has ``room`` (and ``x0 y0 x1 y1``), an edge ``relation``.

    Edge (i, j) reads "room i is ``relation`` room j". Metadata is in ``graph.graph["metadata"]``.

    Args:
        diagram: N rooms, E relations.

    Returns:
        A graph of the nodes 0 to N - 1 and E edges, i < j; rooms and relations by name, sides of
        boxes as numbers in their own unit.
    """
    import networkx

    graph = networkx.DiGraph(metadata=dict(diagram.metadata))
    for k, room in enumerate(diagram.room_names):
        box = {} if diagram.boxes is None else dict(zip(_SIDES, diagram.boxes[k], strict=True))
        graph.add_node(k, room=room, **box)
    for i, j, relation in diagram.relations:
        graph.add_edge(i, j, relation=RELATIONS[relation])
    return graph


def read_networkx(graph: networkx.DiGraph, *, codes: str = OUR_TABLE) -> Plan:
    """Read the plan of a graph; rooms are numbered in its node order.

    ``codes``: table of rooms given as integers. Graph attributes become metadata; attributes of
    nodes and edges that ``to_networkx`` does not write are left out. Raises ``DiagramError`` for an
    undirected graph or a missing or wrong attribute.
    """
    if not graph.is_directed():
        reason = "expected a directed graph: an edge reads 'source is relation target'"
        raise DiagramError("", reason)
    # rooms and boxes from the nodes
    number = {node: k for k, node in enumerate(graph)}
    rooms, places, boxes = [], [], []
    left_out: list[str] = []
    for node, data in graph.nodes(data=True):
        where = f"node {reprlib.repr(node)}"
        if "room" not in data:
            raise DiagramError(where, "has no attribute 'room'")
        rooms.append(data["room"])
        places.append(where)
        if any(side in data for side in _SIDES):
            boxes.append([data.get(side) for side in _SIDES])
        left_out += [NODE_ATTRIBUTES] * len(data.keys() - {"room", *_SIDES})
    # relations from the edges
    relations = []
    for source, target, data in graph.edges(data=True):
        if "relation" not in data:
            where = f"edge ({reprlib.repr(source)}, {reprlib.repr(target)})"
            raise DiagramError(where, "has no attribute 'relation'")
        relations.append((number[source], number[target], data["relation"]))
        left_out += [EDGE_ATTRIBUTES] * len(data.keys() - {"relation"})
    # integer codes are translated by their table
    if codes != OUR_TABLE:
        areas = partial(areas_of, boxes) if len(boxes) == len(rooms) else None
        rooms = room_types(rooms, CODE_TABLES[codes], places, areas)
    diagram = BubbleDiagram(
        rooms=tuple(room_code(room, where) for room, where in zip(rooms, places, strict=True)),
        relations=read_relations(relations, len(rooms), "relations"),
        boxes=tuple(map(tuple, boxes)) if boxes else None,
        metadata=_metadata(graph.graph),
    )
    return Plan(diagram, tuple(left_out))


def from_networkx(graph: networkx.DiGraph) -> BubbleDiagram:
    """Invert ``to_networkx``; rooms are numbered in the graph's node order.

    Args:
        graph: N nodes with any names, E edges.

    Returns:
        A diagram of N rooms and E relations.

    Raises:
        ValueError: the graph is undirected, has a loop or edges both ways between two rooms, or an
            attribute of a node, an edge or the graph is missing or wrong.
    """
    return read_networkx(graph).diagram


def _metadata(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata of a diagram: the graph attribute ``metadata`` merged with all other attributes."""
    metadata = attributes.get("metadata", {})
    if not isinstance(metadata, Mapping):
        raise DiagramError("metadata", f"expected a mapping, got {reprlib.repr(metadata)}")
    others = {
        name: value
        for name, value in attributes.items()
        if name != "metadata" and (value or name not in _DEFAULTS)
    }
    if twice := metadata.keys() & others.keys():
        name = min(map(str, twice))
        raise DiagramError(name, "is both a graph attribute and a key of the metadata")
    return {**metadata, **others}


def to_node_link(diagram: BubbleDiagram) -> dict[str, Any]:
    """Convert to networkx's node-link object, the result of ``node_link_data(edges="edges")``.

    Written out here because releases of networkx differ in the name of the list of edges.

    Args:
        diagram: N rooms, E relations.

    Returns:
        An object with ``directed``, ``multigraph``, ``graph`` (with the metadata), N ``nodes`` and
        E ``edges``; the metadata is not checked to be JSON.
    """
    graph = to_networkx(diagram)
    return {
        "directed": True,
        "multigraph": False,
        "graph": dict(graph.graph),
        "nodes": [{**data, "id": node} for node, data in graph.nodes(data=True)],
        "edges": [
            {**data, "source": source, "target": target}
            for source, target, data in graph.edges(data=True)
        ],
    }


def to_graphml(diagram: BubbleDiagram) -> str:
    """Convert to GraphML text, with the metadata as a JSON string.

    Raises ``ValueError`` if the metadata cannot be written as JSON.
    """
    import networkx

    graph = to_networkx(diagram)
    try:
        graph.graph["metadata"] = json.dumps(graph.graph["metadata"], allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DiagramError("metadata", f"cannot be written as JSON ({error})") from error
    return "\n".join(networkx.generate_graphml(graph))


def read_graphml(graph: networkx.DiGraph, *, codes: str = OUR_TABLE) -> Plan:
    """Read the plan of a graph of ``graph_of``, and check its metadata."""
    plan = read_networkx(graph, codes=codes)
    check_metadata(plan.diagram.metadata)
    return plan


def from_graphml(text: str) -> BubbleDiagram:
    """Invert ``to_graphml``; ``ValueError`` for other text."""
    return read_graphml(graph_of(text)).diagram


def graph_of(text: str) -> networkx.DiGraph:
    """Parse GraphML text and its metadata.

    Raises ``DiagramError`` for other text, and for several graphs.
    """
    import networkx

    # exactly one graph, in valid XML
    if (num_graphs := len(re.findall(r"<graph[\s>]", text))) > 1:
        raise DiagramError("", f"it holds {num_graphs} graphs; expected one, a file each")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="No key type for id")  # text is the default
            graph = networkx.parse_graphml(text)
    except (ParseError, networkx.NetworkXError, KeyError, ValueError) as error:
        shown = " ".join(str(error).split())
        raise DiagramError("", f"not a GraphML graph: {shown}") from error
    # metadata is JSON text in an attribute of the graph
    written = graph.graph.get("metadata", "{}")
    if not isinstance(written, str):
        raise DiagramError("metadata", f"expected JSON text, got {reprlib.repr(written)}")
    try:
        graph.graph["metadata"] = load_json(written.encode())
    except DiagramError as error:
        raise DiagramError("metadata", f"is not JSON ({error.reason})") from error
    if isinstance(graph.graph["metadata"], Mapping):
        check_keys(graph.graph["metadata"])
    return graph
