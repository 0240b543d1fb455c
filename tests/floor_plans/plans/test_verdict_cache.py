"""Kept verdicts: the same as new ones, whatever the state of the cache folder."""

from __future__ import annotations

import logging
import sqlite3
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from discrete_diffusion.data.files import cached_files, clear_cache
from floor_plans import BubbleDiagram, generate_plans
from floor_plans.plans import verdict
from floor_plans.plans.box_model import BoxRule
from floor_plans.plans.verdict import cache_file, cache_verdicts, cached_verdicts, have_plans

pytest.importorskip("ortools", reason="verdicts are those of OR-Tools")

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
    found = cached_verdicts("asked", keys)
    assert found == {key: None if key[0] == 255 else key[1] % 2 == 0 for key in keys}
    assert cached_verdicts("something else", keys) == {}
