"""Geometry of boxes: the relations they imply, and checks of the unit they are in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discrete_diffusion.config import counted, unknown_name
from floor_plans.diagrams.rooms import INSIDE, NO_EDGE, SURROUNDING

DEFAULT_THRESHOLD = 9.0
"""Pixels (of a plan rendered on 256 x 256) up to which two boxes count as neighbours."""

_METRES_PER_PIXEL = 18 / 256
"""RPLAN renders 18 m on 256 pixels."""

_STEPS = 128_000
"""Steps of a metre: a millimetre has 128 of them, a pixel 9,000."""

_PER_PIXEL = {
    "pixels": 1.0,
    "metres": _METRES_PER_PIXEL,
    "centimetres": 100 * _METRES_PER_PIXEL,
    "millimetres": 1000 * _METRES_PER_PIXEL,
    "feet": _METRES_PER_PIXEL / 0.3048,
    "inches": _METRES_PER_PIXEL / 0.0254,
}
UNITS = tuple(_PER_PIXEL)
"""Units that boxes may be given in."""

_TYPICAL_SIDE, _LEAST_SIDE, _MOST_SIDE = 4.4, 2.0, 8.0
"""The median shorter side of a room, in thresholds: 4.6 in 999 real plans, 4.3 in generated ones;
and the limits outside which boxes are not in the unit that was given."""

TYPICAL_METRES = _TYPICAL_SIDE * DEFAULT_THRESHOLD * _METRES_PER_PIXEL
"""The shorter side of a typical room."""

_FEWEST_PAIRS = 3

OTHER_SCALE = 3.5
"""How many times larger or smaller a typical room of a plan in another unit is: 4.3 times in feet
among pixels, 14 in metres; at most 2.2 in one unit, of 999 real plans and 2,000 generated."""

_SAME_SCALE = 1.5
_MOST_OTHERS = 0.02
"""Share of the plans that may be of another scale."""


# Where the centre of u lies against the box of v. Rows: y of the centre before, on, between, on,
# after the box's two y edges (y grows downwards); columns: the same for x. A centre on the line
# that prolongs an edge belongs to one sector only: the table is the same after a quarter turn.
SECTORS = np.array(
    [
        [0, 3, 3, 8, 8],
        [0, 0, 3, 8, 7],
        [2, 2, 4, 7, 7],
        [2, 1, 6, 9, 9],
        [1, 1, 6, 6, 9],
    ]
)


def relations_from_boxes(
    boxes: ArrayLike, threshold: float = DEFAULT_THRESHOLD
) -> NDArray[np.int64]:
    """The relation of every pair of rooms u < v, from their boxes.

    A pair is related if its boxes come within ``threshold`` of each other along both axes. Then u
    strictly around v on all four sides is "surrounding"; u within v (edges may coincide) is
    "inside"; otherwise the *centre* of u is placed against the *box* of v: eight sectors, "inside"
    if it falls into the box. This is the rule of Graph2Plan (arXiv 2004.13204). It is not
    antisymmetric: computing (v, u) often differs from the inverse 9 - r of (u, v), so relabelled
    rooms keep their relations by ``BubbleDiagram.relabelled`` and never by measuring again.

    ``boxes``: Float[..., n, 4] as (x0, y0, x1, y1), y downwards, in the unit of ``threshold``.
    Returns Int64[..., n, n]: the code of (u, v) for u < v, and "no-edge" (10) everywhere else.

    Raises ``ValueError`` for another shape, a non-finite number, or a box with x1 < x0 or y1 < y0.
    """
    box = np.asarray(boxes, dtype=np.float64)
    if box.ndim < 2 or box.shape[-1] != 4:
        raise ValueError(f"boxes must have shape (..., n, 4), got {box.shape}")
    if not np.isfinite(box).all():
        raise ValueError("boxes must be finite numbers")
    if (box[..., 2:] < box[..., :2]).any():
        raise ValueError("boxes must be (x0, y0, x1, y1) with x0 <= x1 and y0 <= y1")
    u_low, u_high = box[..., :, None, :2], box[..., :, None, 2:]  # (..., n, 1, 2): x, y
    v_low, v_high = box[..., None, :, :2], box[..., None, :, 2:]  # (..., 1, n, 2)

    with np.errstate(over="ignore"):  # a gap beyond float64 is infinite, hence not near
        near = (np.maximum(u_low - v_high, v_low - u_high) <= threshold).all(-1)
    around = ((u_low < v_low) & (u_high > v_high)).all(-1)
    within = ((u_low >= v_low) & (u_high <= v_high)).all(-1)

    centre = u_low / 2 + u_high / 2
    column = (
        (centre >= v_low).astype(np.int64)
        + (centre > v_low)
        + (centre >= v_high)
        + (centre > v_high)
    )  # 0 before, 1 on, 2 between, 3 on, 4 after
    code = SECTORS[column[..., 1], column[..., 0]]
    code = np.where(around, SURROUNDING, np.where(within, INSIDE, code))

    upper = np.triu(np.ones((box.shape[-2],) * 2, dtype=bool), k=1)
    return np.where(near & upper, code, NO_EDGE)


def relations_in_metres(boxes: ArrayLike, gap: float) -> NDArray[np.int64]:
    """``relations_from_boxes`` of boxes in metres, in steps that millimetres and pixels are whole
    numbers of: a centre on the line of an edge is on it after a change of unit too."""
    steps = np.round(np.asarray(boxes, dtype=np.float64) * _STEPS)
    return relations_from_boxes(steps, round(gap * _STEPS))


def threshold_of(unit: str, threshold: float | None) -> float:
    """The gap up to which boxes in ``unit`` are related: ``threshold``, which is in that unit, or,
    if it is None, as long as ``DEFAULT_THRESHOLD`` pixels. ``ValueError`` for what cannot be."""
    if unit not in _PER_PIXEL:
        raise ValueError(f"unit={unit}: {unknown_name('unit', unit, UNITS)}")
    if threshold is None:
        return DEFAULT_THRESHOLD * _PER_PIXEL[unit]
    number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
    if not (number and math.isfinite(threshold) and threshold >= 0):
        raise ValueError(f"threshold={threshold}: expected a number of at least 0")
    return threshold


def metres_per(unit: str) -> float:
    """Metres of a unit of ``UNITS``; ``ValueError`` for another."""
    if unit not in _PER_PIXEL:
        raise ValueError(f"unit={unit}: {unknown_name('unit', unit, UNITS)}")
    return _METRES_PER_PIXEL / _PER_PIXEL[unit]


def in_metres(
    boxes: Sequence[Sequence[float]], unit: str
) -> tuple[tuple[float, float, float, float], ...]:
    """Boxes given in ``unit``, one of ``UNITS``."""
    factor = metres_per(unit)
    return tuple((factor * x0, factor * y0, factor * x1, factor * y1) for x0, y0, x1, y1 in boxes)


def check_scale(
    plans: Sequence[tuple[ArrayLike, int]], *, unit: str, threshold: float | None
) -> None:
    """Check that boxes on which relations were measured are in ``unit``; ``threshold`` as given.

    ``plans``: boxes Float[n, 4] of a plan, and how many of its pairs are related. The median of the
    rooms' shorter sides is about 4 times the gap up to which rooms are related. Raises
    ``ValueError`` with what was measured if it is below 2 gaps, so that rooms are related across
    others; and, unless a threshold was given, if it is above 8 and there are fewer relations than
    it takes to join every plan, so that walls keep neighbours apart. Fewer than 3 pairs are not
    checked, and boxes without extent are refused.
    """
    gap = threshold_of(unit, threshold)
    found = Scale.of(plans, gap, usual_gap=threshold is None)
    if found is None:
        return
    likely = likely_unit(found.typical)
    or_unit = "" if likely in (None, unit) else f"data.unit={likely}, or "
    larger = ""
    if unit == "pixels" and found.typical >= _LEAST_SIDE * gap:
        larger = "; pixels of a plan drawn larger than 256 x 256 need such a threshold too"
    raise ValueError(
        f"its boxes do not fit unit={unit} with threshold={plain(gap)}, the gap up to which rooms "
        f"are related: {found}. Give {or_unit}the gap in the boxes' own unit, say "
        f"data.threshold={plain(found.typical / _TYPICAL_SIDE, 2)} (evaluate: unit=, threshold=; "
        f"discrete-diffusion data: --unit, --threshold){larger}"
    )


class Scale(NamedTuple):
    """Measures of plans whose boxes are hardly in the unit that their gap is in: the median of the
    rooms' shorter sides, and the share of pairs that would be related."""

    typical: float
    share: float

    @classmethod
    def of(
        cls, plans: Sequence[tuple[ArrayLike, int]], gap: float, *, usual_gap: bool
    ) -> Scale | None:
        """None if all is well, see ``check_scale``; ``ValueError`` for boxes without extent."""
        boxes = [np.asarray(box, dtype=np.float64) for box, _ in plans]
        pairs = sum(len(box) * (len(box) - 1) // 2 for box in boxes)
        if pairs < _FEWEST_PAIRS:
            return None
        typical = typical_side(boxes)
        if typical == 0:
            raise ValueError(
                "its boxes have no extent: half of all rooms are lines or points; expected "
                "(x0, y0, x1, y1) with x0 < x1 and y0 < y1"
            )
        related = sum(num for _, num in plans)
        joined = related >= sum(len(box) - 1 for box in boxes)
        too_wide = typical < _LEAST_SIDE * gap
        too_narrow = usual_gap and typical > _MOST_SIDE * gap and not joined
        return cls(typical, related / pairs) if too_wide or too_narrow else None

    def __str__(self) -> str:
        return (
            f"the shorter side of a typical room measures {plain(self.typical)}, and "
            f"{self.share:.0%} of all pairs of rooms would be related (real plans: about "
            f"{_TYPICAL_SIDE:g} gaps, and 50%)"
        )


def likely_unit(typical: float) -> str | None:
    """Unit in which the typical room of a plan measures so much, None if there is none."""
    off = {
        name: abs(math.log(max(typical, 1e-300) / (_TYPICAL_SIDE * threshold_of(name, None))))
        for name in UNITS
    }
    likely = min(UNITS, key=off.__getitem__)
    return likely if off[likely] < 1 else None


def typical_side(boxes: Sequence[NDArray[np.float64]]) -> float:
    """The median of the shorter sides of all boxes, Float[n, 4] each."""
    with np.errstate(over="ignore"):
        return float(np.median(np.concatenate([_shorter_sides(box) for box in boxes])))


def check_one_unit(plans: Sequence[tuple[str, ArrayLike]]) -> None:
    """Check that all boxes on which relations were measured are in the same unit.

    ``plans``: where each stands, and its boxes Float[n, 4]. A plan's scale is the median of its
    rooms' shorter sides. In another unit are plans whose scale differs by a factor of 3.5 or more
    from the one that most plans are near. Raises ``ValueError`` with how many, and the first of
    them, if they are 2 or more, and more than a fiftieth of all.
    """
    if not plans:
        return
    with np.errstate(over="ignore"):
        sides = np.array([np.median(_shorter_sides(np.asarray(box, float))) for _, box in plans])
    scale, near = np.log(np.clip(sides, 1e-300, 1e300)), math.log(_SAME_SCALE)
    ranked = np.sort(scale)
    about = np.searchsorted(ranked, ranked + near, "right") - np.searchsorted(ranked, ranked - near)
    others = np.flatnonzero(np.abs(scale - ranked[about.argmax()]) >= math.log(OTHER_SCALE))
    if len(others) < 2 or len(others) <= _MOST_OTHERS * len(plans):
        return
    there, elsewhere = np.median(sides[others]), np.median(np.delete(sides, others))
    raise ValueError(
        f"{len(others):,} of {counted(len(plans), 'plan')}, the first at {plans[others[0]][0]}, "
        f"have boxes in another unit than the rest: a typical room's shorter side measures "
        f"{plain(there)} there and {plain(elsewhere)} elsewhere. Keep a file per unit, each read "
        "with its data.unit (evaluate: unit=), or write their relations down first: "
        "discrete-diffusion data convert FILE OUT --unit U"
    )


def _shorter_sides(box: NDArray[np.float64]) -> NDArray[np.float64]:
    return (box[:, 2:] - box[:, :2]).min(axis=1)


def plain(number: float, digits: int = 3) -> str:
    """``2660``, ``0.633``: as many digits, no exponent unless the number is out of all bounds."""
    if not 1e-6 < abs(number) < 1e9:
        return f"{number:.{digits}g}"
    return np.format_float_positional(number, digits, unique=False, fractional=False, trim="-")


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
