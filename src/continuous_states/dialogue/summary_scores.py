"""Generated summaries, and what is guessed without a network, against the references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from continuous_states.dialogue.dataset import PairDataset
from continuous_states.dialogue.metrics import SummaryScores, most_frequent, score_summaries
from continuous_states.dialogue.splitting import nearest_other
from continuous_states.dialogue.summarising import Summaries
from discrete_diffusion.data import Examples
from discrete_diffusion.evaluation import (
    MeasurementSettings,
    SampleBounds,
    sample_bounds,
    standard_error,
)

if TYPE_CHECKING:
    from discrete_diffusion.sampling import Model


def score_summarising(found: Summaries, data: PairDataset) -> dict[str, float]:
    """Scores for ``metrics.json``: ``SummaryScores`` of the summaries under their own names;
    after ``shuffled_``, of those generated from the dialogue of another pair, if there are any;
    after the names of ``summary_baselines``, of those. Of ``data`` only the training split is read.

    Raises ``ValueError`` if nothing was summarised.
    """
    out = score_summaries(found.generated, found.references, data.slots).as_dict()
    if found.shuffled:
        shuffled = score_summaries(found.shuffled, found.references, data.slots)
        out |= shuffled.as_dict("shuffled_")
    for name, scores in summary_baselines(found.dialogues, found.references, data).items():
        out |= scores.as_dict(f"{name}_")
    calls = float(found.nfe.mean())
    return out | {"num_summaries": len(found), "network_calls_per_summary": calls}


def summary_baselines(
    dialogues: Sequence[str], references: Sequence[str], data: PairDataset
) -> dict[str, SummaryScores]:
    """``most_frequent``, the most frequent training summary, where there is one, and, where there
    are two different dialogues, ``another``, the reference of another pair."""
    guesses = {}
    if training := [pair.summary for pair in data.pairs["train"]]:
        guesses["most_frequent"] = [most_frequent(training)] * len(references)
    if others := nearest_other(dialogues):
        guesses["another"] = [references[k] for k in others]
    return {name: score_summaries(g, references, data.slots) for name, g in guesses.items()}


@dataclass(frozen=True)
class SourceGap:
    """Bounds of a summary beside its own dialogue and beside that of another pair of the split
    (``PairDataset.others``), on -log p(summary | dialogue), with the same noise.
    """

    own: SampleBounds
    shuffled: SampleBounds

    def as_dict(self) -> dict[str, float]:
        """Nats per summary, nats per token and the gaps for ``metrics.json``, 0 if the dialogue
        is not used. Models that count the tokens of a summary differently have the same nats per
        summary."""
        gap = self.shuffled.nelbo - self.own.nelbo
        own, shuffled = (
            float(bounds.nelbo.sum() / bounds.num_real.sum())
            for bounds in (self.own, self.shuffled)
        )
        return {
            "nelbo_own_source": float(self.own.nelbo.mean()),
            "nelbo_shuffled_source": float(self.shuffled.nelbo.mean()),
            "nelbo_source_gap": float(gap.mean()),
            "nelbo_source_gap_standard_error": standard_error(gap),
            "nelbo_own_source_per_token": own,
            "nelbo_shuffled_source_per_token": shuffled,
            "nelbo_source_gap_per_token": shuffled - own,
        }


def source_gap(
    model: Model,
    data: PairDataset,
    split: str,
    rows: Tensor,
    *,
    draws: int,
    entropy: tuple[int, ...],
) -> SourceGap:
    """The gap of ``rows`` Int[M] of a split, ``draws`` noise samples each, a function of
    ``entropy``.

    Works for every algorithm whose ``loss`` bounds -log p(summary | dialogue). Raises
    ``ValueError`` for fewer than two pairs, or a split whose dialogues are all the same.
    """
    if len(rows) < 2:
        raise ValueError(
            f"{len(rows)} pairs of the {split} split; expected at least 2, to exchange dialogues"
        )

    def bounds(examples: Examples) -> SampleBounds:
        return sample_bounds(
            model.algorithm,
            [examples[some].batch() for some in rows.split(model.rows_at_once)],
            draws=draws,
            settings=MeasurementSettings(entropy, model.device, model.shard),
        )

    return SourceGap(bounds(data.splits[split]), bounds(data.shuffled(split)))
