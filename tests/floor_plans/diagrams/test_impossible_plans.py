from __future__ import annotations

import numpy as np
import pytest
from diagram_strategies import diagrams
from hypothesis import given

from discrete_diffusion.layout import RELATIONS
from floor_plans import BubbleDiagram, generate_plans
from floor_plans.diagrams.geometry import relations_from_boxes
from floor_plans.diagrams.metrics.diagrams import structure_metrics
from floor_plans.diagrams.vocabulary import INSIDE, NO_EDGE, SURROUNDING
from floor_plans.drawings.readers import read_report
from floor_plans.plans.contradiction import (
    impossible_plans,
    relations_against_boxes,
    relations_in_a_circle,
)

NESTED = (INSIDE, SURROUNDING)
CODES = {name: code for code, name in enumerate(RELATIONS)}


@given(diagrams(edge_codes=range(9)))
def test_circles_are_what_the_transitive_metric_counts(diagram):
    beside = [triple for triple in diagram.relations if triple[2] not in NESTED]
    plan = BubbleDiagram(diagram.rooms, tuple(beside))
    found = relations_in_a_circle((plan,))
    assert bool(found) == (structure_metrics([plan])["transitive"] == 0)
    assert all("itself" in why for why in found.values())


def test_rooms_inside_each_other_in_a_circle():
    circle = BubbleDiagram((0, 1, 2), ((0, 1, INSIDE), (0, 2, SURROUNDING), (1, 2, INSIDE)))
    nested = BubbleDiagram((0, 1, 2), ((0, 1, INSIDE), (0, 2, INSIDE), (1, 2, INSIDE)))
    assert list(relations_in_a_circle((nested, circle))) == [1]


def test_no_plan_with_boxes_contradicts_them():
    """As they are, and measured from the other room, with another gap."""
    plans = tuple(generate_plans(300, seed=2))
    assert relations_in_a_circle(plans) == relations_against_boxes(plans) == {}
    turned = [plan.relabelled(range(plan.num_rooms)[::-1]) for plan in plans]
    wide = []
    for plan in turned:
        codes = relations_from_boxes(np.array(plan.boxes), 60.0)
        pairs = np.argwhere(codes != NO_EDGE).tolist()
        relations = tuple((i, j, int(codes[i, j])) for i, j in pairs)
        wide.append(BubbleDiagram(plan.rooms, relations, plan.boxes))
    assert relations_against_boxes((*turned, *wide)) == {}


@pytest.mark.parametrize(
    ("name", "is_wrong"),
    [
        ("left-of", False),
        ("left-above", False),
        ("left-below", True),
        ("right-of", True),
        ("above", False),
        ("below", True),
        ("inside", True),
        ("surrounding", True),
    ],
)
def test_a_relation_that_the_boxes_rule_out(name, is_wrong):
    boxes = ((0.0, 0.0, 10.0, 10.0), (12.0, 4.0, 30.0, 30.0))
    found = relations_against_boxes((BubbleDiagram((0, 1), ((0, 1, CODES[name]),), boxes),))
    assert bool(found) == is_wrong
    assert all(f"room 0 {name} room 1" in why for why in found.values())


@pytest.mark.slow
def test_real_plans_are_possible(real_data):
    for source in ("rplan_render_999/plans.jsonl", "houseganpp_samples"):
        assert impossible_plans(read_report(real_data / source)) == []
