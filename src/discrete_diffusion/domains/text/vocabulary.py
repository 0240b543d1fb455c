"""Vocabulary of text: ids of characters, bytes or subwords, then MASK, then PAD; or ids alone, made
by a tokenizer elsewhere, read as numbers and kept as numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor

from discrete_diffusion.config.values import unknown_name
from discrete_diffusion.data.files import TextSource, read_text
from discrete_diffusion.domains.text.file_kinds import PLAIN
from discrete_diffusion.domains.text.subwords import SubwordVocabulary, warn_of_lost
from discrete_diffusion.runtime.inputs import HTML

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


TOKENS = ("characters", "bytes", "subwords", "ids")
LETTERS = " abcdefghijklmnopqrstuvwxyz"
"""The alphabet of text8."""

_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_SPELLED = {str(digit): f" {name} " for digit, name in enumerate(_NUMBERS)}
_NUM_CODE_POINTS = 0x110000
_MAX_NAMED = 5
"""Unknown characters that are named."""


@dataclass(frozen=True)
class TextVocabulary:
    """Id k < K is character k of ``characters``, or byte k if that is None; K is MASK and, if
    ``has_pad``, K + 1 PAD. ``as_letters``: text is written in ``LETTERS`` first.

    Raises ``ValueError`` if ``characters`` is empty or names one twice.
    """

    characters: str | None
    has_pad: bool = True
    as_letters: bool = False

    eos_id = bos_id = None

    def __post_init__(self) -> None:
        if self.characters is not None and (
            not self.characters or len(set(self.characters)) < len(self.characters)
        ):
            raise ValueError(
                f"data.characters={self.characters!r}: expected every character of the text once"
            )

    @classmethod
    def of_text(cls, text: str) -> TextVocabulary:
        """The characters of ``text``, sorted."""
        # OmegaConf, which keeps them in the config, would take "${" for a reference.
        codes = np.unique(_code_points(text))
        return cls("".join(map(chr, codes.tolist())).replace("${", "{$"))

    @property
    def unit(self) -> str:
        """``characters`` or ``bytes``, what a token is."""
        return "bytes" if self.characters is None else "characters"

    @property
    def mask_id(self) -> int:
        return 256 if self.characters is None else len(self.characters)

    @property
    def pad_id(self) -> int | None:
        return self.mask_id + 1 if self.has_pad else None

    @property
    def vocab_size(self) -> int:
        return self.mask_id + 1 + self.has_pad

    @property
    def meaning(self) -> str:
        """What ids mean, for fingerprints."""
        return str(self.characters)

    def encode_each(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Int64[N] of each text; characters of ``unknown`` are left out."""
        if self.characters is None or self.as_letters:
            return [self.encode(TextSource("text", text)) for text in texts]
        found = (self._id_of_code_point[_code_points(text)] for text in texts)
        return [ids[ids >= 0] for ids in found]

    def is_exact(self, text: str) -> bool:
        """True if the ids of ``text``, of known characters, give ``text`` back."""
        return not self.as_letters

    def unknown(self, texts: Iterable[str]) -> dict[str, int]:
        """Characters that are not in the vocabulary, by how often they occur."""
        if self.characters is None or self.as_letters:
            return {}
        counts: dict[str, int] = {}
        known = set(self.characters)
        for text in texts:
            for lost in set(text) - known:
                counts[lost] = counts.get(lost, 0) + text.count(lost)
        return counts

    def sizes(self, ids: np.ndarray) -> tuple[int, int]:
        """Characters and UTF-8 bytes of the text that ids stand for; a character of several bytes
        counts where its first byte is."""
        if self.characters is None:
            return int(np.count_nonzero((ids & 0xC0) != 0x80)), len(ids)
        counts = np.bincount(ids, minlength=len(self.characters))
        widths = [len(character.encode()) for character in self.characters]
        return len(ids), int(counts @ np.array(widths))

    def read(self, path: str | Path) -> np.ndarray:
        """Int64[N], the ids of a text file; errors of ``read_text``. Characters that are not in the
        vocabulary are left out, and a warning counts and names them."""
        source = read_text(path, HTML, expected=PLAIN)
        warn_of_lost(self.unknown([source.text]), source.name)
        return self.encode_each([source.text])[0]

    def encode(
        self,
        source: TextSource,
        *,
        known: str = "data.characters, those of the training text unless they are set",
        remedy: str = "write it otherwise",
    ) -> np.ndarray:
        """Int64[N], the ids of a text. ``ValueError`` if a character is not in ``characters``:
        names the place of the first one, how many there are and what to do. ``known``: what
        ``characters`` are, in words."""
        if self.as_letters:
            source = replace(source, text=in_letters(source.text))
        if self.characters is None:
            return np.frombuffer(source.text.encode("utf-8"), dtype=np.uint8).astype(np.int64)
        ids = self._id_of_code_point[_code_points(source.text)]
        if len(unknown := np.flatnonzero(ids < 0)):
            first = int(unknown[0])
            character = source.text[first]
            line = source.text.count("\n", 0, first) + 1
            place = f"{source.name}, line {line:,}" if "\n" in source.text else source.name
            kinds = list(dict.fromkeys(source.text[k] for k in unknown.tolist()))
            named = ", ".join(map(repr, kinds[:_MAX_NAMED])) + ", ..." * (len(kinds) > _MAX_NAMED)
            more = f" ({len(unknown):,} such places in all: {named})" * (len(unknown) > 1)
            raise ValueError(
                f"{place}: the character {character!r} "
                f"(U+{ord(character):04X}) is none of {known}{more}; {remedy}"
            )
        return ids

    def decode(self, tokens: Tensor) -> list[str]:
        """Int[B, L] clean tokens as text, PAD left out; bytes that are no UTF-8 become U+FFFD."""
        rows = [row[row <= self.mask_id] for row in tokens.cpu().numpy()]
        if self.characters is None:
            contents = (row.astype(np.uint8).tobytes() for row in rows)
            return [content.decode("utf-8", errors="replace") for content in contents]
        return ["".join(map(self.characters.__getitem__, row.tolist())) for row in rows]

    def documents(self, ids: np.ndarray) -> list[str]:
        """The text of ids Int[N], in which nothing separates documents."""
        return self.decode(torch.from_numpy(ids.astype(np.int64)).unsqueeze(0))

    samples = lines = decode
    """Tokens as ``load(...).sample`` returns them, and as files have them: text."""

    @cached_property
    def _id_of_code_point(self) -> np.ndarray:
        """Int64[0x110000], -1 for a character that is not in the vocabulary."""
        assert self.characters is not None
        table = np.full(_NUM_CODE_POINTS, -1, dtype=np.int64)
        table[_code_points(self.characters)] = np.arange(len(self.characters))
        return table


Vocabulary: TypeAlias = TextVocabulary | SubwordVocabulary | IdVocabulary


def text_vocabulary_of(data_config: Mapping[str, Any]) -> TextVocabulary | SubwordVocabulary:
    """``vocabulary_of`` a config whose tokens are those of text, not ids alone."""
    vocabulary = vocabulary_of(data_config)
    assert not isinstance(vocabulary, IdVocabulary)
    return vocabulary


def in_letters(text: str) -> str:
    """Text by the protocol of text8 (https://mattmahoney.net/dc/textdata.html): small letters,
    digits spelled out, one space for all else."""
    spelled = re.sub("[0-9]", lambda digit: _SPELLED[digit.group()], text.lower())
    return re.sub("[^a-z]+", " ", spelled)


def vocabulary_of(data_config: Mapping[str, Any]) -> Vocabulary:
    """The vocabulary that a completed ``config.data`` states. There is no PAD where rows are whole
    (``data.pack``).

    Raises ``ValueError`` for an unknown ``tokens``, or for characters that were not filled in yet.
    """
    tokens = data_config["tokens"]
    if tokens not in TOKENS:
        raise ValueError(unknown_name("kind of token", tokens, TOKENS))
    has_pad = data_config.get("pack") in (None, "pad")
    if tokens == "bytes":
        return TextVocabulary(None, has_pad)
    if tokens == "subwords":
        if data_config.get("tokenizer_state") is None:
            raise ValueError(
                "data.tokenizer is not set; give the tokenizer of data.tokens=subwords"
            )
        return SubwordVocabulary(str(data_config["tokenizer_state"]), has_pad)
    if tokens == "ids":
        num, mask_id = data_config.get("vocab_size"), data_config.get("mask_id")
        if num is None:
            raise ValueError(
                "data.vocab_size is not set; complete_data(config) reads it off a file"
            )
        has_pad = data_config.get("pack") == "pad"
        pad_id = int(num) - 1 if has_pad else None
        return IdVocabulary(
            int(num), int(num) - 1 - has_pad if mask_id is None else int(mask_id), pad_id
        )
    if data_config.get("characters") is None:
        raise ValueError("data.characters is not set; complete_data(config) reads it off the text")
    as_letters = data_config.get("tokenizer") == "text8"
    return TextVocabulary(str(data_config["characters"]), has_pad, as_letters)


def _code_points(text: str) -> np.ndarray:
    """Code points UInt32[N]."""
    return np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
