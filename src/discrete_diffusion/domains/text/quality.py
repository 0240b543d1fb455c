"""Quality of sampled text: what a judge says of it, never without how varied it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from discrete_diffusion.domains.text.judge import SampledTexts
from discrete_diffusion.domains.text.metrics import variety

if TYPE_CHECKING:
    from discrete_diffusion.domains.text.judge import Judge
    from discrete_diffusion.domains.text.vocabulary import Vocabulary

MAUVE = 'pip install "discrete-diffusion[mauve]"'
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


def mauve() -> Callable[[np.ndarray, np.ndarray], float] | None:
    """MAUVE, 0 to 1, of texts with ``TransformersJudge.features`` Float[M, D] and Float[N, D], as a
    function of both; None where ``mauve-text`` is not installed.

    Area under the curve of exp(-5 KL(q || r)) and exp(-5 KL(p || r)) over the mixtures r of p and
    q, which are histograms over clusters of features; with the library's defaults
    (arXiv 2102.01454).
    """
    try:
        from mauve import compute_mauve
    except ImportError:
        return None
    return lambda p, q: float(compute_mauve(p_features=p, q_features=q).mauve)


def quality_line(found: Mapping[str, Any]) -> str:
    """The numbers of ``text_quality`` in words; those of a judge among the others alone."""
    parts = []
    if "gen_ppl" in found:
        error = found.get("gen_ppl_standard_error")
        parts.append(f"gen_ppl {found['gen_ppl']:.4g}" + (f" ± {error:.2g}" if error else ""))
    if "mauve" in found:
        parts.append(f"MAUVE {found['mauve']:.3f}")
    parts.append(f"unigram entropy {found['unigram_entropy']:.3f} nats")
    distinct = "/".join(f"{found[f'distinct_{n}']:.3f}" for n in (1, 2, 3))
    parts.append(f"distinct-1/2/3 {distinct}")
    parts.append(f"repetition {100 * found['repetition_share']:.1f} %")
    if "network_calls_per_sample" in found:
        parts.append(f"{found['network_calls_per_sample']:g} network calls")
    return ", ".join(parts)
