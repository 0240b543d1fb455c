"""What can be said of a set of diagrams by itself: are they sound plans, how full are they?

Shares lie in 0..1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram
from discrete_diffusion.domains.bubble_diagrams.metrics.diagram_set import DiagramSet
from discrete_diffusion.rooms import ROOM_TYPES

LIVING_ROOM, ENTRANCE = ROOM_TYPES.index("LivingRoom"), ROOM_TYPES.index("Entrance")


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
    measured = DiagramSet.of(diagrams)
    living = measured.room_counts[:, LIVING_ROOM]
    entrances = measured.room_counts[:, ENTRANCE]
    return Validity(
        overall=float((measured.connected & (living <= 1) & (entrances <= 1)).mean()),
        connected=float(measured.connected.mean()),
        at_most_one_living_room=float((living <= 1).mean()),
        at_most_one_entrance=float((entrances <= 1).mean()),
        one_living_room=float((living == 1).mean()),
    )


def spatial_transitivity(diagrams: Sequence[BubbleDiagram]) -> SpatialTransitivity:
    """Share of diagrams that some arrangement of points can honour.

    Per axis, every relation that orders its two rooms there is an arc from the one with the smaller
    coordinate to the other ("left-above" is an arc on both axes, "above" on y only, "inside" and
    "surrounding" on neither). An axis is consistent if these arcs have no directed cycle.
    """
    measured = DiagramSet.of(diagrams)
    horizontal, vertical = measured.horizontally_transitive, measured.vertically_transitive
    return SpatialTransitivity(
        overall=float((horizontal & vertical).mean()),
        horizontal=float(horizontal.mean()),
        vertical=float(vertical.mean()),
    )


def inside_validity(diagrams: Sequence[BubbleDiagram]) -> float:
    """Share of diagrams in which no room lies inside a room of a forbidden type.

    See ``FORBIDDEN_INSIDE``; (i, j, inside) has i as the inner room, (i, j, surrounding) has j.
    Deviation: an empty set is an error here, not 1.
    """
    return float(DiagramSet.of(diagrams).inside_valid.mean())


def edges_per_diagram(diagrams: Sequence[BubbleDiagram]) -> float:
    """Mean number of listed relations."""
    arrays = DiagramSet.of(diagrams).arrays
    return len(arrays.relation) / len(arrays)


def edge_presence(diagrams: Sequence[BubbleDiagram]) -> float:
    """Listed relations / possible pairs of rooms, both summed over diagrams; 0 without a pair."""
    arrays = DiagramSet.of(diagrams).arrays
    possible = int((arrays.num_rooms * (arrays.num_rooms - 1) // 2).sum())
    return len(arrays.relation) / max(possible, 1)


def structure_metrics(diagrams: Sequence[BubbleDiagram]) -> dict[str, float]:
    """What can be said of a set by itself, by name.

    ``valid``, ``connected``, ``at_most_one_living_room``, ``at_most_one_entrance``,
    ``exactly_one_living_room``, ``transitive``, ``horizontally_transitive``,
    ``vertically_transitive``, ``inside_valid``: shares of diagrams.
    ``edges_per_diagram``: the mean. ``edge_presence``: the share of pairs of rooms.
    """
    measured = DiagramSet.of(diagrams)
    structure, order = validity(measured), spatial_transitivity(measured)
    return {
        "valid": structure.overall,
        "connected": structure.connected,
        "at_most_one_living_room": structure.at_most_one_living_room,
        "at_most_one_entrance": structure.at_most_one_entrance,
        "exactly_one_living_room": structure.one_living_room,
        "transitive": order.overall,
        "horizontally_transitive": order.horizontal,
        "vertically_transitive": order.vertical,
        "inside_valid": inside_validity(measured),
        "edges_per_diagram": edges_per_diagram(measured),
        "edge_presence": edge_presence(measured),
    }


def stratified_metrics(diagrams: Sequence[BubbleDiagram]) -> dict[int, dict[str, float]]:
    """By room count, ascending: ``structure_metrics`` of the diagrams with so many rooms.

    ``num_diagrams`` beside them says how many they are; shares of a handful mean little.
    """
    measured = DiagramSet.of(diagrams)
    num_rooms = measured.arrays.num_rooms
    strata = {}
    for n in np.unique(num_rooms).tolist():
        stratum = measured.select(np.flatnonzero(num_rooms == n))
        strata[n] = {"num_diagrams": float(len(stratum)), **structure_metrics(stratum)}
    return strata
