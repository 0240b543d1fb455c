"""GeoJSON as json and shapely read it, edited files, and files of other hands."""

from __future__ import annotations

import json

import pytest
from drawn_plans import GAP, by_hand, embedded, measured

from floor_plans import BubbleDiagram
from floor_plans.drawings.drawn_plan import flip_y
from floor_plans.drawings.polygon_files import geojson_of
from floor_plans.drawings.readers import ReadOptions, read_report
from floor_plans.plans.floor_plan import FRONT_DOOR, FloorPlan

pytest.importorskip("ezdxf", reason="dimensioned plans take the extra plans")
shapely = pytest.importorskip("shapely", reason="dimensioned plans take the extra plans")
shape = pytest.importorskip("shapely.geometry").shape


def features(data, kind):
    return [each for each in data["features"] if each["properties"]["kind"] == kind]


def read(tmp_path, data):
    path = tmp_path / "plan.geojson"
    path.write_text(json.dumps(data))
    return read_report(path)


def test_shapely_reads_the_floors_and_doors():
    for plan in [by_hand(), *embedded(3)]:
        data = json.loads(geojson_of(plan))
        assert (data["type"], data["unit"]) == ("FeatureCollection", "metres")
        rooms = features(data, "room")
        assert [room["id"] for room in rooms] == list(range(plan.diagram.num_rooms))
        about = zip(rooms, plan.diagram.room_names, plan.rooms, strict=True)
        for room, name, floor in about:
            assert room["type"] == "Feature"
            assert room["properties"]["room_type"] == name
            assert room["properties"]["area"] == pytest.approx(floor.area, abs=0.005)
            drawn = shape(room["geometry"])
            assert drawn.equals(flip_y(floor))
            assert drawn.exterior.is_ccw  # RFC 7946, 3.1.6
            assert not any(hole.is_ccw for hole in drawn.interiors)
        assert [
            (tuple(line["properties"]["rooms"]), flip_y(shape(line["geometry"])))
            for line in features(data, "door")
        ] == [
            (
                (door.rooms[0], "outside" if door.is_front else door.rooms[1]),
                shapely.LineString([door.start, door.end]),
            )
            for door in plan.doors
        ]
        (outline,) = features(data, "boundary" if plan.boundary else "outline")
        assert shape(outline["geometry"]).equals(flip_y(plan.outline))


def test_two_kinds_of_floors_that_are_no_plain_polygon(tmp_path):
    """A room that another splits in two, and one that others fill."""
    boxes = ((0, 0, 9, 3), (4, 0, 5, 3), (0, 4, 4, 6), (0, 4, 2, 6), (2, 4, 4, 6))
    plan = FloorPlan(BubbleDiagram((0, 3, 7, 11, 12), (), boxes, {}))
    data = json.loads(geojson_of(plan))
    kinds = [room["geometry"]["type"] for room in features(data, "room")]
    assert kinds == ["MultiPolygon", *["Polygon"] * 4]
    assert features(data, "room")[2]["properties"]["area"] == 0
    (diagram,) = read(tmp_path, data).diagrams
    assert (diagram.boxes, diagram.relations) == (boxes, ())
    del data["discrete_diffusion"]
    (diagram,) = read(tmp_path, data).diagrams
    assert (diagram.boxes, diagram.relations) == (boxes, measured(boxes, GAP))


def test_what_was_edited_counts(tmp_path):
    plan = by_hand()
    data = json.loads(geojson_of(plan))
    rooms = features(data, "room")
    data["features"].remove(rooms[0])  # the balcony, and so the last of its doors
    rooms[1]["properties"]["room_type"] = "guest"
    report = read(tmp_path, data)
    found = FloorPlan.of(report.diagrams[0])
    assert found.diagram.room_names == ("GuestRoom", *plan.diagram.room_names[2:])
    assert found.diagram.boxes == plan.diagram.boxes[1:]
    kept = [(i - 1, j - 1, r) for i, j, r in plan.diagram.relations if i > 0]
    assert list(found.diagram.relations) == kept
    num_lost = len(plan.diagram.relations) - len(kept)
    assert report.left_out == {"relations of moved rooms": num_lost}
    assert [door.rooms for door in found.doors] == [(1, 2), (0, 1), (1, 4), (1, FRONT_DOOR)]
    data = json.loads(geojson_of(plan))
    features(data, "boundary")[0]["geometry"]["coordinates"][0][1][1] -= 0.5
    found = FloorPlan.of(read(tmp_path, data).diagrams[0])
    assert found.outline.area != plan.outline.area
    data["features"] = [each for each in data["features"] if each["properties"]["kind"] == "room"]
    found = FloorPlan.of(read(tmp_path, data).diagrams[0])
    assert (found.doors, found.boundary) == ((), None)
    assert found.diagram == plan.diagram


def test_rooms_in_another_order_are_the_same_diagram(tmp_path):
    plan = by_hand()
    data = json.loads(geojson_of(plan))
    data["features"].reverse()
    order = list(reversed(range(plan.diagram.num_rooms)))
    assert read(tmp_path, data).diagrams[0] == plan.diagram.relabelled(order)


def test_a_file_of_another_hand(tmp_path):
    def square(x, **properties):
        corners = [[x, 0, 7], [x + 4, 0, 7], [x + 4, 4, 7], [x, 4, 7], [x, 0, 7]]
        geometry = {"type": "Polygon", "coordinates": [corners]}
        return {"type": "Feature", "properties": properties, "geometry": geometry}

    plot = square(0, name="plot 7")
    data = {"type": "FeatureCollection", "features": [square(0, room_type="Bath"), plot]}
    data["features"].append(square(4.5, room_type="Kitchen", level=2))
    report = read(tmp_path, data)
    assert report.left_out == {"features that are neither room nor door": 1}
    (diagram,) = report.diagrams
    assert diagram.room_names == ("Bathroom", "Kitchen")
    assert diagram.boxes == ((0, -4, 4, 0), (4.5, -4, 8.5, 0))
    assert diagram.relations == ((0, 1, 2),)  # left of
    path = tmp_path / "plans.jsonl"  # one on each line, among others
    path.write_text(json.dumps(data) + "\n" + json.dumps(by_hand().to_json()) + "\n")
    assert [each.num_rooms for each in read_report(path).diagrams] == [2, 6]


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"features": 3}, ["'features'", "expected a list"]),
        ({"features": []}, ["'features'", "room_type"]),
        ({"features": [{"type": "Feature"}]}, ["'features[0]'", "properties"]),
        ({"features": [{"properties": {"room_type": "Bat"}}]}, ["room_type'", "'Bat'"]),
        ({"features": [{"properties": {"kind": "room"}}]}, ["room_type'", "null"]),
        ({"features": [{"properties": {"room_type": "Bath"}}]}, ["geometry'", "Polygon", "None"]),
        ({"features": [{"properties": {"kind": "door"}}]}, ["geometry'", "LineString"]),
        (
            {"features": [{"properties": {"kind": "door", "rooms": [0]}}]},
            ["'doors'", "[i, j", "outside"],
        ),
    ],
)
def test_what_is_wrong_is_said(tmp_path, broken, words):
    with pytest.raises(ValueError) as caught:
        read(tmp_path, broken)
    for word in ("plan.geojson", *words):
        assert word in str(caught.value)


def test_more_rooms_than_a_model_knows_are_refused_as_everywhere(tmp_path):
    data = json.loads(geojson_of(by_hand()))
    (tmp_path / "plan.geojson").write_text(json.dumps(data))
    with pytest.raises(ValueError, match=r"6 rooms, more than max_nodes=5; .*--max-nodes 6"):
        read_report(tmp_path / "plan.geojson", ReadOptions(max_nodes=5))


def test_what_was_written_beside_it_is_checked(tmp_path):
    data = json.loads(geojson_of(by_hand()))
    data["discrete_diffusion"]["relations"][0][2] = "beside"
    with pytest.raises(ValueError, match=r"'discrete_diffusion': .*repair or delete it.*'beside'"):
        read(tmp_path, data)


def drawn_square(x0, x1, **properties):
    corners = [[x0, 0], [x1, 0], [x1, x1 - x0], [x0, x1 - x0], [x0, 0]]
    geometry = {"type": "Polygon", "coordinates": [corners]}
    return {"type": "Feature", "properties": properties, "geometry": geometry}


@pytest.mark.parametrize("ids", [(1, None, None), (0, 0, 1), (5, 7, "7"), (None, None, None)])
def test_ids_that_not_all_rooms_have_are_no_numbers(tmp_path, ids):
    """A door says its rooms by their places then; ids that all rooms have are their numbers."""
    rooms = [drawn_square(4 * k, 4 * k + 4, room_type="Bath") for k in range(3)]
    line = {"type": "LineString", "coordinates": [[8, 1], [8, 2]]}
    door = {"type": "Feature", "properties": {"kind": "door", "rooms": [1, 2]}, "geometry": line}
    for room, number in zip(rooms, ids, strict=True):
        room |= {} if number is None else {"id": number}
    data = {"type": "FeatureCollection", "features": [*rooms, door]}
    (found,) = FloorPlan.of(read(tmp_path, data).diagrams[0]).doors
    assert found.rooms == (1, 2)
    for room, number in zip(rooms, (7, 1, 2), strict=True):
        room["id"] = number
    door["properties"]["rooms"] = [7, 2]
    (found,) = FloorPlan.of(read(tmp_path, data).diagrams[0]).doors
    assert found.rooms == (0, 2)


def test_a_plan_has_one_boundary_without_holes(tmp_path):
    features = [
        drawn_square(0, 3, room_type="Bath"),
        drawn_square(0, 1, kind="boundary"),
        drawn_square(0, 5, kind="boundary"),
    ]
    data = {"type": "FeatureCollection", "features": features}
    report = read(tmp_path, data)
    assert FloorPlan.of(report.diagrams[0]).outline.area == pytest.approx(25)
    assert report.left_out == {"further plot outlines": 1}
    features[2]["geometry"]["coordinates"].append([[3, 3], [4, 3], [4, 4], [3, 3]])
    with pytest.raises(ValueError, match=r"'features\[2\].geometry': a boundary with a hole"):
        read(tmp_path, data)
