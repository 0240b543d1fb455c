"""Vocabularies of the library ``tokenizers``, of the extra ``text``."""

from __future__ import annotations

import base64
import json
import logging
import lzma
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from discrete_diffusion.config.values import counted
from discrete_diffusion.data.files import TextSource, read_text
from discrete_diffusion.domains.text.domain import PLAIN
from discrete_diffusion.runtime.inputs import HTML
from discrete_diffusion.runtime.package import install_command

logger = logging.getLogger(__name__)

END_OF_TEXT = "<|endoftext|>"
_ENDS = (END_OF_TEXT, "</s>", "<eos>", "<|end_of_text|>", "[SEP]")
_BEGINNINGS = ("<s>", "<bos>", "<|begin_of_text|>", "[CLS]", END_OF_TEXT)
"""Names that tokenizers give to the tokens at the begin and end of a text."""

_PIECE = 1 << 20
"""Characters that are encoded at once."""

_CUT = re.compile(r"\n(?<=\S\n)(?=\S)")
"""End of a line that ends with a word, before a line that begins with one."""

_MAX_NAMED = 5


@dataclass(frozen=True)
class SubwordVocabulary:
    """Vocabulary of the K ids of a tokenizer, then MASK (id K) and, if ``has_pad``, PAD (id K + 1).

    ``state``: the packed ``tokenizer.json``, so that a checkpoint needs no further file.
    """

    state: str
    has_pad: bool = True

    unit = "subwords"
    characters = None

    @property
    def mask_id(self) -> int:
        return self._num_ids

    @property
    def pad_id(self) -> int | None:
        return self._num_ids + 1 if self.has_pad else None

    @property
    def vocab_size(self) -> int:
        return self._num_ids + 1 + self.has_pad

    @property
    def eos_id(self) -> int | None:
        """Token after a text; None if the tokenizer has none."""
        return self._first(_ENDS)

    @property
    def bos_id(self) -> int | None:
        """Token before a text, which may be ``eos_id``; None if the tokenizer has none."""
        return self._first(_BEGINNINGS)

    @property
    def meaning(self) -> str:
        """Meaning of the ids, for fingerprints."""
        return unpack_tokenizer(self.state)

    def read(self, path: str | Path) -> np.ndarray:
        """Int64[N], the ids of a text file. Raises the errors of ``read_text``."""
        return self.encode(read_text(path, HTML, expected=PLAIN))

    def encode(self, source: TextSource, **words: str) -> np.ndarray:
        """Encode a text as Int64[N]. The name of a special token in it counts as that token.

        Characters without a token are left out, or become the unknown token, and a warning counts
        and names them. ``words`` are ignored: other vocabularies put them into errors.
        """
        warn_of_lost(self.unknown([source.text]), source.name)
        return np.concatenate(
            [np.zeros(0, np.int64), *self.encode_each(pieces_of_text(source.text))]
        )

    def encode_each(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Encode each text as Int64[N], on all cores."""
        encoded = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.asarray(each.ids, np.int64) for each in encoded]

    def decode(self, tokens: Tensor) -> list[str]:
        """Text of clean tokens Int[B, L], without PAD."""
        rows = [row[row != self.pad_id] if self.has_pad else row for row in tokens.cpu().numpy()]
        return self._tokenizer.decode_batch([row.tolist() for row in rows], False)

    samples = lines = decode

    def sizes(self, ids: np.ndarray) -> tuple[int, int]:
        """Numbers of characters and UTF-8 bytes in the text of ids, without special tokens."""
        parts = [ids[k : k + _PIECE].tolist() for k in range(0, len(ids), _PIECE)]
        texts = self._tokenizer.decode_batch(parts, True)
        return sum(map(len, texts)), sum(len(text.encode()) for text in texts)

    def documents(self, ids: np.ndarray) -> list[str]:
        """Decode ids Int[N] into texts, cut at the tokens before and after a text."""
        ends = [end for end in (self.eos_id, self.bos_id) if end is not None]
        first, *others = np.split(ids, np.flatnonzero(np.isin(ids, ends)))
        rows = [first.tolist(), *(other[1:].tolist() for other in others)]
        texts: list[str] = self._tokenizer.decode_batch(rows, True)
        return texts

    def is_exact(self, text: str) -> bool:
        """True if decoding the ids of ``text`` gives ``text`` back."""
        (ids,) = self.encode_each([text])
        return self._tokenizer.decode(ids.tolist(), False) == text

    def unknown(self, texts: Iterable[str]) -> dict[str, int]:
        """Counts of characters without a token."""
        counts: dict[str, int] = {}
        unknown_token = getattr(self._tokenizer.model, "unk_token", None)
        for text in texts:
            for character in set(text) - self._known:
                encoded = self._tokenizer.encode(character, add_special_tokens=False).tokens
                if character.isspace() or (encoded and unknown_token not in encoded):
                    self._known.add(character)
                else:
                    counts[character] = counts.get(character, 0) + text.count(character)
        return counts

    @cached_property
    def _num_ids(self) -> int:
        return 1 + max(self._tokenizer.get_vocab(with_added_tokens=True).values())

    def _first(self, names: Iterable[str]) -> int | None:
        ids = (self._tokenizer.token_to_id(name) for name in names)
        return next((each for each in ids if each is not None), None)

    @cached_property
    def _known(self) -> set[str]:
        """Characters that are known to have a token."""
        return set()

    @property
    def _tokenizer(self) -> Any:
        return _unpacked(self.state)


def warn_of_lost(unknown: Mapping[str, int], name: str) -> None:
    """Warn of ``unknown`` characters of the text ``name``, the most frequent first."""
    if unknown:
        kinds = sorted(unknown, key=lambda c: (-unknown[c], c))
        named = ", ".join(map(repr, kinds[:_MAX_NAMED])) + ", ..." * (len(kinds) > _MAX_NAMED)
        logger.warning(
            "%s: %s that no token stands for, left out: %s",
            *(name, counted(sum(unknown.values()), "character"), named),
        )


def pack_tokenizer(tokenizer_json: str) -> str:
    """Compress a ``tokenizer.json`` into one word of a config."""
    compact = json.dumps(json.loads(tokenizer_json), ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(lzma.compress(compact.encode())).decode()


def unpack_tokenizer(state: str) -> str:
    """Restore the ``tokenizer.json`` of ``pack_tokenizer``."""
    return lzma.decompress(base64.b64decode(state)).decode()


def state_of_file(name: str) -> str:
    """Read and pack a tokenizer: a ``tokenizer.json``, a folder with one, or a folder with the
    ``vocab.json`` and ``merges.txt`` of GPT-2.

    Raises ``FileNotFoundError`` or ``ValueError`` naming the path and what is expected there.
    """
    path = Path(name).expanduser()
    expected = "expected tokenizer.json, or vocab.json and merges.txt of GPT-2"
    # a file, or a folder of a known layout
    if not path.exists():
        raise FileNotFoundError(f"data.tokenizer={name}: nothing is at {path.absolute()}")
    file = path / "tokenizer.json" if path.is_dir() else path
    pair = [str(path / part) for part in ("vocab.json", "merges.txt")]
    library = tokenizers_library()
    # tokenizer.json first
    try:
        if file.is_file():
            return pack_tokenizer(library.Tokenizer.from_file(str(file)).to_str())
        if all(Path(part).is_file() for part in pair):
            model = library.models.BPE.from_file(*pair)
            return pack_tokenizer(_byte_level(model, [END_OF_TEXT]).to_str())
    except Exception as error:  # the library raises no other
        raise ValueError(f"data.tokenizer={name}: {error}; {expected}") from error
    raise ValueError(f"data.tokenizer={name}: no tokenizer in that folder; {expected}")


def trained_bpe(size: int, texts: Iterable[str]) -> str:
    """Train and pack a byte-level BPE like GPT-2's, of ``size`` tokens including
    ``END_OF_TEXT``."""
    # byte-level BPE without merges
    library = tokenizers_library()
    tokenizer = _byte_level(library.models.BPE())
    trainer = library.trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    # merges from the texts
    tokenizer.train_from_iterator(texts, trainer)
    return pack_tokenizer(tokenizer.to_str())


def pieces_of_text(text: str, most: int = _PIECE) -> list[str]:
    """Cut ``text`` into parts of about ``most`` characters without changing its byte-level tokens.

    A cut is between a line that ends with a word and a line that begins with one.
    """
    parts, begin = [], 0
    while len(text) - begin > most and (cut := _CUT.search(text, begin + most)):
        parts.append(text[begin : cut.end()])
        begin = cut.end()
    return [*parts, text[begin:]] if begin < len(text) else parts


def tokenizers_library() -> Any:
    """Import ``tokenizers``. Raises ``ValueError`` with the command that installs it."""
    try:
        import tokenizers
    except ImportError as error:
        raise ValueError(
            f"this tokenizer needs the package tokenizers; {install_command('text')}"
        ) from error
    return tokenizers


@lru_cache(maxsize=8)
def _unpacked(state: str) -> Any:
    return tokenizers_library().Tokenizer.from_str(unpack_tokenizer(state))


def _byte_level(model: Any, special: Sequence[str] = ()) -> Any:
    library = tokenizers_library()
    tokenizer = library.Tokenizer(model)
    tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = library.decoders.ByteLevel()
    tokenizer.add_special_tokens([token for token in special if tokenizer.token_to_id(token)])
    return tokenizer
