"""Vocabularies of text: ids of characters, bytes or subwords, then MASK, then PAD; or ids without a
tokenizer, which are read and written as numbers."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import numpy as np
import torch
from omegaconf import DictConfig
from torch import Tensor

from discrete_diffusion.config.values import unknown_name
from discrete_diffusion.data.files import TextSource, read_text
from discrete_diffusion.domains.text import subwords, token_files
from discrete_diffusion.domains.text.domain import PLAIN
from discrete_diffusion.domains.text.subwords import SubwordVocabulary, warn_of_lost
from discrete_diffusion.runtime.inputs import HTML

logger = logging.getLogger(__name__)

_TOKENIZERS = ("characters", "bytes", "text8", "bpe:8192", "a folder", "a tokenizer.json")
_MIN_BPE = 257
"""Least size of a BPE tokenizer: the 256 bytes and the end of a text."""


@dataclass(frozen=True)
class IdVocabulary:
    """V ids without a tokenizer, including MASK, and PAD if rows are padded.

    Raises ``ValueError`` unless MASK is among the ids.
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

    def parse(self, text: str, where: str) -> np.ndarray:
        """Parse ids with spaces between into Int64[N]. Raises ``ValueError`` naming ``where`` for
        other text, and for an id outside the vocabulary."""
        # whole numbers only
        words = text.split()
        if wrong := [word for word in words if not word.isdecimal()]:
            raise ValueError(
                f"{where}: {wrong[0]!r} is not an id; the model has no tokenizer, so write ids "
                "with spaces between, and [MASK] for one that is missing"
            )
        ids = np.array([int(word) for word in words], np.int64)
        check_ids(ids, self, where)
        return ids

    def rows(self, samples: Sequence[Any], length: int) -> Tensor:
        """Stack samples of L ids each as Int[M, L]; ``ValueError`` naming the first wrong
        sample."""
        # rows of one length, of known ids
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
            check_ids(np.asarray(sample), self, f"samples[{k}]")
        return torch.tensor([list(map(int, sample)) for sample in samples]).reshape(-1, length)

    def decode(self, tokens: Any) -> NoReturn:
        """Raise ``ValueError``, since a tokenizer is missing."""
        raise ValueError(
            "the model has no tokenizer: its tokens are ids (data.token_unit=ids); decode them "
            "with the tokenizer that they were made with, or train with data.tokenizer=FOLDER"
        )

    sizes = documents = decode

    def samples(self, tokens: Tensor) -> list[list[int]]:
        """Rows of tokens Int[B, L] as lists of ids."""
        rows: list[list[int]] = tokens.tolist()
        return rows

    def lines(self, tokens: Tensor) -> list[str]:
        """Rows of tokens Int[B, L] as lines, with spaces between ids."""
        return [" ".join(map(str, row)) for row in tokens.tolist()]


def check_ids(ids: np.ndarray, vocabulary: Vocabulary, where: str, start: int = 0) -> None:
    """Raise ``ValueError`` naming ``where`` if an id is outside the vocabulary, MASK or PAD.
    ``start``: position of the first id, for the message."""
    # outside of V, or a special token
    wrong = (ids < 0) | (ids >= vocabulary.vocab_size)
    for special in (vocabulary.mask_id, vocabulary.pad_id):
        wrong |= ids == special
    if len(places := np.flatnonzero(wrong)):
        first = int(places[0])
        raise ValueError(
            f"{where}: id {ids.flat[first]} at place {start + first:,} is MASK, or not in "
            f"0..{vocabulary.vocab_size - 1}; give ids of the tokenizer that belongs to the model"
        )


TOKENS = ("characters", "bytes", "subwords", "ids")
LETTERS = " abcdefghijklmnopqrstuvwxyz"
"""The alphabet of text8."""

_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_SPELLED = {str(digit): f" {name} " for digit, name in enumerate(_NUMBERS)}
_NUM_CODE_POINTS = 0x110000
_MAX_NAMED = 5
"""Most unknown characters that a message names."""


@dataclass(frozen=True)
class TextVocabulary:
    """Vocabulary of K ``characters`` (None: the 256 bytes), then MASK (id K) and, if ``has_pad``,
    PAD (id K + 1). ``as_letters``: text is reduced to ``LETTERS`` first.

    Raises ``ValueError`` if ``characters`` is empty or repeats one.
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
    def from_text(cls, text: str) -> TextVocabulary:
        """Vocabulary of the characters of ``text``, sorted."""
        # OmegaConf, which keeps them in the config, would take "${" for a reference
        codes = np.unique(_code_points(text))
        return cls("".join(map(chr, codes.tolist())).replace("${", "{$"))

    @property
    def unit(self) -> str:
        """Unit of a token, ``characters`` or ``bytes``."""
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
        """Meaning of the ids, for fingerprints."""
        return str(self.characters)

    def encode_each(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Encode each text as Int64[N], without unknown characters."""
        if self.characters is None or self.as_letters:
            return [self.encode(TextSource("text", text)) for text in texts]
        rows = (self._id_of_code_point[_code_points(text)] for text in texts)
        return [ids[ids >= 0] for ids in rows]

    def is_exact(self, text: str) -> bool:
        """True if encoding and decoding restores ``text``, whose characters are all known."""
        return not self.as_letters

    def unknown(self, texts: Iterable[str]) -> dict[str, int]:
        """Counts of characters that are not in the vocabulary."""
        if self.characters is None or self.as_letters:
            return {}
        counts: dict[str, int] = {}
        known = set(self.characters)
        for text in texts:
            for lost in set(text) - known:
                counts[lost] = counts.get(lost, 0) + text.count(lost)
        return counts

    def sizes(self, ids: np.ndarray) -> tuple[int, int]:
        """Numbers of characters and UTF-8 bytes in the text of ids; a character of several bytes
        counts at its first byte."""
        if self.characters is None:
            return int(np.count_nonzero((ids & 0xC0) != 0x80)), len(ids)
        counts = np.bincount(ids, minlength=len(self.characters))
        widths = [len(character.encode()) for character in self.characters]
        return len(ids), int(counts @ np.array(widths))

    def read(self, path: str | Path) -> np.ndarray:
        """Encode a text file as Int64[N]. Unknown characters are left out, and a warning counts and
        names them. Raises the errors of ``read_text``."""
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
        """Encode a text as Int64[N]. ``known``: description of the known characters.

        Raises ``ValueError`` for unknown characters, naming the line of the first, their number,
        and the ``remedy``.
        """
        if self.as_letters:
            source = replace(source, text=reduce_to_letters(source.text))
        if self.characters is None:
            return np.frombuffer(source.text.encode("utf-8"), dtype=np.uint8).astype(np.int64)
        ids = self._id_of_code_point[_code_points(source.text)]
        if len(unknown := np.flatnonzero(ids < 0)):
            # place of the first unknown character
            first = int(unknown[0])
            character = source.text[first]
            line = source.text.count("\n", 0, first) + 1
            place = f"{source.name}, line {line:,}" if "\n" in source.text else source.name
            # names of all of them
            kinds = list(dict.fromkeys(source.text[k] for k in unknown.tolist()))
            named = ", ".join(map(repr, kinds[:_MAX_NAMED])) + ", ..." * (len(kinds) > _MAX_NAMED)
            more = f" ({len(unknown):,} such places in all: {named})" * (len(unknown) > 1)
            raise ValueError(
                f"{place}: the character {character!r} "
                f"(U+{ord(character):04X}) is not among {known}{more}; {remedy}"
            )
        return ids

    def decode(self, tokens: Tensor) -> list[str]:
        """Text of clean tokens Int[B, L], without PAD; bytes that are not UTF-8 become U+FFFD."""
        rows = [row[row <= self.mask_id] for row in tokens.cpu().numpy()]
        if self.characters is None:
            contents = (row.astype(np.uint8).tobytes() for row in rows)
            return [content.decode("utf-8", errors="replace") for content in contents]
        return ["".join(map(self.characters.__getitem__, row.tolist())) for row in rows]

    def documents(self, ids: np.ndarray) -> list[str]:
        """Decode ids Int[N] as a single document, since no id ends a document."""
        return self.decode(torch.from_numpy(ids.astype(np.int64)).unsqueeze(0))

    # tokens as load(...).sample returns them, and as lines of a file
    samples = lines = decode

    @cached_property
    def _id_of_code_point(self) -> np.ndarray:
        """Int64[0x110000], id of each code point; -1 if the vocabulary lacks it."""
        assert self.characters is not None
        table = np.full(_NUM_CODE_POINTS, -1, dtype=np.int64)
        table[_code_points(self.characters)] = np.arange(len(self.characters))
        return table


Vocabulary: TypeAlias = TextVocabulary | SubwordVocabulary | IdVocabulary


def text_vocabulary_of(data_config: Mapping[str, Any]) -> TextVocabulary | SubwordVocabulary:
    """Vocabulary of a completed ``config.data`` whose tokens stand for text."""
    vocabulary = vocabulary_of(data_config)
    assert not isinstance(vocabulary, IdVocabulary)
    return vocabulary


def reduce_to_letters(text: str) -> str:
    """Reduce text to lower-case letters, with digits spelled out and one space for all else, by the
    protocol of text8 (https://mattmahoney.net/dc/textdata.html)."""
    spelled = re.sub("[0-9]", lambda digit: _SPELLED[digit.group()], text.lower())
    return re.sub("[^a-z]+", " ", spelled)


def vocabulary_of(data_config: Mapping[str, Any]) -> Vocabulary:
    """Vocabulary of a completed ``config.data``, without PAD if ``data.pack`` fills every row.

    Raises ``ValueError`` for unknown ``tokens``, and for characters that are not set yet.
    """
    tokens = data_config["token_unit"]
    if tokens not in TOKENS:
        raise ValueError(unknown_name("kind of token", tokens, TOKENS))
    has_pad = data_config.get("pack") in (None, "pad")
    if tokens == "bytes":
        return TextVocabulary(None, has_pad)
    if tokens == "subwords":
        if data_config.get("tokenizer_state") is None:
            raise ValueError(
                "data.tokenizer is not set; give the tokenizer of data.token_unit=subwords"
            )
        return SubwordVocabulary(str(data_config["tokenizer_state"]), has_pad)
    if tokens == "ids":
        num, mask_id = data_config.get("vocab_size"), data_config.get("mask_id")
        if num is None:
            raise ValueError(
                "data.vocab_size is not set; complete_data(config) reads it off a file"
            )
        # the last ids are MASK and PAD, unless the config says otherwise
        has_pad = data_config.get("pack") == "pad"
        pad_id = int(num) - 1 if has_pad else None
        return IdVocabulary(
            int(num), int(num) - 1 - has_pad if mask_id is None else int(mask_id), pad_id
        )
    # characters of the training text
    if data_config.get("characters") is None:
        raise ValueError("data.characters is not set; complete_data(config) reads it off the text")
    as_letters = data_config.get("tokenizer") == "text8"
    return TextVocabulary(str(data_config["characters"]), has_pad, as_letters)


def named_tokenizer(name: str, texts: Callable[[], Iterable[str]] | None) -> dict[str, Any]:
    """Return the ``config.data`` entries for a tokenizer name: ``tokenizer``, ``token_unit``, and
    ``characters`` or ``tokenizer_state`` if the name determines them.

    ``name``: ``characters`` (or ``chars``), ``bytes``, ``text8`` (27 letters), ``bpe:SIZE``, a
    folder of ``data tokenize``, or a path for ``state_of_file``. ``texts``: texts to train
    ``bpe:SIZE`` on; None if they are not given. Raises ``ValueError`` for an unknown name, a size
    that is too small, or a damaged file, and ``FileNotFoundError`` for a path that does not exist.
    """
    # built-in ones
    if name in ("chars", "characters"):
        return {"tokenizer": name, "token_unit": "characters"}
    if name == "bytes":
        return {"tokenizer": name, "token_unit": "bytes"}
    if name == "text8":
        return {"tokenizer": name, "token_unit": "characters", "characters": LETTERS}
    if bpe := re.fullmatch(r"bpe:(\d+)", name):
        if texts is None:
            raise ValueError(
                f"data.tokenizer={name} is trained on text; encode it first: discrete-diffusion "
                f"data tokenize FILE... --tokenizer {name} --out FOLDER"
            )
        if (size := int(bpe[1])) < _MIN_BPE:
            raise ValueError(f"data.tokenizer={name}: expected at least bpe:{_MIN_BPE}")
        logger.info("training the tokenizer %s", name)
        state = subwords.trained_bpe(size, texts())
        return {"tokenizer": name, "token_unit": "subwords", "tokenizer_state": state}
    # files
    folder = Path(name).expanduser()
    meta = token_files.read_meta(folder) if folder.is_dir() else None
    if meta is not None and meta["token_unit"] != "subwords":
        return {key: meta[key] for key in ("tokenizer", "token_unit", "characters")}
    if not folder.exists() and not re.search(r"[/\\.]", name):
        raise ValueError(unknown_name("data.tokenizer", name, _TOKENIZERS))
    state = subwords.state_of_file(name)
    return {"tokenizer": name, "token_unit": "subwords", "tokenizer_state": state}


def set_tokenizer(config: DictConfig, texts: Callable[[], Iterable[str]] | None) -> None:
    """Set in ``config.data`` the keys of its ``tokenizer``, unless they are known already.

    Raises the errors of ``named_tokenizer``, and ``ValueError`` if another key contradicts the
    tokenizer.
    """
    name = config.get("tokenizer")
    if name is None or config.get("tokenizer_state") is not None:
        return
    keys = named_tokenizer(str(name), texts)
    if config.token_unit == "bytes" != keys["token_unit"]:
        raise ValueError(f"data.token_unit=bytes, but data.tokenizer={name}; give one of the two")
    config.tokenizer = keys.pop("tokenizer")
    for key, value in keys.items():
        if config.get(key) not in (None, "characters", "ids", value):
            raise ValueError(
                f"data.{key} is given, and data.tokenizer={name} sets it; leave it out"
            )
        config[key] = value


def _code_points(text: str) -> np.ndarray:
    """Code points of a text, UInt32[N]."""
    return np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
