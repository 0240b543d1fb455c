"""Commands."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import DictConfig

from continuous_states.eit.image_report import ImageReport, plot_side_by_side
from continuous_states.eit.image_scores import (
    DRAWS,
    RECONSTRUCTIONS,
    Reconstructions,
    as_images,
    fit_field_baselines,
    maps_of,
    score_images,
    score_reconstructions,
)
from continuous_states.evaluation import (
    bound_row,
    data_and_sampling,
    held_out_bound,
    metric_row,
    metric_rows,
    sample_files,
)
from discrete_diffusion.algorithms import Algorithm
from discrete_diffusion.config import counted
from discrete_diffusion.contracts import BoundEstimate
from discrete_diffusion.data import SPLITS, Dataset, TokenDataset
from discrete_diffusion.domains import CellMeasurement
from discrete_diffusion.evaluation import (
    BOUND,
    Baseline,
    Column,
    Comparison,
    EvaluateRequest,
    Evaluation,
    EvaluationProtocol,
    Measure,
    MeasuredData,
    SampleRequest,
    Samples,
    SavedSamples,
    TableSection,
    TrainedModel,
    checkpoint_facts,
    held_out_bounds,
    held_out_split,
    keep_samples,
    measured_data,
    num_held_out,
    sampling_facts,
)
from discrete_diffusion.runtime import progress
from discrete_diffusion.sampling import Model

NUM_IMAGES = 200

_WHO = {
    "{}": "the mean of the samples",
    "{}_single": "one sample",
    "{}_shuffled": "the mean of samples given another example's map",
    "ridge_{}": "linear regression on the map",
    "mean_image_{}": "the mean training image",
    "ones_{}": "the background everywhere",
}
_WHAT = {
    "relative_l2": "norm of the error by that of the image, mean over images",
    "mean_squared_error": "mean squared error of a pixel",
    "pixel_accuracy": "share of pixels whose nearest level is the true one",
}
_OTHERS = {
    "majority_pixel_accuracy": "share of the most frequent level: what a constant image scores",
    "condition_gap": "relative L2 from another's map less that from the own one; 0: maps unused",
    "spread_ratio": "spread of the samples by what their errors call for; 1: an exact posterior",
}


@dataclass(frozen=True)
class ImageEvaluation(Evaluation):
    """``facts``: how all was measured, for ``metrics.json``. ``scores``: as of
    ``score_reconstructions``."""

    facts: dict[str, Any]
    report: ImageReport
    found: Reconstructions
    scores: dict[str, float]
    bound: BoundEstimate
    measured_on: MeasuredData

    def sections(self) -> list[TableSection]:
        row = bound_row(self.bound, "an image given its map")
        return [field_section(self.scores), TableSection("the model on held-out data", (row,))]

    def notes(self) -> list[str]:
        images = f"Images: {self.facts['reference']}."
        return [images, *self.measured_on.notes(), *field_notes(self.scores)]

    def metrics(self) -> dict[str, Any]:
        return {**self.facts, **self.bound.as_dict(), **self.scores}

    def save(self, folder: Path) -> None:
        """Write the reconstructions."""
        self.found.write(folder)

    def plot(self, folder: Path) -> None:
        """Plot the first images."""
        self.report.plot(self.found, folder / "samples.png")


def evaluate_images(request: EvaluateRequest, trained: TrainedModel) -> ImageEvaluation:
    """Measure a model of images with maps on those that its checkpoint held out, or on those that
    keys under ``data`` make.

    Raises ``ValueError`` if the data cannot be read, and for such a key that cannot be.
    """
    trained.check_weights()
    measured = measured_data(request, trained, needs_training=True)
    data, split = measured.data, measured.split
    num = NUM_IMAGES if request.num_samples is None else request.num_samples
    draws = DRAWS if request.draws is None else request.draws
    report = ImageReport(data, split, draws=draws, trained_on=measured.trained_on)
    parts = progress.parts(
        f"sampling {draws} images given each of {len(data.splits[split][:num]):,} maps",
        f"measuring the model on {num_held_out(request, data, split):,} held-out samples",
    )
    with trained.sharing() as shard:
        model = trained.on(shard)
        with next(parts):
            found = report.sample(model, num, request.seed)
            keep_samples(request, shard, found.write)
        with next(parts):
            bound = held_out_bound(request, model, data, split)
    facts = {
        **checkpoint_facts(request, trained, data),
        **sampling_facts(request, trained),
        "num_samples": len(found),
        "seconds": found.seconds,
        **measured.facts(request),
    }
    scores = score_reconstructions(found, report.baselines)
    return ImageEvaluation(facts, report, found, scores, bound, measured)


def field_section(scores: Mapping[str, float]) -> TableSection:
    """Everybody's numbers, one metric after the other (± standard error over images)."""
    rows = metric_rows(scores, _WHAT, _WHO)
    rows += [metric_row(k, scores, meaning) for k, meaning in _OTHERS.items() if k in scores]
    return TableSection("images, from their maps", tuple(rows))


def field_notes(scores: Mapping[str, float]) -> list[str]:
    """Sentences about the samples behind the numbers of ``field_section``."""
    notes = [
        f"{scores['num_images']:,} held-out images, {scores['draws_per_image']} samples each, "
        f"{scores['network_calls_per_draw']:g} network calls a sample; ± is the standard error "
        "over images.",
        "One sample of an exact model has twice the squared error of the posterior mean.",
    ]
    if "ridge_penalty" in scores:
        notes.append(
            f"Ridge regression: penalty {scores['ridge_penalty']:g}, the best for training images "
            "left out one by one."
        )
    return notes


NUM_SAMPLED = 64


def sample_images(request: SampleRequest, trained: TrainedModel) -> Samples:
    """Draw ``draws`` images from the map of each of the first ``num_samples`` held-out images, or
    of those that keys under ``data`` make: ``Reconstructions``, written as ``samples.npz`` and
    ``samples.png``.
    """
    measured = measured_data(request, trained, needs_training=True)
    split = measured.split
    num = NUM_SAMPLED if request.num_samples is None else request.num_samples
    draws = DRAWS if request.draws is None else request.draws
    report = ImageReport(measured.data, split, draws=draws, trained_on=measured.trained_on)
    with trained.sharing() as shard:
        found = report.sample(trained.on(shard), num, request.seed)

    def write() -> SavedSamples:
        folder, scores = request.out, report.measure(found)
        found.write(folder)
        report.plot(found, folder / request.picture)
        facts = {
            "sampling": trained.sampling,
            "split": split,
            **measured.facts(request),
            "num_samples": len(found),
            "network_calls_per_sample": scores["network_calls_per_draw"],
            "seconds": found.seconds,
            **scores,
        }
        return SavedSamples(
            facts,
            f"{counted(len(found), 'image')} of {measured.name}, "
            f"{counted(found.draws, 'sample')} each, in "
            f"{found.seconds:.1f} s: relative L2 {scores['relative_l2']:.3f} (mean image "
            f"{scores['mean_image_relative_l2']:.3f}); {folder / request.picture}",
        )

    return Samples(found, write)


_SAME = 1e-4
"""Numbers of an image that are so far apart are the same: levels read from a file."""

_BASELINES = {"mean_image": "mean image", "ridge": "ridge regression"}
_METRICS = (
    *("condition_gap", "condition_gap_standard_error", "spread_ratio", "pixel_accuracy"),
    "relative_l2_single",
)


def _head(comparison: Comparison) -> str:
    draws = comparison.models[0].mean("draws_per_image")
    return f"relative L2 of {f'the mean of {draws:g} samples' if draws > 1 else 'one sample'}"


def _comparison_notes(comparison: Comparison) -> list[str]:
    model = comparison.reference("relative_l2")
    num = model.values["relative_l2"].shape[1]
    return [
        f"Images are sampled given the maps of the first {num:,} of the {comparison.split} split, "
        f"{model.mean('draws_per_image'):g} of each, and of those of another image "
        "with the same noise; relative L2 is the norm of the error by that of the image."
    ]


class ImageCells(CellMeasurement):
    """Relative L2 of the mean of the samples given a map; of ids the bound as well."""

    measures = {"relative_l2": Measure("relative L2", _head, _comparison_notes), "nelbo": BOUND}
    columns = (
        Column("relative L2 of one sample", "relative_l2_single", 3),
        Column("rise with maps of others", "condition_gap", 3, up=True),
        Column("spread by errors (1 is right)", "spread_ratio", 2, up=None),
        Column("pixels right", "pixel_accuracy", 1, up=True, share=True),
    )
    axes = (Column("relative L2", "relative_l2", 3),)

    def num_draws(self, config: DictConfig) -> int:
        """Value of ``eval.draws``."""
        return int(config.eval.draws)

    def refusal(self, algorithm: Algorithm, num_samples: int) -> str | None:
        if algorithm.state == "tokens" or num_samples:
            return None
        return (
            f"eval.num_samples=0: images of {algorithm.name} are compared by samples; give at "
            "least 1, the number of held-out images"
        )

    def check_same(self, one: Dataset, other: Dataset) -> None:
        """``ValueError`` unless both hold the same images with the same maps in the same splits."""
        for name in SPLITS:
            first, second = one.splits[name], other.splits[name]
            images, others = (as_images(data.splits[name].x0).double() for data in (one, other))
            same = images.shape == others.shape and bool(((images - others).abs() <= _SAME).all())
            if not same or not torch.equal(maps_of(first), maps_of(second)):
                raise ValueError(
                    f"the {name} split differs: {one.summary()}; {other.summary()}; expected the "
                    "same images and maps"
                )

    def measure(
        self, model: Model, data: Dataset, protocol: EvaluationProtocol, folder: Path
    ) -> dict[str, Any]:
        found: dict[str, Any] = {"metrics": {}}
        if isinstance(data, TokenDataset):
            found |= held_out_bounds(model.algorithm, data, protocol, device=model.device).as_dict()
        if protocol.num_samples:
            found |= score_images_of(model, data, protocol, folder)
        return found

    def baselines(self, data: Dataset, num: int) -> tuple[Baseline, ...]:
        """The mean training image and ridge regression."""
        examples = data.splits[held_out_split(data)]
        truth = as_images(examples.x0[:num])
        maps, fitted = maps_of(examples)[:num], fit_field_baselines(data).by_name
        found = []
        for name, title in _BASELINES.items():
            scores = score_images(fitted[name].predict(maps), truth, levels=data.levels)
            accuracy = scores.as_dict().get("pixel_accuracy", math.nan)
            values, metrics = {"relative_l2": scores.relative_errors}, {"pixel_accuracy": accuracy}
            found.append(Baseline(title, values, metrics))
        return tuple(found)

    def notes(self, comparison: Comparison) -> list[str]:
        return [f"The same images and maps for all: {data_and_sampling(comparison)}."]

    def show(self, comparison: Comparison, out: Path) -> list[str]:
        """The true images beside those of every model, trained with the first seed."""
        path, drawn = out / "images.png", {}
        if "relative_l2" not in comparison.measures:
            path.unlink(missing_ok=True)
            return []
        for name, file in sample_files(comparison, RECONSTRUCTIONS, path).items():
            with np.load(file) as arrays:
                truth, drawn[name] = arrays["truth"][:, 0], arrays["mean"][:, 0]
        if not drawn:
            return []
        draws = int(comparison.models[0].mean("draws_per_image"))
        plot_side_by_side(truth, drawn, path, draws=draws)
        return [path.name]


def score_images_of(
    model: Model, data: Dataset, protocol: EvaluationProtocol, folder: Path
) -> dict[str, Any]:
    """``terms.draws`` images from the map of each of the first ``terms.num_samples`` held-out
    images, against the true ones: ``relative_l2`` of the mean of the samples per image, and
    ``metrics`` of all. They are written into ``folder``.

    Raises ``ValueError`` if they are not finite.
    """
    report = ImageReport(data, held_out_split(data), draws=protocol.draws)
    drawn = report.sample(model, protocol.num_samples, protocol.seed)
    if not bool(drawn.mean.isfinite().all()):
        raise ValueError("training has diverged: images hold NaN or infinity")
    drawn.write(folder)
    errors = score_images(drawn.mean, drawn.truth, levels=drawn.levels).relative_errors
    numbers = score_reconstructions(drawn)  # baselines are scored once, not for every model
    shown = _METRICS if drawn.draws > 1 else _METRICS[:-1]
    return {
        "relative_l2": errors.tolist(),
        "metrics": {
            "num_images": len(drawn),
            "draws_per_image": drawn.draws,
            "network_calls": numbers["network_calls_per_draw"],
            "seconds_per_1000_samples": 1000 * drawn.seconds / (len(drawn) * drawn.draws),
            **{name: numbers[name] for name in shown if name in numbers},
        },
    }
