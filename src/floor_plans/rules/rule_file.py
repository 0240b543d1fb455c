"""``RuleSet``: the rules to judge by and their numbers, as a YAML file has them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discrete_diffusion.config import unknown_name
from floor_plans.diagrams.files.yaml_nodes import BriefError, Node, read_node
from floor_plans.rules.finding import ROOM_KINDS, Parameters
from floor_plans.rules.registry import RULES, Kinds, NumberByKind, ParameterType, Share

NONE = "none"

BASE = "base"
"""Key of a file: the set that it changes."""


@dataclass(frozen=True)
class RuleSet:
    """``name``: what it was read from; ``rules``: parameters of those that count, by name."""

    name: str
    rules: Mapping[str, Parameters]


NO_RULES = RuleSet(NONE, {})


def shipped_sets() -> list[str]:
    """Names of the sets that come with the package, ``none`` last."""
    return [*sorted(path.stem for path in Path(__file__).parent.glob("*.yaml")), NONE]


def read_rules(name: str | os.PathLike[str], key: str = "rules") -> RuleSet:
    """One of ``shipped_sets``, or a file of rules. ``key``: what names it, for messages.

    A file has a key for each rule, with its parameters. With ``base: default`` it changes that set:
    parameters that it does not give stay, and ``fill: false`` leaves a rule out.

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
    try:
        entries = dict(_entries(read_node(path, "file of rules", "base: and width:")))
        rules = _base(entries.pop(BASE, None))
        for name, node in entries.items():
            _check(node, "rule", name, RULES)
            if node.value is False:
                rules.pop(name, None)
            else:
                rules[name] = _parameters(node, name, rules.get(name, {}))
    except BriefError as error:
        raise error.of_file(path) from error
    return rules


def _base(node: Node | None) -> dict[str, Parameters]:
    if node is None:
        return {}
    names = [name for name in shipped_sets() if name != NONE]
    if not isinstance(node.value, str):
        raise node.error(f"expected a name, one of {', '.join(names)}")
    _check(node, "rules", node.value, names)
    return dict(read_rules(node.value).rules)


def _entries(node: Node) -> Mapping[str, Node]:
    return node.entries(f"rules ({', '.join(RULES)}) with their parameters")


def _check(node: Node, noun: str, name: Any, known: Iterable[str]) -> None:
    if name not in known:
        raise node.error(unknown_name(noun, name, known))


def _parameters(node: Node, rule: str, base: Parameters) -> Parameters:
    """``base``: those that count if they are not given."""
    types = RULES[rule].parameters
    read: dict[str, Any] = dict(base)
    for name, each in node.entries(f"parameters: {', '.join(types)}").items():
        _check(each, f"parameter of {rule}", name, types)
        value = _value(each, types[name])
        if isinstance(value, dict):
            value = {**base.get(name, {}), **value}
        read[name] = value
    if missing := [name for name in types if name not in read]:
        raise node.error(f"needs {', '.join(missing)}, or base: default, whose values count then")
    return read


def _value(node: Node, kind: ParameterType) -> float | tuple[str, ...] | dict[str, float]:
    if isinstance(kind, Kinds):
        return tuple(_kind(item) for item in node.items("a list of kinds of rooms"))
    if isinstance(kind, NumberByKind):
        entries = node.entries("a number for each kind of room")
        for name, each in entries.items():
            _check(each, "kind of room", name, kind.names)
        return {name: _number(each) for name, each in entries.items()}
    number = _number(node)
    if isinstance(kind, Share) and number > 1:
        remedy = f"; {number:g} % is {number / 100:g}" if 2 <= number <= 100 else ""
        raise node.error(f"expected a share, above 0 and at most 1, got {number:g}{remedy}")
    return number


def _kind(node: Node) -> str:
    _check(node, "kind of room", node.value, ROOM_KINDS)
    return str(node.value)


def _number(node: Node) -> float:
    try:
        number = float(node.words)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0) or isinstance(node.value, dict | tuple):
        raise node.error(f"expected a number above 0, got {node.shown}")
    return number
