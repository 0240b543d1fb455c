"""Check that lengths are in the unit that they were read in: in drawings, and for areas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from floor_plans.diagrams.geometry import (
    OTHER_SCALE,
    TYPICAL_METRES,
    Scale,
    likely_unit,
    metres_per,
    plain,
    typical_side,
)

_MOST_OFF = 10.0
"""How many times larger or smaller than that the rooms of one drawing may be."""

_DEGREE = 111_320.0
"""Metres of a degree of latitude."""


class DrawnIn(NamedTuple):
    """The ``unit`` that the lengths of a drawing were read in, with its ``metres``. ``stated_by``:
    the place in the file that states it; empty if there is none. ``key``: what to set, with ``{}``
    for the name of a unit."""

    unit: str = "metres"
    metres: float = 1.0
    stated_by: str = ""
    key: str = ""

    def remedy(self, typical: float) -> str:
        """Remedy where a typical room measures so many metres, which it hardly does."""
        read = f"it was read in {self.unit}"
        read += f", as {self.stated_by} says" if self.stated_by else ", which this format is in"
        raw = typical / self.metres
        if abs(math.log(max(raw, 1e-300) * _DEGREE / TYPICAL_METRES)) < 1:
            return (
                f"{read}, and looks drawn in degrees of longitude and latitude: project it to "
                "metres first"
            )
        likely = likely_unit(raw)
        if likely in (None, self.unit, "pixels"):
            return f"{read}; scale it to metres"
        scaled = f"multiply its lengths by {plain(metres_per(str(likely)))}"
        remedy = f"{self.key.replace('{}', str(likely))}, or {scaled}" if self.key else scaled
        return f"{read}, and looks drawn in {likely}: {remedy}"


IN_METRES = DrawnIn()


def check_drawings(
    plans: Sequence[tuple[str, ArrayLike, int, DrawnIn]], *, gap: float, usual_gap: bool
) -> None:
    """Check that the boxes of drawings, in metres by now, were in the unit they were read
    in.

    ``plans``: where each stands, its boxes Float[n, 4], how many pairs are related, and the unit.
    All of one unit are checked as ``check_scale`` does, and each alone, however few its rooms: one
    whose typical room is 10 times as large as others, or as small, is in another unit. Raises
    ``ValueError``; ``usual_gap``: nobody has given another one.
    """
    for drawn in dict.fromkeys(each[3] for each in plans):
        those = [each for each in plans if each[3] == drawn]
        found = Scale.of([(box, num) for _, box, num, _ in those], gap, usual_gap=usual_gap)
        if found is not None:
            raise ValueError(f"its rooms do not fit metres: {found}; {drawn.remedy(found.typical)}")
        for place, box, _, _ in those:
            side = typical_side([np.asarray(box, dtype=np.float64)])
            if _is_far_off(side, _MOST_OFF):
                raise ValueError(
                    f"{place}: its rooms do not fit metres: the shorter side of a typical room "
                    f"measures {plain(side)}; {drawn.remedy(side)}"
                )


def check_metres(boxes: Sequence[ArrayLike], units: Sequence[str]) -> None:
    """Check that the boxes of plans, Float[n, 4] in metres, were given in ``units``, by plan:
    areas are measured on them. Raises ``ValueError`` if the typical room of a unit is 3.5 times as
    large as those of real plans, or as small."""
    for unit in dict.fromkeys(units):
        those = [np.asarray(box) for box, other in zip(boxes, units, strict=True) if other == unit]
        typical = typical_side(those)
        if _is_far_off(typical, OTHER_SCALE):
            likely = likely_unit(typical / metres_per(unit))
            instead = f"unit={likely}" if likely not in (None, unit) else "their own unit"
            raise ValueError(
                f"boxes in unit={unit}: a typical room would measure {plain(typical)} m across, "
                f"and {plain(typical**2)} m2; expected about {TYPICAL_METRES:.1f} m. Give "
                f"{instead} (data.unit=, evaluate: unit=, discrete-diffusion data and plans: "
                "--unit)"
            )


def _is_far_off(typical: float, times: float) -> bool:
    """True if metres are so many times a real room's, or less than that part of them."""
    return abs(math.log(max(typical, 1e-300) / TYPICAL_METRES)) > math.log(times)
