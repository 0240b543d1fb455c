from __future__ import annotations

import gzip
import json
import random
import re
from collections import Counter

import networkx
import pytest
from diagram_strategies import diagrams
from hypothesis import given, settings
from hypothesis import strategies as st

from floor_plans import BubbleDiagram, read_diagrams, write_diagrams
from floor_plans.diagrams.files.graph_formats import (
    from_graphml,
    from_networkx,
    read_networkx,
    to_graphml,
    to_networkx,
    write_each,
    write_graphml,
    write_json_list,
)
from floor_plans.diagrams.vocabulary import ADJACENCY, RELATIONS
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


PAIR = BubbleDiagram((0, 2), ((0, 1, 2),))
some_diagrams = st.lists(diagrams(decorated=True), min_size=1, max_size=4)


def assert_read_back(path, expected, **options):
    back = read_diagrams(path, **options)
    assert back == expected
    assert [d.metadata for d in back] == [d.metadata for d in expected]


@pytest.mark.slow
@settings(max_examples=25)
@given(some_diagrams, st.booleans())
def test_json_files_round_trip(tmp_path_factory, some, names):
    folder = tmp_path_factory.mktemp("plans") / "new folder"
    write_diagrams(folder / "plans.jsonl", some, names=names)
    write_json_list(folder / "plans.json", some, names=names)
    assert sorted(p.name for p in folder.iterdir()) == ["plans.json", "plans.jsonl"]
    for name in ("plans.json", "plans.jsonl"):
        assert_read_back(folder / name, some)
    assert isinstance(json.loads((folder / "plans.json").read_text()), list)
    first = json.loads((folder / "plans.jsonl").read_text().splitlines()[0])
    assert type(first["rooms"][0]) is (str if names else int)


@pytest.mark.slow
@settings(max_examples=25)
@given(some_diagrams)
def test_graphml_folders_round_trip(tmp_path_factory, some):
    folder = tmp_path_factory.mktemp("plans") / "each"
    write_each(folder, ".graphml", some, write_graphml)
    assert sorted(p.name for p in folder.iterdir()) == [
        f"{k:04}.graphml" for k in range(1, len(some) + 1)
    ]
    assert_read_back(folder, some)


def test_a_file_is_written_with_names_and_whole_or_not_at_all(tmp_path):
    path = tmp_path / "plans.jsonl"
    write_diagrams(path, [PAIR])
    assert json.loads(path.read_text()) == {
        "rooms": ["LivingRoom", "Kitchen"],
        "relations": [[0, 1, "left-of"]],
    }
    before = path.read_bytes()
    wrong = BubbleDiagram((0,), (), metadata={"score": float("nan")})
    for write in (write_diagrams, write_json_list):
        with pytest.raises(ValueError, match="diagram 1: its metadata cannot be written as JSON"):
            write(path, [PAIR, wrong])
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_of_files_does_not_mix_with_what_is_there(tmp_path):
    folder = tmp_path / "each"
    write_each(folder, ".graphml", [PAIR], write_graphml)
    with pytest.raises(ValueError, match="exists already"):
        write_each(folder, ".graphml", [PAIR], write_graphml)


CUBI_PLAN = {
    "file_path": "/plans/7/",
    "room_type_count": {"Entry": 1, "Bath": 2, "Dining": 1},
    "graph": {
        "Entry_1": {"Bath_1": 2, "Dining_1": 1},
        "Bath_1": {"Entry_1": 2},
        "Bath_2": {},
        "Dining_1": {"Entry_1": 1},
    },
    "diameter": 2,
}


@pytest.mark.parametrize("name", ["data.json", "data.json.gz"])
def test_an_object_of_plans_by_id(tmp_path, name):
    path = tmp_path / name
    text = json.dumps({"7": CUBI_PLAN, "8": CUBI_PLAN}).encode()
    path.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    first, second = read_diagrams(path)
    assert first == second
    assert first.vocabulary is ADJACENCY
    assert first.room_names == ("Entrance", "Bathroom", "Bathroom", "DiningRoom")
    relations = [(i, j, RELATIONS[r]) for i, j, r in first.relations]
    assert relations == [(0, 1, "door"), (0, 3, "adjacent")]
    assert first.metadata == {"name": "7", "file_path": "/plans/7/", "diameter": 2}
    (tmp_path / "lines.jsonl").write_text(f"{json.dumps(CUBI_PLAN)}\n" * 2)
    assert read_diagrams(tmp_path / "lines.jsonl") == [first, first]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"graph": {}}, r"'graph': expected an object with the neighbours"),
        ({"room_type_count": {"Entry": 4}}, r"'room_type_count': says .*'Entry': 4.*but the graph"),
        (
            {"graph": {"Pool_1": {}}, "room_type_count": {"Pool": 1}},
            r"'graph\[Pool_1\]': unknown room type 'Pool'",
        ),
        (
            {"graph": {"Bath_1": {"Entry_1": 3}, "Entry_1": {}}, "room_type_count": None},
            "says None",
        ),
        (
            {"graph": {"Bath_1": {"Bath_2": 3}, "Bath_2": {}}, "room_type_count": {"Bath": 2}},
            r"'graph\[Bath_1\]\[Bath_2\]': expected 1 .* or 2 .*, got 3",
        ),
        (
            {
                "graph": {"Bath_1": {"Bath_2": 1}, "Bath_2": {"Bath_1": 2}},
                "room_type_count": {"Bath": 2},
            },
            r"'graph\[Bath_2\]\[Bath_1\]': 2, but graph\[Bath_1\]\[Bath_2\] is 1",
        ),
        (
            {"graph": {"Bath_1": {"Bath_1": 1}}, "room_type_count": {"Bath": 1}},
            "'Bath_1' is not another room of the plan",
        ),
        ({"graph": {"Bath_1": 2}, "room_type_count": {"Bath": 1}}, "expected an object, got 2"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, change, message):
    path = tmp_path / "data.json"
    path.write_text(json.dumps({"7": CUBI_PLAN, "x9": CUBI_PLAN | change}))
    with pytest.raises(ValueError, match=rf"data.json, plan x9, field {message}|{message}"):
        read_diagrams(path)
    report = read_report(path, ReadOptions(skip_invalid=True))
    assert len(report.diagrams) == 1
    assert report.problems[0].record == "plan x9"


def test_larger_plans_are_counted(tmp_path):
    path = tmp_path / "data.json"
    path.write_text(json.dumps({"7": CUBI_PLAN}))
    with pytest.raises(
        ValueError, match=r"4 rooms, more than max_nodes=3; allow more with data.max_nodes"
    ):
        read_diagrams(path, max_nodes=3)
    report = read_report(path, ReadOptions(max_nodes=3, skip_invalid=True))
    assert "0 diagrams from 1 plan; 1 invalid left out" in report.counts()


@pytest.mark.slow
def test_the_real_plans(real_data):
    path = real_data / "cubigraph5k" / "data.json.gz"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    report = read_report(path, ReadOptions(max_nodes=33, vocabulary=ADJACENCY))
    assert len(report.diagrams) == report.num_records == 3493
    sizes = Counter(diagram.num_rooms for diagram in report.diagrams)
    assert max(sizes) == 33
    assert sum(sizes[n] for n in range(2, 9)) == 1631
    relations = Counter(RELATIONS[r] for d in report.diagrams for _, _, r in d.relations)
    assert relations == {"door": 24563, "adjacent": 9180}
