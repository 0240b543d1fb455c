"""Briefs of clients: plans that ``plans make`` finds, and what their IFC files alone say of them.

    python benchmarks/clients.py [--briefs couple ...] [--num 2] [--candidates 4] [--keep FOLDER]

Every sentence of a brief is checked on the spaces, doors, openings, windows and slabs of the IFC
file: nothing that the solver knows is used. Plans that break rules are judged, too. Writes
``benchmarks/results/clients.json`` and its table.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import cached_property
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import ifcopenshell
import shapely
from ifcopenshell.util.element import get_psets
from ifcopenshell.util.placement import get_local_placement

from discrete_diffusion.cli import main as command
from floor_plans.briefs import answering
from floor_plans.briefs.brief import ANY_RELATION, AnyRule, Brief, CountRule, Kind, Quantity, Rule
from floor_plans.briefs.reading import read_brief
from floor_plans.briefs.sentences import sentence_of
from record import ROOT, Part, Record, Sections, command_line, earlier, markdown_table, publish
from runs import kept_folder

EXAMPLES = ROOT / "examples" / "briefs"
BRIEFS = ("client", "couple", "guests", "parents", "shared", "site", "study", "wheelchair")
_WALL, _FACING = 0.35, 0.5
"""Metres between rooms with a common wall at most, and of that wall at least."""
_APART = 0.5  # metres between rooms that are not next to each other, at least
_TOLERANCE, _OF_AREA = 0.01, 0.1  # metres and square metres; share of the area of all rooms
_WIDE, _TURN = 0.9, 1.5  # metres: clear width of a door and circle of a wheelchair
_OUTSIDE = ""  # the other side of a front door

Judged = tuple[str, bool]
"""A sentence, and whether a plan meets it."""


class IfcPlan:
    """Rooms of an IFC file by id, and what is between them, by its space boundaries."""

    def __init__(self, path: Path) -> None:
        self.model = ifcopenshell.open(str(path))
        spaces = self.model.by_type("IfcSpace")
        self.types = {space.GlobalId: space.ObjectType for space in spaces}
        self.floors = {space.GlobalId: footprint(space) for space in spaces}
        self.gross = {
            space.GlobalId: get_psets(space)["Qto_SpaceBaseQuantities"]["GrossFloorArea"]
            for space in spaces
        }

    def _between(self, kind: str) -> dict[Any, frozenset[str]]:
        """Elements of a kind, and the spaces that they bound."""
        found: dict[Any, set[str]] = {each: set() for each in self.model.by_type(kind)}
        for bound in self.model.by_type("IfcRelSpaceBoundary"):
            if bound.RelatedBuildingElement in found:
                found[bound.RelatedBuildingElement].add(bound.RelatingSpace.GlobalId)
        return {element: frozenset(ids) for element, ids in found.items()}

    @cached_property
    def doors(self) -> list[tuple[frozenset[str], float]]:
        """Spaces on both sides of each door, and its width; a front door has one."""
        found = self._between("IfcDoor").items()
        return [
            (ids | {_OUTSIDE} if len(ids) == 1 else ids, door.OverallWidth) for door, ids in found
        ]

    @cached_property
    def openings(self) -> list[frozenset[str]]:
        """Pairs of spaces with a virtual boundary, where they meet without a wall."""
        walls, found = self.union("IfcWall"), []
        for ids in self._between("IfcVirtualElement").values():
            one, other = (self.floors[each] for each in ids)
            border = one.buffer(_TOLERANCE).intersection(other).difference(walls)
            found += [ids] * (border.area > _TOLERANCE * _WIDE)
        return found

    def union(self, *kinds: str) -> Any:
        """Floor below all elements of these kinds."""
        return shapely.union_all([footprint(e) for kind in kinds for e in self.model.by_type(kind)])

    @cached_property
    def land(self) -> Any:
        """The site within its border."""
        (curve,) = self.model.by_type("IfcSite")[0].Representation.Representations[0].Items
        return shapely.Polygon([point.Coordinates for point in curve.Points])

    @cached_property
    def lit(self) -> set[str]:
        """Spaces with a window."""
        return {each for ids in self._between("IfcWindow").values() for each in ids}

    def rooms(self, kind: Kind | str) -> list[str]:
        """Spaces of a kind of rooms."""
        assert isinstance(kind, Kind)  # these briefs name no rooms
        return [each for each, name in self.types.items() if name in kind.names]

    def are_joined(self, kinds: tuple[Kind, Kind], pairs: list[frozenset[str]]) -> bool:
        """True if one of the pairs is of these kinds."""
        first, second = map(self.rooms, kinds)
        return any(a != b and frozenset((a, b)) in pairs for a in first for b in second)

    def can_turn(self, room: str) -> bool:
        """True if a wheelchair's circle fits the floor."""
        return not self.floors[room].buffer(_TOLERANCE - _TURN / 2).is_empty

    def holds(self, rule: Rule) -> bool:
        """True if the rooms obey a rule of numbers or of neighbours."""
        if isinstance(rule, CountRule):
            return len(self.rooms(rule.kind)) in rule.number
        if isinstance(rule, AnyRule):
            return any(all(map(self.holds, option)) for option in rule.options)
        if getattr(rule, "relations", None) != ANY_RELATION:
            raise NotImplementedError(sentence_of(rule))  # only neighbours are checked here
        # one flag for each subject: another room is next to it
        is_no = rule.quantity is Quantity.NO
        related = [
            any(a != b and self._are_close(a, b, is_no) for b in self.rooms(rule.object))
            for a in self.rooms(rule.subject)
        ]
        return all(related) if rule.quantity is Quantity.EVERY else any(related) is not is_no

    def _are_close(self, a: str, b: str, is_no: bool) -> bool:
        """True if rooms have a common wall; ``is_no``: if they are less than ``_APART`` apart."""
        one, other = self.floors[a], self.floors[b]
        if is_no:
            return bool(one.distance(other) < _APART)
        near = shapely.get_parts(other.boundary.intersection(one.buffer(_WALL)))
        sides = [side for part in near for side in pairwise(part.coords)]
        return max((math.dist(*side) for side in sides), default=0.0) > _FACING


def footprint(element: Any) -> Any:
    """The floor below the solids of an element."""
    matrix, found = get_local_placement(element.ObjectPlacement), []
    for solid in element.Representation.Representations[0].Items:
        rings = [solid.SweptArea.OuterCurve, *(getattr(solid.SweptArea, "InnerCurves", None) or ())]
        corners = [
            [(matrix @ [*point.Coordinates, 0, 1])[:2] for point in ring.Points] for ring in rings
        ]
        found.append(shapely.Polygon(corners[0], corners[1:]))
    return shapely.union_all(found)


def judged(brief: Brief, plan: IfcPlan) -> Iterator[Judged]:
    """Every sentence that a plan has to meet."""
    facts, types = brief.plan_facts, plan.types
    own = [each for each in types if types[each] != "Hall"]
    yield f"{brief.num_rooms} rooms", len(own) in brief.num_rooms
    for rule in brief.rules:
        yield sentence_of(rule), plan.holds(rule)
    # areas, of all rooms and of a kind
    if facts.area is not None:
        total = sum(plan.gross[each] for each in own)
        yield f"{facts.area:g} m2 of rooms", abs(total - facts.area) <= _OF_AREA * facts.area
    for rule in facts.areas or ():
        sizes = [plan.floors[each].area for each in plan.rooms(rule.kind)]
        most = rule.most or float("inf")
        fit = all(rule.least - _TOLERANCE <= size <= most + _TOLERANCE for size in sizes)
        yield f"{rule.kind.name} of {rule.least:g} to {most:g} m2", fit
    # doors, openings, windows
    doors = [ids for ids, _ in plan.doors]
    for pair in facts.doors or ():
        yield f"a door {_names(pair)}", plan.are_joined(pair, doors)
    for pair in facts.no_door or ():
        yield f"no door {_names(pair)}", not plan.are_joined(pair, [*doors, *plan.openings])
    for pair in facts.open or ():
        yield f"open {_names(pair)}", plan.are_joined(pair, plan.openings)
    for kind in facts.light or ():
        yield f"daylight in {kind.name}", {*plan.rooms(kind)} <= plan.lit
    if facts.accessible:
        narrow = [width for _, width in plan.doors if width < _WIDE - _TOLERANCE]
        yield "doors of 0.9 m", not narrow
        halls = [each for each in types if types[each] in ("Hall", "Entrance")]
        baths = [each for each in types if types[each] == "Bathroom"]
        turns = all(map(plan.can_turn, halls)) and any(map(plan.can_turn, baths))
        yield "a circle of 1.5 m in halls and a bathroom", turns
    # the building on its site, y upwards
    if facts.site is not None:
        house, ring = plan.union("IfcWall", "IfcSpace", "IfcRailing"), facts.site.polygon
        sides = [shapely.LineString([(x, -y) for x, y in s]) for s in pairwise([*ring, ring[0]])]
        least = zip(sides, facts.site.setbacks, strict=True)
        is_free = all(house.distance(side) >= back - _TOLERANCE for side, back in least)
        yield "within the setbacks of the site", plan.land.covers(house) and is_free
        covered = plan.union("IfcWall", "IfcSpace").area / plan.land.area
        yield f"{facts.site.coverage:.0%} of the site", covered <= facts.site.coverage + 1e-3
    # what every client expects
    yield "every room is reached", _reached(plan) == {*types}
    yield (
        "rooms do not overlap",
        not any(
            one.intersection(other).area > _TOLERANCE
            for one, other in combinations(plan.floors.values(), 2)
        ),
    )


def _names(pair: tuple[Kind, Kind]) -> str:
    return " - ".join(kind.name for kind in pair)


def _reached(plan: IfcPlan) -> set[str]:
    """Rooms that one can walk to from outside."""
    pairs, found = [*(ids for ids, _ in plan.doors), *plan.openings], {_OUTSIDE}
    while more := {each for ids in pairs if ids & found for each in ids} - found:
        found |= more
    return found - {_OUTSIDE}


def measure(name: str, num: int, candidates: int, folder: Path) -> dict[str, Any]:
    """What the IFC files of a brief's plans say, best first."""
    file, out = EXAMPLES / f"{name}.yaml", folder / name
    if not (out / "plans.jsonl").exists():
        options = ["strict=false", "threads=1", "formats=[ifc]", f"num={num}"]
        answering._LEAST_RATE = 0.0  # rejection, however busy the machine is
        command(
            ["plans", "make", f"brief={file}", f"out={out}", f"candidates={candidates}", *options]
        )
    brief, plans = read_brief(file), []
    lines = [json.loads(line) for line in (out / "plans.jsonl").read_text().splitlines()]
    for number, line in enumerate(lines, start=1):
        plan = IfcPlan(out / "ifc" / f"{number}.ifc")
        found = list(judged(brief, plan))
        liked = [all(map(plan.holds, soft.option)) for soft in brief.should]
        plans.append(
            {
                "num": len(found),
                "unmet": [sentence for sentence, met in found if not met],
                "should": [sum(liked), len(liked)],
                "broken": [each["rule"] for each in line.get("given_up", ()) if each.get("rule")],
            }
        )
        print(name, number, plans[-1], flush=True)
    return {"plans": plans}


def sections(record: Record) -> Sections:
    """A row for each plan."""
    rows = [
        [
            f"[{name}](../examples/briefs/{name}.yaml)",
            f"{plan['num'] - len(plan['unmet'])} of {plan['num']}",
            " of ".join(map(str, plan["should"])),
            "; ".join(plan["unmet"]) or "-",
            ", ".join(plan["broken"]) or "-",
        ]
        for name, found in record.results.items()
        for plan in found["plans"]
    ]
    heads = ["", "sentences met", "`should` met", "unmet", "rules that the solver gave up"]
    return {(Part.PLANS, "clients"): markdown_table(heads, rows)}


def main() -> None:
    parser = command_line(__doc__, keep=True)
    parser.add_argument("--briefs", nargs="*", choices=BRIEFS, default=list(BRIEFS))
    parser.add_argument("--num", type=int, default=2)
    parser.add_argument("--candidates", type=int, default=4)
    given = parser.parse_args()
    found = earlier("clients")
    with kept_folder(given.keep) as folder:
        for name in given.briefs:
            found[name] = measure(name, given.num, given.candidates, folder)
    words = f"python benchmarks/clients.py --num {given.num} --candidates {given.candidates}"
    publish("clients", command=words, seed=0, results={name: found[name] for name in sorted(found)})


if __name__ == "__main__":
    main()
