"""Metrics of a perfect model: real samples against other real samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from discrete_diffusion.runtime import progress


class _Set(Protocol):
    """Samples that are chosen by row."""

    def __len__(self) -> int: ...

    def select(self: S, rows: NDArray[np.int64]) -> S: ...


S = TypeVar("S", bound=_Set)


@dataclass(frozen=True)
class Floors:
    """Every metric between two disjoint random sets of real samples, over ``draws`` such pairs.

    ``mean``, ``sd``: by metric name; ``sd`` is the spread of one pair (n - 1; 0 for one pair).
    ``num_samples``, ``num_reference``: sizes of the two sets, which may be smaller than requested.
    """

    mean: dict[str, float]
    sd: dict[str, float]
    num_samples: int
    num_reference: int
    draws: int

    def as_dict(self) -> dict[str, Any]:
        """Values for ``metrics.json``."""
        sizes = ("num_samples", "num_reference", "draws")
        return {
            "floors": self.mean,
            "floor_sd": self.sd,
            "floor_sizes": {name: getattr(self, name) for name in sizes},
        }


def metric_floors(
    real: S,
    metrics: Callable[[S, S], Mapping[str, float]],
    *,
    num_samples: int,
    num_reference: int,
    draws: int = 20,
    seed: int = 0,
) -> Floors:
    """The ``metrics`` of ``num_samples`` real samples against ``num_reference`` others.

    A distance between finite sets is above 0 even if both come from one distribution, and the
    smaller the sets the further; a model's distance is read beside this one, at the same sizes.
    If ``real`` holds fewer than both sizes together, the samples shrink to what the reference
    leaves of it; if the reference alone is more than half of it, the samples take at most one half
    and the reference the rest. Each pair depends on ``seed`` and its number alone.

    Raises ``ValueError`` for fewer than two samples, a size or number of pairs below 1.
    """
    sizes = {"num_samples": num_samples, "num_reference": num_reference, "draws": draws}
    for name, value in sizes.items():
        if value < 1:
            raise ValueError(f"{name}={value}: expected at least 1")
    if (available := len(real)) < 2:
        raise ValueError(
            f"{available} real samples: a floor needs at least 2, to compare one set with another"
        )
    num_samples = min(num_samples, max(available - num_reference, available // 2))
    num_reference = min(num_reference, available - num_samples)
    found = []
    for draw in progress.track(range(draws), "floors", "draws"):
        order = np.random.default_rng([seed, draw]).permutation(available)
        ours = real.select(order[:num_samples])
        theirs = real.select(order[num_samples : num_samples + num_reference])
        found.append(metrics(ours, theirs))
    table = {name: np.array([scores[name] for scores in found]) for name in found[0]}
    return Floors(
        mean={name: float(v.mean()) for name, v in table.items()},
        sd={name: float(v.std(ddof=1)) if draws > 1 else 0.0 for name, v in table.items()},
        num_samples=num_samples,
        num_reference=num_reference,
        draws=draws,
    )
