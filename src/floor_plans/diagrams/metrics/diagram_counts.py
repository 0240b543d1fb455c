"""Counts of what a set of diagrams is made of: the numbers behind the histograms and heat maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.vocabulary import PlanVocabulary

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
