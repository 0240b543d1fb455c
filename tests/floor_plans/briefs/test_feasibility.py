"""Whether briefs can be met, against all diagrams of a small world and facts of real plans."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from random_briefs import SMALL, all_diagrams, random_brief

from floor_plans import generate_plans
from floor_plans.briefs import brief_of
from floor_plans.briefs.brief import AnyRule, Brief, CountRule, RelationRule
from floor_plans.briefs.feasibility import _requirements, _restricted, feasibility
from floor_plans.diagrams.files.yaml_nodes import Source
from floor_plans.diagrams.vocabulary import ADJACENCY, RELATIONS
from floor_plans.plans.box_model import is_installed

SMALL_WORLD = all_diagrams(3)
needs_solver = pytest.mark.skipif(not is_installed(), reason="OR-Tools decides")


def can_be_met(brief: Brief) -> bool:
    return any(not brief.unmet(diagram) for diagram in SMALL_WORLD)


def only(brief: Brief, kept: set[str]) -> Brief:
    """The brief with the rules of these keys alone."""
    return _restricted(brief, [each for each in _requirements(brief) if each.source.key in kept])


@pytest.mark.slow
@needs_solver
def test_it_is_decided_as_by_looking_at_all_diagrams():
    rng = np.random.default_rng(0)
    met = refuted = 0
    for _ in range(60):
        brief = random_brief(rng, SMALL, 3)
        found = feasibility(brief, 3, SMALL)
        assert found.can_be_met is can_be_met(brief)
        if found.can_be_met:
            met += 1
            assert not brief.unmet(found.example)
            continue
        keys = {source.key for source in found.contradiction}
        assert found.is_irreducible
        assert len(keys) == len(found.contradiction)
        assert not can_be_met(only(brief, keys))
        for key in keys:
            assert can_be_met(only(brief, keys - {key})), (key, keys)
        refuted += 1
    assert met > 10
    assert refuted > 10


ROOMS_OF_TYPES = {"Bathroom": "at least 2", "Bedroom": 3}

CONTRADICTIONS = {
    "more rooms than there may be": ({"num_rooms": 9}, {"num_rooms"}),
    "more of a type than rooms": (
        {"num_rooms": "at most 4", "rooms": {**ROOMS_OF_TYPES, "Kitchen": 1}},
        {"num_rooms", "rooms.Bathroom", "rooms.Bedroom"},
    ),
    "fewer of a group than of a type in it": (
        {"rooms": {"Bedroom": 1, "MasterRoom": 1, "ChildRoom": 1, "Kitchen": 1}},
        {"rooms.Bedroom", "rooms.MasterRoom", "rooms.ChildRoom"},
    ),
    "a type that no plan has": ({"rooms": {"Garage": 1, "Kitchen": 1}}, {"rooms.Garage"}),
    "a relation that no plan has": ({"relations": ["Kitchen door Bathroom"]}, {"relations[0]"}),
    "too few rooms of other types": (
        {"num_rooms": 3, "groups": {"Wet": ["Bathroom", "Kitchen"]}, "rooms": {"Wet": 0}}
        | {"relations": ["Kitchen adjacent Bathroom", "LivingRoom adjacent Kitchen"]},
        {"rooms.Wet", "relations[0]"},
    ),
    "some of a room that is forbidden": (
        {"rooms": {"Kitchen": 0, "Bathroom": 1}, "relations": ["Kitchen adjacent LivingRoom"]},
        {"rooms.Kitchen", "relations[0]"},
    ),
    "one room beside itself": (
        {"rooms": {"Bathroom": 1}, "relations": ["Bathroom adjacent Bathroom"]},
        {"rooms.Bathroom", "relations[0]"},
    ),
    "every one beside what is not there": (
        {"rooms": {"Bathroom": 2, "Bedroom": 0}}
        | {"relations": ["every Bathroom adjacent Bedroom", "connected"][:1]},
        {"rooms.Bathroom", "rooms.Bedroom", "relations[0]"},
    ),
    "beside each other and not": (
        {"relations": ["no Bedroom adjacent Bathroom", "Bathroom left-of MasterRoom"]},
        {"relations[0]", "relations[1]"},
    ),
    "named rooms that the numbers do not allow": (
        {"rooms": {"Bathroom": "at most 1", "Kitchen": 1}}
        | {"named": {"first": "Bathroom", "second": "Bathroom", "cook": "Kitchen"}},
        {"rooms.Bathroom", "named.first", "named.second"},
    ),
    "two relations of one pair": (
        {"named": {"first": "Bathroom", "cook": "Kitchen"}}
        | {"relations": ["first left-of|above cook", "cook left-of|left-above first"]},
        {"relations[0]", "relations[1]"},
    ),
    "a circle": (
        {"named": {"one": "Kitchen", "two": "Bathroom", "three": "Balcony"}}
        | {
            "relations": [
                *("one left-of two", "two left-of|left-above three", "three left-below one"),
                "one above|below LivingRoom",
            ]
        },
        {"relations[0]", "relations[1]", "relations[2]"},
    ),
    "a circle of rooms in one another": (
        {"named": {"one": "Kitchen", "two": "Kitchen", "three": "Kitchen"}}
        | {"relations": ["one inside two", "two inside three", "three inside one"]},
        {"relations[0]", "relations[1]", "relations[2]"},
    ),
    "connected without neighbours": (
        {"num_rooms": "2+", "max_degree": 0, "connected": True, "rooms": {"Kitchen": 1}},
        {"num_rooms", "max_degree", "connected"},
    ),
    "options that are all excluded": (
        {
            "rooms": {"Balcony": 0, "Kitchen": 1},
            "any": [{"rooms": {"Balcony": 2}}, "WC above Bedroom"],
        }
        | {
            "relations": [
                "no Bedroom beside Bathroom",
                "Kitchen beside WC or Kitchen beside Bedroom",
            ]
        },
        {"rooms.Balcony", "any", "relations[0]"},
    ),
    "more neighbours than allowed": (
        {"named": {"hub": "LivingRoom", "one": "Kitchen", "two": "Bathroom"}, "max_degree": 1}
        | {"relations": ["hub adjacent one", "hub left-of two", "one above|below two"][:2]},
        {"max_degree", "relations[0]", "relations[1]"},
    ),
    "a circle of rooms that have no names": (
        {"rooms": {"Kitchen": 1, "Bathroom": 1, "Balcony": 1}}
        | {
            "relations": [
                *("Kitchen left-of Bathroom", "Bathroom left-of Balcony"),
                "Balcony left-of Kitchen",
            ]
        },
        {"rooms.Kitchen", "rooms.Bathroom", "rooms.Balcony"}
        | {"relations[0]", "relations[1]", "relations[2]"},
    ),
    "areas past that of the plan": (
        {"rooms": {"Bedroom": 2, "Kitchen": 1}, "areas": {"Bedroom": [12, 15], "Kitchen": 8}}
        | {"area": 31.9},
        {"rooms.Bedroom", "rooms.Kitchen", "area", "areas.Bedroom", "areas.Kitchen"},
    ),
    "areas past that of the outline": (
        {"rooms": {"Bedroom": 3}, "areas": {"Bedroom": 9, "MasterRoom": 14}}
        | {"relations": ["MasterRoom adjacent Bedroom"]}
        | {"outline": [[0, 0], [6, 0], [6, 5], [0, 5]]},
        {"rooms.Bedroom", "relations[0]", "outline", "areas.Bedroom", "areas.MasterRoom"},
    ),
    "a type between two that forbid it": (
        {"groups": {"Three": ["LivingRoom", "Bathroom", "Kitchen"]}, "connected": True}
        | {"rooms": {"Kitchen": 1, "Bathroom": 2, "LivingRoom": 0}, "num_rooms": 3}
        | {"relations": ["no Bathroom adjacent Kitchen", "Three above Three"]},
        {"num_rooms", "rooms.Kitchen", "rooms.Bathroom", "connected", "relations[0]"},
    ),
}


@needs_solver
@pytest.mark.parametrize(
    ("mapping", "keys"),
    CONTRADICTIONS.values(),
    ids=CONTRADICTIONS,
)
def test_none_of_a_contradiction_can_be_left_out(mapping, keys):
    brief = brief_of(mapping)
    found = feasibility(brief, 8)
    assert found.can_be_met is False
    assert found.is_irreducible
    assert {source.key for source in found.contradiction} == keys
    assert feasibility(only(brief, keys), 8).contradiction
    for key in keys:
        assert feasibility(only(brief, keys - {key}), 8).can_be_met


@needs_solver
def test_options_are_decided_as_by_looking_at_all_diagrams():
    rng = np.random.default_rng(5)
    answers = []
    for _ in range(24):
        drawn = [random_brief(rng, SMALL, 3, num_rules=2) for _ in range(3)]
        options = [(*b.counts, *(r for r in b.relations if not r.names)) for b in drawn]
        base, *either = [option for option in options if option] * 2
        brief = Brief(
            num_rooms=drawn[0].num_rooms,
            counts=[rule for rule in base if isinstance(rule, CountRule)],
            relations=[rule for rule in base if isinstance(rule, RelationRule)],
            either=[AnyRule(tuple(either), Source("any", "any", 1))],
        )
        found = feasibility(brief, 3, SMALL)
        one_by_one = [
            replace(
                brief,
                counts=[*brief.counts, *(r for r in option if isinstance(r, CountRule))],
                relations=[*brief.relations, *(r for r in option if isinstance(r, RelationRule))],
                either=(),
            )
            for option in either
        ]
        assert found.can_be_met is any(map(can_be_met, one_by_one)) is can_be_met(brief)
        answers.append(found.can_be_met)
    assert {*answers} == {True, False}


def test_without_a_solver_nothing_is_decided(monkeypatch):
    monkeypatch.setattr("floor_plans.plans.box_model.is_installed", lambda: False)
    for mapping, _ in CONTRADICTIONS.values():
        assert feasibility(brief_of(mapping), 8).can_be_met is None


@needs_solver
def test_sources_of_briefs_made_without_text_are_said():
    from floor_plans.briefs.brief import CountRule, Kind, Numbers

    rule = CountRule(Kind.of("Kitchen"), Numbers(9, 9))
    (source,) = feasibility(Brief(counts=[rule]), 8).contradiction
    assert "9 kitchens" in source.text


def facts_of(plan) -> Brief:
    """All that a plan is."""
    names = [f"room_{k}" for k in range(plan.num_rooms)]
    code = {(i, j): r for i, j, r in plan.relations}
    pairs = [(i, j) for j in range(plan.num_rooms) for i in range(j)]
    return brief_of(
        {
            "num_rooms": plan.num_rooms,
            "named": dict(zip(names, plan.room_names, strict=True)),
            "connected": True,
            "relations": [
                f"{names[i]} {RELATIONS[code[i, j]]} {names[j]}"
                if (i, j) in code
                else f"no {names[i]} adjacent {names[j]}"
                for i, j in pairs
            ],
        }
    )


def test_what_a_plan_is_it_meets():
    for plan in generate_plans(30, seed=3):
        assert not facts_of(plan).unmet(plan)


@needs_solver
def test_the_solver_finds_the_plan_whose_facts_are_asked_for():
    for plan in generate_plans(4, seed=4):
        found = feasibility(facts_of(plan), 8)
        assert found.example.canonical_key() == plan.canonical_key()


@needs_solver
def test_buildable_is_shown_by_a_diagram_with_a_floor_plan():
    asked = {"rooms": {"Kitchen": 1, "Bathroom": 1}, "num_rooms": 3, "buildable": True}
    assert feasibility(brief_of(asked), 8).can_be_met
    nested = {"named": {"one": "LivingRoom", "two": "Kitchen", "three": "Bathroom"}} | {
        "relations": ["one surrounding two", "two left-of three", "no one adjacent three"],
        **{"num_rooms": 3, "buildable": True},
    }
    assert feasibility(brief_of(nested), 8).can_be_met is None


@needs_solver
def test_plans_of_many_rooms_are_decided():
    asked = {"rooms": {"Kitchen": "13+"}, "num_rooms": "at most 20"}
    assert feasibility(brief_of(asked), 20).can_be_met
    found = feasibility(brief_of({**asked, "any": [{"rooms": {"WC": 8}}, "WC beside WC"]}), 20)
    assert found.can_be_met
    few = feasibility(brief_of({**asked, "rooms": {"Kitchen": "13+", "WC": 8}}), 20)
    assert [source.key for source in few.contradiction] == ["rooms.Kitchen", "rooms.WC"]


@needs_solver
def test_plans_that_say_which_rooms_meet():
    asked = brief_of({"relations": ["Bedroom door Bathroom", "Kitchen adjacent LivingRoom"]})
    assert feasibility(asked, 8, ADJACENCY).can_be_met
    built = brief_of({"relations": ["Kitchen adjacent LivingRoom"], "buildable": True})
    assert feasibility(built, 8, ADJACENCY).can_be_met is None
    placed = brief_of({"relations": ["Kitchen left-of LivingRoom"], "rooms": {"MasterRoom": 1}})
    (source,) = feasibility(placed, 8, ADJACENCY).contradiction
    assert source.key in ("relations[0]", "rooms.MasterRoom")
