"""Graphs as others write them: the right graph, or a refusal with the reason."""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from graph_examples import PATH3, STAR4, TRIANGLE, TYPED, graph

from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.domains.graphs.domain import COMMANDS
from discrete_diffusion.domains.graphs.readers import ReadGraphs, read_graphs
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


def test_types_in_lists_of_edges(tmp_path):
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
    found = read_graphs(path, skip_invalid=True, max_nodes=8)
    assert found.graphs == [PATH3, PATH3]
    first, second = found.problems
    assert first == f'{path}, line 2: has no "edges"; expected [[u, v], ...]'
    assert second == f"{path}, line 4: 9 nodes, more than max_nodes=8"
    assert found.summary(path) == f"{path}: 2 graphs; left out 2 that cannot be read: {first}"
    with pytest.raises(ValueError, match=r"holds no graph that can be read: .*line 1"):
        read_graphs(write(tmp_path / "b.jsonl", "{}"), skip_invalid=True)
    with pytest.raises(FileNotFoundError, match="no graphs at"):
        read_graphs(tmp_path / "gone.jsonl")


EDGE, PATH4 = graph(2, (0, 1)), graph(4, (0, 1), (1, 2), (2, 3))
CYCLE4 = graph(4, (0, 1), (1, 2), (2, 3), (0, 3))
PATH10 = "".join(f"{k} {k + 1}\n" for k in range(9))


def read(folder: Path, name: str, text: str, types: GraphTypes | None = None) -> ReadGraphs:
    (folder / name).write_text(text)
    return read_graphs(folder / name, types)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.txt", f"10 9\n{PATH10}", [graph(10, *((k, k + 1) for k in range(9)))]),
        ("a.txt", "4 2\n1 2\n2 3\n", [graph(4, (0, 1), (1, 2))]),  # from 1 on, the last alone
        ("a.txt", "3 2\n0 1\n1 0\n1 2\n2 1\n", [PATH3]),  # edges from both ends
        ("a.txt", "3 2\n0 1\n1 2\n\n2 1\n0 1\n", [PATH3, EDGE]),
        ("a.csv", "source,target\n0,1\n1,2\n", [PATH3]),
        ("a.tsv", "From\tTo\tweight\n5\t7\t.5\n7\t9\t.5\n", [PATH3]),
        ("a.csv", "id;target;source\n1;b;a\n2;c;b\n", [PATH3]),
        ("a.txt", "u v\n0 1\n1 2\n", [PATH3]),
        ("a.txt", "u v\nv w\n", [PATH3]),  # names of nodes
        ("a.txt", "0;1\n1;2;\n", [PATH3]),
        ("a.txt", "0, 1\n1, 2\n", [PATH3]),
        ("a.csv", '"New York","Oslo"\nOslo,Rome\n', [PATH3]),
        ("a.txt", "% SNAP\n# 1\n0 1 # first\n;\n1 2\n", [PATH3]),
        ("a.txt", "\n0 1\n1 2\n\n\n0 1\n", [PATH3, EDGE]),
        ("a.txt", "0 1 {}\n1 2 {'weight': 1}\n", [PATH3]),
        ("a.txt", '{"n": 2, "edges": []}\n', [graph(2)]),  # JSON under another name
        ("a.txt", "0 1 .5\n1 2 .25\n2 0 .5\n", [TRIANGLE]),
        ("a.edges", "3 4\n4 -1\n", [PATH3]),
        ("a.edges", "# a star\n10 2\n2,7\n2 10\n", [graph(3, (0, 1), (0, 2))]),  # 2, 7, 10
    ],
)
def test_lists_of_edges(tmp_path, name, text, expected):
    assert read(tmp_path, name, text).graphs == expected


@pytest.mark.parametrize(
    ("text", "first", "second"),
    [
        ("3 2\n2 1\n1 0\n", "a header of 3 nodes and 2 edges", "an edge"),
        ("10 9\n" + PATH10[:-4], "a header of 10 nodes and 9 edges", "an edge"),
        (f"10 9\n{PATH10}0 9\n", "a header of 10 nodes and 9 edges", "an edge"),
        ("10 9\n\n" + PATH10, "a header of 10 nodes and 9 edges", "an edge"),
        ("1 0\n", "a header of 1 nodes and 0 edges", "an edge"),
        ("4\n0 1\n1 2\n2 3\n", "a header of 4 nodes", "a node without edges"),
        ("person friend\n1 2\n2 3\n", "a header", "an edge of two nodes with names"),
        ("0 1 2\n1 2 3\n", "an edge with a number behind it", "a node with its two neighbours"),
        ("New York,Oslo\nOslo,Rome\n", "['New York', 'Oslo']", "['New', 'York', 'Oslo']"),
        ("0 1,5\n1 2,5\n", "['0 1', '5']", "['0', '1', '5']"),
    ],
)
def test_what_fits_two_readings_is_refused_with_both(tmp_path, text, first, second):
    with pytest.raises(ValueError, match=r"a\.txt: line 1: .* fits two readings, ") as found:
        read(tmp_path, "a.txt", text)
    assert first in str(found.value)
    assert f" and {second}" in str(found.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1\n1\n2\n", "holds no edge"),
        ("0 1 2 3\n1 2\n", "networkx.write_adjlist has them, is not read"),
        ("p edge 3 2\ne 1 2\ne 2 3\n", "a DIMACS file"),
        ("%%MatrixMarket matrix\n3 3 1\n2 1\n", "a Matrix Market file"),
        ("graph {\n a -- b\n}\n", "DOT or GML"),
        ("0 1 {'a': open}\n", r"line 1: expected u v \{"),
        ("source target\n0 1\n0 1 2\n", "line 3: expected 2 columns"),
        ("5 6\n7 7\n", "line 2: node 7 is linked to itself"),
    ],
)
def test_other_text_is_refused_with_the_reason(tmp_path, text, reason):
    with pytest.raises(ValueError, match=reason):
        read(tmp_path, "a.txt", text)


def test_what_is_dropped_is_counted_and_named(tmp_path):
    text = "source,target,weight,year\n0,1,2,1990\n1,0,2,1990\n1,5,1,1991\n"
    found = read(tmp_path, "a.csv", text)
    assert found.graphs == [PATH3]
    said = found.summary("a.csv")
    assert "dropped: weight of 3 edges, year of 3 edges" in said
    assert "edges listed again, from the other end or twice, which count once: 1" in said
    assert "numbers between those of nodes that no line has, which are not nodes: 3" in said
    typed = read(
        tmp_path,
        "b.csv",
        "type,source,target\nthick,0,1\n",
        GraphTypes(edges=("thin", "thick", "none")),
    )
    assert typed.graphs == [TypedGraph((0, 0), ((0, 1, 1),))]
    assert not typed.notes.dropped
    other = read(tmp_path, "c.jsonl", '{"n": 2, "edges": [[0, 1]], "label": 7}\n')
    assert "dropped: label of 1 graph" in other.summary("c.jsonl")


TU = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n4, 5\n5, 4\n",
    "graph_indicator": "1\n1\n1\n2\n2\n2\n",
    "node_labels": "0\n1\n0\n1\n1\n0\n",
    "edge_labels": "0\n0\n1\n1\n0\n0\n",
    "graph_labels": "-1\n1\n",
}


def tu_folder(folder: Path, **changed: str) -> Path:
    folder.mkdir(exist_ok=True)
    for part, text in {**TU, **changed}.items():
        (folder / f"TOY_{part}.txt").write_text(text)
    return folder


def test_tu_folders(tmp_path):
    folder = tu_folder(tmp_path / "toy")
    (folder / "README.txt").write_text("a toy")
    found = read_graphs(folder)
    assert found.graphs == [PATH3, graph(3, (0, 1))]  # the last node has no edge
    said = found.summary(folder)
    for dropped in ("graph_labels of 2 graphs", "node_labels (0, 1; ", "README.txt of 1 file"):
        assert dropped in said
    types = GraphTypes.of({"node_types": [0, 1], "edge_types": [0, 1, "none"]})
    first, second = read_graphs(folder, types).graphs
    assert first == TypedGraph((0, 1, 0), ((0, 1, 0), (1, 2, 1)))
    assert second == TypedGraph((1, 1, 0), ((0, 1, 0),))
    with pytest.raises(ValueError, match="is the part A of the data set TOY; give its folder"):
        read_graphs(folder / "TOY_A.txt")
    (folder / "TOY_graph_indicator.txt").unlink()
    with pytest.raises(ValueError, match=r"has no TOY_graph_indicator\.txt, and other parts"):
        read_graphs(folder)


@pytest.mark.parametrize(
    ("part", "text", "reason"),
    [
        ("A", "1, 2\n3, 4\n", "TOY_A.txt, line 2: 3, 4: one is of graph 1, one of 2"),
        ("A", "1, 9\n", "TOY_A.txt, line 1: 1, 9: expected nodes 1 to 6"),
        ("A", "1, 2\n2 2\n", "TOY_A.txt, line 2: 2, 2: node 2 is linked to itself"),
        ("A", "1 2 3\n", "TOY_A.txt, line 1: expected two nodes, got '1 2 3'"),
        ("graph_indicator", "1\nx\n", "indicator.txt, line 2: expected the number of a graph"),
    ],
)
def test_what_is_wrong_in_a_tu_folder_is_named(tmp_path, part, text, reason):
    with pytest.raises(ValueError, match=reason):
        read_graphs(tu_folder(tmp_path / "toy", **{part: text}))


@pytest.mark.parametrize("edges", ["edges", "links"])
def test_node_link_json(tmp_path, edges):
    path = nx.path_graph(["b", "c", "a"])
    path.nodes["b"]["colour"], path.edges["c", "a"]["weight"] = "red", 2
    text = json.dumps(nx.node_link_data(path, edges=edges))
    for name, whole in (("a.json", text), ("b.json", f"[{text}]"), ("c.jsonl", text)):
        found = read(tmp_path, name, whole)
        assert found.graphs == [PATH3]
        assert "dropped: colour of 1 node, weight of 1 edge" in found.summary(name)
    d3 = {"nodes": [{"type": "a"}, {"type": "b"}]}
    d3[edges] = [{"source": 1, "target": 0, "type": "thick"}]
    assert read(tmp_path, "d.json", json.dumps(d3), TYPED).graphs == [
        TypedGraph((0, 1), ((0, 1, 1),))
    ]
    both = json.dumps({"nodes": [], "edges": [], "links": []})
    with pytest.raises(ValueError, match='"edges" and "links": either may be'):
        read(tmp_path, "e.json", both)
    with pytest.raises(ValueError, match="is directed"):
        read(tmp_path, "f.json", json.dumps(nx.node_link_data(nx.DiGraph(path), edges=edges)))
    with pytest.raises(ValueError, match=rf"{edges}\[0\]: 7 is the id of no node"):
        read(tmp_path, "g.json", json.dumps({"nodes": [1], edges: [{"source": 1, "target": 7}]}))


BLOCKS = "N=3\nX: \n0 1 0 \nE: \n0 1 0 \n1 0 2 \n0 2 0 \n\nN=2\nX: \n0 0 \nE: \n0 1 \n1 0 \n\n"


def test_blocks_of_digress(tmp_path):
    found = read(tmp_path, "samples.txt", BLOCKS)
    assert found.graphs == [PATH3, EDGE]
    assert "dropped: number in the matrix of 1 edge, type of 3 nodes" in found.summary("s")
    typed = read(tmp_path, "samples.txt", BLOCKS, TYPED).graphs
    assert typed[0] == TypedGraph((0, 1, 0), ((0, 1, 0), (1, 2, 1)))
    for old, new, reason in (
        ("1 0 2", "1 0 0", r"line 1: is directed: entry \[1, 2\] is 0 and \[2, 1\] is 2"),
        ("1 0 2", "1 1 2", "node 1 is linked to itself"),
        ("0 1 0 \nE", "0 1 \nE", "expected 3 types of nodes and a matrix of 3 x 3, got 2"),
        ("1 0 2", "1 x 2", "line 6: expected whole numbers, got 'x'"),
    ):
        with pytest.raises(ValueError, match=reason):
            read(tmp_path, "samples.txt", BLOCKS.replace(old, new, 1))


def saved(folder: Path, **arrays: np.ndarray) -> Path:
    np.savez(folder / "a.npz", **arrays)
    return folder / "a.npz"


def test_arrays(tmp_path):
    cycle, path = (nx.to_numpy_array(g) for g in (nx.cycle_graph(4), nx.path_graph(3)))
    assert read_graphs(saved(tmp_path, a=cycle, b=path)).graphs == [CYCLE4, PATH3]
    padded = np.zeros((2, 4, 4), dtype=bool)
    padded[0], padded[1, :3, :3] = cycle, path
    with pytest.raises(ValueError, match="either padding, of a graph of 3 nodes, or nodes without"):
        read_graphs(saved(tmp_path, x=padded))
    found = read_graphs(saved(tmp_path, x=padded, num_nodes=np.array([4, 3]), y=np.zeros(3)))
    assert found.graphs == [CYCLE4, PATH3]
    assert "dropped: array y (3,) of 1 file" in found.summary("a.npz")
    splits = read_graphs(saved(tmp_path, train=padded[:1], valid=padded[:1])).splits
    assert splits == {"train": [CYCLE4], "val": [CYCLE4]}
    np.save(tmp_path / "a.npy", 2 * cycle)
    assert "number in the matrix of 4 edges" in read_graphs(tmp_path / "a.npy").summary("a")


def test_nothing_pickled_is_read(tmp_path):
    class Payload:
        def __reduce__(self):
            return Path.touch, (tmp_path / "ran",)

    np.savez(tmp_path / "a.npz", np.array([Payload()], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="pickled Python objects, which can run code"):
        read_graphs(tmp_path / "a.npz")
    assert not (tmp_path / "ran").exists()
    (tmp_path / "b.npz").write_bytes(b"PK not a zip")
    with pytest.raises(ValueError, match=r"is not a file of arrays|pickled"):
        read_graphs(tmp_path / "b.npz")


def test_the_command_says_what_a_file_holds(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("source,target,weight\n0,1,2\n1,2,1\n\n0,1,1\n3,4,1\n\n2,2,1\n")
    parser = argparse.ArgumentParser()
    COMMANDS["graphs"].add_options(parser)
    COMMANDS["graphs"].run(parser.parse_args([str(tmp_path / "a.csv")]))
    said = capsys.readouterr().out
    for part in (
        "a.csv: 2 graphs",
        "read as: list of edges 2",
        "dropped: weight of 5 edges",
        "nodes of a graph: 3 to 4 (data.max_nodes=4)",
        "edges of a graph: 2",
        "in several pieces: 1 graph",
        "nodes: node 7",
        "edges: edge 4",
        "left out 1 graph that cannot be read:",
        "line 8: node 2 is linked to itself",
    ):
        assert part in said
