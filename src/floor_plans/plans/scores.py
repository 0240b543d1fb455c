"""Shares of diagrams that have a floor plan, for samples and for real plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from discrete_diffusion.evaluation import Interval, TableRow, TableSection, share_interval
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.plans.box_model import is_installed
from floor_plans.plans.verdict import have_plans

NUM_VERDICTS = 200
"""Samples that are decided by default."""

_EFFORT = 0.3
"""Effort of the solver for a diagram and a level, about a CPU-second."""

MEANINGS = {
    "realisable": "share for which boxes with exactly these relations exist",
    "buildable": "share for which such boxes exist that overlap only where one is inside the other",
    "undecided": "share that took the solver too long; counted as neither",
}


def plan_shares(diagrams: Sequence[BubbleDiagram], num: int = NUM_VERDICTS) -> dict[str, float]:
    """Shares of the first ``num`` diagrams that are "realisable", "buildable" (see ``find_boxes``)
    and "undecided".

    Undecided ones count as neither. ``num_verdicts``: the number decided. Empty without diagrams,
    or without OR-Tools. Uses as many threads as torch has.
    """
    measured = list(diagrams[:num])
    if not measured or not is_installed():
        return {}
    threads = torch.get_num_threads()
    buildable = have_plans(measured, "buildable", effort=_EFFORT, threads=threads)
    # a buildable diagram is realisable, so only the others are decided again
    others = [k for k, answer in enumerate(buildable) if not answer]
    realisable = [True] * len(measured)
    found = have_plans([measured[k] for k in others], "realisable", effort=_EFFORT, threads=threads)
    for k, answer in zip(others, found, strict=True):
        realisable[k] = bool(answer)
    # a diagram undecided at either level
    undecided = sum(None in answers for answers in zip(buildable, realisable, strict=True))
    return {
        "realisable": sum(realisable) / len(measured),
        "buildable": sum(map(bool, buildable)) / len(measured),
        "undecided": undecided / len(measured),
        "num_verdicts": len(measured),
    }


@dataclass(frozen=True)
class PlanScores:
    """Shares of plans. ``per_seed``: ``plan_shares`` of every set of samples, by name; ``real``:
    those of real plans."""

    per_seed: dict[str, list[float]]
    real: dict[str, float]

    @property
    def intervals(self) -> dict[str, Interval]:
        return {
            name: share_interval(self.per_seed[name], sum(self.per_seed["num_verdicts"]))
            for name in MEANINGS
        }

    def as_dict(self) -> dict[str, Any]:
        """Values for ``metrics.json``."""
        means = {name: interval.mean for name, interval in self.intervals.items()}
        num = int(sum(self.per_seed["num_verdicts"]))
        return {**means, "num_verdicts": num, "plans": self.real}

    def section(self) -> TableSection:
        rows = tuple(
            TableRow(name, interval.text(4), f"{self.real[name]:.4f}", "", MEANINGS[name])
            for name, interval in self.intervals.items()
        )
        return TableSection("floor plans, decided by a constraint solver", rows)

    def note(self) -> str:
        num, real = int(sum(self.per_seed["num_verdicts"])), int(self.real["num_verdicts"])
        return (
            f"Floor plans: of {num:,} samples, the first ones of each set, and of {real:,} real "
            "plans; transitive is necessary for a plan, realisable and buildable are exact."
        )


def score_plans(
    sample_sets: Sequence[Sequence[BubbleDiagram]], real: Sequence[BubbleDiagram], num: int
) -> PlanScores | None:
    """Score ``num`` samples, spread over the sets, and ``num`` real plans. None if ``num`` is 0, or
    without OR-Tools."""
    if num == 0 or not is_installed():
        return None
    of_each = -(-num // len(sample_sets))
    found = [plan_shares(samples, of_each) for samples in sample_sets]
    return PlanScores(
        {name: [shares[name] for shares in found] for name in found[0]}, plan_shares(real, num)
    )
