"""Models of summaries on equal terms, whether they go through latent vectors or are of ids."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from discrete_diffusion.algorithms import Algorithm
from discrete_diffusion.data.base import SPLITS
from discrete_diffusion.domains.dialogue import PairDataset
from discrete_diffusion.domains.dialogue.metrics import SummaryScores, score_summaries
from discrete_diffusion.domains.dialogue.summarising import summarise_held_out
from discrete_diffusion.domains.dialogue.summary_scores import source_gap, summary_baselines
from discrete_diffusion.evaluation.comparison import Baseline
from discrete_diffusion.evaluation.equal_terms import (
    EqualTerms,
    HeldOutBounds,
    held_out_rows,
    held_out_split,
)
from discrete_diffusion.evaluation.trained_model import Model

_BOUND = (36,)
"""Keeps this noise apart from that of other comparisons, and of training."""

_NAMES = {"most_frequent": "most frequent summary", "another": "another pair's summary"}
"""Baselines, as a comparison calls them."""

_SHOWN = 5


@dataclass(frozen=True)
class SummaryBounds:
    """``bounds``: on -log p(summary | dialogue). ``rise``: how much more they are beside the
    dialogue of another pair, on the same rows with the same noise, with its standard error."""

    bounds: HeldOutBounds
    rise: dict[str, float]


@dataclass(frozen=True)
class DrawnSummaries:
    """``rouge_l``: Float64[M], of each summary; ``metrics``: of all."""

    rouge_l: Tensor
    metrics: dict[str, float]


def check_same_pairs(one: PairDataset, other: PairDataset) -> None:
    """``ValueError`` unless both hold the same pairs in the same splits, and summaries are the same
    ids, without which their probabilities are not of the same event."""
    for name in SPLITS:
        if one.pairs[name] != other.pairs[name]:
            raise ValueError(
                f"the {name} split differs: {one.summary()}; {other.summary()}; expected the same "
                "dialogues and summaries"
            )
        if not torch.equal(_until_eos(one, name), _until_eos(other, name)):
            raise ValueError(
                f"summaries of the {name} split are not the same ids in both: {one.summary()}; "
                f"{other.summary()}; their probabilities do not compare. Leave "
                "data.target_tokenizer and data.words out"
            )


def _until_eos(data: PairDataset, split: str) -> Tensor:
    """Int64[M, T]: ids of summaries, -1 for EOS and behind it."""
    ids, tokenizer = data.ids[split].targets, data.target_tokenizer
    return ids.masked_fill((ids == tokenizer.eos_id) | (ids == tokenizer.pad_id), -1)


def held_out_summary_bounds(
    algorithm: Algorithm,
    data: PairDataset,
    terms: EqualTerms,
    *,
    device: torch.device | str = "cpu",
) -> SummaryBounds:
    """Of at most ``terms.bound_samples`` held-out pairs, which depend on their number and the seed
    alone, so that two models are paired by row. In nats per summary: as ids it has more tokens."""
    split = held_out_split(data)
    rows = held_out_rows(len(data.pairs[split]), terms)
    gap = source_gap(
        Model(algorithm, None, device, batch_size=terms.batch_size),
        data,
        split,
        rows,
        draws=terms.bound_draws,
        seed=terms.seed,
        stream=_BOUND,
    )
    bounds = HeldOutBounds(
        "nats per summary",
        data.bound,
        split,
        rows,
        gap.own.nelbo,
        uniform=data.target_length * math.log(data.target_tokenizer.vocab_size),
    )
    numbers, name = gap.as_dict(), "nelbo_source_gap"
    return SummaryBounds(bounds, {key: numbers[key] for key in (name, f"{name}_standard_error")})


def score_summaries_drawn(
    algorithm: Any,
    sampler: Any,
    data: PairDataset,
    terms: EqualTerms,
    *,
    device: torch.device | str = "cpu",
    folder: Path | None = None,
) -> DrawnSummaries:
    """One summary of each of the first ``terms.num_samples`` held-out dialogues, and of the
    dialogue of another pair, against the references. They are written into ``folder``, if given."""
    found = summarise_held_out(
        Model(algorithm, sampler, device),
        data,
        held_out_split(data),
        num=terms.num_samples,
        seed=terms.seed,
    )
    if folder is not None:
        found.write(folder)
    references = list(found.references)
    scores = score_summaries(found.generated, references, data.slots)
    beside: dict[str, float] = {}
    if found.shuffled:
        others = score_summaries(found.shuffled, references, data.slots).as_dict("shuffled_")
        beside = {key: n for key, n in others.items() if key.startswith("shuffled_rouge_l")}
    return DrawnSummaries(
        scores.rouge_l,
        {
            "num_summaries": len(found),
            "network_calls": float(found.nfe.mean()),
            "seconds_per_1000_samples": 1000 * found.seconds / len(found),
            **_besides_rouge_l(scores),
            **beside,
        },
    )


def score_baselines(data: PairDataset, num: int) -> tuple[Baseline, ...]:
    """The most frequent training summary and the reference of another pair, for the first ``num``
    held-out dialogues."""
    pairs = data.pairs[held_out_split(data)][:num]
    texts = [pair.dialogue for pair in pairs], [pair.summary for pair in pairs]
    found = []
    for name, scores in summary_baselines(*texts, data).items():
        found.append(Baseline(_NAMES[name], {"rouge_l": scores.rouge_l}, _besides_rouge_l(scores)))
    return tuple(found)


def summaries_side_by_side(written: Mapping[str, Sequence[Mapping[str, str]]]) -> str:
    """Markdown: the first dialogues, each with its reference and what every model wrote.

    ``written``: by model, lines of ``samples.jsonl``, of the same dialogues in the same order.
    """
    pages = ["# Held-out dialogues and their summaries"]
    for k, lines in enumerate(list(zip(*written.values(), strict=True))[:_SHOWN], start=1):
        dialogue = "\n".join(f"> {_escaped(said)}  " for said in lines[0]["dialogue"].splitlines())
        texts = {"*reference*": lines[0].get("reference", "")}
        texts |= {name: line["summary"] for name, line in zip(written, lines, strict=True)}
        rows = [f"| {name} | {_cell(text)} |" for name, text in texts.items()]
        pages.append("\n".join([f"## {k}", "", dialogue, "", "| | summary |", "|---|---|", *rows]))
    return "\n\n".join(pages) + "\n"


def _besides_rouge_l(scores: SummaryScores) -> dict[str, float]:
    """The other numbers, those of single summaries apart."""
    return {key: n for key, n in scores.as_dict().items() if not key.startswith("rouge_l")}


def _cell(text: str) -> str:
    """A text in a table of Markdown."""
    return _escaped(" ".join(text.split())) or "(empty)"


def _escaped(text: str) -> str:
    """A text that Markdown shows as it is."""
    return re.sub(r"([\\`*_\[\]<>|#~])", r"\\\1", text)
