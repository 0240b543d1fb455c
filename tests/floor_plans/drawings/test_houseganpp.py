"""House-GAN++ JSON as that project's loader takes it, and its own files written again."""

from __future__ import annotations

import json
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from drawn_plans import PIXEL, assert_same, by_hand, embedded, expected_of

from floor_plans import BubbleDiagram, write_diagrams
from floor_plans.drawings.houseganpp import houseganpp_of
from floor_plans.drawings.plan_files import parse_plan
from floor_plans.drawings.readers import read_report
from floor_plans.plans.floor_plan import FRONT_DOOR, Door, FloorPlan
from floor_plans.solver.spec import RoomAreas

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


L = [(0, 0), (64, 0), (64, 32), (32, 32), (32, 64), (0, 64)]  # 3,072 of 4,096 pixels
BEDROOM = [(68, 0), (132, 0), (132, 40), (68, 40)]  # 2,560, in a box as large
STRIP = [(0, 70), (100, 70), (100, 80), (10, 80), (10, 120), (0, 120)]  # 1,400 of 5,000
DOOR = [(64, 10), (68, 10), (68, 22), (64, 22)]
NODES = [(1, [L]), (3, [BEDROOM]), (3, [STRIP]), (17, [DOOR])]
AREAS = [pixels * PIXEL**2 for pixels in (3072, 2560, 1400)]


def walls_of(rings):
    return [[*a, *b] for ring in rings for a, b in pairwise([*ring, ring[0]])]


def plan_of(nodes):
    """The object of a file: nodes of a type and rings of corners."""
    corners = [np.array([corner for ring in rings for corner in ring]) for _, rings in nodes]
    walls = [(wall, k) for k, (_, rings) in enumerate(nodes) for wall in walls_of(rings)]
    return {
        "room_type": [room for room, _ in nodes],
        "boxes": [[*each.min(0).tolist(), *each.max(0).tolist()] for each in corners],
        "edges": [[*wall, nodes[k][0], 0] for wall, k in walls],
        "ed_rm": [[k] for _, k in walls],
    }


def read(data):
    plan = parse_plan(data, max_nodes=8, threshold=9.0)
    return plan, FloorPlan.of(plan.diagram, "pixels")


def test_areas_are_those_inside_the_walls(tmp_path):
    data = plan_of(NODES)
    plan, floors = read(data)
    assert floors.areas == pytest.approx(AREAS)
    assert floors.diagram.boxes[0] == pytest.approx((0, 0, 64 * PIXEL, 64 * PIXEL))
    assert plan.left_out == ()
    assert plan.diagram.room_names == ("LivingRoom", "MasterRoom", "SecondRoom")  # by floors
    assert floors.floors[1] is None  # the box says it
    (note,) = plan.notes
    for word in ("fills less than half", "rooms[2]", "SecondRoom", "28%"):
        assert word in " ".join(note)
    assert RoomAreas([floors]).draw(plan.diagram.rooms, Random(0)) == pytest.approx(AREAS)
    write_diagrams(tmp_path / "plans.jsonl", [plan.diagram])
    (again,) = read_report(tmp_path / "plans.jsonl").diagrams
    assert FloorPlan.of(again, "pixels").areas == pytest.approx(AREAS)


def test_walls_in_any_order_and_direction():
    data, random = plan_of(NODES), Random(1)
    pairs = [*zip(data["edges"], data["ed_rm"], strict=True)]
    random.shuffle(pairs)
    data["ed_rm"] = [nodes for _, nodes in pairs]
    data["edges"] = [
        [*wall[2:4], *wall[:2], *wall[4:]] if random.random() < 0.5 else wall for wall, _ in pairs
    ]
    data["edges"].append([0, 0, 0, 0, 1, 0])  # and one of no length
    data["ed_rm"].append([0])
    assert read(data)[1].areas == pytest.approx(AREAS)


@pytest.mark.parametrize("size", [1e-300, 1e-9, 1e30, 1e150, 1e300])
def test_lengths_that_no_plan_has_do_no_harm(size):
    data = plan_of([(room, [[(size * x, size * y) for x, y in L]]) for room in (1, 2)])
    assert parse_plan(data, max_nodes=8, threshold=9.0).diagram.num_rooms == 2


def test_parts_and_holes():
    parts = [[(0, 0), (20, 0), (20, 20), (0, 20)], [(24, 0), (40, 0), (40, 10), (24, 10)]]
    ring = [[(0, 40), (60, 40), (60, 100), (0, 100)], [(20, 60), (40, 60), (40, 80), (20, 80)]]
    plan, floors = read(plan_of([(2, parts), (1, ring)]))
    assert floors.areas == pytest.approx([560 * PIXEL**2, 3200 * PIXEL**2])
    assert plan.notes == ()  # 70 % of 800 pixels


@pytest.mark.parametrize(
    "broken",
    [
        lambda data: data["edges"].__setitem__(2, [64, 32, 32, 31, 1, 0]),
        lambda data: (data["edges"].pop(0), data["ed_rm"].pop(0)),
        lambda data: data["edges"].__setitem__(0, "wall"),
        lambda data: data["edges"].__setitem__(0, [0, 0, None, 0, 1, 0]),
        lambda data: data["boxes"].__setitem__(0, [0, 0, 60, 64]),
    ],
    ids=["a gap", "a wall less", "no wall", "no number", "out of the box"],
)
def test_walls_that_close_no_outline_are_counted(broken):
    data = plan_of(NODES)
    broken(data)
    plan, floors = read(data)
    x0, y0, x1, y1 = data["boxes"][0]
    assert floors.areas == pytest.approx([(x1 - x0) * (y1 - y0) * PIXEL**2, *AREAS[1:]])
    assert set(plan.left_out) == {"walls"}
    assert len(plan.left_out) == data["ed_rm"].count([0])
    assert any("close no outline" in kind and "room_type[0]" in what for kind, what in plan.notes)


def test_a_file_without_walls_has_boxes():
    data = plan_of(NODES)
    for key, walls, num in (("edges", [], 0), ("edges", 3, 1), ("ed_rm", [], 20)):
        plan, floors = read({**data, key: walls})
        assert floors.floors == ()
        assert plan.notes == ()
        assert plan.left_out == ("walls",) * num


def test_without_shapely_floors_are_boxes_and_walls_left_out(monkeypatch):
    from floor_plans.drawings import houseganpp

    monkeypatch.setattr(houseganpp, "find_spec", lambda name: None)
    data = plan_of(NODES)
    plan = parse_plan(data, max_nodes=8, threshold=9.0)
    assert "floors" not in plan.diagram.metadata
    assert plan.left_out == ("walls",) * len(data["edges"])
