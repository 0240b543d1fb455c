"""Names of rooms in a language, for drawings: a table beside this file, ``room_names.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.rules.finding import HALL, kinds_of

LANGUAGES = ("en", "de")


class RoomName(NamedTuple):
    """``whole``, and ``short`` for a narrow room."""

    whole: str
    short: str


def names_of_rooms(plan: FloorPlan, language: str) -> list[str]:
    """Name of every room; of a room that was added to reach others, that of a hall."""
    return [_names(language)[kind].whole for kind in kinds_of(plan)]


def labels_of_rooms(plan: FloorPlan, language: str) -> list[RoomName]:
    """``names_of_rooms`` with the short ones."""
    return [_names(language)[kind] for kind in kinds_of(plan)]


def word(text: str, language: str) -> str:
    """A word of a drawing in a language; the English one if the table has no other."""
    return str(_table()[language].get("words", {}).get(text, text))


def type_of_name(name: str, kind: str = "") -> str:
    """The room type of a name in any of the languages: ``kind`` if that has it, or may be a hall;
    the name itself if it is none."""
    named = [
        kind for language in LANGUAGES for kind, own in _names(language).items() if own[0] == name
    ]
    if kind and (kind in named or HALL in named):
        return kind
    return next((each for each in named if each != HALL), name)


@cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    return yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


@cache
def _names(language: str) -> Mapping[str, RoomName]:
    """Room type, and ``HALL`` -> its name."""
    return {kind: RoomName(*names) for kind, names in _table()[language].items() if kind != "words"}
