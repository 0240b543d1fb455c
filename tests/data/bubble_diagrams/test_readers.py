from __future__ import annotations

import json
import logging
import re
from collections import Counter

import pytest
from diagram_strategies import diagrams
from hypothesis import given
from hypothesis import strategies as st

from discrete_diffusion.data.bubble_diagrams import BubbleDiagram, read_diagrams, write_diagrams
from discrete_diffusion.data.bubble_diagrams.readers import SkippedLine, read_report

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


@given(st.lists(diagrams(decorated=True), min_size=1, max_size=4))
def test_files_round_trip(tmp_path_factory, some):
    path = tmp_path_factory.mktemp("plans") / "new folder" / "plans.jsonl"
    write_diagrams(path, some)
    back = read_diagrams(path)
    assert back == some
    assert [d.metadata for d in back] == [d.metadata for d in some]
    assert [p.name for p in path.parent.iterdir()] == ["plans.jsonl"]


def test_a_file_is_written_with_names_and_whole_or_not_at_all(tmp_path):
    path = tmp_path / "plans.jsonl"
    write_diagrams(path, [PLAN])
    assert json.loads(path.read_text()) == json.loads(GOOD)
    before = path.read_bytes()
    wrong = BubbleDiagram((0,), (), metadata={"score": float("nan")})
    with pytest.raises(ValueError, match="diagram 1: its metadata cannot be written as JSON"):
        write_diagrams(path, [PLAN, wrong])
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"", "line 2: the line is empty"),
        (b"  \t", "line 2: the line is empty"),
        (GOOD[:-5], "line 2: not valid JSON, or cut short"),
        (b"\xff\xfe{}", "line 2: not UTF-8 text: byte 0xff at position 0"),
        (b"[" * 100_000, "line 2: not valid JSON: nested too deeply"),
        (b'{"rooms": [' + b"9" * 5000 + b"]}", "line 2: not valid JSON: "),
        (b"3", "line 2: expected a JSON object, got 3"),
        (b'{"rooms": [true], "relations": []}', r"line 2, field 'rooms\[0\]': .*got True"),
        (b'{"rooms": [1e400], "relations": []}', r"line 2, field 'rooms\[0\]': .*got inf"),
        (b'{"rooms": ["\\ud800"], "relations": []}', r"line 2, field 'rooms\[0\]': unknown room"),
        (b'{"rooms": [0, 0], "relations": [[0, 1, 12]]}', r"line 2, field 'relations\[0\]': "),
        (b'{"rooms": [0], "boxes": [[0, NaN, 1, 1]]}', r"line 2, field 'boxes\[0\]\[1\]': nan"),
        (b'{"rooms": [0], "boxes": [[0, 0, -1, 1]]}', r"line 2, field 'boxes\[0\]': expected x0"),
        (b'{"rooms": [0], "boxes": [[0, 0, 1' + b"0" * 400 + b", 1]]}", r"'boxes\[0\]\[2\]'"),
        (b'{"rooms": [0,0,0,0,0,0,0,0,0], "relations": []}', "field 'rooms': 9 rooms.* n_max=8"),
    ],
)
def test_a_wrong_line_is_one_sentence_or_one_entry_of_the_report(write, line, message):
    path = write(GOOD, line, GOOD)
    with pytest.raises(ValueError, match=message) as caught:
        read_diagrams(path)
    assert str(caught.value).startswith(f"{path}, line 2")
    assert "\n" not in str(caught.value)
    report = read_report(path, skip_invalid=True)
    assert report.diagrams == (PLAN, PLAN)
    assert report.num_lines == 3
    assert [entry.line for entry in report.skipped] == [2]
    assert report.skipped[0].sentence(path) == str(caught.value)


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


@given(st.dictionaries(keys, json_values))
def test_no_json_raises_anything_but_a_value_error(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "values.jsonl"
    path.write_text(json.dumps(data))
    report_or_sentence(path)


def report_or_sentence(path):
    report = read_report(path, skip_invalid=True)
    assert report.num_lines == len(report.diagrams) + len(report.skipped) + report.num_duplicates
    if report.skipped:
        sentence = report.skipped[0].sentence(path)
        with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
            read_report(path)
    else:
        assert read_report(path) == report


def test_what_is_left_out_is_counted_and_logged(write, caplog):
    path = write(GOOD, b"{", DUPLICATE, GOOD)
    report = read_report(path, skip_invalid=True)
    assert (report.num_lines, report.num_duplicates) == (4, 1)
    assert [type(entry) for entry in report.skipped] == [SkippedLine]
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
    with pytest.raises(ValueError, match="is a folder"):
        read_diagrams(tmp_path)
    with pytest.raises(ValueError, match="the file is empty"):
        read_diagrams(write(b""))


def test_arguments_reach_the_lines(write):
    nine = b'{"rooms": [0,0,0,0,0,0,0,0,0], "relations": []}'
    assert read_diagrams(write(nine), n_max=9)[0].num_rooms == 9
    apart = b'{"rooms": [0, 0], "boxes": [[0, 0, 1, 1], [20, 0, 21, 1]]}'
    assert read_diagrams(write(apart))[0].relations == ()
    assert read_diagrams(write(apart), threshold=19)[0].relations == ((0, 1, 2),)


def test_the_rendered_plans(real_data):
    report = read_report(real_data / "rplan_render_999" / "plans.jsonl")
    assert (report.num_lines, report.num_duplicates, len(report.diagrams)) == (999, 21, 978)
    assert report.skipped == ()
    assert len({diagram.canonical_key() for diagram in report.diagrams}) == 943
    assert Counter(diagram.num_rooms for diagram in report.diagrams).keys() == set(range(4, 9))
    assert all(
        diagram.rooms.count(1) == (7 in diagram.rooms or 1 in diagram.rooms)
        for diagram in report.diagrams
    )  # one master room wherever there is a bedroom
