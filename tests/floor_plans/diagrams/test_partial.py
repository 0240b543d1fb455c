from __future__ import annotations

import gzip
import json
import re

import pytest
import torch
from diagram_strategies import diagrams
from hypothesis import given
from hypothesis import strategies as st

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.layout import VocabConfig
from floor_plans import BubbleDiagram, PartialDiagram, encode, generate_plans, read_partials
from floor_plans.diagrams.partial import decode_partial, encode_partial
from floor_plans.drawings.readers import numbered_partials
from plan_examples import agrees

GOOD = {"rooms": ["LivingRoom", None, 2], "relations": [[2, 0, "left-of"], [0, 1, "no-edge"]]}
VOCAB = VocabConfig(n_max=8)


@st.composite
def partials(draw):
    """Some of a diagram's rooms and relations, "no-edge" ones too."""
    whole = PartialDiagram.from_diagram(draw(diagrams()))
    rooms = tuple(room if draw(st.booleans()) else None for room in whole.rooms)
    relations = tuple(relation for relation in whole.relations if draw(st.booleans()))
    return PartialDiagram(rooms, relations)


@pytest.fixture
def write(tmp_path):
    def write_lines(*lines):
        path = tmp_path / "partial.jsonl"
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    return write_lines


def test_what_a_line_says(write):
    (partial,) = read_partials(write(json.dumps({**GOOD, "flat": 7})))
    assert partial == PartialDiagram((0, None, 2), ((0, 1, 10), (0, 2, 7)))  # told from room 0
    assert partial.metadata == {"flat": 7}
    assert partial.num_rooms == 3
    assert not partial.is_complete


def test_null_and_silence_say_the_same(write):
    silent = {"rooms": [0, 1], "relations": []}
    null = {"rooms": [0, 1], "relations": [[0, 1, None]]}
    nothing, less = {"rooms": [0, 1], "relations": None}, {"rooms": [0, 1]}
    read = read_partials(write(*map(json.dumps, (silent, null, nothing, less))))
    assert read == [PartialDiagram((0, 1), ())] * 4


def test_other_keys_are_metadata(write):
    kept = {"num_rooms": 2, "relative": 1, "edges": [], "flat": {"room": 1}, "location": "x"}
    (partial,) = read_partials(write(json.dumps({"rooms": [0, 1], **kept})))
    assert partial.metadata == kept


def test_other_keys_are_reported_but_for_labels(write, caplog):
    lines = [{"rooms": [0, 1], "boundary": [1], "name": "a"}] * 2 + [{"rooms": [0], "id": 3}]
    read_partials(write(*map(json.dumps, [*lines, {"rooms": [0], "area": 2, "given": 1}])))
    (message,) = [record.getMessage() for record in caplog.records]
    assert "'boundary' (2 lines), 'area' (1 line)" in message
    assert "name" not in message
    caplog.clear()
    read_partials(write(json.dumps(lines[2])))
    assert not caplog.records


def test_a_gzipped_file_is_read(write):
    path = write("", json.dumps(GOOD))
    path.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    assert list(numbered_partials(path)) == [2]
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match=f"{path}: a damaged gzip file"):
        read_partials(path)


def test_blank_lines_are_skipped_and_counted(write):
    path = write("", json.dumps(GOOD), "  ", "\t", json.dumps({"rooms": [3]}), "")
    assert list(numbered_partials(path)) == [2, 5]
    assert [partial.num_rooms for partial in read_partials(path)] == [3, 1]
    with pytest.raises(ValueError, match="line 3, field 'rooms': missing"):
        read_partials(write("", json.dumps(GOOD), "{}"))
    with pytest.raises(ValueError, match="the file is empty"):
        read_partials(write("", " "))


@pytest.mark.slow
@given(partials())
def test_tokens_round_trip(partial):
    tokens = encode_partial([partial])
    assert decode_partial(tokens) == [partial]
    real = VOCAB.real_positions(torch.tensor([partial.num_rooms]))
    assert torch.equal(tokens != VOCAB.pad_id, real)
    unknown = partial.rooms.count(None) + real.sum() - partial.num_rooms
    assert (tokens == VOCAB.mask_id).sum() == unknown - len(partial.relations)


def test_plans_are_no_contradictions_and_round_trip_through_json():
    """Whatever of a plan is left out: it was drawn once, so it can be drawn."""
    generator = make_generator(0)
    for plan in generate_plans(200, seed=0):
        whole = PartialDiagram.from_diagram(plan)
        kept = torch.rand(len(whole.relations) + plan.num_rooms, generator=generator) < 0.7
        partial = PartialDiagram(
            tuple(r if kept[k] else None for k, r in enumerate(whole.rooms)),
            tuple(r for k, r in enumerate(whole.relations, plan.num_rooms) if kept[k]),
        )
        for given_back in (whole, partial):
            assert PartialDiagram.from_json(given_back.to_json()) == given_back
        assert agrees(partial, plan)


@pytest.mark.slow
@given(diagrams(decorated=True))
def test_all_of_a_diagram_is_its_tokens(diagram):
    partial = PartialDiagram.from_diagram(diagram)
    assert partial.is_complete
    assert agrees(partial, diagram)
    assert torch.equal(encode_partial([partial]), encode([diagram]).x0)
    assert partial.metadata == diagram.metadata


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: not valid JSON, or cut short: it ends too early, after '{'"),
        (
            '{"rooms": [0, null], "relations": [[0, 1, "left-of"]',
            """cut short: it ends too early, after '...: [[0, 1, "left-of"]'""",
        ),
        ("3", "line 2: expected a JSON object, got 3"),
        ({"relations": []}, "line 2, field 'rooms': missing"),
        ({"rooms": [0], "relations": {}}, "line 2, field 'relations': expected a list, got {}"),
        ({"rooms": [0], "relation": []}, "field 'relation': unknown; did you mean 'relations'?"),
        ({"rooms": [0], "relationships": []}, "field 'relationships': unknown; did you mean 'rel"),
        ({"rooms": [0], "Relations": []}, "field 'Relations': unknown; did you mean 'relations'?"),
        ({"roooms": [0]}, "field 'roooms': unknown; did you mean 'rooms'?"),
        ({"rooms": [0], "relations": [], "roomz": 1}, "'roomz': unknown; did you mean 'rooms'?"),
        (
            {"rooms": [0], "given": "mine"},
            "field 'given': completions keep the number of their line",
        ),
        ({"rooms": [], "relations": []}, "line 2, field 'rooms': a diagram needs at least one"),
        ({"rooms": [0] * 9, "relations": []}, "'rooms': 9 rooms, more than the 8 that the model"),
        ({"rooms": ["Kitchn"], "relations": []}, "'rooms[0]': unknown room type 'Kitchn'; did you"),
        ({"rooms": [0, 1], "relations": [[0, 1, "leftof"]]}, "did you mean 'left-of'?"),
        ({"rooms": [0, 1], "relations": [[0, 2, None]]}, "'relations[0]': pair (0, 2)"),
        ({"rooms": [0], "boxes": [[0, 0, 1, 1]]}, "field 'boxes': a partial diagram has none"),
        ('{"rooms": [0], "relations": [], "rooms": [1]}', "given twice in one object"),
        ('{"rooms": [0], "relations": [], "score": NaN}', "'score': nan is not a finite number"),
    ],
)
def test_a_wrong_line_is_named(write, line, message):
    path = write(json.dumps(GOOD), line if isinstance(line, str) else json.dumps(line))
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        read_partials(path)
    assert str(caught.value).startswith(f"{path}, line 2")


@pytest.mark.parametrize(
    ("relations", "message"),
    [
        (
            [[0, 1, "above"], [0, 2, "left-of"], [2, 0, "left-of"]],
            "'relations[2]': rooms 2 and 0: left-of, but relations[1] says right-of",
        ),
        (
            [[0, 1, 2], [1, 0, 7]],
            "'relations[1]': rooms 1 and 0 are listed twice, see relations[0]",
        ),
        ([[0, 1, 2], [0, 1, "no-edge"]], "rooms 0 and 1: no-edge, but relations[0] says left-of"),
        (
            [[0, 1, "left-of"], [3, 0, "above"], [1, 2, "left-above"], [2, 0, "left-below"]],
            "'relations[3]': room 2 left-below room 0 contradicts relations[0] (room 0 left-of "
            "room 1), relations[2] (room 1 left-above room 2): room 2 would be left of itself",
        ),
        ([[0, 1, "above"], [2, 1, "below"], [2, 0, "right-above"]], "room 2 would be above itself"),
        (
            [[0, 1, "inside"], [2, 1, "surrounding"], [2, 0, "inside"]],
            "'relations[2]': room 2 inside room 0 contradicts relations[0] (room 0 inside room 1), "
            "relations[1] (room 2 surrounding room 1): room 2 would be inside itself",
        ),
    ],
)
def test_contradictions_name_both_sides(write, relations, message):
    line = {"rooms": [None] * 4, "relations": relations}
    path = write(json.dumps(GOOD), json.dumps(GOOD), json.dumps(line))
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        read_partials(path)
    assert str(caught.value).startswith(f"{path}, line 3, field 'relations[")


def test_orders_that_do_not_close_are_fine(write):
    relations = [[0, 1, "left-above"], [1, 2, "left-below"], [0, 2, "left-of"], [3, 0, "inside"]]
    (partial,) = read_partials(write(json.dumps({"rooms": [None] * 4, "relations": relations})))
    assert len(partial.relations) == 4


def test_files_that_hold_nothing(tmp_path, write):
    with pytest.raises(FileNotFoundError, match="no file of partial diagrams at"):
        read_partials(tmp_path / "nowhere.jsonl")
    with pytest.raises(ValueError, match="is a folder"):
        read_partials(tmp_path)
    with pytest.raises(ValueError, match="the file is empty"):
        read_partials(write())


@pytest.mark.parametrize(
    ("rooms", "relations", "message"),
    [
        ((), (), "at least one room"),
        ((17,), (), r"rooms\[0\].*17 is not in"),
        ((0, 1), ((1, 0, 2),), r"relations\[0\].*expected i < j < 2"),
        ((0, 2), ((0, 1, 13),), "a code 0..12"),
        ((0, 1), ((0, 1, 11),), r"rooms\[1\].*'MasterRoom' is not a room type"),
        ((0, 1), ((0, 1, 2), (0, 1, 3)), "listed twice"),
    ],
)
def test_construction_is_checked(rooms, relations, message):
    with pytest.raises(ValueError, match=message):
        PartialDiagram(rooms, relations)


def test_a_null_entry_says_nothing_of_a_pair_that_another_speaks_of(write):
    line = {"rooms": [0, 1], "relations": [[0, 1, "no-edge"], [1, 0, None]]}
    (partial,) = read_partials(write(json.dumps(line)))
    assert partial.relations == ((0, 1, 10),)


def test_boxes_would_not_be_those_of_the_completions():
    with pytest.raises(ValueError, match="'boxes': a partial diagram has none"):
        PartialDiagram((0, None), (), {"boxes": [[0, 0, 1, 1]] * 2})
    plan = BubbleDiagram((0, 1), ((0, 1, 2),), boxes=((0, 0, 1, 1), (1, 0, 2, 1)))
    assert PartialDiagram.from_diagram(plan).to_json().keys() == {"rooms", "relations"}


def test_foreign_tokens_are_refused():
    tokens = encode_partial([PartialDiagram((0, None), ())])
    tokens[0, 0] = 20
    with pytest.raises(ValueError, match="sample 0, position 0"):
        decode_partial(tokens)
