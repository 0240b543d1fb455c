"""RLVR JSON: what its own reader asks for, and plans of others."""

from __future__ import annotations

import json
from copy import deepcopy
from itertools import combinations

import pytest
from drawn_plans import GAP, by_hand, embedded, measured, nearest_types

from floor_plans import BubbleDiagram
from floor_plans.drawings.houseganpp import rlvr_of
from floor_plans.drawings.readers import read_report
from floor_plans.plans.floor_plan import FRONT_DOOR, Door, FloorPlan

pytest.importorskip("ezdxf", reason="dimensioned plans take the extra plans")
shapely = pytest.importorskip("shapely", reason="dimensioned plans take the extra plans")


def ring(x0, y0, x1, y1):
    return [{"x": x, "y": y} for x, y in ((x0, y0), (x1, y0), (x1, y1), (x0, y1))]


THEIRS = {
    "room_count": 4,
    "spaces": [
        {"id": "bedroom|0", "room_type": "bedroom", "floor_polygon": ring(0, 0, 3, 3)},
        {"id": "bedroom|1", "room_type": "bedroom", "floor_polygon": ring(3.2, 0, 7, 3)},
        {"id": "interior_door", "room_type": "interior_door", "floor_polygon": ring(1, 3, 2, 3.2)},
        {"id": "living_room", "room_type": "living_room", "floor_polygon": ring(0, 3.2, 7, 8)},
        {"id": "study_room", "room_type": "study_room", "floor_polygon": ring(7.2, 3.2, 9, 8)},
        {"id": "front_door", "room_type": "front_door", "floor_polygon": ring(3, 8, 4, 8.1)},
    ],
}


def read(tmp_path, data):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(data))
    return read_report(path)


def test_spaces_are_rooms_and_doors_and_the_graph_is_that_of_relations():
    for plan in [by_hand(), *embedded(3)]:
        data = json.loads(rlvr_of(plan))
        spaces = data["spaces"]
        num_rooms = plan.diagram.num_rooms
        assert data["room_count"] == num_rooms
        assert len(spaces) == num_rooms + len(plan.doors)
        assert len({space["id"] for space in spaces}) == len(spaces)
        shapes = [shapely.Polygon([(p["x"], p["y"]) for p in s["floor_polygon"]]) for s in spaces]
        for space, drawn, floor in zip(spaces, shapes, plan.rooms, strict=False):
            assert drawn.equals(shapely.Polygon(floor.exterior))  # one ring
            assert space["area"] == pytest.approx(floor.area, abs=0.005)
        assert data["total_area"] == pytest.approx(sum(plan.areas), abs=0.005)
        inner = {space["id"] for space in spaces if space["room_type"] == "interior_door"}
        assert list(data["input_graph"]) == [s["id"] for s in spaces if s["id"] not in inner]
        number = {space["id"]: k for k, space in enumerate(spaces)}
        pairs = {(number[i], number[j]) for i, found in data["input_graph"].items() for j in found}
        assert all((j, i) in pairs for i, j in pairs)
        expected = {(i, j) for i, j, _ in plan.diagram.relations}
        fronts = [k for k, door in enumerate(plan.doors) if door.is_front]
        expected |= {(plan.doors[k].rooms[0], num_rooms + k) for k in fronts}
        assert {pair for pair in pairs if pair[0] < pair[1]} == expected
    names = [space["room_type"] for space in json.loads(rlvr_of(by_hand()))["spaces"]]
    assert names[:4] == ["balcony", "bedroom", "living_room", "bathroom"]
    assert names[4:] == ["bedroom", "storage", *["interior_door"] * 3, "front_door"]


def connected(data):
    """The pairs of rooms that the format's own reader takes a door to join: both within 0.2 m of
    it, their walls within 0.3 m of its middle, and less than 0.3 of it over a room that it lies
    partly in. Its limits, written anew."""
    shapes = {
        space["id"]: shapely.Polygon([(p["x"], p["y"]) for p in space["floor_polygon"]])
        for space in data["spaces"]
    }
    types = {space["id"]: space["room_type"] for space in data["spaces"]}
    rooms = {name: shape for name, shape in shapes.items() if types[name] != "interior_door"}
    pairs = set()
    for name, door in shapes.items():
        if types[name] != "interior_door":
            continue
        over = [door.intersection(room).area for room in rooms.values() if door.overlaps(room)]
        near = [
            each
            for each, room in rooms.items()
            if door.buffer(0.2).intersects(room) and room.boundary.distance(door.centroid) <= 0.3
        ]
        if all(area <= 0.3 * door.area for area in over):
            pairs |= set(combinations(near, 2))
    return pairs


def test_its_own_reader_takes_our_doors_for_doors():
    boxes = ((0.0, 0.0, 4.0, 3.0), (4.0, 0.0, 6.0, 3.0), (0.0, 3.0, 6.0, 5.0), (6.2, 0.0, 8.0, 5.0))
    doors = (
        Door((0, 1), (4.0, 1.0), (4.0, 2.0)),  # in walls of no thickness
        Door((0, 2), (1.0, 3.0), (2.0, 3.0)),
        Door((1, 3), (6.1, 1.0), (6.1, 2.0)),  # in a gap
        Door((2, 3), (6.1, 3.5), (6.1, 4.5), 0.2),
    )
    plan = FloorPlan(BubbleDiagram((0, 1, 2, 3), (), boxes), doors)
    names = ["living_room", "bedroom", "kitchen", "bathroom"]
    data = json.loads(rlvr_of(plan))
    assert connected(data) == {tuple(names[room] for room in door.rooms) for door in doors}
    for space in data["spaces"][4:]:  # and hardly lie over any room
        drawn = shapely.Polygon([(p["x"], p["y"]) for p in space["floor_polygon"]])
        assert sum(drawn.intersection(room).area for room in plan.rooms) < 0.002


def test_a_plan_of_others_is_measured(tmp_path):
    (diagram,) = read(tmp_path, THEIRS).diagrams
    plan = FloorPlan.of(diagram)
    assert plan.diagram.room_names == ("SecondRoom", "MasterRoom", "LivingRoom", "StudyRoom")
    assert plan.diagram.boxes[1] == (3.2, 0, 7, 3)
    assert plan.diagram.relations == measured(plan.diagram.boxes, GAP)
    assert [door.rooms for door in plan.doors] == [(0, 2), (2, FRONT_DOOR)]
    assert plan.doors[0].thickness == pytest.approx(0.2)
    path = tmp_path / "plans.jsonl"
    path.write_text((json.dumps(THEIRS) + "\n") * 3)
    assert [each.relations for each in read_report(path).diagrams] == [diagram.relations] * 3


def test_without_our_json_types_are_those_of_the_format(tmp_path):
    plan = by_hand()
    data = json.loads(rlvr_of(plan))
    del data["discrete_diffusion"]
    found = FloorPlan.of(read(tmp_path, data).diagrams[0])
    assert found.diagram.rooms == nearest_types(plan) != plan.diagram.rooms
    assert found.diagram.boxes == plan.diagram.boxes
    assert found.diagram.relations == measured(plan.diagram.boxes, GAP)
    assert [door.rooms for door in found.doors] == [door.rooms for door in plan.doors]
    assert found.boundary is None


def test_a_type_that_was_edited_counts(tmp_path):
    data = json.loads(rlvr_of(by_hand()))
    data["spaces"][0]["room_type"] = "study_room"
    names = read(tmp_path, data).diagrams[0].room_names
    assert names == ("StudyRoom", *by_hand().diagram.room_names[1:])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"room_type": "attic"}, ["'spaces[0].room_type'", "living_room", "'attic'"]),
        ({"room_type": ["bedroom"]}, ["'spaces[0].room_type'", "expected one of", "['bedroom']"]),
        ({"room_type": None}, ["'spaces[0].room_type'", "got None"]),
        ({"floor_polygon": None}, ["'spaces[0].floor_polygon'", '"x"', "None"]),
        ({"floor_polygon": [{"x": 0, "y": 0}]}, ["'spaces[0].floor_polygon'", "corners"]),
        ({"floor_polygon": ring(0, 0, 1, float("nan"))}, ["floor_polygon'", "nan"]),
        ({"floor_polygon": [[0, 0], [1, 0], [1, 1]]}, ["floor_polygon'", "corners"]),
    ],
)
def test_what_is_wrong_is_said(tmp_path, change, words):
    data = deepcopy(THEIRS)
    data["spaces"][0] |= change
    with pytest.raises(ValueError) as caught:
        read(tmp_path, data)
    for word in ("plan.json", *words):
        assert word in str(caught.value)
    with pytest.raises(ValueError, match="'spaces': a diagram needs at least one room"):
        read(tmp_path, {"spaces": []})
