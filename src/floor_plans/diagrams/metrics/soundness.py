"""Soundness of diagrams: connected, without contradictions, no room inside a forbidden type.

``relations``: Int[M, n, n], entry (i, j) for i < j is the code r of "room i is RELATIONS[r] room
j", "no-edge" everywhere else. Axes: ``M`` diagrams, ``n`` slots for rooms.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from floor_plans.diagrams.rooms import FORBIDDEN_INSIDE, INSIDE, NO_EDGE, SURROUNDING

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

_FORBIDDEN = np.zeros((RPLAN_VOCAB_CONFIG.node_vocab_size,) * 2, dtype=bool)  # inner, outer type
for _inner, _outer in FORBIDDEN_INSIDE.items():
    _FORBIDDEN[_inner, list(_outer)] = True


def neighbours(relations: Ints, no_edge: int = NO_EDGE) -> Flags:
    """Bool[M, n, n], symmetric: True for rooms with any relation."""
    related = relations != no_edge
    return np.logical_or(related, related.swapaxes(1, 2))


def is_connected(related: Flags, num_rooms: Ints) -> Flags:
    """Bool[M]: room 0 reaches all ``num_rooms`` Int[M]; ``related``: result of ``neighbours``."""
    reached = closure(related)[:, 0, :]
    reached[:, 0] = True
    return np.equal(reached.sum(axis=1), num_rooms)


def is_acyclic(relations: Ints, order_of_relation: Sequence[int]) -> Flags:
    """Bool[M]: the arcs from smaller to larger coordinate along an axis have no directed cycle.

    ``order_of_relation``: for each relation code -1 (i first), 1 (j first) or 0 (neither).
    """
    # arc i -> j if i has the smaller coordinate
    order = np.array(order_of_relation)[relations]
    paths = closure((order < 0) | (order > 0).swapaxes(1, 2))
    return np.logical_not(np.diagonal(paths, axis1=1, axis2=2).any(axis=1))


def is_inside_valid(rooms: Ints, relations: Ints) -> Flags:
    """Bool[M]: no room lies inside a room of a forbidden type.

    ``rooms``: Int[M, n] type codes, PAD in unused slots.
    """
    # pairs (inner, outer) of forbidden types
    never_in = _FORBIDDEN[rooms[:, :, None], rooms[:, None, :]]
    wrong = (relations == INSIDE) & never_in
    wrong |= (relations == SURROUNDING) & never_in.swapaxes(1, 2)
    return np.logical_not(wrong.any(axis=(1, 2)))


def closure(relation: Flags) -> Flags:
    """Transitive closure of Bool[..., n, n] by Warshall: j can be reached from i in steps >= 1."""
    found = relation.copy()
    for k in range(relation.shape[-1]):
        found |= found[..., :, k, None] & found[..., k, None, :]
    return found
