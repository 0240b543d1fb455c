"""Tokens that are ids alone: made by a tokenizer elsewhere, read as numbers and kept as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

_MOST_UINT16 = 1 << 16


@dataclass(frozen=True)
class IdVocabulary:
    """V ids without names, of which MASK is one. There is no PAD: rows are whole windows.

    Raises ``ValueError`` unless MASK is one of the ids.
    """

    vocab_size: int
    mask_id: int

    unit = "ids"
    characters = None
    pad_id = None

    def __post_init__(self) -> None:
        if not 0 <= self.mask_id < self.vocab_size or self.vocab_size < 2:
            raise ValueError(
                f"data.mask_id={self.mask_id} is outside the vocabulary, 0..{self.vocab_size - 1}"
            )

    @classmethod
    def of_file(cls, path: str | Path) -> IdVocabulary:
        """Ids up to the largest one of a file, then MASK."""
        largest = int(_numbers(path, None).max())
        return cls(largest + 2, largest + 1)

    def read(self, path: str | Path) -> np.ndarray:
        """Int64[N] of a file: ``.npy`` of whole numbers, or ``.bin``, little-endian uint16, uint32
        where V is above 65,536.

        Raises ``FileNotFoundError`` or ``ValueError`` naming file, place and remedy: no such file,
        not of numbers, an id that is none of V, or MASK.
        """
        ids = _numbers(path, self.vocab_size)
        self._check(ids, str(path))
        return ids

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
        self._check(ids, where)
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
            self._check(np.asarray(sample), f"samples[{k}]")
        return torch.tensor([list(map(int, sample)) for sample in samples]).reshape(-1, length)

    def decode(self, tokens: Tensor) -> list[str]:
        """Raises ``ValueError``: there is no tokenizer."""
        raise ValueError(
            "the model has no tokenizer: its tokens are ids (data.tokens=ids); decode them with "
            "the tokenizer that they were made with"
        )

    def samples(self, tokens: Tensor) -> list[list[int]]:
        """Int[B, L] -> rows of ids."""
        rows: list[list[int]] = tokens.tolist()
        return rows

    def lines(self, tokens: Tensor) -> list[str]:
        """Int[B, L] -> rows of ids as files have them, with spaces between."""
        return [" ".join(map(str, row)) for row in tokens.tolist()]

    def _check(self, ids: np.ndarray, where: str) -> None:
        wrong = (ids < 0) | (ids >= self.vocab_size) | (ids == self.mask_id)
        if len(places := np.flatnonzero(wrong)):
            first = int(places[0])
            raise ValueError(
                f"{where}: id {ids[first]} at place {first:,} is MASK, or none of "
                f"0..{self.vocab_size - 1}; give ids of the tokenizer that belongs to the model"
            )


def _numbers(path: str | Path, vocab_size: int | None) -> np.ndarray:
    """Int64[N]."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no file of ids at {path.absolute()}")
    if path.suffix not in (".npy", ".bin"):
        raise ValueError(
            f"{path}: data.tokens=ids reads .npy of whole numbers, or .bin of uint16; encode text "
            "with the tokenizer first"
        )
    if path.suffix == ".bin":
        kind = "<u2" if (vocab_size or 0) <= _MOST_UINT16 else "<u4"
        if not (size := path.stat().st_size) or size % np.dtype(kind).itemsize:
            raise ValueError(f"{path} has {size:,} bytes, which are no ids of type {kind}")
        return np.fromfile(path, kind).astype(np.int64)
    try:
        found = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path} is no .npy of numbers: {error}") from error
    if not isinstance(found, np.ndarray) or found.dtype.kind not in "iu" or not found.size:
        raise ValueError(f"{path} holds no whole numbers; expected the ids of a text, Int[N]")
    return found.reshape(-1).astype(np.int64)
