"""Models of images with maps on equal terms, in whatever state their samples are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from discrete_diffusion.data import Dataset
from discrete_diffusion.data.base import SPLITS
from discrete_diffusion.domains.eit.image_scores import (
    fit_field_baselines,
    score_reconstructions,
)
from discrete_diffusion.domains.eit.metrics import score_images
from discrete_diffusion.domains.eit.reconstructing import (
    as_images,
    maps_of,
    reconstruct_held_out,
)
from discrete_diffusion.evaluation.comparison import Baseline
from discrete_diffusion.evaluation.equal_terms import EqualTerms, held_out_split
from discrete_diffusion.evaluation.trained_model import Model

_SAME = 1e-4
"""Numbers of an image that are so far apart are the same: levels read from a file."""

_NAMES = {"mean_image": "mean image", "ridge": "ridge regression"}
"""Baselines that a comparison shows."""


@dataclass(frozen=True)
class DrawnImages:
    """``relative_errors``: Float64[M], relative L2 of the mean of the draws, per image;
    ``metrics``: of all images."""

    relative_errors: Tensor
    metrics: dict[str, float]


def check_same_images(one: Dataset, other: Dataset) -> None:
    """``ValueError`` unless both hold the same images with the same maps in the same splits."""
    for name in SPLITS:
        first, second = one.splits[name], other.splits[name]
        images, others = (as_images(data.splits[name].x0).double() for data in (one, other))
        same = images.shape == others.shape and bool(((images - others).abs() <= _SAME).all())
        if not same or not torch.equal(maps_of(first), maps_of(second)):
            raise ValueError(
                f"the {name} split differs: {one.summary()}; {other.summary()}; expected the same "
                "images and maps"
            )


def score_images_drawn(
    algorithm: Any,
    sampler: Any,
    data: Dataset,
    terms: EqualTerms,
    *,
    device: torch.device | str = "cpu",
    folder: Path | None = None,
) -> DrawnImages:
    """``terms.draws`` images from the map of each of the first ``terms.num_samples`` held-out
    images, against the true ones. They are written into ``folder``, if given.

    Raises ``ValueError`` if they are not finite.
    """
    found = reconstruct_held_out(
        Model(algorithm, sampler, device),
        data,
        held_out_split(data),
        num=terms.num_samples,
        draws=terms.draws,
        seed=terms.seed,
    )
    if not bool(found.mean.isfinite().all()):
        raise ValueError("training has diverged: images hold NaN or infinity")
    if folder is not None:
        found.write(folder)
    numbers = score_reconstructions(found)  # baselines once, not for every model
    shown = ["condition_gap", "condition_gap_standard_error", "spread_ratio", "pixel_accuracy"]
    shown += ["relative_l2_single"] * (found.draws > 1)
    return DrawnImages(
        score_images(found.mean, found.truth, levels=found.levels).relative_errors,
        {
            "num_images": len(found),
            "draws_per_image": found.draws,
            "network_calls": numbers["network_calls_per_draw"],
            "seconds_per_1000_samples": 1000 * found.seconds / (len(found) * found.draws),
            **{name: numbers[name] for name in shown if name in numbers},
        },
    )


def score_baselines(data: Dataset, num: int) -> tuple[Baseline, ...]:
    """The mean training image and ridge regression on the first ``num`` held-out images."""
    examples = data.splits[held_out_split(data)]
    truth = as_images(examples.x0[:num])
    maps, fitted = maps_of(examples)[:num], fit_field_baselines(data).by_name
    found = []
    for name, said in _NAMES.items():
        if name in fitted:
            scores = score_images(fitted[name].predict(maps), truth, levels=data.levels)
            accuracy = scores.as_dict().get("pixel_accuracy", math.nan)
            found.append(
                Baseline(
                    said, {"relative_l2": scores.relative_errors}, {"pixel_accuracy": accuracy}
                )
            )
    return tuple(found)
