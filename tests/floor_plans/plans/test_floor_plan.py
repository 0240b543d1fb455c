"""Doors as lines, as boxes and in JSON; properties of a plan that are computed once."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass

import pytest

from floor_plans import BubbleDiagram
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.plans.floor_plan import FRONT_DOOR, Door, FloorPlan, adjacent_rooms, computed_once

shapely = pytest.importorskip("shapely", reason="dimensioned plans take the extra plans")


BOXES = ((0.0, 0.0, 4.0, 3.0), (4.2, 0.0, 6.0, 1.4), (4.2, 1.6, 6.0, 3.0))
"""A room on the left, two on the right, walls of 0.2 m."""


def plan(*doors, unit=None, boxes=BOXES) -> FloorPlan:
    metadata = {"doors": list(doors)} | ({"unit": unit} if unit else {})
    return FloorPlan.of(BubbleDiagram((0, 1, 2), (), boxes, metadata))


def test_a_door_is_its_box_and_back():
    for start, end in (((4.1, 0.2), (4.1, 1.0)), ((4.5, 1.5), (5.5, 1.5))):
        door = Door((0, 1), start, end, 0.2)
        again = Door.from_box((0, 1), door.box(9.0))
        assert [*again.ends, again.thickness] == pytest.approx([*door.ends, 0.2])
    thin = Door((0, 1), (4.1, 1.0), (4.1, 0.2))  # drawn upwards, in no wall
    assert thin.box(0.0) == (4.1, 0.2, 4.1, 1.0)
    assert thin.box(0.2) == pytest.approx((4.0, 0.2, 4.2, 1.0))
    assert thin.box(1.8) == pytest.approx((3.2, 0.2, 5.0, 1.0))  # the wall is thicker than wide


def test_json_gives_the_same_door():
    for door in (
        Door((0, 2), (4.1, 1.7), (4.1, 2.9), 0.2),
        Door((1, FRONT_DOOR), (5.0, 0.0), (5.9, 0.0)),
    ):
        assert Door.from_json(json.loads(json.dumps(door.to_json())), 3) == door
    assert "thickness" not in door.to_json()
    assert door.to_json()["rooms"] == [1, "outside"]
    turned = {"rooms": ["outside", 1], "from": [5.0, 0.0], "to": [5.9, 0.0]}
    assert Door.from_json(turned, 3) == door
    assert Door.from_json({**turned, "rooms": [2, 0]}, 3).rooms == (0, 2)


def test_a_door_without_rooms_lies_between_the_nearest():
    floors = plan().rooms
    assert adjacent_rooms((4.0, 0.2, 4.2, 1.0), floors) == (0, 1)
    assert adjacent_rooms((4.0, 1.5, 4.2, 2.5), floors) == (0, 2)  # the other one is at its corner
    assert adjacent_rooms((4.1, 0.2, 4.1, 1.0), floors) == (0, 1)
    assert adjacent_rooms((4.5, 1.4, 5.5, 1.6), floors) == (1, 2)
    assert adjacent_rooms((6.0, 1.7, 6.2, 2.7), floors, is_front=True) == (2, FRONT_DOOR)
    assert adjacent_rooms((0.0, 0.0, 0.1, 1.0), floors[:1]) == (0, FRONT_DOOR)


def test_doors_as_boxes_are_in_the_unit_of_the_plan():
    box = {"type": "interior-door", "box": [400, 20, 420, 100]}
    rooms = {**box, "box": [420, 140, 600, 160], "rooms": [2, 1]}
    front = {"type": "front-door", "box": [-20, 100, 0, 200]}
    boxes = tuple(tuple(100 * side for side in each) for each in BOXES)
    found = plan(box, rooms, front, unit="centimetres", boxes=boxes)
    assert [door.rooms for door in found.doors] == [(0, 1), (1, 2), (0, FRONT_DOOR)]
    assert found.doors[0].ends == pytest.approx((4.1, 0.2, 4.1, 1.0))
    assert [door.thickness for door in found.doors] == pytest.approx([0.2] * 3)
    assert FloorPlan.of(found.to_diagram()) == found


ENDS = {"from": [0, 0], "to": [1, 0]}


@pytest.mark.parametrize(
    ("door", "words"),
    [
        (3, ["'doors'", "from", "got 3"]),
        ({}, ["'doors'", "from"]),
        ({"rooms": [0, 1], "from": [0, 0], "to": 1}, ["'doors'", "to"]),
        ({"rooms": [0, 1], "from": [0, None], "to": [1, 0]}, ["None is not a finite number"]),
        (ENDS, ["'doors'", "3 rooms", "None"]),
        ({"rooms": [0, 3], **ENDS}, ["'doors'", "3 rooms", "[0, 3]"]),
        ({"rooms": [1, 1], **ENDS}, ["'doors'", "[1, 1]"]),
        ({"rooms": ["outside", "outside"], **ENDS}, ["'doors'", "3 rooms"]),
        ({"rooms": [0, "hall"], **ENDS}, ["'doors'", "'hall'"]),
        ({"rooms": [0, 1, 2], **ENDS}, ["'doors'", "3 rooms"]),
        ({"rooms": [0, 1], **ENDS, "thickness": "thick"}, ["'thick' is not a finite number"]),
        ({"box": [0, 0, 1]}, ["'doors'", "4 numbers"]),
    ],
)
def test_what_is_wrong_is_said(door, words):
    with pytest.raises(DiagramError) as caught:
        plan(door)
    for word in words:
        assert word in str(caught.value)


def test_other_keys_of_a_plan_are_checked_too():
    for metadata, words in (
        ({"unit": ["m"]}, "'unit': .'m'.: expected pixels, metres"),
        ({"doors": 3}, "'doors': expected a list of doors, got 3"),
        ({"boundary": [[0, 0], [1, 1]]}, "'boundary': expected the corners"),
    ):
        with pytest.raises(DiagramError, match=words):
            FloorPlan.of(BubbleDiagram((0, 1, 2), (), BOXES, metadata))


@dataclass(frozen=True)
class Square:
    side: int
    calls: list[int]

    @computed_once
    def area(self) -> int:
        """The area."""
        self.calls.append(self.side)
        if self.side < 0:
            raise ValueError("no square")
        return self.side**2


def test_it_is_computed_at_its_first_use_alone():
    square = Square(3, [])
    assert (square.area, square.area, square.calls) == (9, 9, [3])
    assert Square.area.__doc__ == "The area."
    assert Square(3, square.calls) == square


def test_an_error_is_not_kept():
    square = Square(-1, [])
    for _ in range(2):
        with pytest.raises(ValueError, match="no square"):
            _ = square.area
    assert square.calls == [-1, -1]


def test_objects_do_not_wait_for_each_other():
    """As two threads that meet within it: with a lock for both none would ever come out."""
    meet = threading.Barrier(2, timeout=10)

    class Meeting:
        @computed_once
        def place(self) -> int:
            return meet.wait()

    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(Meeting().place)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [0, 1]
