"""House-GAN++ JSON as that project's loader takes it, and its own files written again."""

from __future__ import annotations

import json

import numpy as np
import pytest
from drawn_plans import PIXEL, assert_same, by_hand, embedded, expected_of

from floor_plans import BubbleDiagram
from floor_plans.drawings.houseganpp import houseganpp_of
from floor_plans.drawings.readers import read_report
from floor_plans.plans.floor_plan import FRONT_DOOR, Door, FloorPlan

pytest.importorskip("ezdxf", reason="dimensioned plans take the extra plans")
shapely = pytest.importorskip("shapely", reason="dimensioned plans take the extra plans")

DOORS = (15, 17)


def chained(edges):
    """The corners of walls in a row: each begins where the last one ends, the last where the first
    begins."""
    for one, other in zip(edges, [*edges[1:], edges[0]], strict=True):
        assert one[2:4] == other[:2]
    return [edge[:2] for edge in edges]


def nodes_behind(data):
    """Door -> the rooms behind its walls."""
    found = {}
    for node, *behind in data["ed_rm"]:
        if data["room_type"][node] in DOORS:
            found.setdefault(node, set()).update(behind)
    return found


def test_their_own_plans_keep_rooms_boxes_and_doors(real_data):
    for path in sorted((real_data / "houseganpp_samples").glob("*.json")):
        theirs = json.loads(path.read_text())
        (diagram,) = read_report(path).diagrams
        ours = json.loads(houseganpp_of(FloorPlan.of(diagram, "pixels")))
        assert ours.keys() == {"room_type", "boxes", "edges", "ed_rm"} == theirs.keys()
        assert ours["room_type"] == theirs["room_type"]
        assert ours["boxes"] == theirs["boxes"]
        assert nodes_behind(ours) == nodes_behind(theirs)
        for data in (ours, theirs):  # and both have this form
            assert len(data["edges"]) == len(data["ed_rm"])
            for edge, nodes in zip(data["edges"], data["ed_rm"], strict=True):
                types = [data["room_type"][node] for node in nodes]
                assert edge[4:] == [*types, 0][:2]
                assert 1 <= len(nodes) <= 2
                assert all(node not in DOORS for node in types[1:])


def test_walls_go_round_each_node(tmp_path):
    for plan in embedded(4):
        data = json.loads(houseganpp_of(plan))
        boxes = np.array(data["boxes"])
        assert 0 <= boxes.min() <= boxes.max() <= 256
        for node, floor in enumerate(plan.rooms):
            walls = zip(data["edges"], data["ed_rm"], strict=True)
            edges = [edge for edge, (own, *_) in walls if own == node]
            if not floor.interiors:
                ring = shapely.Polygon(np.array(chained(edges)) * PIXEL)
                assert ring.symmetric_difference(floor).area < 1e-9
            corners = np.array(edges)[:, :4].reshape(-1, 2)
            assert corners.min(0).tolist() == pytest.approx(boxes[node, :2].tolist())
            assert corners.max(0).tolist() == pytest.approx(boxes[node, 2:].tolist())


def test_the_room_behind_a_wall_faces_most_of_it():
    #  living | kitchen          4 pixels between them; the bath is 10 pixels off
    #         | balcony   bath
    pixels = ((0, 0, 40, 40), (44, 0, 80, 25), (44, 29, 80, 40), (90, 29, 120, 40))
    boxes = tuple(tuple(side * PIXEL for side in box) for box in pixels)
    plan = FloorPlan(
        BubbleDiagram((0, 2, 9, 3), (), boxes),
        (Door((0, 1), (42 * PIXEL, 5 * PIXEL), (42 * PIXEL, 15 * PIXEL), 4 * PIXEL),),
    )
    data = json.loads(houseganpp_of(plan))
    assert data["room_type"] == [1, 2, 5, 4, 17]
    assert data["boxes"][4] == [40, 5, 44, 15]
    assert data["ed_rm"] == [
        *([0], [0], [0, 1], [0]),  # left, below, right, above
        *([1, 0], [1, 2], [1], [1]),
        *([2, 0], [2], [2], [2, 1]),
        *([3], [3], [3], [3]),
        *([4, 0], [4], [4, 1], [4]),
    ]
    assert data["edges"][2] == [40, 40, 40, 0, 1, 2]
    assert data["edges"][18] == [44, 15, 44, 5, 17, 2]


def test_a_plan_off_the_pixels_is_moved_and_one_too_large_is_scaled(tmp_path):
    path = tmp_path / "plan.json"
    for shift, scale in ((-3.3, 1.0), (100.0, 1.0), (0.0, 2.0), (7.7, 5.0)):
        hand = by_hand()
        boxes = [tuple(scale * side + shift for side in box) for box in hand.diagram.boxes]
        bare = FloorPlan(BubbleDiagram(hand.diagram.rooms, (), tuple(boxes)))
        path.write_text(houseganpp_of(bare))
        data = json.loads(path.read_text())
        sides = np.array(data["boxes"])
        assert "frame" in data
        assert -1e-6 <= sides.min() <= sides.max() <= 256 + 1e-6
        (read,) = read_report(path).diagrams
        assert_same(FloorPlan.of(read, "pixels"), expected_of("houseganpp", bare))
    data["frame"]["metres_per_pixel"] = 0
    path.write_text(json.dumps(data))
    with pytest.raises(ValueError, match=r"'frame.metres_per_pixel': 0\.?0?: expected more than 0"):
        read_report(path)
    data["frame"] = [1, 2, 3]
    path.write_text(json.dumps(data))
    with pytest.raises(ValueError, match=r"'frame': expected an object with metres_per_pixel"):
        read_report(path)


def test_a_door_in_no_wall_is_four_pixels_thick(tmp_path):
    hand = by_hand()
    data = json.loads(houseganpp_of(hand))
    opening = np.diff(np.array(data["boxes"][6:]).reshape(-1, 2, 2), axis=1)[:, 0] * PIXEL
    thick = [4 * PIXEL if not door.thickness else door.thickness for door in hand.doors]
    assert opening.min(1).tolist() == pytest.approx(thick)


def test_doors_whose_rooms_nobody_says_lead_to_the_nearest(tmp_path):
    path = tmp_path / "plan.json"
    plan = by_hand()
    data = json.loads(houseganpp_of(plan))
    data["ed_rm"] = [nodes[:1] for nodes in data["ed_rm"]]
    path.write_text(json.dumps(data))
    (read,) = read_report(path).diagrams
    assert "rooms" not in read.metadata["doors"][0]
    found = [door.rooms for door in FloorPlan.of(read, "pixels").doors]
    assert found == [(2, 3), (1, 2), (0, 2), (2, FRONT_DOOR)]
