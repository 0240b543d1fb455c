"""Structure of a set of diagrams: validity and density."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from discrete_diffusion.layout import ROOM_TYPES
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.geometry import Flags, transitive_closure
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.partial import PartialDiagram
from floor_plans.diagrams.vocabulary import NO_EDGE

LIVING_ROOM, ENTRANCE = ROOM_TYPES.index("LivingRoom"), ROOM_TYPES.index("Entrance")


def structure_metrics(diagrams: Sequence[BubbleDiagram]) -> dict[str, float]:
    """Compute metrics of a set that need no reference, by name.

    Shares of diagrams, in 0..1:
    ``connected``: every room can be reached from every other over listed relations. ``valid``:
    connected, at most one living room and at most one entrance.
    ``transitive``: some arrangement of points obeys all relations. Along each axis, a relation that
    orders its two rooms is an arc from the smaller coordinate to the larger ("left-above" on both
    axes, "above" on y only, "inside" and "surrounding" on neither); the axis is consistent if these
    arcs have no directed cycle.
    ``inside_valid``: no room lies inside a room of a type in ``FORBIDDEN_INSIDE``; (i, j, inside)
    has i as the inner room, (i, j, surrounding) has j.

    For relations without direction only ``connected`` is computed: such plans may have two living
    rooms, and their relations cannot contradict each other.

    ``edges_per_diagram``: mean number of listed relations. ``edge_presence``: listed relations /
    possible pairs of rooms, both summed over diagrams; 0 for diagrams of one room.

    ``BubbleDiagram`` refuses illegal codes at construction, so only the structure is tested here.
    Deviation: an empty set is an error here, not inside-valid.
    """
    measured = DiagramSet.of(diagrams)
    num_relations = int(measured.num_relations.sum())
    num_pairs = int((measured.num_rooms * (measured.num_rooms - 1) // 2).sum())
    flags = property_flags(measured)
    return {
        **{name: float(flag.mean()) for name, flag in flags.items()},
        "edges_per_diagram": num_relations / len(measured),
        "edge_presence": num_relations / max(num_pairs, 1),
    }


def property_flags(measured: DiagramSet) -> dict[str, Flags]:
    """Properties of each diagram by name, Bool[M]."""
    if not measured.vocabulary.has_directions:
        return {"connected": measured.connected}
    living, entrances = measured.room_counts[:, LIVING_ROOM], measured.room_counts[:, ENTRANCE]
    one_living, one_entrance = living <= 1, entrances <= 1
    horizontal, vertical = measured.horizontally_transitive, measured.vertically_transitive
    return {
        "valid": measured.connected & one_living & one_entrance,
        "connected": measured.connected,
        "at_most_one_living_room": one_living,
        "at_most_one_entrance": one_entrance,
        "exactly_one_living_room": living == 1,
        "transitive": horizontal & vertical,
        "horizontally_transitive": horizontal,
        "vertically_transitive": vertical,
        "inside_valid": measured.inside_valid,
    }


def never_valid(partial: PartialDiagram) -> str | None:
    """Sentence on why no completion of a partial diagram is ``valid``, or None."""
    for room_type in (LIVING_ROOM, ENTRANCE):
        rooms = [k for k, room in enumerate(partial.rooms) if room == room_type]
        if len(rooms) > 1:
            listed = ", ".join(f"rooms[{k}]" for k in rooms)
            return f"{listed} are each a {ROOM_TYPES[room_type]}, and a plan has one at most"
    # pairs that are not excluded by "no-edge" have to connect all rooms
    may_be_related = ~np.eye(partial.num_rooms, dtype=bool)
    for i, j, relation in partial.relations:
        if relation == NO_EDGE:
            may_be_related[i, j] = may_be_related[j, i] = False
    reached = transitive_closure(may_be_related)[0]
    apart = [str(k) for k in range(1, partial.num_rooms) if not reached[k]]
    if apart:
        rooms_apart = f"room {apart[0]}" if len(apart) == 1 else f"rooms {', '.join(apart)}"
        return f'"no-edge" keeps {rooms_apart} apart from room 0, and a plan is connected'
    return None


def stratified_metrics(diagrams: Sequence[BubbleDiagram]) -> dict[int, dict[str, float]]:
    """``structure_metrics`` by room count, ascending, with ``num_diagrams`` of each count."""
    measured = DiagramSet.of(diagrams)
    strata = {}
    for n in np.unique(measured.num_rooms).tolist():
        stratum = measured.select(np.flatnonzero(measured.num_rooms == n))
        strata[n] = {"num_diagrams": float(len(stratum)), **structure_metrics(stratum)}
    return strata
