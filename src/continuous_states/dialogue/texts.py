"""Dialogues with their summaries: tokenizers, a grammar, files of JSON lines, and splits.

In the grammar two people arrange that the first borrows, lends, buys or returns something. The
summary is a function of four slots: who (two names, in order), what (verb and object), when (a day,
with or without a part of it) and where.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np

from discrete_diffusion.data import SPLITS, load_json, read_text, shares_of, split_lines
from discrete_diffusion.hub import read_pretrained, transformers_library
from discrete_diffusion.runtime import JSON, JSON_LINES, GivenObjects

_TOKEN = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
_UNKNOWN = "<unknown>"
_SPACES = ((re.compile(r" ([.,:;?!%)\]}])"), r"\1"), (re.compile(r"([(\[{]) "), r"\1"))

GRAMMAR_VERSION = 1
"""Version of the grammar; raise it whenever the same seed gives other dialogues."""

NAMES = ("anna", "ben", "carla", "david", "emma", "felix", "grace", "henry", "ines", "jonas")
OBJECTS = ("bike", "book", "camera", "drill", "guitar", "ladder", "lamp", "map", "phone", "tent")
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
PARTS_OF_DAY = ("morning", "evening")
PLACES = ("cafe", "gym", "library", "museum", "office", "park", "school", "station")

_PLOTS = {
    "borrow": ("Can I borrow your {object}?", "of"),
    "lend": ("Do you need my {object}?", "to"),
    "buy": ("Can I buy your {object}?", "from"),
    "return": ("I still have your {object}.", "to"),
}
"""For each verb, the request of the first person, and the word before the second name in a
summary."""

SLOTS: dict[str, frozenset[str]] = {
    "who": frozenset(NAMES),
    "what": frozenset((*_PLOTS, *OBJECTS)),
    "when": frozenset((*DAYS, *PARTS_OF_DAY)),
    "where": frozenset(PLACES),
}
"""Words of every slot; no word is in two slots."""

_OPENINGS = (
    "{a}: Hi {b}! {request}",
    "{b}: Hi {a}!\n{a}: Hi {b}. {request}",
    "{b}: Hi {a}!\n{a}: {request}",
    "{a}: Hi {b}, how are you?\n{b}: Good, thanks.\n{a}: {request}",
    "{b}: Hi {a}, how are you?\n{a}: Good, thanks. {request}",
)
_REPLIES = ("Sure", "Yes", "Yes, sure")
_MEETINGS = (
    "{b}: {reply}, when?\n{a}: On {when}, at the {place}.",
    "{b}: {reply}, when?\n{a}: At the {place}, on {when}.",
    "{b}: {reply}. On {when}?\n{a}: Yes, at the {place}.",
    "{b}: {reply}. At the {place}?\n{a}: Yes, on {when}.",
)
_CLOSINGS = ("{b}: Good, thanks!", "{b}: Good, bye!", "{b}: Thanks, bye!\n{a}: Bye!")

_FUNCTION_WORDS = (
    *("will", "the", "of", "to", "from", "on", "at"),
    *("hi", "how", "are", "you", "thanks", "can", "i", "your", "do", "need", "my", "still"),
    *("have", "sure", "when", "yes", "good", "bye"),
    *(".", ",", "?", "!", ":"),
)
WORDS = (*NAMES, *OBJECTS, *DAYS, *PARTS_OF_DAY, *PLACES, *_PLOTS, *_FUNCTION_WORDS)
"""All words and punctuation marks of the grammar, 71."""

_VERBS = tuple(_PLOTS)
_WHENS = tuple(" ".join(x).strip() for x in product(map(str.capitalize, DAYS), ("", *PARTS_OF_DAY)))
_PAIRS = tuple(permutations(NAMES, 2))
_SIZES = (len(_PAIRS), len(_PLOTS), len(OBJECTS), len(_WHENS), len(PLACES))
NUM_COMBINATIONS = int(np.prod(_SIZES))
"""Number of combinations of the slots: 604,800."""

_FIELDS = ("dialogue", "summary")
_SURROGATE = re.compile("[\ud800-\udfff]")
"""Lone UTF-16 surrogate, which cannot be encoded as UTF-8."""


class Tokenizer(ABC):
    """Conversion of texts to ids and back. ``pad_id`` pads a text at its end, ``eos_id`` ends a
    summary, ``unk_id`` (if not None) replaces text that has no id; ids are below ``vocab_size``."""

    vocab_size: int
    pad_id: int
    eos_id: int
    unk_id: int | None

    def num_ids(self, texts: Iterable[str]) -> int:
        """Number of ids that a network needs to read ``texts``, at most ``vocab_size``."""
        return self.vocab_size

    def unknown_words(self, text: str) -> list[str]:
        """Words of a text that become ``unk_id``; empty if the tokenizer cannot list them."""
        return []

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Ids of a text, without special ids for its beginning or end."""

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Text of the ids before the first ``eos_id``."""


def tokens_of(text: str) -> list[str]:
    """Words (letters, digits, inner apostrophes) and punctuation marks of a text, lower-cased."""
    return _TOKEN.findall(text.lower())


class WordVocabulary(Tokenizer):
    """Vocabulary of K words: id k < K is word k; then come EOS (ends a summary), UNK (any other
    word), MASK and PAD. Raises ``ValueError`` for no words, or a word that is empty, contains a
    space or occurs twice."""

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
    def from_texts(cls, texts: Iterable[str], max_words: int) -> WordVocabulary:
        """Vocabulary of the ``max_words`` most frequent words, in alphabetical order. Raises
        ``ValueError`` for texts without a word, or ``max_words`` below 1."""
        if max_words < 1:
            raise ValueError(f"data.max_words={max_words}: expected at least 1")
        # most frequent first, ties in alphabetical order
        counts = Counter(token for text in texts for token in tokens_of(text))
        frequent = sorted(counts, key=lambda word: (-counts[word], word))[:max_words]
        return cls(sorted(frequent))

    @property
    def line(self) -> str:
        """The words, separated by spaces."""
        return " ".join(self.words)

    def unknown_words(self, text: str) -> list[str]:
        return [token for token in tokens_of(text) if token not in self._ids]

    def encode(self, text: str) -> list[int]:
        return [self._ids.get(token, self.unk_id) for token in tokens_of(text)]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of the words, with no space before punctuation; UNK becomes ``<unknown>``."""
        # words up to EOS, without MASK and PAD
        kept = []
        for k in ids:
            if k == self.eos_id:
                break
            if k < self.eos_id or k == self.unk_id:
                kept.append(_UNKNOWN if k == self.unk_id else self.words[k])
        return join_tokens(kept)


def join_tokens(tokens: Sequence[str]) -> str:
    """Join tokens into a text that ``tokens_of`` splits into the same tokens."""
    text = " ".join(tokens)
    for pattern, replacement in _SPACES:
        text = pattern.sub(replacement, text)
    return text


class PretrainedTokenizer(Tokenizer):
    """Tokenizer from a local folder, such as that of a pretrained encoder or decoder. A tokenizer
    without PAD uses EOS as PAD. ``key``: config key of ``path``. Raises ``ValueError`` if
    ``transformers`` is not installed, or the folder has no tokenizer with an id to end a text."""

    def __init__(self, path: str, key: str = "tokenizer") -> None:
        library = transformers_library(
            f"the tokenizer in {path} is read",
            ", or take the words of the texts "
            "(data.source_tokenizer=null data.target_tokenizer=null)",
        )
        # read from local files alone
        network = self.network = read_pretrained(
            key,
            path,
            partial(library.AutoTokenizer.from_pretrained, path),
            expected="a folder with tokenizer.json and tokenizer_config.json",
        )
        # EOS is required; PAD may be EOS, UNK may be missing
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
        """Number of ids without special tokens at the end that occur in no text, such as tokens of
        images."""
        special = {
            k: token.content
            for k, token in self.network.added_tokens_decoder.items()
            if token.special and k not in (self.eos_id, self.pad_id, self.unk_id)
        }
        # drop special tokens from the end while no text holds them
        size = self.vocab_size
        if size - 1 in special:
            everything = "\n".join(texts)
            while size - 1 in special and special[size - 1] not in everything:
                size -= 1
        return size

    def encode(self, text: str) -> list[int]:
        return self.network.encode(text, add_special_tokens=False)

    def decode(self, ids: Sequence[int]) -> str:
        # ids up to EOS
        before = list(ids)
        if self.eos_id in before:
            before = before[: before.index(self.eos_id)]
        return self.network.decode(before, skip_special_tokens=True).strip()


@dataclass(frozen=True)
class DialoguePair:
    """Dialogue and its reference summary."""

    dialogue: str
    summary: str


def sample_dialogues(num: int, seed: int = 0) -> list[DialoguePair]:
    """Sample ``num`` pairs whose slots all differ. So in any split no training pair has the slots
    of a held-out pair. The wording (greetings, order of time and place, closings) is sampled
    independently of the slots. Raises ``ValueError`` for ``num`` outside
    1..``NUM_COMBINATIONS``."""
    if not 1 <= num <= NUM_COMBINATIONS:
        raise ValueError(
            f"data.num_samples={num}: expected 1 to {NUM_COMBINATIONS:,}, the number of "
            "combinations of slots"
        )
    rng = np.random.default_rng((seed, GRAMMAR_VERSION))
    # distinct combinations of slots
    codes = rng.permutation(NUM_COMBINATIONS)[:num]
    slots = np.stack(np.unravel_index(codes, _SIZES), axis=1).tolist()
    # wording, independent of the slots
    forms = [len(each) for each in (_OPENINGS, _REPLIES, _MEETINGS, _CLOSINGS)]
    talk = rng.integers(forms, size=(num, len(forms))).tolist()
    pairs = []
    for (names, verb_id, thing, when, place), chosen in zip(slots, talk, strict=True):
        a, b = map(str.capitalize, _PAIRS[names])
        verb, opening = _VERBS[verb_id], _OPENINGS[chosen[0]]
        request, preposition = _PLOTS[verb]
        words = {"a": a, "b": b, "object": OBJECTS[thing], "when": _WHENS[when]}
        words |= {"place": PLACES[place], "reply": _REPLIES[chosen[1]]}
        # the request is part of the opening, and names the object
        opening = opening.replace("{request}", request)
        dialogue = "\n".join((opening, _MEETINGS[chosen[2]], _CLOSINGS[chosen[3]]))
        summary = (
            f"{{a}} will {verb} the {{object}} {preposition} {{b}} on {{when}} at the {{place}}."
        )
        pairs.append(DialoguePair(dialogue.format(**words), summary.format(**words)))
    return pairs


@dataclass(frozen=True)
class GivenDialogue:
    """Dialogue to be summarised, from line ``line`` of a file. ``summary``: its reference, or "";
    ``others``: the other keys of the line."""

    line: int
    dialogue: str
    summary: str
    others: dict[str, Any]


def read_dialogues(path: str | Path) -> list[DialoguePair]:
    """Read the pairs of a UTF-8 file, plain or gzipped. Each line is a JSON object with the texts
    ``dialogue`` and ``summary``; other keys are ignored, empty lines are skipped. Raises
    ``FileNotFoundError`` or ``ValueError`` with one sentence, naming file, line and field, for a
    missing file, a line that is not JSON, and a text that is missing, has no word, or contains a
    lone surrogate."""
    return [
        DialoguePair(_text_field(found, "dialogue", where), _text_field(found, "summary", where))
        for _, where, found in _json_lines(path)
    ]


def read_given_dialogues(path: str | Path | GivenObjects) -> list[GivenDialogue]:
    """Read dialogues to be summarised from a file as in ``read_dialogues`` or from objects;
    ``summary`` may be missing, null or empty. Errors are those of ``read_dialogues``."""
    return [
        GivenDialogue(
            line=line,
            dialogue=_text_field(found, "dialogue", where),
            summary=_text_field(found, "summary", where) if found.get("summary") else "",
            others={key: value for key, value in found.items() if key not in _FIELDS},
        )
        for line, where, found in _json_lines(path)
    ]


def _json_lines(path: str | Path | GivenObjects) -> list[tuple[int, str, dict[str, Any]]]:
    """Line number, name for errors and object of each line."""
    expected = f"a JSON object per line, with {' and '.join(_FIELDS)}"
    source = read_text(path, JSON_LINES, JSON, expected=expected)
    objects = []
    for number, line in enumerate(split_lines(source.text), start=1):
        if not line.strip():
            continue
        where = source.place(number)
        # a JSON object, or an error that names the line
        try:
            found = load_json(line)
        except ValueError as error:
            raise ValueError(f"{where}: not valid JSON: {error}") from error
        if not isinstance(found, dict):
            raise ValueError(
                f"{where}: expected a JSON object with {' and '.join(_FIELDS)}, got "
                f"{type(found).__name__}"
            )
        objects.append((number, where, found))
    if not objects:
        raise ValueError(f"{source.name} holds no line; expected a JSON object per line")
    return objects


def _text_field(found: dict[str, Any], field: str, where: str) -> str:
    value = found.get(field)
    if not isinstance(value, str) or not tokens_of(value):
        keys = ", ".join(map(repr, found)) or "no keys"
        got = f"nothing; the line has {keys}" if field not in found else repr(value)
        raise ValueError(f"{where}: {field} must be a text with a word in it, got {got}")
    # text that cannot be written as UTF-8
    if half := _SURROGATE.search(value):
        before = value[max(half.start() - 20, 0) : half.start()]
        raise ValueError(
            f"{where}: {field} holds half a character (an unpaired surrogate), "
            f"{ascii(half[0])[1:-1]} after {before!r}; write characters beyond \\uffff as they "
            "are, or as both their halves"
        )
    return value


Splits = Mapping[str, Sequence[DialoguePair]]


def split_by_dialogue(
    pairs: Sequence[DialoguePair], fractions: Sequence[float], seed: int
) -> Splits:
    """Split pairs randomly into train, val and test; pairs with the same words of dialogue stay
    together."""
    # groups of pairs with one dialogue
    by_dialogue: dict[tuple[str, ...], list[DialoguePair]] = {}
    for pair in pairs:
        by_dialogue.setdefault(_words_of(pair.dialogue), []).append(pair)
    groups = list(by_dialogue.values())
    order = np.random.default_rng(seed).permutation(len(groups)).tolist()
    return {
        name: [pair for k in order[share] for pair in groups[k]]
        for name, share in shares_of(len(groups), fractions).items()
    }


def remove_held_out(splits: Splits) -> tuple[Splits, dict[str, int]]:
    """Remove pairs whose dialogue also occurs in a later split; return the splits, and the numbers
    of removed pairs by split."""
    later: set[tuple[str, ...]] = set()
    kept = {}
    # from the last split to the first
    for name in reversed(SPLITS):
        kept[name] = [pair for pair in splits[name] if _words_of(pair.dialogue) not in later]
        later |= {_words_of(pair.dialogue) for pair in kept[name]}
    return kept, {name: len(splits[name]) - len(kept[name]) for name in SPLITS}


def nearest_other(dialogues: Sequence[str]) -> list[int]:
    """Index, for each dialogue, of the nearest earlier dialogue with other words, in cyclic order.
    Empty if all dialogues have the same words."""
    known = [_words_of(dialogue) for dialogue in dialogues]
    changes = [k for k in range(len(known)) if known[k] != known[k - 1]]
    if not changes:
        return []
    # once around from the first change: the same dialogue has the same other
    places = [0] * len(known)
    for place in range(changes[0], changes[0] + len(known)):
        k, before = place % len(known), (place - 1) % len(known)
        places[k] = places[before] if known[k] == known[before] else before
    return places


def _words_of(dialogue: str) -> tuple[str, ...]:
    return tuple(tokens_of(dialogue))
