"""Structure of a set of diagrams: validity, density, and counts of rooms and relations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.metrics.soundness import Flags, closure
from floor_plans.diagrams.partial import PartialDiagram
from floor_plans.diagrams.rooms import NO_EDGE, ROOM_TYPES
from floor_plans.diagrams.vocabulary import PlanVocabulary

LIVING_ROOM, ENTRANCE = ROOM_TYPES.index("LivingRoom"), ROOM_TYPES.index("Entrance")


def structure_metrics(diagrams: Sequence[BubbleDiagram]) -> dict[str, float]:
    """Metrics of a set by itself, by name.

    Shares of diagrams, in 0..1:
    ``connected``: any room can be reached from any other over listed relations. ``valid``:
    connected, at most one living room and at most one entrance.
    ``transitive``: some arrangement of points can honour all relations. Per axis, every relation
    that orders its two rooms there is an arc from the one with the smaller coordinate to the other
    ("left-above" is an arc on both axes, "above" on y only, "inside" and "surrounding" on neither);
    an axis is consistent if these arcs have no directed cycle.
    ``inside_valid``: no room lies inside a room of a type in ``FORBIDDEN_INSIDE``; (i, j, inside)
    has i as the inner room, (i, j, surrounding) has j.

    Of these only ``connected`` is there where relations have no direction: such plans may well have
    two living rooms, and nothing in them can contradict.

    ``edges_per_diagram``: listed relations, mean. ``edge_presence``: listed relations / possible
    pairs of rooms, both summed over diagrams; 0 without a pair.

    ``BubbleDiagram`` refuses illegal codes at construction, so only the structure is left to test.
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
    """Flags Bool[M] by name."""
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
    """Why no completion of a partial diagram can be ``valid``; None if one can."""
    for room_type in (LIVING_ROOM, ENTRANCE):
        rooms = [k for k, room in enumerate(partial.rooms) if room == room_type]
        if len(rooms) > 1:
            listed = ", ".join(f"rooms[{k}]" for k in rooms)
            return f"{listed} are each a {ROOM_TYPES[room_type]}, and a plan has one at most"
    may_be_related = ~np.eye(partial.num_rooms, dtype=bool)
    for i, j, relation in partial.relations:
        if relation == NO_EDGE:
            may_be_related[i, j] = may_be_related[j, i] = False
    reached = closure(may_be_related)[0]
    apart = [str(k) for k in range(1, partial.num_rooms) if not reached[k]]
    if apart:
        rooms_apart = f"room {apart[0]}" if len(apart) == 1 else f"rooms {', '.join(apart)}"
        return f'"no-edge" keeps {rooms_apart} apart from room 0, and a plan is connected'
    return None


def stratified_metrics(diagrams: Sequence[BubbleDiagram]) -> dict[int, dict[str, float]]:
    """Metrics by room count, ascending: ``structure_metrics`` of diagrams with so many rooms.

    ``num_diagrams`` beside them says how many they are; shares of a handful mean little.
    """
    measured = DiagramSet.of(diagrams)
    strata = {}
    for n in np.unique(measured.num_rooms).tolist():
        stratum = measured.select(np.flatnonzero(measured.num_rooms == n))
        strata[n] = {"num_diagrams": float(len(stratum)), **structure_metrics(stratum)}
    return strata


Counts = NDArray[np.float64]


@dataclass(frozen=True)
class DiagramCounts:
    """Counts that do not depend on the order of rooms.

    ``rooms``: Float64[n + 1], diagrams with k rooms; ``degrees``: rooms with k relations;
    ``edges``: diagrams with k relations; each as long as its largest value needs.
    ``vocabulary``: of its T room types and R relations.
    ``room_types``: Float64[T], rooms of each type.
    ``relations``: Float64[R], related pairs by relation, read from the lower room type; between
    equal types half as it is read from either room.
    ``pairs``, ``related``: Float64[T, T], symmetric: pairs of rooms by their types, and those
    that have a relation.
    """

    rooms: Counts
    degrees: Counts
    edges: Counts
    room_types: Counts
    relations: Counts
    pairs: Counts
    related: Counts
    vocabulary: PlanVocabulary

    def share_related(self, least: int = 1) -> Counts:
        """Float64[T, T]: share of pairs that are related; NaN for fewer than ``least`` pairs."""
        enough = self.pairs >= max(least, 1)
        return np.where(enough, self.related / np.where(enough, self.pairs, 1), np.nan)


def count_diagrams(
    diagrams: Sequence[BubbleDiagram], vocabulary: PlanVocabulary | None = None
) -> DiagramCounts:
    """Count a set of diagrams, see ``DiagramSet``; raises ``ValueError`` if it is empty."""
    counted = DiagramSet.of(diagrams, vocabulary)
    by_pair = counted.pair_histogram
    pairs, unrelated = by_pair.sum(axis=2), by_pair[:, :, -1]
    return DiagramCounts(
        rooms=np.bincount(counted.num_rooms).astype(np.float64),
        degrees=np.trim_zeros(counted.degree_histogram.sum(axis=0), "b"),
        edges=np.bincount(counted.num_relations).astype(np.float64),
        room_types=counted.room_counts.sum(axis=0).astype(np.float64),
        relations=by_pair[:, :, :-1].sum(axis=(0, 1)),
        pairs=_symmetric(pairs),
        related=_symmetric(pairs - unrelated),
        vocabulary=counted.vocabulary,
    )


def _symmetric(upper: Counts) -> Counts:
    """An upper triangle mirrored below its diagonal."""
    return upper + np.triu(upper, 1).T
