from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from discrete_diffusion.domains.bubble_diagrams import BubbleDiagram, PartialDiagram, read_diagrams
from discrete_diffusion.domains.bubble_diagrams.files.everyday_names import (
    _MAY_MEAN,
    _MEANT,
    _WORDS,
    may_mean,
    room_type_of,
)
from discrete_diffusion.domains.bubble_diagrams.files.fields import DiagramError
from discrete_diffusion.rooms import ROOM_TYPES


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
    page = (Path(__file__).parents[3] / "docs" / "plans.md").read_text()
    rows = dict(re.findall(r"^\| (\w+) \| ([^|]+) \|$", page, re.MULTILINE))
    assert {name: rows[name] for name in _WORDS} == _WORDS
