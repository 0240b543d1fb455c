"""Relations of rooms: measured on boxes in a unit, and checked for soundness.

``Ints``: Int[M, n, n], entry (i, j) for i < j is the code r of "room i is RELATIONS[r] room j",
"no-edge" everywhere else. Axes: ``M`` diagrams, ``n`` slots for rooms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discrete_diffusion.config import counted, unknown_name
from discrete_diffusion.layout import ROOM_TYPES
from floor_plans.diagrams.vocabulary import FORBIDDEN_INSIDE, INSIDE, NO_EDGE, SURROUNDING

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]

_FORBIDDEN = np.zeros((len(ROOM_TYPES) + 2,) * 2, dtype=bool)  # inner, outer type; MASK, PAD
for _inner, _outer in FORBIDDEN_INSIDE.items():
    _FORBIDDEN[_inner, list(_outer)] = True


def neighbours(relations: Ints, no_edge: int = NO_EDGE) -> Flags:
    """Bool[M, n, n], symmetric: True for rooms with any relation."""
    related = relations != no_edge
    return np.logical_or(related, related.swapaxes(1, 2))


def is_connected(related: Flags, num_rooms: Ints) -> Flags:
    """Bool[M]: True if all ``num_rooms`` Int[M] are connected by ``related``, of ``neighbours``."""
    reached = transitive_closure(related)[:, 0, :]
    reached[:, 0] = True
    return np.equal(reached.sum(axis=1), num_rooms)


def is_acyclic(relations: Ints, order_of_relation: Sequence[int]) -> Flags:
    """Bool[M]: True if arcs from smaller to larger coordinates on an axis have no directed cycle.
    ``order_of_relation``: for each relation code -1 (i first), 1 (j first) or 0 (neither)."""
    # arc i -> j if i has the smaller coordinate
    order = np.array(order_of_relation)[relations]
    paths = transitive_closure((order < 0) | (order > 0).swapaxes(1, 2))
    return np.logical_not(np.diagonal(paths, axis1=1, axis2=2).any(axis=1))


def is_inside_valid(rooms: Ints, relations: Ints) -> Flags:
    """Bool[M]: True if no room lies inside a forbidden one. ``rooms``: Int[M, n] codes, or PAD."""
    # pairs (inner, outer) of forbidden types
    never_in = _FORBIDDEN[rooms[:, :, None], rooms[:, None, :]]
    wrong = (relations == INSIDE) & never_in
    wrong |= (relations == SURROUNDING) & never_in.swapaxes(1, 2)
    return np.logical_not(wrong.any(axis=(1, 2)))


def transitive_closure(relation: Flags) -> Flags:
    """Transitive closure of Bool[..., n, n] by Warshall: True if one or more steps join i to j."""
    found = relation.copy()
    for k in range(relation.shape[-1]):
        found |= found[..., :, k, None] & found[..., k, None, :]
    return found


DEFAULT_THRESHOLD = 9.0
"""Largest gap of neighbouring boxes, in pixels of a plan rendered on 256 x 256."""

_METRES_PER_PIXEL = 18 / 256  # size of a pixel of RPLAN, which renders 18 m on 256 pixels
_STEPS = 128_000  # steps in a metre: a millimetre has 128, a pixel of RPLAN 9,000

_PER_PIXEL = {
    "pixels": 1.0,
    "metres": _METRES_PER_PIXEL,
    "centimetres": 100 * _METRES_PER_PIXEL,
    "millimetres": 1000 * _METRES_PER_PIXEL,
    "feet": _METRES_PER_PIXEL / 0.3048,
    "inches": _METRES_PER_PIXEL / 0.0254,
}
UNITS = tuple(_PER_PIXEL)  # units that boxes may be given in

_TYPICAL_SIDE, _LEAST_SIDE, _MOST_SIDE = 4.4, 2.0, 8.0
"""Median of the shorter sides of rooms, in thresholds (4.6 in 999 real plans, 4.3 in generated
ones), and the limits outside which boxes are in another unit than given."""

TYPICAL_METRES = _TYPICAL_SIDE * DEFAULT_THRESHOLD * _METRES_PER_PIXEL
"""Shorter side of a typical room, in metres."""

_FEWEST_PAIRS = 3

OTHER_SCALE = 3.5
"""Least ratio of typical rooms in two units: 4.3 between feet and pixels, 14 between metres and
pixels; within one unit it is at most 2.2 in 999 real plans and 2,000 generated ones."""

_SAME_SCALE = 1.5
_MOST_OTHERS = 0.02  # largest share of plans in another unit that is tolerated

# Sector of the centre of u relative to the box of v. Rows: y of the centre before, on, between, on,
# after the two y edges of the box (y grows downwards); columns: the same for x. A centre on the
# line through an edge belongs to a single sector; the table is invariant under quarter turns.
SECTORS = np.array(
    [[0, 3, 3, 8, 8], [0, 0, 3, 8, 7], [2, 2, 4, 7, 7], [2, 1, 6, 9, 9], [1, 1, 6, 6, 9]]
)


def relations_from_boxes(boxes: ArrayLike, threshold: float = DEFAULT_THRESHOLD) -> Ints:
    """Measure the relation of every pair of rooms u < v on their boxes.

    A pair is related if the gap of its boxes is at most ``threshold`` along both axes. If u
    strictly encloses v it is "surrounding"; if u lies within v (edges may coincide) it is "inside";
    otherwise the *centre* of u is located relative to the *box* of v, in one of eight sectors or
    "inside". This is the rule of Graph2Plan (arXiv 2004.13204). It is not antisymmetric: the
    relation of (v, u) often differs from the inverse 9 - r of (u, v). Relabelled rooms therefore
    keep their relations (``BubbleDiagram.relabelled``) and are not measured again.

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

    # gap along each axis, and containment in each direction
    with np.errstate(over="ignore"):  # a gap beyond float64 is infinite, hence not near
        near = (np.maximum(u_low - v_high, v_low - u_high) <= threshold).all(-1)
    around = ((u_low < v_low) & (u_high > v_high)).all(-1)
    within = ((u_low >= v_low) & (u_high <= v_high)).all(-1)

    # position of the centre along each axis
    centre = u_low / 2 + u_high / 2
    column = (centre >= v_low).astype(np.int64) + (centre > v_low)
    column += (centre >= v_high).astype(np.int64) + (centre > v_high)
    # 0 before, 1 on, 2 between, 3 on, 4 after
    code = SECTORS[column[..., 1], column[..., 0]]
    code = np.where(around, SURROUNDING, np.where(within, INSIDE, code))

    upper = np.triu(np.ones((box.shape[-2],) * 2, dtype=bool), k=1)
    return np.where(near & upper, code, NO_EDGE)


def relations_in_metres(boxes: ArrayLike, gap: float) -> Ints:
    """Measure relations on boxes in metres, rounded to 1 / ``_STEPS`` m: a centre on the line of an
    edge stays on it after a change of unit."""
    steps = np.round(np.asarray(boxes, dtype=np.float64) * _STEPS)
    return relations_from_boxes(steps, round(gap * _STEPS))


def threshold_of(unit: str, threshold: float | None) -> float:
    """Largest gap of related boxes, in ``unit``: ``threshold``, or ``DEFAULT_THRESHOLD`` pixels.
    Raises ``ValueError`` for an unknown unit or a wrong threshold."""
    metres_per(unit)  # refuses an unknown unit
    if threshold is None:
        return DEFAULT_THRESHOLD * _PER_PIXEL[unit]
    number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
    if not (number and math.isfinite(threshold) and threshold >= 0):
        raise ValueError(f"adjacency_threshold={threshold}: expected a number of at least 0")
    return threshold


def metres_per(unit: str) -> float:
    """Length of a unit of ``UNITS`` in metres; ``ValueError`` for another unit."""
    if unit not in _PER_PIXEL:
        raise ValueError(f"unit={unit}: {unknown_name('unit', unit, UNITS)}")
    return _METRES_PER_PIXEL / _PER_PIXEL[unit]


def boxes_in_metres(
    boxes: Sequence[Sequence[float]], unit: str
) -> tuple[tuple[float, float, float, float], ...]:
    """Convert boxes from ``unit``, one of ``UNITS``, to metres."""
    factor = metres_per(unit)
    return tuple((factor * x0, factor * y0, factor * x1, factor * y1) for x0, y0, x1, y1 in boxes)


Boxed = tuple[ArrayLike, int]
"""Boxes Float[n, 4] of a plan, and its number of related pairs."""


def check_scale(plans: Sequence[Boxed], *, unit: str, threshold: float | None) -> None:
    """Check that measured boxes are in ``unit``.

    ``threshold``: as the user gave it, or None. The median of the rooms' shorter sides is usually
    about 4 gaps. Raises ``ValueError`` if it is below 2 gaps (rooms with another room between them
    would be related), or, for the default threshold, above 8 gaps with too few relations to connect
    every plan.
    """
    gap = threshold_of(unit, threshold)
    found = Scale.of(plans, gap, usual_gap=threshold is None)
    if found is None:
        return
    # the message suggests a likely unit, or a threshold
    likely = likely_unit(found.typical)
    or_unit = "" if likely in (None, unit) else f"data.unit={likely}, or "
    larger = ""
    if unit == "pixels" and found.typical >= _LEAST_SIDE * gap:
        larger = "; pixels of a plan drawn larger than 256 x 256 need such a threshold too"
    raise ValueError(
        f"its boxes do not fit unit={unit} with adjacency_threshold={rounded(gap)}, the gap up to "
        f"which rooms are related: {found}. Give {or_unit}the gap in the boxes' own unit, say "
        f"data.adjacency_threshold={rounded(found.typical / _TYPICAL_SIDE, 2)} (evaluate: unit=, "
        f"adjacency_threshold=; discrete-diffusion data: --unit, --adjacency-threshold){larger}"
    )


class Scale(NamedTuple):
    """Median of the rooms' shorter sides, and share of related pairs, of plans in a wrong unit."""

    typical: float
    share: float

    @classmethod
    def of(cls, plans: Sequence[Boxed], gap: float, *, usual_gap: bool) -> Scale | None:
        """Return the scale of plans, or None if they fit their unit; see ``check_scale``. Raises
        ``ValueError`` for boxes without extent."""
        # typical side, and number of pairs
        boxes = [np.asarray(box, dtype=np.float64) for box, _ in plans]
        pairs = sum(len(box) * (len(box) - 1) // 2 for box in boxes)
        if pairs < _FEWEST_PAIRS:
            return None
        typical = typical_side(boxes)
        if typical == 0:
            reason = "its boxes have no extent: half of all rooms are lines or points"
            raise ValueError(f"{reason}; expected (x0, y0, x1, y1) with x0 < x1 and y0 < y1")
        # too many relations by a large gap, or too few by a small one
        related = sum(num for _, num in plans)
        joined = related >= sum(len(box) - 1 for box in boxes)
        too_wide = typical < _LEAST_SIDE * gap
        too_narrow = usual_gap and typical > _MOST_SIDE * gap and not joined
        return cls(typical, related / pairs) if too_wide or too_narrow else None

    def __str__(self) -> str:
        return (
            f"the shorter side of a typical room measures {rounded(self.typical)}, and "
            f"{self.share:.0%} of all pairs of rooms would be related (real plans: about "
            f"{_TYPICAL_SIDE:g} gaps, and 50%)"
        )


def likely_unit(typical: float) -> str | None:
    """Unit in which ``typical`` is the usual side of a room, or None."""
    side = max(typical, 1e-300) / _TYPICAL_SIDE
    off = {name: abs(math.log(side / threshold_of(name, None))) for name in UNITS}
    likely = min(UNITS, key=off.__getitem__)
    return likely if off[likely] < 1 else None


def typical_side(boxes: Sequence[Floats]) -> float:
    """Median of the shorter sides of all boxes, Float[n, 4] for each plan."""
    with np.errstate(over="ignore"):
        return float(np.median(np.concatenate([_shorter_sides(box) for box in boxes])))


def check_one_unit(plans: Sequence[tuple[str, ArrayLike]]) -> None:
    """Check that all measured boxes are in the same unit.

    ``plans``: boxes Float[n, 4] of each plan, after its place such as "plans.jsonl, line 3". The
    scale of a plan is the median of its rooms' shorter sides; outliers differ by a factor of 3.5 or
    more from the most common scale. Raises ``ValueError`` with the number of outliers and the first
    one if there are at least 2, and more than a fiftieth of all plans.
    """
    if not plans:
        return
    with np.errstate(over="ignore"):
        sides = np.array([np.median(_shorter_sides(np.asarray(box, float))) for _, box in plans])
    # the most common scale is the one with most plans near it, in logarithms
    scale, near = np.log(np.clip(sides, 1e-300, 1e300)), math.log(_SAME_SCALE)
    ranked = np.sort(scale)
    about = np.searchsorted(ranked, ranked + near, "right") - np.searchsorted(ranked, ranked - near)
    # plans that differ from it by a factor of OTHER_SCALE or more
    others = np.flatnonzero(np.abs(scale - ranked[about.argmax()]) >= math.log(OTHER_SCALE))
    if len(others) < 2 or len(others) <= _MOST_OTHERS * len(plans):
        return
    there, elsewhere = np.median(sides[others]), np.median(np.delete(sides, others))
    raise ValueError(
        f"{len(others):,} of {counted(len(plans), 'plan')}, the first at {plans[others[0]][0]}, "
        f"have boxes in another unit than the rest: a typical room's shorter side measures "
        f"{rounded(there)} there and {rounded(elsewhere)} elsewhere. Keep a file per unit, each "
        "read with its data.unit (evaluate: unit=), or write their relations down first: "
        "discrete-diffusion data convert FILE OUT --unit U"
    )


def _shorter_sides(box: Floats) -> Floats:
    return (box[:, 2:] - box[:, :2]).min(axis=1)


def rounded(number: float, digits: int = 3) -> str:
    """Text such as ``2660`` or ``0.633``, with an exponent only for extreme numbers."""
    if not 1e-6 < abs(number) < 1e9:
        return f"{number:.{digits}g}"
    return np.format_float_positional(number, digits, unique=False, fractional=False, trim="-")


_MOST_OFF = 10.0  # largest ratio between rooms of one drawing and typical rooms
_DEGREE = 111_320.0  # length of a degree of latitude, in metres


class DrawnIn(NamedTuple):
    """Unit of the lengths of a drawing, and its size in ``metres``. ``stated_by``: place in the
    file that states it, if any. ``key``: option that sets it, with ``{}`` for its name."""

    unit: str = "metres"
    metres: float = 1.0
    stated_by: str = ""
    key: str = ""

    def remedy(self, typical: float) -> str:
        """Remedy for a drawing with rooms of unlikely size; ``typical``: usual side in metres."""
        read = f"it was read in {self.unit}"
        read += f", as {self.stated_by} says" if self.stated_by else ", which this format is in"
        # lengths as they stand in the file
        raw = typical / self.metres
        if abs(math.log(max(raw, 1e-300) * _DEGREE / TYPICAL_METRES)) < 1:
            looks = "looks drawn in degrees of longitude and latitude"
            return f"{read}, and {looks}: project it to metres first"
        likely = likely_unit(raw)
        if likely in (None, self.unit, "pixels"):
            return f"{read}; scale it to metres"
        scaled = f"multiply its lengths by {rounded(metres_per(str(likely)))}"
        remedy = f"{self.key.replace('{}', str(likely))}, or {scaled}" if self.key else scaled
        return f"{read}, and looks drawn in {likely}: {remedy}"


IN_METRES = DrawnIn()


def check_drawings(
    plans: Sequence[tuple[str, ArrayLike, int, DrawnIn]], *, gap: float, usual_gap: bool
) -> None:
    """Check the units of drawings: place, boxes Float[n, 4] converted to metres, number of related
    pairs and unit of each. Raises ``ValueError`` for plans of one unit that do not fit together,
    see ``check_scale``, and for a plan whose typical room is 10 times larger or smaller than usual.
    """
    for drawn in dict.fromkeys(each[3] for each in plans):
        group = [each for each in plans if each[3] == drawn]
        # all drawings of a unit together
        scale = Scale.of([(box, num) for _, box, num, _ in group], gap, usual_gap=usual_gap)
        if scale is not None:
            raise ValueError(f"its rooms do not fit metres: {scale}; {drawn.remedy(scale.typical)}")
        # each drawing alone
        for place, box, _, _ in group:
            side = typical_side([np.asarray(box, dtype=np.float64)])
            if _is_far_off(side, _MOST_OFF):
                what = f"the shorter side of a typical room measures {rounded(side)}"
                reason = f"its rooms do not fit metres: {what}; {drawn.remedy(side)}"
                raise ValueError(f"{place}: {reason}")


def check_metres(boxes: Sequence[ArrayLike], units: Sequence[str]) -> None:
    """Raise ``ValueError`` if the typical room of the plans of a unit is 3.5 times larger or
    smaller than in real plans. ``boxes``: Float[n, 4] of each plan, converted to metres."""
    for unit in dict.fromkeys(units):
        group = [np.asarray(box) for box, other in zip(boxes, units, strict=True) if other == unit]
        typical = typical_side(group)
        if _is_far_off(typical, OTHER_SCALE):
            likely = likely_unit(typical / metres_per(unit))
            instead = f"unit={likely}" if likely not in (None, unit) else "their own unit"
            raise ValueError(
                f"boxes in unit={unit}: a typical room would measure {rounded(typical)} m across, "
                f"and {rounded(typical**2)} m2; expected about {TYPICAL_METRES:.1f} m. Give "
                f"{instead} (data.unit=, evaluate: unit=, discrete-diffusion data and plans: "
                "--unit)"
            )


def _is_far_off(typical: float, times: float) -> bool:
    """True if a typical side in metres is off that of real rooms by a factor of ``times``."""
    return abs(math.log(max(typical, 1e-300) / TYPICAL_METRES)) > math.log(times)
