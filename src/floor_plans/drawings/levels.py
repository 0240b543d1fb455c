"""Storeys and dwellings that share one drawing: each is read as a plan of its own."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from floor_plans.diagrams.files.fields import DiagramError, plain
from floor_plans.diagrams.files.records import Note, Plan

PART = "plan of a part of a drawing"
"""Note on a plan that shares its drawing with others."""

_LEVELS = ("level", "storey", "story", "etage", "geschoss", "stockwerk")
_OTHERS = ("floor", "flat", "apartment", "dwelling", "unit", "wohnung")
_SUFFIXES = ("id", "name", "number", "no", "nr")
_KEYS = {f"{word}{suffix}" for word in (*_LEVELS, *_OTHERS) for suffix in ("", *_SUFFIXES)}
"""Keys of rooms, in lower-case letters only, for their storey or dwelling."""


class Part(NamedTuple):
    """Part of a drawing. ``name``: as ``level EG``, empty for a whole drawing; ``data``: its JSON
    object; ``values``: of its rooms, by key."""

    name: str
    data: Any
    values: Mapping[str, object]

    def labelled(self, plan: Plan) -> Plan:
        """Return the plan with these values in its metadata and a note on them."""
        if not self.values:
            return plan
        metadata = {**self.values, **plan.diagram.metadata}
        said = " and ".join(f'"{key}" {value!r}' for key, value in self.values.items())
        note = Note(PART, f"its rooms have {said}")
        diagram = replace(plan.diagram, metadata=metadata)
        return plan._replace(diagram=diagram, notes=(note, *plan.notes))


def parts_of(data: Any) -> list[Part]:
    """Split a JSON object in GeoJSON or RLVR by the storeys or dwellings of its rooms; any other
    object is one part.

    A boundary that names no part belongs to all. Raises ``DiagramError`` naming a room or door in
    no part, if others are in one.
    """
    # rooms, and the keys that tell their parts
    key, about, is_room = _drawn_items(data)
    items = data[key] if key else []
    facts = [about(item) for item in items]
    rooms = [k for k, each in enumerate(facts) if is_room(each)]
    keys = level_keys([facts[k] for k in rooms])
    if not keys:
        return [Part("", data, {})]
    # doors name rooms by their ids, or by their places among all rooms
    if key == "features":
        items = _numbered(items, rooms)
    # items of each part, and items of all parts
    parts: dict[tuple[object, ...], list[int]] = {}
    everywhere = []
    for k, each in enumerate(facts):
        values = tuple(each.get(key) for key in keys)
        if None not in values:
            parts.setdefault(values, []).append(k)
        elif k in rooms or "door" in str(each.get("kind", each.get("room_type"))):
            lacking = keys[values.index(None)]
            raise DiagramError(
                f"{key}[{k}]", f'it has no "{lacking}", as others have; say where it is'
            )
        else:
            everywhere.append(k)
    # parts that have rooms
    found = []
    for values, own in parts.items():
        if not set(own) & set(rooms):
            continue
        name = ", ".join(f"{key} {value}" for key, value in zip(keys, values, strict=True))
        those = [items[k] for k in sorted((*own, *everywhere))]
        found.append(Part(name, {**data, key: those}, dict(zip(keys, values, strict=True))))
    return found


def level_keys(rooms: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Keys whose values put rooms on several storeys or in several dwellings. A key of dwellings,
    or "floor", with a different value for each room is skipped: it numbers or measures rooms."""
    found = []
    for key in dict.fromkeys(key for room in rooms for key in room if plain(key) in _KEYS):
        values = [room[key] for room in rooms if room.get(key) is not None]
        if not all(isinstance(value, str | int | float) for value in values):
            continue
        # several values, shared by rooms
        num = len(set(values))
        if num > 1 and (num < len(values) or plain(key).startswith(_LEVELS)):
            found.append(key)
    return tuple(found)


def check_one_part(rooms: Sequence[Mapping[str, Any]]) -> None:
    """Raise ``DiagramError`` naming the storeys or dwellings if rooms are on several."""
    for key in level_keys(rooms):
        values = dict.fromkeys(room[key] for room in rooms if room.get(key) is not None)
        shown = ", ".join(map(reprlib.repr, values))
        raise DiagramError(
            key, f"rooms of {shown}, and these are several plans; write each as a separate plan"
        )


def check_listed(data: Mapping[str, Any], num_rooms: int) -> None:
    """Raise ``DiagramError`` for an object that lists several storeys or dwellings, one for each
    room."""
    listed = {
        key: values
        for key, values in data.items()
        if isinstance(values, list) and len(values) == num_rooms and plain(key) in _KEYS
    }
    if listed:
        check_one_part([{key: listed[key][k] for key in listed} for k in range(num_rooms)])


def _drawn_items(
    data: Any,
) -> tuple[str, Callable[[Any], Mapping[str, Any]], Callable[[Any], bool]]:
    """Key of the items that an object draws, their properties, and a test for rooms. The key is
    empty if it draws nothing."""

    def properties(feature: Any) -> Mapping[str, Any]:
        about = feature.get("properties") if isinstance(feature, Mapping) else None
        return about if isinstance(about, Mapping) else {}

    def itself(space: Any) -> Mapping[str, Any]:
        return space if isinstance(space, Mapping) else {}

    if isinstance(data, Mapping) and "rooms" not in data:
        if isinstance(data.get("features"), list):
            return "features", properties, _is_room_feature
        if isinstance(data.get("spaces"), list):
            return "spaces", itself, _is_room_space
    return "", itself, _is_room_space


def _is_room_feature(about: Mapping[str, Any]) -> bool:
    """Return True for a room of GeoJSON."""
    return about.get("kind", "room" if "room_type" in about else None) == "room"


def _is_room_space(about: Mapping[str, Any]) -> bool:
    """Return True for a room of RLVR."""
    return "door" not in str(about.get("room_type"))


def _numbered(features: Sequence[Any], rooms: Iterable[int]) -> list[Any]:
    """Features whose rooms have ids: their own, or their places among all rooms."""
    # own ids, if all rooms have one
    ids = [features[k].get("id") for k in rooms]
    if len({each for each in ids if type(each) is int}) == len(ids):
        return [*features]
    number = {k: n for n, k in enumerate(rooms)}
    return [{**f, "id": number[k]} if k in number else f for k, f in enumerate(features)]
