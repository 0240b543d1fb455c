"""Files as a data set; graphs to be completed, and how graphs are drawn."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from graph_examples import PATH3, STAR4, TRIANGLE, TYPED, graph, of_networkx, relabelled
from matplotlib.image import imread

from composed import composed
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.domains import build_data, complete_data
from discrete_diffusion.domains.graphs.graph_set import canonical_key
from discrete_diffusion.domains.graphs.readers import read_graphs
from discrete_diffusion.domains.graphs.records import GraphError, GraphTypes, Untyped
from discrete_diffusion.domains.graphs.requests import encode_partials, parse_partial, read_partials
from discrete_diffusion.domains.graphs.samples import node_positions, plot_graphs
from discrete_diffusion.domains.registry import get_domain

LINES = [
    json.dumps({"n": len(found), "edges": [list(edge) for edge in found.edges]})
    for found in (nx.random_labeled_tree(3 + k % 5, seed=k) for k in range(40))
]


@pytest.fixture
def trees(tmp_path) -> Path:
    path = tmp_path / "trees.jsonl"
    path.write_text("\n".join(LINES))
    return path


def data_of(*words: str):
    return build_data(complete_data(composed("train", ["data=graphs", *words])))


def test_a_file_is_split_by_distinct_graph(trees):
    data = data_of(f"data.path={trees}", "data.split=[0.5,0.25,0.25]")
    keys = {name: set(map(canonical_key, data.graphs(name))) for name in data.splits}
    assert sum(len(data.splits[name]) for name in keys) == len(LINES)
    assert not keys["train"] & keys["test"]
    assert not keys["train"] & keys["val"]
    assert data.vocab.n_max == 7
    assert (data.bound, data.size_unit) == ("ordered_random", "nodes")
    assert (
        data.size_counts()[3:]
        == torch.bincount(torch.tensor([len(g.nodes) for g in data.graphs("train")]))[3:].tolist()
    )


def write_splits(path: Path, **splits) -> Path:
    named = {
        name: [{"n": len(g.nodes), "edges": [[i, j] for i, j, _ in g.edges]} for g in graphs]
        for name, graphs in splits.items()
    }
    path.write_text(json.dumps(named))
    return path


def test_splits_of_a_file_are_kept_and_repeats_are_said(tmp_path, caplog):
    again = relabelled(PATH3, (1, 0, 2))
    path = write_splits(
        tmp_path / "g.json", train=[PATH3, TRIANGLE], val=[again, STAR4], test=[graph(2)]
    )
    data = data_of(f"data.path={path}", "data.node_order=given")
    assert data.graphs("train") == [PATH3, TRIANGLE]
    assert data.graphs("val") == [again, STAR4]
    assert "1 graph to be held out, of 3, trained on too; its splits are kept" in caplog.text
    path = write_splits(tmp_path / "h.json", train=[PATH3], test=[STAR4])
    with pytest.raises(ValueError, match="has the splits train, test; expected train, val"):
        data_of(f"data.path={path}")


def test_what_is_held_out_in_another_file_is_not_trained_on(tmp_path, caplog):
    files = {
        "train": [PATH3, TRIANGLE, STAR4],
        "val": [relabelled(PATH3, (2, 0, 1))],
        "test": [graph(2)],
    }
    words = []
    for name, graphs in files.items():
        path = write_splits(tmp_path / f"{name}.json", all=graphs)
        words.append(f"data.{name}_path={path}")
    data = data_of(*words, "data.node_order=given")
    assert data.graphs("train") == [TRIANGLE, STAR4]
    assert "left out of training 1 graph, held out too" in caplog.text
    assert len(data_of(*words[:2]).splits["test"]) == 0
    both = write_splits(tmp_path / "both.json", train=[PATH3], val=[STAR4])
    with pytest.raises(ValueError, match=r"data\.val_path=.*both\.json has splits of its own"):
        data_of(words[0], f"data.val_path={both}")


@pytest.mark.parametrize("node_order", ["bfs", "canonical"])
def test_orders_of_the_graph_alone_give_equal_graphs_equal_tokens(tmp_path, node_order):
    rose = of_networkx(nx.lollipop_graph(4, 3))
    moved = [relabelled(rose, torch.randperm(7, generator=make_generator(k))) for k in range(5)]
    path = write_splits(tmp_path / "g.json", train=moved, val=[rose])
    data = data_of(f"data.path={path}", f"data.node_order={node_order}")
    assert len(data.splits["train"].x0.unique(dim=0)) == 1
    assert {canonical_key(g) for g in data.graphs("train")} == {canonical_key(rose)}
    assert data.bound == "ordered_fixed"
    if node_order == "bfs":
        (first, *_) = data.graphs("train")
        degree = torch.bincount(torch.tensor([k for i, j, _ in first.edges for k in (i, j)]))
        assert degree[0] == degree.max()
        earlier = [min(i for i, j, _ in first.edges if j == k) for k in range(1, 7)]
        assert earlier == sorted(earlier)  # nobody comes before the children of those before


def test_random_order_relabels_and_counts_orders(tmp_path):
    path = write_splits(tmp_path / "g.json", train=[STAR4], val=[TRIANGLE])
    data = data_of(f"data.path={path}")
    found = data.splits["train"].log_num_orders.exp()
    assert found.tolist() == pytest.approx([4])  # which node is the middle
    batch = data.augment(data.splits["train"][torch.zeros(64, dtype=torch.long)], make_generator(0))
    assert len(batch.x0.unique(dim=0)) == 4


def test_the_config_is_completed_and_checked(trees):
    domain = get_domain("graphs")
    config = composed("train", ["data=graphs", f"data.path={trees}"])
    assert config.data.max_nodes is None
    with pytest.raises(ValueError, match=r"data\.max_nodes is not set"):
        domain.vocabulary(config.data)
    completed = complete_data(config)
    assert completed.data.max_nodes == 7
    assert domain.vocabulary(completed.data).length == 7 + 21
    assert domain.vocabulary(completed.data).digest()["edge_types"] == ["edge", "none"]
    for words, reason in (
        (["data.graph_family=plane"], "did you mean 'planar'"),
        (["data.max_nodes=5"], r"line 4: 6 nodes, more than max_nodes=5; .*skip_invalid=true"),
        (["data.edge_types=[edge]"], r"data\.edge_types=\['edge'\]: expected at least 2"),
        (["data.edge_types=edge"], r"data\.edge_types=edge: expected a list of names"),
        (["data.path=null"], r"needs data\.path=FILE"),
        (["data.val_path=x.jsonl"], r"not both"),
    ):
        with pytest.raises(ValueError, match=reason):
            data_of(f"data.path={trees}", *words)
    fewer = data_of(f"data.path={trees}", "data.max_nodes=5", "data.skip_invalid=true")
    assert max(len(g.nodes) for name in fewer.splits for g in fewer.graphs(name)) == 5


def test_graphs_of_types_are_read_as_graphs_of_none(tmp_path):
    path = tmp_path / "typed.jsonl"
    path.write_text('{"n": 3, "edges": [[0, 1, "x"], [2, 1, 7]], "node_types": ["a", "b", "a"]}')
    assert read_graphs(path, Untyped()).graphs == [PATH3]


def test_without_the_libraries_the_extra_is_named(trees, monkeypatch):
    monkeypatch.setattr("discrete_diffusion.domains.graphs.graph_set.find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "igraph", None)
    with pytest.raises(ValueError, match=r"igraph: pip install .*\[graphs\]"):
        data_of(f"data.path={trees}")


def test_equal_graphs_stay_together_which_is_said(tmp_path, caplog):
    path = tmp_path / "equal.jsonl"
    path.write_text("\n".join(LINES[:1] * 30))
    data = data_of(f"data.path={path}")
    assert [len(data.graphs(name)) for name in data.splits].count(0) == 2
    assert "1 distinct graph of 30" in caplog.text


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
