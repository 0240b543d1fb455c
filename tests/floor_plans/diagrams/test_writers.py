"""What is written is read back: every format a file can have, and files whole or not at all."""

from __future__ import annotations

import json

import pytest
from diagram_strategies import diagrams
from hypothesis import given, settings
from hypothesis import strategies as st

from floor_plans import BubbleDiagram, read_diagrams, write_diagrams
from floor_plans.diagrams.files.graph_formats import write_each, write_graphml, write_json_list

PLAN = BubbleDiagram((0, 2), ((0, 1, 2),))
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
    write_diagrams(path, [PLAN])
    assert json.loads(path.read_text()) == {
        "rooms": ["LivingRoom", "Kitchen"],
        "relations": [[0, 1, "left-of"]],
    }
    before = path.read_bytes()
    wrong = BubbleDiagram((0,), (), metadata={"score": float("nan")})
    for write in (write_diagrams, write_json_list):
        with pytest.raises(ValueError, match="diagram 1: its metadata cannot be written as JSON"):
            write(path, [PLAN, wrong])
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_of_files_does_not_mix_with_what_is_there(tmp_path):
    folder = tmp_path / "each"
    write_each(folder, ".graphml", [PLAN], write_graphml)
    with pytest.raises(ValueError, match="exists already"):
        write_each(folder, ".graphml", [PLAN], write_graphml)
