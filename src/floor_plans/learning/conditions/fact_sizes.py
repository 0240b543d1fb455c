"""Names and sizes of the facts of ``data.condition``, for what is known before any data is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from discrete_diffusion.config import unknown_name
from floor_plans.diagrams.vocabulary import DIRECTIONS, ROOM_GROUPS, vocabulary_named

OF_ROOMS = ("num_rooms", "counts")
"""Facts that the rooms of a diagram say ..."""

OF_PLANS = ("area", "outline", "front_door")
"""... and those that only a plan with boxes does."""

GRID, CELL = 20, 1.0
"""An outline is GRID x GRID cells of so many metres, around the middle of its bounding box."""


def fact_names(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Facts of ``data.condition``, in the order of ``OF_ROOMS`` and ``OF_PLANS``, none if it is
    null; ``ValueError`` for an unknown one."""
    asked, known = data.get("condition") or (), (*OF_ROOMS, *OF_PLANS)
    for name in [asked] if isinstance(asked, str) else asked:
        if name not in known:
            raise ValueError(f"data.condition: {unknown_name('fact', str(name), known)}")
    return tuple(name for name in known if name in asked)


def room_kinds(types: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Room types, and groups of several, by name: the ids of their types."""
    found: dict[str, tuple[int, ...]] = {name: (k,) for k, name in enumerate(types)}
    for name, members in ROOM_GROUPS.items():
        ids = tuple(types.index(each) for each in members if each in types)
        if len(ids) > 1:
            found[name] = ids
    return found


def sizes_of(name: str, n_max: int, types: Sequence[str]) -> tuple[int, ...]:
    """Sizes of the facts of one name, in numbers."""
    one_hot = n_max + 1
    return {
        "num_rooms": (one_hot,),
        "counts": (one_hot,) * len(room_kinds(types)),
        "area": (1,),
        "outline": (GRID * GRID + 2,),
        "front_door": (2,),
    }[name]


def fact_sizes(data: Mapping[str, Any]) -> tuple[int, ...]:
    """Sizes of the facts of a ``config.data``, in numbers."""
    types = vocabulary_named(data.get("relations", DIRECTIONS.name)).room_types
    names = fact_names(data)
    return tuple(size for name in names for size in sizes_of(name, data["n_max"], types))
