"""Samples of several sampling seeds against a reference: values, intervals, floors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from discrete_diffusion.domains.bubble_diagrams import BubbleDiagram
from discrete_diffusion.domains.bubble_diagrams.metrics.diagram_set import DiagramSet
from discrete_diffusion.domains.bubble_diagrams.metrics.diagrams import DISTANCES, bubble_metrics
from discrete_diffusion.domains.bubble_diagrams.metrics.floors import MetricFloors, metric_floors
from discrete_diffusion.domains.bubble_diagrams.metrics.structure import (
    stratified_metrics,
    structure_metrics,
)
from discrete_diffusion.evaluation.intervals import Interval, confidence_interval

REFERENCE_SUFFIX = "_reference"
"""A metric of this ending is the reference's own value of the metric without it."""

_SIZE_DEPENDENT = ("mode_coverage", "mode_coverage_weighted", "distinct_multisets", "diversity")
"""Metrics that are no distances and yet depend on the number of samples."""


@dataclass(frozen=True)
class SampleScores:
    """What ``score_samples`` returns.

    ``per_seed``: by metric name, one value per sampling seed. ``intervals``: by name, mean and 95 %
    confidence interval over seeds. ``real``: by name, the value to compare with: the floor of a
    distance, the reference's own value otherwise, none for novelty. ``floors``: None if none were
    drawn. ``stratified``: by room count, of all samples ("samples") and of the reference
    ("reference").
    """

    per_seed: dict[str, list[float]]
    intervals: dict[str, Interval]
    real: dict[str, float]
    floors: MetricFloors | None
    stratified: dict[str, dict[int, dict[str, float]]]

    @property
    def mean(self) -> dict[str, float]:
        """Mean over seeds, by name."""
        return {name: interval.mean for name, interval in self.intervals.items()}

    def as_dict(self) -> dict[str, Any]:
        """For ``metrics.json``: means by name, then what stands beside them."""
        out: dict[str, Any] = {
            **self.mean,
            "intervals": {name: [i.low, i.high] for name, i in self.intervals.items()},
            "per_seed": self.per_seed,
            "real": self.real,
        }
        if self.floors is not None:
            out |= {
                "floors": self.floors.mean,
                "floor_sd": self.floors.sd,
                "floor_sizes": {
                    "num_samples": self.floors.num_samples,
                    "num_reference": self.floors.num_reference,
                    "draws": self.floors.draws,
                },
            }
        return {**out, "stratified": self.stratified}


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

    ``training``: gives novelty too. ``known``: real diagrams to draw the floors from
    (default: the reference), at the size of the first set against that of the reference;
    ``floor_draws=0`` draws none.

    Raises ``ValueError`` without a set, or for an empty one.
    """
    if not sample_sets:
        raise ValueError("no samples to measure: give at least one set")
    sets = [DiagramSet.of(samples) for samples in sample_sets]
    reference = DiagramSet.of(reference)
    training = None if training is None else DiagramSet.of(training)
    found = [bubble_metrics(samples, reference, training=training) for samples in sets]
    per_seed = {name: [scores[name] for scores in found] for name in found[0]}
    floors = None
    known = reference if known is None else known
    if floor_draws and len(known) > 1:
        floors = metric_floors(
            known,
            num_samples=len(sets[0]),
            num_reference=len(reference),
            draws=floor_draws,
            seed=seed,
        )
    pooled = [diagram for samples in sets for diagram in samples]
    return SampleScores(
        per_seed=per_seed,
        intervals={name: confidence_interval(values) for name, values in per_seed.items()},
        real=_real_values(reference, floors),
        floors=floors,
        stratified={
            "samples": stratified_metrics(pooled),
            "reference": stratified_metrics(reference),
        },
    )


def _real_values(reference: DiagramSet, floors: MetricFloors | None) -> dict[str, float]:
    """The reference's own value of what says the same of any number of diagrams; the floor of the
    rest, or nothing without floors. Novelty has none: what was held out is new by construction."""
    drawn = {} if floors is None else floors.mean
    return {
        **structure_metrics(reference),
        **{name: drawn[name] for name in (*DISTANCES, *_SIZE_DEPENDENT) if name in drawn},
    }
