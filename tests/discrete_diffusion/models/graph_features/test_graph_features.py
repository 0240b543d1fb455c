"""Features of the revealed graph, against networkx and enumeration."""

from __future__ import annotations

import itertools
import math

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor

from discrete_diffusion.layout.vocab_config import VocabConfig
from discrete_diffusion.models.graph_features import (
    FEATURES,
    GraphFeatures,
    RevealedGraph,
    cycles,
    effective_resistance,
    graph_features,
    reach,
    walks,
)

ALL = tuple(FEATURES)
EDGE, NONE, MASK, PAD = range(4)
VOCAB = VocabConfig(n_max=9, node_types=("node",), edge_types=("edge", "none"))
BONDS = VocabConfig(
    n_max=9, node_types=("C", "N"), edge_types=("single", "double", "triple", "none")
)


def noisy(num: int, n: int, *, edge: float = 0.25, masked: float = 0.4, seed: int = 0) -> Tensor:
    """Int[B, N, N], edge ids of random graphs of which pairs are masked."""
    draw = torch.rand(2, num, n, n, generator=torch.Generator().manual_seed(seed))
    ids = torch.where(draw[0] < edge, EDGE, NONE).masked_fill(draw[1] < masked, MASK).triu(1)
    return ids + ids.mT


def revealed(ids: Tensor, vocab: VocabConfig = VOCAB) -> RevealedGraph:
    return GraphFeatures(ALL, vocab, d_node=2, d_pair=2).reveal(ids)


def graph_of(ids: Tensor, *kinds: int) -> nx.Graph:
    graph = nx.empty_graph(len(ids))
    graph.add_edges_from((i, j) for i, j in pairs_of(len(ids)) if ids[i, j] in kinds)
    return graph


def pairs_of(n: int) -> list[tuple[int, int]]:
    return list(itertools.combinations(range(n), 2))


@pytest.mark.parametrize("masked", [0.3, 1.0])
def test_reach_counts_components_and_the_open_pairs_that_leave_them(masked: float) -> None:
    ids = noisy(6, 9, masked=masked)
    (out, share, last), (connected, scarcity, between, *_) = reach(revealed(ids))
    for b, each in enumerate(ids):
        graph, open_ = graph_of(each, EDGE), graph_of(each, MASK)
        component = {i: part for part in nx.connected_components(graph) for i in part}
        leaving = {
            i: sum((u in component[i]) != (v in component[i]) for u, v in open_.edges)
            for i in range(9)
        }
        for i in range(9):
            assert share[b, i] == pytest.approx(len(component[i]) / 9)
            assert out[b, i] == pytest.approx(math.log1p(leaving[i]) / 4)
            assert last[b, i] == (leaving[i] == 1)
        for i, j in pairs_of(9):
            same = j in component[i]
            assert connected[b, i, j] == same
            joined = sum(
                (u in component[i] and v in component[j])
                or (v in component[i] and u in component[j])
                for u, v in open_.edges
            )
            joined *= 1 + same  # S_ii counts both directions
            assert between[b, i, j] == pytest.approx(math.log1p(joined) / 4)
            expected = math.log(1 / max(leaving[i], 1) + 1 / max(leaving[j], 1))
            assert scarcity[b, i, j] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("n", [2, 5])
def test_resistance_is_the_posterior_of_uniform_trees(n: int) -> None:
    trees = [
        frozenset(edges)
        for edges in itertools.combinations(pairs_of(n), n - 1)
        if nx.is_tree(nx.Graph([*edges])) and len(nx.Graph([*edges])) == n
    ]
    assert len(trees) == n ** (n - 2)
    generator = torch.Generator().manual_seed(n)
    for _ in range(40):  # a tree of them, with pairs hidden
        tree = trees[int(torch.randint(len(trees), (), generator=generator))]
        hidden = torch.rand(len(pairs_of(n)), generator=generator) < 0.6
        ids = torch.full((n, n), NONE)
        for (i, j), mask in zip(pairs_of(n), hidden.tolist(), strict=True):
            ids[i, j] = ids[j, i] = MASK if mask else EDGE if (i, j) in tree else NONE
        left = [
            other
            for other in trees
            if all(
                ((i, j) in other) == (ids[i, j] == EDGE) for i, j in pairs_of(n) if ids[i, j] < MASK
            )
        ]
        found, _ = effective_resistance(revealed(ids[None]))
        for i, j in pairs_of(n):
            if ids[i, j] == MASK:
                chance = sum((i, j) in other for other in left) / len(left)
                assert found[0, i, j].item() == pytest.approx(chance, abs=1e-9)
        parts = nx.number_connected_components(graph_of(ids, EDGE))
        open_ = revealed(ids[None]).open
        assert (found * open_).sum().item() / 2 == pytest.approx(parts - 1, abs=1e-9)


@pytest.mark.slow
def test_resistance_is_that_of_the_contracted_graph_where_open_pairs_fall_apart() -> None:
    ids = noisy(20, 9, edge=0.15, masked=0.25, seed=3)
    found, within = effective_resistance(revealed(ids))
    apart = 0
    for b, each in enumerate(ids):
        parts = [*nx.connected_components(graph_of(each, EDGE))]
        part = {i: k for k, nodes in enumerate(parts) for i in nodes}
        contracted = nx.empty_graph(len(parts), create_using=nx.MultiGraph)
        contracted.add_edges_from((part[i], part[j]) for i, j in graph_of(each, MASK).edges)
        contracted.remove_edges_from([*nx.selfloop_edges(contracted)])
        for i, j in pairs_of(9):
            reachable = nx.has_path(contracted, part[i], part[j])
            apart += not reachable
            assert within[b, i, j] == reachable
            expected = 0.0
            if reachable and part[i] != part[j]:
                inside = contracted.subgraph(nx.node_connected_component(contracted, part[i]))
                expected = nx.resistance_distance(inside, part[i], part[j])
            assert found[b, i, j].item() == pytest.approx(expected, abs=1e-6)
    assert apart  # the case of the name is there


def test_walks_are_powers_of_the_random_walk_both_ways() -> None:
    ids = noisy(4, 9)
    graph = revealed(ids)
    nodes, pairs = walks(graph, length=5)
    assert len(pairs) == 5 * 2 * 2
    assert len(nodes) == 5 * 2
    for b, each in enumerate(ids):
        known, open_ = graph_of(each, EDGE), graph_of(each, MASK)
        density = (known.number_of_edges() + 1) / (36 - open_.number_of_edges() + 9)
        adjacency = nx.to_numpy_array(known)
        for g, weights in enumerate((adjacency, adjacency + density * nx.to_numpy_array(open_))):
            step = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-6)
            for k in range(5):
                power = torch.tensor(np.linalg.matrix_power(step, k + 1), dtype=torch.float32)
                torch.testing.assert_close(pairs[4 * k + g][b], power)
                torch.testing.assert_close(pairs[4 * k + 2 + g][b], power.T)
                torch.testing.assert_close(nodes[2 * k + g][b], power.diagonal())


def test_cycles_through_a_node_are_those_of_networkx() -> None:
    ids = noisy(8, 7, edge=0.4, masked=0.1)
    counts, (two, three) = cycles(revealed(ids))
    for b, each in enumerate(ids):
        graph = graph_of(each, EDGE)
        found = [*nx.simple_cycles(graph, length_bound=5)]
        for length, count in zip((3, 4, 5), counts, strict=True):
            through = torch.tensor(
                [sum(i in cycle and len(cycle) == length for cycle in found) for i in range(7)]
            )
            torch.testing.assert_close(count[b], (through / 10).clamp(max=1))
        adjacency = nx.to_numpy_array(graph)
        torch.testing.assert_close(two[b], torch.tensor(adjacency @ adjacency).log1p().float() / 2)
        cube = torch.tensor(np.linalg.matrix_power(adjacency, 3))
        torch.testing.assert_close(three[b], cube.log1p().float() / 2)


def bonds(num: int, n: int) -> Tensor:
    """Edge ids of ``BONDS``: three orders, none, MASK."""
    ids = torch.randint(0, 5, (num, n, n), generator=torch.Generator().manual_seed(1)).triu(1)
    return ids + ids.mT


def test_bonds_count_by_order_and_together() -> None:
    ids = bonds(5, 8)
    edges = revealed(ids, BONDS).edges
    assert edges.shape[1] == 4
    diagonal = torch.eye(8, dtype=torch.bool)
    for kind in range(3):
        assert torch.equal(edges[:, 1 + kind], ((ids == kind) & ~diagonal).float())
    assert torch.equal(edges[:, 0], edges[:, 1:].sum(dim=1))


@pytest.mark.parametrize("vocab", [VOCAB, BONDS], ids=["edges", "bonds"])
def test_relabelled_graphs_have_relabelled_features(vocab: VocabConfig) -> None:
    ids = noisy(6, 9) if vocab is VOCAB else bonds(6, 9)
    features = GraphFeatures(ALL, vocab, d_node=2, d_pair=2)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(2))
    nodes, pairs = features.measure(ids)
    other_nodes, other_pairs = features.measure(ids[:, order][:, :, order])
    torch.testing.assert_close(other_nodes, nodes[..., order], atol=1e-5, rtol=0)
    pairs, other_pairs = pairs.unflatten(2, (9, 9)), other_pairs.unflatten(2, (9, 9))
    torch.testing.assert_close(other_pairs, pairs[:, :, order][..., order], atol=1e-5, rtol=0)


@pytest.mark.parametrize("vocab", [VOCAB, BONDS], ids=["edges", "bonds"])
@pytest.mark.parametrize("n", [1, 6])
def test_padding_changes_no_feature(vocab: VocabConfig, n: int) -> None:
    ids = noisy(5, n) if vocab is VOCAB else bonds(5, n)
    padded = torch.full((5, 9, 9), vocab.edge_pad_id)
    padded[:, :n, :n] = ids
    real = (torch.arange(9) < n).expand(5, 9)
    features = GraphFeatures(ALL, vocab, d_node=2, d_pair=2)
    nodes, pairs = features.measure(ids)
    of_nodes, of_pairs = features.measure(padded, real)
    torch.testing.assert_close(of_nodes[..., :n], nodes, atol=1e-6, rtol=0)
    inside = of_pairs.unflatten(2, (9, 9))[..., :n, :n].flatten(2)
    torch.testing.assert_close(inside, pairs, atol=1e-6, rtol=0)
    assert of_nodes.isfinite().all()
    assert of_pairs.isfinite().all()


def test_an_unknown_feature_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ValueError, match=r"model\.features.*walk.*walks"):
        GraphFeatures(["walk"], VOCAB, d_node=2, d_pair=2)
    with pytest.raises(ValueError, match=r"model\.features=\[walks\]"):
        graph_features("walks", VOCAB, d_node=2, d_pair=2, walk_length=3)
