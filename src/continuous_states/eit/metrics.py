"""Distances of predicted images from the true ones, pixel by pixel.

Axes: ``M`` images, ``C`` channels, ``H`` and ``W``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from continuous_states.eit.levels import conductivity_to_levels


@dataclass(frozen=True)
class FieldScores:
    """Result of ``score_images`` on M images.

    ``relative_errors``: Float64[M], ||x - xhat|| / ||x||. ``squared_errors``: Float64[M], means
    over pixels. ``pixel_hits``: Float64[M], shares of the pixels whose nearest level is the true
    one; None of images without levels. ``majority_pixel_accuracy``: the share of the most frequent
    level among the true pixels, which is what a constant image scores; NaN without levels.
    """

    relative_errors: Tensor
    squared_errors: Tensor
    pixel_hits: Tensor | None
    majority_pixel_accuracy: float

    @property
    def relative_l2(self) -> float:
        """Mean of ``relative_errors``."""
        return float(self.relative_errors.mean())

    @property
    def mean_squared_error(self) -> float:
        """Mean of ``squared_errors``."""
        return float(self.squared_errors.mean())

    @property
    def pixel_accuracy(self) -> float:
        """Mean of ``pixel_hits``; NaN without levels."""
        return math.nan if self.pixel_hits is None else float(self.pixel_hits.mean())

    def as_dict(self, prefix: str = "", suffix: str = "") -> dict[str, float]:
        """The three means by name; ``pixel_accuracy`` is NaN without levels."""
        return {
            f"{prefix}relative_l2{suffix}": self.relative_l2,
            f"{prefix}mean_squared_error{suffix}": self.mean_squared_error,
            f"{prefix}pixel_accuracy{suffix}": self.pixel_accuracy,
        }


def score_images(
    predicted: Tensor, truth: Tensor, *, levels: Sequence[float] | None
) -> FieldScores:
    """Scores of images Float[M, C, H, W] against the true ones.

    ``levels``: the values that a true pixel can have, ascending; a pixel is counted as right if the
    level nearest to it is the one nearest to the truth. None if it can have any: none is counted.

    Raises ``ValueError`` for shapes that differ, without an image, or for an image that is 0
    everywhere, to which no error is relative.
    """
    if predicted.shape != truth.shape or truth.ndim != 4 or truth.numel() == 0:
        raise ValueError(
            f"predicted {tuple(predicted.shape)} and truth {tuple(truth.shape)}: expected "
            "(M, C, H, W) twice, with at least one image"
        )
    x, y = truth.double().flatten(1), predicted.double().flatten(1)  # (M, C H W)
    size = x.norm(dim=1)
    if (empty := (size == 0).nonzero()).numel():
        raise ValueError(f"image {empty[0].item()} of the truth is 0 everywhere; leave it out")
    hits, majority = None, math.nan
    if levels is not None:
        true = conductivity_to_levels(x, levels)
        hits = (conductivity_to_levels(y, levels) == true).double().mean(dim=1)
        majority = float(true.flatten().bincount().max() / true.numel())
    return FieldScores(
        relative_errors=(x - y).norm(dim=1) / size,
        squared_errors=(x - y).square().mean(dim=1),
        pixel_hits=hits,
        majority_pixel_accuracy=majority,
    )
