"""``evaluate brief=``: what a model answers, counted and compared with the data that meet it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from brief_examples import BRIEFS, VOCAB, all_diagrams

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.cli import main
from floor_plans import BubbleDiagram, decode, generate_plans, read_diagrams, write_diagrams
from floor_plans.briefs import evaluating
from floor_plans.briefs.answering import Answer
from floor_plans.briefs.brief import Brief
from floor_plans.briefs.chances import BriefConstraint
from floor_plans.briefs.evaluating import Matching, method_scores
from floor_plans.briefs.particles import SoftGuidance
from floor_plans.briefs.reading import read_brief
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.metrics.diagrams import DISTANCES, bubble_metrics
from floor_plans.diagrams.vocabulary import DIRECTIONS
from tabulated_diagrams import tabulated_mdlm

COMMON = "rooms:\n  Balcony: at most 1\n"
RARE = """rooms:
  Kitchen: 1
  Bathroom: 1-2
relations:
  - Kitchen adjacent LivingRoom
num_rooms: 4-6
"""
NEVER = "rooms:\n  Kitchen: 4\nnum_rooms: 4-6\n"
"""Can be met, and no plan of the embedded generator does."""
EVALUATE = ["pictures=false", "reference_repeats=2"]


@pytest.fixture(scope="module")
def model(diagram_run):
    return diagram_run


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def evaluate(model, brief, *words):
    Path("brief.yaml").write_text(brief)
    main(["evaluate", f"checkpoint={model}", "brief=brief.yaml", *EVALUATE, *words])
    return json.loads(Path("evaluation/metrics.json").read_text())


@pytest.mark.slow
def test_every_method_is_counted_and_compared(model, capsys, monkeypatch):
    monkeypatch.setattr(evaluating, "ENOUGH", 5)
    found = evaluate(
        model, RARE, "num_samples=12", "method=smc", "particles=64", "rejection_calls=2000"
    )
    brief = read_brief("brief.yaml")
    drawn = read_diagrams("evaluation/samples.jsonl")
    assert len(drawn) == 12
    assert not any(brief.unmet(diagram) for diagram in drawn)
    assert found["method"] == "smc"
    assert list(found["methods"]) == ["smc", "rejection", "soft_guidance"]
    particles, rejection, soft = found["methods"].values()
    assert particles["num_met"] == particles["num_samples"] == 12
    assert particles["share_met"] == 1
    assert 0 < particles["probability"] < 1
    assert rejection["num_met"] == rejection["num_samples"] < 12  # a poor model, a small budget
    assert 0 < rejection["network_calls"] <= 2000 * 1.2
    assert soft["num_samples"] == 12
    assert soft["num_met"] < 12
    assert soft["network_calls_per_sample"] < particles["network_calls_per_sample"]
    if soft["num_met"]:
        calls = soft["network_calls"] / soft["num_met"]
        assert soft["network_calls_per_met"] == pytest.approx(calls, rel=0.01)
    train, held_out = found["data"]["train"], found["data"]["held_out"]
    assert train["num"] > held_out["num"]
    for data in (train, held_out):
        assert data["share"] == data["num_met"] / data["num"]
        assert data["share_interval"][0] < data["share"] < data["share_interval"][1]
    for method in (particles, soft):
        assert set(DISTANCES) <= set(method["metrics"])
        assert method["floor_sizes"]["num_samples"] == 12
    assert found["num_reference"] == held_out["num_met"]
    said = capsys.readouterr()
    for words in ("share that meets the brief", "what came back", "soft guidance", "node_tv"):
        assert words in said.out
    table = Path("evaluation/table.md").read_text()
    assert "Rejection stopped with" in table
    assert f"{12 - soft['num_met']} of 12 diagrams break the brief" in table


@pytest.mark.slow
def test_no_power_no_rejection_and_another_sampler(model):
    words = [
        "num_samples=4",
        "method=smc",
        "particles=16",
        "lookahead_power=0",
        "rejection_calls=0",
    ]
    found = evaluate(model, COMMON, *words)
    assert list(found["methods"]) == ["smc", "soft_guidance"]
    assert found["methods"]["soft_guidance"]["gamma"] == 0
    assert found["left_out"] == ["rejection is left out: rejection_calls=0."]
    found = evaluate(model, COMMON, "num_samples=4", "sampling=entropy", "overwrite=true")
    assert list(found["methods"]) == ["rejection"]
    assert "entropy" in found["left_out"][0]


@pytest.mark.slow
def test_a_brief_that_no_data_meet_leaves_the_shares(model):
    words = ["num_samples=4", "method=smc", "particles=256", "rejection_calls=100"]
    found = evaluate(model, NEVER, *words)
    assert found["data"]["train"]["num_met"] == found["data"]["held_out"]["num_met"] == 0
    assert found["reference"] is None
    assert found["num_reference"] == 0
    for method in found["methods"].values():
        assert method["metrics"] == {}
        assert "floors" not in method
    assert found["methods"]["smc"]["num_met"] == 4
    table = Path("evaluation/table.md").read_text()
    assert "No data meet the brief" in table


@pytest.mark.slow
def test_few_data_that_meet_it_are_said(model):
    write_diagrams("plans.jsonl", generate_plans(40, seed=5))
    words = ["num_samples=4", "reference_repeats=0", "reference=plans.jsonl"]
    found = evaluate(model, COMMON, *words)
    num = found["data"]["held_out"]["num_met"]
    table = Path("evaluation/table.md").read_text()
    assert f"{num} of 40 of plans.jsonl meet it" in table
    assert found["reference"] == "the training data"  # it has more
    write_diagrams("train.jsonl", generate_plans(20, seed=6))
    words += ["training_data=train.jsonl", "overwrite=true"]
    found = evaluate(model, COMMON, *words)
    num = found["data"]["held_out"]["num_met"]
    assert found["num_reference"] == num
    assert (
        f"Only {num} diagrams of the data meet the brief" in Path("evaluation/table.md").read_text()
    )


@pytest.mark.parametrize(
    ("brief", "words", "named"),
    [
        (None, ["method=smc"], ["method=smc", "brief=FILE"]),
        (None, ["lookahead_power=2"], ["lookahead_power=2", "brief=FILE"]),
        (COMMON, ["num_seeds=2"], ["num_seeds=2", "brief="]),
        (COMMON, ["num_solver_checks=5"], ["num_solver_checks=5", "brief="]),
        (COMMON, ["lookahead_power=-1"], ["lookahead_power=-1", "at least 0"]),
        (COMMON, ["lookahead_power=much"], ["lookahead_power=much", "number"]),
        (
            COMMON,
            ["max_nodes=9"],
            ["max_nodes=9", "reference=FILE or training_data=FILE or room_names=FILE;"],
        ),
        ("num_rooms: 2\n", [], ["num_rooms", "exactly 2"]),
        ("rooms:\n  Kitchn: 1\n", [], ["brief.yaml", "line 2", "Kitchen"]),
    ],
)
def test_what_means_nothing_is_refused(brief, words, named, model, capsys):
    given = [] if brief is None else ["brief=brief.yaml"]
    Path("brief.yaml").write_text(brief or "")
    with pytest.raises(SystemExit):
        main(["evaluate", f"checkpoint={model}", *given, *EVALUATE, *words])
    said = capsys.readouterr().err
    assert all(word in said for word in named), said
    assert not Path("evaluation/metrics.json").exists()


def test_files_of_samples_have_no_brief(capsys):
    write_diagrams("plans.jsonl", generate_plans(4, seed=0))
    Path("brief.yaml").write_text(COMMON)
    with pytest.raises(SystemExit):
        main(["evaluate", "samples=plans.jsonl", "brief=brief.yaml"])
    assert "brief=brief.yaml is for checkpoint=FILE" in capsys.readouterr().err


@pytest.fixture(scope="module")
def world():
    """A model of some diagrams of two and three rooms: algorithm, rows, shares; and data that are
    those diagrams, as often as they are likely."""
    algorithm, rows, prob = tabulated_mdlm([*all_diagrams(2), *all_diagrams(3)][::4], VOCAB)
    three = (rows != VOCAB.pad_id).sum(dim=1) == 6
    rows, prob = rows[three], prob[three] / prob[three].sum()
    times = (2_000 * prob).round().long()
    return algorithm, rows, prob, decode(rows.repeat_interleave(times, dim=0), VOCAB)


def measured(brief: Brief, data: list[BubbleDiagram], diagrams: list[BubbleDiagram]):
    matches = Matching.of(brief, "data", data)
    answer = Answer(diagrams, {"network_calls_per_sample": 6.0, "exact": False})
    verdicts = [not brief.unmet(diagram) for diagram in diagrams]
    return matches, method_scores(answer, verdicts, DiagramSet(matches.diagrams, DIRECTIONS))


def test_samples_of_the_conditional_are_compared_with_data_that_meet_it(world):
    *_, data = world
    brief = BRIEFS["some to a side"]
    met = [diagram for diagram in data if not brief.unmet(diagram)]
    chosen = [met[k] for k in torch.randint(len(met), (60,), generator=make_generator(0)).tolist()]
    matches, scores = measured(brief, data, chosen)
    assert matches.diagrams == met
    assert (scores["share_met"], scores["share_met_standard_error"]) == (1, pytest.approx(0, abs=1))
    assert scores["metrics"] == pytest.approx(bubble_metrics(chosen, met))


@pytest.mark.parametrize("name", ["exactly one kitchen", "some to a side", "named", "connected"])
def test_soft_guidance_breaks_a_brief_and_that_is_counted(name, world):
    algorithm, rows, prob, data = world
    brief, num = BRIEFS[name], 400
    constraint = BriefConstraint(brief, VOCAB)
    sampler = SoftGuidance(constraint=constraint, doubt=0.1)
    real = torch.ones(num, VOCAB.length, dtype=torch.bool)
    output = sampler.sample(algorithm, real, generator=make_generator(0))
    drawn = decode(output.x0, VOCAB)
    _, scores = measured(brief, data, drawn)
    broken = sum(bool(brief.unmet(diagram)) for diagram in drawn)
    assert 0 < broken < num
    assert scores["num_met"] == num - broken
    assert scores["share_met"] > float((prob * constraint.met(rows)).sum())
    assert scores["network_calls_per_met"] == pytest.approx(6 * num / (num - broken))
