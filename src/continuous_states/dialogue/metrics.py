"""Similarity of summaries to their references, and scores that need no text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from continuous_states.dialogue.words import tokens_of
from discrete_diffusion.evaluation import share_error, standard_error

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
