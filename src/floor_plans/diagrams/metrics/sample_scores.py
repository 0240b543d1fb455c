"""Samples of several sampling seeds against a reference: values, intervals, floors, the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from discrete_diffusion.evaluation import (
    Floors,
    Interval,
    TableRow,
    TableSection,
    confidence_interval,
    error_note,
    interval_entries,
    metric_floors,
    share_interval,
    shown_sizes,
)
from discrete_diffusion.runtime import progress
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.metrics.diagrams import (
    DISTANCES,
    METRIC_MEANINGS,
    OF_COVERAGE,
    SHARES,
    SIZE_DEPENDENT,
    bubble_metrics,
)
from floor_plans.diagrams.metrics.structure import stratified_metrics, structure_metrics

REFERENCE_SUFFIX = "_reference"
"""A metric of this ending is the reference's own value of the metric without it."""


@dataclass(frozen=True)
class SampleScores:
    """Scores that ``score_samples`` returns.

    ``sizes``: diagrams in each set; ``num_reference``: in the reference.
    ``per_seed``: by metric name, one value per sampling seed. ``intervals``: by name, mean and 95 %
    interval: Wilson's of shares of samples, else Student's over seeds. ``real``: by name, the value
    to compare with: the floor of the metrics in ``SIZE_DEPENDENT``, the reference's own value
    otherwise; none for novelty, since what was held out is new by construction. ``floors``: None if
    none were sampled. ``stratified``: by room count, of all samples ("samples") and of the
    reference ("reference"). ``has_directions``: the relations say how rooms lie to each other.
    """

    sizes: list[int]
    num_reference: int
    per_seed: dict[str, list[float]]
    intervals: dict[str, Interval]
    real: dict[str, float]
    floors: Floors | None
    stratified: dict[str, dict[int, dict[str, float]]]
    has_directions: bool = True

    def as_dict(self) -> dict[str, Any]:
        """Values for ``metrics.json``: means by name, then what stands beside them."""
        out: dict[str, Any] = {
            **{name: interval.mean for name, interval in self.intervals.items()},
            **interval_entries(self.intervals),
            "per_seed": self.per_seed,
            "real": self.real,
        }
        if self.floors is not None:
            out |= self.floors.as_dict()
        return {**out, "stratified": self.stratified}

    def sections(self) -> list[TableSection]:
        """The table: properties of the samples, then their distances from the reference."""
        names = [name for name in self.intervals if not name.endswith(REFERENCE_SUFFIX)]
        others = tuple(self._row(name) for name in names if name not in DISTANCES)
        distances = tuple(self._row(name) for name in names if name in DISTANCES)
        return [
            TableSection("the samples by themselves, and what they cover", others),
            TableSection("distances from the reference (0 is best)", distances),
        ]

    def _row(self, name: str) -> TableRow:
        interval, real = self.intervals[name], self.real.get(name)
        mean, digits = interval.mean, 2
        if name in DISTANCES or mean <= 1:
            digits = 5 if name.startswith("mmd_") else 4
        ratio = ""
        if name in DISTANCES and real:  # a floor of 0 is not divided by
            ratio = f"{mean / real:.{0 if mean >= 100 * real else 1}f}"
        shown = "" if real is None else f"{real:.{digits}f}"
        return TableRow(name, interval.text(digits), shown, ratio, METRIC_MEANINGS[name])

    def notes(self, num_unreadable: int = 0) -> list[str]:
        """Notes on the table. ``num_unreadable``: samples that were left out of the sets."""
        notes = [
            f"Samples: {shown_sizes(self.sizes)} against {self.num_reference:,} real diagrams.",
            error_note(len(self.sizes)),
        ]
        if not self.has_directions:
            notes.append(
                "The relations have no direction, so there are no numbers for transitive, "
                "inside_valid and floor plans; nor for valid, which is about plans of one living "
                "room."
            )
        if num_unreadable:
            notes.append(
                f"{num_unreadable:,} of {num_unreadable + sum(self.sizes):,} samples could not be "
                "read and were left out: all shares, validity too, are of the readable ones."
            )
        if self.floors is None:
            return notes
        num_samples, num_reference = self.floors.num_samples, self.floors.num_reference
        notes.append(
            f"Floor: the metric of {num_samples:,} real diagrams against {num_reference:,} others, "
            f"mean of {self.floors.draws} draws; it stands under 'real data' for distances, "
            "coverage and diversity; ratio = value / floor."
        )
        if len(set(self.sizes)) > 1:
            notes.append(
                "The sample sets differ in size and the floor is for the first; a smaller set "
                "has a higher floor."
            )
        if (num_samples, num_reference) != (self.sizes[0], self.num_reference):
            notes.append(
                "There are too few real diagrams for a floor at the sizes measured: a smaller set "
                "has a higher floor, so the ratios flatter the samples."
            )
        return notes


def score_samples(
    sample_sets: Sequence[Sequence[BubbleDiagram]],
    reference: Sequence[BubbleDiagram],
    *,
    training: Sequence[BubbleDiagram] | None = None,
    known: Sequence[BubbleDiagram] | None = None,
    floor_draws: int = 20,
    seed: int = 0,
) -> SampleScores:
    """Every metric of every set (one per sampling seed) against one reference.

    ``training``: gives novelty too. ``known``: real diagrams to sample the floors from (default:
    the reference), at the size of the first set against that of the reference; ``floor_draws=0``
    samples none.

    Raises ``ValueError`` without a set, or for an empty one.
    """
    if not sample_sets:
        raise ValueError("no samples to measure: give at least one set")
    reference = DiagramSet.of(reference)
    words = reference.vocabulary
    sets = [DiagramSet.of(samples, words) for samples in sample_sets]
    training = None if training is None else DiagramSet.of(training, words)
    found = [
        bubble_metrics(samples, reference, training=training)
        for samples in progress.track(sets, "metrics", "sets")
    ]
    per_seed = {name: [scores[name] for scores in found] for name in found[0]}
    known = reference if known is None else known
    floors = _floors(known, reference, len(sets[0]), draws=floor_draws, seed=seed)
    real = structure_metrics(reference)
    if floors is not None:
        real |= {name: floors.mean[name] for name in SIZE_DEPENDENT}
    pooled = [diagram for samples in sets for diagram in samples]
    return SampleScores(
        sizes=[len(samples) for samples in sets],
        num_reference=len(reference),
        per_seed=per_seed,
        intervals={
            name: share_interval(values, len(pooled))
            if name in SHARES - OF_COVERAGE
            else confidence_interval(values, num=len(pooled) if name in OF_COVERAGE else None)
            for name, values in per_seed.items()
        },
        real=real,
        floors=floors,
        stratified={
            "samples": stratified_metrics(DiagramSet.of(pooled, words)),
            "reference": stratified_metrics(reference),
        },
        has_directions=reference.vocabulary.has_directions,
    )


def _floors(
    known: Sequence[BubbleDiagram],
    reference: DiagramSet,
    num_samples: int,
    *,
    draws: int,
    seed: int,
) -> Floors | None:
    """The metrics of as many ``known`` diagrams as there are samples; None for no ``draws``, or
    where there are too few to choose from."""
    if not draws or len(known) < 2:
        return None
    return metric_floors(
        DiagramSet.of(known, reference.vocabulary).prepare(),
        bubble_metrics,
        num_samples=num_samples,
        num_reference=len(reference),
        draws=draws,
        seed=seed,
    )
