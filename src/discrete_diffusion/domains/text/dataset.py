"""Text as a ``TokenDataset``: windows of equal length, one after the other; and its units."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from einops import rearrange

from discrete_diffusion.data.base import SPLITS, Examples, TokenDataset
from discrete_diffusion.domains.text.subwords import SubwordVocabulary
from discrete_diffusion.domains.text.vocabulary import TextVocabulary, Vocabulary
from discrete_diffusion.layout.token_layout import TokenLayout

if TYPE_CHECKING:
    from discrete_diffusion.contracts import BoundEstimate
    from discrete_diffusion.domains.text.vocabulary import Vocabulary


def count_words(vocabulary: Vocabulary, pieces: Iterable[np.ndarray]) -> int:
    """Runs without white space in the text of ids, in pieces Int[n] that follow each other: a word
    across two counts once, and none goes on in another document."""
    num, within = 0, False
    for ids in pieces:
        for k, text in enumerate(vocabulary.documents(ids)):
            within = within and k == 0
            if text:
                num += len(text.split()) - (within and not text[0].isspace())
                within = not text[-1].isspace()
    return num


def units_of(nats: float, num_bytes: int, num_words: int) -> dict[str, float]:
    """The nats of a text as ``bits_per_byte``, nats / (ln 2 bytes), and ``perplexity_per_word``,
    exp(nats / words); without a word the former alone."""
    found = {"bits_per_byte": nats / math.log(2) / num_bytes}
    if num_words:
        found["perplexity_per_word"] = math.exp(min(nats / num_words, 700.0))
    return found


_ROWS = 4096
"""Windows that are made text at once."""


class TextDataset(TokenDataset):
    """Contiguous windows of ``length`` tokens that do not overlap; the last one of a split is
    filled up with PAD.

    A window is modelled by itself: no context of the one before it.

    ``ids``: Int64[N] of every split. ``source``: what the text is called in log and metrics.
    ``num_tokens``: N by split.
    """

    per_split: ClassVar[tuple[str, ...]] = ("splits", "whole", "num_tokens")
    vocabulary: Vocabulary

    def __init__(
        self,
        ids: dict[str, np.ndarray],
        vocabulary: TextVocabulary | SubwordVocabulary,
        *,
        layout: TokenLayout,
        source: str,
    ) -> None:
        self.vocabulary, self.layout, self.source = vocabulary, layout, source
        self.splits = {name: self._windows(ids[name]) for name in SPLITS}
        self.whole = self.splits  # of a copy with fewer samples, too
        self.num_tokens = {name: len(ids[name]) for name in SPLITS}

    def _windows(self, ids: np.ndarray) -> Examples:
        """Int64[N] -> x0 Int64[M, L], M = ceil(N / L)."""
        length, pad_id = self.layout.length, self.vocabulary.pad_id
        assert pad_id is not None
        num = math.ceil(len(ids) / length) * length
        x0 = torch.full((num,), pad_id)
        x0[: len(ids)] = torch.from_numpy(ids)
        real = torch.arange(num) < len(ids)
        return Examples(*(rearrange(x, "(m l) -> m l", l=length) for x in (x0, real)))

    @cached_property
    def _text_sizes(self) -> dict[str, tuple[int, int]]:
        return {}

    def text_sizes(self, split: str) -> tuple[int, int]:
        """Characters and UTF-8 bytes of the text that the tokens of a split stand for."""
        if split not in self._text_sizes:
            self._text_sizes[split] = self._count_text(split)
        return self._text_sizes[split]

    def _count_text(self, split: str) -> tuple[int, int]:
        found = [self.vocabulary.sizes(ids) for ids in self.pieces(split)]
        return sum(each[0] for each in found), sum(each[1] for each in found)

    @cached_property
    def _num_words(self) -> dict[str, int]:
        return {}

    def num_words(self, split: str) -> int:
        """Words of the text that the tokens of a split stand for."""
        if split not in self._num_words:
            self._num_words[split] = count_words(self.vocabulary, self.pieces(split))
        return self._num_words[split]

    def pieces(self, split: str) -> Iterator[np.ndarray]:
        """Ids Int[n] of all of a split, in order."""
        examples = self.whole[split]
        for x0, real in zip(examples.x0.split(_ROWS), examples.real.split(_ROWS), strict=True):
            yield x0[real].numpy()

    def further_bounds(self, split: str, bound: BoundEstimate) -> dict[str, float]:
        """Bits per character and per byte, and perplexity per word, see ``units_of``.

            bits per token = nats per token / ln 2
            bits per character = bits per token * tokens / characters

        A window is modelled without the text before it. Of ids, bits per token alone.
        """
        tokens = self.num_tokens[split]
        bits = bound.per_token / math.log(2)
        error, whole = bound.standard_error, bound.per_sample
        per_sample_error = error / whole if whole else 0.0  # relative; a bound of 0 has none
        if self.vocabulary.unit == "ids":
            error = bits * per_sample_error
            return {"bits_per_token": bits, "bits_per_token_standard_error": error}
        characters, num_bytes = self.text_sizes(split)
        return {
            "bits_per_character": bits * tokens / characters,
            "bits_per_character_standard_error": bits * tokens / characters * per_sample_error,
            **units_of(bound.per_token * tokens, num_bytes, self.num_words(split)),
        }

    def unit_of_bound(self, split: str, num_tokens: float) -> tuple[str, float]:
        if self.vocabulary.unit == "ids":
            return "bits per token", math.log(2) * num_tokens
        characters = self.text_sizes(split)[0] / self.num_tokens[split]
        return "bits per character", math.log(2) * num_tokens * characters

    def fingerprint(self) -> str:
        """Fingerprint of the data and of what the ids mean: other characters are other data."""
        meaning = f"{super().fingerprint()} {self.vocabulary.meaning}"
        return hashlib.sha256(meaning.encode("utf-8")).hexdigest()[:16]

    def texts(self, split: str) -> list[str]:
        """The windows of a split as text."""
        return self.vocabulary.decode(self.splits[split].x0)

    def summary(self) -> str:
        what = self.vocabulary.unit
        parts = ", ".join(f"{self.num_tokens[name]:,} {name}" for name in SPLITS)
        return (
            f"{self.source}: {parts} {what} in windows of {self.layout.length}; "
            f"{int(self.layout.num_legal[0])} distinct ids"
        )
