"""What the IFC file of a plan, read by itself, says of a client's brief."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("ifcopenshell", reason="IFC takes the extra ifc")
pytest.importorskip("ortools", reason="OR-Tools finds plans")

from clients import IfcPlan, judged, measure
from floor_plans.briefs.making import with_brief
from floor_plans.briefs.reading import brief_of
from floor_plans.drawings.realised_files import write_plan
from floor_plans.plans.doors import find_doors
from floor_plans.rules.asked import ASKED, door_request
from floor_plans.solver.requests import PlanRequest
from plan_examples import floor_plan

ROOMS = floor_plan(
    {
        "LivingRoom": (0.0, 0.0, 5.0, 4.0),
        "Kitchen": (5.0, 0.0, 8.0, 3.0),
        "MasterRoom": (0.0, 4.0, 4.0, 8.0),
        "Bathroom": (4.0, 4.0, 5.8, 6.4),
    }
)
BRIEF = {
    "num_rooms": 4,
    "rooms": {"Bedroom": 1},
    "relations": ["no MasterRoom adjacent Kitchen", "every Bathroom adjacent Bedroom"],
    "any": ["StudyRoom beside Kitchen", {"rooms": {"Bathroom": 1}}],
    "area": 49,
    "areas": {"LivingRoom": [17, 19], "Kitchen": 7},
    "doors": [["Bathroom", "MasterRoom"]],
    "no_door": [["Kitchen", "Bedroom"]],
    "open": [["Kitchen", "LivingRoom"]],
    "light": ["Kitchen"],
    "accessible": True,
}


def unmet(folder: Path, plan, brief) -> list[str]:
    write_plan(folder / "plan.ifc", plan, "ifc")
    return [said for said, met in judged(brief_of(brief), IfcPlan(folder / "plan.ifc")) if not met]


def test_a_plan_meets_what_it_was_made_for_and_one_with_usual_doors_does_not(tmp_path):
    asked = door_request(with_brief(PlanRequest(), BRIEF)[0].rules.rules)
    assert unmet(tmp_path, find_doors(ROOMS, asked=asked), BRIEF) == []
    assert unmet(tmp_path, find_doors(ROOMS), BRIEF) == [
        "a door Bathroom - MasterRoom",
        "open Kitchen - LivingRoom",
        "doors of 0.9 m",
    ]
    assert unmet(tmp_path, ROOMS, {"num_rooms": 4}) == ["every room is reached"]


@pytest.mark.parametrize(
    ("brief", "said"),
    [
        ({"num_rooms": 5}, "exactly 5 rooms"),
        ({"rooms": {"Balcony": 1}}, "Exactly 1 balcony."),
        ({"relations": ["Kitchen beside Bathroom"]}, "Some kitchen is next to some bathroom."),
        ({"relations": ["no Kitchen beside LivingRoom"]}, "No kitchen is next to any living room."),
        ({"any": ["Balcony beside Kitchen", {"rooms": {"Bathroom": 2}}]}, "Some balcony is"),
        ({"area": 60}, "60 m2 of rooms"),
        ({"areas": {"LivingRoom": [19, 25]}}, "LivingRoom of 19 to 25 m2"),
        ({"areas": {"LivingRoom": [12, 17]}}, "LivingRoom of 12 to 17 m2"),
        ({"no_door": [["Kitchen", "LivingRoom"]]}, "no door Kitchen - LivingRoom"),
    ],
)
def test_what_a_plan_lacks_is_named(tmp_path, brief, said):
    found = unmet(tmp_path, find_doors(ROOMS), brief)
    assert [each[: len(said)] for each in found] == [said]


@pytest.mark.parametrize(
    ("setbacks", "coverage", "said"),
    [(1.8, 0.5, []), (2, 0.3, ["within the setbacks of the site", "30% of the site"])],
)
def test_a_house_stands_in_its_site(tmp_path, setbacks, coverage, said):
    site = {"polygon": [[-2, -2], [10, -2], [10, 10], [-2, 10]], "coverage": coverage}
    brief = {"area": 20, "site": site | {"setbacks": setbacks}}
    land = with_brief(PlanRequest(), brief | {"site": site})[0].site
    plan = find_doors(ROOMS)
    plan = replace(plan, diagram=replace(plan.diagram, metadata={"site": land}))
    assert unmet(tmp_path, plan, brief) == ["20 m2 of rooms", *said]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["couple", "shared"])
def test_ifc_files_of_a_brief_tell_what_the_rules_of_the_plan_tell(tmp_path, name):
    for plan in measure(name, 1, 1, tmp_path)["plans"]:
        assert bool(plan["unmet"]) is bool({*plan["broken"]} & {*ASKED, "doors", "facade"})
