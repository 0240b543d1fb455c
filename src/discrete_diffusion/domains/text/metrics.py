"""Similarity of samples to real text, and their variety, by counts of characters and words."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from typing import Any

_WORD = re.compile(r"\w+")


def frequency_distance(p: Counter[Any], q: Counter[Any]) -> float:
    """Total variation between the frequencies of two counts; NaN if either is empty."""
    if not p or not q:
        return float("nan")
    total_p, total_q = p.total(), q.total()
    return sum(abs(p[c] / total_p - q[c] / total_q) for c in sorted(p.keys() | q.keys())) / 2


def character_distance(samples: Sequence[str], reference: Sequence[str]) -> float:
    """Total variation between the character frequencies of two sets of texts, in [0, 1].

    TV = 1/2 sum_c |p(c) - q(c)|; NaN if either holds no character.
    """
    return frequency_distance(Counter("".join(samples)), Counter("".join(reference)))


def words_of(texts: Sequence[str]) -> list[str]:
    """The words of texts, runs of letters, digits and underscores; one that touches either end of
    its text may be cut off and is left out."""
    return [
        match.group()
        for text in texts
        for match in _WORD.finditer(text)
        if match.start() > 0 and match.end() < len(text)
    ]


def share_known(texts: Sequence[str], known: Collection[str]) -> float:
    """The share of the words of ``texts`` that are among ``known``; NaN without a word."""
    words = words_of(texts)
    return sum(word in known for word in words) / len(words) if words else float("nan")


REPEATED = 4
"""Words of a run that counts as repeated."""


def variety(rows: Sequence[Sequence[int]], units: Sequence[Sequence[Hashable]]) -> dict[str, float]:
    """How varied samples are: perplexity alone rewards text that repeats itself.

        unigram_entropy    mean over samples of -sum_v f(v) log f(v), nats, f the frequencies of
                           the sample's own ids (as Zheng et al., arXiv 2409.02908)
        distinct_n         distinct n-grams of all samples / all their n-grams, n = 1, 2, 3
                           (Li et al., arXiv 1510.03055)
        repetition_share   mean over samples of 1 - distinct 4-grams / 4-grams of the sample
                           (seq-rep-4 of Welleck et al., arXiv 1908.04319)

    ``rows``: the ids of each sample. ``units``: what its n-grams are of, such as its words. A
    sample too short for one counts in none; NaN without any.
    """
    found = {"unigram_entropy": _mean([_entropy(row) for row in rows if len(row)])}
    for n in (1, 2, 3):
        grams = [gram for unit in units for gram in _grams(unit, n)]
        found[f"distinct_{n}"] = len(set(grams)) / len(grams) if grams else math.nan
    runs = [_grams(unit, REPEATED) for unit in units]
    found["repetition_share"] = _mean([1 - len(set(run)) / len(run) for run in runs if run])
    return found


def _entropy(row: Sequence[int]) -> float:
    """Entropy of the frequencies of ids, nats."""
    return -sum(k / len(row) * math.log(k / len(row)) for k in Counter(row).values())


def _grams(unit: Sequence[Hashable], n: int) -> list[tuple[Hashable, ...]]:
    """Runs of n."""
    return list(zip(*(unit[k:] for k in range(n)), strict=False))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan
