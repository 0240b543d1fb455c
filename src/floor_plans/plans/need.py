"""``Need``: what a plan is to have, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

Rooms = tuple[int, ...]
"""Numbers of rooms."""


@dataclass(frozen=True)
class Need:
    """``text``: what a plan is to have, with {} for each of the ``rooms`` that it is about.
    ``rule``: the rule that needs it, empty if none does.
    """

    text: str = ""
    rule: str = ""
    rooms: Rooms = ()

    def sentence(self, names: Sequence[str]) -> str:
        """``kitchen is reached through common rooms``; ``names`` of all rooms."""
        return self.text.format(*(names[room] for room in self.rooms))

    def renumbered(self, rooms: Sequence[int]) -> Need:
        """For a diagram in which room k has the number ``rooms[k]``."""
        return replace(self, rooms=tuple(rooms[room] for room in self.rooms))

    def to_json(self, names: Sequence[str]) -> dict[str, Any]:
        return {"rule": self.rule, "rooms": list(self.rooms), "need": self.sentence(names)}


NO_NEED = Need()
