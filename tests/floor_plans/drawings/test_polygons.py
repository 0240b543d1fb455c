"""Floors that are not boxes along the axes: their areas, and plans that are turned as a whole."""

from __future__ import annotations

import json
from random import Random

import numpy as np
import pytest
from drawn_plans import assert_same, by_hand, embedded

from floor_plans import BubbleDiagram
from floor_plans.drawings.polygon_files import geojson_of
from floor_plans.drawings.readers import read_report
from floor_plans.drawings.realised_files import FORMATS, write_plan
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.solver.requests import PlanRequest
from floor_plans.solver.spec import RoomAreas

pytest.importorskip("ezdxf", reason="dimensioned plans take the extra plans")
shapely = pytest.importorskip("shapely", reason="dimensioned plans take the extra plans")

L = shapely.Polygon([(0, 0), (6, 0), (6, 3), (3, 3), (3, 5), (0, 5)])  # 24 of 30 m2
PARTS = shapely.MultiPolygon([shapely.box(6, 0, 8, 2), shapely.box(9, 2, 10, 4)])  # 6 of 16 m2
WEDGE = shapely.Polygon([(0, 5.2), (5, 5.2), (0, 8.2)])  # 7.5 of 15 m2
ROOMS = {"LivingRoom": L, "Storage": PARTS, "Kitchen": WEDGE}
AREAS = (24.0, 6.0, 7.5)


def geojson(rooms, angle=0.0, **others) -> str:
    """As another hand draws it: y upwards, turned about a corner."""
    from shapely.affinity import rotate

    features = [
        {
            "type": "Feature",
            "properties": {"room_type": name.rstrip("0123456789 ")},
            "geometry": shapely.geometry.mapping(rotate(floor, angle, origin=(3, 1))),
        }
        for name, floor in rooms.items()
    ]
    return json.dumps({"type": "FeatureCollection", "features": features, **others})


def read(tmp_path, text: str, name="plan.geojson"):
    (tmp_path / name).write_text(text)
    report = read_report(tmp_path / name)
    (diagram,) = report.diagrams
    return report, FloorPlan.of(diagram)


def test_areas_are_those_of_polygons(tmp_path):
    report, plan = read(tmp_path, geojson(ROOMS))
    assert plan.areas == pytest.approx(AREAS)
    assert plan.diagram.boxes[0] == pytest.approx((0, -5, 6, 0))
    assert report.diagrams[0].metadata["areas"] == pytest.approx(AREAS)
    assert RoomAreas([plan]).draw(plan.diagram.rooms, Random(0)) == pytest.approx(AREAS)
    job = PlanRequest(RoomAreas()).job(1, report.diagrams[0])
    assert job.spec.areas == pytest.approx(AREAS)


@pytest.mark.parametrize("format", [name for name, each in FORMATS.items() if each.is_read])
def test_polygons_are_written_and_read_again(tmp_path, format):
    _, plan = read(tmp_path, geojson(ROOMS))
    path = tmp_path / f"again{FORMATS[format].suffix}"
    write_plan(path, plan, format)
    again = FloorPlan.of(read_report(path).diagrams[0], "pixels")
    assert again.areas == pytest.approx(AREAS)
    path = tmp_path / "plan.jsonl"
    path.write_text(json.dumps(plan.to_json()) + "\n")
    assert FloorPlan.of(read_report(path).diagrams[0]) == plan


def test_a_room_that_fills_little_of_its_box_is_counted(tmp_path):
    report, _ = read(tmp_path, geojson(ROOMS))
    (remark,) = report.remarks
    assert (remark.num, remark.num_plans) == (1, 1)
    for word in ("fills less than half", "rooms[1]", "Storage", "38%", "plan.geojson"):
        assert word in remark.sentence()
    assert "1 room that fills less than half of its box" in report.counts()


@pytest.mark.parametrize("angle", [45, -45, 30, 5, 89, 133, 1.5])
def test_a_plan_turned_as_a_whole_is_turned_back(tmp_path, angle):
    rooms = {
        f"{name} {k}": plan
        for plan_of in embedded(4)[1:2]
        for k, (name, plan) in enumerate(
            zip(plan_of.diagram.room_names, plan_of.rooms, strict=True)
        )
    }
    _, straight = read(tmp_path, geojson(rooms))
    report, turned = read(tmp_path, geojson(rooms, angle))
    assert sorted(turned.areas) == pytest.approx(sorted(straight.areas), abs=1e-4)
    sides = [
        sorted((x1 - x0, y1 - y0) for x0, y0, x1, y1 in plan.diagram.boxes)
        for plan in (straight, turned)
    ]
    np.testing.assert_allclose(
        sorted(map(sorted, sides[0])), sorted(map(sorted, sides[1])), atol=1e-5
    )
    assert len(turned.diagram.relations) == len(straight.diagram.relations)
    (remark,) = report.remarks
    back = abs((angle + 45) % 90 - 45)
    assert f"1 plan turned back, the first: {tmp_path / 'plan.geojson'}: by {back:.1f}" in (
        remark.sentence()
    )


def test_doors_and_boundary_are_turned_too(tmp_path):
    from shapely.affinity import rotate

    data = json.loads(geojson_of(by_hand()))
    del data["discrete_diffusion"]
    straight = FloorPlan.of(read(tmp_path, json.dumps(data))[0].diagrams[0])
    for feature in data["features"]:
        shape = rotate(shapely.geometry.shape(feature["geometry"]), 20, origin=(0, 0))
        feature["geometry"] = shapely.geometry.mapping(shape)
    _, turned = read(tmp_path, json.dumps(data))
    x, y = (shapely.union_all(straight.boxes).bounds)[:2]
    assert [door.rooms for door in turned.doors] == [door.rooms for door in straight.doors]
    for one, other in zip(turned.doors, straight.doors, strict=True):
        moved = np.array(other.ends).reshape(2, 2) - (x, y)
        np.testing.assert_allclose(np.array(one.ends).reshape(2, 2), moved, atol=1e-5)
    np.testing.assert_allclose(turned.boundary, np.array(straight.boundary) - (x, y), atol=1e-5)
    assert turned.areas == pytest.approx(straight.areas, abs=1e-4)
    assert turned.diagram.relations == straight.diagram.relations


@pytest.mark.parametrize("angle", [0, 0.2, 90, 180])
def test_a_plan_along_the_axes_stays_where_it_is(tmp_path, angle):
    """One room is a wedge; the others say how the plan lies."""
    report, plan = read(tmp_path, geojson(ROOMS, angle))
    assert "turned" not in report.counts()
    assert plan.areas == pytest.approx(AREAS)


def test_our_own_plans_are_never_turned(tmp_path):
    """A plan whose rooms are where they were written, however they look."""
    boxes = ((0.0, 0.0, 4.0, 4.0), (5.0, 5.0, 9.0, 9.0))
    plan = FloorPlan(BubbleDiagram((0, 2), (), boxes))
    for format in ("dxf", "geojson", "rlvr"):
        path = tmp_path / f"plan{FORMATS[format].suffix}"
        write_plan(path, plan, format)
        report = read_report(path)
        assert report.remarks == ()
        np.testing.assert_allclose(FloorPlan.of(report.diagrams[0]).diagram.boxes, boxes)


def test_floors_that_cannot_be_are_refused():
    plan = FloorPlan(
        BubbleDiagram((0, 2), (), ((0.0, 0.0, 6.0, 5.0), (6.0, 0.0, 9.0, 5.0))), floors=(L, None)
    )
    data = plan.to_json()
    assert FloorPlan.of(BubbleDiagram.from_json(data)) == plan
    assert_same(FloorPlan.of(BubbleDiagram.from_json(data)), plan)
    for floors, word in (
        ([None], "2 rooms"),
        ("none", "2 rooms"),
        ([3, None], "rings"),
        ([[[[0, 0], [1, 1]]], None], "rings"),
        ([[[[0, 0], [4, 4], [4, 0], [0, 4]]], None], "rings"),
        ([[[0, 0], [4, 4], [4, 0], [0, 4]], None], "ring"),  # crossing itself
        ([[], None], "rings"),
    ):
        with pytest.raises(ValueError, match=word):
            FloorPlan.of(BubbleDiagram.from_json({**data, "floors": floors}))
    for ring in ([[0, 0], [40, 0], [0, 4]], [[0, 0], [4, 0], [0, -1]]):
        floors = [[[ring]], None]
        with pytest.raises(ValueError, match="out of the box"):
            FloorPlan.of(BubbleDiagram.from_json({**data, "floors": floors}))
