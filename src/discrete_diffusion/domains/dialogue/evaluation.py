"""``evaluate`` of a model of dialogues: summaries beside baselines, and the bound."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.domains.dialogue.sampling import warn_of_stage
from discrete_diffusion.domains.dialogue.summarising import Summaries
from discrete_diffusion.domains.dialogue.summary_report import (
    SummaryReport,
    example_summaries,
    summary_notes,
    summary_section,
    write_summaries,
)
from discrete_diffusion.domains.dialogue.summary_scores import SourceGap, SummarisingScores
from discrete_diffusion.domains.domain import Evaluation
from discrete_diffusion.evaluation.bound import BoundEstimate
from discrete_diffusion.evaluation.held_out import (
    BOUND_DRAWS,
    checkpoint_facts,
    held_out_bound,
    held_out_split,
    name_of_split,
    readable_data,
    sampling_facts,
)
from discrete_diffusion.evaluation.table import TableRow, TableSection

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.evaluation.trained_model import TrainedModel

logger = logging.getLogger(__name__)

NUM_DIALOGUES = 500


@dataclass(frozen=True)
class SummaryEvaluation(Evaluation):
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

    def metrics(self) -> dict[str, Any]:
        gap = {} if self.gap is None else self.gap.as_dict()
        return {**self.facts, **self.bound.as_dict(), **gap, **self.scores.as_dict()}

    def save(self, folder: Path) -> None:
        """The summaries; logs the first ones."""
        write_summaries(folder, self.found)
        logger.info("%s", example_summaries(self.found))

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


def evaluate_summaries(config: DictConfig, trained: TrainedModel) -> SummaryEvaluation:
    """Measure a model of dialogues on those that its checkpoint held out.

    Raises ``ValueError`` if the data of the checkpoint cannot be read.
    """
    trained.check_weights()
    data = readable_data(trained)
    split = held_out_split(data, config.split)
    num = NUM_DIALOGUES if config.num_samples is None else config.num_samples
    report = SummaryReport(data, split)
    warn_of_stage(trained)
    with trained.sharing() as shard:
        model = trained.on(shard)
        found = report.sample(model, num, config.seed)
        bound = held_out_bound(config, model, data, split)
        draws = BOUND_DRAWS if config.bound_draws is None else config.bound_draws
        gap = report.source_gap(model, None, draws=draws, seed=config.seed)
    facts = {
        **checkpoint_facts(config, trained, data),
        **sampling_facts(config, trained),
        "num_samples": len(found),
        "seconds": found.seconds,
        "reference": name_of_split(trained, data, split),
        "num_reference": len(data.splits[split]),
    }
    return SummaryEvaluation(facts, found, report.scores(found), bound, gap)
