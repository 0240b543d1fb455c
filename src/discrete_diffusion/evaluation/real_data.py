"""Real data that samples are compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from discrete_diffusion.evaluation.measured_data import MeasuredData

S = TypeVar("S")


@dataclass(frozen=True)
class RealData(Generic[S]):
    """``reference``: the real samples to compare with, described by ``name``; so many were
    ``num_available``. ``training``: those the model was trained on, None if unknown; ``known``: all
    real samples at hand, for the floors.

    ``data``, ``split``: what ``reference`` is of and the model is measured on; None without a
    checkpoint. ``measured_on``: other data, of keys under ``data``.
    """

    name: str
    reference: list[S]
    training: list[S] | None
    known: list[S]
    num_available: int
    data: Any = None
    split: str = "test"
    measured_on: MeasuredData | None = None

    def facts(self) -> dict[str, Any]:
        """Entries of ``metrics.json`` on it."""
        return {
            "reference": self.name,
            "num_reference": len(self.reference),
            "num_held_out": len(self.reference),
            "num_held_out_available": self.num_available,
            **({} if self.measured_on is None else self.measured_on.found),
        }

    def notes(self) -> list[str]:
        """Notes on how to read the numbers if other data was measured."""
        return [] if self.measured_on is None else self.measured_on.notes()
