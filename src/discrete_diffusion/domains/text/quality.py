"""Quality of samples of text: similarity to real text, variety, and what a judge says."""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from torch import Tensor

from discrete_diffusion.domains.text.judge import SampledTexts, TransformersJudge
from discrete_diffusion.runtime.extras import install_command

if TYPE_CHECKING:
    from discrete_diffusion.domains.text.judge import Judge
    from discrete_diffusion.domains.text.vocabulary import Vocabulary


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


logger = logging.getLogger(__name__)

FEWEST_FOR_MAUVE = 100
"""Texts on each side, ten clusters of them."""


def text_quality(
    vocabulary: Vocabulary, tokens: Tensor, judge: Judge | None = None
) -> dict[str, float]:
    """``Verdict.as_dict`` of a judge, if there is one, and ``variety`` of samples Int[M, L]; their
    n-grams are of the words between white space, of ids alone of ids."""
    pad = vocabulary.pad_id
    rows = [row if pad is None else row[row != pad] for row in tokens.cpu().numpy()]
    texts = None if vocabulary.unit == "ids" else vocabulary.decode(tokens)
    ids = [row.tolist() for row in rows]
    units = ids if texts is None else [text.split() for text in texts]
    verdict = {} if judge is None else judge.read(SampledTexts(rows, texts)).as_dict()
    return {**verdict, **variety(ids, units)}


def mauve(judge: Judge | None) -> Callable[[Sequence[str], Sequence[str]], float] | None:
    """MAUVE, 0 to 1, of texts and real ones, by the features of a judge of transformers; None of
    another judge, or where ``mauve-text`` is not installed, which the log says.

    Area under the curve of exp(-5 KL(q || r)) and exp(-5 KL(p || r)) over the mixtures r of p and
    q, which are histograms over clusters of features; with the library's defaults
    (arXiv 2102.01454). Features of real texts are kept.
    """
    if not isinstance(judge, TransformersJudge):
        return None
    try:
        from mauve import compute_mauve
    except ImportError:
        logger.info(
            "MAUVE is not measured: mauve-text is not installed; %s", install_command("mauve")
        )
        return None
    features_of_real = cache(judge.features)

    def measured(texts: Sequence[str], real: Sequence[str]) -> float:
        p, q = judge.features(texts), features_of_real(tuple(real))
        return float(compute_mauve(p_features=p, q_features=q).mauve)

    return measured


def quality_line(found: Mapping[str, Any]) -> str:
    """The numbers of ``text_quality`` in words; those of a judge among the others alone."""
    parts = []
    if "gen_ppl" in found:
        error = found.get("gen_ppl_standard_error")
        parts.append(f"gen_ppl {found['gen_ppl']:.4g}" + (f" ± {error:.2g}" if error else ""))
    if "mauve" in found:
        parts.append(f"MAUVE {found['mauve']:.3f}")
    parts.append(f"unigram entropy {found['unigram_entropy']:.3f} nats")
    distinct = "/".join(_shown(found[f"distinct_{n}"], ".3f") for n in (1, 2, 3))
    parts.append(f"distinct-1/2/3 {distinct}")
    parts.append(f"repetition {_shown(found['repetition_share'], '.1%')}")
    if "network_calls_per_sample" in found:
        parts.append(f"{found['network_calls_per_sample']:g} network calls")
    return ", ".join(parts)


def _shown(value: float, form: str) -> str:
    """``-`` for a number that texts too short for it do not have."""
    return "-" if math.isnan(value) else f"{value:{form}}".replace("%", " %")
