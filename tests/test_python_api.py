"""What Python asks for: requests as the commands build them, without a config or a file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import discrete_diffusion
from discrete_diffusion import evaluate, load, train
from discrete_diffusion.api.loading import SampleFunction
from discrete_diffusion.cli import compose, main
from discrete_diffusion.cli.sample import request_of
from discrete_diffusion.evaluation.requests import EvaluateRequest, SampleRequest
from discrete_diffusion.runs import override_words
from discrete_diffusion.runtime.inputs import GivenObjects, place_of_line
from floor_plans import Diagrams, PlanRequest, generate_plans, realise_diagrams, write_diagrams
from floor_plans.briefs import brief_of

PARTIAL = {"rooms": ["LivingRoom", None], "relations": []}
FEW = {
    "num": 6,
    "num_seeds": 1,
    "held_out": 8,
    "noise_samples": 1,
    "time_bins": 2,
    "reference_repeats": 2,
}
WORDS = ("num_samples=6", "num_seeds=1", "num_held_out=8", "noise_samples=1", "time_bins=2")
TIMES = ("seconds", "sampling_seconds")


@pytest.fixture(scope="module")
def model(untrained):
    return load(untrained)


@pytest.fixture
def nothing_composed(monkeypatch):
    """Hydra and temporary folders are out of reach."""

    def refused(*args, **kwargs):
        raise AssertionError("a config or a temporary file")

    for name in ("hydra.compose", "hydra.initialize_config_dir", "tempfile.mkdtemp"):
        monkeypatch.setattr(name, refused)


@pytest.mark.usefixtures("nothing_composed")
def test_samples_take_no_config_and_no_file(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(model.sample(2, sampling={"temperature": 0.5})) == 2
    assert len(model.sample(given=[PARTIAL, PARTIAL], num_completions=2)) == 4
    brief = {"rooms": {"LivingRoom": "at least 0"}}
    expected = model.sample(1, brief=brief, method="rejection")
    assert len(expected) == 1
    assert brief_of(brief).sample(model, 1, method="rejection") == expected
    assert not list(tmp_path.iterdir())


def test_a_brief_samples_completions_and_refuses_what_is_no_model(model):
    brief = brief_of({"rooms": {"LivingRoom": "at least 1"}})
    found = brief.sample(model, given=PARTIAL, num_completions=2, method="rejection")
    assert [len(found), {brief.unmet(diagram) == [] for diagram in found}] == [2, {True}]
    with pytest.raises(TypeError, match=r"load\(path\).*runs/first"):
        brief.sample("runs/first")
    with pytest.raises(ValueError, match="num_rooms=5"):
        brief.sample(model, rooms=5)
    with pytest.raises(ValueError, match="2 objects"):
        model.sample(brief=[brief, brief])


@pytest.mark.slow
def test_samples_find_their_floor_plans():
    pytest.importorskip("ortools", reason="floor plans take the extra plans")
    pytest.importorskip("shapely", reason="floor plans take the extra plans")
    diagrams = Diagrams(generate_plans(2, seed=3))
    request = PlanRequest(total_area=70.0, variants=2)
    found = diagrams.realise(request, threads=2)
    assert [each.plans for each in found] == [
        each.plans for each in realise_diagrams([*diagrams], request)
    ]
    assert all(len(each.plans) == 2 for each in found)
    assert sum(found[0].areas) == pytest.approx(70)


def test_a_request_is_what_the_command_builds():
    config = compose("sample", ["num_samples=3", "num_rooms=[4,5]", "sampling.temperature=0.5"])
    request = request_of(SampleRequest, config)
    assert (request.num_samples, request.seed, request.picture) == (3, 0, "samples.png")
    assert request.num_rooms == request["num_rooms"] == [4, 5]
    assert request.sampling["temperature"] == 0.5
    with pytest.raises(AttributeError, match="rooms_per_floor"):
        request.rooms_per_floor  # noqa: B018
    request = SampleRequest(num_samples=np.int64(3), options={"num_rooms": range(4, 6)})
    assert type(request.num_samples) is int
    assert request.num_rooms == [4, 5]


@pytest.mark.parametrize(
    ("build", "fields", "named"),
    [
        (SampleRequest, {"num_samples": 0}, "num_samples=0"),
        (SampleRequest, {"seed": -1}, "seed=-1"),
        (SampleRequest, {"seed": None}, "seed=null"),
        (SampleRequest, {"steps": 1.5}, "steps=1.5"),
        (SampleRequest, {"batch_size": True}, "batch_size=True"),
        (SampleRequest, {"precision": "bf17"}, "precision=bf17"),
        (EvaluateRequest, {"num_held_out": 0}, "num_held_out=0"),
        (EvaluateRequest, {"noise_samples": -1}, "noise_samples=-1"),
    ],
)
def test_what_no_request_may_be(build, fields, named):
    with pytest.raises(ValueError, match=named):
        build(**fields)


def test_errors_of_objects_say_which(model):
    wrong = {"rooms": ["Spaceship", None], "relations": []}
    with pytest.raises(ValueError, match=r"given\[1\].*rooms\[0\]"):
        model.sample(given=[PARTIAL, wrong])
    with pytest.raises(TypeError, match=r"given\[1\]"):
        model.sample(given=[PARTIAL, {"rooms": [object()]}])
    with pytest.raises(ValueError, match="give at least one"):
        model.sample(given=[])
    with pytest.raises(ValueError, match=r"buildable=3\.5"):
        model.sample(1, buildable=3.5)


def test_objects_stand_in_the_place_of_lines():
    given = GivenObjects.of("given", [{"n": 2}, "text"])
    assert given.text == '{"n": 2}\ntext\n'
    assert list(given.numbered_lines()) == [(1, b'{"n": 2}'), (2, b"text")]
    assert place_of_line(given, 2) == "given[1]"
    assert place_of_line("plans.jsonl", 2) == "plans.jsonl, line 2"
    with pytest.raises(ValueError, match=r"given\[0\]"):
        GivenObjects.of("given", ["two\nlines"])
    with pytest.raises(ValueError, match="2 objects"):
        given.one_object()
    with pytest.raises(TypeError, match=r"given\[1\]"):
        GivenObjects.of("given", [{"n": 2}, {"n": object()}]).lines  # noqa: B018


@pytest.mark.slow
def test_evaluate_measures_what_the_command_does(untrained, model, tmp_path, monkeypatch, request):
    more = [
        "reference_repeats=2",
        "num_solver_checks=0",
        "pictures=false",
        f"out={tmp_path}/command",
    ]
    main(["evaluate", f"checkpoint={untrained}", *WORDS, *more])
    written = json.loads((tmp_path / "command" / "metrics.json").read_text())
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    request.getfixturevalue("nothing_composed")
    for asked in (model, untrained):
        measured = evaluate(asked, num_solver_checks=0, **FEW)
        found = measured.metrics()
        assert written.keys() >= found.keys()
        same = [key for key in found if key not in TIMES and isinstance(found[key], int | float)]
        assert len(same) > 20
        assert {key: written[key] for key in same} == pytest.approx(
            {key: found[key] for key in same}, nan_ok=True
        )
    assert not list((tmp_path / "empty").iterdir())
    measured.write(tmp_path / "out", {}, "")
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"metrics.json", "table.md"}


def test_evaluate_measures_files(tmp_path):
    file = tmp_path / "plans.jsonl"
    write_diagrams(file, generate_plans(20, 3))
    options = {"reference": file, "reference_repeats": 0, "num_solver_checks": 0}
    found = evaluate(samples=file, domain="bubble_diagrams", **options).metrics()
    assert found["num_samples"] == 20


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"samples": "a", "num": 3, "domain": "bubble_diagrams"}, "num_samples=3 is for checkpoi"),
        ({"samples": "a"}, "give domain="),
        ({}, "a model or samples"),
        ({"model": 3}, "expected a path or what load"),
        ({"model": None, "floors": 3}, "floors"),
        ({"model": None, "kernel": "tv"}, "kernel"),  # of graphs
        ({"model": None, "max_nodes": 9}, "max_nodes=9 is for the files"),
        ({"model": None, "split": "tset"}, "tset"),
    ],
)
def test_evaluate_refuses_what_the_command_does(model, options, named):
    asked = [options.pop("model") or model] if "model" in options else []
    with pytest.raises((ValueError, TypeError), match=named):
        evaluate(*asked, **options)


def test_settings_become_words():
    settings = {"algos": ["mdlm", "udlm"], "trainer": {"max_steps": 3}, "resume": None}
    words = ["algos=['mdlm','udlm']", "trainer.max_steps=3", "resume=null", "out='a/b'"]
    assert override_words({**settings, "out": Path("a/b")}) == words


@pytest.mark.slow
def test_a_model_is_trained_and_loaded(tmp_path):
    small = {"trainer": {"max_steps": 1, "num_sanity_val_steps": 0}, "data": {"num_plans": 100}}
    small |= {"model": {"d_model": 16, "cond_dim": 16}, "callbacks": {"num_samples": 0}}
    small |= {
        "eval": {"num_samples": 2, "num_held_out": 4, "noise_samples": 1, "num_solver_checks": 0}
    }
    small["logger"] = "none"
    words = ["model=bd_tiny"]
    metrics = train(*words, folder=tmp_path / "run", **small)
    assert metrics == json.loads((tmp_path / "run" / "metrics.json").read_text())
    loaded = load(tmp_path / "run")
    assert isinstance(loaded.sample, SampleFunction)
    assert len(loaded.sample(1)) == 1
    with pytest.raises(ValueError, match="holds a run"):
        train(*words, folder=tmp_path / "run", **small)
    with pytest.raises(ValueError, match="bd-denoser"):
        train(folder=tmp_path / "other", algo={"backbone": "bd-denoser"})
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
def test_a_comparison_returns_its_results(tmp_path):
    words = ["model=bd_tiny", "model.d_model=16", "model.cond_dim=16", "trainer.max_steps=1"]
    words += ["data.num_plans=100", "eval.num_samples=2", "num_held_out=4", "noise_samples=1"]
    found = discrete_diffusion.compare(
        *words, out=tmp_path, algos=["mdlm"], eval={"num_solver_checks": 0}
    )
    assert found == json.loads((tmp_path / "results.json").read_text())
