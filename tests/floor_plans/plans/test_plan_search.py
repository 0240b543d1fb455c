"""The order in which plans are looked for, and the coarse grid on which that begins."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import chain

import pytest

from plan_examples import floor_plan, only

pytest.importorskip("ortools", reason="needs the extra plans")

from discrete_diffusion.layout import RELATIONS, ROOM_TYPES
from floor_plans import generate_plans
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.plans.box_model import BoxModel, effort_left
from floor_plans.plans.outline import Outline
from floor_plans.rules.checks import filled_share
from floor_plans.rules.rule_set import judge, read_rules
from floor_plans.solver import realising
from floor_plans.solver.plan_model import PlanModel
from floor_plans.solver.realised import Job
from floor_plans.solver.realising import PlanSearch, plan_from_boxes, realise
from floor_plans.solver.requests import PlanRequest
from floor_plans.solver.spec import WITHOUT_RULES, PlanSpec, Priority

ROOMS = tuple(map(ROOM_TYPES.index, ("LivingRoom", "MasterRoom")))
FLAT = BubbleDiagram(ROOMS, ((0, 1, RELATIONS.index("left-of")),))
PLOT = Outline(boundary=((0.0, 0.0), (8.0, 0.0), (8.0, 6.0), (0.0, 6.0)))


def test_sides_on_a_coarse_grid_are_multiples_of_its_step():
    model = PlanModel(FLAT.rooms, FLAT.relations, PlanSpec((24.0, 12.0), rules=only("access")))
    literals = [each.literal for each in model.rooms.soft]
    answer, boxes = model.box_model.solve(1.0, fixed=literals, light=True, step=4)
    assert answer is True
    assert boxes is not None
    assert all(side % 4 == 0 for side in chain(*boxes))
    assert any(
        side % 4 for side in chain(*model.box_model.solve(1.0, seed=3)[1])
    )  # the model stays as it is


def test_no_boxes_on_a_coarse_grid_are_no_answer():
    """A plot of 7.5 x 5.3 m is no multiple of .4 m, so nothing fills all of it there."""
    plot = Outline(boundary=((0.0, 0.0), (7.5, 0.0), (7.5, 5.3), (0.0, 5.3)))
    full = only("fill", fill={"share": 1.0})
    model = PlanModel(FLAT.rooms, FLAT.relations, PlanSpec((26.0, 13.7), outline=plot, rules=full))
    literals = [each.literal for each in model.rooms.soft if each.priority == Priority.FILL]
    assert model.box_model.solve(1.0, fixed=literals, light=True, step=4) == (None, None)
    assert model.search.meets(1.0, 0, WITHOUT_RULES) is True


def test_boxes_around_a_hint_are_near_to_it():
    model = PlanModel(FLAT.rooms, FLAT.relations, PlanSpec((24.0, 12.0)))
    boxes = model.box_model.solve(1.0)[1]
    model.cp.minimize(model.outline.dead)
    answer, near = model.box_model.solve(1.0, hint=boxes, around=2)
    assert answer is True
    assert all(abs(a - b) <= 2 for a, b in zip(chain(*boxes), chain(*near), strict=True))
    model.cp.add(model.box_model.high[0][1] >= boxes[1][2] + 3)
    assert model.box_model.solve(1.0, hint=boxes, around=2) == (
        None,
        None,
    )  # says nothing of others
    assert model.box_model.solve(1.0)[0] is True


def test_the_solver_counts_a_filled_plot_as_the_rule_does():
    """A square that is left in a corner may be half a wall longer than its share of the plot."""
    rules, notch = read_rules("default"), math.sqrt(0.05 * 48) + 0.15
    flat = [("LivingRoom", (0, 0, 8, 6 - notch)), ("MasterRoom", (0, 6 - notch, 8 - notch, 6))]
    assert filled_share(floor_plan(flat, boundary=PLOT.boundary), 0.3) == pytest.approx(0.95)
    spec = PlanSpec((24.0, 20.0), outline=PLOT, rules=only("fill"))
    limit = math.floor(100 * notch**2)
    for left, possible in ((limit, True), (limit + 1, False)):
        model = PlanModel(FLAT.rooms, FLAT.relations, spec)
        model.cp.add(model.outline.dead >= left)
        fixed = [each.literal for each in model.rooms.soft if each.requirement.rule == "fill"]
        answer, boxes = model.box_model.solve(2.0, fixed=fixed)
        assert answer is possible
        if boxes is not None:
            assert judge(plan_from_boxes(FLAT, spec, boxes), rules).kept["fill"] is True


@pytest.mark.slow
def test_a_plot_is_filled_from_a_plan_that_meets_all_else():
    """A search for all at once, on grids of any step, found no such plan in the same effort."""
    diagram = list(generate_plans(11, seed=0))[-1]
    plot = Outline(boundary=((0.0, 0.0), (12.0, 0.0), (12.0, 8.0), (0.0, 8.0)))
    request = PlanRequest(outline=plot, rules=read_rules("default"))
    (job,) = request.jobs([BubbleDiagram(diagram.rooms, diagram.relations)])
    assert not realise(job).broken


def test_a_plan_that_keeps_the_rules_alone_is_not_excluded():
    """A plot of 48 m2, filled, for rooms of 13 m2: no room can be near its area."""
    spec = PlanSpec((8.0, 5.0), outline=PLOT, rules=only("fill"))
    search = PlanSearch(Job(FLAT, spec), spec)
    (model,) = search.models(meet_all=False)
    assert not search.excluded
    assert model.find_best(1.0, 0.1, 0)[0] is True
    assert Priority.FILL not in model.search.missed
    assert Priority.LARGEST in model.search.missed
    found = realise(Job(FLAT, spec))
    assert not found.broken
    assert not found.excluded


def test_boxes_without_space_for_furniture_are_moved_until_they_have_it():
    """The kitchen is 1.5 m wide at first, too narrow for its rectangle with walls."""
    kitchen = (ROOM_TYPES.index("LivingRoom"), ROOM_TYPES.index("Kitchen"))
    spec = PlanSpec((24.0, 6.0), rules=only("width", "furniture"))
    model = PlanModel(kitchen, FLAT.relations, spec)
    width = model.sides_of(1)[2] - model.sides_of(1)[0]
    model.box_model.always = [model.rooms.literal(width == 15)]
    assert model.search.meets(1.0, 0, WITHOUT_RULES | {Priority.FURNISH})
    assert not model.search.approach(WITHOUT_RULES, 0)
    model.box_model.always = []
    assert model.search.approach(WITHOUT_RULES, 0)
    diagram = BubbleDiagram(kitchen, FLAT.relations)
    boxes = model.search.satisfy(0.6, 0)[1]
    assert judge(plan_from_boxes(diagram, spec, boxes), spec.rules).kept["furniture"]


def test_other_areas_count_where_they_meet_all():
    """Where only areas are given up, the plan of others is taken if it gives up nothing."""
    spec = PlanSpec((8.0, 5.0), outline=PLOT, rules=only("fill"))
    assert not list(PlanSearch(Job(FLAT, spec), spec).models(meet_all=True))
    found = realise(Job(FLAT, spec, other_areas=((31.0, 16.0),)))
    assert found.areas == (31.0, 16.0)
    assert not found.given_up
    kept = realise(Job(FLAT, spec, other_areas=((9.0, 5.0),)))
    assert kept.areas == (8.0, 5.0)


def test_a_plan_that_is_found_twice_is_one_variant(monkeypatch):
    """A tighter outline need not rule out the plan that it is to replace."""
    boxes = ((0, 0, 40, 40), (40, 0, 60, 40))
    monkeypatch.setattr(PlanModel, "find_best", lambda *_: (True, boxes))
    monkeypatch.setattr(realising, "_flaws", lambda *_: frozenset({"slits"}))
    spec = PlanSpec((16.0, 8.0))
    model = PlanModel(FLAT.rooms, FLAT.relations, spec)
    found = realising._find_variants(Job(FLAT, spec, variants=2), spec, model, lambda: False)
    assert len(found[1]) == 1


def test_the_searches_of_a_plan_share_an_effort(monkeypatch):
    """Once it is spent, the best plan so far counts."""
    monkeypatch.setattr("floor_plans.solver.realising._MOST_EFFORT", 0.4)
    left, solve_alone = [], BoxModel.solve

    def solve(self, *args, **options):
        found = solve_alone(self, *args, **options)
        left.append(effort_left.get())
        return found

    monkeypatch.setattr(BoxModel, "solve", solve)
    diagram = list(generate_plans(11, seed=0))[-1]
    (job,) = PlanRequest(rules=read_rules("default")).jobs([replace(diagram, boxes=None)])
    (plan,) = realise(job).plans
    assert plan.honours_diagram
    assert min(left) == pytest.approx(0.0, abs=0.05)
    assert effort_left.get() == math.inf
