"""Soft constraints on a floor plan: what each requires, in words, and which come first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any


class Priority(IntEnum):
    """Priorities of soft constraints, the most important first.

    Relations, the outline and the absence of overlaps are hard constraints. Of soft constraints
    that exclude each other, one of the lowest priority is dropped.
    """

    ACCESS = 0
    SIZES = 1
    LARGEST = 2
    SHAPES = 3
    WALLS = 4
    FACADE = 5
    BALCONIES = 6
    ROUGH_AREAS = 7
    FILL = 8
    AREAS = 9


NOTHING: frozenset[Priority] = frozenset()
"""Priorities to drop: none."""

ONLY_AREAS = frozenset({Priority.AREAS})
"""Priorities to drop: target areas."""

WITHOUT_RULES = frozenset(
    {Priority.LARGEST, Priority.SHAPES, Priority.BALCONIES, Priority.ROUGH_AREAS, Priority.AREAS}
)
"""Priorities to drop: those that serve no rule."""

Rooms = tuple[int, ...]
"""Numbers of rooms."""


@dataclass(frozen=True)
class Requirement:
    """Something a plan is to have. ``text`` has {} for each of the ``rooms`` it concerns. ``rule``:
    the rule that requires it, or empty."""

    text: str = ""
    rule: str = ""
    rooms: Rooms = ()

    def sentence(self, names: Sequence[str]) -> str:
        """Return ``kitchen is reached through common rooms``. ``names``: of all rooms."""
        return self.text.format(*(names[room] for room in self.rooms))

    def renumbered(self, rooms: Sequence[int]) -> Requirement:
        """Return the requirement for a diagram in which room k has the number ``rooms[k]``."""
        return replace(self, rooms=tuple(rooms[room] for room in self.rooms))

    def to_json(self, names: Sequence[str]) -> dict[str, Any]:
        return {"rule": self.rule, "rooms": list(self.rooms), "need": self.sentence(names)}


NO_REQUIREMENT = Requirement()
