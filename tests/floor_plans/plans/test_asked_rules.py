"""Rules of one client's plan: doors between kinds of rooms, openings, areas, space to turn."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

pytest.importorskip("ortools", reason="OR-Tools finds plans")
pytest.importorskip("shapely", reason="dimensioned plans take the extra plans")

from shapely import LineString

from floor_plans.briefs.making import with_brief
from floor_plans.drawings.drawn_parts import DrawingStyle
from floor_plans.drawings.dxf import dxf_of
from floor_plans.drawings.ifc import ifc_of
from floor_plans.drawings.readers import read_diagrams
from floor_plans.plans.doors import find_doors
from floor_plans.plans.floor_plan import Door, FloorPlan
from floor_plans.plans.walls import clear_floors
from floor_plans.rules.asked import door_request
from floor_plans.rules.rule_set import NO_RULES, judge
from floor_plans.solver.realising import realise
from floor_plans.solver.requests import PlanRequest
from floor_plans.solver.shapes import PlanShapes
from plan_examples import diagram_of, floor_plan

ROOMS = floor_plan(
    {
        "LivingRoom": (0.0, 0.0, 5.0, 4.0),
        "Kitchen": (5.0, 0.0, 8.0, 3.0),
        "MasterRoom": (0.0, 4.0, 4.0, 8.0),
        "Bathroom": (4.0, 4.0, 5.8, 6.4),
    }
)


def rules_of(**brief):
    return with_brief(PlanRequest(), brief)[0].rules


def sides(plan: FloorPlan, *, is_open: bool = False) -> set[frozenset[str]]:
    """Room types on both sides of doors, or of openings."""
    names = plan.diagram.room_names
    inner = [door for door in plan.doors if not door.is_front and door.is_open == is_open]
    return {frozenset(names[room] for room in door.rooms) for door in inner}


def planned(**brief) -> tuple[FloorPlan, dict]:
    """The plan with the doors that a brief asks for, and which of its rules it keeps."""
    rules = rules_of(**brief)
    plan = find_doors(ROOMS, asked=door_request(rules.rules))
    return plan, judge(plan, rules).kept


SUITE = {"Bathroom", "MasterRoom"}
COOKING = {"Kitchen", "LivingRoom"}


def test_a_door_is_placed_where_the_tree_has_none():
    asked = rules_of(doors=[["Bathroom", "MasterRoom"]])
    usual = find_doors(ROOMS)
    assert SUITE not in sides(usual)
    assert judge(usual, asked).kept == {"door": False}
    plan, kept = planned(doors=[["MasterRoom", "Bathroom"]])
    assert SUITE in sides(plan)
    assert kept == {"door": True}
    assert sides(plan) - {frozenset(SUITE)} == sides(usual)


def test_no_door_is_placed_where_none_may_be():
    asked = rules_of(no_door=[["Kitchen", "LivingRoom"]])
    assert judge(find_doors(ROOMS), asked).kept == {"no_door": False}
    plan, kept = planned(no_door=[["LivingRoom", "Kitchen"]])
    assert COOKING not in sides(plan)
    assert kept == {"no_door": True}


def test_open_rooms_have_no_wall_and_no_leaf():
    plan, kept = planned(open=[["Kitchen", "LivingRoom"]])
    (opening,) = [door for door in plan.doors if door.is_open]
    assert sides(plan, is_open=True) == {frozenset(COOKING)}
    assert kept == {"open": True}
    assert judge(find_doors(ROOMS), rules_of(open=[["Kitchen", "LivingRoom"]])).kept == {
        "open": False
    }
    assert abs(opening.start[1] - opening.end[1]) == pytest.approx(3 - 2 * 0.15)
    # no wall, no swing, more clear floor; the same after JSON and a drawing
    shapes, bare = PlanShapes(plan), PlanShapes(find_doors(ROOMS))
    assert bare.solid.difference(shapes.solid).area == pytest.approx(2.7 * 0.1)
    assert len(shapes.swings) == len(plan.doors) - 1
    gained = clear_floors(plan)[1].area - clear_floors(ROOMS)[1].area
    assert gained == pytest.approx(2.7 * 0.05)
    assert FloorPlan.of(plan.to_diagram()).doors == plan.doors


def test_open_rooms_stay_open_in_a_drawing(tmp_path):
    plan, _ = planned(open=[["Kitchen", "LivingRoom"]])
    (tmp_path / "plan.dxf").write_text(dxf_of(plan, DrawingStyle()))
    (read,) = read_diagrams(tmp_path / "plan.dxf", max_nodes=8)
    assert [door.is_open for door in FloorPlan.of(read).doors] == [d.is_open for d in plan.doors]
    with pytest.raises(ValueError, match=r"doors.*open"):
        Door.from_json({**plan.doors[0].to_json(), "open": 1}, 4)


def test_ifc_has_a_virtual_boundary_where_rooms_are_open_to_each_other():
    ifcopenshell = pytest.importorskip("ifcopenshell")
    plan, _ = planned(open=[["Kitchen", "LivingRoom"]])
    model = ifcopenshell.file.from_string(ifc_of(plan, DrawingStyle()))
    assert len(model.by_type("IfcDoor")) == len(plan.doors) - 1
    virtual = [
        each.RelatingSpace.LongName
        for each in model.by_type("IfcRelSpaceBoundary")
        if each.PhysicalOrVirtualBoundary == "VIRTUAL"
    ]
    assert {*virtual} == {"Kitchen", "Living room"}
    # no wall piece lies between the two
    assert PlanShapes(plan).solid.intersects(LineString([(5, 1.0), (5, 2.0)])) is False


def test_clear_areas_are_those_between_the_walls():
    # outer walls take 0.15 m, inner ones 0.05 m; of the right wall a third is outer
    inside = (4.95 - 0.15) * (3.95 - 0.15) - 0.1 * (1.0 - 0.05)
    area = clear_floors(ROOMS)[0].area
    assert area == pytest.approx(inside, abs=0.02)
    for least, most, is_kept in (
        (area - 0.1, area + 0.1, True),
        (area + 0.1, 30, False),
        (1, area - 0.1, False),
    ):
        rules = rules_of(areas={"LivingRoom": [round(least, 3), round(most, 3)]})
        assert judge(ROOMS, rules).kept == {"clear_area": is_kept}


def test_doors_of_an_accessible_plan_are_wide_and_a_circle_fits_a_bathroom():
    plan, kept = planned(accessible=True)
    assert kept == {"doors": True, "turning": True}
    inner = [door for door in plan.doors if not door.is_front]
    assert [math.dist(d.start, d.end) for d in inner] == pytest.approx([0.9] * len(inner))
    narrow = floor_plan({"LivingRoom": (0.0, 0.0, 5.0, 4.0), "Bathroom": (5.0, 0.0, 6.6, 4.0)})
    assert judge(narrow, rules_of(accessible=True)).kept["turning"] is False


@pytest.mark.slow
def test_the_solver_keeps_what_a_client_asks():
    diagram = diagram_of(
        "LivingRoom MasterRoom Kitchen Bathroom", "0 left-of 1", "0 above 2", "1 above 3"
    )
    brief = {
        "areas": {"MasterRoom": [12, 13], "Kitchen": [8, 9]},
        "doors": [["Bathroom", "MasterRoom"]],
        "open": [["Kitchen", "LivingRoom"]],
        "light": ["Bathroom"],
        "accessible": True,
    }
    request, _ = with_brief(PlanRequest(rules=NO_RULES), brief)
    (plan,) = realise(replace(request.job(1, diagram), proofs=False)).plans
    assert judge(plan, request.rules).kept == dict.fromkeys(
        ("doors", "facade", "clear_area", "door", "turning", "open"), True
    )
    assert 12 <= clear_floors(plan)[1].area <= 13


@pytest.mark.parametrize(("kind", "hall"), [("Entrance", "never"), ("Kitchen", "auto")])
def test_a_brief_without_entrances_gets_no_hall(kind, hall):
    assert with_brief(PlanRequest(), {"rooms": {kind: 0}})[0].hall == hall
