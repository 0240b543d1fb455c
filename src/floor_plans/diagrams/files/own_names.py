"""Names of rooms of the user's own, read from a file that maps them to room types."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from floor_plans.diagrams.files.everyday_names import plain
from floor_plans.diagrams.files.fields import DiagramError, room_code
from floor_plans.diagrams.vocabulary import ROOM_TYPES

_EXAMPLE = 'expected names and room types, as in "Schlafzimmer: MasterRoom"'


class OwnNames:
    """Mapping from names of rooms to room types; capitals, spaces and hyphens are ignored."""

    def __init__(self, types: Mapping[str, str]) -> None:
        self._types = {plain(name): room for name, room in types.items()}

    def room_type(self, room: Any) -> Any:
        """Room type of a name in the mapping; other values are returned unchanged."""
        return self._types.get(plain(room), room) if isinstance(room, str) else room

    def translate(self, data: Any) -> Any:
        """Translate the names of rooms in a plan's JSON object, in any of the formats."""
        if not self._types or not isinstance(data, Mapping):
            return data
        translated = dict(data)
        for key in ("rooms", "room_type"):
            if isinstance(data.get(key), list):
                translated[key] = [self.room_type(room) for room in data[key]]
        translated |= _each(data, "spaces", self._translate_room)
        return translated | _each(data, "features", self._translate_feature)

    def _translate_room(self, facts: Any) -> Any:
        if not isinstance(facts, Mapping) or "room_type" not in facts:
            return facts
        return {**facts, "room_type": self.room_type(facts["room_type"])}

    def _translate_feature(self, feature: Any) -> Any:
        if not isinstance(feature, Mapping) or "properties" not in feature:
            return feature
        return {**feature, "properties": self._translate_room(feature["properties"])}


def _each(data: Mapping[str, Any], key: str, change: Callable[[Any], Any]) -> dict[str, Any]:
    return {key: [change(each) for each in data[key]]} if isinstance(data.get(key), list) else {}


NO_NAMES = OwnNames({})


def read_names(path: str | os.PathLike[str] | None) -> OwnNames:
    """Read names and their room types from a YAML or JSON file; None gives an empty mapping.

    Raises ``FileNotFoundError`` naming the path, and ``ValueError`` naming file and name for
    anything but an object of names and room types.
    """
    if path is None:
        return NO_NAMES
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"names={path}: no such file; {_EXAMPLE}")
    # parse the file
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        shown = " ".join(str(error).split())
        raise ValueError(f"names={path}: not YAML ({shown}); {_EXAMPLE}") from error
    if not isinstance(found, dict) or not found:
        raise ValueError(f"names={path}: {_EXAMPLE}, got {reprlib.repr(found)}")
    # every value has to be a room type, every name distinct
    types: dict[str, str] = {}
    for name, room in found.items():
        try:
            types[str(name)] = ROOM_TYPES[room_code(room if isinstance(room, str) else None, "")]
        except DiagramError as error:
            raise ValueError(f"names={path}, {reprlib.repr(name)}: {error.reason}") from error
    if len({plain(name) for name in types}) < len(types):
        raise ValueError(f"names={path}: two names differ in capitals, spaces or hyphens only")
    return OwnNames(types)
