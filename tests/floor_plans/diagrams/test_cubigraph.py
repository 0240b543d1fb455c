"""Plans of CubiGraph5K, read as they are."""

from __future__ import annotations

import gzip
import json
from collections import Counter

import pytest

from floor_plans import read_diagrams
from floor_plans.diagrams.vocabulary import ADJACENCY, RELATIONS
from floor_plans.drawings.readers import ReadOptions, read_report

PLAN = {
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
    text = json.dumps({"7": PLAN, "8": PLAN}).encode()
    path.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    first, second = read_diagrams(path)
    assert first == second
    assert first.vocabulary is ADJACENCY
    assert first.room_names == ("Entrance", "Bathroom", "Bathroom", "DiningRoom")
    relations = [(i, j, RELATIONS[r]) for i, j, r in first.relations]
    assert relations == [(0, 1, "door"), (0, 3, "adjacent")]
    assert first.metadata == {"name": "7", "file_path": "/plans/7/", "diameter": 2}
    (tmp_path / "lines.jsonl").write_text(f"{json.dumps(PLAN)}\n" * 2)
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
    path.write_text(json.dumps({"7": PLAN, "x9": PLAN | change}))
    with pytest.raises(ValueError, match=rf"data.json, plan x9, field {message}|{message}"):
        read_diagrams(path)
    report = read_report(path, ReadOptions(skip_invalid=True))
    assert len(report.diagrams) == 1
    assert report.problems[0].record == "plan x9"


def test_larger_plans_are_counted(tmp_path):
    path = tmp_path / "data.json"
    path.write_text(json.dumps({"7": PLAN}))
    with pytest.raises(ValueError, match=r"4 rooms, more than n_max=3; allow more with data.n_max"):
        read_diagrams(path, n_max=3)
    report = read_report(path, ReadOptions(n_max=3, skip_invalid=True))
    assert "0 diagrams from 1 plan; 1 invalid left out" in report.counts()


@pytest.mark.slow
def test_the_real_plans(real_data):
    path = real_data / "cubigraph5k" / "data.json.gz"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    report = read_report(path, ReadOptions(n_max=33, vocabulary=ADJACENCY))
    assert len(report.diagrams) == report.num_records == 3493
    sizes = Counter(diagram.num_rooms for diagram in report.diagrams)
    assert max(sizes) == 33
    assert sum(sizes[n] for n in range(2, 9)) == 1631
    relations = Counter(RELATIONS[r] for d in report.diagrams for _, _, r in d.relations)
    assert relations == {"door": 24563, "adjacent": 9180}
