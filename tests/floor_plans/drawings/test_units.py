"""A drawing that is hardly in the unit it is read in is refused, in every format."""

from __future__ import annotations

import json

import pytest
from drawn_plans import embedded

from discrete_diffusion.cli import main
from floor_plans.diagrams.geometry import UNITS, metres_per
from floor_plans.drawings.readers import read_report
from floor_plans.drawings.realised_files import DEFAULT, FORMATS
from floor_plans.plans.floor_plan import FloorPlan, floor_plans

pytest.importorskip("ezdxf", reason="dimensioned plans take the extra plans")
pytest.importorskip("shapely", reason="dimensioned plans take the extra plans")

DEGREE = 111_320.0


def scaled(value, factor):
    if isinstance(value, list):
        return [scaled(each, factor) for each in value]
    return value * factor


def of_another_hand(plan: FloorPlan, format: str, factor: float, unit: str | None = None) -> str:
    """The file of a plan without what is ours in it, its lengths so many times as large."""
    text = FORMATS[format].content_of(plan, DEFAULT)
    data = json.loads(text)
    del data["discrete_diffusion"]
    data.pop("unit", None)
    for feature in data.get("features", ()):
        geometry = feature["geometry"]
        geometry["coordinates"] = scaled(geometry["coordinates"], factor)
    for space in data.get("spaces", ()):
        for corner in space["floor_polygon"]:
            corner |= {"x": corner["x"] * factor, "y": corner["y"] * factor}
    return json.dumps(data if unit is None else {**data, "unit": unit})


@pytest.mark.parametrize("format", ["geojson", "rlvr"])
@pytest.mark.parametrize(
    ("factor", "named"),
    [
        (1 / DEGREE, "degrees of longitude and latitude"),
        (1000.0, "millimetres"),
        (100.0, "centimetres"),
        (1 / 0.0254, "inches"),
    ],
)
def test_another_unit_is_refused_by_name(tmp_path, format, factor, named):
    for k, plan in enumerate(embedded(4)):
        path = tmp_path / f"{k}{FORMATS[format].suffix}"
        path.write_text(of_another_hand(plan, format, factor))
    with pytest.raises(ValueError, match=named) as caught:
        read_report(tmp_path)
    assert str(tmp_path) in str(caught.value)
    with pytest.raises(ValueError, match=named):  # one alone too
        read_report(path)


@pytest.mark.parametrize("format", ["geojson", "rlvr"])
@pytest.mark.parametrize("unit", UNITS[1:])
def test_a_file_may_say_its_unit(tmp_path, format, unit):
    plan = embedded(1)[0]
    path = tmp_path / f"plan{FORMATS[format].suffix}"
    path.write_text(of_another_hand(plan, format, 1 / metres_per(unit), unit))
    (read,) = read_report(path).diagrams
    assert FloorPlan.of(read).areas == pytest.approx(plan.areas)
    path.write_text(of_another_hand(plan, format, 1.0, "cubits"))
    with pytest.raises(ValueError, match=r"'unit'.*cubits.*millimetres"):
        read_report(path)


def test_few_rooms_are_checked_too(tmp_path):
    """Two rooms, of which there is one pair."""
    ring = [[0, 0], [4000, 0], [4000, 3000], [0, 3000], [0, 0]]
    room = {
        "type": "Feature",
        "properties": {"room_type": "Kitchen"},
        "geometry": {"type": "Polygon", "coordinates": [ring]},
    }
    data = {"type": "FeatureCollection", "features": [room]}
    (tmp_path / "plan.geojson").write_text(json.dumps(data))
    with pytest.raises(ValueError, match=r"plan\.geojson.*millimetres"):
        read_report(tmp_path / "plan.geojson")


def test_one_of_many_is_named(tmp_path):
    for k, plan in enumerate(embedded(6)):
        factor = 1000.0 if k == 3 else 1.0
        (tmp_path / f"{k}.geojson").write_text(of_another_hand(plan, "geojson", factor))
    with pytest.raises(ValueError, match=r"3\.geojson.*millimetres"):
        read_report(tmp_path)


def test_areas_are_not_taken_of_boxes_in_another_unit(tmp_path, monkeypatch):
    """Relations that are given are not measured, but areas are."""
    diagrams = [plan.diagram for plan in embedded(3)]
    assert [plan.areas for plan in floor_plans(diagrams)]
    for unit in ("pixels", "millimetres", "centimetres"):
        with pytest.raises(ValueError, match=rf"unit={unit}.*unit=metres"):
            floor_plans(diagrams, unit)
    lines = [json.dumps(diagram.to_json()) for diagram in diagrams]
    (tmp_path / "plans.jsonl").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["plans", "realise", "plans.jsonl", "areas=plans.jsonl", "unit=millimetres", "out=x"])
