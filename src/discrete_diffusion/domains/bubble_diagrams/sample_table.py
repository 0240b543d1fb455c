"""The table of sampled diagrams: every metric beside its interval and what real data scores."""

from __future__ import annotations

from collections.abc import Sequence

from discrete_diffusion.domains.bubble_diagrams.metrics.diagrams import DISTANCES, METRIC_MEANINGS
from discrete_diffusion.domains.bubble_diagrams.sample_scores import (
    REFERENCE_SUFFIX,
    SampleScores,
)
from discrete_diffusion.evaluation.table import TableRow, TableSection


def sample_sections(scores: SampleScores) -> list[TableSection]:
    """Properties of the samples, then their distances from the reference."""
    rows = {
        name: _sample_row(name, scores)
        for name in scores.intervals
        if not name.endswith(REFERENCE_SUFFIX)
    }
    distances = tuple(rows[name] for name in rows if name in DISTANCES)
    others = tuple(rows[name] for name in rows if name not in DISTANCES)
    return [
        TableSection("the samples by themselves, and what they cover", others),
        TableSection("distances from the reference (0 is best)", distances),
    ]


def sample_notes(
    scores: SampleScores,
    sizes: Sequence[int],
    num_reference: int,
    unreadable: Sequence[int] = (),
) -> list[str]:
    """What the numbers of ``sample_sections`` are, in sentences.

    ``sizes``: of the sample sets; ``unreadable``: by set, samples that were left out of it.
    """
    notes = [
        f"Samples: {shown_sizes(sizes)} against {num_reference:,} real diagrams; "
        + (
            "± of their metrics is half of the 95 % interval (Student's t) over sampling seeds."
            if len(sizes) > 1
            else "one set, so no interval."
        )
    ]
    if num_unreadable := sum(unreadable):
        notes.append(
            f"{num_unreadable:,} of {num_unreadable + sum(sizes):,} samples could not be read and "
            "were left out: all shares, validity too, are of the readable ones."
        )
    if scores.floors is not None:
        floors = scores.floors
        notes.append(
            f"Floor: the metric of {floors.num_samples:,} real diagrams against "
            f"{floors.num_reference:,} others, mean of {floors.draws} draws; it stands under "
            "'real data' for distances, coverage and diversity; ratio = value / floor."
        )
        if len(set(sizes)) > 1:
            notes.append(
                "The sample sets differ in size and the floor is for the first; a smaller set "
                "has a higher floor."
            )
        if (floors.num_samples, floors.num_reference) != (sizes[0], num_reference):
            notes.append(
                "There are too few real diagrams for a floor at the sizes measured: a smaller set "
                "has a higher floor, so the ratios flatter the samples."
            )
    return notes


def shown_sizes(sizes: Sequence[int]) -> str:
    """``5 x 2,000`` for five equal sets, ``5 + 7`` for two unequal ones."""
    if len(set(sizes)) == 1:
        return f"{len(sizes)} x {sizes[0]:,}"
    return " + ".join(f"{size:,}" for size in sizes)


def _sample_row(name: str, scores: SampleScores) -> TableRow:
    interval, real = scores.intervals[name], scores.real.get(name)
    digits = _digits(name, interval.mean)
    value = f"{interval.mean:.{digits}f}"
    if interval.low is not None:
        value += f" ± {interval.mean - interval.low:.{digits}f}"
    ratio = ""
    if name in DISTANCES and real:  # a floor of 0 is not divided by
        ratio = f"{interval.mean / real:.{0 if interval.mean >= 100 * real else 1}f}"
    return TableRow(
        name,
        value,
        "" if real is None else f"{real:.{digits}f}",
        ratio,
        METRIC_MEANINGS[name],
    )


def _digits(name: str, value: float) -> int:
    """Decimals: four for shares and distances (five for the smallest), two for other numbers."""
    if name in DISTANCES or value <= 1:
        return 5 if name.startswith("mmd_") else 4
    return 2
