"""Similarity of samples to real text, by counts of characters and words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
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
