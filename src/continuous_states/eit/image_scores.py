"""Reconstructions of a model, and what is guessed without one, against the true images."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from continuous_states.eit.baselines import Ridge, SameImage, mean_image
from continuous_states.eit.metrics import FieldScores, score_images
from continuous_states.eit.reconstructing import Reconstructions, as_images, maps_of
from discrete_diffusion.data import Dataset
from discrete_diffusion.evaluation import standard_error


@dataclass(frozen=True)
class FieldBaselines:
    """Guesses of an image from the training split, without a network.

    ``by_name``: ``mean_image``, ``ones`` and ``ridge``.
    ``map_mean``, ``map_scale``: Float64[n, n], mean and standard deviation of the training maps.
    """

    by_name: Mapping[str, SameImage | Ridge]
    map_mean: Tensor
    map_scale: Tensor

    def standardised(self, maps: Tensor) -> Tensor:
        """Float64[M, n, n]: maps in standard deviations from the mean; 0 where all are the same."""
        scale = torch.where(self.map_scale > 1e-9 * self.map_mean.abs(), self.map_scale, torch.inf)
        return (maps.double() - self.map_mean) / scale


def fit_field_baselines(data: Dataset) -> FieldBaselines:
    """Fitted to the training split, the penalty of ridge regression included: no other split is
    read. ``data``: images or ids of pixels, with maps.

    Raises ``ValueError`` without a training sample or without maps.
    """
    train = data.splits["train"]
    images, maps = as_images(train.x0), maps_of(train)
    by_name: dict[str, SameImage | Ridge] = {
        "mean_image": SameImage(mean_image(images)),
        "ones": SameImage(torch.ones(images.shape[1:])),
        "ridge": Ridge.fit(maps, images),
    }
    maps = maps.double()
    return FieldBaselines(by_name, maps.mean(dim=0), maps.std(dim=0, correction=0))


def score_reconstructions(
    found: Reconstructions, baselines: FieldBaselines | None = None
) -> dict[str, float]:
    """Scores for ``metrics.json``: ``FieldScores`` of the samples' mean under their own names; of
    one sample before ``_single``; of ``baselines``, if given, after their names. What is not known
    is left out. Raises ``ValueError`` if nothing was reconstructed.

    One sample of an exact model has twice the expected squared error of the posterior mean, the
    mean of D samples 1 + 1 / D times.

    ``condition_gap``: relative L2 of the mean of samples given another's map less that of the mean
    from the own one, mean; 0 if maps are not used. ``spread_ratio``: the root mean square deviation
    over samples by what the errors of the mean imply, sqrt((1 + 1 / D) V) / sqrt(E) with the mean
    variance V and squared error E. It is 1 for an exact model, below if the samples are too alike;
    not known of one draw.
    """

    def scores(images: Tensor) -> FieldScores:
        return score_images(images, found.truth, levels=found.levels)

    mean, fitted = scores(found.mean), {} if baselines is None else baselines.by_name
    out = mean.as_dict()
    out["relative_l2_standard_error"] = standard_error(mean.relative_errors)
    out |= scores(found.first).as_dict(suffix="_single")
    if found.shuffled_mean is not None:
        shuffled = scores(found.shuffled_mean)
        gaps = shuffled.relative_errors - mean.relative_errors
        out |= {
            "relative_l2_shuffled": shuffled.relative_l2,
            "condition_gap": float(gaps.mean()),
            "condition_gap_standard_error": standard_error(gaps),
        }
    for name, baseline in fitted.items():
        out |= scores(baseline.predict(found.dtn)).as_dict(f"{name}_")
    out |= {
        "majority_pixel_accuracy": mean.majority_pixel_accuracy,
        "spread_ratio": _spread_ratio(found),
        "ridge_penalty": getattr(fitted.get("ridge"), "penalty", math.nan),
    }
    out = {name: value for name, value in out.items() if not math.isnan(value)}
    return out | {
        "num_images": len(found),
        "draws_per_image": found.draws,
        "network_calls_per_draw": float(found.nfe.mean()),
    }


def _spread_ratio(found: Reconstructions) -> float:
    error = float((found.mean.double() - found.truth.double()).square().mean())
    if found.draws < 2 or error == 0:
        return math.nan
    variance = float(found.deviation.double().square().mean())
    return math.sqrt((1 + 1 / found.draws) * variance / error)
