"""Commands ``sample``, ``evaluate`` and ``compare`` for models of images with maps, as numbers or
ids."""

from __future__ import annotations

import math
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
    dtn_maps_of,
    fit_field_baselines,
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

NUM_SAMPLED, NUM_EVALUATED = 64, 200
"""Default numbers of images of ``sample`` and of ``evaluate``."""

_METHODS = {
    "{}": "the mean of the samples",
    "{}_single": "one sample",
    "{}_shuffled": "the mean of samples given another example's map",
    "ridge_{}": "linear regression on the map",
    "mean_image_{}": "the mean training image",
    "ones_{}": "the background everywhere",
}
_METRICS = {
    "relative_l2": "norm of the error by that of the image, mean over images",
    "mean_squared_error": "mean squared error of a pixel",
    "pixel_accuracy": "share of pixels whose nearest level is the true one",
}
_OTHER_METRICS = {
    "majority_pixel_accuracy": "share of the most frequent level: what a constant image scores",
    "condition_gap": "relative L2 from another's map less that from the own one; 0: maps unused",
    "spread_ratio": "spread of the samples by what their errors call for; 1: an exact posterior",
}
_BASELINES = {"mean_image": "mean image", "ridge": "ridge regression"}
_COMPARED = (
    *("condition_gap", "condition_gap_standard_error", "spread_ratio", "pixel_accuracy"),
    "relative_l2_single",
)
_SAME = 1e-4
"""Pixels that differ by at most this count as equal, as a file may store levels rounded."""


@dataclass(frozen=True)
class ImageEvaluation(Evaluation):
    """Result of ``evaluate_images``. ``facts``: settings of the measurement, for ``metrics.json``.
    ``scores``: result of ``score_reconstructions``."""

    facts: dict[str, Any]
    report: ImageReport
    found: Reconstructions
    scores: dict[str, float]
    bound: BoundEstimate
    measured_on: MeasuredData

    def sections(self) -> list[TableSection]:
        # all metrics of all methods
        scores, others = self.scores, _OTHER_METRICS.items()
        rows = metric_rows(scores, _METRICS, _METHODS)
        rows += [metric_row(name, scores, text) for name, text in others if name in scores]
        bound = bound_row(self.bound, "an image given its map")
        return [
            TableSection("images, from their maps", tuple(rows)),
            TableSection("the model on held-out data", (bound,)),
        ]

    def notes(self) -> list[str]:
        scores = self.scores
        notes = [
            f"Images: {self.facts['reference']}.",
            *self.measured_on.notes(),
            f"{scores['num_images']:,} held-out images, {scores['draws_per_image']} samples each, "
            f"{scores['network_calls_per_draw']:g} network calls a sample; ± is the standard error "
            "over images.",
            "One sample of an exact model has twice the squared error of the posterior mean.",
        ]
        if "ridge_penalty" in scores:
            notes.append(
                f"Ridge regression: penalty {scores['ridge_penalty']:g}, the best for training "
                "images left out one by one."
            )
        return notes

    def metrics(self) -> dict[str, Any]:
        return {**self.facts, **self.bound.as_dict(), **self.scores}

    def save(self, folder: Path) -> None:
        self.found.write(folder)

    def plot(self, folder: Path) -> None:
        self.report.plot(self.found, folder / "samples.png")


def _image_report(request: SampleRequest | EvaluateRequest, measured: MeasuredData) -> ImageReport:
    draws = DRAWS if request.samples_per_condition is None else request.samples_per_condition
    return ImageReport(measured.data, measured.split, draws=draws, trained_on=measured.trained_on)


def evaluate_images(request: EvaluateRequest, trained: TrainedModel) -> ImageEvaluation:
    """Evaluate a model of images with maps on the held-out images of its checkpoint, or on data
    from keys under ``data``. Raises ``ValueError`` if the data cannot be read, or for an impossible
    key."""
    # data, number of images and steps to show
    trained.check_weights()
    measured = measured_data(request, trained, needs_training=True)
    data, split, report = measured.data, measured.split, _image_report(request, measured)
    num = NUM_EVALUATED if request.num_samples is None else request.num_samples
    parts = progress.parts(
        f"sampling {report.draws} images given each of {len(data.splits[split][:num]):,} maps",
        f"measuring the model on {num_held_out(request, data, split):,} held-out samples",
    )
    # samples, then the bound
    with trained.sharing() as shard:
        model = trained.model(shard)
        with next(parts):
            found = report.sample(model, num, request.seed)
            keep_samples(request, shard, found.write)
        with next(parts):
            bound = held_out_bound(request, model, data, split)
    # settings of the measurement
    facts = {
        **checkpoint_facts(request, trained, data),
        **sampling_facts(request, trained),
        "num_samples": len(found),
        "seconds": found.seconds,
        **measured.facts(request),
    }
    scores = score_reconstructions(found, report.baselines)
    return ImageEvaluation(facts, report, found, scores, bound, measured)


def sample_images(request: SampleRequest, trained: TrainedModel) -> Samples:
    """Sample ``draws`` images from the map of each of the first ``num_samples`` images, held out or
    from keys under ``data``. The ``Reconstructions`` are saved as ``samples.npz`` and
    ``samples.png``."""
    measured = measured_data(request, trained, needs_training=True)
    # sampled now, written when all is checked
    report = _image_report(request, measured)
    num = NUM_SAMPLED if request.num_samples is None else request.num_samples
    with trained.sharing() as shard:
        found = report.sample(trained.model(shard), num, request.seed)

    def write() -> SavedSamples:
        scores, picture = report.measure(found), request.out / request.picture
        found.write(request.out)
        report.plot(found, picture)
        # numbers of metrics.json
        facts = {
            "sampling": trained.sampling,
            "split": measured.split,
            **measured.facts(request),
            "num_samples": len(found),
            "network_calls_per_sample": scores["network_calls_per_draw"],
            "seconds": found.seconds,
            **scores,
        }
        return SavedSamples(
            facts,
            f"{counted(len(found), 'image')} of {measured.name}, "
            f"{counted(found.draws, 'sample')} each, in {found.seconds:.1f} s: relative L2 "
            f"{scores['relative_l2']:.3f} (mean image {scores['mean_image_relative_l2']:.3f}); "
            f"{picture}",
        )

    return Samples(found, write)


def _relative_l2_head(comparison: Comparison) -> str:
    draws = comparison.models[0].mean("draws_per_image")
    return f"relative L2 of {f'the mean of {draws:g} samples' if draws > 1 else 'one sample'}"


def _relative_l2_notes(comparison: Comparison) -> list[str]:
    model = comparison.reference("relative_l2")
    num = model.values["relative_l2"].shape[1]
    return [
        f"Images are sampled given the maps of the first {num:,} of the {comparison.split} split, "
        f"{model.mean('draws_per_image'):g} of each, and of those of another image "
        "with the same noise; relative L2 is the norm of the error by that of the image."
    ]


class ImageCells(CellMeasurement):
    """Measures to compare: relative L2 of the mean of the samples given a map, and for ids the
    bound."""

    measures = {
        "relative_l2": Measure("relative L2", _relative_l2_head, _relative_l2_notes),
        "nelbo": BOUND,
    }
    columns = (
        Column("relative L2 of one sample", "relative_l2_single", 3),
        Column("rise with maps of others", "condition_gap", 3, up=True),
        Column("spread by errors (1 is right)", "spread_ratio", 2, up=None),
        Column("pixels right", "pixel_accuracy", 1, up=True, share=True),
    )
    axes = (Column("relative L2", "relative_l2", 3),)

    def num_draws(self, config: DictConfig) -> int:
        return int(config.eval.samples_per_condition)

    def refusal(self, algorithm: Algorithm, num_samples: int) -> str | None:
        if algorithm.state == "tokens" or num_samples:
            return None
        return (
            f"eval.num_samples=0: images of {algorithm.name} are compared by samples; give at "
            "least 1, the number of held-out images"
        )

    def check_same(self, one: Dataset, other: Dataset) -> None:
        """Raise ``ValueError`` unless both hold the same images with the same maps in the same
        splits."""
        for name in SPLITS:
            first, second = one.splits[name], other.splits[name]
            # ids and fields are compared as conductivities
            images, others = as_images(first.x0).double(), as_images(second.x0).double()
            same = images.shape == others.shape and bool(((images - others).abs() <= _SAME).all())
            if not same or not torch.equal(dtn_maps_of(first), dtn_maps_of(second)):
                raise ValueError(
                    f"the {name} split differs: {one.summary()}; {other.summary()}; expected the "
                    "same images and maps"
                )

    def measure(
        self, model: Model, data: Dataset, protocol: EvaluationProtocol, folder: Path
    ) -> dict[str, Any]:
        numbers: dict[str, Any] = {"metrics": {}}
        if isinstance(data, TokenDataset):
            bounds = held_out_bounds(model.algorithm, data, protocol, device=model.device)
            numbers |= bounds.as_dict()
        if protocol.num_samples:
            numbers |= score_images_of(model, data, protocol, folder)
        return numbers

    def baselines(self, data: Dataset, num: int) -> tuple[Baseline, ...]:
        """Baselines: the mean training image and ridge regression."""
        examples = data.splits[held_out_split(data)]
        truth = as_images(examples.x0[:num])
        maps, fitted = dtn_maps_of(examples)[:num], fit_field_baselines(data).by_name
        baselines = []
        # errors of each baseline on the held-out images
        for name, title in _BASELINES.items():
            scores = score_images(fitted[name].predict(maps), truth, levels=data.levels)
            accuracy = scores.as_dict().get("pixel_accuracy", math.nan)
            values = {"relative_l2": scores.relative_errors}
            baselines.append(Baseline(title, values, {"pixel_accuracy": accuracy}))
        return tuple(baselines)

    def notes(self, comparison: Comparison) -> list[str]:
        return [f"The same images and maps for all: {data_and_sampling(comparison)}."]

    def show(self, comparison: Comparison, out: Path) -> list[str]:
        """Plot the true images with those of every model trained with the first seed."""
        path, means = out / "images.png", {}
        if "relative_l2" not in comparison.measures:
            path.unlink(missing_ok=True)
            return []
        # truth, and the mean samples of each model
        for name, file in sample_files(comparison, RECONSTRUCTIONS, path).items():
            with np.load(file) as arrays:
                truth, means[name] = arrays["truth"][:, 0], arrays["mean"][:, 0]
        if not means:
            return []
        draws = int(comparison.models[0].mean("draws_per_image"))
        plot_side_by_side(truth, means, path, draws=draws)
        return [path.name]


def score_images_of(
    model: Model, data: Dataset, protocol: EvaluationProtocol, folder: Path
) -> dict[str, Any]:
    """Sample ``protocol.draws`` images from the map of each of the first ``protocol.num_samples``
    held-out images; return ``relative_l2`` of the mean of the samples per image, and ``metrics``
    over all. The images are written into ``folder``. Raises ``ValueError`` if they are not
    finite."""
    report = ImageReport(data, held_out_split(data), draws=protocol.draws)
    found = report.sample(model, protocol.num_samples, protocol.seed)
    if not bool(found.mean.isfinite().all()):
        raise ValueError("training has diverged: images hold NaN or infinity")
    found.write(folder)
    # errors per image, and a few numbers for the table
    errors = score_images(found.mean, found.truth, levels=found.levels).relative_errors
    numbers = score_reconstructions(found)  # baselines are scored once, not for every model
    shown = _COMPARED if found.draws > 1 else _COMPARED[:-1]
    return {
        "relative_l2": errors.tolist(),
        "metrics": {
            "num_images": len(found),
            "draws_per_image": found.draws,
            "network_calls": numbers["network_calls_per_draw"],
            "seconds_per_1000_samples": 1000 * found.seconds / (len(found) * found.draws),
            **{name: numbers[name] for name in shown if name in numbers},
        },
    }
