"""Generated summaries, and what is guessed without a network, against the references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from discrete_diffusion.algorithms import Algorithm
from discrete_diffusion.data.base import Examples
from discrete_diffusion.domains.dialogue import PairDataset, nearest_other
from discrete_diffusion.domains.dialogue.metrics import (
    SummaryScores,
    most_frequent,
    score_summaries,
)
from discrete_diffusion.domains.dialogue.summarising import Summaries
from discrete_diffusion.evaluation.bound import SampleBounds, sample_bounds
from discrete_diffusion.evaluation.intervals import standard_error
from discrete_diffusion.shards import Shard


@dataclass(frozen=True)
class SummarisingScores:
    """What ``score_summarising`` returns.

    ``model``: of the generated summaries. ``shuffled``: of those generated from the dialogue of
    another pair, None without one. ``baselines``: by name, ``another``, the reference of that pair,
    and ``most_frequent``, the most frequent training summary. ``calls``: of the network, per
    summary.
    """

    model: SummaryScores
    shuffled: SummaryScores | None
    baselines: Mapping[str, SummaryScores]
    calls: float

    @property
    def num_summaries(self) -> int:
        return len(self.model)

    def as_dict(self) -> dict[str, float]:
        """For ``metrics.json``: the model's numbers under their own names, those of others with
        whose they are before them."""
        out = self.model.as_dict()
        if self.shuffled is not None:
            out |= self.shuffled.as_dict("shuffled_")
        for name, scores in self.baselines.items():
            out |= scores.as_dict(f"{name}_")
        return out | {
            "num_summaries": self.num_summaries,
            "network_calls_per_summary": self.calls,
        }


def score_summarising(found: Summaries, data: PairDataset) -> SummarisingScores:
    """Model and baselines on the pairs that were summarised; only the training split is read beside
    them. Raises ``ValueError`` if nothing was summarised."""
    references = list(found.references)

    def scores(texts: Sequence[str]) -> SummaryScores:
        return score_summaries(texts, references, data.slots)

    return SummarisingScores(
        model=scores(found.generated),
        shuffled=scores(found.shuffled) if found.shuffled else None,
        baselines=summary_baselines(found.dialogues, references, data),
        calls=float(found.nfe.mean()),
    )


def summary_baselines(
    dialogues: Sequence[str], references: Sequence[str], data: PairDataset
) -> dict[str, SummaryScores]:
    """``most_frequent`` and, where there are two different dialogues, ``another``, as in
    ``SummarisingScores``."""
    frequent = most_frequent([pair.summary for pair in data.pairs["train"]])
    guesses = {"most_frequent": [frequent] * len(references)}
    if others := nearest_other(dialogues):
        guesses["another"] = [references[k] for k in others]
    return {name: score_summaries(g, references, data.slots) for name, g in guesses.items()}


@dataclass(frozen=True)
class SourceGap:
    """What a summary costs beside its own dialogue and beside that of another pair of the split
    (``PairDataset.others``), in bounds on -log p(summary | dialogue) with the same noise.
    """

    own: SampleBounds
    shuffled: SampleBounds

    @property
    def per_token(self) -> float:
        """Nats per token of the summary, beside its own dialogue."""
        return float(self.own.nelbo.sum() / self.own.num_real.sum())

    @property
    def shuffled_per_token(self) -> float:
        """The same beside another's."""
        return float(self.shuffled.nelbo.sum() / self.shuffled.num_real.sum())

    def as_dict(self) -> dict[str, float]:
        """For ``metrics.json``: nats per summary, nats per token, and the gaps, 0 if the dialogue
        is not used. Models that count the tokens of a summary differently have the same nats per
        summary."""
        gap = self.shuffled.nelbo - self.own.nelbo
        return {
            "nelbo_own_source": float(self.own.nelbo.mean()),
            "nelbo_shuffled_source": float(self.shuffled.nelbo.mean()),
            "nelbo_source_gap": float(gap.mean()),
            "nelbo_source_gap_standard_error": standard_error(gap),
            "nelbo_own_source_per_token": self.per_token,
            "nelbo_shuffled_source_per_token": self.shuffled_per_token,
            "nelbo_source_gap_per_token": self.shuffled_per_token - self.per_token,
        }


def measure_source_gap(
    algorithm: Algorithm,
    data: PairDataset,
    split: str,
    *,
    num: int | None,
    draws: int,
    seed: int,
    batch_size: int,
    device: torch.device | str = "cpu",
    shard: Shard | None = None,
) -> SourceGap:
    """``source_gap`` of the first ``num`` pairs of a split (None: of all)."""
    return source_gap(
        algorithm,
        data,
        split,
        torch.arange(len(data.pairs[split][:num])),
        draws=draws,
        seed=seed,
        batch_size=batch_size,
        device=device,
        shard=shard,
    )


def source_gap(
    algorithm: Algorithm,
    data: PairDataset,
    split: str,
    rows: Tensor,
    *,
    draws: int,
    seed: int,
    stream: tuple[int, ...] = (),
    batch_size: int,
    device: torch.device | str = "cpu",
    shard: Shard | None = None,
) -> SourceGap:
    """Of ``rows`` Int[M] of a split, ``draws`` draws of the noise each; ``stream`` as for
    ``estimate_bound``.

    Works for every algorithm whose ``loss`` bounds -log p(summary | dialogue). Raises
    ``ValueError`` for fewer than two pairs, or a split whose dialogues are all the same.
    """
    if len(rows) < 2:
        raise ValueError(
            f"{len(rows)} pairs of the {split} split; expected two to exchange dialogues"
        )

    def bounds(examples: Examples) -> SampleBounds:
        return sample_bounds(
            algorithm,
            [examples[some].batch() for some in rows.split(batch_size)],
            draws=draws,
            seed=seed,
            stream=stream,
            device=device,
            shard=shard,
        )

    return SourceGap(bounds(data.splits[split]), bounds(data.shuffled(split)))
