"""Tokens that are ids alone: made by a tokenizer elsewhere, read as numbers and kept as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

_NO_TOKENIZER = (
    "the model has no tokenizer: its tokens are ids (data.tokens=ids); decode them with the "
    "tokenizer that they were made with, or train with data.tokenizer=FOLDER"
)


@dataclass(frozen=True)
class IdVocabulary:
    """V ids without names, of which MASK is one, and PAD where documents have rows of their own.

    Raises ``ValueError`` unless MASK is one of the ids.
    """

    vocab_size: int
    mask_id: int
    pad_id: int | None = None

    unit = "ids"
    characters = None
    meaning = ""
    eos_id = bos_id = None

    def __post_init__(self) -> None:
        if not 0 <= self.mask_id < self.vocab_size or self.vocab_size < 2:
            raise ValueError(
                f"data.mask_id={self.mask_id} is outside the vocabulary, 0..{self.vocab_size - 1}"
            )

    def of_text(self, text: str, where: str) -> np.ndarray:
        """Int64[N] of ids with spaces between. ``ValueError``, naming ``where``, for anything else
        and for an id that is none of V."""
        words = text.split()
        if wrong := [word for word in words if not word.isdecimal()]:
            raise ValueError(
                f"{where}: {wrong[0]!r} is no id; the model has no tokenizer, so write the ids of "
                "a text with spaces between, and [MASK] for one that is missing"
            )
        ids = np.array([int(word) for word in words], np.int64)
        self.check(ids, where)
        return ids

    def rows(self, samples: Sequence[Any], length: int) -> Tensor:
        """Int[M, L] of samples, each of L ids; ``ValueError`` naming the first that is not."""
        for k, sample in enumerate(samples):
            if isinstance(sample, str):
                raise ValueError(
                    f"samples[{k}] is text, but the model has no tokenizer: its tokens are ids; "
                    "encode the text with the tokenizer of the data, and give lists of ids"
                )
            if len(sample) != length:
                raise ValueError(
                    f"samples[{k}] has {len(sample):,} ids; expected data.length={length}"
                )
            self.check(np.asarray(sample), f"samples[{k}]")
        return torch.tensor([list(map(int, sample)) for sample in samples]).reshape(-1, length)

    def decode(self, tokens: Tensor) -> list[str]:
        """Raises ``ValueError``: there is no tokenizer."""
        raise ValueError(_NO_TOKENIZER)

    def samples(self, tokens: Tensor) -> list[list[int]]:
        """Int[B, L] -> rows of ids."""
        rows: list[list[int]] = tokens.tolist()
        return rows

    def lines(self, tokens: Tensor) -> list[str]:
        """Int[B, L] -> rows of ids as files have them, with spaces between."""
        return [" ".join(map(str, row)) for row in tokens.tolist()]

    def sizes(self, ids: np.ndarray) -> tuple[int, int]:
        """Raises ``ValueError``, as ``decode`` does: the text is not known."""
        raise ValueError(_NO_TOKENIZER)

    def documents(self, ids: np.ndarray) -> list[str]:
        """Raises ``ValueError``, as ``decode`` does."""
        raise ValueError(_NO_TOKENIZER)

    def check(self, ids: np.ndarray, where: str) -> None:
        """Errors of ``check_ids``."""
        check_ids(ids, self, where)


class HasIds(Protocol):
    """A vocabulary: V ids, of which MASK is one and PAD may be."""

    @property
    def vocab_size(self) -> int: ...

    @property
    def mask_id(self) -> int: ...

    @property
    def pad_id(self) -> int | None: ...


def check_ids(ids: np.ndarray, vocabulary: HasIds, where: str, start: int = 0) -> None:
    """``ValueError``, naming ``where``, for ids that are none of V, or MASK or PAD; ``start``: the
    place of the first one there."""
    wrong = (ids < 0) | (ids >= vocabulary.vocab_size)
    for special in (vocabulary.mask_id, vocabulary.pad_id):
        wrong |= ids == special
    if len(places := np.flatnonzero(wrong)):
        first = int(places[0])
        raise ValueError(
            f"{where}: id {ids.flat[first]} at place {start + first:,} is MASK, or none of "
            f"0..{vocabulary.vocab_size - 1}; give ids of the tokenizer that belongs to the model"
        )
