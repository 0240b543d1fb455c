"""What a metric would say of a perfect model: real diagrams against other real diagrams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discrete_diffusion import progress
from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram
from discrete_diffusion.domains.bubble_diagrams.metrics.diagram_set import DiagramSet
from discrete_diffusion.domains.bubble_diagrams.metrics.diagrams import bubble_metrics


@dataclass(frozen=True)
class MetricFloors:
    """Every metric between two disjoint random sets of real diagrams, over ``draws`` such pairs.

    ``mean``, ``sd``: by metric name; ``sd`` is the spread of one draw (n - 1; 0 for one draw).
    ``num_samples``, ``num_reference``: the sizes of the two sets, which may be smaller than asked.
    """

    mean: dict[str, float]
    sd: dict[str, float]
    num_samples: int
    num_reference: int
    draws: int


def metric_floors(
    real: Sequence[BubbleDiagram],
    *,
    num_samples: int,
    num_reference: int,
    draws: int = 20,
    seed: int = 0,
) -> MetricFloors:
    """The metrics of ``num_samples`` real diagrams against ``num_reference`` others.

    A distance between finite sets is above 0 even if both come from one distribution, and the
    smaller the sets the further; a model's distance is read beside this one, at the same sizes.
    If ``real`` holds fewer diagrams than both sizes together, the samples shrink to what the
    reference leaves of it; if the reference alone is more than half of it, the samples take at most
    one half and the reference the rest.
    Each draw depends on ``seed`` and its number alone.

    Raises ``ValueError`` for fewer than two diagrams, a size or number of draws below 1.
    """
    sizes = {"num_samples": num_samples, "num_reference": num_reference, "draws": draws}
    for name, value in sizes.items():
        if value < 1:
            raise ValueError(f"{name}={value}: expected at least 1")
    if (available := len(real)) < 2:
        raise ValueError(
            f"{available} real diagrams: a floor needs at least 2, to compare one set with another"
        )
    measured = DiagramSet.of(real).prepare()
    num_samples = min(num_samples, max(available - num_reference, available // 2))
    num_reference = min(num_reference, available - num_samples)
    found = []
    for draw in progress.track(range(draws), "floors", "draws"):
        order = np.random.default_rng([seed, draw]).permutation(available)
        ours = measured.select(order[:num_samples])
        theirs = measured.select(order[num_samples : num_samples + num_reference])
        found.append(bubble_metrics(ours, theirs))
    table = {name: np.array([scores[name] for scores in found]) for name in found[0]}
    return MetricFloors(
        mean={name: float(v.mean()) for name, v in table.items()},
        sd={name: float(v.std(ddof=1)) if draws > 1 else 0.0 for name, v in table.items()},
        num_samples=num_samples,
        num_reference=num_reference,
        draws=draws,
    )
