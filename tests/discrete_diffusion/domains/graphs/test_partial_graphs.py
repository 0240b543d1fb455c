"""Graphs to be completed, and how graphs are drawn."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from graph_examples import PATH3, STAR4, TRIANGLE, TYPED, graph, of_networkx
from matplotlib.image import imread

from discrete_diffusion.domains.graphs.records import GraphError, GraphTypes
from discrete_diffusion.domains.graphs.requests import encode_partials, parse_partial, read_partials
from discrete_diffusion.domains.graphs.samples import node_positions, plot_graphs

PLAIN = GraphTypes()


def test_what_is_known_is_kept_and_the_rest_is_unknown():
    record = {"n": 4, "edges": [[2, 0]], "non_edges": [[1, 3]], "known_nodes": 3}
    partial = parse_partial(record, PLAIN, n_max=5)
    assert partial.nodes == (0, 0, 0, 0)
    assert partial.pairs == {(0, 1): 1, (0, 2): 0, (1, 2): 1, (1, 3): 1}
    assert partial.edges(no_edge=1) == {(0, 2)}
    vocab = PLAIN.vocabulary(5)
    x0, real = encode_partials([partial], vocab)
    assert real.sum() == 4 + 6
    edge, none = vocab.edge_offset, vocab.edge_offset + 1
    pad, unknown = vocab.pad_id, -1
    assert x0[0, :5].tolist() == [0, 0, 0, 0, pad]
    # 01 02 03 04 12 13 14 23 24 34
    expected = [none, edge, unknown, pad, none, none, pad, unknown, pad, pad]
    assert x0[0, 5:].tolist() == expected


def test_types_may_be_unknown():
    record = {"n": 2, "edges": [[0, 1, "thick"]], "node_types": [None, "b"]}
    partial = parse_partial(record, TYPED, n_max=2)
    assert (partial.nodes, partial.pairs) == ((None, 1), {(0, 1): 1})
    assert parse_partial({"n": 2}, TYPED, n_max=2).nodes == (None, None)
    x0, _ = encode_partials([partial], TYPED.vocabulary(2))
    assert x0.tolist() == [[-1, 1, TYPED.vocabulary(2).edge_offset + 1]]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"n": 9}, "n: 9 nodes; the model samples at most 8"),
        ({"n": 3, "non_edges": [[0, 1]], "edges": [[1, 0]]}, r"non_edges\[0\]: \[0, 1\] is listed"),
        ({"n": 3, "non_edges": [[0, 3]]}, r"non_edges\[0\]: expected nodes 0 to 2, got 3"),
        ({"n": 3, "known_nodes": 4}, "known_nodes: expected nodes 0 to 2"),
        ({"n": 3, "known_nodes": -1}, "known_nodes: expected"),
        ({"n": 3, "known_nodes": [0, "1"]}, "known_nodes: expected"),
        ({"n": 2, "node_types": ["x", None]}, r"node_types\[0\]: .*node type"),
        ({"edges": []}, "n: expected the number of nodes"),
    ],
)
def test_what_is_wrong_is_named(record, reason):
    with pytest.raises(GraphError, match=reason):
        parse_partial(record, PLAIN, n_max=8)


def test_lines_are_numbered(tmp_path):
    path = tmp_path / "partial.jsonl"
    path.write_text('\n{"n": 2}\n\n{"n": 3}\n')
    assert list(read_partials(str(path), PLAIN, 8)) == [2, 4]
    path.write_text('{"n": 2}\n{"n": 2, "edges": [[0, 0]]}\n')
    with pytest.raises(ValueError, match=r"partial\.jsonl, line 2: edges\[0\]: node 0 is linked"):
        read_partials(str(path), PLAIN, 8)
    path.write_text("\n")
    with pytest.raises(ValueError, match="holds no graph"):
        read_partials(str(path), PLAIN, 8)


@pytest.mark.parametrize(
    "found", [graph(1), graph(3), PATH3, STAR4, of_networkx(nx.gnp_random_graph(30, 0.1, seed=0))]
)
def test_every_node_has_a_place_of_its_own(found):
    points = node_positions(found)
    assert points.shape == (len(found.nodes), 2)
    assert np.isfinite(points).all()
    assert len(np.unique(points.round(6), axis=0)) == len(found.nodes)


def test_a_page(tmp_path):
    plot_graphs([PATH3, TRIANGLE, graph(1)], tmp_path / "page.png", GraphTypes())
    plain = imread(tmp_path / "page.png")
    for corner in (plain[:300, :300], plain[:300, 400:], plain[400:, :300]):
        assert (corner[..., :3] < 0.9).any()  # each of the three is drawn
    assert (plain[400:, 400:, :3] == 1).all()
    names = {"titles": ["first"], "given": [frozenset({(0, 1)})]}
    plot_graphs([PATH3], tmp_path / "typed.svg", TYPED, **names)
    text = (tmp_path / "typed.svg").read_text()
    assert all(f"<!-- {word} -->" in text for word in ("first", "a", "b", "thin", "thick"))
    assert "#d1495b" in text
