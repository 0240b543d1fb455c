"""Vocabulary of text: ids of characters or bytes, then MASK, then PAD; or ids alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from discrete_diffusion.config.naming import unknown_name
from discrete_diffusion.data.text_files import TextSource, read_text
from discrete_diffusion.domains.text.ids import IdVocabulary

TOKENS = ("characters", "bytes", "ids")
_NUM_CODE_POINTS = 0x110000
_MAX_NAMED = 5
"""Unknown characters that are named."""


@dataclass(frozen=True)
class TextVocabulary:
    """Id k < K is character k of ``characters``, or byte k if that is None; K is MASK, K + 1 PAD.

    Raises ``ValueError`` if ``characters`` is empty or names one twice.
    """

    characters: str | None

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
    def pad_id(self) -> int:
        return self.mask_id + 1

    @property
    def vocab_size(self) -> int:
        return self.mask_id + 2

    def read(self, path: str | Path) -> np.ndarray:
        """Int64[N], the ids of a text file; errors of ``read_text`` and ``encode``."""
        return self.encode(read_text(path))

    def encode(
        self,
        source: TextSource,
        *,
        known: str = "data.characters, which are those of the training text unless they are set",
        remedy: str = "remove it there, set data.characters with it, or take data.tokens=bytes",
    ) -> np.ndarray:
        """Int64[N], the ids of a text. ``ValueError`` if a character is not in ``characters``:
        names the place of the first one, how many there are and what to do. ``known``: what
        ``characters`` are, in words."""
        if self.characters is None:
            return np.frombuffer(source.text.encode("utf-8"), dtype=np.uint8).astype(np.int64)
        ids = self._id_of_code_point[_code_points(source.text)]
        if len(unknown := np.flatnonzero(ids < 0)):
            first = int(unknown[0])
            character = source.text[first]
            line = source.text.count("\n", 0, first) + 1
            kinds = list(dict.fromkeys(source.text[k] for k in unknown.tolist()))
            named = ", ".join(map(repr, kinds[:_MAX_NAMED])) + ", ..." * (len(kinds) > _MAX_NAMED)
            more = f" ({len(unknown):,} such places in all: {named})" * (len(unknown) > 1)
            raise ValueError(
                f"{source.name}, line {line:,}: the character {character!r} "
                f"(U+{ord(character):04X}) is none of {known}{more}; {remedy}"
            )
        return ids

    def decode(self, tokens: Tensor) -> list[str]:
        """Int[B, L] clean tokens as text, PAD left out; bytes that are no UTF-8 become U+FFFD."""
        rows = [row[row != self.pad_id] for row in tokens.cpu().numpy()]
        if self.characters is None:
            contents = (row.astype(np.uint8).tobytes() for row in rows)
            return [content.decode("utf-8", errors="replace") for content in contents]
        return ["".join(map(self.characters.__getitem__, row.tolist())) for row in rows]

    samples = lines = decode
    """Tokens as ``load(...).sample`` returns them, and as files have them: text."""

    @cached_property
    def _id_of_code_point(self) -> np.ndarray:
        """Int64[0x110000], -1 for a character that is not in the vocabulary."""
        assert self.characters is not None
        table = np.full(_NUM_CODE_POINTS, -1, dtype=np.int64)
        table[_code_points(self.characters)] = np.arange(len(self.characters))
        return table


def vocabulary_of(data_config: Mapping[str, Any]) -> TextVocabulary | IdVocabulary:
    """The vocabulary that a completed ``config.data`` states.

    Raises ``ValueError`` for an unknown ``tokens``, or for characters that were not filled in yet.
    """
    tokens = data_config["tokens"]
    if tokens not in TOKENS:
        raise ValueError(unknown_name("kind of token", tokens, TOKENS))
    if tokens == "bytes":
        return TextVocabulary(None)
    if tokens == "ids":
        num, mask_id = data_config.get("vocab_size"), data_config.get("mask_id")
        if num is None:
            raise ValueError(
                "data.vocab_size is not set; complete_data(config) reads it off a file"
            )
        return IdVocabulary(int(num), int(num) - 1 if mask_id is None else int(mask_id))
    if data_config.get("characters") is None:
        raise ValueError("data.characters is not set; complete_data(config) reads it off the text")
    return TextVocabulary(str(data_config["characters"]))


def _code_points(text: str) -> np.ndarray:
    """Code points UInt32[N]."""
    return np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
