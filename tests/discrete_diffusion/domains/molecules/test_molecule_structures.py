"""``structure=valence`` and ``connected`` through the commands and from Python."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from molecule_examples import train

pytest.importorskip("rdkit")
pytest.importorskip("fcd")

from rdkit import Chem

from discrete_diffusion import load
from discrete_diffusion.cli import main
from discrete_diffusion.domains.molecules.domain import STRUCTURES, register_structure
from discrete_diffusion.domains.molecules.molecule import BONDS
from discrete_diffusion.domains.molecules.valence import ConnectedValence


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A network that draws anything."""
    return train(tmp_path_factory.mktemp("valence"), "trainer.max_steps=2")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def read(path: str) -> dict:
    return json.loads(Path(path).read_text())


def lines_of(path: str) -> list[dict]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["first-hitting", "ancestral"])
def test_sample(run, sampler):
    words = ["num_samples=16", "num_atoms=6", f"sampling={sampler}"]
    main(["sample", f"checkpoint={run}", *words, "out=free"])
    main(["sample", f"checkpoint={run}", *words, "structure=valence", "out=s"])
    assert read("free/metrics.json")["valid"] < 1
    metrics = read("s/metrics.json")
    assert (metrics["structure"], metrics["valid"]) == ("valence", 1)
    assert metrics["forced_draws_per_sample"] > 0
    assert "dead_ends" not in metrics
    assert 1 <= metrics["effective_samples"] <= 16
    lines = lines_of("s/samples.jsonl")
    assert all(line["log_weight"] <= 0 and line["smiles"] for line in lines)


@pytest.mark.slow
def test_connected_samples(run):
    """Bonds are rare if not forced, so that free samples are in pieces."""
    words = ["num_samples=24", "num_atoms=6", "sampling.temperature=0.7"]
    main(["sample", f"checkpoint={run}", *words, "structure=valence", "out=v"])
    main(["sample", f"checkpoint={run}", *words, "structure=connected", "out=s"])
    assert read("v/metrics.json")["connected"] < 1
    metrics, lines = read("s/metrics.json"), lines_of("s/samples.jsonl")
    alive = [line for line in lines if line["log_weight"] is not None]
    assert len(alive) == 24 - metrics.get("dead_ends", 0)
    assert all("." not in line["smiles"] for line in alive)
    assert metrics["connected"] == metrics["valid"] == len(alive) / 24


class Stuck(ConnectedValence):
    """The last pair has no value left if the first one has a bond."""

    def support(self, x, position):
        first = self.is_edge(x[:, self.vocab.edge_position(0, 1)])
        last = position == self.vocab.edge_position(1, 2)
        return super().support(x, position) & ~(first & last).unsqueeze(1)


@pytest.mark.slow
def test_dead_ends_are_counted(run, capsys):
    register_structure("stuck")(Stuck)
    try:
        words = [f"checkpoint={run}", "num_samples=24", "structure=stuck"]
        main(["sample", *words, "num_atoms=3", "out=s"])
        main(["evaluate", *words, "num_held_out=4", "quick=true", "out=e"])
    finally:
        del STRUCTURES.builders["stuck"]
    metrics = read("s/metrics.json")
    weights = [line["log_weight"] for line in lines_of("s/samples.jsonl")]
    assert 0 < metrics["dead_ends"] == weights.count(None) < 24
    assert 0 < metrics["effective_samples"] <= 24 - metrics["dead_ends"]
    alive = [math.exp(weight) for weight in weights if weight is not None]
    assert metrics["mean_weight"] == pytest.approx(sum(alive) / 24)
    assert metrics["log_mean_weight"] == pytest.approx(math.log(sum(alive) / 24))
    assert "dead end" in capsys.readouterr().out
    assert 0 < read("e/metrics.json")["dead_ends"] < 24
    assert "| dead_ends |" in Path("e/table.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(("order", "structure"), [("smiles", "connected"), ("random", "valence")])
def test_scaffolds_are_completed(run, order, structure, tmp_path_factory):
    if order == "random":
        run = train(
            tmp_path_factory.mktemp("valence_random"),
            *("trainer.max_steps=2", "data.node_order=random"),
        )
    Path("some.smi").write_text("*C1CC1\nC(=O)N\n")
    words = ["given=some.smi", "completions=4", "num_atoms=7", f"structure={structure}"]
    main(["sample", f"checkpoint={run}", *words, "out=c"])
    metrics, lines = read("c/metrics.json"), lines_of("c/samples.jsonl")
    assert metrics["valid"] == 1 - metrics.get("dead_ends", 0) / 8
    assert metrics["connected"] == metrics["valid"] or structure == "valence"
    assert [line["given"] for line in lines] == [1] * 4 + [2] * 4
    ring = Chem.MolFromSmarts("C1CC1")
    assert all(Chem.MolFromSmiles(line["smiles"]).HasSubstructMatch(ring) for line in lines[:4])
    assert all("log_weight" in line for line in lines)


@pytest.mark.slow
def test_a_scaffold_that_cannot_become_one_piece_is_refused(run, capsys):
    Path("some.smi").write_text("CC\n*C.*C\nFF\n")
    words = ["given=some.smi", "structure=connected", "completions=2", "num_atoms=5"]
    with pytest.raises(SystemExit):
        main(["sample", f"checkpoint={run}", *words])
    error = capsys.readouterr().err
    named = ("some.smi, line 3", "5 atoms", "piece of atom", "structure=connected")
    assert all(word in error for word in named)
    with pytest.raises(ValueError, match=r"given\[1\].*piece of atom"):
        load(run).sample(given=["CC", "FF"], structure="connected", num_atoms=5)
    Path("some.smi").write_text("CC\n*C.*C\n")
    main(["sample", f"checkpoint={run}", *words, "out=c"])
    for line in lines_of("c/samples.jsonl"):
        assert line["log_weight"] is None or "." not in line["smiles"]


@pytest.mark.slow
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


@pytest.mark.slow
def test_from_python_and_an_unknown_one(run):
    molecules = load(run).sample(3, structure="connected", num_atoms=5)
    assert [len(molecule.atoms) for molecule in molecules] == [5] * 3
    assert all(kind < len(BONDS) - 1 for molecule in molecules for *_, kind in molecule.bonds)
    with pytest.raises(ValueError, match=r"tree.*connected, valence"):
        load(run).sample(3, structure="tree")
