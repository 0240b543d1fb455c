"""``Job`` and ``Realised``: floor plans to find, floor plans found, and their scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from discrete_diffusion.config import counted
from discrete_diffusion.layout import RELATIONS
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.vocabulary import NO_EDGE
from floor_plans.plans.contradiction import Member, member_text, room_names
from floor_plans.plans.doors import FRONT, unreached
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.plans.libraries import shapely
from floor_plans.plans.outline import fill_gaps
from floor_plans.plans.walls import OUTER_WALL
from floor_plans.rules.checks import facade_lengths
from floor_plans.rules.finding import HALL, name_of, remove_halls
from floor_plans.rules.rule_set import judge, read_rules
from floor_plans.solver.near_search import EarlierPlan
from floor_plans.solver.outline_constraints import BALCONY, BALCONY_WALL
from floor_plans.solver.room_constraints import HALL_TYPE
from floor_plans.solver.shapes import window_share
from floor_plans.solver.spec import PlanSpec, Requirement, has_usual_shapes

CIRCULATION_RULES = ("front", "access", "bath")  # rules that a hall is added for
FURNISHING_RULES = ("furniture", "shape", "largest", "airy", "entry", "islands", "slits")
SCORES = "scores"  # key of a plan's line in JSON

_SHARES = ("compactness", "fill", "area_error", "light", "total")

_ENOUGH_LIGHT = 0.08  # window area per floor area that counts in full, as in the rule ``window``
_MOST_NAMED = 6  # requirements that a sentence names

_ROUNDING = 1e-6


@dataclass(frozen=True)
class Job:
    """Request for ``variants`` different floor plans of ``diagram``, according to ``spec``.
    ``other_areas``: further target areas to try, see ``realise``. ``hall``: True if a hall may be
    added where it meets more requirements. ``near``: earlier plan to stay near to.
    ``proofs``: True to examine whether broken rules can be kept at all. ``strict``: True to search
    no plan in a given outline once it is shown that none keeps all rules."""

    diagram: BubbleDiagram
    spec: PlanSpec
    variants: int = 1
    seed: int = 0
    other_areas: tuple[tuple[float, ...], ...] = ()
    hall: bool = False
    near: EarlierPlan | None = None
    proofs: bool = True
    strict: bool = False

    @property
    def wants_hall(self) -> bool:
        """True if the first plans searched have a hall behind the front door: by the rule ``entry``
        there are many rooms, none is an entrance, and rules on access let a hall lead to others.
        Not if areas are requested for a given outline, as the hall comes on top of them."""
        entry, rooms = self.spec.rule("entry"), self.diagram.rooms
        if not self.hall or entry is None or HALL_TYPE in rooms or len(rooms) < entry["num_rooms"]:
            return False
        through = [(self.spec.rule(name) or {}).get("through", ()) for name in ("access", "bath")]
        has_space = self.spec.outline.boundary is None or len(self.spec.typical) == len(rooms)
        return has_space and all(HALL in each for each in (entry["rooms"], *through))


@dataclass(frozen=True)
class Shortfall:
    """Requirement that a plan does not meet: either a ``rule`` that it breaks, or a ``demand``.

    ``demand``: "areas", "shapes", "doors", "front door", "whole floors", "balconies" or "variants".
    ``found``: the shortfall in words. ``rooms``: the rooms concerned; for areas in order of error,
    the largest first. ``proved``: True if the solver showed that no plan it considers keeps both
    the rule and the relations.
    """

    found: str
    rule: str = ""
    demand: str = ""
    rooms: tuple[int, ...] = ()
    proved: bool = False

    @property
    def kind(self) -> str:
        """Name of the requirement: ``areas``, ``rule access``."""
        return f"rule {self.rule}" if self.rule else self.demand

    def sentence(self) -> str:
        """Sentence such as ``access: kitchen is not reached ...``."""
        return f"{self.rule}: {self.found}" if self.rule else self.found

    def to_json(self) -> dict[str, Any]:
        rooms = list(self.rooms)
        if not self.rule:
            return {"demand": self.demand, "rooms": rooms, "found": self.found}
        return {"rule": self.rule, "rooms": rooms, "found": self.found, "proved": self.proved}


def shortfalls_of(plan: FloorPlan, spec: PlanSpec) -> tuple[Shortfall, ...]:
    """Requirements that the plan does not meet, judged by the plan alone."""

    def names(rooms: Sequence[int]) -> str:
        return ", ".join(name_of(plan, room) for room in rooms)

    found = []
    # areas and shapes
    off = plan.area_errors(spec.areas)
    if rooms := tuple(k for k, error in enumerate(off) if error > spec.tolerance + _ROUNDING):
        rooms = tuple(sorted(rooms, key=lambda room: -off[room]))
        text = f"areas are up to {max(off):.0%} off their targets: {names(rooms)}"
        found.append(Shortfall(text, "", "areas", rooms))
    if not has_usual_shapes(plan, spec.areas):
        found.append(Shortfall("rooms are narrower or longer than usual", demand="shapes"))
    if rooms := unreached(plan):
        found.append(Shortfall(f"no door leads to {names(rooms)}", "", "doors", rooms))
    if spec.front_door is not None:
        # as far from the requested place as it is wide, at most
        doors = [door for door in plan.doors if door.is_front]
        away = min((math.dist(door.middle, spec.front_door) for door in doors), default=math.inf)
        if away > FRONT:
            text = f"the front door is {away:.1f} m from its place"
            text = text if doors else "a front door is missing"
            rooms = tuple(door.rooms[0] for door in doors)
            found.append(Shortfall(text, demand="front door", rooms=rooms))
    # floors, and balconies without facade
    if rooms := rooms_with_split_floors(plan):
        text = f"the floor of {names(rooms)} is in parts"
        found.append(Shortfall(text, "", "whole floors", rooms))
    balconies = [k for k, room in enumerate(plan.diagram.rooms) if room == BALCONY]
    walls = facade_lengths(plan, balconies, OUTER_WALL)
    if rooms := tuple(k for k, length in walls.items() if length < BALCONY_WALL - _ROUNDING):
        found.append(Shortfall(f"{names(rooms)} has no outer wall", "", "balconies", rooms))
    broken = judge(plan, spec.rules).broken
    found += [Shortfall(each.found, rule, rooms=each.rooms) for rule, each in broken]
    return tuple(found)


def rooms_with_split_floors(plan: FloorPlan) -> tuple[int, ...]:
    """Rooms whose floor is split by the rooms inside them."""
    return tuple(k for k, floor in enumerate(plan.rooms) if floor.geom_type != "Polygon")


@dataclass(frozen=True)
class Conflict:
    """Requirements that no plan considered by the solver satisfies together. ``hall``: True if the
    conflict exists with an added hall, False if without; None if both, or no hall is allowed."""

    requirements: tuple[Requirement, ...]
    hall: bool | None = None

    def sentence(self, names: Sequence[str]) -> str:
        """Sentence such as ``ruled out without a hall: kitchen is reached through common rooms``.
        ``names``: names of all rooms, the hall last."""
        where = {None: "", True: " with a hall", False: " without a hall"}[self.hall]
        together = " together" if len(self.requirements) > 1 else ""
        named = [requirement.sentence(names) for requirement in self.requirements[:_MOST_NAMED]]
        if left := len(self.requirements) - len(named):
            named.append(f"{left} more")
        return f"ruled out{together}{where}: {', '.join(named)}"

    def to_json(self, names: Sequence[str]) -> dict[str, Any]:
        needs = [requirement.to_json(names) for requirement in self.requirements]
        return {"hall": self.hall, "needs": needs}


@dataclass(frozen=True)
class Explanation:
    """Explanation why no plan keeps all rules: the conflicts, without a hall and with one, and a
    relation (or its absence) whose replacement lets a plan keep them."""

    conflicts: tuple[Conflict, ...] = ()
    instead: tuple[Member, Member] | None = None

    @property
    def excludes(self) -> bool:
        """True if the conflicts rule out every plan, with a hall and without."""
        halls = {conflict.hall for conflict in self.conflicts}
        return None in halls or halls == {True, False}

    def sentences(self, names: Sequence[str]) -> list[str]:
        """Return the sentences of the conflicts, and of the replacement: ``possible with kitchen
        above bathroom (now left-above)``. ``names``: as for ``Conflict.sentence``."""
        said = [conflict.sentence(names) for conflict in self.conflicts]
        if self.instead is not None:
            (*_, now), new = self.instead
            named = "not related" if now == NO_EDGE else RELATIONS[now]
            said.append(f"possible with {member_text(new, names)} (now {named})")
        return said

    def to_json(self, names: Sequence[str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.conflicts:
            found["conflicts"] = [conflict.to_json(names) for conflict in self.conflicts]
        if self.instead is not None:
            (*rooms, now), (*_, new) = self.instead
            said = {"rooms": rooms, "now": RELATIONS[now], "relation": RELATIONS[new]}
            found["instead"] = said
        return found


NO_EXPLANATION = Explanation()


@dataclass(frozen=True)
class Realised:
    """Plans found for a job, the best first, with their target ``areas`` (none for added rooms).

    ``shortfalls``: unmet requirements of each plan. ``reason``: reason why no plan was found.
    ``excluded``: the plans break a rule, or a ``strict`` job has none, and the solver showed that
    no plan it considers keeps all rules, for any shapes and areas of rooms. As the model is
    stricter than some rules, a plan drawn by hand may still keep them. ``explanation``: conflicting
    requirements and a remedy.
    """

    plans: tuple[FloorPlan, ...] = ()
    areas: tuple[float, ...] = ()
    shortfalls: tuple[tuple[Shortfall, ...], ...] = ()
    reason: str = ""
    excluded: bool = False
    explanation: Explanation = NO_EXPLANATION

    @property
    def given_up(self) -> tuple[Shortfall, ...]:
        """Requirements that at least one of the plans does not meet."""
        return tuple(dict.fromkeys(each for found in self.shortfalls for each in found))

    @property
    def broken(self) -> frozenset[str]:
        """Rules that at least one of the plans breaks."""
        return frozenset(each.rule for each in self.given_up if each.rule)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the diagram's rooms, and of a hall; empty without a plan."""
        if not self.plans:
            return ()
        return (*room_names(remove_halls(self.plans[0].diagram)), "the hall")

    @property
    def may_improve(self) -> bool:
        """True if other target areas may lead to a plan with fewer shortfalls."""
        areas = any(each.demand == "areas" for each in self.given_up)
        return bool(areas or self.broken) and not self.excluded

    @property
    def rank(self) -> tuple[int, int, int, int]:
        """Sort key, smaller if better: broken circulation rules, broken rules of living, broken
        rules, shortfalls."""
        rules = [each.rule for each in self.given_up if each.rule]
        circulation = sum(rule in CIRCULATION_RULES for rule in rules)
        living = sum(rule not in FURNISHING_RULES for rule in rules)
        return circulation, living, len(rules), len(self.given_up)


@dataclass(frozen=True)
class Scores:
    """Scores of a plan.

    ``kept``: for every rule of ``default``, True if the plan keeps it; None if it does not apply.
    ``compactness``: perimeter of a square of the same area / perimeter of the outline. ``fill``:
    share of the area in the outline that belongs to rooms. ``area_error``: largest relative error
    of a room's area. ``light``: ratio of window to floor area of habitable rooms, see
    ``window_share``; None without such rooms.
    """

    kept: Mapping[str, bool | None]
    compactness: float
    fill: float
    area_error: float
    light: float | None

    @property
    def num_broken(self) -> int:
        """Number of rules that the plan breaks."""
        return sum(each is False for each in self.kept.values())

    @property
    def total(self) -> float:
        """Mean of compactness, fill, 1 - area error, and light up to 8 %; the best is 1."""
        light = 1.0 if self.light is None else min(1.0, self.light / _ENOUGH_LIGHT)
        return (self.compactness + self.fill + max(0.0, 1 - self.area_error) + light) / 4

    def to_json(self) -> dict[str, Any]:
        shares = {name: getattr(self, name) for name in _SHARES}
        rounded = {k: v if v is None else round(v, 4) for k, v in shares.items()}
        return {"num_broken": self.num_broken, **rounded}

    def sentence(self) -> str:
        """Text such as ``0 rules broken, compactness 0.91, fill 95 %, area error 3 %``."""
        light = "" if self.light is None else f", light {self.light:.1%}"
        text = (
            f"{counted(self.num_broken, 'rule')} broken, compactness {self.compactness:.2f}, "
            f"fill {self.fill:.0%}, area error {self.area_error:.0%}{light}"
        )
        return text.replace("%", " %")


def scores_of(plan: FloorPlan, targets: Sequence[float]) -> Scores:
    """Scores of a plan; ``targets``: target areas of its rooms."""
    # outline of the built area, walls included
    built = fill_gaps(shapely.union_all(plan.rooms))
    around = sum(part.exterior.length for part in shapely.get_parts(built))
    return Scores(
        kept=judge(plan, read_rules("default")).kept,
        compactness=4 * math.sqrt(built.area) / around,
        fill=1 - plan.dead_area / plan.outline.area,
        area_error=plan.largest_area_error(targets),
        light=window_share(plan),
    )


def rank_key(shortfalls: Sequence[Shortfall], scores: Scores) -> tuple[float, ...]:
    """Key that sorts plans, the best first: by unmet requirements, then broken rules, then
    ``total``."""
    return len(shortfalls), scores.num_broken, -scores.total


def ranked_variants(found: Realised) -> tuple[Realised, tuple[Scores, ...]]:
    """Return the plans, best first (``rank_key``), and their scores."""
    scores = [scores_of(plan, found.areas) for plan in found.plans]
    order = sorted(range(len(scores)), key=lambda k: rank_key(found.shortfalls[k], scores[k]))
    in_order = replace(
        found,
        plans=tuple(found.plans[k] for k in order),
        shortfalls=tuple(found.shortfalls[k] for k in order),
    )
    return in_order, tuple(scores[k] for k in order)
