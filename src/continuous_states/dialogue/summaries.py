"""Summaries."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from continuous_states.dialogue.dataset import PairDataset
from continuous_states.dialogue.texts import nearest_other, tokens_of
from continuous_states.evaluation import (
    ConditionalSamples,
    Tensors,
    first_examples,
    sample_conditional,
    sampled_from_others,
)
from discrete_diffusion.contracts import SampleOutput
from discrete_diffusion.data import Examples
from discrete_diffusion.evaluation import (
    MeasurementSettings,
    SampleBounds,
    sample_bounds,
    share_error,
    standard_error,
)
from discrete_diffusion.runtime import write_text
from discrete_diffusion.sampling import Model

_WORD = re.compile(r"[^\W_]+")
"""Letters and digits; of ASCII those that torchmetrics takes by default."""


@dataclass(frozen=True)
class SummaryScores:
    """Result of ``score_summaries`` on M summaries.

    ``rouge_l``: Float64[M], F1 of the longest common subsequence of words with the reference (Lin,
    2004), punctuation and case left out; words are of letters and digits of any script. ``exact``:
    Float64[M], 1 where all words and punctuation marks are those of the reference. ``slots``: by
    name, Float64[M], 1 where the words of the slot are those of the reference, in order; empty
    where summaries have no slots. ``distinct``: share of distinct summaries among them.
    """

    rouge_l: Tensor
    exact: Tensor
    slots: Mapping[str, Tensor]
    distinct: float

    def __len__(self) -> int:
        return len(self.rouge_l)

    @property
    def slot_accuracy(self) -> Tensor | None:
        """Float64[M]: the share of right slots; None without slots."""
        return torch.stack(list(self.slots.values())).mean(dim=0) if self.slots else None

    def as_dict(self, prefix: str = "") -> dict[str, float]:
        """Means for ``metrics.json``, those over summaries with their standard errors: of shares of
        summaries, and of what is the same for all of them, that of a share of so many."""
        values = {"rouge_l": self.rouge_l, "exact_match": self.exact}
        if (slots := self.slot_accuracy) is not None:
            values |= {"slot_accuracy": slots}
            values |= {f"slot_{name}": right for name, right in self.slots.items()}
        out = {}
        for name, each in values.items():
            out[f"{prefix}{name}"] = float(each.mean())
            if len(each) > 1:
                error = standard_error(each, num=len(each))
                if name not in ("rouge_l", "slot_accuracy"):  # those are 0 or 1
                    error = share_error(float(each.mean()), len(each))
                out[f"{prefix}{name}_standard_error"] = error
        return out | {f"{prefix}distinct": self.distinct}


def score_summaries(
    generated: Sequence[str],
    references: Sequence[str],
    slots: Mapping[str, Collection[str]] | None = None,
) -> SummaryScores:
    """Each generated summary against the reference at the same place.

    ``slots``: by name, the words that fill a slot. Raises ``ValueError`` for no summary, or
    another number of references.
    """
    if not generated or len(generated) != len(references):
        raise ValueError(
            f"{len(generated)} summaries and {len(references)} references; expected as many of "
            "both, at least one"
        )
    found, expected = ([tokens_of(text) for text in texts] for texts in (generated, references))
    pairs = list(zip(found, expected, strict=True))
    return SummaryScores(
        rouge_l=_rouge_l(generated, references),
        exact=_flags(a == b for a, b in pairs),
        slots={
            name: _flags(_filling(a, words) == _filling(b, words) for a, b in pairs)
            for name, words in (slots or {}).items()
        },
        distinct=len({tuple(tokens) for tokens in found}) / len(found),
    )


def most_frequent(texts: Sequence[str]) -> str:
    """The text that occurs most often, word by word; the first of them if several do."""
    counts = Counter(tuple(tokens_of(text)) for text in texts)
    most = counts.most_common(1)[0][0]
    return next(text for text in texts if tuple(tokens_of(text)) == most)


def _rouge_l(generated: Sequence[str], references: Sequence[str]) -> Tensor:
    from torchmetrics.functional.text.rouge import rouge_score  # takes seconds to import

    def score(text: str, reference: str) -> Tensor:  # by default of a-z and 0-9 alone
        found = rouge_score(
            text, reference, normalizer=str.lower, tokenizer=_WORD.findall, rouge_keys="rougeL"
        )
        return found["rougeL_fmeasure"]

    return torch.stack(list(map(score, generated, references))).double()


def _flags(values: Iterable[bool]) -> Tensor:
    return torch.tensor(list(values), dtype=torch.float64)


def _filling(tokens: Sequence[str], words: Collection[str]) -> list[str]:
    return [token for token in tokens if token in words]


SUMMARIES = "samples.jsonl"

_LONGEST_SHOWN = 2_000
"""Characters of a dialogue among examples."""

_SUMMARY_STREAM = 75
"""Keeps these samples apart from others with the same seed."""


@dataclass(frozen=True)
class Summaries:
    """M pairs of a split, in its order, and what was generated.

    ``dialogues``, ``references``: the texts of the pairs. ``generated``: a summary of each
    dialogue. ``shuffled``: one of the dialogue of another pair (``nearest_other``), with the same
    noise; empty if none were requested or all dialogues are the same. ``nfe``: Float64[M], network
    calls per summary. ``seconds``: spent sampling ``generated``, summed over processes.
    """

    dialogues: tuple[str, ...]
    references: tuple[str, ...]
    generated: tuple[str, ...]
    shuffled: tuple[str, ...]
    nfe: Tensor
    seconds: float = 0.0

    def __len__(self) -> int:
        return len(self.generated)

    def write(self, folder: Path, beside: Sequence[Mapping[str, Any]] | None = None) -> None:
        """Write ``samples.jsonl`` into a folder; half characters are written as escapes."""
        write_text(folder / SUMMARIES, self.lines(beside))

    def lines(self, beside: Sequence[Mapping[str, Any]] | None = None) -> str:
        """``dialogue``, ``summary`` (generated) and, where there is one, ``reference``, a JSON
        object per line. ``beside``: further keys of each."""
        texts = zip(self.dialogues, self.generated, self.references, strict=True)
        lines = [
            {**more, "dialogue": d, "summary": s, **({"reference": r} if r else {})}
            for more, (d, s, r) in zip(beside or [{}] * len(self), texts, strict=True)
        ]
        return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)

    def examples(self, num: int = 5) -> str:
        """The first ``num`` dialogues as text, the middle of long ones left out, each with its
        reference, if there is one, and what was generated."""
        shown = zip(self.dialogues, self.references, self.generated, strict=True)
        return "\n\n".join(
            _shortened(dialogue)
            + (f"\n  reference: {reference}" * bool(reference))
            + f"\n  generated: {generated}"
            for dialogue, reference, generated in list(shown)[:num]
        )


def _shortened(text: str) -> str:
    half = _LONGEST_SHOWN // 2
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:half]} [...] {text[-half:]}"


def read_summaries(path: Path) -> list[dict[str, str]]:
    """The lines of ``samples.jsonl``, as ``Summaries.write`` wrote them."""
    with path.open(encoding="utf-8") as lines:  # str.splitlines would split at U+2028, too
        return [json.loads(line) for line in lines]


def summarise_held_out(
    model: Model,
    data: PairDataset,
    split: str,
    *,
    num: int | None,
    seed: int,
    shuffled: bool = True,
) -> Summaries:
    """A summary of each of the first ``num`` dialogues of a split (None: of all) and, if
    ``shuffled``, one of another of these dialogues: what does not depend on the dialogue is as good
    there.

    Summaries depend on ``model.batch_size``, not on the number of processes. Raises ``ValueError``
    if the split is empty or ``num`` below 0.
    """
    pairs = data.pairs[split][: len(first_examples(data, split, num))]
    dialogues = tuple(pair.dialogue for pair in pairs)
    references = tuple(pair.summary for pair in pairs)
    if not pairs:
        return Summaries((), (), (), (), torch.zeros(0, dtype=torch.float64))
    sources = data.ids[split].sources[: len(pairs)]

    def draw(given: Tensors, generator: torch.Generator) -> Tensors:
        drawn = _sampled(model, given["sources"], data.target_length, generator)
        return {"targets": drawn.x0[:, -data.target_length :], "nfe": drawn.nfe.double()}

    def drawn_from(model: Model, sources: Tensor) -> ConditionalSamples:
        return sample_conditional(
            model, {"sources": sources}, draw, entropy=(seed, _SUMMARY_STREAM)
        )

    own, of_others = drawn_from(model, sources), []
    if shuffled and len(own) == len(pairs) and (others := nearest_other(dialogues)):
        drawn = sampled_from_others(model, partial(drawn_from, sources=sources[others]))
        of_others = [] if drawn is None else data.decode(drawn.values["targets"])
    return Summaries(
        dialogues[: len(own)],
        references[: len(own)],
        generated=tuple(data.decode(own.values["targets"])),
        shuffled=tuple(of_others),
        nfe=own.values["nfe"],
        seconds=own.seconds,
    )


def _sampled(
    model: Model, sources: Tensor, target_length: int, generator: torch.Generator
) -> SampleOutput:
    """Summaries of dialogues ``sources`` Int[B, S] with PAD behind: the last ``target_length`` ids
    of the samples. A sampler of tokens generates them behind a dialogue that is given."""
    algorithm, sampler = model.algorithm, model.sampler
    free = torch.ones(len(sources), target_length, dtype=torch.bool, device=sources.device)
    asked: dict[str, Any] = {"real": free, "conditions": {"source": sources}}
    if sampler.state == "tokens":
        given = sources.masked_fill(~algorithm.layout.is_real(sources), -1)
        asked = {
            "real": torch.cat([torch.zeros_like(sources).bool(), free], dim=1),
            "clamp": torch.cat([given, -free.long()], dim=1),
        }
    return sampler.sample(algorithm, **asked, generator=generator, steps=model.steps)


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
