"""Modified Swiss Dwellings and ResPlan: small files in their published schemas."""

from __future__ import annotations

import csv
import pickle

import numpy as np
import pytest

from floor_plans.drawings.readers import ReadOptions, read_report
from floor_plans.plans.floor_plan import FRONT_DOOR, FloorPlan

shapely = pytest.importorskip("shapely", reason="dimensioned plans take the extra plans")

COLUMNS = "apartment_id site_id building_id plan_id floor_id unit_id area_id unit_usage"
COLUMNS += " entity_type entity_subtype geom elevation height zoning roomtype"

ROOMS = [  # clear floors, y upwards, walls of .2 m between them
    ("Livingroom", "LIVING_DINING", (0, 0, 5, 4)),
    ("Bedroom", "ROOM", (5.2, 0, 8, 4)),
    ("Bedroom", "BEDROOM", (0, 4.2, 5, 8)),
    ("Corridor", "CORRIDOR", (5.2, 4.2, 8, 6)),
    ("Bathroom", "BATHROOM", (5.2, 6.2, 8, 8)),
    ("Structure", "SHAFT", (8.1, 6.2, 8.3, 6.5)),
]
DOORS = [
    ("Door", "DOOR", (5, 1, 5.2, 1.9)),
    ("Door", "DOOR", (6, 6, 6.8, 6.2)),
    ("Entrance Door", "ENTRANCE_DOOR", (8, 5, 8.3, 5.9)),
    ("Window", "WINDOW", (-0.3, 1, 0, 3)),
]
KINDS = ("LivingRoom", "SecondRoom", "MasterRoom", "Entrance", "Bathroom")


def msd(path, turned=0.0, drop=(), shift=1000.0):
    """Two apartments of one floor, the second like the first, and public space between them."""
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS.split())
        table.writeheader()

        def write(apartment, entity, kind, subtype, box):
            shape = shapely.affinity.rotate(shapely.box(*box), turned, origin=(0, 0))
            shape = shapely.affinity.translate(shape, shift, 0)
            row = {"apartment_id": apartment, "floor_id": 7, "entity_type": entity}
            row |= {"entity_subtype": subtype, "roomtype": kind, "geom": shape.wkt}
            table.writerow(row)

        for apartment in ("one", "two"):
            for kind, subtype, box in ROOMS:
                if kind not in drop:
                    write(apartment, "area", kind, subtype, box)
            for kind, subtype, box in DOORS:
                write(apartment, "opening", kind, subtype, box)
            write(apartment, "separator", "Structure", "WALL", (5, 0, 5.2, 4))
        write("", "area", "Stairs", "STAIRCASE", (9, 0, 12, 4))
    return path


@pytest.mark.parametrize("turned", [0.0, 30.0])
def test_apartments_of_swiss_dwellings(tmp_path, turned):
    report = read_report(msd(tmp_path / "mds_V2_5.372k.csv", turned), ReadOptions())
    assert report.problems == ()
    assert report.left_out == {"structures": 2, "windows": 2}
    assert [each.metadata["name"] for each in report.diagrams] == [
        f"apartment {name} of floor 7" for name in ("one", "two")
    ]
    plan = FloorPlan.of(report.diagrams[0])
    assert plan.diagram.room_names == KINDS
    assert plan.areas == pytest.approx([20, 11.2, 19, 5.04, 5.04], abs=1e-4)
    assert {door.rooms for door in plan.doors} == {(0, 1), (3, 4), (3, FRONT_DOOR)}
    names = {(i, j): relation for i, j, relation in report.diagrams[0].to_json()["relations"]}
    assert names[0, 2] == "below"  # y is upwards in the file
    assert names[0, 1] == "left-of"


def test_a_floor_without_rooms_and_a_table_cut_short(tmp_path):
    path = msd(tmp_path / "a.csv", drop={kind for kind, *_ in ROOMS} - {"Structure"})
    (problem, _) = read_report(path, ReadOptions(skip_invalid=True)).problems
    assert "apartment one of floor 7" in problem.place
    assert "at least one room" in problem.reason
    path.write_text(path.read_text().replace("POLYGON", "POLYGOON", 1))
    with pytest.raises(ValueError, match=r"apartment one of floor 7.*line \d.*expected a Polygon"):
        read_report(path)


def test_a_polygon_of_many_corners_is_read(tmp_path):
    path, limit = msd(tmp_path / "a.csv"), csv.field_size_limit()
    first, text = ROOMS[0][2], path.read_text()
    many = shapely.affinity.translate(shapely.box(*first).segmentize(0.001), 1000.0)
    assert len(many.wkt) > limit
    short = shapely.affinity.translate(shapely.box(*first), 1000.0).wkt
    assert short in text
    path.write_text(text.replace(short, many.wkt))
    assert read_report(path, ReadOptions()).problems == ()
    assert csv.field_size_limit() == limit


class Trap:
    """Fails the test if anything that a pickle names is called."""

    def __reduce__(self):
        return pytest.fail, ("code of a pickle was run",)


def resplan(**more):
    """A plan of 256 units for 8 m, its graph with code that is never run."""
    scale = 32

    def shapes(*kinds):
        boxes = [box for kind, _, box in (*ROOMS, *DOORS) if kind in kinds]
        return shapely.MultiPolygon([shapely.box(*(scale * x for x in box)) for box in boxes])

    return {
        "id": np.int64(5),
        "living": shapes("Livingroom", "Corridor"),  # one room in two parts
        "bedroom": shapes("Bedroom"),
        "bathroom": shapes("Bathroom").geoms[0],
        "balacony": shapely.Polygon(),
        "door": shapes("Door"),
        "front_door": shapes("Entrance Door").geoms[0],
        "window": shapes("Window"),
        "stair": shapes("Structure"),
        "inner": shapely.box(0, 0, 8 * scale, 8 * scale),
        "area": np.float64(64.0),
        "graph": Trap(),
        **more,
    }


@pytest.mark.parametrize("protocol", [4, 5])
def test_resplan_is_read_without_running_its_pickle(tmp_path, protocol):
    path = tmp_path / "ResPlan.pkl"
    path.write_bytes(pickle.dumps([resplan(), resplan(area=None), 3], protocol=protocol))
    report = read_report(path, ReadOptions(skip_invalid=True))
    assert [problem.record for problem in report.problems] == ["plan 5", "plan 3"]
    assert report.left_out == {"stairs": 1}
    plan = FloorPlan.of(report.diagrams[0])
    assert plan.diagram.metadata["name"] == "plan 5"
    assert plan.diagram.room_names == ("LivingRoom", "SecondRoom", "MasterRoom", "Bathroom")
    assert plan.areas == pytest.approx([25.04, 11.2, 19, 5.04], abs=1e-4)
    assert {door.rooms for door in plan.doors} == {(0, 1), (0, 3), (0, FRONT_DOOR)}


def test_a_pickle_that_is_cut_short_or_another_is_refused(tmp_path):
    path = tmp_path / "ResPlan.pkl"
    content = pickle.dumps([resplan()])
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="damaged pickle"):
        read_report(path)
    path.write_bytes(pickle.dumps(resplan()))
    with pytest.raises(ValueError, match="expected a list of plans"):
        read_report(path)
    path.write_bytes(pickle.dumps([Trap()]))
    with pytest.raises(ValueError, match="a pickle, which is never loaded"):
        read_report(path)
