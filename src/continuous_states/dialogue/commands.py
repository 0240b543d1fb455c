"""Commands."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig
from torch import Tensor

from continuous_states.dialogue.dataset import PairDataset, given_dialogues
from continuous_states.dialogue.summaries import (
    SUMMARIES,
    SourceGap,
    Summaries,
    score_summaries,
    score_summarising,
    source_gap,
    summarise_held_out,
)
from continuous_states.dialogue.texts import read_given_dialogues
from continuous_states.evaluation import (
    Tensors,
    bound_row,
    held_out_bound,
    known_numbers,
    metric_row,
    metric_rows,
)
from discrete_diffusion.config import counted
from discrete_diffusion.contracts import BoundEstimate
from discrete_diffusion.evaluation import (
    BOUND_DRAWS,
    EvaluateRequest,
    Evaluation,
    Headline,
    MeasuredData,
    Report,
    SampleRequest,
    Samples,
    SavedSamples,
    TableRow,
    TableSection,
    TrainedModel,
    checkpoint_facts,
    held_out_split,
    keep_samples,
    measured_data,
    num_held_out,
    plus_minus,
    readable_data,
    sampling_facts,
)
from discrete_diffusion.runtime import progress, write_text
from discrete_diffusion.sampling import Model

logger = logging.getLogger(__name__)


class SummaryReport(Report):
    """Scores of summaries of the first pairs of a split beside those of baselines; files."""

    headlines = (
        Headline("exact_match", share=True),
        Headline("slot_accuracy", share=True),
        Headline("rouge_l"),
        Headline("shuffled_rouge_l"),
    )

    def __init__(
        self, data: PairDataset, split: str = "val", config: DictConfig | None = None
    ) -> None:
        self.data, self.split, self.config = data, split, config

    def sample(self, model: Model, num: int, seed: int, stream: tuple[int, ...] = ()) -> Summaries:
        return summarise_held_out(model, self.data, self.split, num=num, seed=seed + sum(stream))

    def model_facts(self, model: Model, num: int, *, draws: int, seed: int) -> dict[str, Any]:
        """Information that the own dialogue gives about the summaries that are sampled."""
        gap = self.source_gap(model, num, draws=draws, seed=seed)
        return {} if gap is None else gap.as_dict()

    def source_gap(
        self, model: Model, num: int | None, *, draws: int, seed: int
    ) -> SourceGap | None:
        """Gap of the first ``num`` pairs, all if it is None; None where the bound is of something
        else than a summary, or of one pair."""
        num_pairs = len(self.data.pairs[self.split][:num])
        bound = model.algorithm.bound or self.data.bound
        if num_pairs < 2 or not self.data.others(self.split) or bound != self.data.bound:
            return None
        rows = torch.arange(num_pairs)
        return source_gap(model, self.data, self.split, rows, draws=draws, entropy=(seed,))

    def findings(self, bound: BoundEstimate, samples: Summaries) -> dict[str, Any]:
        if len(samples):
            logger.info("%s", samples.examples())
        return super().findings(bound, samples)

    def summary(self, metrics: Mapping[str, Any]) -> str:
        bound = next(name for name in metrics if name.startswith("nelbo_"))
        shown = plus_minus(metrics[bound], metrics["nelbo_standard_error"], 2)
        parts = [f"{bound} {shown} nats"]
        if (gap := metrics.get("nelbo_source_gap")) is not None:
            parts.append(f"{gap:+.2f} beside another dialogue")
        if "rouge_l" in metrics:
            others = {"another_rouge_l": "another summary", "shuffled_rouge_l": "another dialogue"}
            parts.append(f"ROUGE-L {metrics['rouge_l']:.3f} ({known_numbers(metrics, others)})")
        parts += [
            f"{name.replace('_', ' ')} {100 * metrics[name]:.1f} %"
            for name in ("exact_match", "slot_accuracy")
            if name in metrics
        ]
        return f"metrics: {', '.join(parts)}  [{metrics.get('num_summaries', 0)} summaries]"

    def measure(self, found: Summaries) -> dict[str, float]:
        """Scores by name; none of no summary."""
        return score_summarising(found, self.data) if len(found) else {}

    def save(self, found: Summaries, folder: Path) -> None:
        """Write ``samples.jsonl`` into a folder."""
        if len(found):
            found.write(folder)

    def plot(self, found: Summaries, path: Path) -> None:
        """Write the first ones as text beside ``path``, as ``.txt``."""
        if len(found):
            write_text(path.with_suffix(".txt"), found.examples() + "\n")


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
        model = trained.model(shard)
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


NUM_SAMPLED = 64


def sample_summaries(request: SampleRequest, trained: TrainedModel) -> Samples:
    """Summarise the first ``num_samples`` dialogues that the checkpoint held out, or each of
    ``given``, ``completions`` times: ``Summaries``, written as ``samples.jsonl``; the first ones
    are logged then.
    """
    return (_held_out if request.given is None else _given)(request, trained)


def _sampled(
    request: SampleRequest, trained: TrainedModel, found: Summaries, facts: Mapping[str, Any]
) -> SavedSamples:
    facts = {
        "sampling": trained.sampling,
        "num_samples": len(found),
        "network_calls_per_sample": float(found.nfe.mean()),
        "seconds": found.seconds,
        **facts,
    }
    scores = f": ROUGE-L {facts['rouge_l']:.3f}" if "rouge_l" in facts else ""
    path = request.out / SUMMARIES
    return SavedSamples(
        facts,
        f"{found.examples()}\n{counted(len(found), 'summary')} in {found.seconds:.1f} s{scores}; "
        f"{path}",
    )


def _held_out(request: SampleRequest, trained: TrainedModel) -> Samples:
    data = readable_data(trained, "give the dialogues as given=FILE")
    split = held_out_split(data)
    num = NUM_SAMPLED if request.num_samples is None else request.num_samples
    report = SummaryReport(data, split)
    warn_of_stage(trained)
    with trained.sharing() as shard:
        model = trained.model(shard, partial(_lines, data, split))
        found = report.sample(model, num, request.seed)

    def write() -> SavedSamples:
        report.save(found, request.out)
        return _sampled(request, trained, found, {"split": split, **report.measure(found)})

    return Samples(found, write)


def _given(request: SampleRequest, trained: TrainedModel) -> Samples:
    """Scored where the file has summaries, too; keys of the lines are kept, and their numbers."""
    path, times = str(request.given), request.completions or 1
    given = read_given_dialogues(request.given)
    each = [dialogue for dialogue in given for _ in range(times)]
    texts = [dialogue.dialogue for dialogue in each]
    data = given_dialogues(trained.data_config, texts, path)
    unknown = data.ids["test"].unknown_share
    logger.info(
        "%s: %s, %d summar%s of each; unknown words: %.2f%%",
        *(path, counted(len(given), "dialogue"), times, "y" if times == 1 else "ies"),
        100 * unknown,
    )
    warn_of_stage(trained)
    beside = [{**dialogue.others, "given": dialogue.line} for dialogue in each]
    with trained.sharing() as shard:
        model = trained.model(shard, partial(_lines, data, "test", beside=beside))
        found = summarise_held_out(model, data, "test", num=None, seed=request.seed, shuffled=False)
    each = each[: len(found)]
    found = replace(found, references=tuple(dialogue.summary for dialogue in each))

    def write() -> SavedSamples:
        found.write(request.out, beside[: len(found)])
        facts = {"given": path, "num_inputs": len(given), "completions": times}
        facts |= {"unknown_words": unknown, **_scores(found)}
        return _sampled(request, trained, found, facts)

    return Samples(found, write)


def _lines(
    data: PairDataset,
    split: str,
    rows: Tensor,
    drawn: Tensors,
    beside: Sequence[Mapping[str, Any]] | None = None,
) -> str:
    """The lines of some pairs of a split and of the summaries sampled for them; ``beside``: further
    keys of every pair."""
    pairs = [data.pairs[split][row] for row in rows.tolist()]
    part = Summaries(
        dialogues=tuple(pair.dialogue for pair in pairs),
        references=tuple(pair.summary for pair in pairs),
        generated=tuple(data.decode(drawn["targets"])),
        shuffled=(),
        nfe=drawn["nfe"],
    )
    return part.lines(beside and [beside[row] for row in rows.tolist()])


def _scores(found: Summaries) -> dict[str, float]:
    """Scores of the summaries that have a reference; none without one."""
    both = zip(found.generated, found.references, strict=True)
    pairs = [(text, reference) for text, reference in both if reference]
    if not pairs:
        return {}
    texts, references = map(list, zip(*pairs, strict=True))
    return {"num_references": len(pairs), **score_summaries(texts, references).as_dict()}


def warn_of_stage(trained: TrainedModel) -> None:
    """A warning if the model was not trained to write summaries of dialogues."""
    if (bound := trained.algorithm.bound) is not None:
        logger.warning(
            "%s was not trained to write the summary of a dialogue (its bound is nelbo_%s): "
            "summaries mean little before the last stage",
            *(trained.path, bound),
        )
