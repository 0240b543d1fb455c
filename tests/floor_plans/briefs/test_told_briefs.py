"""Models that are told what a brief says exactly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from discrete_diffusion import load
from discrete_diffusion.cli import main
from floor_plans import read_diagrams
from floor_plans.briefs.reading import read_brief

BRIEF = """num_rooms: 5-6
rooms:
  Bedroom: at least 1
  Kitchen: 1
area: 80.5
outline: [[0, 0], [10, 0], [10, 8], [0, 8]]
"""
TOLD = "data.condition_on=[num_rooms,counts,area,outline]"
SHORT = ["debug=smoke", "data.num_plans=200", "trainer.max_steps=2", "logger=none"]
SMALL = ["model.d_model=16", "model.cond_dim=16"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model of plans that is told of them, hardly trained."""
    run = tmp_path_factory.mktemp("model") / "run"
    words = [*SHORT, *SMALL, TOLD, "algo.condition_dropout=0.2", f"hydra.run.dir={run}"]
    main(["train", *words])
    return run


@pytest.fixture
def brief(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("brief.yaml").write_text(BRIEF)
    return read_brief("brief.yaml")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["rejection", "smc"])
@pytest.mark.parametrize("guidance", [1, 2])
def test_the_network_is_told_and_every_diagram_meets_the_brief(model, brief, method, guidance):
    words = [f"checkpoint={model}", "brief=brief.yaml", f"method={method}", "out=drawn"]
    main(["sample", *words, f"sampling.guidance={guidance}", "particles=16", "num_samples=4"])
    metrics = json.loads(Path("drawn/metrics.json").read_text())
    diagrams = read_diagrams("drawn/samples.jsonl")
    assert len(diagrams) == 4
    assert not any(brief.unmet(diagram) for diagram in diagrams)
    assert metrics["told"] == ["Kitchen", "area", "outline"]


@pytest.mark.slow
def test_evaluate_conditions_the_network_too_and_names_what_the_data_do_not_show(model, brief):
    words = [f"checkpoint={model}", "brief=brief.yaml", "method=smc", "particles=16"]
    words += ["num_samples=4", "reference_repeats=0", "pictures=false", "rejection_calls=200"]
    main(["evaluate", *words, "sampling.guidance=2"])
    metrics = json.loads(Path("evaluation/metrics.json").read_text())
    assert metrics["told"] == ["Kitchen", "area", "outline"]
    assert metrics["methods"]["smc"]["num_met"] == 4
    assert metrics["methods"]["soft_guidance"]["num_samples"] == 4
    table = Path("evaluation/table.md").read_text()
    assert "conditioned on: Kitchen, area, outline." in table
    assert "No diagram shows area, outline" in table


@pytest.mark.slow
def test_what_is_told_decides_what_is_drawn(model, brief):
    """Of a network that reads its condition; the same noise, another area."""
    algorithm = load(model)
    for each in algorithm.backbone.denoiser.facts.attention:
        each.attention.out.weight.data.normal_(std=1.0)
    for head in (algorithm.backbone.denoiser.node_head, algorithm.backbone.denoiser.edge_head):
        head.weight.data.normal_(std=1.0)
    asked = {"num_rooms": 6, "area": 60}
    first = algorithm.sample(8, brief=asked, method="rejection")
    assert algorithm.sample(8, brief=asked, method="rejection") == first
    assert algorithm.sample(8, brief={**asked, "area": 300}, method="rejection") != first


@pytest.mark.slow
def test_a_model_that_is_told_nothing_of_plans_leaves_them_to_the_solver(
    model, brief, tmp_path, capsys
):
    run = tmp_path / "counts"
    words = [*SHORT, *SMALL, "data.condition_on=[counts]", "algo.condition_dropout=0.2"]
    main(["train", *words, f"hydra.run.dir={run}"])
    main(["sample", f"checkpoint={run}", "brief=brief.yaml", "out=drawn", "num_samples=2"])
    said = "".join(capsys.readouterr())
    assert "area, outline: " in said
    assert "plans make" in said
    assert "data.condition_on=[counts, area, outline]" in said
    assert json.loads(Path("drawn/metrics.json").read_text())["told"] == ["Kitchen"]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (
            [TOLD],
            ["data.condition_on=[num_rooms,counts,area,outline]", "algo.condition_dropout=0.1"],
        ),
        (["algo.condition_dropout=0.1"], ["bd-denoiser", "data.condition_on"]),
        (
            [TOLD, "algo.condition_dropout=0.1", "algo.backbone=dit", "model=dit_tiny"],
            ["dit", "algo.backbone=bd-denoiser", "data.condition_on=null"],
        ),
        (["data.condition_on=[areas]", "algo.condition_dropout=0.1"], ["areas", "area"]),
        (
            [TOLD, "algo.condition_dropout=0.1", "data.symmetry=mirror"],
            ["data.symmetry=mirror", "outline", "none"],
        ),
        (
            ["data.condition_on=[front_door]", "algo.condition_dropout=0.1"],
            ["data.condition_on", "front_door", "doors"],
        ),
    ],
)
def test_a_wrong_config_names_the_remedy(words, named, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["train", *SHORT, *SMALL[: 2 * ("dit" not in "".join(words))], *words])
    said = capsys.readouterr().err
    for word in named:
        assert word in said


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("area: 0", ["line 2", "area", "square metres"]),
        ("area: 90000", ["line 2", "area", "square metres", "at most 40,000", "90000"]),
        ("area: large", ["line 2", "area", "large"]),
        ("outline: [[0, 0], [10, 8], [10, 0], [0, 8]]", ["line 2", "outline", "cross"]),
        ("outline: [[0, 0], [10, 8]]", ["line 2", "outline"]),
        ("outline: [[0, 0], [10, x], [10, 0]]", ["line 2", "outline[1]", "[x, y]"]),
        ("front_door: [1, 2]", ["line 2", "front_door", "outline"]),
        ("outline: [[0, 0], [9000, 0], [0, 9000]]", ["line 2", "outline", "9000 x 9000"]),
        (
            "outline: [[0, 0], [9, 0], [0, 9]]\nfront_door: [5500, 0]",
            ["line 3", "front_door", "[5500.0, 0.0]", "5,491.0 m from the boundary", "in metres"],
        ),
        ("north: up", ["line 2", "north", "degrees"]),
    ],
)
def test_what_is_wrong_with_a_plan_is_named(line, named, tmp_path):
    path = tmp_path / "brief.yaml"
    path.write_text(f"num_rooms: 6\n{line}\n")
    with pytest.raises(ValueError) as error:
        read_brief(path)
    for word in named:
        assert word in str(error.value)
