"""Graph2Plan's MATLAB file: read exactly, what a diagram does not hold counted, nothing guessed."""

from __future__ import annotations

import re

import numpy as np
import pytest
from diagram_strategies import diagrams
from hypothesis import given, settings
from hypothesis import strategies as st
from mat_files import mat_record, write_mat
from scipy.io import savemat

from floor_plans import BubbleDiagram, read_diagrams
from floor_plans.drawings.readers import ReadOptions, read_report

PLAN = BubbleDiagram((0, 2, 3), ((0, 1, 2), (1, 2, 9)))


@pytest.mark.slow
@settings(max_examples=8)  # each file takes a process
@given(
    st.lists(diagrams(), min_size=1, max_size=40),
    st.sampled_from([np.uint8, np.int32, np.float64, np.int64]),
    st.booleans(),
)
def test_mat_files_round_trip(tmp_path_factory, some, dtype, compress):
    path = tmp_path_factory.getbasetemp() / "data.mat"
    write_mat(path, [mat_record(diagram, dtype) for diagram in some], do_compression=compress)
    report = read_report(path)
    assert report.diagrams == tuple(some)
    assert (report.num_records, report.unit, report.left_out) == (len(some), "records", {})


@pytest.mark.slow
def test_boxes_and_names_are_kept_where_they_fit(tmp_path):
    path = tmp_path / "data.mat"
    boxes = np.array([[0, 0, 9, 9], [9, 0, 20, 9], [0, 9, 20, 300]], dtype=np.uint16)
    records = [
        mat_record(PLAN) | {"gtBoxNew": given, "name": name, "boundary": np.zeros((9, 4))}
        for given, name in [
            (boxes, "17"),
            (boxes[:2], "18"),
            (boxes[:, ::-1], np.array([[19]])),
            (boxes.astype(float) * np.nan, ""),
        ]
    ]
    write_mat(path, records)
    report = read_report(path)
    assert report.diagrams[0].boxes == tuple(map(tuple, boxes.astype(float).tolist()))
    assert [diagram.boxes is None for diagram in report.diagrams] == [False, True, True, True]
    assert [diagram.metadata for diagram in report.diagrams] == [
        {"name": "17"},
        {"name": "18"},
        {"name": "19"},
        {},
    ]
    assert report.left_out == {"unusable boxes": 3}


def test_self_loops_and_repeated_pairs_are_left_out_and_counted(tmp_path):
    path = tmp_path / "data.mat"
    edges = [[0, 1, 2], [1, 1, 5], [0, 1, 3], [1, 0, 7], [2, 1, 0], [2, 2, 0]]
    write_mat(path, [mat_record(PLAN) | {"rEdge": np.array(edges)}, mat_record(PLAN)])
    report = read_report(path)
    assert report.diagrams == (PLAN, PLAN)  # the first row of a pair holds; (2, 1) turns into 9 - 0
    assert report.left_out == {"self-loops": 2, "repeated pairs": 2}
    expected = "2 diagrams from 2 records; 2 self-loops left out; 2 repeated pairs left out"
    assert expected in report.summary()


WRONG = [
    ({"rType": np.array([0, 13])}, "rType[1]", r"room type code 13 is not in 0\.\.12"),
    ({"rType": np.array([14])}, "rType[0]", "14 is not in"),
    ({"rType": np.array([0.5])}, "rType", "expected whole numbers"),
    ({"rType": np.array([np.nan])}, "rType", "expected whole numbers"),
    ({"rType": np.array([1e300])}, "rType", "expected whole numbers"),
    ({"rType": "LivingRoom"}, "rType", "expected whole numbers"),
    ({"rType": np.zeros(0)}, "rType", "at least one room"),
    ({"rType": np.zeros(9)}, "rType", "9 rooms, more than n_max=8; .*--n-max 9"),
    ({"rEdge": np.array([[0, 3, 1]])}, "rEdge[0]", r"pair \(0, 3\): expected rooms in 0\.\.2"),
    ({"rEdge": np.array([[0, 1, 2], [-1, 1, 1]])}, "rEdge[1]", r"pair \(-1, 1\)"),
    ({"rEdge": np.array([[0, 1, 10]])}, "rEdge[0]", r"code 10 is not in 0\.\.9"),
    ({"rEdge": np.array([[0, 1]])}, "rEdge", r"got shape \(1, 2\)"),
    ({"rEdge": np.array([[1j, 1, 2]])}, "rEdge", "got a value of another kind"),
    ({"rEdge": np.array([[2**63, 1, 2]], dtype=np.uint64)}, "rEdge", str(2**63)),
    ({"rEdge": {"a": 1}}, "rEdge", "got a value of another kind"),
]
"""What is changed in a record, the field that is wrong then, and why."""


@pytest.mark.slow
def test_wrong_records_are_named(tmp_path):
    path = tmp_path / "data.mat"
    wrong = [mat_record(PLAN) | change for change, _, _ in WRONG]
    write_mat(path, [mat_record(PLAN), *wrong, mat_record(PLAN)])
    report = read_report(path, ReadOptions(skip_invalid=True))
    assert report.diagrams == (PLAN, PLAN)
    for k, (problem, (_, field, reason)) in enumerate(
        zip(report.problems, WRONG, strict=True), start=2
    ):
        assert (problem.record, problem.field) == (f"record {k}", field)
        assert problem.sentence().startswith(f"{path}, record {k}, field '{field}': ")
        assert re.search(reason, problem.reason)
    with pytest.raises(ValueError, match=f"^{re.escape(report.problems[0].sentence())}$"):
        read_diagrams(path)


@pytest.mark.parametrize(
    ("variables", "got"),
    [
        ({"plans": 1}, r"expected one variable 'data'; it holds \['plans'\]"),
        ({"data": np.zeros((2, 3))}, "'data' is not a struct array"),
        ({"data": "text"}, "'data' is not a struct array"),
        ({"data": {"rType": [0], "edges": []}}, "the struct array 'data' has no field rEdge"),
    ],
)
def test_other_mat_files_are_refused_with_what_they_hold(tmp_path, variables, got):
    path = tmp_path / "data.mat"
    savemat(path, variables)
    with pytest.raises(ValueError, match=got):
        read_diagrams(path)


def test_an_array_without_records_is_no_plan(tmp_path):
    path = tmp_path / "data.mat"
    write_mat(path, [mat_record(PLAN)], shape=(1, 0))
    with pytest.raises(ValueError, match="the file holds no plans"):
        read_diagrams(path)


@pytest.mark.slow
def test_a_mat_file_is_known_by_its_content(tmp_path):
    path = tmp_path / "plans"
    write_mat(tmp_path / "data.mat", [mat_record(PLAN)])
    (tmp_path / "data.mat").rename(path)
    assert read_diagrams(path) == [PLAN]
