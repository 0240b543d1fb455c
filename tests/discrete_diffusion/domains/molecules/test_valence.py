"""``structure=valence``, on molecules that are enumerated; where the atoms of a scaffold stand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.domains.molecules.build import SMILES_ORDER
from discrete_diffusion.domains.molecules.completion import Scaffold, place_scaffolds
from discrete_diffusion.domains.molecules.metrics import verdicts_of
from discrete_diffusion.domains.molecules.molecule import BONDS, Molecule, decode_molecules
from discrete_diffusion.domains.molecules.valence import ConnectedValence, Valence, most_bonds
from discrete_diffusion.evaluation import complete_tokens
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling import build_sampler
from discrete_diffusion.sampling.model import Model
from graph_worlds import (
    Scattered,
    check_law,
    distinct,
    drawn,
    every_graph,
    law_of_any_order,
    model_of,
    tabulated,
)

pytest.importorskip("rdkit")


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
    for molecule in decode_molecules(rows, vocab):
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
    assert all(
        verdict.valid is not None for verdict in verdicts_of(decode_molecules(output.x0, MANY))
    )


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


FLUOR_OXYGEN = VocabConfig(n_max=3, node_types=("F", "O"), edge_types=BONDS)
THREE_KINDS = VocabConfig(n_max=3, node_types=("F", "O", "N"), edge_types=BONDS)
FOUR = VocabConfig(n_max=4, node_types=("F", "O", "C"), edge_types=BONDS)
FIVE = VocabConfig(n_max=5, node_types=("F", "O", "N"), edge_types=BONDS)


class OnEach(ConnectedValence):
    """As its parent, which looks at equal molecules once: samples of few atoms are much alike."""

    def is_possible(self, x: Tensor) -> Tensor:
        x, which = distinct(x)
        return super().is_possible(x)[which]


def is_whole(molecule: Molecule) -> bool:
    """By counting bonds, and by walking along them."""
    left = [TAKES[atom] for atom in molecule.atoms]
    reached, before = {0}, set()
    for i, j, kind in molecule.bonds:
        left[i] -= kind + 1
        left[j] -= kind + 1
    if min(left) < 0:
        return False
    while reached != before:
        before = set(reached)
        reached |= {v for i, j, _ in molecule.bonds if {i, j} & before for v in (i, j)}
    return len(reached) == len(molecule.atoms)


def whole(rows: Tensor, vocab: VocabConfig) -> Tensor:
    return torch.tensor([is_whole(molecule) for molecule in decode_molecules(rows, vocab)])


def given_atoms(vocab: VocabConfig, *atoms: int, **pairs: int) -> Tensor:
    """Int[L]: the types of the first atoms, and ``p01=0``, the bond of atoms 0 and 1."""
    given = torch.full((vocab.length,), -1)
    given[: len(atoms)] = torch.tensor(atoms)
    for name, kind in pairs.items():
        given[vocab.edge_position(int(name[1]), int(name[2]))] = vocab.edge_offset + kind
    return given


@pytest.mark.parametrize("num_atoms", [3, 2])
def test_weighted_samples_follow_the_model_given_both(num_atoms):
    """Atoms and bonds in any order; with two atoms a third is PAD."""
    rows = every_graph(FLUOR_OXYGEN, num_atoms)
    model, prob = tabulated(rows, FLUOR_OXYGEN)
    output = drawn(model, real(FLUOR_OXYGEN, num_atoms), OnEach(FLUOR_OXYGEN))
    check_law(output, rows, prob, whole(rows, FLUOR_OXYGEN))


@pytest.mark.slow
def test_whole_molecules_of_a_network_that_is_no_joint_distribution():
    rows, model = every_graph(THREE_KINDS, 3), model_of(Scattered(THREE_KINDS), THREE_KINDS)
    prob = law_of_any_order(model, rows, torch.ones(THREE_KINDS.length).bool())
    output = drawn(model, real(THREE_KINDS, 3), OnEach(THREE_KINDS), 20_000)
    check_law(output, rows, prob, whole(rows, THREE_KINDS))


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        given_atoms(FOUR, 0, 0, 1, 2),
        given_atoms(FOUR, 0, 0, 1, 1),
        given_atoms(FOUR, 2, 2, p01=1, p02=3),
    ],
    ids=["F F O C", "F F O O", "C=C and two atoms"],
)
def test_completions_of_four_atoms_follow_it(given):
    """Of so few the conditions are sufficient."""
    rows, model = every_graph(FOUR, 4, given), model_of(Scattered(FOUR), FOUR)
    prob = law_of_any_order(model, rows, given < 0)
    output = drawn(model, real(FOUR, 4), OnEach(FOUR), 20_000, clamp=given)
    assert output.log_weights.isfinite().all()
    check_law(output, rows, prob, whole(rows, FOUR))


CLOSED = dict.fromkeys(("p04", "p14", "p23"), 3)
HARD = given_atoms(FIVE, 2, 2, 0, 1, 1, **CLOSED)
"""N N F O O: without a bond of the two N each further bond is one of F or the first O, three at
most, which no condition tells."""


@pytest.mark.slow
def test_weights_are_exact_beside_dead_ends():
    rows, model = every_graph(FIVE, 5, HARD), model_of(Scattered(FIVE), FIVE)
    prob = law_of_any_order(model, rows, HARD < 0)
    output = drawn(model, real(FIVE, 5), OnEach(FIVE), 40_000, clamp=HARD)
    assert 100 < int(output.log_weights.isneginf().sum()) < 20_000
    check_law(output, rows, prob, whole(rows, FIVE))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("vocab", "given"), [(FOUR, given_atoms(FOUR, 0, 0, 1, 2)), (FIVE, HARD)], ids=["4", "5"]
)
def test_all_tokens_of_one_call_heed_each_other(vocab, given):
    """The model is then a product, and the weights are those of it."""
    rows, model = every_graph(vocab, vocab.n_max, given), model_of(Scattered(vocab), vocab)
    start = torch.where(given < 0, vocab.mask_id, given).unsqueeze(0)
    log_d0 = model.denoise(start, torch.ones(1).double(), torch.ones_like(start).bool())[0]
    prob = log_d0.gather(1, rows.T)[given < 0].sum(dim=0).exp()
    every, narrowing = real(vocab, vocab.n_max), OnEach(vocab)
    output = drawn(model, every, narrowing, 40_000, clamp=given, steps=1)
    check_law(output, rows, prob.double(), whole(rows, vocab))


def partial(rows: Tensor, vocab: VocabConfig, num: int) -> Tensor:
    """Int[num, L]: random rows, a random number of their tokens masked."""
    generator = make_generator(6)
    x = rows[torch.randint(len(rows), (num,), generator=generator)]
    share = torch.rand(num, 1, generator=generator)
    hidden = (torch.rand(x.shape, generator=generator) < share) & (x != vocab.pad_id)
    return x.masked_fill(hidden, vocab.mask_id)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("vocab", "num_atoms"), [(THREE_KINDS, 2), (THREE_KINDS, 3), (FOUR, 3), (FOUR, 4)], ids=str
)
def test_no_value_that_has_a_completion_is_excluded(vocab, num_atoms):
    """At random partial molecules; of so few atoms no other is kept."""
    rows = every_graph(vocab, num_atoms)
    rows = rows[whole(rows, vocab)]
    narrowing, legal = ConnectedValence(vocab), vocab.layout().support
    x = partial(rows, vocab, 300).unique(dim=0)
    which, position = (x == vocab.mask_id).nonzero(as_tuple=True)
    agree = ((x.unsqueeze(1) == rows) | (x == vocab.mask_id).unsqueeze(1)).all(dim=2)
    values = torch.zeros(len(which), vocab.vocab_size, dtype=torch.bool)
    for case, (row, at) in enumerate(zip(which, position, strict=True)):
        values[case, rows[agree[row], at]] = True
    support = narrowing.support(x[which], position) & legal[position]
    assert (support | ~values).all()
    kept, possible, num = int(support.sum()), int(values.sum()), int(legal[position].sum())
    assert possible < 0.9 * num
    assert possible == kept


def can_be_joined(molecule: Molecule, open_pairs: list[tuple[int, int]]) -> bool:
    """By trying every open pair, with a bond and without: a search that knows no condition."""
    if is_whole(molecule):
        return True
    if not open_pairs:
        return False
    (i, j), *others = open_pairs
    joined = Molecule(molecule.atoms, (*molecule.bonds, (i, j, 0)))
    used = [sum(kind + 1 for *ends, kind in joined.bonds if atom in ends) for atom in (i, j)]
    fits = all(u <= TAKES[molecule.atoms[atom]] for u, atom in zip(used, (i, j), strict=True))
    return (fits and can_be_joined(joined, others)) or can_be_joined(molecule, others)


@pytest.mark.slow
def test_conditions_of_six_atoms_are_necessary_and_nearly_sufficient():
    """Beside a search, of random partial molecules whose atoms are known."""
    vocab = VocabConfig(n_max=6, node_types=("F", "O", "N"), edge_types=BONDS)
    generator, first = make_generator(2), vocab.edge_offset
    x = torch.randint(3, (1500, vocab.length), generator=generator)
    pairs = x[:, 6:]
    u = torch.rand(pairs.shape, generator=generator)
    pairs[:] = first + vocab.no_edge
    pairs[u < 0.45] = vocab.mask_id
    pairs[u < 0.08] = first
    narrowing = ConnectedValence(vocab)
    x = x[[row for row in range(len(x)) if not Valence(vocab).contradictions(x[row : row + 1])]]
    said, by_search = narrowing.is_possible(x), []
    for row in x:
        molecule = decode_molecules(
            row.where(row != vocab.mask_id, first + vocab.no_edge)[None], vocab
        )[0]
        is_open = (row[6:] == vocab.mask_id).tolist()
        found = [pair for pair, free in zip(vocab.endpoints, is_open, strict=True) if free]
        by_search.append(can_be_joined(molecule, found))
    true = torch.tensor(by_search)
    assert (said | ~true).all()
    assert 100 < int(true.sum()) < len(x) - 100
    assert int((said & ~true).sum()) < 0.03 * len(x)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (given_atoms(FOUR, 0, 0, p01=0), "piece of atom 0"),
        (given_atoms(FOUR, 1, 1, 1, p12=3, p02=3, p23=3), "piece of atom 2"),
        (given_atoms(FOUR, 0, 0, 0, 1), "4 pieces"),
        (given_atoms(FOUR, 0, 1, p01=1), "atom 0 (F)"),
    ],
    ids=["saturated", "cut off", "too few bonds", "valence"],
)
def test_contradictions_are_named(given, named):
    x = given.masked_fill(given < 0, FOUR.mask_id)
    (why,) = ConnectedValence(FOUR).contradictions(x.unsqueeze(0)).values()
    assert named in why
    assert not whole(every_graph(FOUR, 4, given), FOUR).any()


def test_what_can_be_completed_is_no_contradiction():
    """F at both ends of a chain that is not there yet; atoms of no type; PAD."""
    for given in (given_atoms(FOUR, 0, 0, 1, p01=3), given_atoms(FOUR, p01=1, p02=1)):
        x = given.masked_fill(given < 0, FOUR.mask_id)
        x = torch.stack([x, x.masked_fill(~real(FOUR, 3), FOUR.pad_id)])
        assert not ConnectedValence(FOUR).contradictions(x)
    assert not ConnectedValence(FOUR).contradictions(x[:0])


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["first-hitting", "ancestral", "margin"])
def test_larger_molecules_are_whole_unless_they_have_no_weight(sampler):
    vocab = VocabConfig(n_max=12, node_types=("C", "N", "O", "F"), edge_types=BONDS)
    steps = {"steps": 8} if sampler == "ancestral" else {}
    model = model_of(Scattered(vocab, edges=-1.5), vocab)
    output = drawn(model, real(vocab, 12), ConnectedValence(vocab), 60, sampler=sampler, **steps)
    alive = ~output.log_weights.isneginf()
    assert alive.double().mean() > 0.9
    assert torch.equal(whole(output.x0, vocab), alive)
    assert not whole(drawn(model, real(vocab, 12), None, 60).x0, vocab).any()
