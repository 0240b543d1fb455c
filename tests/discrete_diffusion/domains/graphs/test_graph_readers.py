from __future__ import annotations

import gzip
import json
from pathlib import Path

import networkx as nx
import pytest
from graph_examples import PATH3, STAR4, TRIANGLE, TYPED, graph

from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.domains.graphs.readers import read_graphs
from discrete_diffusion.domains.graphs.records import GraphTypes, write_graphs

COLOURED = TypedGraph((0, 1, 0), ((0, 1, 0), (1, 2, 1)))
LINE = '{"n": 3, "edges": [[0, 1], [1, 2]]}'
BOTH = '{"n": 2, "edges": [[0, 1, "thin"], [1, 0, "thick"]], "node_types": ["a", "b"]}'


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_json_lines_come_back(tmp_path):
    path = tmp_path / "graphs.jsonl"
    write_graphs(path, [PATH3, STAR4, graph(2)], GraphTypes())
    assert path.read_text().splitlines()[0] == '{"n":3,"edges":[[0,1],[1,2]]}'
    assert read_graphs(path).graphs == [PATH3, STAR4, graph(2)]
    packed = tmp_path / "graphs.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_graphs(packed).splits == {"all": [PATH3, STAR4, graph(2)]}


def test_types_come_back(tmp_path):
    path = tmp_path / "graphs.jsonl"
    write_graphs(path, [COLOURED], TYPED)
    (record,) = map(json.loads, path.read_text().splitlines())
    assert record["node_types"] == ["a", "b", "a"]
    assert record["edges"] == [[0, 1, "thin"], [1, 2, "thick"]]
    assert read_graphs(path, TYPED).graphs == [COLOURED]
    named = nx.Graph([(0, 1, {"type": "thin"}), (1, 2, {"type": "thick"})])
    nx.set_node_attributes(named, dict(enumerate("aba")), "type")
    nx.write_graphml(named, tmp_path / "graph.graphml")
    assert read_graphs(tmp_path / "graph.graphml", TYPED).graphs == [COLOURED]


def test_splits_of_json(tmp_path):
    record = json.loads(LINE)
    path = write(tmp_path / "graphs.json", json.dumps({"train": [record] * 2, "valid": [record]}))
    found = read_graphs(path)
    assert found.splits == {"train": [PATH3, PATH3], "val": [PATH3]}
    assert read_graphs(write(tmp_path / "list.json", f"[{LINE}]")).splits == {"all": [PATH3]}
    assert read_graphs(write(tmp_path / "one.json", LINE)).splits == {"all": [PATH3]}


def test_edge_lists(tmp_path):
    numbers = write(tmp_path / "a.edges", "# a star\n10 2\n2,7\n2 10\n")
    assert read_graphs(numbers).graphs == [graph(3, (0, 1), (0, 2))]  # 2, 7, 10
    words = write(tmp_path / "b.txt", "oslo bergen thick\nkiruna\n")
    edges = GraphTypes(edges=("thin", "thick", "none"))
    assert read_graphs(words, edges).graphs == [TypedGraph((0, 0, 0), ((0, 1, 1),))]


def test_graph6_and_graphml_of_networkx(tmp_path):
    path = tmp_path / "graphs.g6"
    cycle = nx.cycle_graph(4)
    path.write_bytes(nx.to_graph6_bytes(cycle) + nx.to_graph6_bytes(nx.path_graph(3), header=False))
    assert read_graphs(path).graphs == [graph(4, (0, 1), (1, 2), (2, 3), (0, 3)), PATH3]
    nx.write_graphml(cycle, tmp_path / "cycle.graphml")
    assert read_graphs(tmp_path / "cycle.graphml").graphs[0] == read_graphs(path).graphs[0]


def test_a_folder_in_the_order_of_its_numbers(tmp_path):
    folder = tmp_path / "graphs"
    write(folder / "graph10.edges", "0 1\n0 2\n1 2\n")
    write(folder / "graph9.edges", "0 1\n1 2\n")
    write(folder / "graph11.jsonl", '{"n": 4, "edges": [[0, 1], [0, 2], [3, 0]]}\n')
    assert read_graphs(folder).graphs == [PATH3, TRIANGLE, STAR4]
    write(folder / "notes.md", "mine")
    with pytest.raises(ValueError, match=r"notes\.md: expected JSON.*move other files"):
        read_graphs(folder)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("g.jsonl", LINE + "\n[1]\n", r"line 2: expected an object"),
        ("g.jsonl", LINE + '\n{"n": 3, "edges"\n', r"line 2: not JSON"),
        ("g.jsonl", '{"edges": []}', r"line 1: n: expected the number of nodes, .* got None"),
        ("g.jsonl", '{"n": 0, "edges": []}', r"line 1: n: expected .* at least 1, got 0"),
        ("g.jsonl", '{"n": true, "edges": []}', r"line 1: n: .* got True"),
        ("g.jsonl", '{"n": 3000000000, "edges": []}', r"line 1: n: 3,000,000,000 nodes, more than"),
        ("g.jsonl", '{"n": 3}', r'line 1: has no "edges"'),
        ("g.jsonl", '{"n": 3, "edges": 5}', r"line 1: edges: expected a list"),
        ("g.jsonl", '{"n": 3, "edges": [[0, 1], [0, 3]]}', r"edges\[1\]: expected nodes 0 to 2"),
        ("g.jsonl", '{"n": 3, "edges": [[1, 1]]}', r"edges\[0\]: node 1 is linked to itself"),
        ("g.jsonl", '{"n": 3, "edges": [[0]]}', r"edges\[0\]: expected \[u, v\], got \[0\]"),
        ("g.jsonl", '{"n": 3, "edges": [[0, 1, "x"]]}', r"edges\[0\]: .*edge type.*'?x'?"),
        ("g.jsonl", '{"n": 1, "edges": [], "node_types": ["a"]}', r"node_types\[0\]: .*node type"),
        ("g.jsonl", '{"n": 2, "edges": [], "node_types": ["a"]}', r"list of n=2 names"),
        ("g.json", "{", r"g\.json: not JSON"),
        ("g.json", f'{{"train": [{LINE}], "extra": [{LINE}]}}', r"'extra': expected lists of gr"),
        ("g.json", f'{{"train": [{LINE}, 7]}}', r"train\[1\]: expected an object"),
        ("g.g6", "Bw\n!\n", r"line 2: not graph6"),
        ("g.graphml", "<graphml>", r"not GraphML"),
        ("g.graphml", "\n".join(nx.generate_graphml(nx.DiGraph([(0, 1)]))), r"is directed"),
        ("g.edges", "a b\na b c d\n", r"line 2: expected u v, or u v type, got 'a b c d'"),
        ("g.edges", "a b\n\nb b\n", r"line 3: .* linked to itself"),
        ("g.edges", "a b\na c tin\n", r"line 2: .*edge type.*tin"),
        ("g.edges", "# nothing\n", r"holds no edge"),
        ("g.foo", "0,1", "expected JSON"),
        ("g.jsonl.gz", "not gzip", r"line 1: not JSON"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, name, text, reason):
    path = write(tmp_path / name, text)
    with pytest.raises(ValueError, match=reason) as found:
        read_graphs(path)
    assert str(found.value).startswith(str(path))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (LINE, r"line 1: edges\[0\]: expected \[u, v, type\] with one of"),
        ('{"n": 2, "edges": []}', "line 1: has no node_types; expected 2 of a, b"),
        (BOTH, r"edges\[1\]: \[0, 1\] is listed with two types"),
    ],
)
def test_types_that_are_missing_or_contradict_each_other(tmp_path, text, reason):
    with pytest.raises(ValueError, match=reason):
        read_graphs(write(tmp_path / "g.jsonl", text), TYPED)


def test_an_edge_may_be_listed_again_with_its_type(tmp_path):
    read = read_graphs(write(tmp_path / "g.jsonl", BOTH.replace("thick", "thin")), TYPED)
    assert read.graphs == [TypedGraph((0, 1), ((0, 1, 0),))]


def test_what_cannot_be_read_is_left_out_and_counted(tmp_path):
    path = write(tmp_path / "g.jsonl", f'{LINE}\n{{"n": 1}}\n{LINE}\n{{"n": 9, "edges": []}}\n')
    found = read_graphs(path, skip_invalid=True, n_max=8)
    assert found.graphs == [PATH3, PATH3]
    first, second = found.problems
    assert first == f'{path}, line 2: has no "edges"; expected [[u, v], ...]'
    assert second == f"{path}, line 4: 9 nodes, more than n_max=8"
    assert found.summary(path) == f"{path}: 2 graphs; left out 2 that cannot be read: {first}"
    with pytest.raises(ValueError, match=r"holds no graph that can be read: .*line 1"):
        read_graphs(write(tmp_path / "b.jsonl", "{}"), skip_invalid=True)
    with pytest.raises(FileNotFoundError, match="no graphs at"):
        read_graphs(tmp_path / "gone.jsonl")
