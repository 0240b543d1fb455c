"""What the distances would be of a perfect model: real graphs against other real graphs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discrete_diffusion import progress
from discrete_diffusion.domains.graphs.metrics.distances import squared_mmds
from discrete_diffusion.domains.graphs.metrics.graph_set import GraphSet


@dataclass(frozen=True)
class DistanceFloors:
    """Every distance between two disjoint random sets of real graphs, over ``draws`` such pairs.

    ``mean``, ``sd``: by name; ``sd`` is the spread of one draw (n - 1; 0 for one draw).
    ``num_samples``, ``num_reference``: the sizes of the two sets, which may be smaller than asked.
    """

    mean: dict[str, float]
    sd: dict[str, float]
    num_samples: int
    num_reference: int
    draws: int


def distance_floors(
    real: GraphSet, kernel: str, *, num_samples: int, num_reference: int, draws: int, seed: int
) -> DistanceFloors:
    """If ``real``, at least two graphs, holds fewer than both sizes together, the samples shrink to
    what the reference leaves; if the reference alone is more than half, both take one half. Each
    draw depends on ``seed`` and its number alone."""
    available = len(real)
    num_samples = min(num_samples, max(available - num_reference, available // 2))
    num_reference = min(num_reference, available - num_samples)
    found = []
    for draw in progress.track(range(draws), "floors", "draws"):
        order = np.random.default_rng([seed, draw]).permutation(available)
        ours = real.select(order[:num_samples])
        theirs = real.select(order[num_samples : num_samples + num_reference])
        found.append(squared_mmds(ours, theirs, kernel))
    table = {name: np.array([values[name] for values in found]) for name in found[0]}
    return DistanceFloors(
        mean={name: float(v.mean()) for name, v in table.items()},
        sd={name: float(v.std(ddof=1)) if draws > 1 else 0.0 for name, v in table.items()},
        num_samples=num_samples,
        num_reference=num_reference,
        draws=draws,
    )
