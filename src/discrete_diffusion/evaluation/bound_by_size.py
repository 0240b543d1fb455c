"""The bound by the size of samples: small ones beside large ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from discrete_diffusion.evaluation.bound import BoundEstimate, SampleBounds


@dataclass(frozen=True)
class BoundBySize:
    """``unit``: what sizes count, e.g. nodes; ``estimates``: the bound of the samples of each size,
    smallest first. A single sample of a size has no standard error."""

    unit: str
    estimates: dict[int, BoundEstimate]

    def as_dict(self) -> dict[str, Any]:
        """For ``metrics.json``: a list per column, an entry per size."""
        found = self.estimates.values()
        return {
            "unit": self.unit,
            "quantity": next(estimate.headline[0] for estimate in found),
            "size": list(self.estimates),
            "num_samples": [estimate.num_samples for estimate in found],
            "nelbo": [estimate.headline[1] for estimate in found],
            "standard_error": [
                estimate.headline[2] if estimate.num_samples > 1 else None for estimate in found
            ],
            "nelbo_per_token": [estimate.headline_per_token for estimate in found],
        }


def bound_by_size(bounds: SampleBounds, sizes: Tensor, quantity: str, *, unit: str) -> BoundBySize:
    """The bounds of a split, sorted by ``sizes`` Int[M]; they are of samples in the same order.

    Weighted with their numbers of samples, the estimates add up to that of the whole split.
    """
    return BoundBySize(
        unit, {k: bounds[sizes == k].estimate(quantity) for k in sizes.unique().tolist()}
    )
