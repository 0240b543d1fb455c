"""Briefs read from YAML, JSON and Python objects."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from discrete_diffusion.config import unknown_name
from floor_plans.briefs.brief import (
    Brief,
    ConnectedRule,
    CountRule,
    DegreeRule,
    Kind,
    Numbers,
    PlanFacts,
    RelationRule,
    Source,
)
from floor_plans.briefs.oas import brief_of_program, is_program
from floor_plans.briefs.words import (
    QUANTITIES,
    area_of,
    built_in_groups,
    codes_of_relation,
    degrees_of,
    either,
    kind_named,
    kind_of,
    numbers_of,
    outline_of,
    point_of,
    relation_rule,
)
from floor_plans.diagrams.files.yaml_nodes import BriefError, Node, node_of, read_node
from floor_plans.diagrams.vocabulary import ROOM_TYPES
from floor_plans.plans.doors import front_door_problem


def read_brief(path: str | os.PathLike[str]) -> Brief:
    """Read the brief of a YAML or JSON file, or of an OAS-Program, see ``brief_of_program``.

    Raises ``FileNotFoundError``, and ``BriefError`` (a ``ValueError``) naming file, line and key of
    a mistake.
    """
    root = read_node(path)
    try:
        return _brief(root)
    except BriefError as error:
        raise error.located(Path(path)) from error


def brief_of(mapping: Mapping[str, Any]) -> Brief:
    """Read a brief from the same keys and values as Python objects.

    >>> brief_of({"num_rooms": "5-7", "rooms": {"Bedroom": 3, "Bathroom": "at least 2"}})

    Raises ``BriefError`` naming the key that is wrong.
    """
    return _brief(node_of(mapping))


def _brief(root: Node) -> Brief:
    if not isinstance(root.value, dict):
        raise root.error(f"expected keys such as rooms: and relations:, got {root.shown}")
    if not root.value:
        raise root.error("it asks for nothing; expected keys such as rooms: and relations:")
    if is_program(root):
        return brief_of_program(root)
    return _Reading().brief(root)


@dataclass
class _Reading:
    """Parts of a brief that have been read so far."""

    groups: dict[str, Kind] = field(default_factory=built_in_groups)
    num_rooms: Numbers = field(default_factory=lambda: Numbers(1))
    counts: list[CountRule] = field(default_factory=list)
    relations: list[RelationRule] = field(default_factory=list)
    named: dict[str, Kind] = field(default_factory=dict)
    degree: DegreeRule | None = None
    connected: ConnectedRule | None = None
    buildable: bool = False
    plan_facts: PlanFacts = field(default_factory=PlanFacts)
    sources: dict[str, Source] = field(default_factory=dict)

    def brief(self, root: Node) -> Brief:
        """Read all keys, groups and names before the rules that use them."""
        # unknown keys first
        for key, node in root.value.items():
            if key not in _READERS:
                raise node.error(unknown_name("key", key, _READERS))
        for key, read in _READERS.items():
            if key in root.value:
                read(self, root.value[key])
        return Brief(
            num_rooms=self.num_rooms,
            counts=tuple(self.counts),
            relations=tuple(self.relations),
            named=self.named,
            degree=self.degree,
            connected=self.connected,
            buildable=self.buildable,
            plan_facts=self.plan_facts,
            sources=self.sources,
        )

    def read_groups(self, node: Node) -> None:
        for name, members in node.entries("names, each with a list of room types").items():
            self._check_new(members, name)
            # members are room types or other groups, each once
            items = members.items("a list of room types, such as [Bathroom, Kitchen]")
            kinds = [kind_of(item, _word(item), self.groups) for item in items]
            types = [code for kind in kinds for code in kind.types]
            if len(types) > len(set(types)):
                raise members.error("a room type is in it twice; leave one out")
            self.groups[name] = Kind(name, either(kinds).types)

    def read_num_rooms(self, node: Node) -> None:
        numbers = numbers_of(node)
        if numbers.most == 0:
            raise node.error("0 rooms: a plan has at least one room")
        self.num_rooms = Numbers(max(1, numbers.least), numbers.most)
        self.sources[node.key] = node.source

    def read_rooms(self, node: Node) -> None:
        seen: dict[frozenset[int], Node] = {}
        for name, number in node.entries("room types or groups, each with a number").items():
            # two names of the same rooms are a mistake
            kind = kind_of(number, name, self.groups)
            if before := seen.get(kind.types):
                where = f" in line {before.line}" if before.line else ""
                raise number.error(f"means the same rooms as '{before.key}'{where}; leave one out")
            seen[kind.types] = number
            self.counts.append(CountRule(kind, numbers_of(number), number.source))

    def read_named(self, node: Node) -> None:
        for name, kind in node.entries("names, each with a room type or a group").items():
            self._check_new(kind, name)
            words = kind.value if isinstance(kind.value, tuple) and kind.value else (kind,)
            kinds = [kind_of(each, _word(each), self.groups) for each in words]
            self.named[name] = either(kinds)
            self.sources[kind.key] = kind.source

    def read_relations(self, node: Node) -> None:
        seen: dict[RelationRule, Node] = {}
        for item in node.items("a list of rules, each in a line that begins with '- '"):
            rule = relation_rule(item, self.groups, self.named)
            if before := seen.get(rule):
                where = f" in line {before.line}" if before.line else ""
                raise item.error(f"says the same as '{before.key}'{where}; leave one out")
            seen[rule] = item
            self.relations.append(rule)

    def read_max_degree(self, node: Node) -> None:
        if type(node.value) is not int or node.value < 0:
            raise node.error(f"expected a number from 0 on, got {node.shown}")
        self.degree = DegreeRule(node.value, node.source)

    def read_connected(self, node: Node) -> None:
        if _flag(node):
            self.connected = ConnectedRule(node.source)

    def read_buildable(self, node: Node) -> None:
        if "buildable" in self.sources:
            raise node.error("means the same as 'buildable'; leave one out")
        self.sources["buildable"] = node.source
        self.buildable = _flag(node)

    def read_area(self, node: Node) -> None:
        self.plan_facts = replace(self.plan_facts, area=area_of(node))

    def read_outline(self, node: Node) -> None:
        self.plan_facts = replace(self.plan_facts, outline=outline_of(node))

    def read_front_door(self, node: Node) -> None:
        if self.plan_facts.outline is None:
            raise node.error("a front door has its place in an outline; give outline: too")
        door = point_of(node)
        if why := front_door_problem(door, self.plan_facts.outline):
            raise node.error(f"{list(door)}: {why}")
        self.plan_facts = replace(self.plan_facts, front_door=door)

    def read_north(self, node: Node) -> None:
        self.plan_facts = replace(self.plan_facts, north=degrees_of(node))

    def _check_new(self, node: Node, name: str) -> None:
        """Refuse a name that is taken or is not a single word, by ``BriefError``."""
        # a single word that has no meaning in rules
        if not re.fullmatch(r"[^\W\d][\w'-]*", name):
            raise node.error(f"expected one word as a name, such as first_bath, got {name!r}")
        if name.casefold() in {each.casefold() for each in self.groups}:
            raise node.error(f"the name {name!r} is that of a group; choose another")
        if kind := kind_named(name, self.groups):
            taken = "a room type" if name in ROOM_TYPES else f"what {kind.name} is called"
            raise node.error(f"the name {name!r} is {taken}; choose another")
        if codes_of_relation(name) is not None or name.casefold() in (*QUANTITIES, "is", "not"):
            raise node.error(f"the name {name!r} is a word of rules; choose another")


_READERS: dict[str, Callable[[_Reading, Node], None]] = {
    "groups": _Reading.read_groups,
    "num_rooms": _Reading.read_num_rooms,
    "rooms": _Reading.read_rooms,
    "named": _Reading.read_named,
    "relations": _Reading.read_relations,
    "max_degree": _Reading.read_max_degree,
    "connected": _Reading.read_connected,
    "buildable": _Reading.read_buildable,
    "realisable": _Reading.read_buildable,
    "area": _Reading.read_area,
    "outline": _Reading.read_outline,
    "front_door": _Reading.read_front_door,
    "north": _Reading.read_north,
}
"""The keys of a brief, in the order in which they are read."""


def _word(node: Node) -> str:
    if not isinstance(node.value, str):
        raise node.error(f"expected a room type or a group, got {node.shown}")
    return node.value


def _flag(node: Node) -> bool:
    if not isinstance(node.value, bool):
        raise node.error(f"expected true or false, got {node.shown}")
    return node.value
