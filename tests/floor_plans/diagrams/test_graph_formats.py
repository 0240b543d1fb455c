from __future__ import annotations

import random
import re

import networkx
import pytest
from diagram_strategies import diagrams
from hypothesis import given

from floor_plans import BubbleDiagram
from floor_plans.diagrams.files.graph_formats import (
    from_graphml,
    from_networkx,
    read_networkx,
    to_graphml,
    to_networkx,
)
from floor_plans.drawings.readers import ReadOptions, read_report

PLAN = BubbleDiagram((0, 2, 3), ((0, 1, 2), (1, 2, 9)), metadata={"name": "a"})


@pytest.mark.slow
@given(diagrams(decorated=True))
def test_networkx_round_trip(diagram):
    back = from_networkx(to_networkx(diagram))
    assert back == diagram
    assert back.metadata == diagram.metadata


@pytest.mark.slow
@given(diagrams(decorated=True))
def test_graphml_round_trip(diagram):
    back = from_graphml(to_graphml(diagram))
    assert back == diagram
    assert back.metadata == diagram.metadata


def test_the_graph_reads_as_it_is_drawn():
    graph = to_networkx(PLAN)
    assert graph.nodes[1] == {"room": "Kitchen"}
    assert graph.edges[1, 2] == {"relation": "right-below"}


def test_foreign_graphs_may_name_nodes_freely_and_point_backwards():
    graph = networkx.DiGraph()
    graph.add_node("kitchen", room="Kitchen")
    graph.add_node("living", room=0)
    graph.add_edge("living", "kitchen", relation="left-of")
    assert from_networkx(graph) == BubbleDiagram((2, 0), ((0, 1, 7),))


def test_wrong_graphs_are_refused():
    with pytest.raises(ValueError, match="directed"):
        from_networkx(networkx.Graph(to_networkx(PLAN)))
    graph = to_networkx(PLAN)
    graph.add_edge(2, 1, relation="left-of")
    with pytest.raises(ValueError, match="listed twice"):
        from_networkx(graph)
    graph = to_networkx(PLAN)
    graph.nodes[1]["x0"] = 3.0
    with pytest.raises(ValueError, match="1 boxes for 3 rooms"):
        from_networkx(graph)
    del graph.nodes[1]["room"]
    with pytest.raises(ValueError, match=r"node 1.*no attribute 'room'"):
        from_networkx(graph)
    graph = to_networkx(PLAN)
    del graph.edges[0, 1]["relation"]
    with pytest.raises(ValueError, match=r"edge \(0, 1\).*no attribute 'relation'"):
        from_networkx(graph)
    graph = to_networkx(PLAN)
    graph.graph["metadata"] = 3
    with pytest.raises(ValueError, match="expected a mapping"):
        from_networkx(graph)


@pytest.mark.parametrize("text", ["", "<a", "<a/>", "[]", to_graphml(PLAN)[:-20]])
def test_text_that_is_no_graphml_is_refused(text):
    with pytest.raises(ValueError, match="not a GraphML graph"):
        from_graphml(text)


def test_metadata_that_json_cannot_hold_is_refused():
    for value in (float("nan"), object()):
        with pytest.raises(ValueError, match="metadata"):
            to_graphml(BubbleDiagram((0,), (), metadata={"a": value}))
    text = to_graphml(PLAN).replace("{&quot;", "{").replace('{"', "{")
    with pytest.raises(ValueError, match="not JSON"):
        from_graphml(text)


def test_nothing_of_a_graphml_file_is_dropped_silently():
    text = to_graphml(PLAN)
    body = text[text.index("<graph ") : text.index("</graphml>")]
    with pytest.raises(ValueError, match="it holds 2 graphs"):
        from_graphml(text.replace("</graphml>", body + "</graphml>"))
    for metadata, reason in [
        ('{"a": 1, "a": 2}', "given twice"),
        ('{"a": NaN}', "not a finite number"),
        ("[1]", "expected a mapping"),
        ("{", "is not JSON"),
    ]:
        changed = text.replace(text[text.index("{") : text.index("}") + 1], metadata)
        with pytest.raises(ValueError, match=reason):
            from_graphml(changed)


@pytest.mark.slow
def test_mutated_graphml_is_read_or_refused(tmp_path):
    path, rng = tmp_path / "plan.graphml", random.Random(0)
    parts = re.split(r'([<>"= ])', to_graphml(PLAN))
    tokens = ["", "x", "1", "nan", "1e999", "int", "boolean", "undirected", "hyperedge", "d9", "-1"]
    accepted = 0
    for _ in range(600):
        changed = list(parts)
        for _ in range(rng.choice([1, 1, 2])):
            k, other = rng.randrange(len(parts)), rng.randrange(len(parts))
            changed[k] = rng.choice([changed[other], rng.choice(tokens)])
        path.write_text("".join(changed))
        report = read_report(path, ReadOptions(skip_invalid=True))
        assert len(report.diagrams) + len(report.problems) == report.num_records == 1
        assert all(problem.sentence().isprintable() for problem in report.problems)
        accepted += len(report.diagrams)
    assert 50 < accepted < 550


def test_what_a_foreign_graph_holds_is_kept_or_counted(tmp_path):
    graph = networkx.DiGraph(metadata={"kept": 1}, author="me", year=2020)
    graph.add_node("a", room="Kitchen", colour="red", area=3.5)
    graph.add_node("b", room="LivingRoom", colour="blue")
    graph.add_edge("b", "a", relation="left-of", weight=1.0)
    metadata = {"kept": 1, "author": "me", "year": 2020}
    assert from_networkx(graph).metadata == metadata
    path = tmp_path / "plan.graphml"
    graph.graph["metadata"] = '{"kept": 1}'
    networkx.write_graphml(graph, path)
    report = read_report(path)
    assert report.diagrams[0].metadata == metadata
    assert report.left_out == {"node attributes": 3, "edge attributes": 1}
    assert "3 node attributes left out; 1 edge attribute left out" in report.summary()
    path.write_text(to_graphml(PLAN))
    assert read_report(path).left_out == {}


def test_a_graph_attribute_that_contradicts_the_metadata_is_refused():
    graph = to_networkx(PLAN)
    graph.graph["name"] = "b"
    with pytest.raises(ValueError, match="'name': is both a graph attribute and a key of the"):
        from_networkx(graph)
    text = to_graphml(PLAN).replace("metadata", "rooms")
    with pytest.raises(ValueError, match="'rooms' is taken by the diagram itself"):
        from_graphml(text)


def test_a_wrong_code_of_another_table_names_its_node():
    graph = networkx.DiGraph()
    graph.add_nodes_from([("hall", {"room": 1}), ("shed", {"room": 5})])
    with pytest.raises(ValueError, match=r"node 'shed'.*code 5, a room that is missing"):
        read_networkx(graph, codes="housegan")
    graph.nodes["shed"]["room"] = 17
    with pytest.raises(ValueError, match=r"node 'shed'.*code 17 is a door"):
        read_networkx(graph, codes="houseganpp")
