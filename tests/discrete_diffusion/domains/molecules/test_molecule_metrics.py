"""Distances between sets of molecules, against brute force and the packages they follow."""

from __future__ import annotations

import math
import warnings
from collections import Counter

import numpy as np
import pytest
from molecule_examples import SMILES

pytest.importorskip("rdkit")
pytest.importorskip("fcd")

from rdkit import Chem

from discrete_diffusion.domains.molecules import distances
from discrete_diffusion.domains.molecules.distances import (
    COMPLEXITY,
    MeanFeatures,
    features_of_smiles,
    mean_features,
    nspdk_features,
    nspdk_mmd,
)
from discrete_diffusion.domains.molecules.metrics import (
    PROPERTIES,
    MoleculeSet,
    all_distances,
    molecule_properties,
    property_distances,
    scaffold_counts,
    scaffold_similarity,
)

CANONICAL = [Chem.CanonSmiles(text) for text in SMILES]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DISCRETE_DIFFUSION_CACHE", str(tmp_path))


@pytest.mark.slow
def test_fcd_is_that_of_the_package():
    import fcd

    one, other = CANONICAL[:14], [*CANONICAL[10:], *CANONICAL[10:13]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numpy and scipy, about names that fcd uses
        expected = fcd.get_fcd(one, other, device="cpu")
    assert distances.fcd(one, other) == pytest.approx(expected, rel=1e-3)
    assert distances.fcd(one, one) == pytest.approx(0, abs=1e-4)
    assert math.isnan(distances.fcd(one[:1], other))


def test_activations_are_computed_once(monkeypatch):
    first = distances.chemnet_activations(CANONICAL[:5])
    monkeypatch.setattr(distances, "_activation_blocks", None)
    again = distances.chemnet_activations(CANONICAL[:5][::-1])
    assert np.array_equal(first.mean, again.mean)
    assert np.array_equal(first.covariance, again.covariance)


def counted_by_hand(labels, bonds):
    """Every pair of atoms, every radius, neighbourhoods as nested tuples of what stands around."""
    import networkx as nx

    graph = nx.Graph()
    for k, label in enumerate(labels):
        graph.add_node(k, label=repr(label))
    for i, j, label in bonds:
        graph.add_node((i, j), label=repr(("bond", label)))
        graph.add_edges_from([(i, (i, j)), ((i, j), j)])
    lengths = dict(nx.all_pairs_shortest_path_length(graph))
    atoms = range(len(labels))

    def within(root, radius):
        if max(lengths[root].values()) < radius:
            return None
        return tuple(
            tuple(
                sorted(
                    (graph.nodes[v]["label"], graph.degree(v))
                    for v, d in lengths[root].items()
                    if d == at
                )
            )
            for at in range(radius + 1)
        )

    counts = {}
    for r in range(0, 2 * COMPLEXITY + 1, 2):
        for d in range(0, 2 * COMPLEXITY + 1, 2):
            kind = Counter()
            for v in atoms:
                for u in atoms:
                    if lengths[v].get(u) == d and within(v, r) and within(u, r):
                        kind[frozenset(Counter([within(v, r), within(u, r)]).items())] += 1
                        kind[within(u, r)] += 1
            if kind:
                counts[r, d] = kind
    found = {}
    for key, kind in counts.items():
        length = math.sqrt(sum(count**2 for count in kind.values()) * len(counts))
        found.update({(key, what): count / length for what, count in kind.items()})
    return found


@pytest.mark.parametrize("smiles", ["C", "CCO", "CC(=O)O", "c1ccoc1", "CC1CO1", "NCC(O)=O", "C.O"])
def test_features_of_molecules_are_those_counted_by_hand(smiles):
    mol = Chem.MolFromSmiles(smiles)
    labels = [atom.GetSymbol() for atom in mol.GetAtoms()]
    bonds = [
        (b.GetBeginAtomIdx(), b.GetEndAtomIdx(), int(b.GetBondTypeAsDouble()))
        for b in mol.GetBonds()
    ]
    ours, by_hand = features_of_smiles(smiles), counted_by_hand(labels, bonds)
    assert sorted(ours.values()) == pytest.approx(sorted(by_hand.values()))
    assert sum(value**2 for value in ours.values()) == pytest.approx(1)
    reversed_bonds = [(j, i, label) for i, j, label in reversed(bonds)]
    assert nspdk_features(labels, reversed_bonds) == pytest.approx(ours)


def test_the_mmd_is_the_mean_of_kernels():
    one, other = CANONICAL[:6], [*CANONICAL[4:9], CANONICAL[4]]

    def kernel(a, b):
        x, y = features_of_smiles(a), features_of_smiles(b)
        return sum(value * y.get(key, 0) for key, value in x.items())

    def mean(first, second):
        return np.mean([kernel(a, b) for a in first for b in second])

    expected = mean(one, one) + mean(other, other) - 2 * mean(one, other)
    assert nspdk_mmd(mean_features(one), mean_features(other)) == pytest.approx(expected)
    assert nspdk_mmd(mean_features(one), mean_features(one[::-1])) == pytest.approx(0, abs=1e-12)


def test_properties_are_rdkits():
    from rdkit.Chem import QED, Crippen, Descriptors

    mol = Chem.MolFromSmiles("c1ccncc1")
    found = molecule_properties(["c1ccncc1", "CC"])
    assert set(found) == set(PROPERTIES)
    assert found["logp"][0] == pytest.approx(Crippen.MolLogP(mol))
    assert found["weight"][0] == pytest.approx(Descriptors.MolWt(mol))
    assert found["qed"][0] == pytest.approx(QED.qed(mol))
    assert found["rings"].tolist() == [1, 0]
    assert 1 <= found["sa"].min() <= found["sa"].max() <= 10
    other = {name: values + 2 for name, values in found.items()}
    assert property_distances(found, other) == {
        f"wasserstein_{name}": pytest.approx(2) for name in PROPERTIES
    }


def test_scaffolds_of_two_rings_and_more_count():
    counts = scaffold_counts(["Cc1ccc2ccccc2c1", "c1ccc2ccccc2c1", "CC1CC1", "CC"])
    assert counts == {"c1ccc2ccccc2c1": 2}
    assert scaffold_similarity(counts, Counter({"c1ccc2ccccc2c1": 5})) == pytest.approx(1)
    assert scaffold_similarity(counts, Counter({"C1CC2CC12": 5})) == 0
    assert math.isnan(scaffold_similarity(counts, Counter()))


def test_a_set_is_as_far_from_itself_as_nothing():
    some = MoleculeSet([*CANONICAL, "c1ccc2ccccc2c1"])
    found = all_distances(some, MoleculeSet(some.smiles[::-1]))
    assert found.pop("scaffold_similarity") == pytest.approx(1)
    assert found == {name: pytest.approx(0, abs=1e-4) for name in found}
    assert {"fcd", "nspdk_mmd", "wasserstein_sa"} <= set(found)
    assert all_distances(MoleculeSet([]), some) == {}


def test_activations_in_parts_are_those_of_the_whole(monkeypatch):
    texts, counts = sorted(CANONICAL), np.arange(1, len(CANONICAL) + 1)
    whole = distances._moments(texts, counts)
    monkeypatch.setattr(distances, "_MAX_ACTIVATIONS", 7)
    monkeypatch.setattr(distances, "_run_network", known(dict(distances._known)))
    found = distances._moments(texts, counts)
    assert np.allclose(found.mean, whole.mean, rtol=1e-12, atol=1e-14)
    scale = np.abs(whole.covariance).max()
    assert np.abs(found.covariance - whole.covariance).max() <= 1e-12 * scale


def known(seen):
    """Activations that were computed before: these tests are of sums."""

    def computed(smiles, padded, going):
        return np.stack([seen[text] for text in smiles])

    return computed


@pytest.mark.parametrize("kept", [150, 10**6])
def test_features_in_parts_are_those_of_the_whole(monkeypatch, kept):
    """Against sums in dictionaries; in memory, on disk, and some of both."""
    one, other = CANONICAL[:15], [*CANONICAL[8:], *CANONICAL[:3]]
    expected = 0.0
    means = [Counter(), Counter()]
    for mean, texts in zip(means, (one, other), strict=True):
        for text in texts:
            for key, value in features_of_smiles(text).items():
                mean[key] += value / len(texts)
    for key in means[0].keys() | means[1].keys():
        expected += (means[0][key] - means[1][key]) ** 2
    monkeypatch.setattr(distances, "MAX_SORTED", 40)
    monkeypatch.setattr(distances, "MAX_KEPT", kept)
    sums = [mean_features(one), mean_features(other)]
    assert all(len(each._runs) > 3 for each in sums)
    assert all((each._file is not None) == (kept < 10**6) for each in sums)
    assert nspdk_mmd(*sums) == pytest.approx(expected, rel=1e-12)
    assert nspdk_mmd(*sums) == nspdk_mmd(*sums[::-1])


def test_a_mean_of_nothing_is_nothing():
    some = MeanFeatures()
    some.add({-(2**63): 3.0, 5: 1.0, 2**63 - 1: 2.0}, count=4)
    assert nspdk_mmd(some, MeanFeatures()) == pytest.approx(14)
    assert nspdk_mmd(some, some) == 0
