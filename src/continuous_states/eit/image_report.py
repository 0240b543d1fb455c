"""The report on reconstructed images: numbers, a file, a picture."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from continuous_states.eit.image_scores import (
    FieldBaselines,
    fit_field_baselines,
    score_reconstructions,
)
from continuous_states.eit.pictures import plot_reconstructions
from continuous_states.eit.reconstructing import DRAWS, Reconstructions, reconstruct_held_out
from continuous_states.reporting import known_numbers
from discrete_diffusion.data import Dataset
from discrete_diffusion.evaluation import Headline, Report

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.sampling import Model


class ImageReport(Report):
    """Scores of reconstructions beside those of baselines, and what they look like.

    Samples are ``Reconstructions`` of the first images of a split of ``data``, ``draws`` of each.
    The baselines are fitted once, to the training split of ``trained_on``, ``data`` itself if it is
    None: images or ids of pixels, with maps.
    """

    headlines = (Headline("relative_l2"), Headline("condition_gap"))

    def __init__(
        self,
        data: Dataset,
        split: str = "val",
        *,
        draws: int = DRAWS,
        trained_on: Dataset | None = None,
    ) -> None:
        self.data, self.split, self.draws = data, split, draws
        self.trained_on = data if trained_on is None else trained_on

    @cached_property
    def baselines(self) -> FieldBaselines:
        """Fitted once, when first used."""
        return fit_field_baselines(self.trained_on)

    def sample(
        self, model: Model, num: int, seed: int, stream: tuple[int, ...] = ()
    ) -> Reconstructions:
        seed += sum(stream)
        return reconstruct_held_out(
            model, self.data, self.split, num=num, draws=self.draws, seed=seed
        )

    def measure(self, found: Reconstructions) -> dict[str, float]:
        """Scores by name; none of no image."""
        return score_reconstructions(found, self.baselines) if len(found) else {}

    def save(self, found: Reconstructions, folder: Path) -> None:
        """Write ``samples.npz`` (see ``Reconstructions.write``) and ``samples.png``."""
        if len(found):
            found.write(folder)
            self.plot(found, folder / "samples.png")

    def plot(self, found: Reconstructions, path: Path) -> None:
        """Plot the first examples: map (in training standard deviations), truth, mean of samples,
        deviation over samples, error."""
        if len(found) == 0:
            return
        plot_reconstructions(
            self.baselines.standardised(found.dtn).numpy(),
            found.truth[:, 0].numpy(),
            found.mean[:, 0].numpy(),
            found.deviation[:, 0].numpy(),
            path,
            draws=found.draws,
        )

    def summary(self, metrics: Mapping[str, Any]) -> str:
        if "relative_l2" not in metrics:
            bound = next(name for name in metrics if name.startswith("nelbo_"))
            return f"metrics: {bound} {metrics[bound]:.2f}"
        others = {
            "mean_image_relative_l2": "mean image",
            "ridge_relative_l2": "ridge",
            "relative_l2_shuffled": "shuffled maps",
        }
        return (
            f"metrics: relative L2 {metrics['relative_l2']:.3f} "
            f"({known_numbers(metrics, others)})  "
            f"[{metrics['num_images']} images, {metrics['draws_per_image']} samples each]"
        )


def report_of_training(data: Dataset, split: str, config: DictConfig) -> ImageReport:
    """Report with as many draws as ``eval.draws`` of a config of ``train`` says."""
    return ImageReport(data, split, draws=config.eval.draws)
