"""``evaluate`` of a model of dialogues: summaries beside baselines, and the bound."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from continuous_states.dialogue.sampling import warn_of_stage
from continuous_states.dialogue.summarising import Summaries
from continuous_states.dialogue.summary_report import SummaryReport
from continuous_states.dialogue.summary_scores import SourceGap, score_summarising
from continuous_states.reporting import bound_row, held_out_bound, metric_row, metric_rows
from discrete_diffusion.contracts import BoundEstimate
from discrete_diffusion.evaluation import (
    BOUND_DRAWS,
    Evaluation,
    MeasuredData,
    TableRow,
    TableSection,
    checkpoint_facts,
    keep_samples,
    measured_data,
    num_held_out,
    plus_minus,
    sampling_facts,
)
from discrete_diffusion.runtime import progress

if TYPE_CHECKING:
    from discrete_diffusion.evaluation import EvaluateRequest, TrainedModel

logger = logging.getLogger(__name__)

NUM_DIALOGUES = 500

_WHO = {
    "{}": "the model",
    "shuffled_{}": "the model, from the dialogue of another pair",
    "another_{}": "the reference of another pair",
    "most_frequent_{}": "the most frequent training summary",
}
_WHAT = {
    "rouge_l": "F1 of the longest common subsequence of words with the reference",
    "exact_match": "share of summaries that are the reference",
    "slot_accuracy": "share of right slots",
    "distinct": "share of distinct summaries",
}


@dataclass(frozen=True)
class SummaryEvaluation(Evaluation):
    """``facts``: how all was measured, for ``metrics.json``. ``scores``: as of
    ``score_summarising``. ``gap``: None where the bound is of something else than a summary, or of
    one pair."""

    facts: dict[str, Any]
    found: Summaries
    scores: dict[str, float]
    bound: BoundEstimate
    gap: SourceGap | None
    measured_on: MeasuredData

    def sections(self) -> list[TableSection]:
        return [
            summary_section(self.scores),
            TableSection("the model on held-out data", tuple(self._bound_rows())),
        ]

    def notes(self) -> list[str]:
        notes = [f"Dialogues: {self.facts['reference']}.", *self.measured_on.notes()]
        notes += summary_notes(self.scores)
        if self.gap is not None:
            notes.append("Nats are per summary: as ids it has more tokens, as EOS fills it up.")
        return notes

    def metrics(self) -> dict[str, Any]:
        gap = {} if self.gap is None else self.gap.as_dict()
        return {**self.facts, **self.bound.as_dict(), **gap, **self.scores}

    def save(self, folder: Path) -> None:
        """The summaries; logs the first ones."""
        self.found.write(folder)
        logger.info("%s", self.found.examples())

    def _bound_rows(self) -> list[TableRow]:
        if self.gap is None:
            return [bound_row(self.bound, "what the stage is trained on")]
        numbers, name = self.gap.as_dict(), "nelbo_source_gap"
        gap = plus_minus(numbers[name], numbers[f"{name}_standard_error"])
        shuffled = f"{numbers['nelbo_shuffled_source']:.3f}"
        return [
            bound_row(self.bound, "a summary given its dialogue"),
            TableRow(
                "nelbo_shuffled_source",
                shuffled,
                meaning="the same beside the dialogue of another pair",
            ),
            TableRow(name, gap, meaning="how much more that is; 0 if dialogues are not used"),
        ]


def evaluate_summaries(request: EvaluateRequest, trained: TrainedModel) -> SummaryEvaluation:
    """Measure a model of dialogues on those that its checkpoint held out, or on other ones.

    Raises ``ValueError`` if the data of the checkpoint cannot be read.
    """
    trained.check_weights()
    measured_on = measured_data(request, trained)
    data, split = measured_on.data, measured_on.split
    num = NUM_DIALOGUES if request.num_samples is None else request.num_samples
    report = SummaryReport(data, split)
    warn_of_stage(trained)
    parts = progress.parts(
        f"summarising {len(data.splits[split][:num]):,} dialogues",
        f"measuring the model on {num_held_out(request, data, split):,} held-out samples",
        "measuring it beside other dialogues",
    )
    with trained.sharing() as shard:
        model = trained.on(shard)
        with next(parts):
            found = report.sample(model, num, request.seed)
            keep_samples(request, shard, found.write)
        with next(parts):
            bound = held_out_bound(request, model, data, split)
        with next(parts):
            draws = BOUND_DRAWS if request.bound_draws is None else request.bound_draws
            gap = report.source_gap(model, request.num_held_out, draws=draws, seed=request.seed)
    facts = {
        **checkpoint_facts(request, trained, data),
        **sampling_facts(request, trained),
        "num_samples": len(found),
        "seconds": found.seconds,
        **measured_on.facts(request),
    }
    scores = score_summarising(found, data)
    return SummaryEvaluation(facts, found, scores, bound, gap, measured_on)


def summary_section(scores: Mapping[str, float]) -> TableSection:
    """Everybody's numbers, one metric after the other (± standard error over summaries), then the
    model's slots."""
    slots = [k for k in scores if k.startswith("slot_") and not k.endswith("_standard_error")]
    rows = metric_rows(scores, _WHAT, _WHO)
    rows += [
        metric_row(name, scores, "share of summaries with this slot right; the model")
        for name in slots
        if name not in _WHAT
    ]
    return TableSection("summaries of dialogues", tuple(rows))


def summary_notes(scores: Mapping[str, float]) -> list[str]:
    """Sentences about the samples behind the numbers of ``summary_section``."""
    return [
        f"{scores['num_summaries']:,} held-out dialogues, one summary each, "
        f"{scores['network_calls_per_summary']:g} network calls a summary; ± is the standard error "
        "over summaries."
    ]
