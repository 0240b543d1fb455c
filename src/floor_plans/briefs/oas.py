"""Briefs from an OAS-Program (Open Architecture Standards, Autodesk), a room programme in JSON.

{"oas_program": "1.0.0", "rooms": [{"id", "usage", "desired_area_m2": {"min", "max"} or a number,
"adjacency": {"must_touch", "should_touch", "avoid_touch", "must_connect_via"}, ...}], ...}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from discrete_diffusion.config import unknown_name
from floor_plans.briefs.brief import (
    ANY_RELATION,
    Brief,
    Kind,
    Numbers,
    Quantity,
    RelationRule,
    Source,
)
from floor_plans.briefs.words import built_in_groups, either, kind_named, kind_of
from floor_plans.diagrams.files.yaml_nodes import Node

_LABELS = ("oas_program", "plan_id", "title", "description")
"""Keys that request nothing."""

_TOUCHING = {"must_touch": Quantity.SOME, "avoid_touch": Quantity.NO}


def is_program(root: Node) -> bool:
    """True if the keys are those of an OAS-Program: "oas_program", or a list of rooms."""
    rooms = root.value.get("rooms")
    listed = rooms is not None and isinstance(rooms.value, tuple) and bool(rooms.value)
    return "oas_program" in root.value or (listed and isinstance(rooms.value[0].value, dict))


def brief_of_program(root: Node) -> Brief:
    """Build the brief of an OAS-Program: exactly its rooms, named by id, of the kind of ``usage``.

    ``must_touch`` and ``avoid_touch`` become relations, to ids or to usages ("kitchen"). A usage
    that joins several rooms, such as "living_kitchen", allows each of them. Requests that cannot be
    stated of a diagram, such as areas, are listed in ``Brief.left_out``.

    Raises ``BriefError`` naming line and key of a mistake.
    """
    if "rooms" not in root.value:
        raise root.error("an OAS-Program without 'rooms', a list")
    left_out = [node.text for key, node in root.value.items() if key not in ("rooms", *_LABELS)]
    # rooms first, since relations name them by id
    rooms = root.value["rooms"].items("a list of rooms")
    by_name: dict[str, Node] = {}
    kinds: dict[str, Kind] = {}
    sources: dict[str, Source] = {}
    for room in rooms:
        usage = room.entries("a room with an id and a usage").get("usage")
        if usage is None or not isinstance(usage.value, str):
            got = "nothing" if usage is None else usage.shown
            raise room.error(f"expected a usage, such as 'bedroom', got {got}")
        name = _id_of(room, usage.value, kinds)
        kinds[name], by_name[name] = _kind_of(usage, usage.value), room
        sources[f"named.{name}"] = Source(usage.key, f"{name}: {usage.value}", usage.line)
    # both rooms of a pair may state the same relation; it is kept once
    relations: dict[RelationRule, None] = {}
    for name, room in by_name.items():
        for found in _rules(name, room, kinds):
            if isinstance(found, str):
                left_out.append(found)
            elif _turned(found) not in relations:
                relations.setdefault(found)
    head = root.value["rooms"]
    return Brief(
        num_rooms=Numbers(len(rooms), len(rooms)),
        relations=tuple(relations),
        named=kinds,
        sources=sources | {"num_rooms": Source("rooms", f"{len(rooms)} rooms", head.line)},
        left_out=tuple(left_out),
    )


def _id_of(room: Node, usage: str, taken: Mapping[str, Kind]) -> str:
    """Id of a room; without an id, its usage with a number."""
    if "id" not in room.value:
        names = (f"{usage} {k}" for k in range(1, len(taken) + 2))
        return next(name for name in names if name not in taken)
    node = room.value["id"]
    if not isinstance(node.value, str) or not node.value:
        raise node.error(f"expected text, got {node.shown}")
    if node.value in taken:
        raise node.error(f"two rooms have the id {node.value!r}; ids are different")
    return node.value


def _kind_of(node: Node, usage: str) -> Kind:
    groups = built_in_groups()
    if found := kind_named(usage, groups):
        return found
    # a usage that joins several rooms
    parts = [kind_named(part, groups) for part in re.split(r"[\W_]+", usage) if part != "and"]
    several = [kind for kind in parts if kind is not None]
    if len(several) == len(parts) > 1:
        return either(several)
    return kind_of(node, usage, groups)


def _rules(name: str, room: Node, kinds: Mapping[str, Kind]) -> Iterator[RelationRule | str]:
    """Rules of one room; a request that is not a rule of diagrams is yielded as ``NAME: text``."""
    # "avoid" and "adjacency" become rules, other keys are left out
    for key, node in room.value.items():
        if key in ("id", "usage"):
            continue
        if key == "avoid":
            yield from _avoided(name, node, kinds)
        elif key != "adjacency":
            yield f"{name}: {node.text}"
        else:
            for what, others in node.entries("lists of rooms, such as must_touch").items():
                if what not in _TOUCHING:
                    yield f"{name}: {others.text}"
                    continue
                for other in _listed(others):
                    target = _end(other, kinds)
                    if target == name:
                        raise other.error(f"{name} twice; a room does not touch itself")
                    source = Source(other.key, f"{name} {what} {other.words}", other.line)
                    yield RelationRule(_TOUCHING[what], name, ANY_RELATION, target, source)


def _listed(node: Node) -> tuple[Node, ...]:
    if node.value == ():
        return ()
    return (node,) if isinstance(node.value, str) else node.items("a list of ids of rooms")


def _avoided(name: str, node: Node, kinds: Mapping[str, Kind]) -> Iterator[RelationRule | str]:
    """Rules of ``avoid``, which lists rooms; other words are yielded as text."""
    for other in _listed(node):
        known = isinstance(other.value, str) and (
            other.value in kinds or kind_named(other.value, built_in_groups())
        )
        if known and other.value != name:
            source = Source(other.key, f"{name} avoid {other.words}", other.line)
            yield RelationRule(Quantity.NO, name, ANY_RELATION, _end(other, kinds), source)
        else:
            yield f"{name}: avoid {other.words}"


def _end(node: Node, kinds: Mapping[str, Kind]) -> Kind | str:
    if not isinstance(node.value, str):
        raise node.error(f"expected the id of a room, got {node.shown}")
    # an id, or a usage
    if node.value in kinds:
        return node.value
    if found := kind_named(node.value, built_in_groups()):
        return found
    raise node.error(unknown_name("room", node.value, kinds))


def _turned(rule: RelationRule) -> RelationRule:
    """The rule with both ends exchanged; touching has no direction."""
    if isinstance(rule.object, str):
        return RelationRule(rule.quantity, rule.object, rule.relations, rule.subject)
    return rule
