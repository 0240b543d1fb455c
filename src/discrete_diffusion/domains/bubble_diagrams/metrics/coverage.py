"""Do samples cover the reference without repeating themselves or the training data?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram
from discrete_diffusion.domains.bubble_diagrams.metrics.diagram_set import DiagramSet


@dataclass(frozen=True)
class ModeCoverage:
    """Which multisets of room types ("modes") of a reference occur among samples.

    ``plain``: the share of the reference's distinct multisets. ``weighted``: the share of the
    reference's diagrams whose multiset occurs.
    """

    plain: float
    weighted: float


def mode_coverage(
    samples: Sequence[BubbleDiagram], reference: Sequence[BubbleDiagram]
) -> ModeCoverage:
    """How many of the reference's multisets of room types appear; more samples cover more."""
    drawn, real = DiagramSet.of(samples).multisets, DiagramSet.of(reference).multisets
    covered = [count for key, count in real.items() if key in drawn]
    return ModeCoverage(plain=len(covered) / len(real), weighted=sum(covered) / real.total())


def distinct_multisets(diagrams: Sequence[BubbleDiagram]) -> int:
    """How many different multisets of room types occur."""
    return len(DiagramSet.of(diagrams).multisets)


def diversity(diagrams: Sequence[BubbleDiagram]) -> float:
    """Distinct diagrams / diagrams, where relabellings of one diagram count as one.

    Deviation: published evaluations often compare token sequences, so that a diagram listed in
    another order counts as another diagram.
    """
    measured = DiagramSet.of(diagrams)
    return len(measured.canonical_key_set) / len(measured)


def novelty(samples: Sequence[BubbleDiagram], training: Sequence[BubbleDiagram]) -> float:
    """Share of samples that are no relabelling of a training diagram.

    Deviation: as for ``diversity``.
    """
    keys = DiagramSet.of(samples).canonical_keys.tolist()
    known = DiagramSet.of(training).canonical_key_set
    return sum(key not in known for key in keys) / len(keys)
