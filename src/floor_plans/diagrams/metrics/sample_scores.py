"""Scores of samples of several seeds against a reference: values, intervals, floors, the table."""

from __future__ import annotations

from collections.abc import Sequence

from discrete_diffusion.evaluation import (
    RealVsReal,
    SampleScores,
    error_note,
    real_vs_real,
    shown_sizes,
)
from discrete_diffusion.runtime import progress
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.metrics.diagrams import METRICS, SIZE_DEPENDENT, bubble_metrics
from floor_plans.diagrams.metrics.structure import stratified_metrics, structure_metrics


def score_samples(
    sample_sets: Sequence[Sequence[BubbleDiagram]],
    reference: Sequence[BubbleDiagram],
    *,
    training: Sequence[BubbleDiagram] | None = None,
    known: Sequence[BubbleDiagram] | None = None,
    floor_draws: int = 20,
    seed: int = 0,
    num_unreadable: int = 0,
) -> SampleScores:
    """Compute every metric of every set, one set per sampling seed, against one reference.

    ``training``: training data, for novelty. ``known``: real diagrams to sample floors from
    (default: the reference), with the sizes of the first set and of the reference.
    ``floor_draws``: number of floors that are averaged, 0 for none. ``num_unreadable``: number of
    samples left out as unreadable, for the notes.

    The value of real data is the floor for ``SIZE_DEPENDENT``, else that of the reference; there is
    none for novelty, since held-out data are novel by construction. ``stratified`` has metrics by
    room count, of all samples and of the reference.

    Raises ``ValueError`` without a set, or for an empty one.
    """
    if not sample_sets:
        raise ValueError("no samples to measure: give at least one set")
    # all sets in the vocabulary of the reference
    reference = DiagramSet.of(reference)
    words = reference.vocabulary
    sets = [DiagramSet.of(samples, words) for samples in sample_sets]
    training = None if training is None else DiagramSet.of(training, words)
    # metrics of each set, floors, and values of the reference
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
    # metrics by room count, over all sets
    pooled = [diagram for samples in sets for diagram in samples]
    sizes = [len(samples) for samples in sets]
    stratified = {
        "samples": stratified_metrics(DiagramSet.of(pooled, words)),
        "reference": stratified_metrics(reference),
    }
    return SampleScores(
        METRICS,
        sizes,
        per_seed,
        real,
        tables={
            "real": real,
            **({} if floors is None else floors.as_dict()),
            "stratified": stratified,
        },
        notes=_notes(sizes, reference, num_unreadable, floors),
    )


def _notes(
    sizes: Sequence[int],
    reference: DiagramSet,
    num_unreadable: int,
    floors: RealVsReal | None,
) -> list[str]:
    """Notes on the table."""
    # sizes and errors
    notes = [
        f"Samples: {shown_sizes(sizes)} against {len(reference):,} real diagrams.",
        error_note(len(sizes)),
    ]
    if not reference.vocabulary.has_directions:
        # meaning of the floor, and its limits
        notes.append(
            "The relations have no direction, so transitive, inside_valid and floor plans are not "
            "measured; nor is valid, which is about plans with one living room."
        )
    # samples that are missing
    if num_unreadable:
        notes.append(
            f"{num_unreadable:,} of {num_unreadable + sum(sizes):,} samples could not be "
            "read and were left out: all shares, validity too, are of the readable ones."
        )
    if floors is None:
        return notes
    notes.append(
        f"Floor: the metric of {floors.num_samples:,} real diagrams against "
        f"{floors.num_reference:,} others, mean of {floors.draws} draws; it stands under 'real "
        "data' for distances, coverage and diversity; ratio = value / floor."
    )
    if len(set(sizes)) > 1:
        notes.append(
            "The sample sets differ in size and the floor is for the first; a smaller set "
            "has a higher floor."
        )
    if (floors.num_samples, floors.num_reference) != (sizes[0], len(reference)):
        notes.append(
            "There are too few real diagrams for a floor at the sizes measured: a smaller set "
            "has a higher floor, so the ratios flatter the samples."
        )
    return notes


def _floors(
    known: Sequence[BubbleDiagram],
    reference: DiagramSet,
    num_samples: int,
    *,
    draws: int,
    seed: int,
) -> RealVsReal | None:
    """Metrics of as many ``known`` diagrams as samples; None for no ``draws``, or for too few known
    diagrams."""
    if not draws or len(known) < 2:
        return None
    return real_vs_real(
        DiagramSet.of(known, reference.vocabulary).prepare(),
        bubble_metrics,
        num_samples=num_samples,
        num_reference=len(reference),
        draws=draws,
        seed=seed,
    )
