"""Words as ids: the vocabulary of dialogues, and tokenizers of pretrained networks beside it."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial

from discrete_diffusion.hub import read_pretrained, transformers_library

_TOKEN = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
_UNKNOWN = "<unknown>"
_SPACES = (
    (re.compile(r" ([.,:;?!%)\]}])"), r"\1"),
    (re.compile(r"([(\[{]) "), r"\1"),
)


class Tokenizer(ABC):
    """Texts as ids and back. ``pad_id`` fills up behind a text, ``eos_id`` ends a summary,
    ``unk_id``, if there is one, stands for what has no other id; ids are below ``vocab_size``."""

    vocab_size: int
    pad_id: int
    eos_id: int
    unk_id: int | None

    def num_ids(self, texts: Iterable[str]) -> int:
        """Number of ids that a network needs to read ``texts``, at most ``vocab_size``."""
        return self.vocab_size

    def unknown_words(self, text: str) -> list[str]:
        """Words of a text that ``unk_id`` stands for, as far as words can be distinguished."""
        return []

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """The ids of a text, without any that only begin or end it."""

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids before the first ``eos_id``."""


def tokens_of(text: str) -> list[str]:
    """Words (letters, digits, inner apostrophes) and punctuation marks of a text, lower-cased."""
    return _TOKEN.findall(text.lower())


class WordVocabulary(Tokenizer):
    """Id k < K is word k; then come EOS (ends a summary), UNK (any other word), MASK and PAD.

    Raises ``ValueError`` for no words, or a word that is empty, holds a space or is there twice.
    """

    unk_id: int

    def __init__(self, words: Sequence[str]) -> None:
        if not words or len(set(words)) < len(words) or any(len(w.split()) != 1 for w in words):
            raise ValueError(
                "data.words: expected the words of the training texts, each once, separated by "
                "spaces; set data.words=null to take them from the texts"
            )
        self.words = tuple(words)
        self.eos_id, self.unk_id, self.mask_id, self.pad_id = range(len(words), len(words) + 4)
        self.vocab_size = len(words) + 4
        self._ids = {word: k for k, word in enumerate(words)}

    @classmethod
    def of_texts(cls, texts: Iterable[str], max_words: int) -> WordVocabulary:
        """The ``max_words`` most frequent words, in alphabetical order. ``ValueError`` for texts
        without a word, or ``max_words`` below 1."""
        if max_words < 1:
            raise ValueError(f"data.max_words={max_words}: expected at least 1")
        counts = Counter(token for text in texts for token in tokens_of(text))
        frequent = sorted(counts, key=lambda word: (-counts[word], word))[:max_words]
        return cls(sorted(frequent))

    @classmethod
    def of_line(cls, line: str) -> WordVocabulary:
        """The words of ``line``, separated by spaces."""
        return cls(line.split())

    @property
    def line(self) -> str:
        """The words, as ``of_line`` takes them."""
        return " ".join(self.words)

    def unknown_words(self, text: str) -> list[str]:
        return [token for token in tokens_of(text) if token not in self._ids]

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


def joined(tokens: Sequence[str]) -> str:
    """Tokens as text; what ``tokens_of`` finds in it are the tokens."""
    text = " ".join(tokens)
    for pattern, replacement in _SPACES:
        text = pattern.sub(replacement, text)
    return text


class PretrainedTokenizer(Tokenizer):
    """The tokenizer in a local folder, such as that of a pretrained encoder or decoder.

    PAD is EOS where it has none. ``key``: what the folder ``path`` was given as. Raises
    ``ValueError`` if ``transformers`` is not installed, the folder holds no tokenizer, or one
    without an id to end a text.
    """

    def __init__(self, path: str, key: str = "tokenizer") -> None:
        library = transformers_library(
            f"the tokenizer in {path} is read",
            ", or take the words of the texts "
            "(data.source_tokenizer=null data.target_tokenizer=null)",
        )
        network = self.network = read_pretrained(
            key,
            path,
            partial(library.AutoTokenizer.from_pretrained, path),
            expected="a folder with tokenizer.json and tokenizer_config.json",
        )
        ends = [k for k in (network.eos_token_id, network.sep_token_id) if k is not None]
        if not ends:
            raise ValueError(
                f"{key}={path}: the tokenizer has no id to end a text; add eos_token or sep_token "
                "to its tokenizer_config.json"
            )
        self.eos_id = ends[0]
        self.pad_id = self.eos_id if network.pad_token_id is None else network.pad_token_id
        self.unk_id = network.unk_token_id
        self.vocab_size = 1 + max(network.get_vocab().values())

    def num_ids(self, texts: Iterable[str]) -> int:
        """All but the special tokens behind the others that no text holds, such as those of images
        in the tokenizer of a network of text."""
        special = {
            k: token.content
            for k, token in self.network.added_tokens_decoder.items()
            if token.special and k not in (self.eos_id, self.pad_id, self.unk_id)
        }
        size = self.vocab_size
        if size - 1 in special:
            everything = "\n".join(texts)
            while size - 1 in special and special[size - 1] not in everything:
                size -= 1
        return size

    def encode(self, text: str) -> list[int]:
        return self.network.encode(text, add_special_tokens=False)

    def decode(self, ids: Sequence[int]) -> str:
        before = list(ids)
        if self.eos_id in before:
            before = before[: before.index(self.eos_id)]
        return self.network.decode(before, skip_special_tokens=True).strip()
