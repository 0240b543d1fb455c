"""``RULES``: every rule by its name, with the parameters that a file of rules gives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.rules import between_rooms, circulation, envelope, sizes
from floor_plans.rules.finding import ROOM_KINDS, Findings, Parameters


@dataclass(frozen=True)
class Number:
    """A parameter that is a number above 0."""


@dataclass(frozen=True)
class Share:
    """A parameter that is a number above 0 and at most 1."""


@dataclass(frozen=True)
class Kinds:
    """A parameter that is a list of kinds of rooms."""


@dataclass(frozen=True)
class NumberByKind:
    """A parameter that is a number above 0 for some of these ``names``."""

    names: tuple[str, ...] = ROOM_KINDS


ParameterType = Number | Share | Kinds | NumberByKind

NUMBER, SHARE, KINDS, BY_KIND = Number(), Share(), Kinds(), NumberByKind()


@dataclass(frozen=True)
class Rule:
    """``judge``: what it finds wrong with a plan; ``parameters``: the types of what it takes;
    ``meaning``: what it demands, in a few words."""

    judge: Callable[[FloorPlan, Parameters], Findings]
    parameters: Mapping[str, ParameterType]
    meaning: str


_OUTER: Mapping[str, ParameterType] = {"rooms": KINDS, "wall": NUMBER}

RULES: Mapping[str, Rule] = {
    "apart": Rule(between_rooms.apart, {"overlap": NUMBER}, "no two rooms share floor"),
    "front": Rule(circulation.front_door, {"rooms": KINDS}, "a front door into a common room"),
    "access": Rule(
        circulation.access,
        {"reached": KINDS, "through": KINDS},
        "rooms are reached from it through common rooms alone",
    ),
    "bath": Rule(
        circulation.bath_access,
        {"rooms": KINDS, "through": KINDS},
        "so is a bathroom",
    ),
    "doors": Rule(
        circulation.door_widths,
        {"least": NumberByKind((*ROOM_KINDS, circulation.OUTSIDE))},
        "least widths of doors",
    ),
    "swings": Rule(circulation.door_swings, {"overlap": NUMBER}, "doors turn without colliding"),
    "width": Rule(sizes.least_widths, {"least": BY_KIND}, "least widths of rooms"),
    "area": Rule(sizes.least_areas, {"least": BY_KIND}, "least areas of rooms"),
    "walls": Rule(
        between_rooms.shared_walls,
        {"facing": NUMBER, "wall": NUMBER, "on_wall": SHARE},
        "a wall and nothing else between related rooms; doors in walls",
    ),
    "facade": Rule(envelope.facade, {**_OUTER, "length": NUMBER}, "rooms have an outer wall"),
    "window": Rule(
        envelope.window,
        {**_OUTER, "share": SHARE, "height": NUMBER},
        "outer walls are long enough for windows (necessary)",
    ),
    "escape": Rule(
        envelope.facade,
        {**_OUTER, "length": NUMBER},
        "bedrooms have an outer wall for a window to escape by (necessary)",
    ),
    "compact": Rule(
        envelope.compact,
        {"corners": NUMBER, "perimeter": NUMBER, "sliver": NUMBER, "wall": NUMBER},
        "few corners and a short outline, where it is free",
    ),
    "fill": Rule(
        envelope.fill, {"share": SHARE, "wall": NUMBER}, "rooms fill the outline that is given"
    ),
}
"""In the order of tables."""
