"""Pairs of types in which two graphs of rooms differ, on graphs worked out by hand."""

from __future__ import annotations

import pytest

pytest.importorskip("ortools", reason="OR-Tools finds plans")
pytest.importorskip("shapely", reason="dimensioned plans take the extra plans")

from field import wrong_typed_pairs
from floor_plans.diagrams.metrics.access import RoomGraph

TYPES = {-1: "outside", 0: "living", 1: "bed", 2: "bed", 3: "bath"}


@pytest.mark.parametrize(
    ("pairs", "typed"),
    [
        ([(-1, 0), (0, 1), (0, 2), (0, 3)], 0),
        ([(-1, 0), (0, 1), (0, 2), (1, 3)], 2),  # en suite
        ([(0, 1), (0, 2), (0, 3)], 1),
    ],
)
def test_pairs_of_types_differ_from_those_of_a_hub(pairs, typed):
    hub = RoomGraph.of(TYPES, [(0, -1), (1, 0), (0, 2), (0, 3)])
    assert wrong_typed_pairs(hub, RoomGraph.of(TYPES, pairs)) == typed


def test_rooms_of_a_type_are_alike():
    one, other = (RoomGraph.of(TYPES, [(0, -1), (0, 1), (0, 2), (bed, 3)]) for bed in (1, 2))
    assert wrong_typed_pairs(one, other) == 0
