"""Distances of graphs of rooms, and space syntax, on graphs worked out by hand."""

from __future__ import annotations

import math

import pytest

from floor_plans.diagrams.metrics.access import RoomGraph, edit_distance, space_syntax, wrong_pairs

TYPES = {-1: "outside", 0: "living", 1: "bed", 2: "bed", 3: "bath"}
HUB = RoomGraph.of(TYPES, [(0, -1), (1, 0), (0, 2), (0, 3)])


@pytest.mark.parametrize(
    ("pairs", "numbered", "edits"),
    [
        ([(-1, 0), (0, 1), (0, 2), (0, 3)], 0, 0),
        ([(-1, 0), (0, 1), (0, 2), (1, 3)], 2, 2),  # en suite
        ([(-1, 0), (0, 1), (1, 2), (0, 3)], 2, 2),
        ([(0, 1), (0, 2), (0, 3)], 1, 1),
    ],
)
def test_distances_from_a_hub(pairs, numbered, edits):
    found = RoomGraph.of(TYPES, pairs)
    assert wrong_pairs(HUB, found) == wrong_pairs(found, HUB) == numbered
    assert edit_distance(HUB, found) == edits


def test_rooms_of_a_type_are_alike_except_by_number():
    one, other = (RoomGraph.of(TYPES, [(0, -1), (0, 1), (0, 2), (bed, 3)]) for bed in (1, 2))
    assert wrong_pairs(one, other) == 2
    assert edit_distance(one, other) == 0
    hall = RoomGraph.of(TYPES | {4: "hall"}, [*HUB.pairs, (0, 4)])
    assert edit_distance(HUB, hall) == 2  # a room and its door
    chain = RoomGraph.of({0: "bed", 1: "bath", 2: "living", 3: "bed"}, [(0, 2), (2, 3), (0, 1)])
    turned = RoomGraph.of({0: "living", 1: "bed", 2: "bed", 3: "bath"}, [(0, 2), (0, 1), (2, 3)])
    assert edit_distance(chain, turned) == 0


def values(graph: RoomGraph) -> dict[int, tuple[float | None, ...]]:
    """Depth, mean depth and integration of each room."""
    return {room: tuple(each.values()) for room, each in space_syntax(graph, -1).items()}


def test_space_syntax_of_a_hub_and_a_chain():
    hub = values(HUB)
    assert hub[0] == (1, 1.0, None)  # all others are next to it
    diamond = 2 * (5 * (math.log2(7 / 3) - 1) + 1) / (4 * 3)  # .352 in the tables
    assert diamond == pytest.approx(0.352, abs=1e-3)
    ra = 2 * (7 / 4 - 1) / 3
    assert hub[3] == (2, 7 / 4, pytest.approx(diamond / ra))
    chain = values(RoomGraph.of(TYPES, [(-1, 0), (0, 1), (1, 2), (2, 3)]))
    assert [chain[room][0] for room in TYPES] == [0, 1, 2, 3, 4]
    assert chain[1][2] > chain[0][2] > chain[3][2]
    apart = values(RoomGraph.of(TYPES, [(-1, 0), (0, 1), (0, 2)]))
    assert apart[0] == (1, None, None)
    assert apart[3] == (None, None, None)
    assert values(RoomGraph.of({0: "living"}, []))[0] == (None, None, None)
