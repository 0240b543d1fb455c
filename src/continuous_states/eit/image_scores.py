"""Images sampled given maps, baselines without a network, and the errors of both.

Axes: ``M`` images ``C`` x ``H`` x ``W`` with maps ``n`` x ``n``; ``P`` = C H W pixels, ``E`` =
n (n + 1) / 2 entries of a map's upper triangle.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from einops import rearrange, repeat
from torch import Tensor

from continuous_states.arrays import write_npz
from continuous_states.eit.simulator import conductivity_to_levels, levels_to_conductivity
from continuous_states.evaluation import (
    ConditionalSamples,
    Tensors,
    first_examples,
    sample_conditional,
    sampled_from_others,
)
from discrete_diffusion.data import Dataset, Examples
from discrete_diffusion.evaluation import standard_error
from discrete_diffusion.runtime import progress
from discrete_diffusion.sampling import Model

PENALTIES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
DRAWS = 8
RECONSTRUCTIONS = "samples.npz"
_DRAW_STREAM = 74
"""Stream of random numbers of these samples, different from other streams of the same seed."""


@dataclass(frozen=True)
class FieldScores:
    """Errors of M images against the true images.

    ``relative_errors``: Float64[M], ||x - xhat|| / ||x||. ``squared_errors``: Float64[M], means
    over pixels. ``pixel_hits``: Float64[M], shares of the pixels whose nearest level is the true
    level; None for images without levels. ``majority_pixel_accuracy``: share of the most frequent
    level among the true pixels, which is the best score of a constant image; NaN without levels.
    """

    relative_errors: Tensor
    squared_errors: Tensor
    pixel_hits: Tensor | None
    majority_pixel_accuracy: float

    @property
    def relative_l2(self) -> float:
        """Mean of ``relative_errors``."""
        return float(self.relative_errors.mean())

    def as_dict(self, prefix: str = "", suffix: str = "") -> dict[str, float]:
        """Means by name; ``pixel_accuracy`` is NaN without levels."""
        accuracy = math.nan if self.pixel_hits is None else float(self.pixel_hits.mean())
        return {
            f"{prefix}relative_l2{suffix}": self.relative_l2,
            f"{prefix}mean_squared_error{suffix}": float(self.squared_errors.mean()),
            f"{prefix}pixel_accuracy{suffix}": accuracy,
        }


def score_images(
    predicted: Tensor, truth: Tensor, *, levels: Sequence[float] | None
) -> FieldScores:
    """Score images Float[M, C, H, W] against the true images. ``levels``: the possible values of a
    true pixel, ascending; a pixel is correct if its nearest level is the nearest level of the true
    pixel. None if pixels can have any value; then no pixels are counted."""
    x, y = truth.double().flatten(1), predicted.double().flatten(1)  # (M, C H W)
    hits, majority = None, math.nan
    # pixels whose nearest level is right
    if levels is not None:
        true = conductivity_to_levels(x, levels)
        hits = (conductivity_to_levels(y, levels) == true).double().mean(dim=1)
        majority = float(true.flatten().bincount().max() / true.numel())
    error = x - y
    relative = error.norm(dim=1) / x.norm(dim=1)
    return FieldScores(relative, error.square().mean(dim=1), hits, majority)


@dataclass(frozen=True)
class SameImage:
    """Baseline that predicts the same ``image`` Float[C, H, W] for every map."""

    image: Tensor

    def predict(self, maps: Tensor) -> Tensor:
        """Float32[M, C, H, W] of maps Float[M, n, n]."""
        return self.image.float().expand(len(maps), *self.image.shape).clone()


@dataclass(frozen=True)
class Ridge:
    """Linear regression of the pixels on the entries z of a map's upper triangle, which are
    standardised by the training maps:

        y = m + W^T z,   W = argmin  (1 / M) sum_i |x_i - m - W^T z_i|^2 + penalty |W|^2
                           = (Z^T Z / M + penalty I)^-1 Z^T X / M,

    with m the mean training image. The penalty is chosen by leave-one-out error on the training
    images, for all penalties from one decomposition of Z: the error of image i when it is left out
    is

        (x_i - y_i) / (1 - 1 / M - H_ii),   H = Z (Z^T Z + M penalty I)^-1 Z^T.

    where the entries z stay standardised by all maps.
    ``shift``, ``scale``: Float64[E]; a constant entry has no effect. ``weights``: W, Float64[E, P].
    ``mean``: m, Float64[C, H, W]. ``penalty``: the chosen penalty.
    """

    shift: Tensor
    scale: Tensor
    weights: Tensor
    mean: Tensor
    penalty: float

    @classmethod
    def fit(cls, maps: Tensor, images: Tensor, *, penalties: Sequence[float] = PENALTIES) -> Ridge:
        """Fit to ``maps`` Float[M, n, n] and ``images`` Float[M, C, H, W]. Raises ``ValueError``
        without an image."""
        mean = mean_image(images)
        # standardised entries, 0 where they are constant
        entries = upper_triangle(maps)
        shift, scale = entries.mean(dim=0), entries.std(dim=0, correction=0)
        scale = torch.where(scale <= 1e-12 * shift.abs(), torch.inf, scale)
        left, values, right = _decompose((entries - shift) / scale)
        # images within the span of Z, and the rest, which no W reaches
        num, x = len(images), (images - mean).flatten(1)  # (M, P), Float64
        inside = left.T @ x  # (R, P)
        x -= left @ inside
        alone, cross, gram = x.square().sum(dim=1), x @ inside.T, inside @ inside.T
        free = 1 - 1 / num - left.square().sum(dim=1)

        def left_out_error(penalty: float) -> float:
            """Squared error of images, each predicted from the other images."""
            lost = left * (num * penalty / (values + num * penalty))  # (M, R)
            errors = alone + (lost * (2 * cross + lost @ gram)).sum(dim=1)
            return float((errors / (free + (left * lost).sum(dim=1)).square()).sum())

        # the best penalty, and its weights
        penalty = min(penalties, key=left_out_error)
        shrunk = values.sqrt() / (values + num * penalty)
        return cls(shift, scale, right @ (shrunk.unsqueeze(1) * inside), mean, penalty)

    def predict(self, maps: Tensor) -> Tensor:
        """Float32[M, C, H, W] of maps Float[M, n, n]."""
        z = (upper_triangle(maps) - self.shift) / self.scale
        return (z @ self.weights).reshape(len(maps), *self.mean.shape).add(self.mean).float()


def upper_triangle(maps: Tensor) -> Tensor:
    """Upper triangles Float64[M, E] of maps Float[M, n, n], row by row, with the diagonal."""
    rows, columns = torch.triu_indices(*maps.shape[-2:])
    return maps[:, rows, columns].double()


def _decompose(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Decompose Z = U S V^T; return U Float64[M, R], S^2 Float64[R] and V Float64[E, R], without
    singular values that are 0 up to rounding."""
    # eigenvalues of the smaller of Z^T Z and Z Z^T
    dual = len(z) < z.shape[1]
    values, vectors = torch.linalg.eigh(z @ z.T if dual else z.T @ z)
    kept = values > 1e-13 * values[-1:]
    values, vectors = values[kept], vectors[:, kept]
    others = (z.T if dual else z) @ vectors / values.sqrt()
    return (vectors, values, others) if dual else (others, values, vectors)


def mean_image(images: Tensor) -> Tensor:
    """Mean Float64[C, H, W] of images Float[M, C, H, W]. Raises ``ValueError`` without an image."""
    if images.ndim != 4 or len(images) == 0:
        raise ValueError(
            f"training images {tuple(images.shape)}: expected (M, C, H, W), at least one image"
        )
    return images.mean(dim=0, dtype=torch.float64)


def as_images(x0: Tensor) -> Tensor:
    """Convert samples to images Float32[M, C, H, W]: fields stay unchanged, ids Int[M, L] of the
    pixels of square images become conductivities. Raises ``ValueError`` for an id that is not a
    level."""
    if x0.is_floating_point():
        return x0.float()
    side = math.isqrt(x0.shape[1])
    return rearrange(levels_to_conductivity(x0), "m (h w) -> m 1 h w", h=side)


def dtn_maps_of(examples: Examples) -> Tensor:
    """Maps of a split, Float32[M, n, n]. Raises ``ValueError`` if it has none."""
    if "dtn" not in examples.conditions:
        raise ValueError(
            "this data has no maps to condition on; use data=eit or data=eit_quantised"
        )
    return examples.conditions["dtn"].float()


@dataclass(frozen=True)
class Reconstructions:
    """The first M examples of a split and the images sampled for each; on the CPU.

    ``truth``: Float32[M, C, H, W], raw. ``dtn``: Float32[M, n, n], the maps. ``mean``,
    ``deviation``: Float32[M, C, H, W], mean and standard deviation of the ``draws`` images sampled
    given the map (deviation 0 if ``draws`` is 1). ``first``: Float32[M, C, H, W], the first sampled
    image. ``shuffled_mean``: Float32[M, C, H, W], the mean of as many images given the map of the
    preceding example, with the same noise; None if M is 1 or it was not sampled. ``nfe``:
    Float64[M], network calls per image. ``seconds``: time spent sampling ``mean``, summed over
    processes. ``levels``: levels of the data set.
    """

    truth: Tensor
    dtn: Tensor
    mean: Tensor
    deviation: Tensor
    first: Tensor
    shuffled_mean: Tensor | None
    nfe: Tensor
    draws: int
    seconds: float = 0.0
    levels: tuple[float, ...] | None = None

    def __len__(self) -> int:
        return self.truth.shape[0]

    def write(self, folder: Path) -> None:
        """Write ``samples.npz`` into a folder: ``truth``, ``mean``, ``deviation`` and ``first``
        Float32[M, C, H, W], ``dtn`` Float32[M, n, n]."""
        names = ("truth", "dtn", "mean", "deviation", "first")
        write_npz(folder / RECONSTRUCTIONS, {name: getattr(self, name).numpy() for name in names})


def reconstruct_held_out(
    model: Model, data: Dataset, split: str, *, num: int | None, draws: int = DRAWS, seed: int
) -> Reconstructions:
    """Sample ``draws`` images from the map of each of the first ``num`` examples of a split (None:
    all). As many are sampled with the same noise from the map of the preceding example (for the
    first: of the last); a model that ignores the map gives the same images.

    At most ``model.batch_size`` images are sampled at once. The images depend on this number and on
    ``draws``, not on the number of processes. Sampled ids are converted to conductivities.

    Raises ``ValueError`` if the split is empty or comes without maps, for ``num`` below 0 or
    ``draws`` below 1.
    """
    if draws < 1:
        raise ValueError(f"draws={draws}: expected at least 1")
    # images and maps of the first samples
    examples = first_examples(data, split, num)
    truth, dtn = as_images(examples.x0), dtn_maps_of(examples)
    if len(truth) == 0:
        calls = torch.zeros(0, dtype=torch.float64)
        return Reconstructions(
            truth, dtn, truth, truth, truth, None, calls, draws, levels=data.levels
        )

    def draw(conditions: Tensors, generator: torch.Generator) -> Tensors:
        return _sample_images(model, conditions, generator, tuple(truth.shape[1:]), draws)

    def sample(model: Model, conditions: Tensors) -> ConditionalSamples:
        batches = list(torch.arange(len(truth)).split(max(1, model.rows_at_once // draws)))
        entropy = (seed, _DRAW_STREAM)
        return sample_conditional(model, conditions, draw, batches=batches, entropy=entropy)

    # given the true maps, then those of the neighbours if nothing was interrupted
    own, shuffled_mean = sample(model, examples.conditions), None
    if 1 < len(truth) == len(own):
        others = {name: values.roll(1, dims=0) for name, values in examples.conditions.items()}
        shuffled = sampled_from_others(model, lambda model: sample(model, others))
        shuffled_mean = None if shuffled is None else shuffled.values["mean"]
    return Reconstructions(
        truth[: len(own)],
        dtn[: len(own)],
        **own.values,
        shuffled_mean=shuffled_mean,
        draws=draws,
        seconds=own.seconds,
        levels=data.levels,
    )


def _sample_images(
    model: Model,
    conditions: Tensors,
    generator: torch.Generator,
    shape: tuple[int, ...],
    draws: int,
) -> Tensors:
    """Sample ``draws`` images of ``shape`` (C, H, W) per row of the conditions; return their
    ``mean``, ``deviation``, ``first`` and ``nfe``."""
    # each condition as often as images are sampled for it
    repeated = {name: repeat(x, "b ... -> (b d) ...", d=draws) for name, x in conditions.items()}
    positions = (math.prod(shape),) if model.sampler.state == "tokens" else shape
    images, nfe = [], []
    parts = torch.arange(len(repeated["dtn"])).split(model.rows_at_once)
    for rows in progress.track(parts, "images", "batches") if len(parts) > 1 else parts:
        output = model.sampler.sample(
            model.algorithm,
            torch.ones(len(rows), *positions, dtype=torch.bool, device=model.device),
            generator=generator,
            steps=model.steps,
            conditions={name: x[rows] for name, x in repeated.items()},
        )
        images.append(as_images(output.x0).reshape(len(rows), *shape).cpu())
        nfe.append(output.nfe.cpu())
    # moments over the images of each map
    by_sample = rearrange(torch.cat(images), "(b d) ... -> b d ...", d=draws)
    return {
        "mean": by_sample.mean(dim=1),
        "deviation": by_sample.std(dim=1, correction=1 if draws > 1 else 0),
        "first": by_sample[:, 0],
        "nfe": rearrange(torch.cat(nfe).double(), "(b d) -> b d", d=draws).mean(dim=1),
    }


@dataclass(frozen=True)
class FieldBaselines:
    """Baselines that predict images without a network, fitted to the training split. ``by_name``:
    ``mean_image``, ``ones`` and ``ridge``. ``map_mean``, ``map_scale``: Float64[n, n], mean and
    standard deviation of the training maps."""

    by_name: Mapping[str, SameImage | Ridge]
    map_mean: Tensor
    map_scale: Tensor

    def standardised(self, maps: Tensor) -> Tensor:
        """Maps in standard deviations from the mean, Float64[M, n, n]; 0 where all training maps
        are equal."""
        scale = torch.where(self.map_scale > 1e-9 * self.map_mean.abs(), self.map_scale, torch.inf)
        return (maps.double() - self.map_mean) / scale


def fit_field_baselines(data: Dataset) -> FieldBaselines:
    """Fit the baselines, including the penalty of ridge regression, to the training split. Raises
    ``ValueError`` without a training sample or without maps."""
    train = data.splits["train"]
    images, maps = as_images(train.x0), dtn_maps_of(train)
    by_name: dict[str, SameImage | Ridge] = {
        "mean_image": SameImage(mean_image(images)),
        "ones": SameImage(torch.ones(images.shape[1:])),
        "ridge": Ridge.fit(maps, images),
    }
    # moments of the maps, for pictures
    maps = maps.double()
    return FieldBaselines(by_name, maps.mean(dim=0), maps.std(dim=0, correction=0))


def score_reconstructions(
    found: Reconstructions, baselines: FieldBaselines | None = None
) -> dict[str, float]:
    """Scores for ``metrics.json``. The ``FieldScores`` of the samples' mean have plain names, those
    of one sample the suffix ``_single``, those of ``baselines`` (if given) their names as prefix.
    NaN scores are left out.

    For an exact model, one sample has twice the expected squared error of the posterior mean; the
    mean of D samples has 1 + 1 / D times that error.

    ``condition_gap``: mean relative L2 given another example's map minus that given the true map; 0
    if the model ignores maps. ``spread_ratio``: root mean square deviation over samples divided by
    the one that the errors of the mean imply, sqrt((1 + 1 / D) V) / sqrt(E) with the mean variance
    V and squared error E. It is 1 for an exact model, less if the samples are too similar; unknown
    for D = 1.
    """

    def scores(images: Tensor) -> FieldScores:
        return score_images(images, found.truth, levels=found.levels)

    # mean of the samples, and one sample
    mean, fitted = scores(found.mean), {} if baselines is None else baselines.by_name
    out = mean.as_dict()
    out["relative_l2_standard_error"] = standard_error(mean.relative_errors)
    out |= scores(found.first).as_dict(suffix="_single")
    # given the maps of others
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
    # spread of the samples by their errors
    spread, error = math.nan, float((found.mean.double() - found.truth.double()).square().mean())
    if found.draws > 1 and error > 0:
        variance = float(found.deviation.double().square().mean())
        spread = math.sqrt((1 + 1 / found.draws) * variance / error)
    out |= {
        "majority_pixel_accuracy": mean.majority_pixel_accuracy,
        "spread_ratio": spread,
        "ridge_penalty": getattr(fitted.get("ridge"), "penalty", math.nan),
    }
    return {name: value for name, value in out.items() if not math.isnan(value)} | {
        "num_images": len(found),
        "draws_per_image": found.draws,
        "network_calls_per_draw": float(found.nfe.mean()),
    }
