"""``sample brief=``: what is written meets the brief, and says how it was drawn."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from discrete_diffusion import load
from discrete_diffusion.cli import main
from floor_plans import PartialDiagram, read_diagrams
from floor_plans.briefs import answering
from floor_plans.briefs import brief_request as asking
from floor_plans.briefs.reading import read_brief
from plan_examples import agrees

EASY = "rooms:\n  Bathroom: at least 1\nrelations:\n  - Bathroom adjacent Kitchen|Balcony\n"
HARD = """rooms:
  LivingRoom: 1
  Kitchen: 1
  Bathroom: 2
  Bedroom: at least 2
relations:
  - Kitchen left-of|left-above LivingRoom
  - no Bathroom adjacent Kitchen
connected: true
num_rooms: 6-7
"""
COMMON = "rooms:\n  Balcony: at most 4\n"


@pytest.fixture(scope="module")
def model(diagram_run):
    return diagram_run


@pytest.fixture
def brief(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("brief.yaml").write_text(request.param)
    try:
        return read_brief("brief.yaml")
    except ValueError:
        return None


def sample(model, *words):
    main(["sample", f"checkpoint={model}", "brief=brief.yaml", "out=drawn", *words])
    metrics = json.loads(Path("drawn/metrics.json").read_text())
    return read_diagrams("drawn/samples.jsonl"), metrics


@pytest.mark.slow
@pytest.mark.parametrize("brief", [COMMON], indirect=True)
def test_a_common_brief_is_answered_by_rejection(brief, model, monkeypatch):
    """However busy the machine: here a second takes an hour."""
    clock = SimpleNamespace(**vars(time))
    monkeypatch.setattr(clock, "perf_counter", lambda: 3600 * time.perf_counter())
    monkeypatch.setattr(answering, "time", clock)
    diagrams, metrics = sample(model, "num_samples=8")
    assert len(diagrams) == 8
    assert not any(brief.unmet(diagram) for diagram in diagrams)
    assert metrics["method"] == "rejection"
    assert metrics["exact"] is True
    assert metrics["approximate_because"] is None
    assert 0.5 < metrics["probability"] <= 1
    assert 1 <= metrics["distinct"] <= 8


@pytest.mark.slow
@pytest.mark.parametrize("brief", [HARD], indirect=True)
def test_a_rare_brief_is_answered_by_particles(brief, model, monkeypatch):
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")  # an error shows as itself
    diagrams, metrics = sample(model, "num_samples=8", "particles=256")
    assert len(diagrams) == 8
    assert not any(brief.unmet(diagram) for diagram in diagrams)
    assert {diagram.num_rooms for diagram in diagrams} <= {6, 7}
    assert metrics["method"] == "smc"
    assert metrics["exact"] is False
    assert "256 particles" in metrics["approximate_because"]
    assert 0 < metrics["probability"] < 0.01
    assert 0 < metrics["probability_standard_error"] < metrics["probability"]
    assert 1 <= metrics["distinct"] <= 8
    assert 0 < metrics["moves_accepted"] <= 1


@pytest.mark.slow
@pytest.mark.parametrize("brief", [EASY], indirect=True)
def test_both_methods_estimate_the_same_probability(brief, model):
    _, by_rejection = sample(model, "num_samples=30", "method=rejection")
    _, by_particles = sample(model, "method=smc", "overwrite=true", "particles=256")
    error = by_rejection["probability_standard_error"] + by_particles["probability_standard_error"]
    assert abs(by_rejection["probability"] - by_particles["probability"]) < 4 * error


@pytest.mark.slow
@pytest.mark.parametrize("method", ["rejection", "smc"])
@pytest.mark.parametrize("brief", [EASY], indirect=True)
def test_partial_diagrams_are_completed_so_that_they_meet_it(brief, model, method):
    known = [{"rooms": ["LivingRoom", None, None, None]}, {"rooms": ["Bathroom", None, "Kitchen"]}]
    Path("given.jsonl").write_text("\n".join(map(json.dumps, known)))
    diagrams, metrics = sample(
        model, "given=given.jsonl", "num_completions=3", f"method={method}", "particles=64"
    )
    assert [diagram.metadata["given"] for diagram in diagrams] == [1, 1, 1, 2, 2, 2]
    assert not any(brief.unmet(diagram) for diagram in diagrams)
    assert all(diagram.room_names[0] == "LivingRoom" for diagram in diagrams[:3])
    assert all(diagram.room_names[2] == "Kitchen" for diagram in diagrams[3:])
    assert metrics["method"] == method
    assert metrics["network_calls_per_sample"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("method", ["rejection", "smc"])
@pytest.mark.parametrize("brief", [EASY + "buildable: true\n"], indirect=True)
def test_a_floor_plan_is_asked_of_all_that_are_kept(brief, model, method, given, monkeypatch):
    """The solver is asked of those that meet the rest; here it says yes to few relations."""
    asked = []

    def has_plan(diagram):
        return len(diagram.relations) < diagram.num_rooms * (diagram.num_rooms - 1) / 2

    def verdicts(effort, shard):
        def judge(diagrams):
            asked.extend(diagrams)
            return list(map(has_plan, diagrams))

        return judge

    monkeypatch.setattr(asking, "Buildable", verdicts)
    Path("given.jsonl").write_text(json.dumps({"rooms": ["Kitchen", None, None, None]}))
    words = ["given=given.jsonl", "num_completions=4"] if given else ["num_samples=4"]
    diagrams, _ = sample(model, *words, f"method={method}", "particles=64")
    assert asked
    assert not any(brief.unmet(diagram) for diagram in asked)
    assert all(
        len(diagram.relations) < 0.9 * d.num_rooms**2 / 2 for d in diagrams for diagram in [d]
    )


@pytest.mark.parametrize(
    ("brief", "words", "named"),
    [
        (COMMON, ["num_rooms=5"], ["num_rooms", "brief"]),
        (COMMON, ["trajectory=2"], ["trajectory"]),
        (COMMON, ["buildable=lookahead"], ["buildable", "true"]),
        (COMMON, ["method=luck"], ["method", "smc"]),
        (COMMON, ["method=smc", "sampling=entropy"], ["smc", "first-hitting"]),
        ("num_rooms: 2\n", [], ["num_rooms", "exactly 2"]),
        ("rooms:\n  Kitchen: 9\n", [], ["brief.yaml", "line 2", "rooms.Kitchen"]),
        ("rooms:\n  Kitchn: 1\n", [], ["brief.yaml", "line 2", "Kitchen"]),
        (HARD, ["method=rejection", "max_tries=5", "num_samples=2"], ["max_tries=5", "method=smc"]),
    ],
    indirect=["brief"],
)
def test_what_cannot_be_answered_is_refused(brief, words, named, model, capsys):
    with pytest.raises(SystemExit):
        main(["sample", f"checkpoint={model}", "brief=brief.yaml", *words])
    said = capsys.readouterr().err
    assert all(word in said for word in named), said
    assert not Path("samples/samples.jsonl").exists()


@pytest.mark.slow
def test_a_loaded_model_takes_a_brief_as_an_object(model):
    diagrams = load(model).sample(5, brief={"rooms": {"Balcony": "at most 1"}}, seed=3)
    assert len(diagrams) == 5
    assert all(diagram.room_names.count("Balcony") <= 1 for diagram in diagrams)


WEIGHED = "rooms:\n  Bathroom: 1\n  Kitchen: 1\nrelations:\n  - no Bathroom adjacent Kitchen\n"


@pytest.mark.slow
@pytest.mark.parametrize("brief", [WEIGHED], indirect=True)
def test_every_line_keeps_what_is_given_however_uneven_the_weights(brief, model):
    """Lines of as many rooms are drawn together, and their rooms lie in other slots."""
    known = [
        {"rooms": ["Kitchen", None, "StudyRoom", None], "relations": [[0, 2, "above"]]},
        {"rooms": [None, "Balcony", "LivingRoom", None], "relations": [[1, 2, "no-edge"]]},
    ]
    Path("given.jsonl").write_text("\n".join(map(json.dumps, known)))
    words = ["given=given.jsonl", "num_completions=6", "method=smc", "particles=256"]
    diagrams, _ = sample(model, *words)
    partials = [PartialDiagram.from_json(each) for each in known]
    for diagram in diagrams:
        assert agrees(partials[diagram.metadata["given"] - 1], diagram)
        assert not brief.unmet(diagram)


@pytest.mark.slow
@pytest.mark.parametrize("brief", ["num_rooms: 5-7\nconnected: true\n"], indirect=True)
def test_a_line_of_another_number_of_rooms_is_refused(brief, model, capsys):
    Path("given.jsonl").write_text(json.dumps({"rooms": ["LivingRoom", None, None]}))
    words = ["given=given.jsonl", "method=smc", "particles=16"]
    with pytest.raises(SystemExit):
        main(["sample", f"checkpoint={model}", "brief=brief.yaml", *words])
    assert "line 1" in capsys.readouterr().err
