from __future__ import annotations

import gzip
import json
import logging
import math
import pickle
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from floor_plans import BubbleDiagram, read_diagrams, write_diagrams
from floor_plans.diagrams.files.graph_formats import to_graphml
from floor_plans.drawings.readers import ReadOptions, read_report

GOOD = b'{"rooms": ["LivingRoom", "Kitchen"], "relations": [[0, 1, "left-of"]]}'
PLAN = BubbleDiagram((0, 2), ((0, 1, 2),))
DUPLICATE = b'{"room_type": [0], "boxes": [[0, 0, 1, 1]], "rel": [], "duplicate": true}'


@pytest.fixture
def write(tmp_path):
    def write_bytes(*lines: bytes):
        path = tmp_path / "plans.jsonl"
        path.write_bytes(b"\n".join(lines))
        return path

    return write_bytes


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (GOOD[:-5], "line 2: not valid JSON, or cut short"),
        (b"\xff\xfe{}", "line 2: not UTF-8 text: byte 0xff at position 0"),
        (b"[" * 100_000, "line 2: not valid JSON: nested too deeply"),
        (b'{"rooms": [' + b"9" * 5000 + b"]}", "line 2: not valid JSON: "),
        (b"3", "line 2: expected a JSON object, got 3"),
        (b'{"rooms": [1e400], "relations": []}', r"line 2, field 'rooms\[0\]': .*got inf"),
        (b'{"rooms": ["\\ud800"], "relations": []}', r"line 2, field 'rooms\[0\]': unknown room"),
        (b'{"rooms": [0], "boxes": [[0, NaN, 1, 1]]}', r"line 2, field 'boxes\[0\]\[1\]': nan"),
        (b'{"rooms": [0], "relations": [], "rooms": [1]}', "line 2, field 'rooms': .*given twice"),
        (b'{"rooms": [0], "relations": [], "a": {"b": 1, "b": 2}}', "line 2, field 'b': .*twice"),
        (b'{"rooms": [0], "relations": [], "score": NaN}', "line 2, field 'score': nan is not"),
        (b'{"rooms": [0], "relations": [], "a": ' + b"[" * 99 + b"]" * 99 + b"}", "nested deeper"),
        (
            b'{"rooms": [0,0,0,0,0,0,0,0,0], "relations": []}',
            "field 'rooms': 9 rooms.* max_nodes=8",
        ),
    ],
)
def test_a_wrong_line_is_one_sentence_or_one_entry_of_the_report(write, line, message):
    path = write(GOOD, line, GOOD)
    with pytest.raises(ValueError, match=message) as caught:
        read_diagrams(path)
    assert str(caught.value).startswith(f"{path}, line 2")
    assert "\n" not in str(caught.value)
    report = read_report(path, ReadOptions(skip_invalid=True))
    assert report.diagrams == (PLAN, PLAN)
    assert (report.num_records, report.unit) == (3, "lines")
    assert [problem.record for problem in report.problems] == ["line 2"]
    assert report.problems[0].sentence() == str(caught.value)


@given(st.binary(max_size=60), st.integers(0, len(GOOD)))
def test_no_bytes_raise_anything_but_a_value_error(tmp_path_factory, noise, cut):
    path = tmp_path_factory.getbasetemp() / "noise.jsonl"
    path.write_bytes(GOOD[:cut] + noise + GOOD[cut:])
    report_or_sentence(path)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=5),
    max_leaves=12,
)
keys = st.sampled_from(
    ["rooms", "relations", "boxes", "rel", "room_type", "area_px", "duplicate", "ed_rm", "x"]
)


@pytest.mark.slow
@given(st.dictionaries(keys, json_values))
def test_no_json_raises_anything_but_a_value_error(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "values.jsonl"
    path.write_text(json.dumps(data))
    report_or_sentence(path)


def report_or_sentence(path):
    report = read_report(path, ReadOptions(skip_invalid=True))
    accounted = len(report.diagrams) + len(report.problems) + report.num_duplicates
    assert report.num_records == accounted >= 1
    if report.problems:
        sentence = report.problems[0].sentence()
        with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
            read_report(path)
    else:
        assert read_report(path) == report


def test_what_is_left_out_is_counted_and_logged(write, caplog):
    path = write(GOOD, b"{", DUPLICATE, GOOD)
    report = read_report(path, ReadOptions(skip_invalid=True))
    assert (report.num_records, report.num_duplicates) == (4, 1)
    assert [problem.record for problem in report.problems] == ["line 2"]
    with caplog.at_level(logging.INFO):
        assert read_diagrams(path, skip_invalid=True) == [PLAN, PLAN]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    expected = "2 diagrams from 4 lines; 1 flagged as duplicates left out; 1 invalid left out"
    assert expected in caplog.text


def test_byte_order_mark_and_windows_line_ends_are_read(write):
    assert read_diagrams(write(b"\xef\xbb\xbf" + GOOD + b"\r", GOOD + b"\r", b"")) == [PLAN] * 2


def test_files_that_cannot_be_read_are_named(tmp_path, write):
    with pytest.raises(FileNotFoundError, match=f"no plans file at {tmp_path}/none.jsonl"):
        read_diagrams(tmp_path / "none.jsonl")
    with pytest.raises(
        ValueError, match=r"is a folder without a \.json, .*, \.geojson, \.dxf file"
    ):
        read_diagrams(tmp_path)
    with pytest.raises(ValueError, match="the file is empty"):
        read_diagrams(write(b""))


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("plans.pkl", pickle.dumps({"rooms": [0]}), "a pickle, which is never loaded"),
        (
            "plans.jsonl.gz",
            gzip.compress(GOOD, mtime=0)[:-9],  # or the test's name would change with the clock
            "a damaged gzip file",
        ),
        ("plans.json.gz", b"\x1f\x8b no gzip", "a damaged gzip file"),
        ("plans.tar.gz", gzip.compress(bytes(999), mtime=0), "archive .* unpack it first"),
        ("plans.json", b"", "empty; expected a JSON object"),
        ("plans.json", b"[]", "the list is empty"),
        ("plans.json", b"3", "expected a JSON object, got 3"),
        (
            "plans.json",
            b"[\n" + GOOD + b"\n" + GOOD + b"]",
            "not valid JSON.* at line 3, character 0",
        ),
        ("plan.graphml", b"<graphml", "not a GraphML graph"),
        ("plan.graphml", b"\xff\xff", "'utf-8' codec"),
        ("data.mat", b"", "not a MATLAB file of version 5"),
    ],
)
def test_files_without_a_plan_are_one_problem(tmp_path, name, content, reason):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=reason) as caught:
        read_diagrams(path)
    assert str(caught.value).startswith(f"{path}: ")
    report_or_sentence(path)


@pytest.mark.parametrize(
    "arguments",
    [
        {"max_nodes": 0},
        {"adjacency_threshold": -1},
        {"adjacency_threshold": math.nan},
        {"adjacency_threshold": "near"},
        {"unit": "metre"},
        {"room_codes": "rplann"},
    ],
)
def test_arguments_are_checked(write, arguments):
    with pytest.raises(ValueError, match=f"{next(iter(arguments))}=.*(: expected|did you mean)"):
        read_report(write(GOOD), ReadOptions(**arguments))


def test_json_files_hold_one_plan_a_list_or_lines(tmp_path):
    path = tmp_path / "plans.json"
    pretty = json.dumps(json.loads(GOOD), indent=2).encode()
    for content in (GOOD, pretty, b"\xef\xbb\xbf" + pretty, b"[" + pretty + b"]"):
        path.write_bytes(content)
        assert read_diagrams(path) == [PLAN]
    path.write_bytes(GOOD + b"\n" + DUPLICATE + b"\n{\n" + GOOD)
    report = read_report(path, ReadOptions(skip_invalid=True))
    assert (len(report.diagrams), report.num_duplicates, report.unit) == (2, 1, "lines")
    assert report.problems[0].record == "line 3"
    path.write_bytes(b"[" + GOOD + b', {"rooms": []}, ' + GOOD + b"]")
    report = read_report(path, ReadOptions(skip_invalid=True))
    assert (report.diagrams, report.num_records, report.unit) == ((PLAN, PLAN), 3, "plans")
    assert report.problems[0].sentence().startswith(f"{path}, plan 2, field 'relations'")


def test_a_folder_is_read_in_the_order_of_names_and_errors_name_the_file(tmp_path):
    other = BubbleDiagram((3,), ())
    write_diagrams(tmp_path / "b.jsonl", [other])
    (tmp_path / "a.json").write_bytes(GOOD)
    (tmp_path / "C.GraphML").write_text(to_graphml(other))
    report = read_report(tmp_path)
    assert report.diagrams == (other, PLAN, other)
    assert report.summary() == f"{tmp_path}: 3 diagrams from 3 plans"
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "aa.json").write_bytes(GOOD[:-1])
    with pytest.raises(ValueError, match=f"^{tmp_path}/aa.json: not valid JSON"):
        read_report(tmp_path)
    report = read_report(tmp_path, ReadOptions(skip_invalid=True))
    assert (report.num_records, report.left_out) == (4, {"other files": 1})
    assert "1 other file left out; 1 invalid left out" in report.summary()


def test_gzipped_files_are_read_like_others(tmp_path):
    contents = {
        "lines.jsonl": GOOD + b"\n" + GOOD,
        "list.json": b"[\n" + GOOD + b",\n" + GOOD + b"]",
        "plan.graphml": to_graphml(PLAN).encode(),
    }
    for name, content in contents.items():
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content))
        (tmp_path / "plain").write_bytes(gzip.compress(content))
        found = read_diagrams(tmp_path / f"{name}.gz")
        assert found == [PLAN] * len(found)
        assert name.endswith("graphml") or read_diagrams(tmp_path / "plain") == found
    (tmp_path / "plain").unlink()
    report = read_report(tmp_path)
    assert (report.num_records, report.left_out) == (5, {})
    (tmp_path / "bad.jsonl.gz").write_bytes(gzip.compress(GOOD)[:-9])
    assert len(read_report(tmp_path, ReadOptions(skip_invalid=True)).problems) == 1


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ({"rooms": [0, 2], "boxes": [[0, 0, 9, 9]] * 2, "relation": [[0, 1, 2]]}, "'relations'"),
        ({"rooms": [0, 2], "boxes": [[0, 0, 9, 9]] * 2, "relationship": []}, "'relations'"),
        ({"rooms": [0], "relations": [], "Boxes": [[0, 0, 9, 9]]}, "'boxes'"),
        ({"room": [0], "relations": []}, "'rooms'"),
    ],
)
def test_a_misspelt_key_is_refused(write, line, named):
    with pytest.raises(ValueError, match=f"did you mean {named}"):
        read_diagrams(write(json.dumps(line).encode()))


@pytest.mark.slow
def test_the_rendered_plans(real_data):
    report = read_report(real_data / "rplan_render_999" / "plans.jsonl")
    assert (report.num_records, report.num_duplicates, len(report.diagrams)) == (999, 21, 978)
    assert report.problems == ()
    assert len({diagram.canonical_key() for diagram in report.diagrams}) == 943
    assert Counter(diagram.num_rooms for diagram in report.diagrams).keys() == set(range(4, 9))
    assert all(
        diagram.rooms.count(1) == (7 in diagram.rooms or 1 in diagram.rooms)
        for diagram in report.diagrams
    )  # one master room wherever there is a bedroom


def test_the_house_gan_plans(real_data):
    report = read_report(real_data / "houseganpp_samples")
    assert (report.num_records, report.problems) == (6, ())
    assert [diagram.num_rooms for diagram in report.diagrams] == [6, 6, 5, 6, 7, 7]
    assert report.left_out == {}  # their walls close an outline around every node
    assert report.remarks == ()
    for diagram in report.diagrams:
        assert diagram.rooms.count(0) == diagram.rooms.count(1) == 1
        assert [door["type"] for door in diagram.metadata["doors"]].count("front-door") == 1
    first = report.diagrams[0]  # by hand from its boxes: the kitchen right of the first bedroom
    assert first.room_names[:2] == ("SecondRoom", "Kitchen")
    assert (2, 3, 2) in first.relations  # balcony left of the larger bedroom
