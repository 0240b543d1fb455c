"""What commands have written of plans stays: not replaced unasked, not mixed, not half there."""

from __future__ import annotations

from pathlib import Path

import pytest

from discrete_diffusion.cli import main
from discrete_diffusion.runtime.atomic_files import LOCK, locked
from floor_plans import generate_plans, write_diagrams
from full_disk import FullDisk


@pytest.mark.parametrize(
    "words",
    [
        ["data", "convert", "plans.jsonl", "run/plans.json"],
        ["plans", "realise", "plans.jsonl", "out=run", "overwrite=true"],
    ],
)
def test_a_second_writer_of_a_folder_is_refused(failure, words):
    Path("run").mkdir()
    with locked(Path("run")):
        holder = Path("run", LOCK).read_text().strip()
        assert f"run is in use by {holder};" in failure(*words)
    assert not Path("run", LOCK).exists()


@pytest.mark.parametrize("name", ["plans.json", "plans.graphml"])
def test_a_second_writer_of_one_file_of_plans_is_refused(failure, name):
    with locked(Path(name)):
        assert f"{name} is in use by process " in failure("data", "convert", "plans.jsonl", name)
    assert [path.name for path in Path().iterdir() if path.name != "cache"] == []


def test_a_failed_conversion_leaves_no_folder(failure):
    failure("data", "convert", "none.jsonl", "new/plans.json")
    assert [path.name for path in Path().iterdir() if path.name != "cache"] == []


@pytest.mark.slow
def test_of_two_that_realise_into_one_folder_the_second_is_refused(failure, monkeypatch):
    pytest.importorskip("ortools")
    from floor_plans.drawings import realised_files

    write_diagrams("plans.jsonl", generate_plans(2, seed=1))
    words, errors = ["plans", "realise", "plans.jsonl", "out=built", "threads=1"], []
    realise_all = realised_files.realise_all

    def in_between(*arguments, **options):
        monkeypatch.setattr(realised_files, "realise_all", realise_all)
        errors.append(failure(*words))
        return realise_all(*arguments, **options)

    monkeypatch.setattr(realised_files, "realise_all", in_between)
    main(words)
    assert "built is in use by process " in errors[0]
    assert len(Path("built/plans.jsonl").read_text().splitlines()) == 2
    assert not Path("built", LOCK).exists()


def test_a_converted_file_is_not_replaced_unasked(failure, capsys):
    write_diagrams("plans.jsonl", generate_plans(3, seed=1))
    for name in ("plans.json", "plans.graphml"):  # of several plans a folder
        words = ["data", "convert", "plans.jsonl", name]
        main(words)
        assert "--overwrite" in failure(*words)
        main([*words, "--overwrite"])
        main([*words, "overwrite=true"])
    assert "plans.replaced-2" in capsys.readouterr().out


@pytest.mark.slow
def test_a_full_disk_leaves_no_half_converted_file(failure):
    write_diagrams("plans.jsonl", generate_plans(200, seed=1))
    for name in ("plans.json", "plans.svg", "plans.png"):
        with FullDisk(2000):
            error = failure("data", "convert", "plans.jsonl", f"new/{name}", "--first=30")
        assert f"new/{name}" in error
        assert not Path("new").exists()
