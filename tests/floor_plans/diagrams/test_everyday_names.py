from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from discrete_diffusion.layout import ROOM_TYPES
from floor_plans import BubbleDiagram, PartialDiagram, read_diagrams
from floor_plans.diagrams.files.fields import (
    _MAY_MEAN,
    _MEANT,
    _WORDS,
    DiagramError,
    may_mean,
    room_type_of,
)


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("Living", "LivingRoom"),
        ("living room", "LivingRoom"),
        ("LIVING_ROOM", "LivingRoom"),
        ("WC", "Bathroom"),
        ("Bath", "Bathroom"),
        ("Toilet", "Bathroom"),
        ("Dining", "DiningRoom"),
        ("Lobby", "Entrance"),
        ("Corridor", "Entrance"),
        ("kitchen", "Kitchen"),
        ("Master Bedroom", "MasterRoom"),
        ("Children's room", "ChildRoom"),
        ("wall-in", "Wall-in"),
    ],
)
def test_a_word_that_means_one_type_is_read_as_it(word, name, tmp_path):
    assert room_type_of(word, ROOM_TYPES) == name
    path = tmp_path / "plans.jsonl"
    path.write_text(json.dumps({"rooms": [word], "boxes": [[0, 0, 50, 50]]}))
    (read,) = read_diagrams(path)
    assert read.to_json()["rooms"] == [name]
    assert PartialDiagram.from_json({"rooms": [word]}).to_json()["rooms"] == [name]
    assert BubbleDiagram.from_json({"rooms": [word], "relations": []}).room_names == (name,)


def test_no_word_means_two_things_or_a_type_that_there_is_not():
    assert {*_MEANT.values(), *(n for names in _MAY_MEAN.values() for n in names)} <= {*ROOM_TYPES}
    own = {"".join(filter(str.isalnum, name.casefold())) for name in ROOM_TYPES}
    assert not own & (_MEANT.keys() | _MAY_MEAN.keys())
    assert not _MEANT.keys() & _MAY_MEAN.keys()


def test_a_vocabulary_without_the_type_does_not_have_its_words():
    assert room_type_of("WC", ["LivingRoom", "Kitchen"]) is None
    assert may_mean("hall", ["LivingRoom", "Kitchen"]) == ["LivingRoom"]
    assert room_type_of("bath", ["Bath"]) == "Bath"


@pytest.mark.parametrize(
    ("word", "named"),
    [
        ("Bedroom", ["MasterRoom or SecondRoom or ChildRoom or GuestRoom"]),
        ("Hall", ["LivingRoom or Entrance"]),
        ("Kitchn", ["did you mean 'Kitchen'"]),
        ("Garage", ["Wall-in"]),
    ],
)
def test_other_words_get_a_hint_and_all_names(word, named):
    with pytest.raises(DiagramError) as caught:
        PartialDiagram.from_json({"rooms": [None, word], "relations": [[0, 1, "above"]]})
    assert caught.value.field == "rooms[1]"
    assert all(part in caught.value.reason for part in [repr(word), *named, ", ".join(ROOM_TYPES)])


def test_a_master_bedroom_is_one_beside_codes_of_bedrooms():
    line = {"rooms": ["master bedroom", 3], "codes": "housegan"}
    with pytest.raises(DiagramError, match="code 3 of housegan is any bedroom"):
        PartialDiagram.from_json(line)


def test_the_page_lists_the_words():
    page = (Path(__file__).parents[3] / "docs" / "floor_plans" / "files.md").read_text()
    rows = dict(re.findall(r"^\| (\w+) \| ([^|]+) \|$", page, re.MULTILINE))
    assert {name: rows[name] for name in _WORDS} == _WORDS


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("Toilet 2", "Bathroom"),
        ("WC1", "Bathroom"),
        ("bath #2", "Bathroom"),
        ("Balcony (3)", "Balcony"),
        ("living_room|0", "LivingRoom"),
        ("03 Kitchen", "Kitchen"),
        ("GuestRoom-2", "GuestRoom"),
    ],
)
def test_a_numbered_name_is_read(word, name):
    plan = {"rooms": [word], "relations": []}
    assert BubbleDiagram.from_json(plan).room_names == (name,)
    assert PartialDiagram.from_json({"rooms": [word]}).to_json()["rooms"] == [name]


BEDROOMS = ["Living room", "Bedroom 1", "bedroom_2", "Bed 3", "Toilet 2"]
BEDROOM_BOXES = [
    [0, 0, 60, 60],
    [60, 0, 90, 40],
    [60, 40, 100, 90],
    [0, 60, 30, 90],
    [30, 60, 60, 90],
]


def test_numbered_bedrooms_are_told_apart_by_their_size(tmp_path):
    expected = ["LivingRoom", "SecondRoom", "MasterRoom", "SecondRoom", "Bathroom"]
    path = tmp_path / "plans.jsonl"
    relations = [[0, 1, "left-of"]]
    for line in ({"boxes": BEDROOM_BOXES}, {"boxes": BEDROOM_BOXES, "relations": relations}):
        path.write_text(json.dumps({"rooms": BEDROOMS, **line}))
        assert read_diagrams(path)[0].to_json()["rooms"] == expected
    bare = BubbleDiagram.from_json({"rooms": BEDROOMS, "relations": relations})
    assert bare.room_names == (
        *("LivingRoom", "SecondRoom", "SecondRoom", "SecondRoom", "Bathroom"),
    )
    rooms = ["Master bedroom", *BEDROOMS[1:]]
    named = {"rooms": rooms, "relations": relations, "boxes": BEDROOM_BOXES}
    assert BubbleDiagram.from_json(named).room_names.count("MasterRoom") == 1
    one = BubbleDiagram.from_json({"rooms": ["Hallway", "Bedroom 1"], "relations": relations})
    assert one.room_names == ("Entrance", "MasterRoom")


def test_numbered_bedrooms_of_plans_without_directions_are_bedrooms():
    plan = {"rooms": ["Bedroom 1", "Bedroom 2"], "relations": [[0, 1, "door"]]}
    assert BubbleDiagram.from_json(plan).room_names == ("Bedroom", "Bedroom")


@pytest.mark.parametrize("word", ["Bedrom", "Bedrooms", "Outdor", "Garag", "Garages", "Othr"])
def test_what_is_proposed_is_not_refused_next(word, tmp_path):
    """Words of plans without directions are proposed as such."""
    path = tmp_path / "plans.jsonl"

    def refused(room: str) -> str:
        path.write_text(json.dumps({"rooms": [room, "Kitchen"], "relations": [[0, 1, "left-of"]]}))
        with pytest.raises(ValueError, match=room) as caught:
            read_diagrams(path)
        return str(caught.value)

    sentence = refused(word)
    assert "did you mean" not in sentence
    assert "relations=adjacency" in sentence
    assert ("MasterRoom or" in sentence) == word.startswith("Bed")


def test_a_key_is_not_proposed_that_is_there_already(tmp_path):
    path = tmp_path / "plans.jsonl"
    path.write_text(json.dumps({"rooms": ["Kitchen"], "relations": [], "room": 1}))
    with pytest.raises(ValueError, match=r"'room': unknown.*'rooms'.*there too.*rename"):
        read_diagrams(path)
