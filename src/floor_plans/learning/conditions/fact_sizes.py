"""Names and sizes of the facts of ``data.condition``, known before data are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from discrete_diffusion.config import unknown_name
from floor_plans.diagrams.vocabulary import DIRECTIONS, ROOM_GROUPS, vocabulary_named

OF_ROOMS = ("num_rooms", "counts")
"""Facts of the rooms of a diagram."""

OF_PLANS = ("area", "outline", "front_door")
"""Facts of a plan with boxes."""

GRID, CELL = 20, 1.0
"""Cells per side of the grid of an outline, centred on its bounding box, and their size in
metres."""


def fact_names(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the facts of ``data.condition``, in the order of ``OF_ROOMS`` and ``OF_PLANS``.

    Raises ``ValueError`` for an unknown fact.
    """
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
