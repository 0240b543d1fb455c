"""Report and commands ``evaluate`` and ``sample`` for models of dialogues."""

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
    NOISE_SAMPLES,
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

NUM_SAMPLED, NUM_EVALUATED = 64, 500
"""Default numbers of dialogues of ``sample`` and of ``evaluate``."""

_METHODS = {
    "{}": "the model",
    "shuffled_{}": "the model, from the dialogue of another pair",
    "another_{}": "the reference of another pair",
    "most_frequent_{}": "the most frequent training summary",
}
_METRICS = {
    "rouge_l": "F1 of the longest common subsequence of words with the reference",
    "exact_match": "share of summaries that are the reference",
    "slot_accuracy": "share of right slots",
    "distinct": "share of distinct summaries",
}


class SummaryReport(Report):
    """Report on the summaries of the first pairs of a split: scores with those of baselines, and
    files."""

    headlines = (
        Headline("exact_match", share=True),
        Headline("slot_accuracy", share=True),
        Headline("rouge_l"),
        Headline("shuffled_rouge_l"),
    )

    def __init__(
        self, data: PairDataset, split: str = "val", config: DictConfig | None = None
    ) -> None:
        self.data, self.split = data, split

    def sample(self, model: Model, num: int, seed: int, stream: tuple[int, ...] = ()) -> Summaries:
        return summarise_held_out(model, self.data, self.split, num=num, seed=seed + sum(stream))

    def model_facts(self, model: Model, num: int, *, draws: int, seed: int) -> dict[str, Any]:
        """Numbers of ``SourceGap``, which show how much a dialogue tells about its summary; may be
        empty."""
        gap = self.source_gap(model, num, draws=draws, seed=seed)
        return {} if gap is None else gap.as_dict()

    def source_gap(
        self, model: Model, num: int | None, *, draws: int, seed: int
    ) -> SourceGap | None:
        """``SourceGap`` of the first ``num`` pairs (None: all); None for fewer than two different
        dialogues, or if the model's bound is not that of a summary."""
        # a gap needs two different dialogues, and a bound of summaries
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
        # bound, and its rise given another dialogue
        parts = [f"{bound} {shown} nats"]
        if (gap := metrics.get("nelbo_source_gap")) is not None:
            parts.append(f"{gap:+.2f} given another dialogue")
        # scores of the summaries
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
        """Scores by name; empty without samples."""
        return score_summarising(found, self.data) if len(found) else {}

    def save(self, found: Summaries, folder: Path) -> None:
        """Write ``samples.jsonl`` into a folder."""
        if len(found):
            found.write(folder)

    def plot(self, found: Summaries, path: Path) -> None:
        """Write the first summaries as text to ``path`` with the suffix ``.txt``."""
        if len(found):
            write_text(path.with_suffix(".txt"), found.examples() + "\n")


@dataclass(frozen=True)
class SummaryEvaluation(Evaluation):
    """Result of ``evaluate_summaries``. ``facts``: settings of the measurement, for
    ``metrics.json``. ``scores``: result of ``score_summarising``. ``gap``: result of
    ``SummaryReport.source_gap``."""

    facts: dict[str, Any]
    found: Summaries
    scores: dict[str, float]
    bound: BoundEstimate
    gap: SourceGap | None
    measured_on: MeasuredData

    def sections(self) -> list[TableSection]:
        rows = [bound_row(self.bound, "the quantity that the stage is trained on")]
        if self.gap is not None:
            # the bound with its rise given other dialogues
            numbers, name = self.gap.as_dict(), "nelbo_source_gap"
            gap = plus_minus(numbers[name], numbers[f"{name}_standard_error"])
            other = "nelbo_shuffled_source"
            meaning = "the same given the dialogue of another pair"
            rows = [
                bound_row(self.bound, "a summary given its dialogue"),
                TableRow(other, f"{numbers[other]:.3f}", meaning=meaning),
                TableRow(name, gap, meaning="how much more that is; 0 if dialogues are not used"),
            ]
        held_out = TableSection("the model on held-out data", tuple(rows))
        # metrics of all methods, then the slots of the model
        scores = metric_rows(self.scores, _METRICS, _METHODS)
        scores += [
            metric_row(name, self.scores, "share of summaries with this slot right; the model")
            for name in self.scores
            if name.startswith("slot_")
            and not name.endswith("_standard_error")
            and name not in _METRICS
        ]
        return [TableSection("summaries of dialogues", tuple(scores)), held_out]

    def notes(self) -> list[str]:
        notes = [
            f"Dialogues: {self.facts['reference']}.",
            *self.measured_on.notes(),
            f"{self.scores['num_summaries']:,} held-out dialogues, one summary each, "
            f"{self.scores['network_calls_per_summary']:g} network calls a summary; ± is the "
            "standard error over summaries.",
        ]
        if self.gap is not None:
            notes.append("Nats are per summary: as ids it has more tokens, as EOS fills it up.")
        return notes

    def metrics(self) -> dict[str, Any]:
        gap = {} if self.gap is None else self.gap.as_dict()
        return {**self.facts, **self.bound.as_dict(), **gap, **self.scores}

    def save(self, folder: Path) -> None:
        """Write the summaries, and log the first ones."""
        self.found.write(folder)
        logger.info("%s", self.found.examples())


def evaluate_summaries(request: EvaluateRequest, trained: TrainedModel) -> SummaryEvaluation:
    """Evaluate a model of dialogues on the held-out data of its checkpoint or on other data. Raises
    ``ValueError`` if the data of the checkpoint cannot be read."""
    # data, number of dialogues and steps to show
    trained.check_weights()
    measured_on = measured_data(request, trained)
    data, split = measured_on.data, measured_on.split
    num = NUM_EVALUATED if request.num_samples is None else request.num_samples
    report = SummaryReport(data, split)
    _warn_of_stage(trained)
    parts = progress.parts(
        f"summarising {len(data.splits[split][:num]):,} dialogues",
        f"measuring the model on {num_held_out(request, data, split):,} held-out samples",
        "measuring it given other dialogues",
    )
    # summaries, bound, and bound given other dialogues
    with trained.sharing() as shard:
        model = trained.model(shard)
        with next(parts):
            found = report.sample(model, num, request.seed)
            keep_samples(request, shard, found.write)
        with next(parts):
            bound = held_out_bound(request, model, data, split)
        with next(parts):
            draws = NOISE_SAMPLES if request.noise_samples is None else request.noise_samples
            gap = report.source_gap(model, request.num_held_out, draws=draws, seed=request.seed)
    # settings of the measurement
    facts = {
        **checkpoint_facts(request, trained, data),
        **sampling_facts(request, trained),
        "num_samples": len(found),
        "seconds": found.seconds,
        **measured_on.facts(request),
    }
    scores = score_summarising(found, data)
    return SummaryEvaluation(facts, found, scores, bound, gap, measured_on)


def sample_summaries(request: SampleRequest, trained: TrainedModel) -> Samples:
    """Summarise the first ``num_samples`` dialogues that the checkpoint held out, or each dialogue
    of ``given`` ``num_completions`` times. The ``Summaries`` are saved as ``samples.jsonl``, and
    the first of them are logged."""
    if request.given is not None:
        return _summarise_given(request, trained)
    data = readable_data(trained, "give the dialogues as given=FILE")
    split = held_out_split(data)
    num = NUM_SAMPLED if request.num_samples is None else request.num_samples
    # summaries are streamed as lines while they are sampled
    report = SummaryReport(data, split)
    _warn_of_stage(trained)
    with trained.sharing() as shard:
        model = trained.model(shard, partial(_summary_lines, data, split))
        found = report.sample(model, num, request.seed)

    def write() -> SavedSamples:
        report.save(found, request.out)
        return _saved_summaries(request, trained, found, {"split": split, **report.measure(found)})

    return Samples(found, write)


def _summarise_given(request: SampleRequest, trained: TrainedModel) -> Samples:
    """Summarise the dialogues of a file, and score the summaries that have a reference; other keys
    of a line and its number are kept."""
    # each dialogue as often as there are completions
    path, times = str(request.given), request.num_completions or 1
    given = read_given_dialogues(request.given)
    each = [dialogue for dialogue in given for _ in range(times)]
    data = given_dialogues(trained.data_config, [dialogue.dialogue for dialogue in each], path)
    unknown = data.ids["test"].unknown_share
    logger.info(
        "%s: %s, %d summar%s of each; unknown words: %.2f%%",
        *(path, counted(len(given), "dialogue"), times, "y" if times == 1 else "ies"),
        100 * unknown,
    )
    _warn_of_stage(trained)
    # keys that are copied to the lines of the summaries
    keys = [{**dialogue.others, "given": dialogue.line} for dialogue in each]
    with trained.sharing() as shard:
        model = trained.model(shard, partial(_summary_lines, data, "test", keys=keys))
        found = summarise_held_out(model, data, "test", num=None, seed=request.seed, shuffled=False)
    # a signal may have left fewer
    each = each[: len(found)]
    found = replace(found, references=tuple(dialogue.summary for dialogue in each))

    def write() -> SavedSamples:
        found.write(request.out, keys[: len(found)])
        facts = {"given": path, "num_inputs": len(given), "completions": times}
        facts |= {"unknown_words": unknown}
        # scores of the summaries that have a reference
        both = zip(found.generated, found.references, strict=True)
        if pairs := [(text, reference) for text, reference in both if reference]:
            texts, references = map(list, zip(*pairs, strict=True))
            scores = score_summaries(texts, references)
            facts |= {"num_references": len(pairs), **scores.as_dict()}
        return _saved_summaries(request, trained, found, facts)

    return Samples(found, write)


def _saved_summaries(
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
    shown = f"{counted(len(found), 'summary')} in {found.seconds:.1f} s{scores}"
    return SavedSamples(facts, f"{found.examples()}\n{shown}; {request.out / SUMMARIES}")


def _summary_lines(
    data: PairDataset,
    split: str,
    rows: Tensor,
    samples: Tensors,
    keys: Sequence[Mapping[str, Any]] | None = None,
) -> str:
    """JSON lines of some pairs of a split with the summaries sampled for them. ``keys``: further
    keys of every pair."""
    # texts of these rows, as part of all summaries
    pairs = [data.pairs[split][row] for row in rows.tolist()]
    part = Summaries(
        dialogues=tuple(pair.dialogue for pair in pairs),
        references=tuple(pair.summary for pair in pairs),
        generated=tuple(data.decode(samples["targets"])),
        shuffled=(),
        nfe=samples["nfe"],
    )
    return part.lines(keys and [keys[row] for row in rows.tolist()])


def _warn_of_stage(trained: TrainedModel) -> None:
    """Log a warning if the model was not trained to write summaries of dialogues."""
    if (bound := trained.algorithm.bound) is not None:
        logger.warning(
            "%s was not trained to write the summary of a dialogue (its bound is nelbo_%s): "
            "summaries mean little before the last stage",
            *(trained.path, bound),
        )
