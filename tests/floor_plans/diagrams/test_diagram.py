from __future__ import annotations

import json
from itertools import permutations
from xml.etree import ElementTree

import numpy as np
import pytest
from diagram_strategies import diagrams, relabelled_diagrams
from hypothesis import given

from discrete_diffusion.layout import RELATIONS
from floor_plans import BubbleDiagram, Diagrams, PartialDiagram
from floor_plans.diagrams.files.fields import DiagramError


@pytest.mark.slow
@given(diagrams(decorated=True))
def test_json_round_trip_by_name_and_by_code(diagram):
    for names in (True, False):
        text = json.dumps(diagram.to_json(names=names), allow_nan=False)
        back = BubbleDiagram.from_json(json.loads(text))
        assert back == diagram
        assert back.metadata == diagram.metadata


def test_json_uses_names_and_keeps_other_keys():
    data = {
        "rooms": ["LivingRoom", "Kitchen"],
        "relations": [[0, 1, "left-of"]],
        "boxes": [[0.0, 0.0, 5.0, 5.0], [5.0, 0.0, 9.0, 5.0]],
        "name": "plan 7",
        "tags": [1, None],
    }
    diagram = BubbleDiagram.from_json(data)
    assert (diagram.rooms, diagram.relations) == ((0, 2), ((0, 1, 2),))
    assert diagram.num_rooms == 2
    assert diagram.room_names == ("LivingRoom", "Kitchen")
    assert diagram.metadata == {"name": "plan 7", "tags": [1, None]}
    assert diagram.to_json() == data
    assert diagram.to_json(names=False)["relations"] == [[0, 1, 2]]


def test_json_reads_codes_flipped_pairs_and_no_edge():
    data = {"rooms": [0, "Bathroom", 3], "relations": [[2, 0, "left-above"], [0, 1, 10]]}
    assert BubbleDiagram.from_json(data).relations == ((0, 2, 9),)
    for r, name in enumerate(RELATIONS[:-1]):
        flip_y = BubbleDiagram.from_json({"rooms": [0, 0], "relations": [[1, 0, name]]})
        assert flip_y.relations == ((0, 1, 9 - r),)


def test_a_repr_names_rooms_and_relations():
    short = BubbleDiagram((0, 2, 7, 7), ((0, 1, 2), (1, 3, 7)))
    assert repr(short) == (
        "BubbleDiagram(LivingRoom, Kitchen, SecondRoom 1, SecondRoom 2; "
        "LivingRoom left-of Kitchen, Kitchen right-of SecondRoom 2)"
    )
    assert repr(BubbleDiagram((3,), ())) == "BubbleDiagram(Bathroom)"
    partial = PartialDiagram((0, None, None), ((0, 2, 10),))
    assert repr(partial) == "PartialDiagram(LivingRoom, ? 1, ? 2; LivingRoom no-edge ? 2)"
    pairs = [(i, j, 0) for i in range(20) for j in range(i + 1, 20)]
    assert len(repr(BubbleDiagram((7,) * 20, pairs))) < 600


def test_diagrams_draw_themselves(tmp_path):
    """In a notebook, and into files; a list as many pictures on a page."""
    diagram = BubbleDiagram((0, 2), ((0, 1, 2),))
    both = Diagrams([diagram, BubbleDiagram((3,), ())])
    for shown in (diagram, both):
        root = ElementTree.fromstring(shown._repr_svg_())
        assert root.tag.endswith("}svg")
        shown.plot(tmp_path / "plan.svg")
        assert ElementTree.parse(tmp_path / "plan.svg").getroot().get("viewBox")
        shown.plot(tmp_path / "plan.png")
        assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")
        with pytest.raises(ValueError, match="pdf"):
            shown.plot(tmp_path / "plan.pdf")
    assert Diagrams()._repr_svg_() is None


@pytest.mark.parametrize(
    ("change", "field", "reason"),
    [
        ({"rooms": None}, "rooms", "expected a list"),
        ({"rooms": []}, "rooms", "at least one room"),
        ({"rooms": ["Livingrom", 0]}, "rooms[0]", "did you mean 'LivingRoom'"),
        ({"rooms": [0, 13]}, "rooms[1]", r"code 13 is not in 0\.\.12"),
        ({"rooms": [0, True]}, "rooms[1]", "got True"),
        ({"rooms": [0, None]}, "rooms[1]", "null"),
        ({"relations": {}}, "relations", "expected a list"),
        ({"relations": [[0, 1, 2], [0, 1]]}, "relations[1]", "expected .i, j, relation."),
        ({"relations": [[0, 2, 2]]}, "relations[0]", r"two different rooms in 0\.\.1"),
        ({"relations": [[1, 1, 2]]}, "relations[0]", "two different rooms"),
        ({"relations": [[0, 1, True]]}, "relations[0]", "got True"),
        ({"relations": [[0, 1, 11]]}, "relations[0]", r"code 11 is not in 0\.\.10"),
        ({"relations": [[0, 1, "left"]]}, "relations[0]", "unknown relation 'left'"),
        ({"relations": [[0, 1, 2], [1, 0, 7]]}, "relations[1]", "listed twice"),
        ({"boxes": 3}, "boxes", "expected a list"),
        ({"boxes": [[0, 0, 1, 1]]}, "boxes", "1 boxes for 2 rooms"),
        ({"boxes": [[0, 0, 1, 1], [0, 0, 1]]}, "boxes[1]", "4 numbers"),
        ({"boxes": [[0, 0, 1, 1], [0, float("nan"), 1, 1]]}, "boxes[1][1]", "nan is not a finite"),
        ({"boxes": [[0, 0, 10**400, 1], [0, 0, 1, 1]]}, "boxes[0][2]", "not a finite number"),
        ({"boxes": [[0, 0, 1, 1], [2, 0, 1, 1]]}, "boxes[1]", "x0 <= x1"),
    ],
)
def test_wrong_json_names_the_field(change, field, reason):
    data = {"rooms": ["LivingRoom", "Kitchen"], "relations": [[0, 1, "left-of"]]} | change
    with pytest.raises(DiagramError, match=reason) as caught:
        BubbleDiagram.from_json(data)
    assert caught.value.field == field
    assert f"field '{field}'" in str(caught.value)


def test_missing_fields_and_other_json_values_are_refused():
    with pytest.raises(ValueError, match="'relations': missing"):
        BubbleDiagram.from_json({"rooms": [0]})
    with pytest.raises(ValueError, match="'rooms': missing"):
        BubbleDiagram.from_json({"relations": []})
    with pytest.raises(ValueError, match="expected an object, got"):
        BubbleDiagram.from_json([0])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rooms", "relations", "message"),
    [
        ((), (), "at least one room"),
        ((17,), (), r"rooms\[0\].*code 17 is not in 0\.\.16"),
        (("LivingRoom",), (), r"rooms\[0\]"),
        ((0, 0), ((1, 0, 2),), "expected 0 <= i < j < 2"),
        ((0, 0), ((0, 1, 10),), r"code 10 is not in 0\.\.9"),
        ((0, 0), ((0, 1, 1), (0, 1, 2)), "listed twice"),
        ((0, 0), ((0, 1),), r"relations\[0\]"),
    ],
)
def test_the_constructor_takes_codes_and_refuses_wrong_ones(rooms, relations, message):
    with pytest.raises(ValueError, match=message):
        BubbleDiagram(rooms=rooms, relations=relations)


def test_the_constructor_normalises_numpy_and_order():
    diagram = BubbleDiagram(
        rooms=np.array([2, 0, 1]),
        relations=np.array([[1, 2, 3], [0, 1, 5]]),
        boxes=np.array([[0, 0, 1, 1]] * 3),
    )
    assert diagram.relations == ((0, 1, 5), (1, 2, 3))
    assert type(diagram.rooms[0]) is int
    assert type(diagram.boxes[0][0]) is float
    assert hash(diagram) == hash(BubbleDiagram((2, 0, 1), diagram.relations, diagram.boxes))


@pytest.mark.slow
@given(relabelled_diagrams(decorated=True))
def test_relabelling_moves_every_part_and_can_be_undone(pair):
    diagram, order = pair
    moved = diagram.relabelled(order)
    for k, old in enumerate(order):
        assert moved.rooms[k] == diagram.rooms[old]
        assert diagram.boxes is None or moved.boxes[k] == diagram.boxes[old]
    said = {(i, j): r for i, j, r in diagram.relations}
    said |= {(j, i): 9 - r for i, j, r in diagram.relations}
    assert len(moved.relations) == len(diagram.relations)
    assert all(said[order[i], order[j]] == r for i, j, r in moved.relations)
    assert moved.relabelled(np.argsort(order)) == diagram


def test_relabelling_wants_a_permutation():
    diagram = BubbleDiagram((0, 1), ())
    for order in ([0, 0], [0], [0, 1, 2], [1, 2]):
        with pytest.raises(ValueError, match="not a permutation"):
            diagram.relabelled(order)


@given(relabelled_diagrams(num_types=2, edge_codes=(3, 6, 10)))
def test_the_canonical_key_does_not_depend_on_the_order(pair):
    diagram, order = pair
    assert diagram.relabelled(order).canonical_key() == diagram.canonical_key()


def test_the_canonical_key_tells_any_two_different_diagrams_apart():
    """All diagrams of 3 rooms over 2 types and 3 edge codes, by brute force."""
    codes = (3, 6, 10)
    classes: dict[frozenset, object] = {}
    for rooms in np.ndindex(2, 2, 2):
        for a, b, c in np.ndindex(3, 3, 3):
            triples = ((0, 1, codes[a]), (0, 2, codes[b]), (1, 2, codes[c]))
            diagram = BubbleDiagram(rooms, tuple(t for t in triples if t[2] != 10))
            orbit = frozenset(diagram.relabelled(order) for order in permutations(range(3)))
            assert classes.setdefault(orbit, diagram.canonical_key()) == diagram.canonical_key()
    assert len(set(classes.values())) == len(classes)
