"""``RULES`` and ``RuleSet``: every rule by its name, and the parameters read from a YAML file."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discrete_diffusion.config import unknown_name
from floor_plans.diagrams.files.yaml_nodes import BriefError, Node, read_node
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.rules import circulation, envelope, room_rules
from floor_plans.rules.finding import ROOM_KINDS, Findings, Parameters


@dataclass(frozen=True)
class Number:
    """Parameter that is a number above 0."""


@dataclass(frozen=True)
class Share:
    """Parameter that is a number above 0 and at most 1."""


@dataclass(frozen=True)
class Kinds:
    """Parameter that is a list of kinds of rooms."""


@dataclass(frozen=True)
class NumberByKind:
    """Parameter that is a number above 0 for some of these ``names``."""

    names: tuple[str, ...] = ROOM_KINDS


ParameterType = Number | Share | Kinds | NumberByKind

NUMBER, SHARE, KINDS, BY_KIND = Number(), Share(), Kinds(), NumberByKind()


@dataclass(frozen=True)
class Rule:
    """Rule on floor plans. ``judge`` returns its findings; ``parameters``: their types by name;
    ``meaning``: a few words for tables."""

    judge: Callable[[FloorPlan, Parameters], Findings]
    parameters: Mapping[str, ParameterType]
    meaning: str


_OUTER: Mapping[str, ParameterType] = {"rooms": KINDS, "wall": NUMBER}

RULES: Mapping[str, Rule] = {
    "apart": Rule(room_rules.apart, {"overlap": NUMBER}, "no two rooms share floor"),
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
    "width": Rule(room_rules.least_widths, {"least": BY_KIND}, "least widths of rooms"),
    "area": Rule(room_rules.least_areas, {"least": BY_KIND}, "least areas of rooms"),
    "walls": Rule(
        room_rules.shared_walls,
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
"""Rules in the order of tables."""

NONE = "none"

BASE = "base"
"""Key of a file: the set of rules that it modifies."""


@dataclass(frozen=True)
class RuleSet:
    """Rules to judge by. ``name``: its source; ``rules``: parameters by rule."""

    name: str
    rules: Mapping[str, Parameters]


NO_RULES = RuleSet(NONE, {})


def shipped_sets() -> list[str]:
    """Names of the sets that come with the package, ``none`` last."""
    return [*sorted(path.stem for path in Path(__file__).parent.glob("*.yaml")), NONE]


def read_rules(name: str | os.PathLike[str], key: str = "rules") -> RuleSet:
    """Read one of ``shipped_sets``, or a file of rules. ``key``: the option that named it, for
    messages.

    A file has a key for each rule, with its parameters. With ``base: default`` it modifies that
    set: parameters that it does not give stay, and ``fill: false`` drops a rule.

    Raises ``ValueError`` naming file, line and key of what is wrong, with the closest name, and
    ``FileNotFoundError``.
    """
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
    """Read the rules of a file."""
    try:
        entries = dict(_entries(read_node(path, "file of rules", "base: and width:")))
        # start from the base set, then change it
        rules = _base(entries.pop(BASE, None))
        for name, node in entries.items():
            _check_name(node, "rule", name, RULES)
            if node.value is False:
                rules.pop(name, None)
            else:
                rules[name] = _parameters(node, name, rules.get(name, {}))
    except BriefError as error:
        raise error.located(path) from error
    return rules


def _base(node: Node | None) -> dict[str, Parameters]:
    """Rules of the set that a file modifies."""
    if node is None:
        return {}
    names = [name for name in shipped_sets() if name != NONE]
    if not isinstance(node.value, str):
        raise node.error(f"expected a name, one of {', '.join(names)}")
    _check_name(node, "rules", node.value, names)
    return dict(read_rules(node.value).rules)


def _entries(node: Node) -> Mapping[str, Node]:
    return node.entries(f"rules ({', '.join(RULES)}) with their parameters")


def _check_name(node: Node, noun: str, name: Any, known: Iterable[str]) -> None:
    if name not in known:
        raise node.error(unknown_name(noun, name, known))


def _parameters(node: Node, rule: str, base: Parameters) -> Parameters:
    """Read the parameters of a rule; those of ``base`` are the defaults."""
    types = RULES[rule].parameters
    read: dict[str, Any] = dict(base)
    # given parameters replace those of the base
    for name, each in node.entries(f"parameters: {', '.join(types)}").items():
        _check_name(each, f"parameter of {rule}", name, types)
        value = _value(each, types[name])
        if isinstance(value, dict):
            value = {**base.get(name, {}), **value}
        read[name] = value
    if missing := [name for name in types if name not in read]:
        raise node.error(f"needs {', '.join(missing)}, or base: default, which has defaults")
    return read


def _value(node: Node, kind: ParameterType) -> float | tuple[str, ...] | dict[str, float]:
    """Read one parameter of that kind."""
    # lists, numbers by kind, and numbers
    if isinstance(kind, Kinds):
        items = node.items("a list of kinds of rooms")
        for item in items:
            _check_name(item, "kind of room", item.value, ROOM_KINDS)
        return tuple(str(item.value) for item in items)
    if isinstance(kind, NumberByKind):
        entries = node.entries("a number for each kind of room")
        for name, each in entries.items():
            _check_name(each, "kind of room", name, kind.names)
        return {name: _number(each) for name, each in entries.items()}
    number = _number(node)
    if isinstance(kind, Share) and number > 1:
        remedy = f"; {number:g} % is {number / 100:g}" if 2 <= number <= 100 else ""
        raise node.error(f"expected a share, above 0 and at most 1, got {number:g}{remedy}")
    return number


def _number(node: Node) -> float:
    try:
        number = float(node.words)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0) or isinstance(node.value, dict | tuple):
        raise node.error(f"expected a number above 0, got {node.shown}")
    return number
