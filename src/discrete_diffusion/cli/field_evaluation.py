"""``evaluate`` of a model of images with maps: reconstructions beside baselines, and the bound."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.cli.changed_data import measured_data
from discrete_diffusion.cli.checkpoint_data import (
    checkpoint_facts,
    held_out_bound,
    held_out_split,
)
from discrete_diffusion.cli.field_samples import reconstruct
from discrete_diffusion.evaluation import (
    BoundEstimate,
    FieldReport,
    Reconstructions,
    ReconstructionScores,
    field_notes,
    field_section,
    write_reconstructions,
)
from discrete_diffusion.evaluation.json_values import write_metrics
from discrete_diffusion.evaluation.table import TableRow, TableSection, markdown

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.cli.computing import Computing
    from discrete_diffusion.cli.sample_source import SampleSource

NUM_IMAGES = 200


@dataclass(frozen=True)
class FieldEvaluation:
    """``facts``: how all was measured, for ``metrics.json``."""

    facts: dict[str, Any]
    report: FieldReport
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

    def write(self, folder: Path) -> None:
        """Numbers, table, reconstructions."""
        numbers = {**self.facts, **self.bound.as_dict(), **self.scores.as_dict()}
        write_metrics(folder, numbers)
        (folder / "table.md").write_text(markdown(self.sections(), self.notes()))
        write_reconstructions(folder, self.found)

    def draw(self, folder: Path) -> None:
        """The first images."""
        self.report.draw(self.found, folder / "samples.png")


def evaluate_fields(config: DictConfig, source: SampleSource, here: Computing) -> FieldEvaluation:
    """Measure a model of images with maps on those that its checkpoint held out, or on those that
    keys under ``data`` make.

    Raises ``ValueError`` if the data cannot be read, and for such a key that cannot be.
    """
    source.check_weights()
    measured = measured_data(config, source)
    data = measured.data
    split = held_out_split(data, config.split)
    num = NUM_IMAGES if config.num_samples is None else config.num_samples
    with here.shared() as shard:
        found = reconstruct(config, source, data, split, num=num, shard=shard)
        bound = held_out_bound(config, source, data, split, shard)
    report = FieldReport(measured.trained_on)
    facts = {
        **checkpoint_facts(config, source, data),
        "sampling": source.sampling,
        "sampling_steps": config.steps,
        "num_samples": len(found),
        "seconds": found.seconds,
        **measured.facts(split),
    }
    return FieldEvaluation(facts, report, found, report.scores(found), bound)
