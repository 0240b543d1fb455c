"""``RuleSet`` and ``judge``: read rules from a YAML file, and judge floor plans by them."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from discrete_diffusion.config import unknown_name
from discrete_diffusion.evaluation import Interval, share_interval
from floor_plans.diagrams.files.yaml_nodes import BriefError, Node, read_node
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.rules import checks, furnishing
from floor_plans.rules.asked import ASKED
from floor_plans.rules.finding import ROOM_KINDS, Finding, Findings, Parameters, check_rooms


def number(node: Node) -> float:
    """Read a number above 0."""
    try:
        value = float(node.words)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0) or isinstance(node.value, dict | tuple):
        raise node.error(f"expected a number above 0, got {node.shown}")
    return value


def share(node: Node) -> float:
    """Read a share, above 0 and at most 1."""
    value = number(node)
    if value > 1:
        remedy = f"; {value:g} % is {value / 100:g}" if 2 <= value <= 100 else ""
        raise node.error(f"expected a share, above 0 and at most 1, got {value:g}{remedy}")
    return value


def kinds(node: Node) -> tuple[str, ...]:
    """Read a list of kinds of rooms."""
    items = node.items("a list of kinds of rooms")
    for item in items:
        _check_name(item, "kind of room", item.value, ROOM_KINDS)
    return tuple(str(item.value) for item in items)


Sizes = tuple[tuple[float, float], ...]


def sizes(node: Node) -> Sizes:
    """Read sizes, such as ``1.5 x 1.7 or 1.1 x 2.1``."""
    found = []
    for size in node.words.split(" or "):
        sides = re.fullmatch(r"\s*([\d.]+) x ([\d.]+)\s*", size)
        if sides is None:
            raise node.error(f"expected a size, as 1.5 x 1.7 or 1.1 x 2.1, got {node.shown}")
        found.append((float(sides[1]), float(sides[2])))
    return tuple(found)


def values_by_kind(
    node: Node, read: Callable[[Node], Any] = number, names: Sequence[str] = ROOM_KINDS
) -> dict[str, Any]:
    """Read a value for each of some ``names``, a number by default."""
    entries = node.entries("a number for each kind of room")
    for name, each in entries.items():
        _check_name(each, "kind of room", name, names)
    return {name: read(each) for name, each in entries.items()}


def _check_name(node: Node, noun: str, name: Any, known: Iterable[str]) -> None:
    """Raise ``BriefError`` for an unknown name; the message has the closest known name."""
    if name not in known:
        raise node.error(unknown_name(noun, name, known))


@dataclass(frozen=True)
class Rule:
    """Rule on floor plans: its check, a reader for each of its parameters, a few words for
    tables."""

    judge: Callable[[FloorPlan, Parameters], Findings]
    parameters: Mapping[str, Callable[[Node], Any]]
    meaning: str


_OUTER = {"rooms": kinds, "wall": number}

RULES: Mapping[str, Rule] = {
    "apart": Rule(checks.check_apart, {"overlap": number}, "no two rooms share floor"),
    "front": Rule(checks.check_front_door, {"rooms": kinds}, "a front door into a common room"),
    "access": Rule(
        checks.check_access,
        {"reached": kinds, "through": kinds},
        "rooms are reached from it through common rooms alone",
    ),
    "bath": Rule(checks.check_bath_access, {"rooms": kinds, "through": kinds}, "so is a bathroom"),
    "doors": Rule(
        checks.check_door_widths,
        {"least": partial(values_by_kind, names=(*ROOM_KINDS, checks.OUTSIDE))},
        "least widths of doors",
    ),
    "swings": Rule(checks.check_door_swings, {"overlap": number}, "doors turn without colliding"),
    "width": Rule(checks.check_widths, {"least": values_by_kind}, "least widths of rooms"),
    "area": Rule(checks.check_areas, {"least": values_by_kind}, "least areas of rooms"),
    "walls": Rule(
        checks.check_shared_walls,
        {"facing": number, "wall": number, "on_wall": share},
        "a wall and nothing else between related rooms; doors in walls",
    ),
    "facade": Rule(checks.check_facade, {**_OUTER, "length": number}, "rooms have an outer wall"),
    "window": Rule(
        checks.check_window,
        {**_OUTER, "share": share, "height": number},
        "outer walls are long enough for windows (necessary)",
    ),
    "escape": Rule(
        checks.check_facade,
        {**_OUTER, "length": number},
        "bedrooms have an outer wall for a window to escape by (necessary)",
    ),
    "compact": Rule(
        checks.check_compact,
        {"corners": number, "perimeter": number, "sliver": number, "wall": number},
        "few corners and a short outline, where it is free",
    ),
    "fill": Rule(
        checks.check_fill, {"share": share, "wall": number}, "rooms fill the outline that is given"
    ),
    "furniture": Rule(
        furnishing.check_furniture,
        {"least": partial(values_by_kind, read=sizes), "in_front": values_by_kind, "wall": number},
        "rectangles of rooms clear of walls, of a living room clear of doors (necessary)",
    ),
    "shape": Rule(
        furnishing.check_shapes,
        {"most": values_by_kind, "narrow": values_by_kind, "share": share, "wall": number},
        "rooms are not too long, nor narrow in parts (necessary)",
    ),
    "largest": Rule(
        furnishing.check_largest, {"most": values_by_kind, "wall": number}, "largest areas of rooms"
    ),
    "airy": Rule(
        checks.check_facade,
        {**_OUTER, "length": number, "to": kinds, "sliver": number},
        "kitchens have an outer wall, or one to a balcony (necessary)",
    ),
    "entry": Rule(
        furnishing.check_entry,
        {"rooms": kinds, "doors": number, "num_rooms": number},
        "the front door opens into a hall, or a living room with few more doors",
    ),
    "islands": Rule(
        furnishing.check_islands,
        {**_OUTER, "around": kinds, "touched": share, "narrow": number},
        "no rooms with narrow strips around them",
    ),
    "slits": Rule(
        furnishing.check_slits,
        {"most": number, "sliver": number, "wall": number},
        "hardly any area in slits between rooms",
    ),
}
"""Rules in the order of tables."""

NONE = "none"

BASE = "base"  # key of a file: the set of rules that it modifies


@dataclass(frozen=True)
class RuleSet:
    """Set of rules. ``name``: source of the set; ``rules``: parameters by rule."""

    name: str
    rules: Mapping[str, Parameters]


NO_RULES = RuleSet(NONE, {})


def shipped_sets() -> list[str]:
    """Names of the sets that come with the package, ``none`` last."""
    return [*sorted(path.stem for path in Path(__file__).parent.glob("*.yaml")), NONE]


def read_rules(name: str | os.PathLike[str], key: str = "rules") -> RuleSet:
    """Read one of ``shipped_sets``, or a file with a key for each rule. ``key``: option that named
    the set, for messages. With ``base: default`` a file modifies the set ``default``: parameters
    that it leaves out stay, and ``fill: false`` drops a rule. Raises ``ValueError`` naming file,
    line and key of a mistake, with the closest valid name, and ``FileNotFoundError``."""
    if name == NONE:
        return NO_RULES
    if name in shipped_sets():
        return RuleSet(str(name), _rules_of(Path(__file__).parent / f"{name}.yaml"))
    path = Path(name)
    if not path.exists():
        if path.suffix or len(path.parts) > 1:
            raise FileNotFoundError(f"{key}={path}: no file at {path.absolute()}")
        raise ValueError(f"{unknown_name(key, str(name), shipped_sets())}; or a YAML file")
    return RuleSet(str(path), _rules_of(path))


def _rules_of(path: Path) -> dict[str, Parameters]:
    try:
        root = read_node(path, "file of rules", "base: and width:")
        entries = dict(root.entries(f"rules ({', '.join(RULES)}) with their parameters"))
        rules: dict[str, Parameters] = {}
        if (base := entries.pop(BASE, None)) is not None:
            names = [name for name in shipped_sets() if name != NONE]
            if not isinstance(base.value, str):
                raise base.error(f"expected a name, one of {', '.join(names)}")
            _check_name(base, "rules", base.value, names)
            rules = dict(read_rules(base.value).rules)
        for name, node in entries.items():
            _check_name(node, "rule", name, RULES)
            if node.value is False:
                rules.pop(name, None)
            else:
                rules[name] = read_parameters(node, name, rules.get(name, {}))
    except BriefError as error:
        raise error.located(path) from error
    return rules


def read_parameters(node: Node, rule: str, base: Parameters) -> Parameters:
    """Read the parameters of a rule; ``base``: default values."""
    types = RULES[rule].parameters
    read: dict[str, Any] = dict(base)
    for name, each in node.entries(f"parameters: {', '.join(types)}").items():
        _check_name(each, f"parameter of {rule}", name, types)
        value = types[name](each)
        read[name] = {**base.get(name, {}), **value} if isinstance(value, dict) else value
    if missing := [name for name in types if name not in read]:
        raise node.error(f"needs {', '.join(missing)}, or base: default, which has defaults")
    return read


@dataclass(frozen=True)
class Judgement:
    """Findings on a plan by name of the rule; None for a rule that does not apply."""

    findings: Mapping[str, Findings]

    @property
    def kept(self) -> dict[str, bool | None]:
        """True for each rule that the plan satisfies; None where it does not apply."""
        return {name: None if found is None else not found for name, found in self.findings.items()}

    @property
    def keeps_all(self) -> bool:
        """True if the plan breaks no rule."""
        return False not in self.kept.values()

    @property
    def broken(self) -> list[tuple[str, Finding]]:
        """Findings, each with its rule, in the order of the rules."""
        return [(name, each) for name, found in self.findings.items() for each in found or ()]

    def to_json(self) -> dict[str, Any]:
        broken = [{"rule": name} | each.to_json() for name, each in self.broken]
        return {"kept": self.kept, "broken": broken}


def judge(plan: FloorPlan, rules: RuleSet) -> Judgement:
    """Judge a plan, realised, read or drawn, by its floors and doors alone. Raises ``DiagramError``
    for a room without area, or a wrong key "added", see ``kinds_of``."""
    check_rooms(plan)
    judges = {**{name: rule.judge for name, rule in RULES.items()}, **ASKED}
    given = rules.rules
    return Judgement(
        {name: check(plan, given[name]) for name, check in judges.items() if name in given}
    )


@dataclass(frozen=True)
class KeptShare:
    """Number of plans that keep a rule, and number of plans judged by it."""

    num_kept: int
    num_judged: int

    @property
    def interval(self) -> Interval | None:
        """Share and its interval (Wilson, 95 %); None if the rule applies to no plan."""
        if not self.num_judged:
            return None
        return share_interval([self.num_kept / self.num_judged], self.num_judged)

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {"num_kept": self.num_kept, "num_judged": self.num_judged}
        if (found := self.interval) is not None:
            data |= {"share": found.mean, "low": found.low, "high": found.high}
        return data


ALL = "all"  # name that stands for all rules together


def kept_shares(judgements: Sequence[Judgement], rules: RuleSet) -> dict[str, KeptShare]:
    """Share of plans that satisfy each rule, and the share for all rules together (``ALL``)."""
    found = {}
    for name in [name for name in RULES if name in rules.rules]:
        # plans that the rule does not apply to are not counted
        kept = [judgement.kept[name] for judgement in judgements]
        found[name] = KeptShare(kept.count(True), len(kept) - kept.count(None))
    return found | {ALL: KeptShare(sum(each.keeps_all for each in judgements), len(judgements))}
