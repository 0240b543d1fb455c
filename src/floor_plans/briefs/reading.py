"""Briefs read from YAML, JSON and Python objects."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from discrete_diffusion.config import unknown_name
from floor_plans.briefs import brief, words
from floor_plans.briefs.brief import AnyRule, Brief, CountRule, Kind, Numbers, RelationRule
from floor_plans.briefs.oas_programs import brief_of_program
from floor_plans.diagrams.files.yaml_nodes import BriefError, Node, Source, node_of, read_node
from floor_plans.diagrams.vocabulary import ROOM_TYPES
from floor_plans.plans.doors import front_door_problem

_MOST_OF_ROOM, _MOST_ROOMS = 25.0, 8
"""Square metres per room, and number of rooms, of a plan for which neither is stated, at most."""

_ROOM, _WALLED = 10.0, 1.1
"""Typical square metres of a room without its walls, and area with walls over that without."""

_WEIGHT = 10.0  # default weight of a sentence in ``should``


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
    """Read a brief from Python objects with the keys and values of a file.

    >>> brief_of({"num_rooms": "5-7", "rooms": {"Bedroom": 3, "Bathroom": "at least 2"}})

    Raises ``BriefError`` naming the key that is wrong.
    """
    return _brief(node_of(mapping))


def _brief(root: Node) -> Brief:
    if not isinstance(root.value, dict):
        raise root.error(f"expected keys such as rooms: and relations:, got {root.shown}")
    if not root.value:
        raise root.error("it asks for nothing; expected keys such as rooms: and relations:")
    # an OAS-Program has the key "oas_program", or a list of rooms
    rooms = root.value["rooms"].value if "rooms" in root.value else ()
    is_list = isinstance(rooms, tuple) and bool(rooms) and isinstance(rooms[0].value, dict)
    if "oas_program" in root.value or is_list:
        return brief_of_program(root)
    return _Reading().read(root)


class _Reading:
    """Groups, named rooms, and arguments of the ``Brief`` that have been read so far."""

    def __init__(self) -> None:
        self.groups, self.named = dict(words.GROUPS), dict[str, Kind]()
        self.sources, self.facts = dict[str, Source](), dict[str, Any]()
        self.parts: dict[str, Any] = {}

    def read(self, root: Node) -> Brief:
        """Read all keys, groups and names before the rules that use them."""
        # unknown keys first
        for key, node in root.value.items():
            if key not in KEYS:
                raise node.error(unknown_name("key", key, KEYS))
        for key, described in KEYS.items():
            if key in root.value:
                described.read(self, root.value[key])
        facts = brief.PlanFacts(**self.facts)
        return Brief(**self.parts, named=self.named, sources=self.sources, plan_facts=facts)

    def read_groups(self, node: Node) -> None:
        for name, members in node.entries("names, each with a list of room types").items():
            self._check_new(members, name)
            # members are room types or other groups, each once
            items = members.items("a list of room types, such as [Bathroom, Kitchen]")
            kinds = [_kind(item, self.groups) for item in items]
            types = [code for kind in kinds for code in kind.types]
            if len(types) > len(set(types)):
                raise members.error("a room type is in it twice; leave one out")
            self.groups[name] = Kind(name, words.union_of_kinds(kinds).types)

    def read_num_rooms(self, node: Node) -> None:
        numbers = words.numbers_of(node)
        if numbers.most == 0:
            raise node.error("0 rooms: a plan has at least one room")
        self.parts["num_rooms"] = Numbers(max(1, numbers.least), numbers.most)
        self.sources[node.key] = node.source

    def read_rooms(self, node: Node) -> None:
        seen: dict[frozenset[int], Node] = {}
        counts = []
        for name, number in node.entries("room types or groups, each with a number").items():
            # two names of the same rooms are a mistake
            kind = words.kind_of(number, name, self.groups)
            if before := seen.get(kind.types):
                raise number.error(f"means the same rooms as {_place_of(before)}; leave one out")
            seen[kind.types] = number
            counts.append(CountRule(kind, words.numbers_of(number), number.source))
        self.parts["counts"] = tuple(counts)

    def read_named(self, node: Node) -> None:
        for name, kind in node.entries("names, each with a room type or a group").items():
            self._check_new(kind, name)
            several = kind.value if isinstance(kind.value, tuple) and kind.value else (kind,)
            self.named[name] = words.union_of_kinds(_kind(each, self.groups) for each in several)
            self.sources[kind.key] = kind.source

    def read_relations(self, node: Node) -> None:
        seen: dict[RelationRule | AnyRule, Node] = {}
        for item in node.items("a list of rules, each in a line that begins with '- '"):
            rule = self._relation(item)
            if before := seen.get(rule):
                raise item.error(f"says the same as {_place_of(before)}; leave one out")
            seen[rule] = item
        self.parts["relations"] = tuple(rule for rule in seen if isinstance(rule, RelationRule))
        self.parts["either"] = tuple(rule for rule in seen if isinstance(rule, AnyRule))

    def _relation(self, item: Node) -> RelationRule | AnyRule:
        """Read a rule, or several of which one holds: ``any: [...]``, or sentences with "or"."""
        if isinstance(item.value, dict) and [*item.value] == ["any"]:
            return self._any_of(item.value["any"])
        said = words.sentences_in(item.value) if isinstance(item.value, str) else []
        if len(said) < 2:
            return words.relation_rule(item, self.groups, self.named)
        options = [(words.relation_rule(item, self.groups, self.named, text),) for text in said]
        return AnyRule(tuple(options), item.source)

    def read_any(self, node: Node) -> None:
        self.parts["either"] = (*self.parts.get("either", ()), self._any_of(node))

    def _any_of(self, node: Node) -> AnyRule:
        """Read a list of options."""
        items = node.items("a list of options: sentences, or rooms: and relations:")
        if len(items) < 2:
            raise node.error("one option is a rule by itself; write two or more")
        rule = AnyRule(tuple(map(self._option, items)), node.source)
        if rule.names and any(isinstance(each, CountRule) for o in rule.options for each in o):
            raise node.error(
                f"rooms: does not go with the name {rule.names[0]!r}; write room types"
            )
        return rule

    def _option(self, node: Node) -> brief.Option:
        """Read rules that hold together: a sentence, or an object with rooms and relations."""
        if not isinstance(node.value, dict):
            if isinstance(node.value, str) and len(words.sentences_in(node.value)) > 1:
                raise node.error(
                    "'or' is for relations:, and any: lists options; one sentence here"
                )
            return (words.relation_rule(node, self.groups, self.named),)
        inner = _Reading()
        inner.groups, inner.named = self.groups, self.named
        for key, each in node.entries("a sentence, or rooms: and relations:").items():
            if key not in ("rooms", "relations"):
                raise each.error(unknown_name("key", key, ("rooms", "relations")))
            KEYS[key].read(inner, each)
        if inner.parts.get("either"):
            raise node.error("options within an option; list all of them in one any:")
        return (*inner.parts.get("counts", ()), *inner.parts.get("relations", ()))

    def read_should(self, node: Node) -> None:
        found = []
        for item in node.items("a list of sentences, such as - Kitchen beside Balcony: 5"):
            weight, said = _WEIGHT, item
            # a sentence with its weight is an object with one entry
            if isinstance(item.value, dict) and not {*item.value} & {"rooms", "relations"}:
                one = item.entries("a sentence, such as Kitchen beside Balcony: 5")
                ((text, number), *others) = one.items()
                weight = words.factor_of(number)
                if others:
                    raise item.error("several sentences in one entry; begin each with '- '")
                said = replace(item, value=text)
            elif isinstance(item.value, dict) and "weight" in item.value:
                weight = words.factor_of(item.value["weight"])
                said = replace(item, value={k: v for k, v in item.value.items() if k != "weight"})
            option = self._option(said)
            if names := brief.names_in(option):
                raise item.error(f"the name {names[0]!r} is for relations:; write a room type")
            found.append(brief.SoftRule(option, weight, item.source))
        self.parts["should"] = tuple(found)

    def read_max_degree(self, node: Node) -> None:
        if type(node.value) is not int or node.value < 0:
            raise node.error(f"expected a number from 0 on, got {node.shown}")
        self.parts["degree"] = brief.DegreeRule(node.value, node.source)

    def read_connected(self, node: Node) -> None:
        if _flag(node):
            self.parts["connected"] = brief.ConnectedRule(node.source)

    def read_buildable(self, node: Node) -> None:
        if "buildable" in self.sources:
            raise node.error("means the same as 'buildable'; leave one out")
        self.sources["buildable"] = node.source
        self.parts["buildable"] = _flag(node)

    def read_site(self, node: Node) -> None:
        """Read the site, and find a plot for the rooms of the brief, if these can be known."""
        north, number = self.facts.get("north"), self.parts.get("num_rooms", Numbers())
        most_area = _MOST_OF_ROOM * (number.most or _MOST_ROOMS)
        site = replace(words.site_of(node, north), most_area=most_area)
        if north is not None:
            self.facts["north"] = site.north(north)
        self.facts["site"] = site
        self.sources["site"] = self.sources["outline"] = node.source
        area = self._area_of_rooms()
        try:
            self.facts |= site.plot(area)._asdict()
        except ValueError as error:
            if area is not None:  # it may be stated elsewhere, see ``Brief.facts_with_plot``
                raise node.error(str(error)) from error

    def _area_of_rooms(self) -> float | None:
        """Square metres of all rooms: stated, or estimated if areas of some rooms and the number of
        all are."""
        area: float | None = self.facts.get("area")
        rules: Sequence[brief.AreaRule] = self.facts.get("areas", ())
        counts: Sequence[CountRule] = self.parts.get("counts", ())
        if area is not None or not rules or "num_rooms" not in self.parts:
            return area
        # the fewest rooms, each in the middle of its range
        kinds = [rule.kind for rule in counts for _ in range(rule.number.least)]
        kinds += [r.kind for r in rules if not any(k.types & r.kind.types for k in kinds)]
        total = _ROOM * max(0, self.parts["num_rooms"].least - len(kinds))
        for kind in kinds:
            own = (r for r in rules if r.kind.types & kind.types)
            total += max(((r.least + (r.most or r.least)) / 2 for r in own), default=_ROOM)
        return _WALLED * total

    def read_fact(self, node: Node) -> None:
        if node.key == "outline" and "site" in self.facts:
            raise node.error("the site: finds it; leave one out")
        readers = {"area": words.area_of, "outline": words.outline_of, "north": words.degrees_of}
        self.facts[node.key] = readers[node.key](node)
        self.sources[node.key] = node.source

    def read_areas(self, node: Node) -> None:
        found: list[brief.AreaRule] = []
        for name, each in node.entries("room types or groups, each with square metres").items():
            kind = self._kind_in_plan(replace(each, value=name))
            rule = brief.AreaRule(kind, *words.area_range_of(each), each.source)
            # a room of two kinds has an area within both bounds
            for other in (other for other in found if other.kind.types & rule.kind.types):
                if other.kind.types == rule.kind.types:
                    raise each.error(f"means the same rooms as {other.source.key!r}; leave one out")
                if max(rule.least, other.least) > min(rule.most or inf, other.most or inf):
                    raise each.error(
                        f"rooms of this kind are of {other.source.key!r}, too, which excludes it; "
                        "leave one out, or let their ranges overlap"
                    )
            found.append(rule)
        self.facts["areas"] = tuple(found)

    def read_pairs(self, node: Node) -> None:
        """Read pairs of kinds; those with a door, and those without a wall, are adjacent, too."""
        pairs = []
        for item in node.items("a list of pairs, such as [[Bathroom, MasterRoom]]"):
            ends = item.items("two room types, such as [Bathroom, MasterRoom]")
            if len(ends) != 2:
                raise item.error(f"expected two room types or groups, got {len(ends)}")
            first, second = map(self._kind_in_plan, ends)
            pairs.append((first, second))
            # what contradicts an earlier key
            for key in ("doors", "no_door", "open"):
                # no_door excludes what it contains, a door and an opening each other
                if any(
                    (node.key == "no_door" or brief.are_within(pairs[-1], each))
                    and (key == "no_door" or brief.are_within(each, pairs[-1]))
                    for each in self.facts.get(key, ())
                ):
                    raise item.error(
                        f"these rooms are in '{key}', too, which excludes it; leave one out"
                    )
            if node.key != "no_door":
                rule = RelationRule(
                    brief.Quantity.SOME, first, brief.ANY_RELATION, second, item.source
                )
                known = self.parts.get("relations", ())
                self.parts["relations"] = (*known, *(() if rule in known else (rule,)))
        self.facts[node.key] = tuple(pairs)

    def read_light(self, node: Node) -> None:
        items = node.items("a list of room types, such as [Kitchen, Bathroom]")
        self.facts["light"] = tuple(map(self._kind_in_plan, items))

    def _kind_in_plan(self, node: Node) -> Kind:
        """Read a kind of rooms; a named room stands for its kind if it is the only one of it."""
        kind = self.named.get(node.value) if isinstance(node.value, str) else None
        if kind is None:
            return _kind(node, self.groups)
        counts = self.parts.get("counts", ())
        if not any(kind.types <= rule.kind.types and rule.number.most == 1 for rule in counts):
            raise node.error(
                f"{node.value!r} may be one of several such rooms; write a room type, or rooms: "
                f"{{{kind.name}: 1}} too"
            )
        return kind

    def read_accessible(self, node: Node) -> None:
        if _flag(node):
            self.facts["accessible"] = True

    def read_front_door(self, node: Node) -> None:
        if "outline" not in self.facts:
            more = "area" if "site" in self.facts else "outline"
            raise node.error(f"a front door has its place in an outline; give {more}: too")
        door = words.point_of(node)
        if why := front_door_problem(door, self.facts["outline"]):
            raise node.error(f"{list(door)}: {why}")
        self.facts["front_door"], self.sources["front_door"] = door, node.source

    def _check_new(self, node: Node, name: str) -> None:
        """Raise ``BriefError`` for a name that is taken, has a meaning in rules or is not one
        word."""
        if not re.fullmatch(r"[^\W\d][\w'-]*", name):
            raise node.error(f"expected one word as a name, such as first_bath, got {name!r}")
        if name.casefold() in {each.casefold() for each in self.groups}:
            raise node.error(f"the name {name!r} is that of a group; choose another")
        if kind := words.kind_named(name, self.groups):
            taken = "a room type" if name in ROOM_TYPES else f"what {kind.name} is called"
            raise node.error(f"the name {name!r} is {taken}; choose another")
        taken_words = (*words.QUANTITIES, "is", "not")
        if words.codes_of_relation(name) is not None or name.casefold() in taken_words:
            raise node.error(f"the name {name!r} is a word of rules; choose another")


@dataclass(frozen=True)
class Key:
    """Key of a brief: how its value is read, and what it means."""

    read: Callable[[_Reading, Node], None]
    meaning: str


KEYS: Mapping[str, Key] = {
    "groups": Key(_Reading.read_groups, "names of several room types each"),
    "num_rooms": Key(_Reading.read_num_rooms, "number of all rooms"),
    "rooms": Key(_Reading.read_rooms, "number of rooms of a type or group"),
    "named": Key(_Reading.read_named, "rooms that relations name, each of a type or group"),
    "relations": Key(_Reading.read_relations, "relations between rooms"),
    "any": Key(_Reading.read_any, "options, of which one holds: sentences, or rooms and relations"),
    "should": Key(_Reading.read_should, "sentences that make a diagram more likely, with weights"),
    "max_degree": Key(_Reading.read_max_degree, "most rooms that any room is next to"),
    "connected": Key(_Reading.read_connected, "true: every room can be reached from every other"),
    "buildable": Key(_Reading.read_buildable, "true: there is a floor plan"),
    "realisable": Key(_Reading.read_buildable, "the same as buildable"),
    "area": Key(_Reading.read_fact, "square metres of all rooms"),
    "north": Key(_Reading.read_fact, "degrees clockwise from up"),
    "areas": Key(_Reading.read_areas, "square metres without walls: [least, most], or the least"),
    "site": Key(_Reading.read_site, "land with setbacks, in which the outline is found"),
    "outline": Key(_Reading.read_fact, "corners of the outline in metres"),
    "front_door": Key(_Reading.read_front_door, "place of the front door on the outline"),
    "doors": Key(_Reading.read_pairs, "pairs of rooms with a door between them"),
    "no_door": Key(_Reading.read_pairs, "pairs of rooms without a door between them"),
    "open": Key(_Reading.read_pairs, "pairs of rooms without a wall between them"),
    "light": Key(_Reading.read_light, "rooms that need an outer wall"),
    "accessible": Key(_Reading.read_accessible, "true: a wheelchair can be used"),
}
"""The keys of a brief, in the order in which they are read."""


def _kind(node: Node, groups: Mapping[str, Kind]) -> Kind:
    """Read the name of a kind of rooms."""
    if not isinstance(node.value, str):
        raise node.error(f"expected a room type or a group, got {node.shown}")
    return words.kind_of(node, node.value, groups)


def _place_of(node: Node) -> str:
    """Return the key of a node as text, with its line if known."""
    return f"'{node.key}'" + (f" in line {node.line}" if node.line else "")


def _flag(node: Node) -> bool:
    """Read true or false."""
    if not isinstance(node.value, bool):
        raise node.error(f"expected true or false, got {node.shown}")
    return node.value
