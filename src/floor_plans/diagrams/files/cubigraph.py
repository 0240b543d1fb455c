"""Plans of CubiGraph5K: adjacent rooms, with or without a door; no dimensions.

    {"6044": {"room_type_count": {"Bath": 2, ...}, "graph": {"Bath_1": {"Entry_1": 2, ...}, ...}}}

In ``graph`` 1 is a shared wall, 2 a door or an opening; each pair is listed by both of its rooms.
"""

from __future__ import annotations

import re
import reprlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.fields import DiagramError, check_size, room_code
from floor_plans.diagrams.files.records import Plan
from floor_plans.diagrams.vocabulary import ADJACENCY, ADJACENT, DOOR

GRAPH, COUNTS = "graph", "room_type_count"

_RELATIONS = {1: ADJACENT, 2: DOOR}
_NUMBER = re.compile(r"_\d+$")


def plans_by_id(data: object) -> Mapping[str, Any] | None:
    """Plans by id, if a JSON object holds nothing else; None for other objects."""
    if not isinstance(data, Mapping) or not data:
        return None
    plans = data.values()
    is_table = all(isinstance(plan, Mapping) and GRAPH in plan and COUNTS in plan for plan in plans)
    return data if is_table else None


def parse_cubigraph(data: Mapping[str, Any], codes: str, n_max: int, threshold: float) -> Plan:
    """Read one plan: rooms in the order of ``graph``, other keys as metadata.

    Raises ``DiagramError`` naming the wrong field, also if two rooms contradict each other, or
    ``graph`` and ``room_type_count``.
    """
    # the graph is an object with the neighbours of each room
    graph = data[GRAPH]
    if not isinstance(graph, Mapping) or not graph:
        reason = f"expected an object with the neighbours of each room, got {reprlib.repr(graph)}"
        raise DiagramError(GRAPH, reason)
    check_size(len(graph), n_max, GRAPH)
    # types are names without their number, and have to agree with the counts
    types = [_NUMBER.sub("", name) for name in graph]
    if COUNTS in data and data[COUNTS] != (counted := dict(Counter(types))):
        value = f"{reprlib.repr(data[COUNTS])}, but the graph has {reprlib.repr(counted)}"
        raise DiagramError(COUNTS, f"says {value}")
    rooms = [
        room_code(kind, f"{GRAPH}[{name}]", ADJACENCY)
        for kind, name in zip(types, graph, strict=True)
    ]
    return Plan(
        BubbleDiagram(
            tuple(rooms),
            tuple((i, j, r) for (i, j), r in _relations(graph).items()),
            metadata={key: value for key, value in data.items() if key not in (GRAPH, COUNTS)},
        )
    )


def _relations(graph: Mapping[str, Any]) -> dict[tuple[int, int], int]:
    """Relation code of each pair i < j, which both rooms have to state alike."""
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
                reason = (
                    f"expected 1 (a wall between them) or 2 (a door), got {reprlib.repr(value)}"
                )
                raise DiagramError(f"{where}[{other}]", reason)
            i, j = sorted((number[name], number[other]))
            if found.setdefault((i, j), _RELATIONS[value]) != _RELATIONS[value]:
                reason = f"{value}, but {GRAPH}[{other}][{name}] is {graph[other][name]}"
                raise DiagramError(f"{where}[{other}]", reason)
    return found
