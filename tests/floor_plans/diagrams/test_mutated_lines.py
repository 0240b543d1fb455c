"""10,000 mutated plans: each is read, or refused with a sentence; none is lost, nothing crashes."""

from __future__ import annotations

import json
import random
import re
from collections import Counter

import pytest

from floor_plans import generate_plans, read_diagrams, write_diagrams
from floor_plans.diagrams.files.foreign_files import RepeatedKeys, load_plan_json
from floor_plans.drawings.readers import ReadOptions, read_report

NUM_MUTANTS = 10_000
TOKENS = [
    "null", "true", "NaN", "-Infinity", "1e999", "-0.0", "1" * 5000, "1" * 400, "9007199254740993",
    '"\\ud800"', '"\\u0000"', '"Livingroom"', '"no-edge"', "[]", "{}", "[[[]]]", "[" * 200,
    "]" * 200, '{"a": 1, "a": 2}', "2.5", "-1", "13", "16", "0", '"rooms": [1],', '"rel": [],', '"',
]  # fmt: skip
VALUES = [
    None, True, 0, 2, 3, 7, 12, 13, -1, 10**30, 0.5, float("nan"), float("inf"), "Kitchen", "above",
    "no-edge", "kitchn", "\ud800", "", [], {}, [[0, 1, 2]], [0.0, 0.0, 5.0, 5.0], {"a": [None]},
]  # fmt: skip
KEYS = ["rooms", "relations", "boxes", "room_type", "rel", "ed_rm", "area_px", "duplicate", "doors"]
KEYS += ["a\nb", "\ud800", "k" * 500, ""]
BYTES = [b"\x00", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\\", b'"', b"\r", b"\t"]


def valid_lines() -> list[bytes]:
    """Lines of every format that a plan in JSON can have."""
    lines = []
    for plan in generate_plans(12, seed=4):
        boxes = [list(box) for box in plan.boxes]
        size = plan.num_rooms
        objects = [
            plan.to_json() | {"name": "a", "tags": [1, {"b": 0.5}]},
            plan.to_json(names=False),
            {"rooms": list(plan.room_names), "boxes": boxes},
            {"room_type": list(plan.rooms), "boxes": boxes},
            {
                "room_type": [room % 6 for room in range(size)],
                "boxes": boxes,
                "rel": [list(triple) for triple in plan.relations],
                "area_px": [100 + k for k in range(size)],
                "duplicate": size == 8,
            },
            {
                "room_type": [1, 3, 3, *range(4, size), 17, 15][: size + 1],
                "boxes": [*boxes, [0.0, 0.0, 2.0, 9.0]],
                "edges": [[0.0, 0.0, 1.0, 1.0, 3, 0]],
                "ed_rm": [[0]],
            },
        ]
        lines += [json.dumps(data).encode() for data in objects]
    return lines


def mutated(line: bytes, rng: random.Random) -> bytes:
    """A line with one to three changes; it may end up valid, or as two lines, or empty."""
    for _ in range(rng.choice([1, 1, 2, 3])):
        at, end = sorted(rng.randrange(len(line) + 1) for _ in range(2))
        kind = rng.randrange(18)
        if kind == 0 and at < len(line):
            line = line[:at] + bytes([line[at] ^ (1 << rng.randrange(8))]) + line[at + 1 :]
        elif kind == 1:
            line = line[:at] + line[min(end, at + rng.randrange(1, 20)) :]
        elif kind == 2:
            line = line[:at] + rng.choice(BYTES) + line[at:]
        elif kind == 3:
            line = line[:at]
        elif kind == 4:
            line = line[:at] + line[at:end] * 2 + line[end:]
        elif kind < 8 or not is_object(line):
            line = with_other_token(line, rng)
        else:
            line = with_other_value(line, rng)
    return line


def with_other_value(line: bytes, rng: random.Random) -> bytes:
    """The same JSON with another value somewhere, or a key more, fewer or renamed."""
    data = json.loads(line.removeprefix(b"\xef\xbb\xbf"))
    node, kind = data, rng.randrange(8)
    if kind == 0:
        data[rng.choice(KEYS)] = rng.choice(VALUES)
    elif kind == 1 and data:
        data.pop(rng.choice(list(data)))
    elif kind == 2 and data:
        data[rng.choice(KEYS)] = data.pop(rng.choice(list(data)))
    else:
        for _ in range(rng.randrange(4)):  # down into lists and objects
            inner = list(node.values()) if isinstance(node, dict) else node
            inner = [value for value in inner if isinstance(value, list | dict) and value]
            node = rng.choice(inner) if inner else node
        if node:
            keys = list(node) if isinstance(node, dict) else range(len(node))
            node[rng.choice(keys)] = rng.choice(VALUES)
    return json.dumps(data).encode()


def with_other_token(line: bytes, rng: random.Random) -> bytes:
    """A number, name or bracket replaced by another token, swapped with one, or doubled."""
    tokens = re.split(r"([\[\],:{}])", line.decode("latin-1"))
    k, other = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    kind = rng.randrange(4)
    if kind == 0:
        tokens[k], tokens[other] = tokens[other], tokens[k]
    elif kind == 1:
        tokens[k:k] = tokens[other : other + 6]
    else:
        tokens[k] = rng.choice(TOKENS)
    return "".join(tokens).encode("latin-1")


@pytest.fixture(scope="module")
def mutants() -> list[bytes]:
    rng, lines = random.Random(0), valid_lines()
    return [mutated(lines[k % len(lines)], rng) for k in range(NUM_MUTANTS)]


def test_valid_lines_are_valid(tmp_path):
    path = tmp_path / "plans.jsonl"
    path.write_bytes(b"\n".join(valid_lines()))
    report = read_report(path)
    assert report.num_records == 72
    assert len(report.diagrams) + report.num_duplicates == 72


@pytest.mark.slow
def test_every_mutant_is_accounted_for_and_what_is_accepted_round_trips(tmp_path, mutants):
    path, copy = tmp_path / "plans.jsonl", tmp_path / "copy.jsonl"
    content = b"\n".join(mutants)
    path.write_bytes(content)
    report = read_report(path, ReadOptions(skip_invalid=True, room_codes="rplan"))
    lines = content.split(b"\n")
    num_lines = sum(bool(line.removeprefix(b"\xef\xbb\xbf").strip()) for line in lines)
    assert report.num_records == num_lines >= NUM_MUTANTS - 50
    accepted = len(report.diagrams)
    assert accepted + len(report.problems) + report.num_duplicates == report.num_records
    assert 500 < accepted < NUM_MUTANTS - 5000  # the test would be idle at either end
    for problem in report.problems:
        sentence = problem.sentence()
        assert sentence.startswith(f"{path}, {problem.record}")
        assert sentence.isprintable()
        assert len(sentence) < len(str(path)) + 600
        line = lines[int(problem.record.removeprefix("line ")) - 1]
        assert bool(problem.field) == is_object(line), sentence
    write_diagrams(copy, report.diagrams)
    back = read_diagrams(copy)
    assert tuple(back) == report.diagrams
    assert [d.metadata for d in back] == [d.metadata for d in report.diagrams]
    kinds = Counter(problem.field.split("[")[0] for problem in report.problems)
    assert {"", "rooms", "relations", "boxes", "room_type", "rel", "area_px"} <= set(kinds)


def is_object(line: bytes) -> bool:
    """Whether a line is a JSON object, by Python's own parser."""
    try:
        return isinstance(json.loads(line.removeprefix(b"\xef\xbb\xbf").decode()), dict)
    except (ValueError, RecursionError):
        return False


def test_the_strict_reading_ends_at_the_first_problem_with_its_sentence(tmp_path, mutants):
    path = tmp_path / "plan.jsonl"
    for line in mutants[::50]:
        path.write_bytes(line or b"\n")
        report = read_report(path, ReadOptions(skip_invalid=True, room_codes="rplan"))
        if not report.problems:
            assert read_report(path, ReadOptions(room_codes="rplan")) == report
            continue
        with pytest.raises(ValueError, match=re.escape(report.problems[0].sentence())):
            read_report(path, ReadOptions(room_codes="rplan"))


def test_a_key_given_twice_is_never_dropped_silently():
    for text in ('{"a": 1, "b": 2, "a": 1}', '{"a": {}, "a": []}'):
        data = load_plan_json(text.encode())
        assert isinstance(data, RepeatedKeys)
        assert data.repeated == "a"
