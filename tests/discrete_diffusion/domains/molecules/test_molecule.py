"""Molecules to and from rdkit and tokens."""

from __future__ import annotations

import random
import sys

import pytest
import torch
from molecule_examples import SMILES, random_graph

pytest.importorskip("rdkit")

from rdkit import Chem

from discrete_diffusion.domains.molecules.molecule import (
    BONDS,
    Molecule,
    MoleculeError,
    atom_name,
    decode,
    encode,
    from_rdkit,
    parse_atom,
    sanitised,
    smiles_of,
    to_rdkit,
    with_charged_atoms,
)
from discrete_diffusion.domains.molecules.reading import canonical, molecule_of
from discrete_diffusion.domains.molecules.samples import plot_molecules
from discrete_diffusion.layout import VocabConfig

CHARGED = [
    "C[N+](=O)[O-]",
    "C[N+](C)(C)C",
    "[O-]S(=O)(=O)c1ccccc1",
    "C[n+]1ccccc1",
    "[NH3+]CC([O-])=O",
]


def test_names_of_atoms_say_element_and_charge():
    for name, expected in {"C": (6, 0), "N+": (7, 1), "O-": (8, -1), "Fe+2": (26, 2)}.items():
        assert parse_atom(name) == expected
        symbol = Chem.GetPeriodicTable().GetElementSymbol(expected[0])
        assert atom_name(symbol, expected[1]) == name
    for wrong in ("Xx", "c", "C++", "N+1", ""):
        with pytest.raises(ValueError, match="is not an atom"):
            parse_atom(wrong)


def test_molecules_come_back_the_same():
    for smiles in (*SMILES, *CHARGED):
        molecule, recovered = molecule_of(smiles, keep_charges=True)
        assert not recovered
        assert smiles_of(sanitised(molecule)) == Chem.CanonSmiles(smiles)
        assert all(kind < BONDS.index("none") for _, _, kind in molecule.bonds)


@pytest.mark.parametrize("smiles", ["c1ccc2ncccc2c1C=O", *CHARGED[:2]])
def test_equal_molecules_are_equal_graphs_however_they_are_written(smiles):
    """The Kekulised bonds too, which depend on the order of the atoms."""
    mol = Chem.MolFromSmiles(smiles)
    generator = random.Random(0)
    found = set()
    for _ in range(10):
        order = list(range(mol.GetNumAtoms()))
        generator.shuffle(order)
        text = Chem.MolToSmiles(Chem.RenumberAtoms(mol, order), canonical=False)
        found.add(molecule_of(text, keep_charges=True)[0])
    assert len(found) == 1


def test_the_order_is_that_of_the_canonical_smiles():
    molecule, _ = molecule_of("OCC(N)=O", keep_charges=True)
    assert smiles_of(sanitised(molecule)) == "NC(=O)CO"
    assert molecule.atoms == ("N", "C", "O", "C", "O")
    assert canonical(molecule, keep_charges=True) == molecule


def test_ignored_charges_come_back_where_bonds_tell_them():
    molecule, _ = molecule_of("C[N+](C)(C)C", keep_charges=False)
    assert set(molecule.atoms) == {"C", "N"}
    assert sanitised(molecule) is None
    assert smiles_of(sanitised(with_charged_atoms(molecule))) == "C[N+](C)(C)C"
    acid, _ = molecule_of("[NH3+]CC([O-])=O", keep_charges=False)
    assert smiles_of(sanitised(acid)) == "NCC(=O)O"


def test_what_rdkit_refuses_with_its_charges_is_read_without_them():
    smiles = "C[CH+]1C=C([NH-])N=CO1"  # of the published file of QM9
    with pytest.raises(MoleculeError, match="Explicit valence for atom # 1 C"):
        molecule_of(smiles, keep_charges=True)
    molecule, recovered = molecule_of(smiles, keep_charges=False)
    assert recovered
    assert smiles_of(sanitised(molecule)) == Chem.CanonSmiles("CC1C=C(N)N=CO1")


@pytest.mark.parametrize(
    ("smiles", "reason"),
    [
        ("C1CC", "'C1CC' is not SMILES"),
        ("CC(C)(C)(C)C", "Explicit valence for atom # 1 C, 5"),
        ("c1cccc1", "Can't kekulize"),
        ("N->[Cu]", "a bond is dative"),
    ],
)
def test_what_is_no_molecule_is_refused_with_the_reason(smiles, reason):
    with pytest.raises(MoleculeError, match=reason):
        molecule_of(smiles, keep_charges=True)


def test_any_graph_survives_tokens_and_rdkit():
    generator = random.Random(1)
    graphs = [random_graph(generator) for _ in range(200)]
    vocab = VocabConfig(n_max=9, node_types=("C", "N", "O", "F"), edge_types=BONDS)
    encoded = encode(graphs, vocab)
    assert decode(encoded.x0, vocab) == graphs
    assert torch.equal(encoded.num_nodes, torch.tensor([len(graph.atoms) for graph in graphs]))
    assert [from_rdkit(to_rdkit(graph)) for graph in graphs] == graphs


def test_an_atom_that_the_vocabulary_lacks_is_named():
    vocab = VocabConfig(n_max=9, node_types=("C", "N"), edge_types=BONDS)
    with pytest.raises(ValueError, match=r"atom O is not in data.atoms=\['C', 'N'\]"):
        encode([Molecule(("C", "O"), ((0, 1, 0),))], vocab)


def test_where_rdkit_cannot_draw_a_picture_is_left_out_and_the_work_goes_on(
    tmp_path, monkeypatch, caplog
):
    molecules = [from_rdkit(Chem.MolFromSmiles("CCO"))]
    plot_molecules(molecules, tmp_path / "drawn.png")
    assert (tmp_path / "drawn.png").exists()
    monkeypatch.setitem(sys.modules, "rdkit.Chem.Draw", None)  # as without libXrender
    monkeypatch.delattr("rdkit.Chem.Draw")
    plot_molecules(molecules, tmp_path / "other.png")
    assert not (tmp_path / "other.png").exists()
    assert "other.png is left out" in caplog.text
