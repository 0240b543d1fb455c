"""Bubble diagrams as graphs: networkx, GraphML and CubiGraph5K, and files of them."""

from __future__ import annotations

import json
import os
import re
import reprlib
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from xml.etree.ElementTree import ParseError

from discrete_diffusion.config import Later
from discrete_diffusion.runtime import atomic_folder, progress, write_text
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.code_tables import CODE_TABLES, OUR_TABLE, areas_of, room_types
from floor_plans.diagrams.files.fields import DiagramError, check_size, read_relations, room_code
from floor_plans.diagrams.files.foreign_files import check_keys, check_metadata, load_plan_json
from floor_plans.diagrams.files.records import Plan
from floor_plans.diagrams.vocabulary import ADJACENCY, ADJACENT, DOOR, RELATIONS

if TYPE_CHECKING:
    import networkx
else:
    networkx = Later("networkx")

_SIDES = ("x0", "y0", "x1", "y1")
_DEFAULTS = ("node_default", "edge_default")  # added to every GraphML graph by networkx, if empty


def to_networkx(diagram: BubbleDiagram) -> networkx.DiGraph:
    """Convert to a directed graph of nodes 0 to N - 1. Node k has ``room`` by name (and ``x0 y0 x1
    y1``, in the unit of the boxes). Edge (i, j), i < j, reads "room i is ``relation`` room j".
    Metadata is in ``graph.graph["metadata"]``."""
    graph = networkx.DiGraph(metadata=dict(diagram.metadata))
    for k, room in enumerate(diagram.room_names):
        box = {} if diagram.boxes is None else dict(zip(_SIDES, diagram.boxes[k], strict=True))
        graph.add_node(k, room=room, **box)
    for i, j, relation in diagram.relations:
        graph.add_edge(i, j, relation=RELATIONS[relation])
    return graph


def read_networkx(graph: networkx.DiGraph, *, codes: str = OUR_TABLE) -> Plan:
    """Read the plan of a graph as ``from_networkx`` does; attributes of nodes and edges that
    ``to_networkx`` does not write are left out. ``codes``: table of rooms given as integers."""
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
        left_out += ["node attributes"] * len(data.keys() - {"room", *_SIDES})
    # relations from the edges
    relations = []
    for source, target, data in graph.edges(data=True):
        if "relation" not in data:
            where = f"edge ({reprlib.repr(source)}, {reprlib.repr(target)})"
            raise DiagramError(where, "has no attribute 'relation'")
        relations.append((number[source], number[target], data["relation"]))
        left_out += ["edge attributes"] * len(data.keys() - {"relation"})
    # integer codes are translated by their table
    if codes != OUR_TABLE:
        areas = partial(areas_of, boxes) if len(boxes) == len(rooms) else None
        rooms = room_types(rooms, CODE_TABLES[codes], places, areas)
    # the attribute ``metadata`` of the graph, merged with all other attributes
    metadata = graph.graph.get("metadata", {})
    if not isinstance(metadata, Mapping):
        raise DiagramError("metadata", f"expected a mapping, got {reprlib.repr(metadata)}")
    listed = [(name, x) for name, x in graph.graph.items() if x or name not in _DEFAULTS]
    others = {name: value for name, value in listed if name != "metadata"}
    if twice := metadata.keys() & others.keys():
        name = min(map(str, twice))
        raise DiagramError(name, "is both a graph attribute and a key of the metadata")
    types = tuple(map(room_code, rooms, places))
    pairs = read_relations(relations, len(rooms), "relations")
    diagram = BubbleDiagram(types, pairs, tuple(map(tuple, boxes)) or None, {**metadata, **others})
    return Plan(diagram, tuple(left_out))


def from_networkx(graph: networkx.DiGraph) -> BubbleDiagram:
    """Invert ``to_networkx``; rooms are numbered in the order of the nodes; any node names work.
    Raises ``ValueError`` for an undirected graph, a loop or edges both ways between two rooms, and
    a missing or wrong attribute."""
    return read_networkx(graph).diagram


def to_graphml(diagram: BubbleDiagram) -> str:
    """Convert to GraphML, with metadata as a JSON string; ``ValueError`` if that cannot hold it."""
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
    """Parse GraphML text and its metadata; ``DiagramError`` for other text and several graphs."""
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
        graph.graph["metadata"] = load_plan_json(written.encode())
    except DiagramError as error:
        raise DiagramError("metadata", f"is not JSON ({error.reason})") from error
    if isinstance(graph.graph["metadata"], Mapping):
        check_keys(graph.graph["metadata"])
    return graph


GRAPH, COUNTS = "graph", "room_type_count"

_RELATIONS = {1: ADJACENT, 2: DOOR}
_NUMBER = re.compile(r"_\d+$")


def plans_by_id(data: object) -> Mapping[str, Any] | None:
    """Plans by id if ``data`` is a JSON object whose values are all plans, else None."""
    if not isinstance(data, Mapping) or not data:
        return None
    plans = data.values()
    is_table = all(isinstance(plan, Mapping) and GRAPH in plan and COUNTS in plan for plan in plans)
    return data if is_table else None


def parse_cubigraph(data: Mapping[str, Any], codes: str, max_nodes: int, threshold: float) -> Plan:
    """Read one plan of CubiGraph5K: rooms in the order of ``graph``, other keys as metadata. Raises
    ``DiagramError`` naming the wrong field, also for statements that contradict each other."""
    graph = data[GRAPH]
    if not isinstance(graph, Mapping) or not graph:
        reason = f"expected an object with the neighbours of each room, got {reprlib.repr(graph)}"
        raise DiagramError(GRAPH, reason)
    check_size(len(graph), max_nodes, GRAPH)
    # types are names without their number, and have to agree with the counts
    types = [_NUMBER.sub("", name) for name in graph]
    if COUNTS in data and data[COUNTS] != (counted := dict(Counter(types))):
        value = f"{reprlib.repr(data[COUNTS])}, but the graph has {reprlib.repr(counted)}"
        raise DiagramError(COUNTS, f"says {value}")
    rooms = tuple(room_code(_NUMBER.sub("", x), f"{GRAPH}[{x}]", ADJACENCY) for x in graph)
    relations = tuple((i, j, r) for (i, j), r in _relations(graph).items())
    metadata = {key: value for key, value in data.items() if key not in (GRAPH, COUNTS)}
    return Plan(BubbleDiagram(rooms, relations, metadata=metadata))


def _relations(graph: Mapping[str, Any]) -> dict[tuple[int, int], int]:
    """Relation code of each pair i < j; if both rooms of a pair state it, they must agree."""
    number = {name: k for k, name in enumerate(graph)}
    found: dict[tuple[int, int], int] = {}
    for name, neighbours in graph.items():
        where = f"{GRAPH}[{name}]"
        if not isinstance(neighbours, Mapping):
            raise DiagramError(where, f"expected an object, got {reprlib.repr(neighbours)}")
        # both ends of a pair have to name it with the same value
        for other, value in neighbours.items():
            if other not in number or other == name:
                raise DiagramError(where, f"{reprlib.repr(other)} is not another room of the plan")
            if type(value) is not int or value not in _RELATIONS:
                expected = "expected 1 (a wall between them) or 2 (a door)"
                raise DiagramError(f"{where}[{other}]", f"{expected}, got {reprlib.repr(value)}")
            i, j = sorted((number[name], number[other]))
            if found.setdefault((i, j), _RELATIONS[value]) != _RELATIONS[value]:
                reason = f"{value}, but {GRAPH}[{other}][{name}] is {graph[other][name]}"
                raise DiagramError(f"{where}[{other}]", reason)
    return found


Drawable = TypeVar("Drawable")

Paths = str | os.PathLike[str]


def write_diagrams(path: Paths, diagrams: Iterable[BubbleDiagram], *, names: bool = True) -> None:
    """Write diagrams as JSON lines, which ``read_diagrams`` reads. ``names``: write room types and
    relations by name, otherwise by code. Raises ``ValueError`` naming the diagram whose metadata
    cannot be written as JSON."""
    write_text(Path(path), lines_of(diagrams, names=names))


def lines_of(diagrams: Iterable[BubbleDiagram], *, names: bool = True) -> str:
    """JSON lines of diagrams, as ``write_diagrams`` writes them."""
    return "".join(f"{text}\n" for text in _texts(diagrams, names))


def write_json_list(path: Paths, diagrams: Iterable[BubbleDiagram], *, names: bool = True) -> None:
    """Write diagrams as one JSON list; otherwise like ``write_diagrams``."""
    write_text(Path(path), "[\n" + ",\n".join(_texts(diagrams, names)) + "\n]\n")


def write_graphml(path: Paths, diagram: BubbleDiagram) -> None:
    """Write one diagram as GraphML, which ``read_diagrams`` reads back."""
    write_text(Path(path), to_graphml(diagram))


def write_each(
    folder: Path,
    suffix: str,
    diagrams: Sequence[Drawable],
    write: Callable[[Path, Drawable], object],
    *,
    replaced: Callable[[Path], object] | None = None,
) -> None:
    """Write diagram k as ``folder/000k.suffix``, numbered from 1; either all files appear or none.
    ``replaced``: see ``atomic_folder``; without it, ``ValueError`` for a folder with files."""
    taken = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    if taken and replaced is None:
        raise ValueError(f"{folder} exists already; choose another name, or --overwrite")
    digits = max(4, len(str(len(diagrams))))
    with atomic_folder(folder, replaced=replaced) as unfinished:
        tracked = progress.track(diagrams, f"writing {folder.name}", "files")
        for number, diagram in enumerate(tracked, start=1):
            write(unfinished / f"{number:0{digits}}{suffix}", diagram)


def _texts(diagrams: Iterable[BubbleDiagram], names: bool) -> Iterator[str]:
    for k, diagram in enumerate(diagrams):
        data = diagram.to_json(names=names)
        try:
            yield json.dumps(data, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            reason = f"its metadata cannot be written as JSON ({error})"
            raise ValueError(f"diagram {k}: {reason}") from error
