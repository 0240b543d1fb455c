"""Metrics of bubble diagrams: are samples sound plans, and do they look like real ones?

Every metric ignores the order in which a diagram lists its rooms. Shares lie in 0..1. A set
without a diagram is refused with ``ValueError``: no share or histogram is defined for it.

Axes: ``M`` diagrams, ``R`` rooms of all diagrams, ``E`` listed relations of all diagrams.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discrete_diffusion.metrics.diagram_arrays import DiagramArrays, reachable
from discrete_diffusion.rooms import (
    FORBIDDEN_INSIDE,
    RELATION_X_ORDER,
    RELATION_Y_ORDER,
    RELATIONS,
    ROOM_TYPES,
)

if TYPE_CHECKING:
    from discrete_diffusion.data.bubble_diagrams.diagram import BubbleDiagram

LIVING_ROOM, ENTRANCE = ROOM_TYPES.index("LivingRoom"), ROOM_TYPES.index("Entrance")
INSIDE, SURROUNDING = RELATIONS.index("inside"), RELATIONS.index("surrounding")
NUM_RELATIONS = len(RELATIONS) - 1
"""Relation codes 0..9; "no-edge" is none of them."""


@dataclass(frozen=True)
class Validity:
    """Shares of diagrams with each structural property.

    ``overall``: connected, at most one living room and at most one entrance.
    ``connected``: any room can be reached from any other over listed relations.
    ``one_living_room``: exactly one; not part of ``overall``.
    """

    overall: float
    connected: float
    at_most_one_living_room: float
    at_most_one_entrance: float
    one_living_room: float


@dataclass(frozen=True)
class SpatialTransitivity:
    """Shares of diagrams whose relations contradict each other on neither axis, or not on one."""

    overall: float
    horizontal: float
    vertical: float


def validity(diagrams: Sequence[BubbleDiagram]) -> Validity:
    """Structural validity of M diagrams.

    ``BubbleDiagram`` refuses illegal codes at construction, so only the structure is left to test.
    """
    return _validity(DiagramArrays.pack(diagrams))


def spatial_transitivity(diagrams: Sequence[BubbleDiagram]) -> SpatialTransitivity:
    """Share of diagrams that some arrangement of points can honour.

    Per axis, every relation that orders its two rooms there is an arc from the one with the smaller
    coordinate to the other ("left-above" is an arc on both axes, "above" on y only, "inside" and
    "surrounding" on neither). An axis is consistent if these arcs have no directed cycle.
    """
    return _spatial_transitivity(DiagramArrays.pack(diagrams))


def inside_validity(diagrams: Sequence[BubbleDiagram]) -> float:
    """Share of diagrams in which no room lies inside a room of a forbidden type.

    See ``FORBIDDEN_INSIDE``; (i, j, inside) has i as the inner room, (i, j, surrounding) has j.
    Deviation: an empty set is an error here, not 1.
    """
    return _inside_validity(DiagramArrays.pack(diagrams))


def node_tv(samples: Sequence[BubbleDiagram], reference: Sequence[BubbleDiagram]) -> float:
    """Total variation between the room types of two sets: 1/2 sum_k |p_k - q_k|, pooled rooms."""
    return _node_tv(DiagramArrays.pack(samples), DiagramArrays.pack(reference))


def relation_tv(samples: Sequence[BubbleDiagram], reference: Sequence[BubbleDiagram]) -> float:
    """Total variation between the relations 0..9 of two sets, whatever the order of rooms.

    Every relation is read from the room with the lower type code (read from the other end, code r
    is 9 - r); between equal types it counts half as r and half as 9 - r. Pairs without a relation
    do not count. If just one of the sets has no relation at all, the distance is 1.
    """
    return _relation_tv(DiagramArrays.pack(samples), DiagramArrays.pack(reference))


def edges_per_diagram(diagrams: Sequence[BubbleDiagram]) -> float:
    """Mean number of listed relations."""
    return _edges_per_diagram(DiagramArrays.pack(diagrams))


def room_count_w1(samples: Sequence[BubbleDiagram], reference: Sequence[BubbleDiagram]) -> float:
    """Wasserstein-1 distance of the room counts, in rooms: sum_n |F(n) - G(n)| of the CDFs."""
    return _room_count_w1(DiagramArrays.pack(samples), DiagramArrays.pack(reference))


def structure_metrics(diagrams: Sequence[BubbleDiagram]) -> dict[str, float]:
    """What can be said of a set by itself, by name.

    ``valid``, ``connected``, ``at_most_one_living_room``, ``at_most_one_entrance``,
    ``exactly_one_living_room``, ``transitive``, ``horizontally_transitive``,
    ``vertically_transitive``, ``inside_valid``: shares of diagrams.
    ``edges_per_diagram``: the mean.
    """
    return _structure_metrics(DiagramArrays.pack(diagrams))


def bubble_metrics(
    samples: Sequence[BubbleDiagram], reference: Sequence[BubbleDiagram]
) -> dict[str, float]:
    """All of the above by name, for a report: ``structure_metrics`` of the samples, then

    ``node_tv``, ``relation_tv``, ``room_count_w1``: distances from ``reference``, 0 is best.
    ``edges_per_diagram_reference``: the reference's mean.

    A distance depends on the sizes of both sets; quote them with it.
    """
    drawn, real = DiagramArrays.pack(samples), DiagramArrays.pack(reference)
    return {
        **_structure_metrics(drawn),
        "node_tv": _node_tv(drawn, real),
        "relation_tv": _relation_tv(drawn, real),
        "room_count_w1": _room_count_w1(drawn, real),
        "edges_per_diagram_reference": _edges_per_diagram(real),
    }


def _structure_metrics(arrays: DiagramArrays) -> dict[str, float]:
    structure, order = _validity(arrays), _spatial_transitivity(arrays)
    return {
        "valid": structure.overall,
        "connected": structure.connected,
        "at_most_one_living_room": structure.at_most_one_living_room,
        "at_most_one_entrance": structure.at_most_one_entrance,
        "exactly_one_living_room": structure.one_living_room,
        "transitive": order.overall,
        "horizontally_transitive": order.horizontal,
        "vertically_transitive": order.vertical,
        "inside_valid": _inside_validity(arrays),
        "edges_per_diagram": _edges_per_diagram(arrays),
    }


def _validity(arrays: DiagramArrays) -> Validity:
    connected = _is_connected(arrays)
    living, entrances = arrays.count_rooms(LIVING_ROOM), arrays.count_rooms(ENTRANCE)
    return Validity(
        overall=float((connected & (living <= 1) & (entrances <= 1)).mean()),
        connected=float(connected.mean()),
        at_most_one_living_room=float((living <= 1).mean()),
        at_most_one_entrance=float((entrances <= 1).mean()),
        one_living_room=float((living == 1).mean()),
    )


def _is_connected(arrays: DiagramArrays) -> NDArray[np.bool_]:
    """Bool[M]: room 0 reaches every room; the empty slots of smaller diagrams do not count."""
    arcs = arrays.adjacency(arrays.source, arrays.target, arrays.diagram)
    reached = reachable(arcs | arcs.swapaxes(1, 2))[:, 0, :]
    reached[:, 0] = True
    return np.equal(reached.sum(axis=1), arrays.num_rooms)


def _spatial_transitivity(arrays: DiagramArrays) -> SpatialTransitivity:
    horizontal = _is_acyclic(arrays, np.array(RELATION_X_ORDER))
    vertical = _is_acyclic(arrays, np.array(RELATION_Y_ORDER))
    return SpatialTransitivity(
        overall=float((horizontal & vertical).mean()),
        horizontal=float(horizontal.mean()),
        vertical=float(vertical.mean()),
    )


def _is_acyclic(arrays: DiagramArrays, order_of: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Bool[M]: the arcs from smaller to larger coordinate have no directed cycle."""
    order = order_of[arrays.relation]
    ordered = order != 0
    smaller = np.where(order < 0, arrays.source, arrays.target)[ordered]
    larger = np.where(order < 0, arrays.target, arrays.source)[ordered]
    paths = reachable(arrays.adjacency(smaller, larger, arrays.diagram[ordered]))
    return np.logical_not(np.diagonal(paths, axis1=1, axis2=2).any(axis=1))


def _inside_validity(arrays: DiagramArrays) -> float:
    forbidden = np.zeros((len(ROOM_TYPES), len(ROOM_TYPES)), dtype=bool)
    for inner_type, outer_types in FORBIDDEN_INSIDE.items():
        forbidden[inner_type, list(outer_types)] = True
    inner_first = arrays.relation == INSIDE
    nested = inner_first | (arrays.relation == SURROUNDING)
    inner = np.where(inner_first, arrays.source_type, arrays.target_type)
    outer = np.where(inner_first, arrays.target_type, arrays.source_type)
    broken = np.bincount(arrays.diagram[nested & forbidden[inner, outer]], minlength=len(arrays))
    return float((broken == 0).mean())


def _node_tv(samples: DiagramArrays, reference: DiagramArrays) -> float:
    num_types = len(ROOM_TYPES)
    return _total_variation(
        np.bincount(samples.rooms, minlength=num_types),
        np.bincount(reference.rooms, minlength=num_types),
    )


def _relation_tv(samples: DiagramArrays, reference: DiagramArrays) -> float:
    return _total_variation(_relation_histogram(samples), _relation_histogram(reference))


def _relation_histogram(arrays: DiagramArrays) -> NDArray[np.float64]:
    """Float[10]: relations read from the lower room type; between equal types, from both ends."""
    source, target = arrays.source_type, arrays.target_type
    flipped = NUM_RELATIONS - 1 - arrays.relation
    read = np.where(source <= target, arrays.relation, flipped)
    read_back = np.where(source < target, arrays.relation, flipped)
    both = np.bincount(np.concatenate([read, read_back]), minlength=NUM_RELATIONS)
    return both / 2


def _total_variation(counts: NDArray[np.generic], others: NDArray[np.generic]) -> float:
    """1/2 sum |p - q| of two histograms of counts; 1 if just one of them is empty."""
    p, q = (np.asarray(c, dtype=np.float64) for c in (counts, others))
    if not p.any() or not q.any():
        return float(p.any() != q.any())
    return float(np.abs(p / p.sum() - q / q.sum()).sum() / 2)


def _edges_per_diagram(arrays: DiagramArrays) -> float:
    return len(arrays.relation) / len(arrays)


def _room_count_w1(samples: DiagramArrays, reference: DiagramArrays) -> float:
    size = int(max(samples.num_rooms.max(), reference.num_rooms.max())) + 1
    counts = (np.bincount(a.num_rooms, minlength=size) / len(a) for a in (samples, reference))
    p, q = counts
    return float(np.abs(np.cumsum(p - q)).sum())
