"""The model in the box: what its card and the results say of it is what is there."""

from __future__ import annotations

import json
from pathlib import Path

import networkx
import pytest
import yaml

from discrete_diffusion import load
from discrete_diffusion.checkpoints import read_checkpoint
from discrete_diffusion.cli import compose, main
from discrete_diffusion.hub import boxed_domain, boxed_model, boxed_models
from floor_plans import write_diagrams
from floor_plans.diagrams.files.graph_formats import to_networkx

ROOT = Path(__file__).resolve().parents[3]
NAME = "plans-small"


@pytest.fixture(scope="module")
def measured():
    return json.loads((ROOT / "benchmarks" / "results" / "boxed.json").read_text())["results"]


def test_it_is_the_one_that_was_measured(measured):
    found = read_checkpoint(NAME)
    assert found.info["digest"] == measured["digest"]
    assert found.step == measured["evaluation"]["step"]
    assert abs(measured["evaluation"]["nelbo_unordered"] - measured["nelbo_in_float32"]) < 0.02


def test_its_card_has_its_numbers_its_data_and_its_licence(measured):
    card = (read_checkpoint(NAME).path.parent / "README.md").read_text()
    evaluation = measured["evaluation"]
    for name in ("valid", "node_tv", "relation_tv"):
        low, high = evaluation["intervals"][name]
        floor = f"{evaluation['real'][name]:.4g}"
        row = f"| {name} | {evaluation[name]:.4g} | {low:.4g} to {high:.4g} | {floor} |"
        assert row in card
    for said in ("license: mit", "experiment=plans_full", "generator_seed", "procedural generator"):
        assert said in card


def test_its_licence_goes_with_it(tmp_path):
    """That of the card beside what was loaded, unless another is named."""
    boxed = load("plans-small")
    folders = [boxed.save_pretrained(tmp_path / "first")]
    folders.append(load(folders[0]).save_pretrained(tmp_path / "second"))
    for folder in folders:
        card = (folder / "README.md").read_text()
        assert "Licence: mit." in card
        assert yaml.safe_load(card.split("---")[1])["license"] == "mit"
    own = load(folders[1]).save_pretrained(tmp_path / "third", licence="cc-by-4.0")
    assert "Licence: cc-by-4.0." in (own / "README.md").read_text()


def test_it_is_named_where_no_other_is_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no checkpoint at.*'plans-small'"):
        load("plans-smal")
    pytest.importorskip("huggingface_hub", reason="the Hub takes it")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ValueError, match=r"me/plans.*cannot be reached.*plans-small"):
        load("me/plans")


def test_a_sentence_names_what_an_export_of_it_would_need(failure):
    assert "algo.backbone=dit" in failure("export", "format=mdlm")


def test_it_is_small():
    assert [*boxed_models()] == [NAME]
    folder = read_checkpoint(NAME).path.parent
    assert sum(file.stat().st_size for file in folder.iterdir()) < 3e6


@pytest.mark.slow
def test_it_draws_valid_diagrams(measured):
    drawn = load(NAME).sample(100, seed=5)
    valid = sum(networkx.is_weakly_connected(to_networkx(diagram)) for diagram in drawn)
    assert valid >= 95


@pytest.mark.slow
def test_the_command_takes_it_by_itself(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main(["sample", "num_samples=3", "num_rooms=5", "out=drawn"])
    said = json.loads((tmp_path / "drawn" / "metrics.json").read_text())
    assert Path(said["checkpoint"]).parent.name == NAME


@pytest.mark.slow
def test_training_goes_on_from_it(tmp_path):
    words = ["model=bd_pair_small", "algo.backbone=bd-denoiser-pair", "debug=smoke"]
    words += ["sampling=ancestral", "sampling.steps=2", "init.checkpoint=plans-small"]
    words += ["trainer.max_steps=1", "data.num_plans=64", f"hydra.run.dir={tmp_path}/run"]
    main(["train", *words])
    assert (tmp_path / "run" / "checkpoints" / "last.ckpt").exists()


@pytest.mark.slow
def test_its_bound_is_what_the_card_says(measured, tmp_path):
    few = [
        "num_held_out=200",
        "num_samples=2",
        "num_seeds=1",
        "reference_repeats=0",
        "num_solver_checks=0",
    ]
    few += ["pictures=false", f"out={tmp_path / 'measured'}"]
    main(["evaluate", f"checkpoint={NAME}", *few])
    found = json.loads((tmp_path / "measured" / "metrics.json").read_text())
    error = found["nelbo_unordered_standard_error"]
    assert abs(found["nelbo_unordered"] - measured["evaluation"]["nelbo_unordered"]) < 4 * error


@pytest.mark.slow
def test_it_and_its_kind_of_data_are_the_defaults(tmp_path, monkeypatch):
    """No config names them: null takes what lies in the box."""
    assert (boxed_model(), boxed_domain()) == (NAME, "bubble_diagrams")
    assert compose("sample").checkpoint is compose("export").checkpoint is None
    assert compose("evaluate").domain is None
    monkeypatch.chdir(tmp_path)
    write_diagrams("plans.jsonl", load(NAME).sample(8))
    quick = ["reference_repeats=0", "num_solver_checks=0", "pictures=false"]
    main(["evaluate", "samples=plans.jsonl", "reference=plans.jsonl", *quick])
    assert json.loads(Path("evaluation/metrics.json").read_text())["num_samples"] == 8


def test_its_orders_of_eight_calls_come_with_it(caplog, tmp_path, monkeypatch):
    monkeypatch.setenv("DISCRETE_DIFFUSION_CACHE", str(tmp_path))
    with caplog.at_level("INFO"):
        load(NAME).sample(num=3, sampling="planned", steps=8)
    assert "calls sample" not in caplog.text
    assert not [*tmp_path.glob("*.call_orders.json")]
