"""``DrawingStyle``: choices of a drawing that are not in the plan."""

from __future__ import annotations

import math
from dataclasses import dataclass

from discrete_diffusion.config import unknown_name
from floor_plans.drawings.room_names import LANGUAGES

LAYERS = ("plain", "aia")
"""Sets of layer names of DXF."""

_STOREYS = (2.3, 10.0)
"""Metres: a storey is higher than the heads of doors and windows."""


@dataclass(frozen=True)
class DrawingStyle:
    """``language``: of the names of rooms, one of ``LANGUAGES``; ``layers``: names of layers in
    DXF, one of ``LAYERS``; ``storey``: metres from the floor to the ceiling, in IFC.

    Raises ``ValueError`` for anything else.
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
