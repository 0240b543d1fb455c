"""``evaluate`` of a model of images with maps: reconstructions beside baselines, and the bound."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.domains.domain import Evaluation
from discrete_diffusion.domains.eit.changed_data import measured_data
from discrete_diffusion.domains.eit.image_report import ImageReport
from discrete_diffusion.domains.eit.image_scores import ReconstructionScores
from discrete_diffusion.domains.eit.image_table import field_notes, field_section
from discrete_diffusion.domains.eit.reconstructing import Reconstructions
from discrete_diffusion.domains.eit.sampling import image_report
from discrete_diffusion.evaluation.bound import BoundEstimate
from discrete_diffusion.evaluation.held_out import (
    checkpoint_facts,
    held_out_bound,
    held_out_split,
    sampling_facts,
)
from discrete_diffusion.evaluation.table import TableRow, TableSection

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.evaluation.trained_model import TrainedModel

NUM_IMAGES = 200


@dataclass(frozen=True)
class ImageEvaluation(Evaluation):
    """``facts``: how all was measured, for ``metrics.json``."""

    facts: dict[str, Any]
    report: ImageReport
    found: Reconstructions
    scores: ReconstructionScores
    bound: BoundEstimate

    def sections(self) -> list[TableSection]:
        bound, name = self.bound, f"nelbo_{self.bound.quantity}"
        row = TableRow(
            name,
            f"{bound.per_sample:.3f} ± {bound.standard_error:.3f}",
            meaning="held-out bound on -log p of an image given its map, nats (± standard error)",
        )
        return [field_section(self.scores), TableSection("the model on held-out data", (row,))]

    def notes(self) -> list[str]:
        images = f"Images: {self.facts['reference']}."
        if "changed_data" in self.facts:
            images += (
                " Baselines and the scale of maps are of the data that was trained on, which holds "
                f"{self.facts['num_trained_on']} of these images."
            )
        return [images, *field_notes(self.scores)]

    def metrics(self) -> dict[str, Any]:
        return {**self.facts, **self.bound.as_dict(), **self.scores.as_dict()}

    def save(self, folder: Path) -> None:
        """The reconstructions."""
        self.found.write(folder)

    def draw(self, folder: Path) -> None:
        """The first images."""
        self.report.draw(self.found, folder / "samples.png")


def evaluate_images(config: DictConfig, trained: TrainedModel) -> ImageEvaluation:
    """Measure a model of images with maps on those that its checkpoint held out, or on those that
    keys under ``data`` make.

    Raises ``ValueError`` if the data cannot be read, and for such a key that cannot be.
    """
    trained.check_weights()
    measured = measured_data(config, trained)
    data = measured.data
    split = held_out_split(data, config.split)
    num = NUM_IMAGES if config.num_samples is None else config.num_samples
    report = image_report(config, data, split, measured.trained_on)
    with trained.sharing() as shard:
        model = trained.on(shard)
        found = report.sample(model, num, config.seed)
        bound = held_out_bound(config, model, data, split)
    facts = {
        **checkpoint_facts(config, trained, data),
        **sampling_facts(config, trained),
        "num_samples": len(found),
        "seconds": found.seconds,
        **measured.facts(split),
    }
    return ImageEvaluation(facts, report, found, report.scores(found), bound)
