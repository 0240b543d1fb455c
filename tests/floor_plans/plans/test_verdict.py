"""The solver's verdict against all boxes of a small grid, and boxes against their diagram."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from all_boxes import diagram_of, free_sides_around, is_apart, triples_of_all_boxes

from floor_plans import BubbleDiagram, generate_plans
from floor_plans.diagrams.geometry import relations_from_boxes
from floor_plans.diagrams.vocabulary import INSIDE, NO_EDGE, SURROUNDING
from floor_plans.plans import verdict
from floor_plans.plans.box_model import BoxRule
from floor_plans.plans.verdict import LEVELS, find_boxes, have_plans

pytest.importorskip("ortools", reason="OR-Tools decides which diagrams have a plan")

SMALL = BoxRule(grid=6, threshold=1, min_side=1, max_aspect=6)


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_every_triple_is_decided_as_by_all_boxes_of_a_grid(level):
    possible = triples_of_all_boxes(SMALL, buildable=level == "buildable")
    triples = list(product(range(11), repeat=3))
    answers = have_plans([diagram_of(codes) for codes in triples], level, rule=SMALL)
    assert {codes for codes, answer in zip(triples, answers, strict=True) if answer} == possible
    assert None not in answers
    assert 0 < len(possible) < len(triples)


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_triples_are_decided_as_by_all_boxes_of_a_smaller_grid(level):
    rule = BoxRule(grid=4, threshold=0, min_side=1, max_aspect=2)
    possible = triples_of_all_boxes(rule, buildable=level == "buildable")
    rng = np.random.default_rng(0)
    triples = [tuple(codes) for codes in rng.integers(11, size=(60, 3)).tolist()]
    triples += sorted(possible)[::40]
    answers = have_plans([diagram_of(codes) for codes in triples], level, rule=rule)
    assert answers == [codes in possible for codes in triples]
    assert True in answers
    assert False in answers


@pytest.mark.slow
def test_the_boxes_honour_the_diagram():
    rule = BoxRule()
    for plan in generate_plans(12, seed=4):
        answer, boxes = find_boxes(plan, rule=rule)
        assert answer
        first, second = (
            relations_from_boxes(np.array(boxes)[order], rule.threshold)[order][:, order]
            for order in (np.arange(plan.num_rooms), np.arange(plan.num_rooms)[::-1])
        )
        codes = {(i, j): code for i, j, code in plan.relations}
        for i, j in combinations(range(plan.num_rooms), 2):
            reverse = int(second[j, i])
            read = (int(first[i, j]), NO_EDGE if reverse == NO_EDGE else 9 - reverse)
            assert codes.get((i, j), NO_EDGE) in read
        apart, free = is_apart(np.array(boxes)), free_sides_around(np.array(boxes), rule)
        for i, j, code in plan.relations:
            if code in (INSIDE, SURROUNDING):
                assert free[i, j] if code == INSIDE else free[j, i]
            else:
                assert apart[i, j]
        sides = np.array(boxes)[:, 2:] - np.array(boxes)[:, :2]
        assert sides.min() >= rule.min_side
        assert (sides.max(1) <= rule.max_aspect * sides.min(1)).all()


@pytest.mark.slow
def test_numbering_of_rooms_and_threads_do_not_matter(monkeypatch):
    plans = generate_plans(3, seed=1)
    circle = BubbleDiagram((0, 1, 2), [(0, 1, 2), (1, 2, 2), (0, 2, 7)])
    other = [plan.relabelled(range(plan.num_rooms)[::-1]) for plan in plans]
    diagrams = [*plans, circle, *other, circle.relabelled([2, 0, 1])]
    expected = [True] * 3 + [False] + [True] * 3 + [False]
    assert have_plans(diagrams) == expected
    monkeypatch.setattr(verdict, "cached_verdicts", lambda asked, diagrams: {})
    assert have_plans(diagrams[:4], threads=2) == expected[:4]
    assert have_plans([]) == []


def test_what_is_not_decided_is_said(monkeypatch):
    (plan,) = generate_plans(1, seed=1)
    assert find_boxes(plan, effort=1e-9) == (None, None)
    assert have_plans([plan], effort=1e-9) == [None]


@pytest.mark.parametrize("key", ["grid", "min_side", "max_aspect"])
def test_rules_without_boxes_are_refused(key):
    with pytest.raises(ValueError, match=f"{key}=0"):
        BoxRule(**{key: 0})
    with pytest.raises(ValueError, match="min_side=300"):
        BoxRule(min_side=300)
    with pytest.raises(ValueError, match="'realisable' or 'buildable'"):
        have_plans([], "possible")


def test_without_or_tools_the_extra_is_named(without_or_tools):
    with pytest.raises(ValueError, match=r"pip install .*\[plans\]"):
        have_plans([])
