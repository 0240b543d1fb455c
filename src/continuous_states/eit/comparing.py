"""Images from maps, as numbers or as ids: samples given held-out maps, against the true ones."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import DictConfig

from continuous_states.eit.image_report import ImageReport
from continuous_states.eit.image_scores import fit_field_baselines, score_reconstructions
from continuous_states.eit.metrics import score_images
from continuous_states.eit.pictures import plot_side_by_side
from continuous_states.eit.reconstructing import RECONSTRUCTIONS, as_images, maps_of
from continuous_states.reporting import data_and_sampling, sample_files
from discrete_diffusion.algorithms import Algorithm
from discrete_diffusion.data import SPLITS, Dataset, TokenDataset
from discrete_diffusion.domains import CellMeasurement
from discrete_diffusion.evaluation import (
    BOUND,
    Baseline,
    Column,
    Comparison,
    EvaluationProtocol,
    Measure,
    held_out_bounds,
    held_out_split,
)
from discrete_diffusion.sampling import Model

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


def _notes(comparison: Comparison) -> list[str]:
    model = comparison.reference("relative_l2")
    num = model.values["relative_l2"].shape[1]
    return [
        f"Images are sampled given the maps of the first {num:,} of the {comparison.split} split, "
        f"{model.mean('draws_per_image'):g} of each, and of those of another image "
        "with the same noise; relative L2 is the norm of the error by that of the image."
    ]


class ImageCells(CellMeasurement):
    """Relative L2 of the mean of the samples given a map; of ids the bound as well."""

    measures = {"relative_l2": Measure("relative L2", _head, _notes), "nelbo": BOUND}
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
