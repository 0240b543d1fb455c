"""Cached plans: the same as drawn ones, whatever the state of the cache folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from discrete_diffusion.data import cache_dir
from discrete_diffusion.data.files import cached_files, clear_cache
from floor_plans.diagrams.procedural import generator
from floor_plans.diagrams.procedural.generator import (
    PlanArrays,
    cache_file,
    cached_plans,
    sample_plans,
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "deep" / "cache"
    monkeypatch.setenv("DISCRETE_DIFFUSION_CACHE", str(path))
    return path


def assert_equal(plans: PlanArrays, expected: PlanArrays) -> None:
    for f in fields(PlanArrays):
        ours, theirs = getattr(plans, f.name), getattr(expected, f.name)
        assert ours.dtype == theirs.dtype == np.int64
        assert np.array_equal(ours, theirs)


def test_second_call_reads_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = cached_plans(30, seed=2)
    assert [p.name for p in folder.iterdir()] == [cache_file(30, 2).name]  # no partial file left
    monkeypatch.setattr(generator, "sample_plans", None)
    assert_equal(cached_plans(30, seed=2), drawn)
    assert_equal(drawn, sample_plans(30, seed=2))


def test_files_are_told_apart(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {cache_file(30, 2), cache_file(30, 3), cache_file(31, 2)}
    monkeypatch.setattr(generator, "GENERATOR_VERSION", generator.GENERATOR_VERSION + 1)
    assert len(names | {cache_file(30, 2)}) == 4


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(bytes(content))


def store_other_plans(path: Path) -> None:
    other = {name: array.astype(np.int16) for name, array in vars(sample_plans(29)).items()}
    np.savez(path, **other)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:-200]),
    "text": lambda path: path.write_text("not an archive"),
    "empty": lambda path: path.write_bytes(b""),
    "a byte flipped": flip_a_byte,
    "an array lost": lambda path: np.savez(path, boxes=np.zeros((30, 8, 4), np.int16)),
    "other plans": store_other_plans,
    "objects": lambda path: np.savez(path, room_types=np.array([{}], dtype=object)),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damaged_file_is_replaced(
    folder: Path, damage: Callable[[Path], object], caplog: pytest.LogCaptureFixture
) -> None:
    expected = cached_plans(30)
    path = cache_file(30)
    damage(path)
    assert_equal(cached_plans(30), expected)
    assert str(path) in caplog.text
    caplog.clear()
    assert_equal(cached_plans(30), expected)
    assert not caplog.records


def test_works_without_a_writable_folder(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder.parent.mkdir(parents=True)
    folder.write_text("a file stands where the folder should be")
    assert_equal(cached_plans(12), sample_plans(12))
    assert "DISCRETE_DIFFUSION_CACHE" in caplog.text


def test_failed_write_leaves_nothing_behind(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(np, "savez_compressed", fail)
    cached_plans(12)
    assert "No space left" in caplog.text
    assert not folder.exists()


def test_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISCRETE_DIFFUSION_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_dir() == tmp_path / ".cache" / "discrete_diffusion"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    assert cache_dir() == tmp_path / ".cache" / "discrete_diffusion"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir() == tmp_path / "xdg" / "discrete_diffusion"
    monkeypatch.setenv("DISCRETE_DIFFUSION_CACHE", "~/plans")
    assert cache_dir() == tmp_path / "plans"


def test_clearing_removes_plans_only(folder: Path) -> None:
    assert clear_cache() == []
    cached_plans(3)
    (folder / "notes.txt").write_text("mine")
    assert clear_cache() == [cache_file(3)]
    assert [p.name for p in folder.iterdir()] == ["notes.txt"]


def test_what_a_killed_process_left_is_shown_and_cleared(folder: Path) -> None:
    cached_plans(3)
    left = folder / f".{cache_file(3).stem}.123.unfinished.npz"
    left.write_bytes(b"half")
    assert cached_files() == sorted([left, cache_file(3)])
    assert clear_cache() == sorted([left, cache_file(3)])
    assert cached_files() == []
