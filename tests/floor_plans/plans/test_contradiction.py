"""Sets of relations that contradict each other, against all boxes of a small grid."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from all_boxes import PAIRS, diagram_of, pairs_of_all_boxes, triples_of_all_boxes

from discrete_diffusion.layout import RELATIONS
from floor_plans import BubbleDiagram, PartialDiagram, generate_plans
from floor_plans.diagrams.vocabulary import NO_EDGE
from floor_plans.plans.box_model import BoxRule, boxes_of_graph, limited_effort
from floor_plans.plans.contradiction import _three_fit, contradiction, room_names
from floor_plans.plans.verdict import LEVELS, have_plans
from floor_plans.solver.realising import realise
from floor_plans.solver.requests import PlanRequest

pytest.importorskip("ortools", reason="OR-Tools finds what contradicts each other")

LIVING, KITCHEN, BATH, BALCONY = 0, 2, 3, 9
SMALL = BoxRule(grid=4, threshold=0, min_side=1, max_aspect=2)
REL = {name: code for code, name in enumerate(RELATIONS)}


def seen_from(first: int, second: int, code: int) -> tuple[tuple[int, int], int]:
    if first < second or code == NO_EDGE:
        return (min(first, second), max(first, second)), code
    return (second, first), 9 - code


class AllBoxes:
    """Which sets of codes of pairs of three rooms some boxes have."""

    def __init__(self, rule: BoxRule, level: str) -> None:
        self.triples = triples_of_all_boxes(rule, buildable=level == "buildable")
        self.pairs = pairs_of_all_boxes(rule, buildable=level == "buildable")

    def have(self, codes: dict[tuple[int, int], int]) -> bool:
        if len(codes) == 1:
            return set(codes.values()) <= self.pairs
        known = [(k, codes[pair]) for k, pair in enumerate(PAIRS) if pair in codes]
        return not known or any(all(t[k] == code for k, code in known) for t in self.triples)


def check_all(rule: BoxRule, level: str, triples: list[tuple[int, ...]]) -> list[int]:
    """Sizes of the sets that were found, each checked."""
    boxes, sizes = AllBoxes(rule, level), []
    for codes in triples:
        found = contradiction(diagram_of(codes), level, rule=rule)
        assert (found is None) == (codes in boxes.triples)
        if found is None:
            continue
        members = dict(seen_from(*member) for member in found.members)
        stated = dict(zip(PAIRS, codes, strict=True))
        assert members.items() <= stated.items()
        assert found.is_irreducible
        assert not boxes.have(members)
        for pair in members:
            assert boxes.have({k: v for k, v in members.items() if k != pair})
        sizes.append(len(members))
    return sizes


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("rule", [SMALL, BoxRule(grid=6, threshold=1, min_side=1, max_aspect=6)])
def test_members_contradict_each_other_and_none_can_be_left_out(rule, level):
    assert 3 in check_all(rule, level, list(product(range(11), repeat=3))[::13])


@pytest.mark.slow
def test_unknown_pairs_may_have_any_relation():
    """Against all boxes, as far as the known pair goes."""
    for level, code in product(LEVELS, range(11)):
        boxes = AllBoxes(SMALL, level)
        relations = [] if code == NO_EDGE else [(0, 2, code)]
        found, _ = boxes_of_graph(
            (3, relations),
            rule=SMALL,
            buildable=level == "buildable",
            effort=1.0,
            unknown=[(0, 1), (1, 2)],
        )
        possible = any(triple[1] == code for triple in boxes.triples)
        assert found == possible


@pytest.mark.slow
def test_a_circle_of_four_and_what_else_the_diagram_says():
    around = [(0, 1, REL["left-of"]), (1, 2, REL["left-of"]), (2, 3, REL["left-of"])]
    diagram = BubbleDiagram(
        (LIVING, KITCHEN, BATH, BATH, BALCONY),
        [*around, (0, 3, REL["right-of"]), (0, 4, REL["above"])],
    )
    found = contradiction(diagram)
    assert str(found) == (
        "living room left-of kitchen, kitchen left-of bathroom 1, bathroom 1 left-of bathroom 2, "
        "bathroom 2 left-of living room"
    )
    assert found.is_irreducible
    assert found.is_realisable is False
    assert found.sentence().endswith("these contradict each other, even if rooms may overlap")
    assert found == contradiction(diagram)


def test_rooms_that_are_not_related_contradict_too():
    """What is inside a room lies beside all that the room is beside of."""
    diagram = BubbleDiagram((LIVING, KITCHEN, BATH), [(0, 1, REL["surrounding"]), (1, 2, 2)])
    found = contradiction(diagram, "buildable")
    assert found.is_realisable
    said = found.sentence()
    assert said.startswith(
        "living room surrounding kitchen, kitchen left-of bathroom, bathroom not related to "
        "living room: "
    )
    assert said.endswith("these contradict each other unless rooms overlap or are L-shaped")
    assert contradiction(diagram, "realisable") is None


def test_an_l_shaped_room_can_do_what_rectangles_cannot():
    data = {"rooms": ["LivingRoom", "SecondRoom", "Bathroom"]}
    data |= {"relations": [[0, 1, "above"], [1, 2, "right-of"], [2, 0, "inside"]]}
    diagram = BubbleDiagram.from_json(data)
    assert "L-shaped" in contradiction(diagram).sentence()
    (job,) = PlanRequest(seed=0).jobs([diagram])
    (plan,) = realise(job).plans
    assert plan.honours_diagram
    assert plan.overlap == 0


def test_three_rooms_without_effort_are_decided_later():
    asked = (REL["surrounding"], NO_EDGE, REL["left-of"]), BoxRule(), True, 1.5
    with limited_effort(0.0):
        assert _three_fit(*asked) is None
    assert _three_fit(*asked) is not None


@pytest.mark.slow
def test_sets_in_larger_diagrams_are_irreducible():
    """Plans of which some relations were exchanged; each set is solved again, without the rest."""
    rng, sizes = np.random.default_rng(3), []
    for plan in generate_plans(6, seed=2):
        codes = {(i, j): code for i, j, code in plan.relations}
        pairs = list(combinations(range(plan.num_rooms), 2))
        for k in rng.integers(len(pairs), size=2).tolist():
            codes[pairs[k]] = int(rng.integers(10))
        diagram = BubbleDiagram(plan.rooms, [(*pair, code) for pair, code in codes.items()])
        found = contradiction(diagram)
        assert (found is None) == (have_plans([diagram])[0] is True)
        if found is None:
            continue
        assert found.is_irreducible
        members = dict(seen_from(*member) for member in found.members)
        sizes.append(len(members))
        for left_out in (None, *members):
            kept = {pair: code for pair, code in members.items() if pair != left_out}
            rooms = sorted({room for pair in kept for room in pair})
            place = {room: k for k, room in enumerate(rooms)}
            stated = {(place[i], place[j]): code for (i, j), code in kept.items()}
            answer, _ = boxes_of_graph(
                (len(rooms), [(*pair, code) for pair, code in stated.items() if code != NO_EDGE]),
                rule=BoxRule(),
                buildable=True,
                effort=2.0,
                unknown=[p for p in combinations(range(len(rooms)), 2) if p not in stated],
            )
            assert answer is (left_out is not None)
    assert len(sizes) > 1


@pytest.mark.slow
def test_what_is_not_decided_is_said():
    (plan,) = generate_plans(1, seed=1)
    assert contradiction(plan) is None
    circle = BubbleDiagram((LIVING, KITCHEN, BATH), [(0, 1, 2), (1, 2, 2), (0, 2, 7)])
    found = contradiction(circle, effort=1e-9)
    assert not found.is_irreducible
    assert len(found.members) == 3
    assert "perhaps not all of these are needed" in found.sentence()
    with pytest.raises(ValueError, match="'realisable' or 'buildable'"):
        contradiction(plan, "possible")


def test_rooms_of_a_type_are_numbered():
    diagram = BubbleDiagram((BATH, 7, BATH, LIVING), [])
    assert room_names(diagram) == ("bathroom 1", "second room", "bathroom 2", "living room")


def test_of_a_partial_diagram_only_what_is_known_counts():
    names = ["Kitchen", None, "Bathroom", None]
    inside = [[0, 1, "inside"], [1, 2, "inside"], [0, 2, "left-of"]]
    known = PartialDiagram.from_json({"rooms": names, "relations": inside})
    found = contradiction(known)
    assert found is not None
    assert {frozenset(member[:2]) for member in found.members} == {*map(frozenset, PAIRS)}
    assert found.names == ("kitchen", "room 1", "bathroom", "room 2")
    chain = PartialDiagram.from_json({"rooms": names, "relations": inside[:2]})
    assert contradiction(chain) is None
    assert contradiction(BubbleDiagram((2, 0, 3), ((0, 1, 4), (1, 2, 4)))) is not None
