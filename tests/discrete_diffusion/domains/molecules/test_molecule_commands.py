"""``data=molecules`` through the commands, with and without ``structure=``."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from molecule_examples import train, written

from discrete_diffusion import load
from discrete_diffusion.cli import main
from discrete_diffusion.domains.molecules.domain import STRUCTURES, register_structure
from discrete_diffusion.domains.molecules.molecule import BONDS
from discrete_diffusion.domains.molecules.molecule_files import read_samples
from discrete_diffusion.domains.molecules.valence import ConnectedValence
from discrete_diffusion.sampling import FirstHitting
from interrupting import stop_at_call, stop_when_measuring, stopped

pytest.importorskip("rdkit")
pytest.importorskip("fcd")

from rdkit import Chem


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return train(tmp_path_factory.mktemp("molecules"), "trainer.max_steps=4")


@pytest.fixture(scope="module")
def run_random(tmp_path_factory) -> Path:
    """Whose model takes a scaffold anywhere."""
    words = ("trainer.max_steps=4", "data.node_order=random")
    return train(tmp_path_factory.mktemp("molecules_random"), *words)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def read(path: str | Path) -> dict:
    return json.loads(Path(path).read_text())


def lines_of(path: str) -> list[dict]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def refused(capsys, words: list[str], error: str) -> None:
    """The command ends with a sentence that says ``error``."""
    with pytest.raises(SystemExit):
        main(words)
    assert error in capsys.readouterr().err


@pytest.mark.slow
def test_a_run(run):
    metrics = read(run / "metrics.json")
    assert {"valid", "valid_relaxed", "unique", "novel", "nelbo_unordered"} <= set(metrics)
    assert metrics["exact"] is True
    assert len(read_samples(str(run / "samples.jsonl")).samples) == metrics["num_samples"]
    assert (run / "samples.png").is_file()
    assert "N+, O-" in (run / "config.yaml").read_text().replace("\n  - ", ", ")


@pytest.mark.slow
def test_samples_lose_nothing(run, capsys):
    main(["sample", f"checkpoint={run}", "num_samples=12", "num_atoms=5", "out=s"])
    lines = lines_of("s/samples.jsonl")
    assert [len(line["atoms"]) for line in lines] == [5] * 12
    listed = dict(line.split()[::-1] for line in Path("s/samples.smi").read_text().splitlines())
    for number, line in enumerate(lines, start=1):
        assert listed.get(str(number)) == line["smiles"]
        assert ("why" in line) == (line["smiles"] is None)
        if line["smiles"] is not None:
            assert Chem.MolFromSmiles(line["smiles"]).GetNumAtoms() == 5
    assert read("s/metrics.json")["valid"] == len(listed) / 12
    assert Path("s/samples.png").is_file()
    words = ["sample", f"checkpoint={run}", "num_samples=2"]
    refused(capsys, [*words, "out=s"], "overwrite=true")
    refused(capsys, [*words, "num_atoms=[5,99]"], "was trained on molecules of at most")


MOL_BLOCK = """
  scaffold

  3  2  0  0  0  0  0  0  0  0999 V2000
    0.0000    0.0000    0.0000 N   0  0  0  0  0  0  0  0  0  0  0  0
    1.0000    0.0000    0.0000 C   0  0  0  0  0  0  0  0  0  0  0  0
    2.0000    0.0000    0.0000 R#  0  0  0  0  0  0  0  0  0  0  0  0
  1  2  1  0
  2  3  1  0
M  END
"""


def bonds_of(line: dict) -> dict[frozenset[int], str]:
    return {frozenset((i, j)): kind for i, j, kind in line["bonds"]}


@pytest.mark.slow
@pytest.mark.parametrize("which", ["run", "run_random"])
def test_scaffolds_are_completed(which, request):
    """Every atom and bond of them stays, and nothing is attached where it may not."""
    run = request.getfixturevalue(which)
    Path("given.smi").write_text("*C1CC1 ring\nO=C(*)N*\nCC=O\n")
    words = ["given=given.smi", "num_completions=3", "num_atoms=7"]
    main(["sample", f"checkpoint={run}", *words, "out=s"])
    lines = lines_of("s/samples.jsonl")
    assert [line["given"] for line in lines] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    given = {
        1: (["C", "C", "C"], {(0, 1): "single", (1, 2): "single", (0, 2): "single"}, {0}),
        2: (["O", "C", "N"], {(0, 1): "double", (1, 2): "single"}, {1, 2}),
        3: (["C", "C", "O"], {(0, 1): "single", (1, 2): "double"}, {0, 1, 2}),
    }
    for line in lines:
        atoms, bonds, opened = given[line["given"]]
        found = bonds_of(line)
        assert line["atoms"][:3] == atoms
        assert len(line["atoms"]) == 7
        for i in range(3):
            for j in range(i + 1, 7):
                kind = found.get(frozenset((i, j)))
                if j < 3:
                    assert kind == bonds.get((i, j))
                elif i not in opened:
                    assert kind is None
    metrics = read("s/metrics.json")
    assert metrics["num_inputs"] == 3
    assert metrics["exact"] == (which == "run_random")
    assert which == "run_random" or "SMILES" in metrics["approximate_because"]
    main(["sample", f"checkpoint={run}", *words, "sampling=margin", "out=ordered"])
    assert "order of its own" in read("ordered/metrics.json")["approximate_because"]


@pytest.mark.slow
def test_completions_that_are_finished_when_a_signal_comes_are_kept(run, monkeypatch, capsys):
    Path("given.smi").write_text("*C1CC1 ring\nO=C(*)N*\n")
    words = ["sample", f"checkpoint={run}", "given=given.smi", "num_completions=3", "batch_size=2"]
    main([*words, "out=whole"])
    stop_at_call(monkeypatch, FirstHitting, 3)
    assert "4 finished samples are in cut/samples.jsonl" in stopped(capsys, *words, "out=cut")
    whole, cut = (Path(f"{out}/samples.jsonl").read_text().splitlines() for out in ("whole", "cut"))
    assert len(cut) == read("cut/metrics.json")["num_samples"] == 4
    assert set(cut) <= set(whole)


def test_mol_blocks_are_scaffolds_too(run_random):
    Path("given.sdf").write_text(MOL_BLOCK + "$$$$\n" + MOL_BLOCK)
    main(["sample", f"checkpoint={run_random}", "given=given.sdf", "num_completions=2", "out=s"])
    lines = lines_of("s/samples.jsonl")
    assert [line["given"] for line in lines] == [1, 1, 12, 12]
    for line in lines:
        assert line["atoms"][:2] == ["N", "C"]
        assert all(0 not in ends or ends == {0, 1} for ends in bonds_of(line))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("C1CC\n", "given.smi, line 1: 'C1CC' is not SMILES"),
        ("CC\nCBr\n", "given.smi, line 2: the model does not know atom Br"),
        ("CCCCCCCCCC\n", "given.smi, line 1: 10 atoms leave none to sample"),
        ("*\n", "given.smi, line 1: no atom is given"),
    ],
)
def test_scaffolds_that_cannot_be_completed_are_named(run, capsys, text, error):
    Path("given.smi").write_text(text)
    refused(capsys, ["sample", f"checkpoint={run}", "given=given.smi", "out=s"], error)


@pytest.mark.slow
def test_a_model_is_evaluated(run):
    words = ["num_samples=20", "num_seeds=2", "noise_samples=1", "time_bins=2"]
    main(
        [
            "evaluate",
            f"checkpoint={run}",
            *words,
            "likelihood_order=entropy",
            "num_orders=2",
            "out=e",
        ]
    )
    metrics = read("e/metrics.json")
    assert {"nelbo_unordered_entropy", "nelbo_unordered_2_orders"} <= set(metrics)
    assert {"valid", "valid_corrected", "nspdk_mmd_corrected", "valid_training"} <= set(metrics)
    assert len(metrics["per_seed"]["valid"]) == 2
    assert metrics["valid_training"] == 1
    assert metrics["fcd_corrected_training"] >= 0
    table = Path("e/table.md").read_text()
    assert "DiGress protocol" in table
    assert "FCD is biased upwards in small sets" in table
    assert Path("e/samples.smi").is_file()


@pytest.mark.slow
def test_a_student_draws_molecules_in_three_calls(run):
    words = ["algo=distill", f"init.checkpoint={run}", "calls=3", "algo.components=4"]
    words += ["debug=smoke", "trainer.max_steps=2", "logger=none", "hydra.run.dir=student"]
    main(["train", *words])
    main(["sample", "checkpoint=student", "num_samples=5", "out=s"])
    assert len(read_samples("s/samples.jsonl").samples) == 5
    assert read("s/metrics.json")["network_calls_per_sample"] <= 3


def test_samples_are_kept_if_the_measuring_is_stopped(run, monkeypatch, capsys):
    stop_when_measuring(monkeypatch)
    stopped(capsys, "evaluate", f"checkpoint={run}", "num_samples=4")
    assert len(read_samples("evaluation/samples.jsonl").samples) == 4


@pytest.mark.slow
def test_files_are_evaluated(capsys):
    samples = written(Path("samples.smi"), "CCO", "OCC", "CC(C)(C)(C)C", "C1CC", "CCN", "C.CC")
    reference = written(Path("reference.smi"))
    words = ["domain=molecules", f"reference={reference}", f"training_data={reference}"]
    main(["evaluate", f"samples={samples}", *words, "out=e"])
    metrics = read("e/metrics.json")
    assert metrics["valid"] == pytest.approx(4 / 6)
    assert metrics["valid_corrected"] == pytest.approx(5 / 6)
    assert metrics["unique"] == pytest.approx(3 / 4)
    assert metrics["novel"] == pytest.approx(1 / 3)  # CCN; CCO and CC are known
    assert metrics["num_unreadable_samples"] == [1]
    main(["evaluate", "samples=e/samples.jsonl", *words, "out=again"])
    assert read("again/metrics.json")["valid"] == pytest.approx(4 / 6)
    main(["evaluate", f"samples={samples}", *words, "num_held_out=5", "out=few"])
    few = read("few/metrics.json")
    assert (few["num_reference"], few["num_held_out_available"]) == (5, metrics["num_reference"])
    words = ["evaluate", f"samples={samples}", "domain=molecules", "out=f"]
    refused(capsys, words, "needs reference=FILE")
    refused(capsys, [*words, f"reference={reference}", "split=val"], "chooses among the data")


def evaluated(samples: str, *words: str) -> tuple[dict, str]:
    """``metrics.json`` and the table of a file of samples."""
    reference = written(Path("reference.smi"))
    words = (f"samples={samples}", f"reference={reference}", "domain=molecules", *words)
    main(["evaluate", *words, "out=e", "overwrite=true"])
    return read("e/metrics.json"), Path("e/table.md").read_text()


@pytest.mark.slow
def test_every_sample_of_a_file_counts():
    """Blank lines, null and what is not SMILES are samples too."""
    Path("half.smi").write_text("CCO\n\nCCN\n\nc1ccccc1O\n\nCC(=O)N\n\nCCCO\n\n")
    metrics, table = evaluated("half.smi")
    assert (metrics["num_samples"], metrics["valid"]) == (10, 0.5)
    assert metrics["num_unreadable_samples"] == [5]
    assert "Samples: 10 against" in table
    assert "5 are not molecules at all (5 blank lines)" in table
    Path("half.csv").write_text("id,smiles\n1,CC\n2,\n3,nonsense\n4,CCC\n\n")
    assert evaluated("half.csv")[0]["valid"] == pytest.approx(2 / 5)
    graph = '{"atoms": ["C"], "bonds": []}'
    Path("s.jsonl").write_text(f'{graph}\n\nnull\n{{"atoms": [], "bonds": []}}\n{graph}\n')
    assert evaluated("s.jsonl")[0]["valid"] == pytest.approx(2 / 5)
    Path("e").rename("first")
    assert evaluated("first/samples.jsonl")[0]["valid"] == pytest.approx(2 / 5)  # as it is written
    Path("s.jsonl").write_text(f'{graph}\n{{"atoms": ["Q"]}}\n')
    assert evaluated("s.jsonl", "skip_invalid=true")[0]["valid"] == pytest.approx(1 / 2)


@pytest.mark.parametrize("text", ["CC(\nxyz\n", "\n\n"])
def test_only_bad_samples_are_a_result(text):
    Path("bad.smi").write_text(text)
    metrics, table = evaluated("bad.smi")
    assert (metrics["valid"], metrics["num_samples"]) == (0, len(text.splitlines()))
    assert {"fcd", "nspdk_mmd", "unique"}.isdisjoint(metrics)
    assert "No distances of valid samples" in table


@pytest.mark.slow
def test_few_valid_samples_have_fewer_numbers():
    """Those in pieces and with the atom * are counted."""
    Path("one.smi").write_text("CCO\n\n")
    metrics, table = evaluated("one.smi")
    assert metrics["nspdk_mmd"] > 0
    assert "fcd" not in metrics
    assert "No FCD: it takes two valid samples" in table
    Path("odd.smi").write_text("C.C\n*CC\n[*+]C\nCCO\nCC.O.O\n")
    _, table = evaluated("odd.smi")
    assert "Of 5 samples 2 are in pieces" in table
    assert "Of 5 samples 2 have the atom *" in table


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ('{"bonds": []}', 'an object with a list "atoms"'),
        ('{"atoms": ["C", "Q"]}', "'Q' is not an atom"),
        ('{"atoms": ["C", "C"], "bonds": [[0, 1, "aromatic"]]}', r"bonds\[0\].*of type single"),
        ('{"atoms": ["C", "C"], "bonds": [[0, 2, "single"]]}', "two different atoms of 2"),
        ('{"atoms": ["C", "C"], "bonds": [[0, 1, "single"], [1, 0, "single"]]}', "a bond already"),
    ],
)
def test_lines_that_are_no_graphs_are_named(tmp_path, line, error):
    path = tmp_path / "samples.jsonl"
    path.write_text('{"atoms": ["C"]}\n' + line + "\n")
    with pytest.raises(ValueError, match=rf"samples.jsonl, line 2: .*{error}"):
        read_samples(str(path))


@pytest.mark.slow
def test_models_are_compared(tmp_path):
    path = written(tmp_path / "some.smi")
    data = ["data=molecules", f"data.path={path}", "data.split=[0.7,0.15,0.15]"]
    words = ["debug=smoke", "model=bd_tiny", "logger=none", *data]
    words += ["trainer.max_steps=2", "eval.num_samples=10"]
    main(["compare", "algos=[mdlm,udlm]", *words, "out=c"])
    table = Path("c/table.md").read_text()
    assert "nats per unordered molecule" in table
    assert "valid, relaxed" in table


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["first-hitting", "ancestral"])
def test_samples_with_a_structure(run, sampler):
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
@pytest.mark.parametrize(("which", "structure"), [("run", "connected"), ("run_random", "valence")])
def test_scaffolds_are_completed_with_a_structure(which, structure, request):
    run = request.getfixturevalue(which)
    Path("some.smi").write_text("*C1CC1\nC(=O)N\n")
    words = ["given=some.smi", "num_completions=4", "num_atoms=7", f"structure={structure}"]
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
    words = ["given=some.smi", "structure=connected", "num_completions=2", "num_atoms=5"]
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
    words = ["given=some.smi", "structure=valence", "num_completions=1", "num_atoms=7"]
    with pytest.raises(SystemExit):
        main(["sample", f"checkpoint={run}", *words])
    error = capsys.readouterr().err
    assert all(word in error for word in ("some.smi, line 2", "(N)", "4", "structure=valence"))
    main(["sample", f"checkpoint={run}", *words[:1], *words[2:], "out=free"])


@pytest.mark.slow
def test_a_structure_from_python_and_an_unknown_one(run):
    molecules = load(run).sample(3, structure="connected", num_atoms=5)
    assert [len(molecule.atoms) for molecule in molecules] == [5] * 3
    assert all(kind < len(BONDS) - 1 for molecule in molecules for *_, kind in molecule.bonds)
    with pytest.raises(ValueError, match=r"tree.*connected, valence"):
        load(run).sample(3, structure="tree")
