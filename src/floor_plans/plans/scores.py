"""Shares of diagrams that have a floor plan, of samples beside real plans."""

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
"""Samples that are decided, if nothing else is requested."""

_EFFORT = 0.3
"""Effort of the solver for a diagram and a level, about a CPU-second."""

MEANINGS = {
    "realisable": "share for which boxes with exactly these relations exist",
    "buildable": "share for which such boxes exist that overlap only where one is inside the other",
    "undecided": "share that took the solver too long; counted as neither",
}


def plan_shares(diagrams: Sequence[BubbleDiagram], num: int = NUM_VERDICTS) -> dict[str, float]:
    """Shares of the first ``num`` diagrams that are "realisable" and "buildable" (see
    ``find_boxes``), and "undecided": those that took the solver too long, which count as neither.
    ``num_verdicts``: how many were requested. Empty without a diagram, or without OR-Tools.

    As many threads share the work as torch has.
    """
    measured = list(diagrams[:num])
    if not measured or not is_installed():
        return {}
    threads = torch.get_num_threads()
    buildable = have_plans(measured, "buildable", effort=_EFFORT, threads=threads)
    others = [k for k, answer in enumerate(buildable) if not answer]  # who builds, realises
    realisable = [True] * len(measured)
    found = have_plans([measured[k] for k in others], "realisable", effort=_EFFORT, threads=threads)
    for k, answer in zip(others, found, strict=True):
        realisable[k] = bool(answer)
    undecided = sum(None in answers for answers in zip(buildable, realisable, strict=True))
    return {
        "realisable": sum(realisable) / len(measured),
        "buildable": sum(map(bool, buildable)) / len(measured),
        "undecided": undecided / len(measured),
        "num_verdicts": len(measured),
    }


@dataclass(frozen=True)
class PlanScores:
    """``per_seed``: ``plan_shares`` of every set of samples, by name; ``real``: of real plans."""

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
    """``num`` samples, as many of every set, and ``num`` of the real plans; None for 0, or without
    OR-Tools."""
    if num == 0 or not is_installed():
        return None
    of_each = -(-num // len(sample_sets))
    found = [plan_shares(samples, of_each) for samples in sample_sets]
    return PlanScores(
        {name: [shares[name] for shares in found] for name in found[0]}, plan_shares(real, num)
    )
