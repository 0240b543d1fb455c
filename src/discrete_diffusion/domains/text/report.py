"""Report on a model of text, its samples included, and ``evaluate``."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import BoundEstimate
from discrete_diffusion.domains.cell_measurement import TokenCells
from discrete_diffusion.domains.text.dataset import TextDataset
from discrete_diffusion.domains.text.judge import read_judge
from discrete_diffusion.domains.text.quality import (
    FEWEST_FOR_MAUVE,
    character_distance,
    frequency_distance,
    mauve,
    quality_line,
    share_known,
    text_quality,
    words_of,
)
from discrete_diffusion.evaluation.comparison import Column
from discrete_diffusion.evaluation.model_evaluation import ModelEvaluation, evaluate_token_model
from discrete_diffusion.evaluation.report import Headline
from discrete_diffusion.evaluation.token_report import TokenReport
from discrete_diffusion.runtime.atomic_files import write_text

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.domains.text.judge import Judge
    from discrete_diffusion.evaluation.requests import EvaluateRequest
    from discrete_diffusion.evaluation.trained_model import TrainedModel


logger = logging.getLogger(__name__)

SAMPLE_TEXTS = "samples.txt"
_SHOWN = 36
"""Samples of a validation that are written."""
_REAL = (27,)
"""Keeps the choice of windows apart from other choices."""


class TextReport(TokenReport):
    """Samples of text against the windows of a split. ``judge``: reads them, too."""

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
        self._mauve = mauve(judge)

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
        """``character_tv`` to the held-out windows, and ``words_in_training``, the share of words
        that training has, of the samples and of the windows themselves; of ids ``token_tv``, that
        of their frequencies; ``text_quality``; and ``mauve`` to as many held-out windows, where a
        judge of transformers is given. None without samples or windows."""
        return self._measure(samples) | self._likeness("samples", samples, len(samples))

    def measure_real(self, num: int) -> dict[str, float]:
        """Of as many windows as there are samples: shares of distinct n-grams depend on it;
        ``mauve`` of as many of training."""
        found = self._measure(self._windows(self.split, num))
        return found | self._likeness("windows of training", self._windows("train", num), num)

    def _measure(self, samples: Tensor) -> dict[str, float]:
        windows = self.data.splits[self.split].x0
        if len(samples) == 0 or len(windows) == 0:
            return {}
        quality = text_quality(self.data.vocabulary, samples, self.judge)
        if self.data.vocabulary.unit == "ids":
            counts = (Counter(tokens.flatten().tolist()) for tokens in (samples, windows))
            return {**quality, "token_tv": frequency_distance(*counts)}
        texts = self.data.vocabulary.decode(samples)
        return {
            **quality,
            "character_tv": character_distance(texts, self._reference),
            "words_in_training": share_known(texts, self._known_words),
            "words_in_training_reference": self._reference_share,
        }

    def _likeness(self, what: str, tokens: Tensor, num: int) -> dict[str, float]:
        """``mauve`` of tokens to ``num`` held-out windows; none of too few, which the log says."""
        if self._mauve is None:
            return {}
        held_out = self._windows(self.split, num)
        if min(len(tokens), len(held_out)) < FEWEST_FOR_MAUVE:
            texts = f"{len(tokens):,} {what} and {len(held_out):,} held-out windows"
            logger.info("MAUVE is not measured of %s: it takes %d each", texts, FEWEST_FOR_MAUVE)
            return {}
        decode = self.data.vocabulary.decode
        return {"mauve": self._mauve(decode(tokens), decode(held_out))}

    def _windows(self, split: str, num: int) -> Tensor:
        """``num`` windows of a split, at random, in their order."""
        windows = self.data.splits[split].x0
        order = torch.randperm(len(windows), generator=make_generator(0, *_REAL))
        return windows[order[:num].sort().values]

    def save(self, samples: Tensor, folder: Path) -> None:
        if len(samples):
            write_texts(folder / SAMPLE_TEXTS, self.data.vocabulary.lines(samples))

    def plot(self, samples: Tensor, path: Path) -> None:
        if len(samples):
            first = self.data.vocabulary.lines(samples[:_SHOWN])
            write_texts(path.with_suffix(".txt"), first)

    def findings(self, bound: BoundEstimate, samples: Tensor) -> dict[str, Any]:
        found = {"text": self.data.source, **super().findings(bound, samples)}
        if "words_in_training" in found:
            found["num_words"] = len(words_of(self.data.vocabulary.decode(samples)))
        return found

    def further_parts(self, metrics: Mapping[str, Any]) -> list[str]:
        unit = "token" if self.data.vocabulary.unit == "ids" else "character"
        return [f"{metrics[f'bits_per_{unit}']:.3f} bits per {unit}"]


def write_texts(path: Path, texts: Sequence[str], lines: Sequence[int] | None = None) -> None:
    """Write texts as UTF-8, each under a line with its number."""
    write_text(path, numbered_texts(texts, range(len(texts)), lines))


def numbered_texts(
    texts: Sequence[str], rows: Sequence[int], lines: Sequence[int] | None = None
) -> str:
    """Each under a line with its number, its row + 1, and the number of the line that it completes,
    of ``lines`` of all rows."""
    each = zip(rows, texts, strict=True)
    of = {row: f" of line {lines[row]}" if lines else "" for row in rows}
    return "".join(f"{f' sample {row + 1}{of[row]} ':-^72}\n{text}\n" for row, text in each)


class TextCells(TokenCells):
    """Bits per character, and the words of samples."""

    def __init__(self) -> None:
        super().__init__(TextReport)

    def real_data(self, data: Any, num_samples: int, verdicts: int = 0) -> dict[str, float]:
        """The share of known words is that of the reference: training knows all of its own."""
        scores = super().real_data(data, num_samples, verdicts)
        if (known := scores.get("words_in_training_reference")) is not None:
            scores["words_in_training"] = known
        return scores


def evaluate_text(request: EvaluateRequest, trained: TrainedModel) -> ModelEvaluation:
    """A model on held-out or other text; its samples, too, if their number or a judge is given.

    Raises ``ValueError`` for a judge that cannot read them, before anything is measured."""
    judge = None if request.judge is None else read_judge(request.judge, trained)
    if request.num_samples is None and judge is None:
        return evaluate_token_model(request, trained)
    found = evaluate_token_model(request, trained, partial(TextReport, judge=judge))
    if judge is not None:
        found.facts["judge"] = judge.name
    if found.samples is not None and found.samples.values:
        calls = {"network_calls_per_sample": found.samples.drawn.network_calls}
        logger.info("%s", quality_line({**found.samples.values, **calls}))
    return found
