"""The pages on floor plans do what they say: their Python and commands run, smaller."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
import torch

from discrete_diffusion import load
from discrete_diffusion.cli.main import main
from discrete_diffusion.hub import CARD
from discrete_diffusion.sampling.unmasking import ONE_PATH
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


PAGE = "tutorial.md"
MODEL = ("model.d_model=16", "model.dropout=0")
STEPS = ("data.batch_size=16", "trainer.max_steps=2", "trainer.val_check_interval=null")
FEW = {
    "data": (),
    "train": (
        *MODEL,
        *STEPS,
        "eval.num_samples=4",
        "eval.noise_samples=1",
        "callbacks.num_samples=2",
    ),
    "sample": ("num_samples=3",),
    "evaluate": ("num_samples=12", "reference_repeats=2", "noise_samples=1", "time_bins=2"),
    "compare": (*MODEL, *STEPS, "eval.num_samples=4", "num_held_out=4", "noise_samples=1"),
}
"""What is appended to each command of the page; of a key that stands twice the last one counts."""


def steps_of_the_page() -> list[tuple[str, str]]:
    """Its fenced blocks in order: the language, empty for commands, and the text."""
    return re.findall(r"^```(\w*)\n(.*?)^```", (DOCS / PAGE).read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.slow
def test_the_tutorial_runs_as_printed(tmp_path):
    for language, text in steps_of_the_page():
        if language == "python":
            code = text.replace("generate_plans(800", "generate_plans(60")
            exec(compile(code, PAGE, "exec"), {})
            continue
        for line in text.splitlines() if not language else ():  # what commands print is "text"
            program, command, *words = shlex.split(line)
            assert program == "discrete-diffusion"
            main([command, *words, *FEW[command]])
    named = re.findall(r"`((?:runs|samples|measured|compared)/[\w./]+)`", (DOCS / PAGE).read_text())
    assert len(named) == 12
    assert [name for name in named if not (tmp_path / name).is_file()] == []
    rows = (tmp_path / "compared" / "table.csv").read_text().splitlines()
    assert len(rows) == 3


def test_the_page_has_a_block_for_each_step():
    blocks = [text for language, text in steps_of_the_page() if not language]
    commands = [line.split()[1] for text in blocks for line in text.splitlines()]
    assert commands == ["data", "data", "train", "sample", "evaluate", "compare"]


MEASURE_PAGE = "measure.md"
FEW_SAMPLES = (
    "num_held_out=6",
    "num_samples=2",
    "num_seeds=1",
    "reference_repeats=0",
    "num_solver_checks=0",
)
FEW_SAMPLES += ("noise_samples=1", "time_bins=1", "pictures=false")


def measure_commands() -> list[list[str]]:
    lines = (DOCS / MEASURE_PAGE).read_text().splitlines()
    return [shlex.split(x) for x in lines if re.match(r"discrete-diffusion .* out=by-", x)]


@pytest.mark.slow
def test_the_commands_of_the_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for _, command, *words in measure_commands():
        main([command, *words, *FEW_SAMPLES])
    printed = capsys.readouterr().out
    of_order = json.loads((tmp_path / "by-entropy" / "metrics.json").read_text())
    assert of_order["nll_ordered_fixed_entropy"] > 0
    assert "nll_ordered_fixed_entropy" in printed
    assert "sampling.order=entropy" in of_order["likelihood_sampler"]
    table = (tmp_path / "by-orders" / "table.md").read_text()
    found = json.loads((tmp_path / "by-orders" / "metrics.json").read_text())
    assert found["nelbo_by_orders"]["orders"] == [1, 2, 4, 8]
    assert f"{found['nelbo_unordered_8_orders']:.3f} ±" in table
    assert "nll_ordered_fixed_entropy" not in found


@pytest.mark.slow
def test_the_python_of_the_page():
    scope = run_python(MEASURE_PAGE, word="log_prob")
    assert all(isinstance(diagram, BubbleDiagram) for diagram in scope["diagrams"])
    assert scope["log_p"].shape == (4,)
    assert scope["log_p"].dtype == torch.float64


def test_the_page_names_every_order():
    listed = (DOCS / MEASURE_PAGE).read_text().partition("`likelihood_order=ORDER` is one of")[2]
    named = set(re.findall(r"`([\w-]+)`", listed.partition("Of equal positions")[0]))
    assert {*ONE_PATH, "plan"} <= named


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (
            ["likelihood_order=confidence"],
            "likelihood_order=confidence: this order compares tokens",
        ),
        (["likelihood_order=remdm"], "unknown likelihood_order 'remdm'"),
        (
            ["likelihood_order=[0,1]"],
            "likelihood_order=[0, 1]: expected every position from 0 to 35",
        ),
        (["num_orders=0"], "num_orders=0"),
        (["num_orders=2", "brief=b.yaml"], "num_orders=2"),
    ],
)
def test_what_is_refused_at_once(untrained, tmp_path, monkeypatch, capsys, words, named):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b.yaml").write_text("rooms: {LivingRoom: at least 1}\n")
    with pytest.raises(SystemExit):
        main(["evaluate", f"checkpoint={untrained}", "out=none", *words])
    assert named in capsys.readouterr().err
    assert not (tmp_path / "none" / "metrics.json").exists()


@pytest.mark.slow
def test_files_of_samples_have_none(untrained, tmp_path, capsys):
    file = tmp_path / "samples.jsonl"
    main(["sample", f"checkpoint={untrained}", "num_samples=2", f"out={tmp_path}"])
    assert load(untrained).log_prob([], "entropy").shape == (0,)
    with pytest.raises(SystemExit):
        main(["evaluate", f"samples={file}", "likelihood_order=entropy", f"out={tmp_path / 'out'}"])
    assert "likelihood_order=entropy is for checkpoint=FILE" in capsys.readouterr().err


def test_the_page_uses_a_denoiser_by_itself():
    assert run_python("add_a_backbone.md", word="BDDenoiser")["node_logits"].abs().sum() == 0
