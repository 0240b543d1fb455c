"""What makes one diagram sound: connected, without contradiction, nothing where it cannot be.

Axes: ``M`` diagrams.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from discrete_diffusion.domains.bubble_diagrams.metrics.diagram_arrays import (
    DiagramArrays,
    reachable,
)
from discrete_diffusion.rooms import FORBIDDEN_INSIDE, RELATIONS, ROOM_TYPES

Flags = NDArray[np.bool_]

INSIDE, SURROUNDING = RELATIONS.index("inside"), RELATIONS.index("surrounding")


def is_connected(arrays: DiagramArrays) -> Flags:
    """Bool[M]: room 0 reaches every room; the empty slots of smaller diagrams do not count."""
    reached = reachable(arrays.neighbours())[:, 0, :]
    reached[:, 0] = True
    return np.equal(reached.sum(axis=1), arrays.num_rooms)


def is_acyclic(arrays: DiagramArrays, order_of_relation: Sequence[int]) -> Flags:
    """Bool[M]: along one axis, the arcs from smaller to larger coordinate have no directed cycle.

    ``order_of_relation``: per relation code -1 (source first), 1 (target first) or 0 (neither).
    """
    order = np.array(order_of_relation)[arrays.relation]
    ordered = order != 0
    smaller = np.where(order < 0, arrays.source, arrays.target)[ordered]
    larger = np.where(order < 0, arrays.target, arrays.source)[ordered]
    paths = reachable(arrays.adjacency(smaller, larger, arrays.diagram[ordered]))
    return np.logical_not(np.diagonal(paths, axis1=1, axis2=2).any(axis=1))


def is_inside_valid(arrays: DiagramArrays) -> Flags:
    """Bool[M]: no room lies inside a room of a type in which it never lies."""
    forbidden = np.zeros((len(ROOM_TYPES), len(ROOM_TYPES)), dtype=bool)
    for inner_type, outer_types in FORBIDDEN_INSIDE.items():
        forbidden[inner_type, list(outer_types)] = True
    inner_first = arrays.relation == INSIDE
    nested = inner_first | (arrays.relation == SURROUNDING)
    inner = np.where(inner_first, arrays.source_type, arrays.target_type)
    outer = np.where(inner_first, arrays.target_type, arrays.source_type)
    broken = np.bincount(arrays.diagram[nested & forbidden[inner, outer]], minlength=len(arrays))
    return np.equal(broken, 0)
