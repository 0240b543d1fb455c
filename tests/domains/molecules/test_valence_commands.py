"""``structure=valence`` through the commands and from Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from molecule_examples import train

pytest.importorskip("rdkit")
pytest.importorskip("fcd")

from rdkit import Chem

from discrete_diffusion import load
from discrete_diffusion.cli import main


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A network that draws anything."""
    return train(tmp_path_factory.mktemp("valence"), "trainer.max_steps=2")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def read(path: str) -> dict:
    return json.loads(Path(path).read_text())


@pytest.mark.parametrize("sampler", ["first-hitting", "ancestral"])
def test_sample(run, sampler):
    words = ["num_samples=16", "num_atoms=6", f"sampling={sampler}"]
    main(["sample", f"checkpoint={run}", *words, "out=free"])
    main(["sample", f"checkpoint={run}", *words, "structure=valence", "out=s"])
    assert read("free/metrics.json")["valid"] < 1
    metrics = read("s/metrics.json")
    assert (metrics["structure"], metrics["valid"]) == ("valence", 1)
    assert metrics["forced_draws_per_sample"] > 0
    assert 1 <= metrics["effective_samples"] <= 16
    lines = [json.loads(line) for line in Path("s/samples.jsonl").read_text().splitlines()]
    assert all(line["log_weight"] <= 0 and line["smiles"] for line in lines)


@pytest.mark.parametrize("order", ["smiles", "random"])
def test_scaffolds_are_completed(run, order, tmp_path_factory, capsys):
    if order == "random":
        run = train(
            tmp_path_factory.mktemp("valence_random"),
            *("trainer.max_steps=2", "data.node_order=random"),
        )
    Path("some.smi").write_text("*C1CC1\nC(=O)N\n")
    words = ["given=some.smi", "completions=4", "num_atoms=7", "structure=valence"]
    main(["sample", f"checkpoint={run}", *words, "out=c"])
    assert read("c/metrics.json")["valid"] == 1
    lines = [json.loads(line) for line in Path("c/samples.jsonl").read_text().splitlines()]
    assert [line["given"] for line in lines] == [1] * 4 + [2] * 4
    ring = Chem.MolFromSmarts("C1CC1")
    assert all(Chem.MolFromSmiles(line["smiles"]).HasSubstructMatch(ring) for line in lines[:4])
    assert all("log_weight" in line for line in lines)


def test_a_scaffold_that_has_too_many_bonds_is_refused(tmp_path_factory, capsys):
    """Where charges are ignored, N+ is N with one bond more than it takes."""
    folder = tmp_path_factory.mktemp("uncharged")
    run = train(folder, "trainer.max_steps=2", "data.charges=ignored", "data.node_order=random")
    Path("some.smi").write_text("CCO\nC[N+](C)(C)C\n")
    words = ["given=some.smi", "structure=valence", "completions=1", "num_atoms=7"]
    with pytest.raises(SystemExit):
        main(["sample", f"checkpoint={run}", *words])
    error = capsys.readouterr().err
    assert all(word in error for word in ("some.smi, line 2", "(N)", "4", "structure=valence"))
    main(["sample", f"checkpoint={run}", *words[:1], *words[2:], "out=free"])


def test_evaluate(run):
    words = ["quick=true", "num_samples=12", "num_held_out=4", "structure=valence"]
    main(["evaluate", f"checkpoint={run}", *words, "out=e"])
    metrics = read("e/metrics.json")
    assert (metrics["structure"], metrics["valid"]) == ("valence", 1)
    assert metrics["forced_draws_per_sample"] > 0
    table = Path("e/table.md").read_text()
    assert "| forced_draws_per_sample |" in table
    assert "says nothing about the model" in table


def test_from_python_and_an_unknown_one(run):
    assert len(load(run).sample(3, structure="valence", num_atoms=5)) == 3
    with pytest.raises(ValueError, match=r"tree.*valence"):
        load(run).sample(3, structure="tree")
