"""``DrawingStyle``: language, layers and storey of a drawing; names of rooms from
``room_names.yaml``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from discrete_diffusion.config import unknown_name
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.rules.finding import HALL, kinds_of

LANGUAGES = ("en", "de")


class RoomName(NamedTuple):
    """Full name of a room, and a short one for a narrow room."""

    whole: str
    short: str


def names_of_rooms(plan: FloorPlan, language: str) -> list[str]:
    """Name of every room in a language; an added room is a hall."""
    return [_names(language)[kind].whole for kind in kinds_of(plan)]


def labels_of_rooms(plan: FloorPlan, language: str) -> list[RoomName]:
    """Full and short name of every room in a language."""
    return [_names(language)[kind] for kind in kinds_of(plan)]


def word(text: str, language: str) -> str:
    """Word of a drawing in a language; the English one if the table lacks it."""
    return str(_table()[language].get("words", {}).get(text, text))


def type_of_name(name: str, kind: str = "") -> str:
    """Room type of a name in any of the languages: ``kind`` if it has that name or may be a hall;
    the name itself if it is unknown."""
    named = [
        kind for language in LANGUAGES for kind, own in _names(language).items() if own[0] == name
    ]
    if kind and (kind in named or HALL in named):
        return kind
    return next((each for each in named if each != HALL), name)


@cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    return yaml.safe_load(Path(__file__).with_name("room_names.yaml").read_text(encoding="utf-8"))


@cache
def _names(language: str) -> Mapping[str, RoomName]:
    """Names by room type, ``HALL`` included."""
    return {kind: RoomName(*names) for kind, names in _table()[language].items() if kind != "words"}


LAYERS = ("plain", "aia")
"""Sets of layer names for DXF."""

_STOREYS = (2.3, 10.0)
"""Bounds on the height of a storey, metres. Heads of doors and windows are lower."""


@dataclass(frozen=True)
class DrawingStyle:
    """Choices of a drawing that are not in the plan.

    ``language``: of the names of rooms, one of ``LANGUAGES``; ``layers``: names of layers in DXF,
    one of ``LAYERS``; ``storey``: metres from the floor to the ceiling, in IFC. Raises
    ``ValueError`` for anything else.
    """

    language: str = "en"
    layers: str = "plain"
    storey: float = 2.5

    def __post_init__(self) -> None:
        for key, value, known in (
            ("language", self.language, LANGUAGES),
            ("layers", self.layers, LAYERS),
        ):
            if value not in known:
                raise ValueError(f"{key}={value}: {unknown_name(key, value, known)}")
        low, high = _STOREYS
        if not (math.isfinite(self.storey) and low <= self.storey <= high):
            raise ValueError(f"storey={self.storey}: expected metres between {low:g} and {high:g}")
