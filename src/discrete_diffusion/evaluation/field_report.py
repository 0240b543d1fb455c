"""What is said of reconstructed images: numbers, a file, a picture."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from discrete_diffusion.data.base import Dataset
from discrete_diffusion.evaluation.field_files import write_reconstructions
from discrete_diffusion.evaluation.field_scores import (
    FieldBaselines,
    ReconstructionScores,
    fit_field_baselines,
    score_reconstructions,
)
from discrete_diffusion.evaluation.reconstructing import Reconstructions
from discrete_diffusion.viz import draw_reconstructions


class FieldReport:
    """Scores of reconstructions beside those of baselines, and what they look like.

    The baselines are fitted once, to the training split of ``data``: images or ids of pixels, with
    maps.
    """

    def __init__(self, data: Dataset) -> None:
        self.data = data

    @cached_property
    def baselines(self) -> FieldBaselines:
        """Fitted when first asked for, once."""
        return fit_field_baselines(self.data)

    def scores(self, found: Reconstructions) -> ReconstructionScores:
        """Model and baselines."""
        return score_reconstructions(found, self.data, baselines=self.baselines)

    def measure(self, found: Reconstructions) -> dict[str, float]:
        """Scores by name; none of no image."""
        return self.scores(found).as_dict() if len(found) else {}

    def save(self, found: Reconstructions, folder: Path) -> None:
        """Write ``samples.npz`` (see ``write_reconstructions``) and ``samples.png`` into a
        folder."""
        if len(found) == 0:
            return
        write_reconstructions(folder, found)
        self.draw(found, folder / "samples.png")

    def draw(self, found: Reconstructions, path: Path) -> None:
        """Draw the first samples: map (in training standard deviations), truth, mean of draws,
        deviation over draws, error."""
        if len(found) == 0:
            return
        draw_reconstructions(
            self.baselines.standardised(found.dtn).numpy(),
            found.truth[:, 0].numpy(),
            found.mean[:, 0].numpy(),
            found.deviation[:, 0].numpy(),
            path,
            draws=found.draws,
        )
