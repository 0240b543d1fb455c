"""The solver's verdict against all boxes of a small grid, and boxes against their diagram."""

from __future__ import annotations

import builtins
from itertools import combinations, product

import numpy as np
import pytest

from discrete_diffusion.domains.bubble_diagrams import BubbleDiagram, generate_plans
from discrete_diffusion.domains.bubble_diagrams.geometry import relations_from_boxes
from discrete_diffusion.domains.bubble_diagrams.plans.box_rule import BoxRule
from discrete_diffusion.domains.bubble_diagrams.plans.verdict import (
    LEVELS,
    find_boxes,
    have_plans,
)
from discrete_diffusion.rooms import NO_EDGE

pytest.importorskip("ortools", reason="OR-Tools decides which diagrams have a plan")

SMALL = BoxRule(grid=6, threshold=1, min_side=1, max_aspect=6)
PAIRS = list(combinations(range(3), 2))


def boxes_of_grid(rule: BoxRule) -> np.ndarray:
    """Int[K, 4]: all that the rule allows."""
    sides = list(combinations(range(rule.grid + 1), 2))
    found = [(x0, y0, x1, y1) for (x0, x1), (y0, y1) in product(sides, sides)]
    boxes = np.array(found)
    width, height = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    short, long = np.minimum(width, height), np.maximum(width, height)
    return boxes[(short >= rule.min_side) & (long <= rule.max_aspect * short)]


def codes_of_pairs(boxes: np.ndarray, threshold: int) -> tuple[np.ndarray, np.ndarray]:
    """Int[K, K] and Int[K, K]: the code of (i, j) read in its first and in its second direction."""
    pairs = np.stack(np.broadcast_arrays(boxes[:, None], boxes[None]), axis=2)
    first = relations_from_boxes(pairs, threshold)[..., 0, 1]
    second = first.T
    return first, np.where(second == NO_EDGE, NO_EDGE, 9 - second)


def is_apart_or_within(boxes: np.ndarray) -> np.ndarray:
    """Bool[K, K]."""
    low, high = boxes[:, :2], boxes[:, 2:]
    apart = ((low[:, None] >= high[None]) | (low[None] >= high[:, None])).any(-1)
    within = ((low[:, None] >= low[None]) & (high[:, None] <= high[None])).all(-1)
    return apart | within | within.T


def triples_of_all_boxes(rule: BoxRule, *, buildable: bool) -> set[tuple[int, int, int]]:
    """Codes of (0, 1), (0, 2), (1, 2) that some three boxes have."""
    boxes = boxes_of_grid(rule)
    both = codes_of_pairs(boxes, rule.threshold)
    fine = is_apart_or_within(boxes) if buildable else np.ones(both[0].shape, bool)
    seen = np.zeros(11**3, bool)
    for a in range(len(boxes)):
        kept = fine[a][:, None] & fine[a][None] & fine
        for ab, ac, bc in product(both, both, both):
            codes = 121 * ab[a][:, None] + 11 * ac[a][None] + bc
            seen[np.unique(codes[kept])] = True
    return {(*divmod(code // 11, 11), code % 11) for code in np.flatnonzero(seen).tolist()}


def diagram_of(codes: tuple[int, ...]) -> BubbleDiagram:
    relations = [(i, j, r) for (i, j), r in zip(PAIRS, codes, strict=True) if r != NO_EDGE]
    return BubbleDiagram((0, 1, 2), relations)


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_every_triple_is_decided_as_by_all_boxes_of_a_grid(level):
    possible = triples_of_all_boxes(SMALL, buildable=level == "buildable")
    triples = list(product(range(11), repeat=3))
    answers = have_plans([diagram_of(codes) for codes in triples], level, rule=SMALL)
    assert {codes for codes, answer in zip(triples, answers, strict=True) if answer} == possible
    assert None not in answers
    assert 0 < len(possible) < len(triples)


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
        apart = is_apart_or_within(np.array(boxes))
        assert all(apart[i, j] for i, j, _ in plan.relations)
        sides = np.array(boxes)[:, 2:] - np.array(boxes)[:, :2]
        assert sides.min() >= rule.min_side
        assert (sides.max(1) <= rule.max_aspect * sides.min(1)).all()


def test_numbering_of_rooms_and_processes_do_not_matter():
    plans = generate_plans(3, seed=1)
    circle = BubbleDiagram((0, 1, 2), [(0, 1, 2), (1, 2, 2), (0, 2, 7)])
    other = [plan.relabelled(range(plan.num_rooms)[::-1]) for plan in plans]
    diagrams = [*plans, circle, *other, circle.relabelled([2, 0, 1])]
    expected = [True] * 3 + [False] + [True] * 3 + [False]
    assert have_plans(diagrams) == expected
    assert have_plans(diagrams[:4], processes=2) == expected[:4]
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


def test_without_or_tools_the_extra_is_named(monkeypatch):
    there = builtins.__import__

    def missing(name, *arguments):
        if name.startswith("ortools"):
            raise ImportError(name)
        return there(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match=r"discrete-diffusion\[plans\]"):
        have_plans([])
