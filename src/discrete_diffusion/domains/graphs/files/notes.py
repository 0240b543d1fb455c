"""``Notes``: how graphs were read, and what of their files was left out, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from discrete_diffusion.config.naming import counted


@dataclass
class Notes:
    """``forms``: graphs by how they were read. ``dropped``: by name and what has it, a noun in the
    singular, how many times it was left out. ``remarks``: by sentence, how many times it holds."""

    forms: Counter[str] = field(default_factory=Counter)
    dropped: Counter[tuple[str, str]] = field(default_factory=Counter)
    remarks: Counter[str] = field(default_factory=Counter)

    def drop(self, names: Iterable[str], unit: str, number: int = 1) -> None:
        """Each of ``names`` was left out of so many of ``unit``."""
        for name in names:
            self.dropped[name, unit] += number

    def drop_others(self, found: Mapping[str, object], known: Iterable[str], unit: str) -> None:
        """Drop the values of one ``unit`` under other keys than the ``known`` ones."""
        self.drop((str(key) for key in found.keys() - set(known)), unit)

    def sentences(self) -> list[str]:
        """``dropped: weight of 12 edges, label of 3 nodes``, and the remarks."""
        parts = [
            f"{name} of {counted(number, unit)}"
            for (name, unit), number in sorted(self.dropped.items())
        ]
        dropped = [f"dropped: {', '.join(parts)}"] if parts else []
        return dropped + [
            f"{remark}: {number:,}" for remark, number in sorted(self.remarks.items())
        ]
