"""Reconstructions of a model, and what is guessed without one, against the true images."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from discrete_diffusion.data.base import Dataset
from discrete_diffusion.domains.eit.baselines import Ridge, SameImage, mean_image
from discrete_diffusion.domains.eit.metrics import FieldScores, score_images
from discrete_diffusion.domains.eit.reconstructing import Reconstructions, as_images, maps_of
from discrete_diffusion.evaluation.intervals import standard_error


@dataclass(frozen=True)
class FieldBaselines:
    """What the training split says of an image without a network.

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


@dataclass(frozen=True)
class ReconstructionScores:
    """What ``score_reconstructions`` returns.

    ``mean``: of the mean of ``draws`` images. ``single``: of one of them. ``shuffled``: of the mean
    of as many drawn from another's map, None for one sample. ``baselines``: by name. ``calls``: of
    the network, per draw. ``penalty``: the ridge's, NaN without one.

    One draw of an exact model has twice the expected squared error of the posterior mean, the mean
    of D draws 1 + 1 / D times.

    ``spread_ratio``: the root mean square deviation over draws by what the errors of the mean say
    it should be, sqrt((1 + 1 / D) V) / sqrt(E) with the mean variance V and squared error E. It is
    1 for an exact model, below if the draws are too alike; NaN for one draw.
    """

    mean: FieldScores
    single: FieldScores
    shuffled: FieldScores | None
    baselines: Mapping[str, FieldScores]
    spread_ratio: float
    draws: int
    calls: float
    penalty: float = math.nan

    @property
    def num_images(self) -> int:
        """Samples."""
        return len(self.mean.relative_errors)

    def as_dict(self) -> dict[str, float]:
        """For ``metrics.json``: the numbers of the mean of draws under their own names, those of
        others with a suffix or with whose they are before them. What is not known is left out.

        ``condition_gap``: relative L2 from maps of others less that from own ones, mean; 0 if maps
        are not used.
        """
        out: dict[str, float] = self.mean.as_dict()
        out["relative_l2_standard_error"] = standard_error(self.mean.relative_errors)
        out |= self.single.as_dict(suffix="_single")
        if self.shuffled is not None:
            gaps = self.shuffled.relative_errors - self.mean.relative_errors
            out |= {
                "relative_l2_shuffled": self.shuffled.relative_l2,
                "condition_gap": float(gaps.mean()),
                "condition_gap_standard_error": standard_error(gaps),
            }
        for name, scores in self.baselines.items():
            out |= scores.as_dict(f"{name}_")
        out |= {
            "majority_pixel_accuracy": self.mean.majority_pixel_accuracy,
            "spread_ratio": self.spread_ratio,
            "ridge_penalty": self.penalty,
        }
        out = {name: value for name, value in out.items() if not math.isnan(value)}
        return out | {
            "num_images": self.num_images,
            "draws_per_image": self.draws,
            "network_calls_per_draw": self.calls,
        }


def score_reconstructions(
    found: Reconstructions, baselines: FieldBaselines | None = None
) -> ReconstructionScores:
    """The model, and baselines if they are given, on the samples that were reconstructed.

    Raises ``ValueError`` if nothing was reconstructed.
    """
    fitted = {} if baselines is None else baselines.by_name

    def scores(images: Tensor) -> FieldScores:
        return score_images(images, found.truth, levels=found.levels)

    ridge = fitted.get("ridge")
    return ReconstructionScores(
        mean=scores(found.mean),
        single=scores(found.first),
        shuffled=None if found.shuffled_mean is None else scores(found.shuffled_mean),
        baselines={name: scores(each.predict(found.dtn)) for name, each in fitted.items()},
        spread_ratio=_spread_ratio(found),
        draws=found.draws,
        calls=float(found.nfe.mean()),
        penalty=ridge.penalty if isinstance(ridge, Ridge) else math.nan,
    )


def _spread_ratio(found: Reconstructions) -> float:
    error = float((found.mean.double() - found.truth.double()).square().mean())
    if found.draws < 2 or error == 0:
        return math.nan
    variance = float(found.deviation.double().square().mean())
    return math.sqrt((1 + 1 / found.draws) * variance / error)
