"""``Brief.unmet`` against a slow check, and what each rule means."""

from __future__ import annotations

import json
from itertools import islice

import numpy as np
import pytest
from random_briefs import diagram, random_brief, random_diagram, slowly_met

from floor_plans import BubbleDiagram
from floor_plans.briefs import BriefError, brief_of, read_brief
from floor_plans.briefs.brief import ANY_RELATION, Kind, Numbers, Quantity
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


PROGRAM = {
    "oas_program": "1.0.0",
    "plan_id": "flat_01",
    "design_goal": "A bright flat.",
    "global_constraints": {"target_area_m2": 75},
    "rooms": [
        {
            "id": "living_kitchen",
            "usage": "living_kitchen",
            "desired_area_m2": {"min": 25, "max": 35},
            "must_have": ["daylight"],
            "adjacency": {"must_touch": ["entry"], "should_touch": ["bed_2"]},
        },
        {"id": "entry", "usage": "entry", "adjacency": {"must_touch": ["living_kitchen"]}},
        {
            "id": "bed_2",
            "usage": "bedroom",
            "desired_area_m2": 12,
            "adjacency": {"avoid_touch": ["entry", "kitchen"], "must_connect_via": ["entry"]},
            "avoid": ["noise", "bathroom"],
        },
        {"usage": "bathroom"},
        {"usage": "bathroom"},
    ],
    "circulation": {"primary_entry": "entry"},
}


def wrong(change: dict) -> dict:
    return {**PROGRAM, "rooms": [*PROGRAM["rooms"][1:], {**PROGRAM["rooms"][0], **change}]}


def test_a_program_is_read():
    brief = brief_of(PROGRAM)
    assert brief.num_rooms == Numbers(5, 5)
    assert list(brief.named) == ["living_kitchen", "entry", "bed_2", "bathroom 1", "bathroom 2"]
    assert brief.named["living_kitchen"].types == Kind.of("LivingRoom", "Kitchen").types
    assert brief.named["bed_2"] == Kind.of("Bedroom")
    rules = [(rule.quantity, rule.subject, rule.object) for rule in brief.relations]
    assert rules == [
        (Quantity.SOME, "living_kitchen", "entry"),
        (Quantity.NO, "bed_2", "entry"),
        (Quantity.NO, "bed_2", Kind.of("Kitchen")),
        (Quantity.NO, "bed_2", Kind.of("Bathroom")),
    ]
    assert all(rule.relations == ANY_RELATION for rule in brief.relations)


def test_nothing_is_dropped_silently():
    left_out = "\n".join(brief_of(PROGRAM).left_out)
    for word in (
        *("bright", "75", "25", "35", "daylight", "should_touch", "12", "must_connect_via"),
        *("noise", "primary_entry"),
    ):
        assert word in left_out
    assert "flat_01" not in left_out


def test_a_file_has_lines(tmp_path):
    path = tmp_path / "program.json"
    path.write_text(json.dumps(PROGRAM, indent=1))
    brief = read_brief(path)
    assert brief == brief_of(PROGRAM)
    lines = path.read_text().splitlines()
    rule = brief.relations[2]
    assert "kitchen" in lines[rule.source.line - 1]
    assert rule.source.key == "rooms[2].adjacency.avoid_touch[1]"
    for name, source in brief.sources.items():
        if name.startswith("named."):
            assert "usage" in lines[source.line - 1]


def test_it_is_met_by_a_diagram_of_just_these_rooms():
    brief = brief_of(
        {"rooms": [{"usage": "kitchen", "adjacency": {"must_touch": ["wc"]}}, {"usage": "bath"}]}
    )
    apart, beside = BubbleDiagram((2, 3), ()), BubbleDiagram((2, 3), ((0, 1, 2),))
    assert brief.unmet(beside) == []
    assert brief.unmet(apart)
    assert brief.unmet(BubbleDiagram((2, 3, 0), ((0, 1, 2),)))


@pytest.mark.parametrize(
    ("program", "key", "said"),
    [
        (wrong({"usage": "bedrom"}), "rooms[4].usage", "Bedroom"),
        (wrong({"usage": 3}), "rooms[4]", "usage"),
        (wrong({"id": "entry"}), "rooms[4].id", "entry"),
        (wrong({"id": 7}), "rooms[4].id", "7"),
        (wrong({"adjacency": ["entry"]}), "rooms[4].adjacency", "list"),
        (
            wrong({"adjacency": {"must_touch": ["entri"]}}),
            *("rooms[4].adjacency.must_touch[0]", "entry"),
        ),
        (
            wrong({"adjacency": {"avoid_touch": ["living_kitchen"]}}),
            *("rooms[4].adjacency.avoid_touch[0]", "itself"),
        ),
        (wrong({"adjacency": {"must_touch": [3]}}), "rooms[4].adjacency.must_touch[0]", "3"),
        ({"oas_program": "1.0.0"}, "", "rooms"),
        ({"oas_program": "1.0.0", "rooms": []}, "rooms", "empty"),
        ({"oas_program": "1.0.0", "rooms": ["kitchen"]}, "rooms[0]", "usage"),
    ],
)
def test_wrong_programs_are_refused_by_key(program, key, said):
    with pytest.raises(BriefError) as caught:
        brief_of(program)
    assert caught.value.key == key
    assert said in str(caught.value)


def test_named_rooms_are_distinct_from_the_first_on():
    """12 names for 12 rooms: of their 12^12 choices with repetition none is looked at."""
    baths = diagram(" ".join(12 * ["Bathroom"]))
    brief = brief_of({"named": {f"bath_{k}": "Bathroom" for k in range(12)}, "num_rooms": 12})
    first, second = islice(brief._choices(baths), 2)
    assert [*first.values()] == [*range(12)]
    assert [*second.values()] == [*range(10), 11, 10]
