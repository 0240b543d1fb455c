"""What briefs mean, in sentences."""

from __future__ import annotations

import pytest

from floor_plans.briefs import brief_of
from floor_plans.briefs.brief import sentences
from floor_plans.diagrams.vocabulary import ROOM_GROUPS


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (3, ("Exactly 3", "bedrooms")),
        (1, ("Exactly 1", "bedroom")),
        ("2-4", ("2 to 4", "bedrooms")),
        ("2+", ("At least 2", "bedrooms")),
        ("0-1", ("At most 1", "bedroom")),
        (0, ("No bedroom",)),
    ],
)
def test_numbers_of_a_group_name_its_types(number, words):
    (_, sentence) = sentences(brief_of({"rooms": {"Bedroom": number}}))
    for word in (*words, *ROOM_GROUPS["Bedroom"]):
        assert word in sentence


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("WC beside dining", ("Some bathroom", "next to", "some dining room")),
        ("every WC beside Bedroom", ("Every bathroom", "next to", "some bedroom")),
        ("no WC left-of|above Wall-in", ("No bathroom", "left of", "above", "any wall-in")),
        ("inner right-below Kitchen", ('"inner"', "right of and below", "some kitchen")),
        ("no inner inside WC", ('"inner"', "not inside", "any bathroom")),
        ("Balcony door Wet", ("Some balcony", "door", "room of Wet")),
        ("Balcony surrounding Kitchen|WC", ("around", "kitchen or bathroom")),
    ],
)
def test_relations(rule, words):
    asked = {"groups": {"Wet": ["Kitchen", "WC"]}, "named": {"inner": "StudyRoom"}}
    said = sentences(brief_of({**asked, "relations": [rule]}))[-1]
    for word in words:
        assert word in said


def test_one_fact_of_the_plan_is_it_and_two_are_them():
    area, outline = {"area": 80}, {"outline": [[0, 0], [9, 0], [0, 9]]}
    assert sentences(brief_of(area))[-1].endswith("trained on it; no diagram shows it.")
    assert sentences(brief_of(area | outline))[-1].endswith("on them; no diagram shows them.")


def test_a_sentence_for_each_rule():
    asked = {
        **{"num_rooms": "5-7", "rooms": {"Kitchen": 1, "Balcony": "2+", "Storage": 2}},
        **{"named": {"one": "Bathroom", "two": "Entrance"}, "max_degree": 3},
        **{"connected": True, "buildable": True},
    }
    said = sentences(brief_of(asked))
    assert len(said) == 1 + 3 + 2 + 1 + 3
    for word in ("5 to 7 rooms", "balconies", "an Entrance", '"one" and "two"', "3 others", "plan"):
        assert word in " ".join(said)
    assert all(sentence.endswith(".") for sentence in said)
