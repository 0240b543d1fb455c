"""``Brief.unmet`` against a slow check, and what each rule means."""

from __future__ import annotations

import numpy as np
import pytest
from random_briefs import diagram, random_brief, random_diagram, slowly_met

from floor_plans.briefs import brief_of
from floor_plans.diagrams.vocabulary import DIRECTIONS, PlanVocabulary

FEW = PlanVocabulary(
    "few", DIRECTIONS.room_types[:3], ("left-of", "right-of", "above", "below"), True
)


def test_unmet_is_what_a_slow_check_finds():
    rng = np.random.default_rng(0)
    diagrams = [random_diagram(rng, FEW) for _ in range(60)]
    met = 0
    for _ in range(80):
        brief = random_brief(rng, FEW, 8, num_rules=2)
        for each in diagrams[: 60 if not brief.named else 20]:
            assert slowly_met(brief, each) is (not brief.unmet(each))
            met += not brief.unmet(each)
    assert met > 200


HOME = diagram(
    "LivingRoom Kitchen Bathroom Bathroom MasterRoom",
    *((0, 1, "left-of"), (0, 4, "above"), (2, 4, "right-of"), (0, 3, "below")),
)

MET = [
    {"num_rooms": 5},
    {"rooms": {"Bathroom": "2-3", "Balcony": "0-1", "StudyRoom": 0, "Bedroom": 1}},
    {"relations": ["Kitchen right-of LivingRoom", "Bathroom beside Bedroom"]},
    {"relations": ["no Bathroom adjacent Kitchen", "every Kitchen adjacent LivingRoom"]},
    {"relations": ["every Balcony adjacent Kitchen", "no Balcony adjacent Kitchen"]},
    {"named": {"ensuite": "Bathroom"}, "relations": ["ensuite beside MasterRoom"]},
    {"named": {"one": "Bathroom", "two": "Bathroom"}}
    | {"relations": ["one above LivingRoom", "no two above LivingRoom"]},
    {"max_degree": 3, "connected": True},
]
UNMET = [
    ({"num_rooms": "6+"}, "num_rooms"),
    ({"rooms": {"Bathroom": 1}}, "rooms.Bathroom"),
    ({"relations": ["Kitchen left-of LivingRoom"]}, "relations[0]"),
    ({"relations": ["every Bathroom beside Bedroom"]}, "relations[0]"),
    ({"relations": ["Bathroom beside Bathroom"]}, "relations[0]"),
    ({"relations": ["no Bathroom beside Bedroom"]}, "relations[0]"),
    ({"max_degree": 2}, "max_degree"),
    (
        {"named": {"one": "Bathroom", "two": "Bathroom"}}
        | {"relations": ["one beside Bedroom", "two beside Bedroom"]},
        "named",
    ),
    ({"named": {"one": "Kitchen", "two": "Kitchen"}}, "named"),
]


@pytest.mark.parametrize("mapping", MET, ids=range(len(MET)))
def test_a_diagram_meets(mapping):
    assert brief_of(mapping).unmet(HOME) == []


@pytest.mark.parametrize(("mapping", "key"), UNMET, ids=range(len(UNMET)))
def test_a_diagram_does_not_meet(mapping, key):
    assert brief_of(mapping).unmet(HOME) == [key]


def test_rooms_apart_are_not_connected():
    apart = diagram("LivingRoom Kitchen Bathroom", (0, 1, "left-of"))
    assert brief_of({"connected": True}).unmet(apart) == ["connected"]
    assert brief_of({"connected": False}).unmet(apart) == []
