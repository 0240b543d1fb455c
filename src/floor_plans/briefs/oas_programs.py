"""Briefs of OAS-Programs (Open Architecture Standards, Autodesk), room programmes in JSON.

{"oas_program": "1.0.0", "rooms": [{"id", "usage", "desired_area_m2": {"min", "max"} or a number,
"adjacency": {"must_touch", "should_touch", "avoid_touch", "must_connect_via"}, ...}], ...}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from discrete_diffusion.config import unknown_name
from floor_plans.briefs.brief import ANY_RELATION, Brief, Kind, Numbers, Quantity, RelationRule
from floor_plans.briefs.words import GROUPS, kind_named, kind_of, union_of_kinds
from floor_plans.diagrams.files.yaml_nodes import Node, Source

_LABELS = ("oas_program", "plan_id", "title", "description")  # keys that request nothing

_TOUCHING = {"must_touch": Quantity.SOME, "avoid_touch": Quantity.NO}


def brief_of_program(root: Node) -> Brief:
    """Build the brief of an OAS-Program: exactly its rooms, named by id, of the kind of ``usage``.

    ``must_touch`` and ``avoid_touch`` become relations, to ids or to usages ("kitchen"). A usage
    that joins several rooms, such as "living_kitchen", allows each of them. Requests that a
    diagram cannot express, such as areas, are listed in ``Brief.left_out``.

    Raises ``BriefError`` naming line and key of a mistake.
    """
    if "rooms" not in root.value:
        raise root.error("an OAS-Program without 'rooms', a list")
    left_out = [node.text for key, node in root.value.items() if key not in ("rooms", *_LABELS)]
    # rooms first, since relations name them by id
    rooms = root.value["rooms"].items("a list of rooms")
    by_name, kinds, sources = dict[str, Node](), dict[str, Kind](), dict[str, Source]()
    for room in rooms:
        usage = room.entries("a room with an id and a usage").get("usage")
        if usage is None or not isinstance(usage.value, str):
            got = "nothing" if usage is None else usage.shown
            raise room.error(f"expected a usage, such as 'bedroom', got {got}")
        name = _id_of_room(room, usage.value, kinds)
        kinds[name], by_name[name] = _kind_of_usage(usage, usage.value), room
        sources[f"named.{name}"] = Source(usage.key, f"{name}: {usage.value}", usage.line)
    # both rooms of a pair may state the same relation; it is kept once
    relations: dict[RelationRule, None] = {}
    for name, room in by_name.items():
        for found in _rules(name, room, kinds):
            if isinstance(found, str):
                left_out.append(found)
            elif not isinstance(found.object, str):
                relations.setdefault(found)
            else:
                # touching has no direction
                ends = (found.object, found.relations, found.subject)
                if RelationRule(found.quantity, *ends) not in relations:
                    relations.setdefault(found)
    head = root.value["rooms"]
    return Brief(
        num_rooms=Numbers(len(rooms), len(rooms)),
        relations=tuple(relations),
        named=kinds,
        sources=sources | {"num_rooms": Source("rooms", f"{len(rooms)} rooms", head.line)},
        left_out=tuple(left_out),
    )


def _id_of_room(room: Node, usage: str, taken: Mapping[str, Kind]) -> str:
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


def _kind_of_usage(node: Node, usage: str) -> Kind:
    """Kind of rooms for a usage such as "kitchen"; a joined usage allows each of its kinds."""
    if found := kind_named(usage, GROUPS):
        return found
    parts = [kind_named(part, GROUPS) for part in re.split(r"[\W_]+", usage) if part != "and"]
    several = [kind for kind in parts if kind is not None]
    if len(several) == len(parts) > 1:
        return union_of_kinds(several)
    return kind_of(node, usage, GROUPS)


def _rules(name: str, room: Node, kinds: Mapping[str, Kind]) -> Iterator[RelationRule | str]:
    """Yield the rules of one room, and other requests as text: ``NAME: text``."""
    # "avoid" and "adjacency" become rules, other keys are left out
    entries = [(key, node) for key, node in room.value.items() if key not in ("id", "usage")]
    for key, node in entries:
        is_pair = key == "adjacency"
        several = node.entries("lists of rooms, such as must_touch") if is_pair else {key: node}
        for what, others in several.items():
            if what not in (_TOUCHING if is_pair else ("avoid",)):
                yield f"{name}: {others.text}"
                continue
            for other in _listed(others):
                target = _end(other.value, kinds)
                if not is_pair and target in (None, name):
                    yield f"{name}: avoid {other.words}"
                    continue
                if target is None and not isinstance(other.value, str):
                    raise other.error(f"expected the id of a room, got {other.shown}")
                if target is None:
                    raise other.error(unknown_name("room", other.value, kinds))
                if target == name:
                    raise other.error(f"{name} twice; a room does not touch itself")
                source = Source(other.key, f"{name} {what} {other.words}", other.line)
                quantity = _TOUCHING.get(what, Quantity.NO)
                yield RelationRule(quantity, name, ANY_RELATION, target, source)


def _listed(node: Node) -> tuple[Node, ...]:
    """Entries of a list; a node that is not a list counts as one entry."""
    if node.value == ():
        return ()
    return (node,) if isinstance(node.value, str) else node.items("a list of ids of rooms")


def _end(word: object, kinds: Mapping[str, Kind]) -> Kind | str | None:
    """Subject or object of a rule: the id of a room, or the kind of a usage; None if neither."""
    if not isinstance(word, str):
        return None
    return word if word in kinds else kind_named(word, GROUPS)
