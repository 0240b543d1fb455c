"""``evaluate`` of a model of dialogues: summaries beside baselines, and the bound."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.cli.checkpoint_data import (
    BOUND_DRAWS,
    checkpoint_facts,
    held_out_bound,
    held_out_split,
    name_of_split,
    readable_data,
)
from discrete_diffusion.cli.summary_samples import summarise
from discrete_diffusion.evaluation import (
    BoundEstimate,
    SourceGap,
    Summaries,
    SummarisingScores,
    SummaryReport,
    example_summaries,
    measure_source_gap,
    summary_notes,
    summary_section,
    write_summaries,
)
from discrete_diffusion.evaluation.json_values import write_metrics
from discrete_diffusion.evaluation.table import TableRow, TableSection, markdown
from discrete_diffusion.sampling import rows_at_once

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.cli.computing import Computing
    from discrete_diffusion.cli.sample_source import SampleSource
    from discrete_diffusion.data.dialogue import PairDataset
    from discrete_diffusion.shards import Shard

logger = logging.getLogger(__name__)

NUM_DIALOGUES = 500


@dataclass(frozen=True)
class SummaryEvaluation:
    """``facts``: how all was measured, for ``metrics.json``. ``gap``: None where the bound is of
    something else than a summary, or of one pair."""

    facts: dict[str, Any]
    found: Summaries
    scores: SummarisingScores
    bound: BoundEstimate
    gap: SourceGap | None

    def sections(self) -> list[TableSection]:
        return [
            summary_section(self.scores),
            TableSection("the model on held-out data", tuple(self._bound_rows())),
        ]

    def notes(self) -> list[str]:
        notes = [f"Dialogues: {self.facts['reference']}.", *summary_notes(self.scores)]
        if self.gap is not None:
            notes.append("Nats are per summary: as ids it has more tokens, as EOS fills it up.")
        return notes

    def write(self, folder: Path) -> None:
        """Numbers, table and summaries; logs the first ones."""
        gap = {} if self.gap is None else self.gap.as_dict()
        write_metrics(
            folder, {**self.facts, **self.bound.as_dict(), **gap, **self.scores.as_dict()}
        )
        (folder / "table.md").write_text(markdown(self.sections(), self.notes()))
        write_summaries(folder, self.found)
        logger.info("%s", example_summaries(self.found))

    def draw(self, folder: Path) -> None:
        """There is no picture of a text."""

    def _bound_rows(self) -> list[TableRow]:
        bound = self.bound
        of = "a summary given its dialogue" if self.gap else "what the stage is trained on"
        rows = [
            TableRow(
                f"nelbo_{bound.quantity}",
                f"{bound.per_sample:.3f} ± {bound.standard_error:.3f}",
                meaning=f"held-out bound on -log p of {of}, nats (± standard error)",
            )
        ]
        if self.gap is not None:
            numbers = self.gap.as_dict()
            error = numbers["nelbo_source_gap_standard_error"]
            rows += [
                TableRow(
                    "nelbo_shuffled_source",
                    f"{numbers['nelbo_shuffled_source']:.3f}",
                    meaning="the same beside the dialogue of another pair",
                ),
                TableRow(
                    "nelbo_source_gap",
                    f"{numbers['nelbo_source_gap']:.3f} ± {error:.3f}",
                    meaning="how much more that is; 0 if dialogues are not used",
                ),
            ]
        return rows


def evaluate_summaries(
    config: DictConfig, source: SampleSource, here: Computing
) -> SummaryEvaluation:
    """Measure a model of dialogues on those that its checkpoint held out.

    Raises ``ValueError`` if the data of the checkpoint cannot be read.
    """
    source.check_weights()
    data = readable_data(source)
    split = held_out_split(data, config.split)
    num = NUM_DIALOGUES if config.num_samples is None else config.num_samples
    with here.shared() as shard:
        found = summarise(config, source, data, split, num=num, shard=shard)
        bound = held_out_bound(config, source, data, split, shard)
        gap = _gap(config, source, data, split, shard)
    facts = {
        **checkpoint_facts(config, source, data),
        "sampling": source.sampling,
        "sampling_steps": config.steps,
        "num_samples": len(found),
        "seconds": found.seconds,
        "reference": name_of_split(source.checkpoint, data, split),
        "num_reference": len(data.splits[split]),
    }
    return SummaryEvaluation(facts, found, SummaryReport(data).scores(found), bound, gap)


def _gap(
    config: DictConfig, source: SampleSource, data: PairDataset, split: str, shard: Shard
) -> SourceGap | None:
    """Of the whole split."""
    algorithm = source.checkpoint.algorithm
    if not data.others(split) or (algorithm.bound or data.bound) != data.bound:
        return None
    return measure_source_gap(
        algorithm,
        data,
        split,
        num=None,
        draws=BOUND_DRAWS if config.bound_draws is None else config.bound_draws,
        seed=config.seed,
        batch_size=config.batch_size or rows_at_once(source.device),
        device=source.device,
        shard=shard,
    )
