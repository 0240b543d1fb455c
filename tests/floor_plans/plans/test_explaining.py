"""Why no plan keeps the rules: what the solver rules out, and another relation that would do."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations

import pytest

from plan_examples import diagram_of, only

pytest.importorskip("ortools", reason="needs the extra plans")
pytest.importorskip("shapely", reason="dimensioned plans take the extra plans")

from discrete_diffusion.layout import RELATIONS
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.vocabulary import NO_EDGE
from floor_plans.drawings.realised_files import PlanFiles, broken_rules
from floor_plans.plans.contradiction import room_names
from floor_plans.plans.outline import FREE, Outline
from floor_plans.rules.rule_set import judge
from floor_plans.solver.plan_model import PlanModel
from floor_plans.solver.realised import Explanation, Job
from floor_plans.solver.realising import explain_conflicts, plan_from_boxes, realise
from floor_plans.solver.requests import PlanRequest
from floor_plans.solver.spec import WITHOUT_RULES, PlanSpec, Priority


def plot(width: float, height: float) -> Outline:
    return Outline(boundary=((0, 0), (width, 0), (width, height), (0, height)))


BEHIND = diagram_of("LivingRoom Bathroom MasterRoom", "0 left-of 1", "1 left-of 2")
"""A bedroom behind a bathroom, .7 m or more from the living room."""
BEHIND_DEMANDS = PlanSpec((20.0, 5.0, 12.0), rules=only("access"))

SIDE_BY_SIDE = diagram_of("Bathroom Bathroom", "0 left-of 1")
NARROW = PlanSpec((7.0, 7.0), outline=plot(2.5, 6.0), rules=only("width"))
"""Of 1.3 m at least, side by side in 2.5 m."""


def changed(diagram: BubbleDiagram, why: Explanation) -> BubbleDiagram:
    """With the other relation."""
    assert why.instead is not None
    (i, j, now), (*pair, new) = why.instead
    assert (i, j) == tuple(pair)
    codes = {(a, b): code for a, b, code in diagram.relations}
    assert codes.pop((i, j), NO_EDGE) == now
    assert new != now
    others = [(a, b, code) for (a, b), code in codes.items()]
    return replace(diagram, relations=(*others, *([(i, j, new)] if new != NO_EDGE else [])))


def test_one_need_that_no_plan_has():
    why = explain_conflicts(Job(BEHIND, BEHIND_DEMANDS, hall=False))
    (conflict,) = why.conflicts
    assert [(requirement.rule, requirement.rooms) for requirement in conflict.requirements] == [
        ("access", (2,))
    ]
    assert conflict.hall is None
    assert why.excludes
    first, second = why.sentences(room_names(BEHIND))
    assert first == "ruled out: master room is reached through common rooms"
    assert second.startswith("possible with living room ")
    assert "master room (now not related)" in second


def test_with_the_other_relation_a_plan_keeps_the_rules():
    for diagram, spec in ((BEHIND, BEHIND_DEMANDS), (SIDE_BY_SIDE, NARROW)):
        why = explain_conflicts(Job(diagram, spec, hall=False))
        found = realise(Job(changed(diagram, why), spec))
        assert not found.broken
        assert False not in judge(found.plans[0], spec.rules).kept.values()
        assert found.plans[0].honours_diagram


def test_a_hall_may_do():
    """Without one the bedroom is not reached; with one it is."""
    why = explain_conflicts(Job(BEHIND, BEHIND_DEMANDS, hall=True))
    assert [conflict.hall for conflict in why.conflicts] == [False]
    assert not why.excludes
    assert why.sentences(room_names(BEHIND))[0].startswith("ruled out without a hall: ")
    assert not realise(Job(BEHIND, BEHIND_DEMANDS, hall=True)).broken


def test_a_conflict_has_nothing_that_could_be_left_out():
    why = explain_conflicts(Job(SIDE_BY_SIDE, NARROW, hall=True))
    (conflict,) = why.conflicts
    assert conflict.hall is None
    assert {requirement.rule for requirement in conflict.requirements} == {"width"}
    assert [requirement.rooms for requirement in conflict.requirements] == [(0,), (1,)]
    for hall in (False, True):
        model = PlanModel(SIDE_BY_SIDE.rooms, SIDE_BY_SIDE.relations, NARROW, hall=hall)
        assert model.search.is_infeasible(conflict.requirements, 1.0, 0)
        for fewer in combinations(conflict.requirements, 1):
            assert not model.search.is_infeasible(fewer, 1.0, 0)


def test_nothing_is_ruled_out_where_a_plan_keeps_the_rules():
    spec = replace(NARROW, outline=plot(6.0, 2.5))
    why = explain_conflicts(Job(SIDE_BY_SIDE, spec, hall=False))
    assert not why.conflicts
    assert not why.excludes


def test_a_pair_of_any_relation_is_apart_and_the_others_as_they_are():
    spec = replace(BEHIND_DEMANDS, rules=only("access", "walls"))
    model = PlanModel(BEHIND.rooms, BEHIND.relations, spec, unknown=[(0, 2)])
    found = model.search.solve_all(WITHOUT_RULES, 1.0, 0)
    assert 0 < found.spent <= 1.5
    assert found.boxes is not None
    plan = plan_from_boxes(BEHIND, spec, found.boxes)
    assert set(plan.misread_pairs()) == {(0, 2)}
    assert plan.overlap == 0
    assert any(
        each.requirement.rooms == (0, 2)
        for each in model.rooms.soft
        if each.priority == Priority.WALLS
    )


def test_in_a_free_outline_rules_take_no_room_of_more_than_twice_its_area():
    assert PlanSpec((20.0,), outline=FREE).dropped_for_rules == WITHOUT_RULES - {Priority.LARGEST}
    assert PlanSpec((20.0,), outline=Outline(ratio=1.5)).dropped_for_rules == WITHOUT_RULES - {
        Priority.LARGEST
    }
    assert NARROW.dropped_for_rules == WITHOUT_RULES


def test_files_and_messages_say_why(tmp_path):
    job = Job(BEHIND, BEHIND_DEMANDS)
    files = PlanFiles(tmp_path / "plans")
    numbers, summary = files.write_found([job], [found := realise(job)])
    assert found.excluded
    (line,) = map(json.loads, (tmp_path / "plans" / "plans.jsonl").read_text().splitlines())
    (conflict,) = line["conflicts"]
    assert conflict["hall"] is None
    assert conflict["needs"] == [
        {"rule": "access", "rooms": [2], "need": "master room is reached through common rooms"}
    ]
    instead = line["instead"]
    assert (instead["rooms"], instead["now"]) == ([0, 2], "no-edge")
    assert instead["relation"] in RELATIONS
    for text in (broken_rules(numbers), summary):
        assert "plan 1: " in text
        assert "ruled out: master room is reached through common rooms; possible with " in text
    again = PlanRequest().job(1, BubbleDiagram.from_json(line))
    assert not {"conflicts", "instead"} & set(again.diagram.metadata)
    silent = realise(replace(job, proofs=False))
    assert silent.plans == found.plans
    assert not silent.explanation.conflicts
