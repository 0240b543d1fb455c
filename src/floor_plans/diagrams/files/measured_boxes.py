"""Check of the unit of plans whose relations are measured on their boxes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from floor_plans.diagrams.files.records import Plan
from floor_plans.diagrams.geometry import check_one_unit, check_scale, metres_per, threshold_of
from floor_plans.diagrams.scales import check_drawings


def check_measured(
    path: Path, measured: Sequence[tuple[str, Plan]], unit: str, threshold: float | None
) -> None:
    """Raise ``ValueError`` if boxes seem to be in another unit than ``unit``, or in several.

    ``measured``: plans with their places; ``threshold``: as the user gave it, else None.
    """
    boxed, drawn = [], []
    for place, plan in measured:
        boxes, num = plan.diagram.boxes, len(plan.diagram.relations)
        assert boxes is not None  # relations were measured on them
        if plan.drawn is None:
            boxed.append((place, boxes, num))
        else:
            drawn.append((place, boxes, num, plan.drawn))
    try:
        check_one_unit([(place, boxes) for place, boxes, _ in boxed])
        check_scale([(boxes, num) for _, boxes, num in boxed], unit=unit, threshold=threshold)
        gap = threshold_of(unit, threshold) * metres_per(unit)
        check_drawings(drawn, gap=gap, usual_gap=threshold is None)
    except ValueError as error:
        place = "" if str(error).startswith(str(path)) else f"{path}: "
        raise ValueError(f"{place}{error}") from error
