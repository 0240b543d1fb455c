"""``structure=valence``, on molecules that are enumerated; where the atoms of a scaffold stand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.domains.molecules.build import SMILES_ORDER
from discrete_diffusion.domains.molecules.completion import Scaffold, place_scaffolds
from discrete_diffusion.domains.molecules.molecule import BONDS, Molecule
from discrete_diffusion.evaluation import complete_tokens
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling import build_sampler
from discrete_diffusion.sampling.model import Model

pytest.importorskip("rdkit")

from discrete_diffusion.domains.molecules.metrics import judge
from discrete_diffusion.domains.molecules.molecule import decode
from discrete_diffusion.domains.molecules.valence import Valence, most_bonds
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


def test_bonds_that_an_atom_takes():
    assert {atom: most_bonds(atom) for atom in TAKES} == TAKES
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


class OxygenFirst(nn.Module):
    """The first atom is oxygen and no other, by as many nats as the noise leaves it sure of."""

    def __init__(self, vocab_size: int, oxygen: int) -> None:
        super().__init__()
        self.vocab_size, self.oxygen = vocab_size, oxygen

    def forward(self, x_t: Tensor, sigma: Tensor) -> Tensor:
        logits = torch.zeros(*x_t.shape, self.vocab_size)
        sure = 4.0 + 4.0 * (-sigma).exp().unsqueeze(1)
        logits[..., self.oxygen] = -sure
        logits[:, :1, self.oxygen] = sure
        return logits


def test_ways_to_place_a_scaffold_are_drawn_by_the_models_probability():
    vocab = VocabConfig(n_max=3, node_types=("C", "O"), edge_types=BONDS)
    layout, oxygen = vocab.layout(), 1
    process = Absorbing(layout, LogLinear())
    model = Model(
        MDLM(OxygenFirst(layout.vocab_size, oxygen), process),
        build_sampler({"name": "first-hitting"}),
    )
    single = Molecule(("C", "O"), ((0, 1, 0),))
    partials = place_scaffolds(
        model,
        [Scaffold(1, single, (True, True), False)],
        [[3] * 60],
        vocab,
        node_order=SMILES_ORDER,
        seed=0,
    )
    drawn = complete_tokens(model, partials.tokens, partials.real, entropy=(0,))
    first = drawn.tokens[:, 0]
    assert float((first == oxygen).double().mean()) > 0.95  # a third, if all ways weighed the same
    assert (partials.tokens[:, 0] >= 0).double().mean() > 0.6
    for molecule in partials.decode(drawn.rows, drawn.tokens):
        assert molecule.atoms[:2] == ("C", "O")
