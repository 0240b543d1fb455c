"""``data=molecules``: files of SMILES, splits, the completed config, and what is refused."""

from __future__ import annotations

import argparse
import gzip
import logging
import math
import random
import sys
from collections import Counter
from itertools import permutations

import pytest
import torch
from molecule_examples import SMILES, molecule_config, random_graph, written

pytest.importorskip("rdkit")

from rdkit import Chem

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.data.files import cached_files
from discrete_diffusion.domains import build_data, complete_data
from discrete_diffusion.domains.molecules import reading
from discrete_diffusion.domains.molecules.build import MoleculeDataset, split_rows
from discrete_diffusion.domains.molecules.domain import COMMANDS
from discrete_diffusion.domains.molecules.molecule import (
    Molecule,
    decode_molecules,
    sanitised,
    smiles_of,
)
from discrete_diffusion.domains.molecules.molecule_files import Row, read_rows
from discrete_diffusion.domains.molecules.reading import read_molecules


def built(**values) -> MoleculeDataset:
    data = build_data(complete_data(molecule_config(**values)))
    assert isinstance(data, MoleculeDataset)
    return data


@pytest.mark.parametrize(
    ("name", "text", "column", "rows"),
    [
        (
            "some.csv",
            'id,SMILES,logp\n1,CC,0.1\n2,"C=O\n",0.2\n\n3,,0.3\n',
            None,
            [Row(2, "CC"), Row(4, "C=O"), Row(6, "")],
        ),
        ("other.tsv.gz", "name\tmol\nx\tCC\n", "mol", [Row(2, "CC")]),
        ("some.smi", "smiles\nCC ethane\n\n  C=O\n", None, [Row(2, "CC"), Row(4, "C=O")]),
    ],
)
def test_tables_and_lists_are_read(tmp_path, name, text, column, rows):
    content = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert read_rows(tmp_path / name, column) == rows


@pytest.mark.parametrize(
    ("name", "text", "column", "error"),
    [
        ("a.csv", "id,mol\n1,C\n", None, "has no column smiles; its columns are id, mol: name"),
        ("a.csv", "id,mol\n1,C\n", "mal", r"data.column=mal: .* no such column; its columns are"),
        ("a.smi", "C\n", "mol", "is a list, not a table"),
        ("a.smi", "\n\n", None, "holds no SMILES"),
    ],
)
def test_files_that_hold_no_smiles_are_refused(tmp_path, name, text, column, error):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=error):
        read_rows(tmp_path / name, column)


def test_rows_that_are_no_molecules_are_named_or_counted(tmp_path, caplog):
    path = written(tmp_path / "some.smi", "CCO", "C1CC", "CCBr", "CCCCCC", "CC")
    values = {"path": path, "atoms": ["C", "O"], "max_nodes": 5, "charges": "kept"}
    with pytest.raises(
        ValueError, match=r"some.smi, line 2: 'C1CC' is not SMILES \(and 2 more\); "
    ):
        built(**values)
    with caplog.at_level(logging.WARNING):
        data = built(**values, skip_invalid=True, split=[1, 0, 0])
    assert sum(len(data.splits[name]) for name in data.splits) == 2
    assert "left out 3 rows: line 2: 'C1CC' is not SMILES, line 3: atom Br is not in" in caplog.text
    assert "line 4: 6 atoms, more than data.max_nodes=5" in caplog.text


def test_the_file_decides_atoms_and_size_unless_they_are_given(tmp_path):
    path = written(tmp_path / "some.smi", "CCO", "C[N+](=O)[O-]", "CCCCC")
    config = complete_data(molecule_config(path=path))
    assert next(iter(config.data.atoms)) == "C"
    assert set(config.data.atoms) == {"C", "O", "N+", "O-"}
    assert config.data.max_nodes == 5
    assert complete_data(config) is config
    ignored = complete_data(molecule_config(path=path, charges="ignored"))
    assert set(ignored.data.atoms) == {"C", "N", "O"}
    with pytest.raises(ValueError, match=r"N\+ .*data.charges=ignored.*data.charges=kept"):
        complete_data(molecule_config(path=path, charges="ignored", atoms=["C", "N+"]))
    with pytest.raises(ValueError, match="'Zz' is not an atom"):
        complete_data(molecule_config(path=path, atoms=["C", "Zz"]))


def test_paths_are_asked_for_with_where_the_file_is(tmp_path):
    with pytest.raises(ValueError, match=r"data=qm9 needs data.path=FILE.*QM9's SMILES are in"):
        built(name="qm9", path=None)
    path = written(tmp_path / "a.smi")
    with pytest.raises(ValueError, match="not both"):
        built(path=path, train_path=path, val_path=path)
    with pytest.raises(ValueError, match=r"data.train_path=FILE and data.val_path=FILE together"):
        built(train_path=path)
    with pytest.raises(ValueError, match="node order"):
        built(path=path, node_order="smile")


def test_without_rdkit_one_sentence_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(ValueError, match=r"pip install .*\[molecules\]"):
        read_molecules(written(tmp_path / "some.smi"))


def test_splits_are_a_partition_and_share_no_molecule(tmp_path):
    twice = [*SMILES, "OCC", "C1=CC=CC=C1", *SMILES[:5]]
    data = built(path=written(tmp_path / "some.smi", *twice), split=[0.6, None, 0.2])
    parts = {name: data.molecules(name) for name in ("train", "val", "test")}
    assert sum(map(len, parts.values())) == len(twice)
    assert abs(len(parts["train"]) - 0.6 * len(twice)) <= 2
    for name, others in {"train": ("val", "test"), "val": ("test",)}.items():
        for other in others:
            assert not set(parts[name]) & set(parts[other])
    whole = Counter(molecule for part in parts.values() for molecule in part)
    ethanol = next(m for m in whole if m.atoms == ("C", "C", "O") and len(m.bonds) == 2)
    assert whole[ethanol] >= 3  # CCO, OCC and CCO again


def test_splits_can_be_numbers():
    molecules = [Molecule(("C",) * n, ()) for n in range(1, 101)]
    rows = split_rows(molecules, [70, None, 0.1], seed=0)
    assert [len(rows[name]) for name in ("train", "val", "test")] == [70, 20, 10]
    assert sorted(row for part in rows.values() for row in part) == list(range(100))
    assert rows != split_rows(molecules, [70, None, 0.1], seed=1)
    for wrong in ([0.5, 0.4, 0.2], [None, None, 0.1], [101, None, 0], [0.5, -0.1, 0.6], [70, 30]):
        with pytest.raises(
            ValueError, match="expected train, val and test as shares or as numbers"
        ) as error:
            split_rows(molecules, wrong, seed=0)
        assert "100 molecules" in str(error.value)
        assert ("null" in str(error.value).partition(" of ")[0]) == (None in wrong)


def test_equal_molecules_stay_in_one_split():
    molecules = [Molecule(("C",) * n, ()) for n in range(1, 8) for _ in range(5)]
    rows = split_rows(molecules, [0.4, 0.4, 0.2], seed=0)
    parts = [{molecules[row] for row in part} for part in rows.values()]
    assert all(parts)
    assert sum(map(len, parts)) == 7


def test_molecules_held_out_in_a_file_of_their_own_leave_training(tmp_path, caplog):
    train = written(tmp_path / "train.smi")
    val = written(tmp_path / "val.smi", "OCC", "CCN", "CC")
    data = built(train_path=train, val_path=val, atoms=["C", "N", "O", "F"], max_nodes=9)
    assert len(data.splits["train"]) == len(SMILES) - 2
    assert len(data.splits["test"]) == 0
    assert "left out 2 training molecules that are held out too" in caplog.text


@pytest.mark.parametrize("node_order", ["random", "canonical", "smiles"])
def test_every_order_is_of_the_same_molecules(tmp_path, node_order):
    path = written(tmp_path / "some.smi")
    data = built(path=path, node_order=node_order, split=[1, 0, 0])
    assert data.bound == ("ordered_random" if node_order == "random" else "ordered_fixed")
    batch = data.augment(data.splits["train"], make_generator(0))
    data.layout.check(batch.x0, batch.real)
    found = Counter(smiles_of(sanitised(m)) for m in decode_molecules(batch.x0, data.vocab))
    assert found == Counter(map(Chem.CanonSmiles, SMILES))
    assert torch.equal(batch.x0, data.splits["train"].x0) == (node_order != "random")


@pytest.mark.slow
def test_symmetries_are_counted_exactly():
    """Against all permutations of the atoms."""
    generator = random.Random(3)
    for _ in range(30):
        graph = random_graph(generator)
        if len(graph.atoms) > 6:
            continue
        kinds = {frozenset((i, j)): kind for i, j, kind in graph.bonds}
        images = {
            (
                tuple(graph.atoms[k] for k in order),
                frozenset(
                    (frozenset(order.index(k) for k in ends), kind) for ends, kind in kinds.items()
                ),
            )
            for order in permutations(range(len(graph.atoms)))
        }
        names = sorted(set(graph.atoms))
        found = reading._log_num_orders([graph], names)
        assert found[0] == pytest.approx(math.log(len(images)))


def test_a_long_file_is_kept_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("DISCRETE_DIFFUSION_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(reading, "_FEW", 10)
    path = written(tmp_path / "some.smi", *SMILES, "C1CC", "C[N+](=O)[O-]")
    first = read_molecules(path)
    assert [file.name.split("-")[0] for file in cached_files()] == ["molecules"]

    def never(*args):
        raise AssertionError("read again")

    monkeypatch.setattr(reading, "_arrays", never)
    again = read_molecules(path)
    assert again.molecules == first.molecules
    assert again.lines == first.lines
    assert again.problems == first.problems == [(27, "'C1CC' is not SMILES")]
    assert torch.equal(again.log_num_orders, first.log_num_orders)
    with pytest.raises(AssertionError, match="read again"):
        read_molecules(path, charges="ignored")


def test_the_command_says_what_a_file_holds(tmp_path, capsys):
    rows = ("CC", "OCC", "C1CC", "[CH2]C", "C[C@H](N)O", "*CC", "[*]O.C")
    parser = argparse.ArgumentParser()
    command = COMMANDS["molecules"]
    command.add_options(parser)
    command.run(parser.parse_args([written(tmp_path / "some.smi", *rows)]))
    said = capsys.readouterr().out
    assert "6 molecules; 1 in several pieces; 2 with the atom *" in said
    assert "left out 1 row: line 3: 'C1CC' is not SMILES" in said
    assert "atoms of a molecule: 2 to 4 (data.max_nodes=4)" in said
    assert "after atoms and bonds: 5 of 6 (83.33 %)" in said
    assert "line 4: [CH2]C became CC" in said


@pytest.mark.slow
def test_a_published_file_is_read_whole_and_written_again(real_data):
    from discrete_diffusion.domains.molecules.reading import changed_rows

    path = real_data / "zinc_smiles_jtnn" / "test.txt.gz"
    if not path.is_file():
        pytest.skip("no zinc_smiles_jtnn/test.txt.gz")
    found = read_molecules(path, charges="kept")
    assert (len(found), len(found.problems)) == (5_000, 0)
    smiles = {row.line: row.text for row in read_rows(path)}
    assert len(changed_rows(found, smiles)) <= 0.005 * len(found)
