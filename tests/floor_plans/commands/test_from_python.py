"""The page's training from Python, as a notebook would run it."""

from __future__ import annotations

import json

import pytest

from guide_code import run_python


@pytest.mark.slow
def test_the_code_of_the_page_trains_a_run_that_loads(tmp_path):
    scope = run_python("commands.md", word="run_training")
    written = json.loads((tmp_path / "runs" / "notebook" / "metrics.json").read_text())
    assert scope["metrics"] == written
    assert scope["load"]("runs/notebook").sample(num=2, seed=1)
