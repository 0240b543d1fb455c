"""The data that meet a brief, with which samples that meet it are compared."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config import counted
from discrete_diffusion.evaluation import share_error
from discrete_diffusion.runtime import progress
from floor_plans.briefs.checking import interval
from floor_plans.diagrams.metrics.diagram_set import DiagramSet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from floor_plans.briefs.brief import Brief
    from floor_plans.diagrams.diagram import BubbleDiagram
    from floor_plans.diagrams.vocabulary import PlanVocabulary
    from floor_plans.learning.real_data import RealDiagrams

ENOUGH = 100
"""Held-out diagrams from which on samples are compared with these; below it, distances of the data
are mostly noise, and that is stated."""


@dataclass(frozen=True)
class Matching:
    """Matches of a brief among ``num`` diagrams, which are ``name`` in words."""

    name: str
    diagrams: list[BubbleDiagram]
    num: int
    words: PlanVocabulary

    def __len__(self) -> int:
        return len(self.diagrams)

    @property
    def share(self) -> float:
        return len(self) / self.num

    @property
    def standard_error(self) -> float:
        return share_error(self.share, self.num)

    @cached_property
    def measured(self) -> DiagramSet:
        """The diagrams; of none ``ValueError``."""
        return DiagramSet(self.diagrams, self.words)

    def facts(self) -> dict[str, Any]:
        """Values for ``metrics.json``; an exact 95 % interval of the share."""
        return {
            "name": self.name,
            "num": self.num,
            "num_met": len(self),
            "share": self.share,
            "share_interval": list(interval(len(self), self.num)),
        }


@dataclass(frozen=True)
class Matches:
    """Matches of the ``train`` data, None if they are unknown, of the ``held_out`` data, and of all
    data at hand, ``known``, from which floors are sampled. ``buildable`` is not checked on data."""

    train: Matching | None
    held_out: Matching
    known: Matching

    @classmethod
    def of(cls, brief: Brief, real: RealDiagrams, words: PlanVocabulary) -> Matches:
        def matching(name: str, diagrams: Sequence[BubbleDiagram]) -> Matching:
            found = [
                diagram
                for diagram in progress.track(diagrams, f"looking at {name}", "diagrams")
                if not brief.unmet(diagram)
            ]
            return Matching(name, found, len(diagrams), words)

        return cls(
            None if real.training is None else matching("the training data", real.training),
            matching(real.name, real.reference),
            matching("all data", real.known),
        )

    @property
    def parts(self) -> dict[str, Matching]:
        """Data that coverage is measured on: the training data, and held-out data where they are
        enough, or all there is."""
        found = {} if self.train is None or not len(self.train) else {"train": self.train}
        if len(self.held_out) >= ENOUGH or (len(self.held_out) and not found):
            found["held_out"] = self.held_out
        return found

    @property
    def reference(self) -> Matching | None:
        """Data that distances are measured from: held-out data where they are enough, else the
        training data, unless these are fewer; None if nothing meets the brief."""
        parts = [self.held_out, *([] if self.train is None else [self.train])]
        if len(self.held_out) >= ENOUGH:
            return self.held_out
        most = max(parts, key=len)
        return most if len(most) else None

    def notes(self) -> list[str]:
        """Sentences on what samples are compared with, and how much that says."""
        parts = [self.held_out, *([] if self.train is None else [self.train])]
        counts = "; ".join(f"{len(p):,} of {p.num:,} of {p.name} meet it" for p in parts)
        notes = [f"{counts[0].upper()}{counts[1:]}."]
        reference = self.reference
        if reference is None:
            return [*notes, "No data meet the brief, so coverage and distances are not measured."]
        notes.append(f"Samples are compared with those of {reference.name}.")
        if reference is not self.held_out:
            notes[-1] += (
                f" Of what was held out too few meet the brief (fewer than {ENOUGH}); the model "
                "was trained on these."
            )
        if len(reference) < ENOUGH:
            notes.append(
                f"Only {counted(len(reference), 'diagram')} of the data meet the brief: distances "
                "and coverage say little of so few; read them beside the floors and ceilings."
            )
        return notes
