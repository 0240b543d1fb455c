"""Floor plans made by hand, which tests share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from discrete_diffusion.layout import RELATIONS, ROOM_TYPES
from floor_plans import BubbleDiagram, PartialDiagram
from floor_plans.diagrams.geometry import relations_from_boxes, threshold_of
from floor_plans.diagrams.pictures.placement import Placement, place_all
from floor_plans.diagrams.vocabulary import NO_EDGE
from floor_plans.plans.floor_plan import FloorPlan, Point
from floor_plans.rules.rule_set import RuleSet, read_rules

Box = tuple[float, float, float, float]


def floor_plan(
    rooms: dict[str, Box] | Sequence[tuple[str, Box]],
    *,
    boundary: tuple[Point, ...] | None = None,
    unrelated: Iterable[tuple[int, int]] = (),
) -> FloorPlan:
    """Rooms by name and box in metres, related as their boxes are, but for ``unrelated`` pairs."""
    named = list(rooms.items()) if isinstance(rooms, dict) else list(rooms)
    codes = relations_from_boxes([box for _, box in named], threshold_of("metres", None))
    pairs = [(i, j) for i in range(len(named)) for j in range(i + 1, len(named))]
    relations = [
        (i, j, int(codes[i, j]))
        for i, j in pairs
        if codes[i, j] != NO_EDGE and (i, j) not in {*unrelated}
    ]
    diagram = BubbleDiagram(
        tuple(ROOM_TYPES.index(name) for name, _ in named),
        tuple(relations),
        tuple(box for _, box in named),
    )
    return FloorPlan(diagram, boundary=boundary)


def only(*names: str, **changed: dict[str, Any]) -> RuleSet:
    """The default rules of these names, with other parameters."""
    default = read_rules("default").rules
    return RuleSet("test", {name: {**default[name], **changed.get(name, {})} for name in names})


def diagram_of(rooms: str, *relations: str) -> BubbleDiagram:
    """Rooms by name, and relations such as ``0 left-of 1``."""
    found = []
    for words in relations:
        i, name, j = words.split()
        found.append((int(i), int(j), RELATIONS.index(name)))
    return BubbleDiagram(tuple(ROOM_TYPES.index(name) for name in rooms.split()), found)


CIRCLE = BubbleDiagram((0, 1, 2), [(0, 1, 2), (1, 2, 2), (0, 2, 7)])
"""Rooms each left of the next, and the last one left of the first: there is no plan."""

FLAT = floor_plan(
    [
        ("LivingRoom", (3.5, 0.0, 9.0, 6.0)),
        ("Kitchen", (6.6, 0.0, 9.0, 2.6)),
        ("MasterRoom", (0.0, 0.0, 3.5, 4.2)),
        ("Bathroom", (0.0, 4.2, 2.0, 6.0)),
        ("SecondRoom", (0.0, 6.0, 4.0, 9.0)),
        ("Bathroom", (4.0, 6.0, 6.2, 8.0)),
        ("Balcony", (9.0, 2.6, 10.4, 6.0)),
        ("Entrance", (2.0, 4.2, 3.5, 6.0)),
    ]
)
"""A flat with its kitchen in the corner of an L-shaped living room, an entrance without a facade,
and dead area at the bottom right."""


agrees = PartialDiagram.agrees_with


def place_diagram(diagram: BubbleDiagram | PartialDiagram) -> Placement:
    return place_all([diagram])[0]
