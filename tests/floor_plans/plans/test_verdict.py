"""Verdicts of the solver against all boxes of a small grid, and their cache."""

from __future__ import annotations

import logging
import sqlite3
from concurrent.futures import ProcessPoolExecutor
from itertools import combinations, product
from multiprocessing import get_context

import numpy as np
import pytest
from all_boxes import diagram_of, free_sides_around, is_apart, triples_of_all_boxes

from discrete_diffusion.data.files import cached_files, clear_cache
from floor_plans import BubbleDiagram, generate_plans
from floor_plans.diagrams.geometry import relations_from_boxes
from floor_plans.diagrams.vocabulary import INSIDE, NO_EDGE, SURROUNDING
from floor_plans.plans import verdict
from floor_plans.plans.box_model import BoxRule
from floor_plans.plans.verdict import (
    LEVELS,
    cache_file,
    cache_verdicts,
    cached_answers,
    find_boxes,
    have_plans,
)

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
    monkeypatch.setattr(verdict, "cached_answers", lambda asked, diagrams: {})
    assert have_plans(diagrams[:4], threads=2) == expected[:4]
    assert have_plans([]) == []


def test_what_is_not_decided_is_none():
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


PLANS = generate_plans(2, seed=1)
NESTED = BubbleDiagram((0, 2, 3), [(0, 1, 5), (1, 2, 2)])


@pytest.fixture
def solved(monkeypatch):
    """How many diagrams each call has solved."""
    numbers, there = [], verdict._solved

    def counting(diagrams, *others):
        numbers.append(len(diagrams))
        return there(diagrams, *others)

    monkeypatch.setattr(verdict, "_solved", counting)
    return numbers


def test_what_was_decided_is_not_solved_again(solved):
    diagrams = [*PLANS, NESTED]
    assert have_plans(diagrams) == have_plans(diagrams) == [True, True, False]
    renumbered = [plan.relabelled(range(plan.num_rooms)[::-1]) for plan in diagrams]
    assert have_plans(renumbered) == [True, True, False]
    assert solved == [3, 0, 0]
    assert have_plans([NESTED], "realisable") == [True]
    assert have_plans([NESTED], rule=BoxRule(grid=128)) == [False]
    assert have_plans([PLANS[0]], effort=1e-9) == have_plans([PLANS[0]], effort=1e-9) == [None]
    assert solved == [3, 0, 0, 1, 1, 1, 0]
    assert have_plans([PLANS[0]], effort=1.0) == [True]
    assert solved[-1] == 1


def test_another_solver_is_asked_again(solved, monkeypatch):
    have_plans([NESTED])
    monkeypatch.setattr(verdict, "_solver_version", lambda: "another version")
    have_plans([NESTED])
    assert solved == [1, 1]


def test_the_cache_command_finds_and_clears_it():
    have_plans([NESTED])
    assert cached_files() == clear_cache() == [cache_file()]
    assert not cache_file().exists()


@pytest.mark.parametrize("content", [b"no database, but long enough to be one" * 99, b"SQLite"])
def test_a_damaged_file_is_begun_anew(solved, caplog, content):
    cache_file().parent.mkdir()
    cache_file().write_bytes(content)
    for _ in range(3):
        assert have_plans([NESTED]) == [False]
    assert solved == [1, 0, 0] or solved == [1, 1, 0]
    assert str(cache_file()) in caplog.text


def test_a_file_cut_short_is_begun_anew(solved, caplog):
    cache_verdicts("much", {bytes([k % 256, k // 256] * 20): True for k in range(2000)})
    whole = cache_file().read_bytes()
    cache_file().write_bytes(whole[: len(whole) // 2])
    for _ in range(3):
        assert have_plans([NESTED]) == [False]
    assert solved[-1] == 0


def test_a_table_of_another_shape_is_left_alone(caplog):
    cache_file().parent.mkdir()
    with sqlite3.connect(cache_file()) as database:
        database.execute("create table verdicts (other text)")
    assert have_plans([NESTED]) == [False]
    assert "DISCRETE_DIFFUSION_CACHE" in caplog.text


def test_works_without_a_writable_folder(cache_folder, caplog):
    cache_folder.write_text("a file stands where the folder should be")
    with caplog.at_level(logging.WARNING):
        assert have_plans([NESTED]) == [False]
    assert "DISCRETE_DIFFUSION_CACHE" in caplog.text


def keep_many(number: int) -> None:
    for k in range(20):
        cache_verdicts("asked", {bytes([number, k]): k % 2 == 0, bytes([255, k]): None})


@pytest.mark.slow
def test_several_processes_write_at_once():
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        list(pool.map(keep_many, range(2)))
    keys = [bytes([number, k]) for number in (0, 1, 255) for k in range(20)]
    found = cached_answers("asked", keys)
    assert found == {key: None if key[0] == 255 else key[1] % 2 == 0 for key in keys}
    assert cached_answers("something else", keys) == {}
