"""Words as ids: the vocabulary of dialogues, and tokenizers of pretrained networks beside it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

_TOKEN = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
_UNKNOWN = "<unknown>"
_SPACES = (
    (re.compile(r" ([.,:;?!%)\]}])"), r"\1"),
    (re.compile(r"([(\[{]) "), r"\1"),
)


class Tokenizer(Protocol):
    """Texts as ids and back. ``pad_id`` fills up behind a text, ``eos_id`` ends a summary; ids are
    below ``vocab_size``."""

    @property
    def vocab_size(self) -> int: ...

    @property
    def pad_id(self) -> int: ...

    @property
    def eos_id(self) -> int: ...

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without any that only begin or end it."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids that stand before the first ``eos_id``."""
        ...


def tokens_of(text: str) -> list[str]:
    """Words (letters, digits, inner apostrophes) and punctuation marks of a text, lower-cased."""
    return _TOKEN.findall(text.lower())


@dataclass(frozen=True)
class WordVocabulary:
    """Id k < K is word k; then come EOS (ends a summary), UNK (any other word), MASK and PAD.

    Raises ``ValueError`` for no words, or a word that is empty, holds a space or is there twice.
    """

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        words = self.words
        if not words or len(set(words)) < len(words) or any(len(w.split()) != 1 for w in words):
            raise ValueError(
                "data.words: expected every word of the training texts once, apart by spaces; "
                "leave it null to have it read off them"
            )

    @classmethod
    def of_texts(cls, texts: Iterable[str], max_words: int) -> WordVocabulary:
        """The ``max_words`` most frequent words, in alphabetical order. ``ValueError`` for texts
        without a word, or ``max_words`` below 1."""
        if max_words < 1:
            raise ValueError(f"data.max_words={max_words}: expected at least 1")
        counts = Counter(token for text in texts for token in tokens_of(text))
        frequent = sorted(counts, key=lambda word: (-counts[word], word))[:max_words]
        return cls(tuple(sorted(frequent)))

    @classmethod
    def of_line(cls, line: str) -> WordVocabulary:
        """The words of ``line``, apart by spaces."""
        return cls(tuple(line.split()))

    @property
    def line(self) -> str:
        """The words, as ``of_line`` takes them."""
        return " ".join(self.words)

    @property
    def eos_id(self) -> int:
        return len(self.words)

    @property
    def unk_id(self) -> int:
        return len(self.words) + 1

    @property
    def mask_id(self) -> int:
        return len(self.words) + 2

    @property
    def pad_id(self) -> int:
        return len(self.words) + 3

    @property
    def vocab_size(self) -> int:
        return len(self.words) + 4

    def encode(self, text: str) -> list[int]:
        return [self._ids.get(token, self.unk_id) for token in tokens_of(text)]

    def decode(self, ids: Sequence[int]) -> str:
        """Words with spaces between them but for punctuation; ``<unknown>`` for UNK."""
        kept = []
        for k in ids:
            if k == self.eos_id:
                break
            if k < self.eos_id or k == self.unk_id:
                kept.append(_UNKNOWN if k == self.unk_id else self.words[k])
        return joined(kept)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: k for k, word in enumerate(self.words)}


def joined(tokens: Sequence[str]) -> str:
    """Tokens as text; what ``tokens_of`` finds in it are the tokens."""
    text = " ".join(tokens)
    for pattern, replacement in _SPACES:
        text = pattern.sub(replacement, text)
    return text


@dataclass(frozen=True)
class PretrainedTokenizer:
    """The tokenizer in a local folder, such as that of a pretrained encoder or decoder."""

    path: str
    network: Any

    @classmethod
    def read(cls, path: str) -> PretrainedTokenizer:
        """Raises ``ValueError`` if ``transformers`` is not installed, the folder holds no
        tokenizer, or one without an id to end or fill up a text."""
        try:
            from transformers import AutoTokenizer
        except ImportError as error:
            raise ValueError(
                f"the tokenizer in {path} is read by transformers, which is not installed; "
                'pip install "discrete-diffusion[text]", or take the words of the texts '
                "(data.source_tokenizer=null data.target_tokenizer=null)"
            ) from error
        try:
            network = AutoTokenizer.from_pretrained(path, local_files_only=True)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"no tokenizer can be read from {path}; expected a folder with tokenizer.json and "
                f"tokenizer_config.json: {str(error).partition(chr(10))[0]}"
            ) from error
        if (network.eos_token_id is None and network.sep_token_id is None) or (
            network.pad_token_id is None
        ):
            raise ValueError(
                f"the tokenizer in {path} has no id to fill up texts (pad_token), or none to end "
                "them (eos_token or sep_token); add them to its tokenizer_config.json"
            )
        return cls(path, network)

    @property
    def vocab_size(self) -> int:
        return len(self.network)

    @property
    def pad_id(self) -> int:
        return self.network.pad_token_id

    @property
    def eos_id(self) -> int:
        eos = self.network.eos_token_id
        return self.network.sep_token_id if eos is None else eos

    def encode(self, text: str) -> list[int]:
        return self.network.encode(text, add_special_tokens=False)

    def decode(self, ids: Sequence[int]) -> str:
        before = list(ids)
        if self.eos_id in before:
            before = before[: before.index(self.eos_id)]
        return self.network.decode(before, skip_special_tokens=True).strip()
