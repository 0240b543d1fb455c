"""Quality of sampled text: what a judge says of it, never without how varied it is."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from torch import Tensor

from discrete_diffusion.domains.text.judge import SampledTexts, TransformersJudge
from discrete_diffusion.domains.text.metrics import variety
from discrete_diffusion.runtime.extras import install_command

if TYPE_CHECKING:
    from discrete_diffusion.domains.text.judge import Judge
    from discrete_diffusion.domains.text.vocabulary import Vocabulary

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
