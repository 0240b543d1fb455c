"""Shares of samples that have a floor plan, in the tables and numbers of ``evaluate``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from discrete_diffusion.cli import main
from floor_plans import BubbleDiagram, generate_plans, write_diagrams
from floor_plans.learning import report
from floor_plans.learning.report import NUM_LARGE_VERDICTS, DiagramCells
from floor_plans.plans import verdict
from floor_plans.plans.verdict import plan_shares, score_plans
from plan_examples import CIRCLE

pytest.importorskip("ortools", reason="OR-Tools decides which diagrams have a plan")


PLANS = generate_plans(4, seed=1)
INSIDE_EACH_OTHER = BubbleDiagram((0, 1, 2, 3), [(0, 1, 4), (1, 2, 4), (2, 3, 4), (0, 3, 5)])


def test_shares_are_of_the_first_ones():
    assert plan_shares([*PLANS[:3], CIRCLE, *PLANS], num=4) == {
        "realisable": 0.75,
        "buildable": 0.75,
        "undecided": 0.0,
        "num_verdicts": 4,
    }
    assert plan_shares([]) == {}


def test_what_is_not_decided_counts_as_neither(monkeypatch):
    monkeypatch.setattr(verdict, "_EFFORT_OF_SHARES", 1e-9)
    shares = plan_shares([PLANS[0], CIRCLE])
    assert shares["undecided"] == 0.5
    assert shares["realisable"] == shares["buildable"] == 0.0


def test_sets_share_the_number_of_verdicts(monkeypatch):
    found = score_plans([PLANS, [CIRCLE, *PLANS]], PLANS, 4)
    assert found.per_seed["buildable"] == [1.0, 0.5]
    assert found.real["num_verdicts"] == 4
    assert found.as_dict()["num_verdicts"] == 4
    assert score_plans([PLANS], PLANS, 0) is None
    monkeypatch.setattr(verdict, "is_installed", lambda: False)
    assert score_plans([PLANS], PLANS, 4) is None
    assert plan_shares(PLANS) == {}


def test_evaluate_says_which_samples_can_be_built(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_diagrams("samples.jsonl", [*PLANS[:2], CIRCLE])
    write_diagrams("real.jsonl", PLANS)
    words = [
        "samples=samples.jsonl",
        "reference=real.jsonl",
        "reference_repeats=0",
        "pictures=false",
    ]
    main(["evaluate", *words, "num_solver_checks=3"])
    assert "buildable" in capsys.readouterr().out
    metrics = json.loads(Path("evaluation/metrics.json").read_text())
    assert metrics["buildable"] == pytest.approx(2 / 3)
    assert metrics["plans"]["buildable"] == 1.0
    assert metrics["intervals"]["buildable"] == pytest.approx([0.2077, 0.9385], abs=1e-4)
    shown = "| buildable | 0.6667 ± 0.2394 | 1.0000 |"  # sqrt(2/9 * 3 + 1/4) / 4
    assert shown in Path("evaluation/table.md").read_text()


@pytest.mark.parametrize(
    ("num_samples", "asked", "num"),
    [(1000, None, 200), (50, None, 10), (49, None, 0), (49, 7, 7), (8, 20, 8), (0, None, 0)],
)
def test_a_fifth_unless_that_is_too_few(monkeypatch, num_samples, asked, num):
    settings = {
        "eval": {"num_samples": num_samples, "num_solver_checks": asked},
        "data": {"max_nodes": 8},
    }
    config = OmegaConf.create(settings)
    monkeypatch.setattr(report, "is_installed", lambda: True)
    assert DiagramCells().num_verdicts(config) == num
    monkeypatch.setattr(report, "is_installed", lambda: False)
    assert DiagramCells().num_verdicts(config) == 0
    config.data.max_nodes = 20  # seconds each
    monkeypatch.setattr(report, "is_installed", lambda: True)
    assert DiagramCells().num_verdicts(config) == min(num, NUM_LARGE_VERDICTS)
