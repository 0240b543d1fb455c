"""``structure=valence``: on molecules that are enumerated, and as rdkit counts bonds."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("rdkit")

from discrete_diffusion.domains.molecules.metrics import judge
from discrete_diffusion.domains.molecules.molecule import BONDS, Molecule, decode, encode
from discrete_diffusion.domains.molecules.valence import Valence, most_bonds
from discrete_diffusion.layout import VocabConfig
from graph_worlds import (
    Scattered,
    check_law,
    drawn,
    every_graph,
    law_of_any_order,
    model_of,
    tabulated,
)

TAKES = {
    **{"C": 4, "N": 3, "O": 2, "F": 1, "Cl": 1, "Br": 1, "S": 6, "B": 3, "Si": 4},
    **{"N+": 4, "O-": 1, "O+": 3, "N-": 2, "C-": 3, "S-": 5},
}
PAIRS = VocabConfig(n_max=3, node_types=("N+", "O"), edge_types=BONDS)
THREE = VocabConfig(n_max=3, node_types=("N", "O-", "S"), edge_types=BONDS)
MANY = VocabConfig(
    n_max=12, node_types=("C", "N", "O", "F", "S", "Cl", "N+", "O-", "P", "Br"), edge_types=BONDS
)


def fits(rows: torch.Tensor, vocab: VocabConfig) -> torch.Tensor:
    """Bool[K]: by counting, with the numbers of chemistry."""
    found = []
    for molecule in decode(rows, vocab):
        used = [0] * len(molecule.atoms)
        for i, j, kind in molecule.bonds:
            used[i] += kind + 1
            used[j] += kind + 1
        found.append(all(u <= TAKES[a] for u, a in zip(used, molecule.atoms, strict=True)))
    return torch.tensor(found)


def real(vocab: VocabConfig, num_atoms: int) -> torch.Tensor:
    return vocab.real_positions(torch.tensor([num_atoms]))[0]


@pytest.mark.parametrize("atom", TAKES)
def test_bonds_that_an_atom_takes(atom):
    assert most_bonds(atom) == TAKES[atom]


def test_what_is_no_element_takes_any_number():
    assert most_bonds("*") > 100


@pytest.mark.parametrize("num_atoms", [3, 2])
def test_weighted_samples_follow_the_model_given_valence(num_atoms):
    """Atoms and bonds in any order; with two atoms a third is PAD."""
    rows = every_graph(PAIRS, num_atoms)
    model, prob = tabulated(rows, PAIRS)
    output = drawn(model, real(PAIRS, num_atoms), Valence(PAIRS))
    check_law(output, rows, prob, fits(rows, PAIRS))


def test_of_a_network_that_is_no_joint_distribution():
    rows, model = every_graph(THREE, 3), model_of(Scattered(THREE), THREE)
    prob = law_of_any_order(model, rows, torch.ones(THREE.length).bool())
    output = drawn(model, real(THREE, 3), Valence(THREE))
    check_law(output, rows, prob, fits(rows, THREE))


def test_completions_follow_the_model_given_both():
    """An oxygen ion with a bond to an unknown atom, which it has no more to give."""
    given = torch.full((THREE.length,), -1)
    given[0], given[THREE.edge_position(0, 1)] = 1, THREE.edge_offset
    rows, model = every_graph(THREE, 3, given), model_of(Scattered(THREE), THREE)
    prob = law_of_any_order(model, rows, given < 0)
    output = drawn(model, real(THREE, 3), Valence(THREE), clamp=given)
    check_law(output, rows, prob, fits(rows, THREE))


@pytest.mark.parametrize("sampler", ["first-hitting", "ancestral", "remdm", "margin"])
def test_there_is_no_dead_end_and_rdkit_agrees(sampler):
    """With a network that draws too many bonds: all are valid by the strictest rule."""
    model = model_of(Scattered(MANY, edges=1.0), MANY)
    steps = {"steps": 8} if sampler == "ancestral" else {}
    output = drawn(model, real(MANY, 12), Valence(MANY), 40, sampler=sampler, **steps)
    assert output.log_weights.isfinite().all()
    assert (output.log_weights > -1e6).all()
    assert (output.num_forced > 0).all()
    assert all(verdict.valid is not None for verdict in judge(decode(output.x0, MANY)))


def test_too_many_bonds_are_named():
    tokens = torch.full((2, PAIRS.length), PAIRS.mask_id)
    tokens[1, 1] = 1  # O
    for pair, kind in (((0, 1), 1), ((1, 2), 0)):
        tokens[:, PAIRS.edge_position(*pair)] = PAIRS.edge_offset + kind
    found = Valence(PAIRS).contradictions(tokens)
    assert [*found] == [1]
    assert all(word in found[1] for word in ("atom 1", "(O)", "3", "2"))


def test_charged_atoms_are_types_of_their_own():
    nitro = Molecule(("C", "N+", "O", "O-"), ((0, 1, 0), (1, 2, 1), (1, 3, 0)))
    for molecule in (nitro, Molecule(("C", "N", "O", "O"), nitro.bonds)):
        types = tuple(dict.fromkeys(molecule.atoms))
        vocab = VocabConfig(n_max=4, node_types=types, edge_types=BONDS)
        found = Valence(vocab).contradictions(encode([molecule], vocab).x0)
        assert bool(found) == ("N" in molecule.atoms)
