"""Samples that have a structure without a network."""

from __future__ import annotations

import json
from collections import Counter

import networkx as nx
import numpy as np
import pytest

from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.domains.graphs.graph_set import as_networkx
from discrete_diffusion.domains.graphs.metrics import is_tree
from discrete_diffusion.domains.graphs.readers import read_graphs
from structure_controls import (
    bonded_molecules,
    kruskal_trees,
    planar_graphs,
    posterior_trees,
    uniform_trees,
    write_controls,
)

GRID = nx.convert_node_labels_to_integers(nx.triangular_lattice_graph(3, 6))
REAL = [
    TypedGraph((0,) * len(GRID), tuple(sorted((min(e), max(e), 0) for e in GRID.edges))),
    TypedGraph((0,) * 4, ((0, 1, 0), (1, 2, 0), (2, 3, 0))),
    *(TypedGraph((0,) * size, tuple((0, k, 0) for k in range(1, size))) for size in (1, 2)),
]


@pytest.mark.parametrize("control", [kruskal_trees, uniform_trees])
def test_trees(control):
    found = control(REAL, 60, np.random.default_rng(0))
    assert {len(tree.nodes) for tree in found} == {1, 2, 4, len(GRID)}
    assert all(map(is_tree, found))


@pytest.mark.slow
@pytest.mark.parametrize(("control", "stars"), [(uniform_trees, 1 / 4), (kruskal_trees, 4 / 15)])
def test_shares_of_trees_of_four_nodes(control, stars):
    """Of the 16 labelled ones 4 are stars."""
    num = 4_000
    counts = Counter(tree.edges for tree in control(REAL[1:2], num, np.random.default_rng(1)))
    assert len(counts) == 16
    found = {t: max(Counter(node for i, j, _ in t for node in (i, j)).values()) for t in counts}
    share = sum(counts[tree] for tree, degree in found.items() if degree == 3) / num
    assert share == pytest.approx(stars, abs=4.5 * 0.44 / num**0.5)
    if control is uniform_trees:
        deviation = np.array([*counts.values()]) - num / 16
        assert (deviation**2).sum() / (num / 16) < 45  # chi-squared, 15 degrees of freedom


def test_the_exact_posterior_gives_uniform_trees_one_pair_a_call():
    num = 3_200
    found = posterior_trees(4, 6, num, np.random.default_rng(2))
    counts = np.array([*Counter(frozenset(tree.edges) for tree in found).values()])
    assert all(map(nx.is_tree, found))
    assert len(counts) == 16
    assert ((counts - num / 16) ** 2).sum() / (num / 16) < 45
    at_once = posterior_trees(4, 1, 300, np.random.default_rng(3))
    assert 0.1 < sum(map(nx.is_tree, at_once)) / 300 < 0.5  # 16 / 2^6 of independent halves


def test_planar_graphs_have_as_many_edges_as_fit():
    found = planar_graphs(REAL[:2], 12, np.random.default_rng(0))
    for graph in found:
        assert nx.check_planarity(as_networkx(graph))[0]
        real = REAL[0] if len(graph.nodes) > 4 else REAL[1]
        assert len(graph.edges) == len(real.edges)


def test_molecules_are_valid_and_have_atoms_of_real_ones():
    pytest.importorskip("rdkit")
    from discrete_diffusion.domains.molecules.metrics import verdicts_of
    from discrete_diffusion.domains.molecules.reading import molecule_of

    smiles = ["CC(=O)O", "C[N+](=O)[O-]", "C#N", "FC(F)F", "C"]
    real = [molecule_of(text, keep_charges=True)[0] for text in smiles]
    found = bonded_molecules(real, 40, np.random.default_rng(0))
    assert {tuple(sorted(m.atoms)) for m in found} <= {tuple(sorted(m.atoms)) for m in real}
    assert all(verdict.valid is not None for verdict in verdicts_of(found))
    assert any(kind > 0 for molecule in found for _, _, kind in molecule.bonds)


def test_files_that_evaluate_reads(tmp_path):
    records = [{"n": 5, "edges": [[0, 1], [1, 2], [2, 3], [3, 4]]}] * 3
    path = tmp_path / "trees.json"
    path.write_text(json.dumps({"train": records, "val": records, "test": records}))
    written = write_controls("tree", path, tmp_path / "out", num=4, seeds=2)
    assert [file.name for file in written] == [
        f"{name}_{seed}.jsonl" for name in ("kruskal_trees", "uniform_trees") for seed in (0, 1)
    ]
    for file in written:
        graphs = read_graphs(file).graphs
        assert len(graphs) == 4
        assert all(map(is_tree, graphs))
