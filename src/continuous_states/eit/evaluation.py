"""``evaluate`` of a model of images with maps: reconstructions beside baselines, and the bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from continuous_states.eit.image_report import ImageReport
from continuous_states.eit.image_scores import score_reconstructions
from continuous_states.eit.reconstructing import DRAWS, Reconstructions
from continuous_states.reporting import bound_row, held_out_bound, metric_row, metric_rows
from discrete_diffusion.contracts import BoundEstimate
from discrete_diffusion.evaluation import (
    Evaluation,
    MeasuredData,
    TableSection,
    checkpoint_facts,
    keep_samples,
    measured_data,
    num_held_out,
    sampling_facts,
)
from discrete_diffusion.runtime import progress

if TYPE_CHECKING:
    from discrete_diffusion.evaluation import EvaluateRequest, TrainedModel

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
