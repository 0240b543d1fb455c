"""Report on a model of text and the quality of its samples, and ``evaluate``."""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig
from torch import Tensor

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import BoundEstimate
from discrete_diffusion.domains.cell_measurement import TokenCells
from discrete_diffusion.domains.text.dataset import TextDataset
from discrete_diffusion.domains.text.judge import Judge, SampledTexts, TransformersJudge, read_judge
from discrete_diffusion.domains.text.vocabulary import Vocabulary
from discrete_diffusion.evaluation.comparison import Column
from discrete_diffusion.evaluation.model_evaluation import ModelEvaluation, evaluate_token_model
from discrete_diffusion.evaluation.report import Headline, TokenReport
from discrete_diffusion.evaluation.requests import EvaluateRequest
from discrete_diffusion.evaluation.trained_model import TrainedModel
from discrete_diffusion.runtime.atomic_files import write_text
from discrete_diffusion.runtime.devices import hardware
from discrete_diffusion.runtime.package import install_command

logger = logging.getLogger(__name__)

SAMPLE_TEXTS = "samples.txt"

REPEATED = 4
"""Words of a run that counts as repeated."""

MIN_MAUVE = 100
"""Least number of texts on each side for MAUVE, ten clusters of them."""

_WORD = re.compile(r"\w+")

_MAX_SHOWN = 36
"""Samples of a validation that are written."""

_REAL = 27
"""Key of the random generator that chooses windows."""


def frequency_distance(p: Counter[Any], q: Counter[Any]) -> float:
    """Total variation 1/2 sum_c |p(c) - q(c)| between the frequencies of two counts, in [0, 1]; NaN
    if either is empty."""
    if not p or not q:
        return float("nan")
    total_p, total_q = p.total(), q.total()
    return sum(abs(p[c] / total_p - q[c] / total_q) for c in sorted(p.keys() | q.keys())) / 2


def words_of(texts: Sequence[str]) -> list[str]:
    """Words (runs of letters, digits and underscores) of texts, without words at the ends of a
    text, which may be cut off."""
    return [
        match.group()
        for text in texts
        for match in _WORD.finditer(text)
        if match.start() > 0 and match.end() < len(text)
    ]


def share_known(texts: Sequence[str], known: Collection[str]) -> float:
    """Share of the words of ``texts`` that are among ``known``; NaN if ``texts`` has none."""
    words = words_of(texts)
    return sum(word in known for word in words) / len(words) if words else float("nan")


def text_variety(
    rows: Sequence[Sequence[int]], units: Sequence[Sequence[Hashable]]
) -> dict[str, float]:
    """Variety of samples, since perplexity alone rewards text that repeats itself.

        unigram_entropy    mean over samples of -sum_v f(v) log f(v), nats, f the frequencies of
                           the sample's own ids (as Zheng et al., arXiv 2409.02908)
        distinct_n         distinct n-grams of all samples / all their n-grams, n = 1, 2, 3
                           (Li et al., arXiv 1510.03055)
        repetition_share   mean over samples of 1 - distinct 4-grams / 4-grams of the sample
                           (seq-rep-4 of Welleck et al., arXiv 1908.04319)

    ``rows``: the ids of each sample. ``units``: the elements of its n-grams, such as words. Samples
    that are too short are left out; NaN if none is left.
    """
    entropies = [
        -sum(k / len(row) * math.log(k / len(row)) for k in Counter(row).values())
        for row in rows
        if len(row)
    ]
    scores = {"unigram_entropy": _mean(entropies)}
    for n in (1, 2, 3):
        grams = [gram for unit in units for gram in _grams(unit, n)]
        scores[f"distinct_{n}"] = len(set(grams)) / len(grams) if grams else math.nan
    runs = [_grams(unit, REPEATED) for unit in units]
    scores["repetition_share"] = _mean([1 - len(set(run)) / len(run) for run in runs if run])
    return scores


def _grams(unit: Sequence[Hashable], n: int) -> list[tuple[Hashable, ...]]:
    return list(zip(*(unit[k:] for k in range(n)), strict=False))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def text_quality(
    vocabulary: Vocabulary, tokens: Tensor, judge: Judge | None = None
) -> dict[str, float]:
    """Scores of a judge, if there is one, and ``text_variety`` of samples Int[M, L].

    N-grams consist of words between white space, or of ids if the model has no tokenizer.
    """
    pad = vocabulary.pad_id
    rows = [row if pad is None else row[row != pad] for row in tokens.cpu().numpy()]
    texts = None if vocabulary.unit == "ids" else vocabulary.decode(tokens)
    ids = [row.tolist() for row in rows]
    units = ids if texts is None else [text.split() for text in texts]
    verdict = {} if judge is None else judge.read(SampledTexts(rows, texts)).as_dict()
    return {**verdict, **text_variety(ids, units)}


def mauve_scorer(judge: Judge | None) -> Callable[[Sequence[str], Sequence[str]], float] | None:
    """Return a function that measures MAUVE, 0 to 1, of texts against real texts.

    It takes the features of a judge of ``transformers``. None for another judge and, with a message
    in the log, if ``mauve-text`` is not installed.

    Area under the curve of exp(-5 KL(q || r)) and exp(-5 KL(p || r)) over the mixtures r of p and
    q, which are histograms over clusters of features; with the library's defaults (arXiv
    2102.01454). Features of real texts are computed once.
    """
    # only transformers have features
    if not isinstance(judge, TransformersJudge):
        return None
    try:
        from mauve import compute_mauve
    except ImportError:
        logger.info(
            "MAUVE is not measured: mauve-text is not installed; %s", install_command("mauve")
        )
        return None
    # real texts recur
    features_of_real = cache(judge.features)

    def measured(texts: Sequence[str], real: Sequence[str]) -> float:
        p, q = judge.features(texts), features_of_real(tuple(real))
        return float(compute_mauve(p_features=p, q_features=q).mauve)

    return measured


def quality_line(scores: Mapping[str, Any]) -> str:
    """Line for the log with the numbers of ``text_quality``."""
    parts = []
    if "gen_ppl" in scores:
        error = scores.get("gen_ppl_standard_error")
        parts.append(f"gen_ppl {scores['gen_ppl']:.4g}" + (f" ± {error:.2g}" if error else ""))
    if "mauve" in scores:
        parts.append(f"MAUVE {scores['mauve']:.3f}")
    # variety of the samples
    parts.append(f"unigram entropy {scores['unigram_entropy']:.3f} nats")
    distinct = "/".join(_shown_score(scores[f"distinct_{n}"], ".3f") for n in (1, 2, 3))
    parts.append(f"distinct-1/2/3 {distinct}")
    parts.append(f"repetition {_shown_score(scores['repetition_share'], '.1%')}")
    if "network_calls_per_sample" in scores:
        parts.append(f"{scores['network_calls_per_sample']:g} network calls")
    if "cpu_seconds_per_sample" in scores:
        seconds, processor = scores["cpu_seconds_per_sample"], scores["processor"]
        parts.append(f"{seconds:.3g} CPU-seconds a sample on {processor}")
    return ", ".join(parts)


def _shown_score(value: float, form: str) -> str:
    return "-" if math.isnan(value) else f"{value:{form}}".replace("%", " %")


class TextReport(TokenReport):
    """Samples of text against the windows of a split, with the scores of a ``judge``."""

    headlines = (Headline("words_in_training", share=True, counted="num_words"),)
    columns = (
        Column("character TV", "character_tv", 4),
        Column("known words", "words_in_training", 1, up=True, share=True),
        Column("token TV", "token_tv", 4),
    )
    axes = columns[::-1]
    data: TextDataset

    def __init__(
        self,
        data: TextDataset,
        split: str = "val",
        config: DictConfig | None = None,
        *,
        judge: Judge | None = None,
    ) -> None:
        super().__init__(data, split, config)
        self.judge = judge
        self._mauve = mauve_scorer(judge)

    @cached_property
    def _reference(self) -> list[str]:
        return self.data.texts(self.split)

    @cached_property
    def _known_words(self) -> frozenset[str]:
        return frozenset(words_of(self.data.texts("train")))

    @cached_property
    def _reference_share(self) -> float:
        return share_known(self._reference, self._known_words)

    def measure(self, samples: Tensor) -> dict[str, float]:
        """Scores of samples; empty without samples or held-out windows.

        They are ``text_quality``; ``character_tv`` to the held-out windows; ``words_in_training``,
        the share of known words, of samples and of windows; and, with a judge of ``transformers``,
        ``mauve`` to as many held-out windows. Ids without a tokenizer have ``token_tv`` instead of
        characters and words.
        """
        return self._measure(samples) | self._likeness("samples", samples, len(samples))

    def measure_real(self, num: int) -> dict[str, float]:
        """Scores of ``num`` held-out windows, and ``mauve`` of as many training windows.

        ``num`` is the number of samples, since shares of n-grams depend on it.
        """
        scores = self._measure(self._windows(self.split, num))
        return scores | self._likeness("windows of training", self._windows("train", num), num)

    def _measure(self, samples: Tensor) -> dict[str, float]:
        windows = self.data.splits[self.split].x0
        if len(samples) == 0 or len(windows) == 0:
            return {}
        quality = text_quality(self.data.vocabulary, samples, self.judge)
        # frequencies of ids
        if self.data.vocabulary.unit == "ids":
            counts = (Counter(tokens.flatten().tolist()) for tokens in (samples, windows))
            return {**quality, "token_tv": frequency_distance(*counts)}
        # frequencies of characters, and known words
        texts = self.data.vocabulary.decode(samples)
        return {
            **quality,
            "character_tv": frequency_distance(
                Counter("".join(texts)), Counter("".join(self._reference))
            ),
            "words_in_training": share_known(texts, self._known_words),
            "words_in_training_reference": self._reference_share,
        }

    def _likeness(self, what: str, tokens: Tensor, num: int) -> dict[str, float]:
        """``mauve`` of tokens to ``num`` held-out windows; empty if it cannot be measured."""
        if self._mauve is None:
            return {}
        # as many held-out windows
        held_out = self._windows(self.split, num)
        if min(len(tokens), len(held_out)) < MIN_MAUVE:
            texts = f"{len(tokens):,} {what} and {len(held_out):,} held-out windows"
            logger.info("MAUVE is not measured of %s: it takes %d each", texts, MIN_MAUVE)
            return {}
        decode = self.data.vocabulary.decode
        return {"mauve": self._mauve(decode(tokens), decode(held_out))}

    def _windows(self, split: str, num: int) -> Tensor:
        """Choose ``num`` random windows of a split, kept in the order of the split."""
        windows = self.data.splits[split].x0
        order = torch.randperm(len(windows), generator=make_generator(0, _REAL))
        return windows[order[:num].sort().values]

    def save(self, samples: Tensor, folder: Path) -> None:
        if len(samples):
            write_texts(folder / SAMPLE_TEXTS, self.data.vocabulary.lines(samples))

    def plot(self, samples: Tensor, path: Path) -> None:
        if len(samples):
            first = self.data.vocabulary.lines(samples[:_MAX_SHOWN])
            write_texts(path.with_suffix(".txt"), first)

    def findings(self, bound: BoundEstimate, samples: Tensor) -> dict[str, Any]:
        findings = {"text": self.data.source, **super().findings(bound, samples)}
        if "words_in_training" in findings:
            findings["num_words"] = len(words_of(self.data.vocabulary.decode(samples)))
        return findings

    def further_parts(self, metrics: Mapping[str, Any]) -> list[str]:
        unit = "token" if self.data.vocabulary.unit == "ids" else "character"
        return [f"{metrics[f'bits_per_{unit}']:.3f} bits per {unit}"]


def write_texts(path: Path, texts: Sequence[str], lines: Sequence[int] | None = None) -> None:
    """Write texts as UTF-8, each under a line with its number."""
    write_text(path, numbered_texts(texts, range(len(texts)), lines))


def numbered_texts(
    texts: Sequence[str], rows: Sequence[int], lines: Sequence[int] | None = None
) -> str:
    """Join texts, each under a heading with its number, row + 1, and the line that it completes, if
    ``lines`` has it for each row."""
    each = zip(rows, texts, strict=True)
    of = {row: f" of line {lines[row]}" if lines else "" for row in rows}
    return "".join(f"{f' sample {row + 1}{of[row]} ':-^72}\n{text}\n" for row, text in each)


class TextCells(TokenCells):
    """Measurement of text models: bits per character, and the words of samples."""

    def __init__(self) -> None:
        super().__init__(TextReport)

    def real_data(self, data: Any, num_samples: int, verdicts: int = 0) -> dict[str, float]:
        """Scores of real text, with the share of known words of held-out windows, since all words
        of training are known."""
        scores = super().real_data(data, num_samples, verdicts)
        if (known := scores.get("words_in_training_reference")) is not None:
            scores["words_in_training"] = known
        return scores


def evaluate_text(request: EvaluateRequest, trained: TrainedModel) -> ModelEvaluation:
    """Measure a model on held-out or other text, and its samples if their number or a judge is
    given.

    Raises ``ValueError`` for a judge that cannot read the samples, before anything is measured."""
    judge = (
        None if request.perplexity_model is None else read_judge(request.perplexity_model, trained)
    )
    # the model alone
    if request.num_samples is None and judge is None:
        return evaluate_token_model(request, trained)
    evaluation = evaluate_token_model(request, trained, partial(TextReport, judge=judge))
    if judge is not None:
        evaluation.facts["judge"] = judge.name
    samples = evaluation.samples
    # the price of a sample, and a line on the samples
    if samples is not None and samples.values:
        each = samples.drawn.cpu_seconds / len(samples.drawn.tokens)
        samples.values["cpu_seconds_per_sample"] = each
        evaluation.facts["processor"] = hardware()
        logger.info("%s", quality_line(evaluation.metrics()))
    return evaluation
