"""``Scores`` of variants of a plan, and their order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config import counted
from floor_plans.plans.walls import fill_gaps
from floor_plans.rules.judging import judge
from floor_plans.rules.rule_set import read_rules
from floor_plans.solver.realising import Realised
from floor_plans.solver.windows import window_share

if TYPE_CHECKING:
    from floor_plans.plans.floor_plan import FloorPlan
    from floor_plans.solver.shortfalls import Shortfall

SCORES = "scores"
"""Key of a plan's line in JSON."""

_SHARES = ("compactness", "fill", "area_error", "light", "total")

_ENOUGH_LIGHT = 0.08
"""Window area per floor area that counts in full, as in the rule ``window``."""


@dataclass(frozen=True)
class Scores:
    """Scores of a plan.

    ``kept``: for every rule of ``default``, True if the plan keeps it; None where it does not
    apply. ``compactness``: length of the outline of a square of the same area / length of the
    outline. ``fill``: share of the outline that belongs to rooms. ``area_error``: largest relative
    error of a room's area. ``light``: window per floor of habitable rooms, see ``window_share``;
    None without such rooms.
    """

    kept: Mapping[str, bool | None]
    compactness: float
    fill: float
    area_error: float
    light: float | None

    @property
    def num_broken(self) -> int:
        """Number of rules that the plan breaks."""
        return sum(each is False for each in self.kept.values())

    @property
    def total(self) -> float:
        """Mean of compactness, fill, 1 - area error, and light up to 8 %; the best is 1."""
        light = 1.0 if self.light is None else min(1.0, self.light / _ENOUGH_LIGHT)
        return (self.compactness + self.fill + max(0.0, 1 - self.area_error) + light) / 4

    def to_json(self) -> dict[str, Any]:
        shares = {name: getattr(self, name) for name in _SHARES}
        rounded = {k: v if v is None else round(v, 4) for k, v in shares.items()}
        return {"num_broken": self.num_broken, **rounded}

    def sentence(self) -> str:
        """Return ``0 rules broken, compactness 0.91, fill 95 %, area error 3 %, light 8.2 %``."""
        light = "" if self.light is None else f", light {self.light:.1%}"
        text = (
            f"{counted(self.num_broken, 'rule')} broken, compactness {self.compactness:.2f}, "
            f"fill {self.fill:.0%}, area error {self.area_error:.0%}{light}"
        )
        return text.replace("%", " %")


def scores_of(plan: FloorPlan, targets: Sequence[float]) -> Scores:
    """Scores of a plan with these target areas."""
    from shapely import get_parts, union_all

    # outline of the built area, walls included
    built = fill_gaps(union_all(plan.rooms))
    around = sum(part.exterior.length for part in get_parts(built))
    return Scores(
        kept=judge(plan, read_rules("default")).kept,
        compactness=4 * math.sqrt(built.area) / around,
        fill=1 - plan.dead_area / plan.outline.area,
        area_error=plan.largest_area_error(targets),
        light=window_share(plan),
    )


def rank_key(shortfalls: Sequence[Shortfall], scores: Scores) -> tuple[float, ...]:
    """Key that sorts plans, the best first: by unmet requirements, then broken rules, then
    ``total``."""
    return len(shortfalls), scores.num_broken, -scores.total


def ranked_variants(found: Realised) -> tuple[Realised, tuple[Scores, ...]]:
    """Return the plans, best first (``rank_key``), and their scores."""
    scores = [scores_of(plan, found.areas) for plan in found.plans]
    order = sorted(range(len(scores)), key=lambda k: rank_key(found.shortfalls[k], scores[k]))
    in_order = replace(
        found,
        plans=tuple(found.plans[k] for k in order),
        shortfalls=tuple(found.shortfalls[k] for k in order),
    )
    return in_order, tuple(scores[k] for k in order)
