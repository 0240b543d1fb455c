"""The notebooks of ``examples/`` run from top to bottom, and what they show can be shown."""

from __future__ import annotations

import ast
import json
import logging
from pathlib import Path
from xml.etree import ElementTree

import pytest

from floor_plans import BubbleDiagram, Diagrams

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def _log_handlers():
    """Take away the handlers that Hydra leaves."""
    before = logging.root.handlers[:]
    yield
    logging.root.handlers[:] = before


@pytest.mark.slow
@pytest.mark.usefixtures("_log_handlers")
def test_plans(tmp_path, monkeypatch, capsys):
    """With fewer steps of training."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISCRETE_DIFFUSION_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    notebook = json.loads((EXAMPLES / "plans.ipynb").read_text())
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert any(cell.startswith("STEPS = 300\n") for cell in cells)
    shown: list[object] = []
    monkeypatch.setattr("sys.displayhook", shown.append)
    scope: dict[str, object] = {}
    for cell in cells:
        code = ast.parse(cell.replace("STEPS = 300\n", "STEPS = 2\n"))
        exec(compile(ast.Interactive(code.body), "plans.ipynb", "single"), scope)
    shown = [value for value in shown if value is not None]
    assert [type(value) for value in shown] == [BubbleDiagram, BubbleDiagram, *[Diagrams] * 3]
    for value in shown:
        assert ElementTree.fromstring(value._repr_svg_()).tag.endswith("}svg")
    scores = capsys.readouterr().out.splitlines()[-5:]
    assert [line.split()[0] for line in scores][:3] == ["valid", "transitive", "novelty"]
