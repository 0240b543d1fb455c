"""Comparison of models of dialogues: bounds, and summaries of held-out dialogues."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from continuous_states.dialogue.commands import SummaryReport
from continuous_states.dialogue.dataset import PairDataset
from continuous_states.dialogue.summaries import (
    SUMMARIES,
    SummaryScores,
    read_summaries,
    score_summaries,
    source_gap,
    summary_baselines,
)
from continuous_states.evaluation import data_and_sampling, sample_files
from discrete_diffusion.algorithms import ALGORITHMS, Algorithm
from discrete_diffusion.config import counted
from discrete_diffusion.data import SPLITS
from discrete_diffusion.domains import CellMeasurement
from discrete_diffusion.evaluation import (
    BOUND,
    Baseline,
    Column,
    Comparison,
    EvaluationProtocol,
    HeldOutBounds,
    Measure,
    held_out_split,
)
from discrete_diffusion.runtime import write_text
from discrete_diffusion.sampling import Model

_BOUND = (36,)
"""Stream of random numbers of this bound, different from those of other comparisons and of
training."""

_BASELINES = {"most_frequent": "most frequent summary", "another": "another pair's summary"}
_SAMPLER_OPTIONS = ("temperature", "top_k", "top_p")

_SHOWN = 5


def _rouge_l_notes(comparison: Comparison) -> list[str]:
    num = comparison.reference("rouge_l").values["rouge_l"].shape[1]
    return [
        f"A summary is sampled for each of the first {counted(num, 'dialogue')} of the "
        f"{comparison.split} split, and of the dialogue of another pair; ROUGE-L is F1 of the "
        "longest common subsequence of words with the reference."
    ]


class DialogueCells(CellMeasurement):
    """Measures to compare: the bound on -log p(summary | dialogue), and ROUGE-L of a summary per
    dialogue."""

    measures = {
        "nelbo": BOUND,
        "rouge_l": Measure("ROUGE-L", lambda comparison: "ROUGE-L", _rouge_l_notes, up=True),
    }
    columns = (
        Column("exact match", "exact_match", 1, True, share=True, counted="num_summaries"),
        Column("slots right", "slot_accuracy", 1, True, share=True, counted="num_summaries"),
        Column("ROUGE-L with dialogues of others", "shuffled_rouge_l", 3, up=None),
        Column("rise with dialogues of others, nats", "nelbo_source_gap", 2, up=True),
    )
    axes = (Column("ROUGE-L", "rouge_l", 3, up=True),)

    def refusal(self, algorithm: Algorithm, num_samples: int) -> str | None:
        if algorithm.bound is None:  # it is that of the data
            return None
        stage = getattr(algorithm, "stage", None)
        trained = algorithm.name if stage is None else f"algo.stage={stage}"
        return (
            f"{trained} has no bound on -log p(summary | dialogue), by which models of dialogues "
            "are compared" + ("" if stage is None else "; leave algo.stage at joint")
        )

    def check_same(self, one: PairDataset, other: PairDataset) -> None:
        """Raise ``ValueError`` unless both hold the same pairs in the same splits, with the same
        ids of summaries. Probabilities of different ids are not comparable."""
        both = f"{one.summary()}; {other.summary()}"
        for name in SPLITS:
            # the same texts
            if one.pairs[name] != other.pairs[name]:
                raise ValueError(
                    f"the {name} split differs: {both}; expected the same dialogues and summaries"
                )
            # the same ids up to EOS
            if not torch.equal(_text_ids(one, name), _text_ids(other, name)):
                raise ValueError(
                    f"summaries of the {name} split are not the same ids in both: {both}; their "
                    "probabilities do not compare. Leave data.target_tokenizer and data.words out"
                )

    def measure(
        self, model: Model, data: PairDataset, protocol: EvaluationProtocol, folder: Path
    ) -> dict[str, Any]:
        bounds, rise = held_out_summary_bounds(model, data, protocol)
        # bounds, then scores of samples
        numbers = {**bounds.as_dict(), "metrics": rise}
        if protocol.num_samples:
            scores = score_summaries_of(model, data, protocol, folder)
            numbers |= {**scores, "metrics": rise | scores["metrics"]}
        return numbers

    def baselines(self, data: PairDataset, num: int) -> tuple[Baseline, ...]:
        """Baselines: the most frequent training summary, and the reference of another pair."""
        pairs = data.pairs[held_out_split(data)][:num]
        texts = [pair.dialogue for pair in pairs], [pair.summary for pair in pairs]
        return tuple(
            Baseline(_BASELINES[name], {"rouge_l": scores.rouge_l}, _other_scores(scores))
            for name, scores in summary_baselines(*texts, data).items()
        )

    def notes(self, comparison: Comparison) -> list[str]:
        # algorithms with an exact bound, and algorithms on ids
        models = comparison.models
        algorithms = {m.algorithm: ALGORITHMS.find(m.config.algo.name) for m in models}
        exact = [n for n, a in algorithms.items() if getattr(a, "evaluation_draw", "") == "exact"]
        ids = [n for n, a in algorithms.items() if getattr(a, "state", "tokens") == "tokens"]
        as_ids = (
            f" As ids ({', '.join(ids)}) the dialogue is given and clamped, and the bound is of "
            f"all {models[0].config.data.target_length} positions of the summary, EOS behind its "
            "text included; what is there follows from the text, so the event is the same."
        )
        return [
            f"The same pairs for all: {data_and_sampling(comparison, _SAMPLER_OPTIONS)}.",
            "The bound is on -log p(summary | dialogue), per summary and never per token"
            + (f"; exact for {', '.join(exact)}" if exact else "")
            + "."
            + (as_ids if ids else ""),
            "Its rise is how much more a summary costs given the dialogue of another pair, with "
            "the same noise; 0 if dialogues are not used.",
        ]

    def show(self, comparison: Comparison, out: Path) -> list[str]:
        """Write dialogues with their references and the summaries of every model trained with the
        first seed."""
        path = out / "summaries.md"
        if "rouge_l" not in comparison.measures:
            path.unlink(missing_ok=True)
            return []
        files = sample_files(comparison, SUMMARIES, path)
        if not files:
            return []
        written = {name: read_summaries(file) for name, file in files.items()}
        write_text(path, summaries_side_by_side(written))
        return [path.name]


def _text_ids(data: PairDataset, split: str) -> Tensor:
    """Ids of summaries Int64[M, T], -1 from EOS on."""
    ids, tokenizer = data.ids[split].targets, data.target_tokenizer
    return ids.masked_fill((ids == tokenizer.eos_id) | (ids == tokenizer.pad_id), -1)


def held_out_summary_bounds(
    model: Model, data: PairDataset, protocol: EvaluationProtocol
) -> tuple[HeldOutBounds, dict[str, float]]:
    """Bounds on -log p(summary | dialogue), and their rise given the dialogue of another pair, with
    its standard error. The bounds are in nats per summary, as models count tokens differently. The
    pairs, at most ``protocol.bound_samples``, depend only on their number and the seed, so that the
    rows of two models are the same pairs."""
    split = held_out_split(data)
    rows = protocol.rows(len(data.pairs[split]))
    # bounds with true and with exchanged dialogues
    gap = source_gap(
        replace(model, batch_size=protocol.batch_size),
        data,
        split,
        rows,
        draws=protocol.bound_draws,
        entropy=(protocol.seed, *_BOUND),
    )
    # cost of uniform ids, to compare with
    uniform = data.target_length * math.log(data.target_tokenizer.vocab_size)
    nelbo, tail = gap.own.nelbo, gap.own.tail
    bounds = HeldOutBounds("nats per summary", data.bound, rows, nelbo, uniform, tail)
    numbers, name = gap.as_dict(), "nelbo_source_gap"
    return bounds, {key: numbers[key] for key in (name, f"{name}_standard_error")}


def score_summaries_of(
    model: Model, data: PairDataset, protocol: EvaluationProtocol, folder: Path
) -> dict[str, Any]:
    """Generate summaries for the first ``protocol.num_samples`` held-out pairs, from each pair's
    dialogue and from another pair's; return ``rouge_l`` per summary and ``metrics`` over all. The
    summaries are written into ``folder``."""
    report = SummaryReport(data, held_out_split(data))
    found = report.sample(model, protocol.num_samples, protocol.seed)
    found.write(folder)
    # scores of the summaries, and of those of other dialogues
    references = list(found.references)
    scores = score_summaries(found.generated, references, data.slots)
    shuffled: dict[str, float] = {}
    if found.shuffled:
        others = score_summaries(found.shuffled, references, data.slots).as_dict("shuffled_")
        shuffled = {key: n for key, n in others.items() if key.startswith("shuffled_rouge_l")}
    return {
        "rouge_l": scores.rouge_l.tolist(),
        "metrics": {
            "num_summaries": len(found),
            "network_calls": float(found.nfe.mean()),
            "seconds_per_1000_samples": 1000 * found.seconds / len(found),
            **_other_scores(scores),
            **shuffled,
        },
    }


def _other_scores(scores: SummaryScores) -> dict[str, float]:
    """Scores except ROUGE-L, by name."""
    return {key: n for key, n in scores.as_dict().items() if not key.startswith("rouge_l")}


def summaries_side_by_side(written: Mapping[str, Sequence[Mapping[str, str]]]) -> str:
    """Markdown of the first dialogues, each with its reference and the summary of every model.
    ``written``: lines of ``samples.jsonl`` by model, for the same dialogues in the same order."""
    pages = ["# Held-out dialogues and their summaries"]
    for k, lines in enumerate(list(zip(*written.values(), strict=True))[:_SHOWN], start=1):
        spoken = [f"> {_as_markdown(line)}  " for line in lines[0]["dialogue"].splitlines()]
        texts = {"*reference*": lines[0].get("reference", "")}
        texts |= {name: line["summary"] for name, line in zip(written, lines, strict=True)}
        # a table with a row per summary, each in one line
        shown = {name: _as_markdown(" ".join(text.split())) for name, text in texts.items()}
        rows = [f"| {name} | {text or '(empty)'} |" for name, text in shown.items()]
        page = [f"## {k}", "", *spoken, "", "| | summary |", "|---|---|", *rows]
        pages.append("\n".join(page))
    return "\n\n".join(pages) + "\n"


def _as_markdown(text: str) -> str:
    """Escape the characters of a text that Markdown would interpret."""
    return re.sub(r"([\\`*_\[\]<>|#~])", r"\\\1", text)
