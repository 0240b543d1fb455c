from __future__ import annotations

import pytest

from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.diagrams.files.foreign_files import RepeatedKeys
from floor_plans.drawings.plan_files import parse_plan

BOXES = [[0, 0, 10, 10], [12, 0, 20, 10], [0, 40, 10, 50]]
RENDERED = {
    "name": "1",
    "room_type": [0, 1, 1, 2, 3, 4, 5],
    "boxes": [[10 * k, 0, 10 * k + 5, 5] for k in range(7)],
    "area_px": [90, 10, 20, 5, 5, 5, 5],
    "rel": [[0, 1, 8], [2, 1, "left-of"]],
    "duplicate": False,
}
HOUSE_GAN = {
    "room_type": [3, 2, 1, 3, 15, 17],
    "boxes": [
        [0.0, 0.0, 10.0, 10.0],
        [12.0, 0.0, 20.0, 10.0],
        [0.0, 12.0, 40.0, 30.0],
        [22.0, 0.0, 40.0, 10.0],
        [39.0, 20.0, 41.0, 24.0],
        [4.0, 10.0, 8.0, 12.0],
    ],
    "edges": [[0.0, 0.0, 0.0, 10.0, 3, 0]],
    "ed_rm": [[0]],
    "source": "a",
}
NESTED: list = []
for _ in range(70):
    NESTED = [NESTED]


def parse(data, max_nodes=8, threshold=9.0):
    return parse_plan(data, max_nodes=max_nodes, threshold=threshold).diagram


def test_the_interchange_format():
    diagram = parse({"rooms": ["LivingRoom", 2], "relations": [[0, 1, "above"]], "rel": 3})
    assert diagram.rooms == (0, 2)
    assert diagram.relations == ((0, 1, 3),)
    assert diagram.metadata == {"rel": 3}


@pytest.mark.parametrize("key", ["rooms", "room_type"])
def test_plans_given_as_boxes(key):
    plan = {key: ["LivingRoom", 2, 3], "boxes": BOXES, "name": "a"}
    diagram = parse(plan)
    assert diagram.rooms == (0, 2, 3)
    assert diagram.relations == ((0, 1, 2),)
    assert diagram.boxes[1] == (12, 0, 20, 10)
    assert diagram.metadata == {"name": "a"}
    assert parse(plan, threshold=1).relations == ()
    assert parse(plan, threshold=30).relations == ((0, 1, 2), (0, 2, 3), (1, 2, 8))


def test_rendered_plans_translate_coarse_rooms_and_keep_their_relations():
    diagram = parse(RENDERED)
    assert diagram.rooms == (0, 7, 1, 2, 3, 9, 11)  # the larger bedroom is the master room
    assert diagram.relations == ((0, 1, 8), (1, 2, 7))
    assert diagram.metadata == {"name": "1", "area_px": RENDERED["area_px"]}
    with_door = parse(RENDERED | {"front_door": [3, 4, 5, 6]})
    assert with_door.metadata["doors"] == [{"type": "front-door", "box": [3, 4, 5, 6]}]
    assert "front_door" not in with_door.metadata
    with pytest.raises(DiagramError, match="field 'front_door': expected 4 numbers"):
        parse(RENDERED | {"front_door": 3})
    assert parse_plan(RENDERED | {"duplicate": True}, max_nodes=8, threshold=9.0).duplicate
    no_bedroom = {"room_type": [0, 2], "boxes": BOXES[:2], "rel": []}
    assert parse(no_bedroom).rooms == (0, 2)


def test_house_gan_plans_lose_their_doors_and_gain_a_master_bedroom():
    diagram = parse(HOUSE_GAN)
    assert diagram.room_names == ("SecondRoom", "Kitchen", "LivingRoom", "MasterRoom")
    assert diagram.boxes == tuple(map(tuple, HOUSE_GAN["boxes"][:4]))
    assert diagram.relations == ((0, 1, 2), (0, 2, 3), (1, 2, 3), (1, 3, 2), (2, 3, 1))
    assert diagram.metadata == {
        "source": "a",
        "doors": [
            {"type": "front-door", "box": [39.0, 20.0, 41.0, 24.0]},
            {"type": "interior-door", "box": [4.0, 10.0, 8.0, 12.0]},
        ],
    }
    first, second = (k for k, room in enumerate(HOUSE_GAN["room_type"]) if room in (15, 17))
    walls = [[first, 3], [first], [1, 2], [second], [second, 0], [second, 2], [second, first]]
    behind = parse(HOUSE_GAN | {"ed_rm": walls}).metadata["doors"]
    assert [door["rooms"] for door in behind] == [[3, "outside"], [0, 2]]
    bare = {"rooms": ["LivingRoom", "Kitchen"], "boxes": BOXES[:2], "codes": "houseganpp"}
    assert parse(bare).metadata == {}  # no list of doors where there are none
    for walls in (HOUSE_GAN, {k: v for k, v in HOUSE_GAN.items() if k != "edges"}):
        assert parse_plan(walls, max_nodes=8, threshold=9.0).left_out == ("walls",)
    assert parse(HOUSE_GAN, max_nodes=4) == diagram  # doors do not count as rooms
    assert len(parse(HOUSE_GAN, threshold=1).relations) == 0
    every_type = {"room_type": [1, 2, 3, 4, 5, 6, 7, 8, 10], "ed_rm": []}
    every_type["boxes"] = [[0, 100 * k, 5, 100 * k + 5] for k in range(9)]
    assert parse(every_type, max_nodes=9).rooms == (0, 2, 1, 3, 9, 10, 4, 6, 11)


@pytest.mark.parametrize(
    ("data", "field", "reason"),
    [
        ([], "", "expected a JSON object"),
        ({}, "rooms", "missing"),
        ({"rooms": [0]}, "relations", "missing"),
        ({"rooms": [0] * 9, "relations": []}, "rooms", "9 rooms, more than .*=9 .*--max-nodes 9"),
        ({"boxes": BOXES}, "room_type", "missing"),
        ({"rooms": [0, 1], "boxes": BOXES}, "boxes", "3 boxes for 2 rooms"),
        ({"rooms": [0], "boxes": None}, "boxes", "expected a list"),
        ({"rooms": [0], "boxes": [[0, 0, float("inf"), 1]]}, "boxes[0][2]", "finite"),
        ({"rooms": [0, None], "boxes": BOXES[:2]}, "rooms[1]", "null: a complete diagram"),
        ({"rooms": [0, 13], "boxes": BOXES[:2]}, "rooms[1]", r"rplan room code 0\.\.12, got 13"),
        (HOUSE_GAN | {"room_type": [3, 16, 1, 3, 15, 17]}, "room_type[1]", "unknown type"),
        (HOUSE_GAN | {"room_type": [3, 9, 1, 3, 15, 17]}, "room_type[1]", "room code .*got 9"),
        (HOUSE_GAN | {"room_type": [15] * 6}, "room_type", "at least one room besides doors"),
        (HOUSE_GAN | {"room_type": None}, "room_type", "expected a list"),
        (HOUSE_GAN | {"boxes": BOXES}, "boxes", "3 boxes for 6 rooms and doors"),
        (HOUSE_GAN | {"boxes": [*HOUSE_GAN["boxes"][:5], [3, 0, 1, 1]]}, "boxes[5]", "x0 <= x1"),
        (HOUSE_GAN | {"doors": 2}, "doors", "among its rooms"),
        ({"rooms": [0], "relations": [], "score": float("nan")}, "score", "finite"),
        ({"rooms": [0], "relations": [], "a": NESTED}, "a", "nested deeper"),
        (RepeatedKeys({"rooms": [0], "relations": []}, repeated="rooms"), "rooms", "twice"),
        (RENDERED | {"name": [RepeatedKeys({"k": 1}, repeated="k")]}, "k", "twice"),
        (RENDERED | {"room_type": [0] * 9}, "room_type", "max_nodes=8"),
        (RENDERED | {"room_type": [0, 1, 1, 2, 3, 4, 6]}, "room_type[6]", r"0\.\.5, got 6"),
        (RENDERED | {"area_px": [1] * 6 + ["x"]}, "area_px[6]", "finite"),
        (RENDERED | {"duplicate": 1}, "duplicate", "true or false"),
        (RENDERED | {"rel": [[0, 7, 1]]}, "rel[0]", "two different rooms"),
        (RENDERED | {"boxes": []}, "boxes", "0 boxes for 7 rooms"),
    ],
)
def test_wrong_plans_name_the_field(data, field, reason):
    with pytest.raises(DiagramError, match=reason) as caught:
        parse(data)
    assert caught.value.field == field
