"""``evaluate`` of a model of images with maps: reconstructions beside baselines, and the bound."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.cli.checkpoint_data import held_out_split
from discrete_diffusion.cli.field_samples import readable_data, reconstruct, refuse_mask_rate
from discrete_diffusion.data import BatchStream
from discrete_diffusion.evaluation import (
    BoundEstimate,
    FieldReport,
    Reconstructions,
    ReconstructionScores,
    estimate_bound,
    field_notes,
    field_section,
    write_reconstructions,
)
from discrete_diffusion.evaluation.json_values import write_metrics
from discrete_diffusion.evaluation.table import TableRow, TableSection, markdown
from discrete_diffusion.sampling import rows_at_once

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.cli.computing import Computing
    from discrete_diffusion.cli.sample_source import SampleSource

logger = logging.getLogger(__name__)

NUM_IMAGES = 200
_BOUND = (21,)
"""Keeps the draws of the bound apart from those of images."""


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
        return [f"Images: {self.facts['reference']}.", *field_notes(self.scores)]

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
    """Measure a model of images with maps on those that its checkpoint held out.

    Raises ``ValueError`` for ``reference`` and ``training``, and if the data cannot be read.
    """
    for key in ("reference", "training"):
        if config[key] is not None:
            source.check_diagrams(key, config[key])
    refuse_mask_rate(config)
    source.check_weights()
    data = readable_data(source)
    split = held_out_split(data, config.split)
    algorithm = source.checkpoint.algorithm
    num = NUM_IMAGES if config.num_samples is None else config.num_samples
    size = config.batch_size or rows_at_once(here.device)
    with here.shared() as shard:
        found = reconstruct(config, source, data, split, num=num, shard=shard)
        logger.info("measuring the model on %s held-out images", f"{len(data.splits[split]):,}")
        bound = estimate_bound(
            algorithm,
            BatchStream(data, split, batch_size=size, seed=config.seed),
            quantity=algorithm.bound or data.bound,
            draws=config.bound_draws,
            seed=config.seed,
            stream=_BOUND,
            device=source.device,
            shard=shard,
        )
    report = FieldReport(data, split)
    facts = {
        "checkpoint": source.path,
        "step": source.checkpoint.step,
        "data_fingerprint": data.fingerprint(),
        "trained_on_fingerprint": source.checkpoint.data_fingerprint,
        "seed": config.seed,
        "precision": str(config.precision),
        "ema": config.ema,
        "sampling": source.sampling,
        "sampling_steps": config.steps,
        "num_samples": len(found),
        "seconds": found.seconds,
        "reference": f"the {split} split of the checkpoint's data",
        "num_reference": len(data.splits[split]),
    }
    return FieldEvaluation(facts, report, found, report.scores(found), bound)
