"""Briefs with a site: how it is read, what is refused, and plans in it."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import pytest

pytest.importorskip("shapely", reason="sites take the extra plans")

import shapely

from discrete_diffusion.cli import main
from floor_plans import BubbleDiagram
from floor_plans.briefs.making import make_plans, with_brief
from floor_plans.briefs.reading import brief_of, read_brief
from floor_plans.briefs.sentences import sentences
from floor_plans.diagrams.files.yaml_nodes import BriefError
from floor_plans.diagrams.vocabulary import DIRECTIONS
from floor_plans.drawings.realised_files import write_plan
from floor_plans.solver.requests import PlanRequest
from floor_plans.studio import answering
from plan_examples import CIRCLE

LAND = {"width": 20, "depth": 30, "setbacks": {"front": 5, "left": 3, "right": 3}}


def facts(**brief):
    return brief_of(brief).plan_facts


def test_the_outline_the_front_door_and_north_follow_from_the_site():
    found = facts(area=90, north=20, site=LAND)
    outline = shapely.Polygon(found.outline)
    assert outline.area == pytest.approx(90 / 0.975, rel=0.01)
    assert outline.bounds[3] == pytest.approx(30 - 5 - 0.15, abs=0.01)
    assert (found.front_door[1], found.north) == (outline.bounds[3], 20)
    said = " ".join(sentences(brief_of({"area": 90, "north": 20, "site": LAND})))
    for words in ("600.0 m2", "350.0 m2", f"{outline.area:.1f} m2", "north is at 20 degrees"):
        assert words in said


def test_north_is_turned_with_a_slanted_street():
    corners = [[0, 0], [16, 12], [1, 32], [-15, 20]]  # turned by atan(3 / 4)
    found = facts(area=90, north=20, site={"polygon": corners, "street": 1, "setbacks": 3})
    assert found.north == pytest.approx((20 + 180 - 36.8699) % 360, abs=1e-3)
    street = found.site.polygon[0], found.site.polygon[1]
    assert street[0][1] == street[1][1] == max(y for _, y in found.site.polygon)
    assert found.site.area == pytest.approx(500)
    # so is north of an option
    request, _ = with_brief(
        PlanRequest(north=20),
        {"area": 90, "site": {"polygon": corners, "street": 1, "setbacks": 3}},
    )
    assert request.north == found.north


@pytest.mark.parametrize(
    ("street", "side"), [("east", 0), ("south", 1), ("top", 0), ("left", 3), (3, 2)]
)
def test_a_street_is_a_side_a_point_of_the_compass_or_a_number(street, side):
    """North is to the left, so that east is at the top."""
    found = facts(area=60, north=-90, site={**LAND, "street": street})
    assert found.site.street == side


@pytest.mark.parametrize("street", ["top", "left", "east", 2])
def test_the_width_of_a_site_is_along_the_street(street):
    land = facts(area=60, north=10, site={"width": 20, "depth": 30, "street": street}).site
    ends = (*land.polygon, land.polygon[0])[land.street : land.street + 2]
    assert math.dist(*ends) == 20


@pytest.mark.parametrize(
    ("setbacks", "expected"),
    [(2, (2, 2, 2, 2)), ({"left": 1}, (0, 1, 0, 0)), ([1, 2, 3, 4], (1, 2, 3, 4))],
)
def test_setbacks_are_one_number_or_one_for_each_side(setbacks, expected):
    """The street is at the top: seen from it, left is on the right of the sheet."""
    site = {**LAND, "street": "top", "setbacks": setbacks}
    assert facts(area=60, site=site).site.setbacks == expected


def test_areas_of_rooms_say_how_large_the_plan_is():
    asked = {"rooms": {"Bedroom": 2, "Kitchen": 1}, "areas": {"Bedroom": [10, 14], "Kitchen": 8}}
    wide = {"width": 80, "depth": 60}
    found = facts(num_rooms=5, site=wide, **asked)
    # bedrooms of 12 m2 and a kitchen with half of their walls, and two rooms of a typical size
    assert shapely.Polygon(found.outline).area == pytest.approx(57.3, abs=1.5)
    assert facts(num_rooms=5, site=wide).outline is None
    # of an unknown number of rooms they say nothing
    assert facts(site=wide, **asked).outline is None


def test_the_area_of_a_command_counts_if_the_brief_has_none(tmp_path):
    path = tmp_path / "brief.yaml"
    path.write_text("num_rooms: 6\n\nsite: {width: 80, depth: 60}\n")
    request, _ = with_brief(PlanRequest(total_area=100), str(path))
    assert request.outline.area == pytest.approx(100 / 0.975, rel=0.01)
    assert request.site["polygon"] == [[0, 0], [80, 0], [80, 60], [0, 60]]
    (job,) = request.jobs([CIRCLE])
    assert job.diagram.metadata["site"] == request.site
    with pytest.raises(BriefError, match=r"brief.yaml, line 3, key 'site'.*area:.*total_area="):
        with_brief(PlanRequest(), str(path))


def test_diagrams_are_sampled_for_the_plot_of_the_command():
    brief, asked = {"num_rooms": 6, "site": {"width": 12, "depth": 9}}, []

    def sample(*_, brief, **__):
        asked.append(brief)
        raise LookupError

    with pytest.raises(LookupError):
        make_plans(SimpleNamespace(sample=sample), PlanRequest(total_area=30), brief=brief, num=1)
    request, told = with_brief(PlanRequest(total_area=30), brief)
    assert asked == [told]
    assert request.outline.boundary == told.plan_facts.outline
    assert request.outline.area == pytest.approx(30 / 0.975, rel=0.02)
    order = answering.read_plan(json.dumps({"brief": brief, "total_area": 30}).encode())
    assert order.brief == told


def test_a_stated_front_door_is_kept_on_the_plot_of_a_command():
    brief = {"num_rooms": 6, "site": {"width": 12, "depth": 9}}
    x, y = facts(**brief).front_door
    request, _ = with_brief(PlanRequest(total_area=60), brief | {"front_door": [x - 1, y]})
    assert request.front_door == (x - 1, y)
    with pytest.raises(BriefError, match=r"'front_door'.*total_area=20.*m from the boundary"):
        with_brief(PlanRequest(total_area=20), brief | {"front_door": [0.15, 2]})


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (PlanRequest(front_door=(1, 1)), "front_door=.*the site: of the brief finds it"),
        (PlanRequest(total_area=5000), "total_area=5000.*the brief states area"),
    ],
)
def test_what_a_site_or_its_brief_says_is_not_asked_twice(request_, words):
    with pytest.raises(ValueError, match=words):
        with_brief(request_, {"area": 60, "site": LAND})


@pytest.mark.parametrize(
    ("site", "key", "words"),
    [
        ("{width: 5, depth: 9, setbacks: 3}", "site.setbacks", ("nothing", "45 m2")),
        ("{width: 20, depth: 9, setbacks: -1}", "site.setbacks", ("-1", "from 0")),
        ("{width: 20, depth: 9, setbacks: {side: 1}}", "site.setbacks.side", ("front", "right")),
        ("{width: 20, depth: 9, setbacks: [1, 2]}", "site.setbacks", ("4", "2")),
        ("{polygon: [[0, 0], [9, 9], [9, 0], [0, 9]]}", "site.polygon", ("cross",)),
        ("{polygon: [[0, 0], [9, 0], [9, 9]], width: 9}", "site", ("polygon", "width")),
        ("{width: 20}", "site", ("polygon", "depth")),
        ("{width: 0, depth: 9}", "site.width", ("above 0", "got 0")),
        ("{width: 900, depth: 9}", "site.width", ("200", "900")),
        ("{width: 20, depth: 9, street: [left, top]}", "site.street", ("one side", "entrance")),
        ("{width: 20, depth: 9, street: 5}", "site.street", ("1 to 4", "5")),
        ("{width: 20, depth: 9, street: south}", "site.street", ("north:", "bottom")),
        ("{width: 20, depth: 9, coverage: 0}", "site.coverage", ("above 0", "0")),
        ("{width: 20, depth: 9, coverage: 40}", "site.coverage", ("at most 1", "40")),
        ("{width: 20, depth: 9, cover: 0.4}", "site.cover", ("coverage",)),
        ("{width: 10, depth: 9, coverage: 0.4}", "site", ("61.5 m2", "coverage 0.4", "36.0 m2")),
        ("large", "site", ("polygon", "large")),
        ("{}", "site", ("polygon", "got no keys")),
        ("{width: 20, depth: 9, setbacks: -.0005}", "site.setbacks", ("from 0", "-.0005")),
        ("{width: .0005, depth: 9}", "site", ("no area",)),
        ("{width: 20, depth: 9, street: {side: top}}", "site.street", ("one side", "keys")),
        ("{width: 20, depth: 9, street: [{side: top}]}", "site.street", ("one side", "a list")),
        ("{width: 20, depth: 9}\noutline: [[0, 0], [9, 0], [0, 9]]", "outline", ("site:",)),
    ],
)
def test_what_is_wrong_with_a_site_is_named(site, key, words, tmp_path):
    path = tmp_path / "brief.yaml"
    path.write_text(f"area: 60\nsite: {site}\n")
    with pytest.raises(BriefError) as caught:
        read_brief(path)
    line = 3 if key == "outline" else 2
    assert (caught.value.key, caught.value.line, caught.value.path) == (key, line, path)
    for word in words:
        assert word in caught.value.reason


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [("outline", [[0, 0], [9, 0], [0, 9]], "the site: finds"), ("front_door", [5, 5], "give area")],
)
def test_a_site_whose_plot_is_not_found_yet_has_no_other_outline(key, value, words):
    with pytest.raises(BriefError, match=f"'{key}'.*{words}"):
        brief_of({"site": {"width": 80, "depth": 60}, key: value})


def test_a_check_refuses_a_site_of_any_size_without_an_area(tmp_path, capsys):
    path = tmp_path / "brief.yaml"
    path.write_text("num_rooms: 6\nsite: {width: 80, depth: 60}\n")
    with pytest.raises(SystemExit):
        main(["brief", "check", str(path), "plans=none"])
    said = capsys.readouterr().err
    for words in ("line 2, key 'site'", "4800 m2", "150 m2", "area:", "total_area="):
        assert words in said
    # and the check of the studio
    asked = {"brief": {"num_rooms": 6, "site": {"width": 80, "depth": 60}}}
    with pytest.raises(BriefError, match="key 'site': the site of 4800 m2"):
        answering.answer_check((json.dumps(asked).encode(), 8, DIRECTIONS))


@pytest.mark.slow
def test_plans_are_made_in_the_site_with_the_front_door_at_the_street(tmp_path):
    pytest.importorskip("ortools")
    pair = BubbleDiagram((0, 2), [(0, 1, 2)])
    model = SimpleNamespace(sample=lambda *_, **__: [pair])
    brief = {"area": 30, "north": 15, "site": LAND}
    (made,) = make_plans(model, PlanRequest(), brief=brief, num=1)
    plan, found = made.plan, brief_of(brief).plan_facts
    assert plan.boundary == found.outline
    (front,) = (door for door in plan.doors if door.is_front)
    assert front.middle[1] == pytest.approx(found.front_door[1])
    assert (plan.north, plan.to_json()["site"]) == (15, found.site.to_json())
    write_plan(tmp_path / "plan.svg", plan, "svg")
    assert "plan-setbacks" in (tmp_path / "plan.svg").read_text()
