"""The table as csv and shapely read it."""

from __future__ import annotations

import csv

import pytest
from drawn_plans import by_hand, embedded

from floor_plans.drawings.drawn_plan import flip_y
from floor_plans.drawings.polygon_files import wkt_of
from floor_plans.drawings.readers import read_report
from floor_plans.plans.floor_plan import FloorPlan

pytest.importorskip("ezdxf", reason="dimensioned plans take the extra plans")
shapely = pytest.importorskip("shapely", reason="dimensioned plans take the extra plans")


def test_shapely_reads_the_column():
    for plan in [by_hand(), *embedded(3)]:
        rows = list(csv.DictReader(wkt_of(plan).splitlines()))
        assert list(rows[0]) == ["kind", "id", "type", "area", "wkt", "box"]
        rooms = [row for row in rows if row["kind"] == "room"]
        assert [row["type"] for row in rooms] == list(plan.diagram.room_names)
        for row, floor in zip(rooms, plan.rooms, strict=True):
            assert shapely.from_wkt(row["wkt"]).equals(flip_y(floor))
            x0, y0, x1, y1 = map(float, row["box"].split())
            assert shapely.box(x0, -y1, x1, -y0).envelope.covers(floor)
            assert float(row["area"]) == pytest.approx(floor.area, abs=0.005)
        doors = [row for row in rows if row["kind"] == "door"]
        lines = [shapely.LineString([door.start, door.end]) for door in plan.doors]
        assert [flip_y(shapely.from_wkt(row["wkt"])) for row in doors] == lines
        (outline,) = [row for row in rows if row["kind"] in ("boundary", "outline")]
        assert (outline["kind"] == "boundary") == (plan.boundary is not None)
        assert shapely.from_wkt(outline["wkt"]).equals(flip_y(plan.outline))
    types = [row["type"] for row in csv.DictReader(wkt_of(by_hand()).splitlines())]
    assert types[-4:] == ["2 3", "1 2", "0 2", "2 outside"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["columns kind, id, type, area, wkt, box"]),
        ("name,wkt\na,POINT(0 0)\n", ["columns kind, id, type, area, wkt"]),
        ("kind,type,wkt\noutline,,\n", ["'kind'", "no row is a room"]),
        ("kind,type,wkt\nroom,Bath,POINT(0 0)\n", ["line 2", "Polygon", "POINT"]),
        ("kind,type,wkt\nroom,Bath\n", ["line 2", "Polygon", "None"]),
        ('kind,type,wkt,box\nroom,Bath,"POLYGON((0 0,1 1,1 0,0 0))",0 0 1\n', ["line 2", "x0 y0"]),
        ('kind,type,wkt\nroom,Bat,""\n', ["line 2", "'Bat'", "'Bathroom'"]),
        ("kind,type,wkt\nrom,Bath,\n", ["line 2", "'rom'", "expected room, door"]),
        ('kind,type,wkt\nroom,Bath,"POLYGON((0 0,1 1,1 0,0 1,0 0))"\n', ["line 2", "cross"]),
        ('kind,type,wkt\nroom,Bath,"POLYGON((0 0,1 1,1e999 0,0 0))"\n', ["line 2", "Polygon"]),
        (
            'kind,type,wkt\nboundary,,"POLYGON((0 0,9 0,9 9,0 9,0 0),(1 1,2 1,2 2,1 2,1 1))"\n',
            ["line 2", "a boundary with a hole", "outer ring alone"],
        ),
        ('kind,type,wkt\nroom,"Bath\n', ["not comma-separated text"]),
    ],
)
def test_what_is_wrong_is_said(tmp_path, text, words):
    (tmp_path / "plan.wkt").write_text(text)
    with pytest.raises(ValueError) as caught:
        read_report(tmp_path / "plan.wkt")
    for word in ("plan.wkt", *words):
        assert word in str(caught.value)


def test_a_box_holds_while_the_floor_is_in_it(tmp_path):
    path = tmp_path / "plan.wkt"
    for box, expected in (
        ("0 -1 2 4", (0, -4, 2, 1)),
        ("0 0 2 2.9", (0, -3, 2, 0)),  # somebody made the floor larger
        ("", (0, -3, 2, 0)),
    ):
        path.write_text(f'kind,type,wkt,box\nroom,Bath,"POLYGON((0 0,2 0,2 3,0 0))",{box}\n')
        assert read_report(path).diagrams[0].boxes == (expected,)


def test_the_largest_of_several_boundaries_counts(tmp_path):
    path = tmp_path / "plan.wkt"
    path.write_text(
        'kind,type,wkt\nboundary,,"POLYGON((0 0,1 0,1 1,0 1,0 0))"\n'
        'room,Bath,"POLYGON((0 0,3 0,3 3,0 3,0 0))"\n'
        'boundary,,"POLYGON((0 0,4 0,4 4,0 4,0 0))"\n'
    )
    report = read_report(path)
    assert FloorPlan.of(report.diagrams[0]).outline.area == pytest.approx(16)
    assert report.left_out == {"further plot outlines": 1}
    assert "1 further plot outline left out" in report.counts()
