"""Node-link JSON, as networkx and d3 write it.

    {"nodes": [{"id": "a"}, {"id": "b"}], "links": [{"source": "a", "target": "b"}]}

The edges are under ``links`` or ``edges``. Nodes without an ``id`` are known by their place.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

from discrete_diffusion.domains.graphs.files.notes import Notes

TYPE = "type"
"""The attribute of nodes and edges that names their type."""

_ENDS = ("source", "target")


def is_node_link(record: Any) -> bool:
    """True if an object lists nodes rather than their number."""
    return isinstance(record, Mapping) and "nodes" in record and "n" not in record


def plain_record(record: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    """The same as ``{"n": ..., "edges": ..., "node_types": ...}``; ``ValueError`` naming the field
    for what is none."""
    key = _edge_key(record)
    if record.get("directed"):
        raise ValueError('is directed; expected "directed": false')
    notes.drop_others(record, ("nodes", key, "directed", "multigraph", "graph"), "graph")
    notes.drop_others(record.get("graph") or {}, (), "graph")
    nodes = record["nodes"]
    if not _is_list(nodes):
        raise ValueError(f'nodes: expected a list [{{"id": ...}}], got {reprlib.repr(nodes)}')
    number, names = _numbered(nodes, notes)
    if not _is_list(record[key]):
        raise ValueError(f"{key}: expected a list, got {reprlib.repr(record[key])}")
    edges = [_edge(each, f"{key}[{k}]", number, notes) for k, each in enumerate(record[key])]
    found = {"n": len(nodes), "edges": edges}
    return found | ({"node_types": names} if any(name is not None for name in names) else {})


def _edge_key(record: Mapping[str, Any]) -> str:
    keys = [key for key in ("edges", "links") if key in record]
    if len(keys) == 2:
        raise ValueError(
            'has "edges" and "links": either may be its edges; leave one of the two out'
        )
    if not keys:
        raise ValueError('has "nodes" and neither "edges" nor "links"; expected one of them')
    return keys[0]


def _numbered(nodes: Sequence[Any], notes: Notes) -> tuple[dict[str, int], list[Any]]:
    """The number of each node by its id as JSON, and its type."""
    number: dict[str, int] = {}
    names: list[Any] = []
    for k, node in enumerate(nodes):
        found = node if isinstance(node, Mapping) else {"id": node}
        name = json.dumps(found.get("id", k))
        if name in number:
            raise ValueError(f"nodes[{k}]: the id {name} is that of another node too")
        number[name] = k
        names.append(found.get(TYPE))
        notes.drop_others(found, ("id", TYPE), "node")
    return number, names


def _edge(edge: Any, place: str, number: Mapping[str, int], notes: Notes) -> list[Any]:
    if isinstance(edge, Mapping):
        notes.drop_others(edge, (*_ENDS, TYPE, "key"), "edge")
        missing = [end for end in _ENDS if end not in edge]
        if missing:
            raise ValueError(f"{place}: has no {missing[0]}; expected source and target")
        edge = [*(edge[end] for end in _ENDS), *([edge[TYPE]] if TYPE in edge else [])]
    if not _is_list(edge) or len(edge) < 2:
        raise ValueError(f"{place}: expected source and target, got {reprlib.repr(edge)}")
    ends = [json.dumps(end) for end in edge[:2]]
    unknown = [end for end in ends if end not in number]
    if unknown:
        raise ValueError(f"{place}: {unknown[0]} is the id of no node")
    return [*(number[end] for end in ends), *edge[2:]]


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
