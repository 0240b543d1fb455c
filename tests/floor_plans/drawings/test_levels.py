"""Storeys and dwellings in one drawing, and rooms that are drawn over each other."""

from __future__ import annotations

import json

import pytest

from floor_plans.drawings.polygon_files import level_keys
from floor_plans.drawings.readers import read_report
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.rules.rule_set import judge, read_rules

pytest.importorskip("ezdxf", reason="dimensioned plans take the extra plans")
pytest.importorskip("shapely", reason="dimensioned plans take the extra plans")

BELOW = (("LivingRoom", 0, 0, 5, 4), ("Kitchen", 0, 4, 5, 7), ("Bathroom", 5, 4, 9, 7))
ABOVE = (("MasterRoom", 0, 0, 4, 4), ("SecondRoom", 4, 0, 9, 4), ("Bathroom", 0, 4, 9, 6.5))
NAMES = [tuple(name for name, *_ in rooms) for rooms in (BELOW, ABOVE)]
AREAS = [(20.0, 15.0, 12.0), (16.0, 20.0, 22.5)]


def ring(x0, y0, x1, y1):
    return [[x0, y0], [x1, y0], [x1, y1], [x0, y1]]


def feature(corners, shape="Polygon", **properties):
    drawn = [[*corners, corners[0]]] if shape == "Polygon" else corners
    geometry = {"type": shape, "coordinates": drawn}
    return {"type": "Feature", "properties": properties, "geometry": geometry}


def rooms_of(rooms, **properties):
    return [feature(ring(*box), room_type=name, **properties) for name, *box in rooms]


def collection(*features):
    return {"type": "FeatureCollection", "features": [*features]}


def read(tmp_path, data, name="plan.geojson"):
    path = tmp_path / name
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return read_report(path)


def check_two(report):
    plans = [FloorPlan.of(each) for each in report.diagrams]
    assert [plan.diagram.room_names for plan in plans] == NAMES
    assert [plan.areas for plan in plans] == [pytest.approx(areas) for areas in AREAS]
    assert {remark.kind for remark in report.remarks} == {"plan of a part of a drawing"}


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("level", ("EG", "OG")),
        ("Level", (0, 1)),
        ("level", (0.0, 2.8)),
        ("storey_name", ("ground", "first")),
        ("floor", (1, 2)),
        ("floor_id", ("a", "b")),
        ("apartment_id", ("7c", "7d")),
        ("Wohnung", ("links", "rechts")),
    ],
)
def test_storeys_and_dwellings_are_plans_of_their_own(tmp_path, key, values):
    first, second = (
        rooms_of(rooms, **{key: value}) for rooms, value in zip((BELOW, ABOVE), values, strict=True)
    )
    mixed = [each for pair in zip(first, second, strict=True) for each in pair]
    report = read(tmp_path, collection(*mixed))
    check_two(report)
    assert [each.metadata[key] for each in report.diagrams] == [*values]
    assert [place.partition(", ")[2] for place in report.places] == [
        f"{key} {value}" for value in values
    ]


def test_a_drawing_of_two_storeys_among_others(tmp_path):
    """In JSON lines and in a list; three flats on two storeys."""
    both = collection(*rooms_of(BELOW, level="EG"), *rooms_of(ABOVE, level="OG"))
    single = collection(*rooms_of(BELOW, level="EG"))
    report = read(tmp_path, f"{json.dumps(single)}\n{json.dumps(both)}\n", "plans.jsonl")
    assert [each.num_rooms for each in report.diagrams] == [3, 3, 3]
    assert [place.partition(", ")[2] for place in report.places] == [
        "line 1",
        "level EG of line 2",
        "level OG of line 2",
    ]
    assert report.num_records == 3
    flats = [
        *rooms_of(BELOW, level=0, flat="a"),
        *rooms_of(ABOVE, level=1, flat="b"),
        *rooms_of(BELOW, level=1, flat="c"),
    ]
    report = read(tmp_path, [single, collection(*flats)], "plans.json")
    assert [each.room_names for each in report.diagrams] == [*NAMES[:1], *NAMES, *NAMES[:1]]
    assert "level 1, flat c of plan 2" in report.places[3]


def test_rooms_in_spaces_have_storeys_too(tmp_path):
    def spaces(rooms, level):
        types = {"LivingRoom": "living_room", "MasterRoom": "bedroom", "SecondRoom": "bedroom"}
        for name, *box in rooms:
            polygon = [{"x": x, "y": -y} for x, y in ring(*box)]
            kind = types.get(name, name.lower())
            yield {"id": name, "room_type": kind, "floor_polygon": polygon, "storey": level}

    report = read(tmp_path, {"spaces": [*spaces(BELOW, 0), *spaces(ABOVE, 1)]}, "plan.json")
    assert [each.num_rooms for each in report.diagrams] == [3, 3]
    assert [FloorPlan.of(each).areas for each in report.diagrams] == [
        pytest.approx(areas, rel=1e-6) for areas in ((20, 15, 12), (16, 20, 22.5))
    ]


def test_doors_go_with_their_storey_and_a_boundary_with_all(tmp_path):
    door = feature(
        [[0, 4.5], [0, 5.4]], "LineString", kind="door", rooms=[5, "outside"], level="OG"
    )
    plot = feature(ring(-1, -1, 10, 8), kind="boundary")
    rooms = [*rooms_of(BELOW, level="EG"), *rooms_of(ABOVE, level="OG")]
    plans = [FloorPlan.of(each) for each in read(tmp_path, collection(*rooms, door, plot)).diagrams]
    assert [plan.outline.area for plan in plans] == [pytest.approx(99)] * 2
    assert plans[0].doors == ()
    (found,) = plans[1].doors  # 5 of all rooms is the last of its storey
    assert found.rooms == (2, -1)
    del door["properties"]["level"]
    with pytest.raises(ValueError, match=r"plan\.geojson.*'features\[6\]'.*\"level\""):
        read(tmp_path, collection(*rooms, door))
    del rooms[1]["properties"]["level"]
    with pytest.raises(ValueError, match=r"plan\.geojson.*'features\[1\]'.*\"level\""):
        read(tmp_path, collection(*rooms))


@pytest.mark.parametrize("relations", [{}, {"relations": []}])
def test_storeys_that_a_plan_lists_for_its_rooms_are_refused(tmp_path, relations):
    boxes = [[0, 0, 60, 60], [60, 0, 120, 60], [0, 0, 60, 60]]
    plan = {"rooms": ["LivingRoom", "Kitchen", "MasterRoom"], "boxes": boxes, **relations}
    with pytest.raises(ValueError, match=r"plan\.jsonl, line 1, field 'floor_id'.*0, 1"):
        read(tmp_path, json.dumps({**plan, "floor_id": [0, 0, 1]}), "plan.jsonl")
    for other in ({"floor_id": [0, 0, 0]}, {"floor_id": [0, 1]}, {"floor_area": [9, 9, 8]}):
        assert read(tmp_path, json.dumps(plan | other), "plan.jsonl").diagrams[0].num_rooms == 3


@pytest.mark.parametrize(
    ("rooms", "keys"),
    [
        ([{"level": 1}, {"level": 2}], ("level",)),
        ([{"level": 1}, {}, {"level": 1}], ()),
        ([{"unit": 1}, {"unit": 2}, {"unit": 3}], ()),  # it numbers the rooms
        ([{"floor": 20.5}, {"floor": 16.0}], ()),  # their areas
        ([{"floor": ["oak"]}, {"floor": ["tiles"]}, {"floor": ["oak"]}], ()),
        ([{"flat": "a", "level": 1}, {"flat": "b", "level": 1}, {"flat": "b"}], ("flat",)),
        ([{"name": "a"}, {"name": "b"}, {"name": "b"}], ()),
    ],
)
def test_keys_that_tell_storeys_and_dwellings(rooms, keys):
    assert level_keys(rooms) == keys


def overlaps(report):
    return [remark for remark in report.remarks if remark.kind.endswith("floors overlap")]


def test_rooms_drawn_over_each_other_are_noticed(tmp_path):
    """The shared floor counts once, for the smaller room, and the rule ``apart`` is broken."""
    rooms = [("LivingRoom", 0, 0, 6, 4), ("MasterRoom", 4, 0, 9, 4), ("Kitchen", 0, 4, 5, 7)]
    report = read(tmp_path, collection(*rooms_of(rooms)))
    (remark,) = overlaps(report)
    assert remark.num == 1
    for word in ("plan.geojson", "rooms[0], LivingRoom", "rooms[1], MasterRoom", "share 8.0 m2"):
        assert word in remark.first
    plan = FloorPlan.of(report.diagrams[0])
    assert plan.areas == pytest.approx((16, 20, 15))
    assert judge(plan, read_rules("default")).kept["apart"] is False
    written = tmp_path / "plans.jsonl"
    written.write_text(json.dumps(report.diagrams[0].to_json()) + "\n")
    again = FloorPlan.of(read_report(written).diagrams[0])
    assert judge(again, read_rules("default")).kept["apart"] is False


@pytest.mark.parametrize(
    ("rooms", "num"),
    [
        ([(0, 0, 6, 4), (4, 0, 9, 4), (5, 2, 10, 6)], 3),  # all three share a corner
        ([(0, 0, 6, 4), (4, 0, 9, 4), (8, 0, 13, 4)], 2),  # a chain
        ([(0, 0, 6, 4), (1, 1, 3, 3), (6, 0, 9, 4)], 0),  # one within another
        ([(0, 0, 6, 4), (0, 0, 6, 4), (6, 0, 9, 4)], 1),  # the same twice
        ([(0, 0, 6, 4), (5.99, 0, 9, 4), (0, 4, 6, 7)], 0),  # a slip of the mouse
    ],
)
def test_pairs_that_overlap_are_counted(tmp_path, rooms, num):
    named = [("LivingRoom", *box) for box in rooms]
    found = overlaps(read(tmp_path, collection(*rooms_of(named))))
    assert sum(remark.num for remark in found) == num


def test_a_group_of_rooms_far_from_the_others_is_noticed(tmp_path):
    """Two dwellings side by side; a shed alone is none."""

    def far(distance, rooms):
        return rooms_of(
            (name, x0 + distance, y0, x1 + distance, y1) for name, x0, y0, x1, y1 in rooms
        )

    def noticed(*features):
        remarks = read(tmp_path, collection(*rooms_of(BELOW), *features)).remarks
        return [remark.first for remark in remarks if "far from" in remark.kind]

    (first,) = noticed(*far(14, ABOVE))
    for word in ("plan.geojson", "3 rooms", "rooms[3], MasterRoom"):
        assert word in first
    assert noticed(*far(10.5, ABOVE)) == []
    assert noticed(*far(20, ABOVE[:1])) == []
