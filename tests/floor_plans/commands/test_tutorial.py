"""``docs/tutorial.md`` does what it says: every command as printed, on less data in fewer steps."""

from __future__ import annotations

import re
import shlex

import pytest

from discrete_diffusion.cli import main
from guide_code import DOCS

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
