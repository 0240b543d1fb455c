"""The pages on floor plans do what they say: their Python and commands run, smaller."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from discrete_diffusion.cli.main import main
from discrete_diffusion.hub import CARD
from floor_plans import BubbleDiagram, read_diagrams, read_partials
from floor_plans.commands.data_commands import COMMANDS
from guide_code import DOCS, EXAMPLES, blocks, run_python

PAGES = sorted(path.relative_to(DOCS).as_posix() for path in (DOCS / "floor_plans").glob("*.md"))


def commands(page: str) -> list[list[str]]:
    """The words of every ``discrete-diffusion`` line of the page, without the first."""
    fenced = re.findall(
        r"^```(\w*)\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL
    )
    lines = [line for language, code in fenced if not language for line in code.splitlines()]
    lines = [line for line in lines if line.startswith("discrete-diffusion ")]
    return [shlex.split(line, comments=True)[1:] for line in lines]


@pytest.fixture
def beside_the_examples(tmp_path, monkeypatch):
    """An empty folder with ``examples``, as in a clone."""
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    monkeypatch.chdir(tmp_path)


def test_the_pages_are_found():
    assert len(PAGES) == 5
    assert all(commands(page) for page in PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_options_of_the_commands_on_plans_exist(page):
    for group, *words in commands(page):
        if group not in ("plans", "data"):
            continue
        name, *words = words
        parser = argparse.ArgumentParser()
        COMMANDS[name].add_options(parser)
        known = {option for action in parser._actions for option in action.option_strings}
        for word in words:
            if match := re.match(r"(\w+)=", word):
                assert f"--{match[1].replace('_', '-')}" in known, word


@pytest.mark.parametrize(
    ("page", "read"),
    [("floor_plans/briefs.md", read_partials), ("floor_plans/files.md", read_diagrams)],
)
def test_the_plans_that_a_page_shows_are_read(page, read, tmp_path):
    lines = [line for code in blocks(page, "json") for line in code.splitlines()]
    lines = [line for line in lines if '"given"' not in line]  # of a completion
    (tmp_path / "plans.jsonl").write_text("\n".join(lines))
    assert 0 < len(read(tmp_path / "plans.jsonl")) == len(lines)


@pytest.mark.slow
@pytest.mark.usefixtures("beside_the_examples")
@pytest.mark.parametrize("page", [page for page in PAGES if "studio" not in page])
def test_the_python_of_the_page_runs(page):
    scope: dict[str, object] = {}
    for code in blocks(page, "python"):
        small = code.replace('"runs/first"', '"plans-small"').replace("model, 64", "model, 2")
        exec(compile(small, page, "exec"), scope)
    if page == "floor_plans/briefs.md":
        assert all(isinstance(diagram, BubbleDiagram) for diagram in scope["diagrams"])
        assert Path("completed.svg").is_file()


@pytest.mark.slow
@pytest.mark.usefixtures("beside_the_examples")
def test_diagrams_become_plans_that_are_judged_and_changed(capsys):
    sample, realise = commands("floor_plans/solver.md")[:2]
    (check,) = (words for words in commands("floor_plans/solver.md") if words[1] == "check")
    (change,) = (words for words in commands("floor_plans/solver.md") if "out=again" in words)
    main([*sample, "num_samples=1", "num_rooms=4"])
    main(realise)
    main(check)
    assert "rules=default: 1 plan judged" in capsys.readouterr().out
    shutil.copy("six/samples.jsonl", "changed.jsonl")
    main(change)
    assert Path("again/plans.jsonl").is_file()


@pytest.mark.slow
@pytest.mark.usefixtures("beside_the_examples")
def test_a_brief_becomes_plans_and_files():
    make = commands("floor_plans/start.md")[0]
    Path("common.yaml").write_text("rooms: {Kitchen: 1}\n")  # met by most samples
    main([*make, "brief=common.yaml", "num=1", "candidates=1"])
    assert Path("made/plans.jsonl").is_file()
    assert len(list(Path("made/dxf").glob("*.dxf"))) == 1


@pytest.mark.usefixtures("beside_the_examples")
def test_the_brief_of_the_page_is_checked_as_printed(capsys):
    check = commands("floor_plans/briefs.md")[0]
    main([*check, "plans=none"])
    printed = capsys.readouterr().out
    shown = blocks("floor_plans/briefs.md", "text")[0].split("\n\n")[0]
    assert printed.startswith(shown)


@pytest.mark.slow
def test_the_code_of_the_page_trains_a_run_that_loads(tmp_path):
    scope = run_python("commands.md", word="run_training")
    written = json.loads((tmp_path / "runs" / "notebook" / "metrics.json").read_text())
    assert scope["metrics"] == written
    assert scope["load"]("runs/notebook").sample(num=2, seed=1)


METRICS = {"valid": 0.97, "step": 7}


@pytest.mark.slow
def test_the_page_of_sharing_says_what_works(untrained, hub, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "first" / "checkpoints").mkdir(parents=True)
    shutil.copy(untrained, tmp_path / "runs" / "first" / "checkpoints" / "best.ckpt")
    (tmp_path / "runs" / "first" / "metrics.json").write_text(json.dumps(METRICS))
    monkeypatch.setenv("HF_TOKEN", "hf_none")
    run_python("commands.md", word="save_pretrained")
    assert "me/first" in hub.models
    assert "| valid | 0.97 |" in (tmp_path / "first" / CARD).read_text()
