"""A grammar of dialogues with their summaries, over a closed vocabulary.

Two people arrange that the first borrows, lends, buys or returns something. The summary is a
function of four slots: who (two names, in order), what (verb and object), when (a day, with or
without a part of it) and where.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations, product

import numpy as np

GRAMMAR_VERSION = 1
"""Counts changes of what a seed draws."""

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
"""By verb: what the first person says, and the word before the second one's name in a summary."""

SLOTS: dict[str, frozenset[str]] = {
    "who": frozenset(NAMES),
    "what": frozenset((*_PLOTS, *OBJECTS)),
    "when": frozenset((*DAYS, *PARTS_OF_DAY)),
    "where": frozenset(PLACES),
}
"""The words of every slot; no word is in two of them."""

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
WORDS = (
    *NAMES,
    *OBJECTS,
    *DAYS,
    *PARTS_OF_DAY,
    *PLACES,
    *_PLOTS,
    *_FUNCTION_WORDS,
)
"""All words and punctuation marks of the grammar, 71."""

_VERBS = tuple(_PLOTS)
_WHENS = tuple(" ".join(x).strip() for x in product(map(str.capitalize, DAYS), ("", *PARTS_OF_DAY)))
_PAIRS = tuple(permutations(NAMES, 2))
_SIZES = (len(_PAIRS), len(_PLOTS), len(OBJECTS), len(_WHENS), len(PLACES))
NUM_COMBINATIONS = int(np.prod(_SIZES))
"""Number of combinations of the slots: 604,800."""


@dataclass(frozen=True)
class DialoguePair:
    """A text, ``dialogue``, and its reference summary, ``summary``."""

    dialogue: str
    summary: str


def sample_dialogues(num: int, seed: int = 0) -> list[DialoguePair]:
    """``num`` pairs, no two of which have the same slots.

    Whatever the split, the combination of slots of a held-out pair is therefore not in training.
    Its wording (greetings, order of time and place, closings) is sampled independently of the
    slots. Raises ``ValueError`` for a number outside 1..``NUM_COMBINATIONS``.
    """
    if not 1 <= num <= NUM_COMBINATIONS:
        raise ValueError(
            f"data.num_samples={num}: expected 1 to {NUM_COMBINATIONS:,}, the number of "
            "combinations of slots"
        )
    rng = np.random.default_rng((seed, GRAMMAR_VERSION))
    codes = rng.permutation(NUM_COMBINATIONS)[:num]
    slots = np.stack(np.unravel_index(codes, _SIZES), axis=1).tolist()
    forms = [len(each) for each in (_OPENINGS, _REPLIES, _MEETINGS, _CLOSINGS)]
    talk = rng.integers(forms, size=(num, len(forms))).tolist()
    return [_pair(chosen, style) for chosen, style in zip(slots, talk, strict=True)]


def _pair(slots: Sequence[int], forms: Sequence[int]) -> DialoguePair:
    """``slots``: of _PAIRS, _PLOTS, OBJECTS, _WHENS, PLACES. ``forms``: of _OPENINGS, _REPLIES,
    _MEETINGS, _CLOSINGS."""
    names, verb = _PAIRS[slots[0]], _VERBS[slots[1]]
    thing, when, place = OBJECTS[slots[2]], _WHENS[slots[3]], PLACES[slots[4]]
    opening, reply, meeting, closing = forms
    a, b = map(str.capitalize, names)
    request, preposition = _PLOTS[verb]
    lines = (_OPENINGS[opening], _MEETINGS[meeting], _CLOSINGS[closing])
    dialogue = "\n".join(lines).format(
        a=a,
        b=b,
        request=request.format(object=thing),
        reply=_REPLIES[reply],
        when=when,
        place=place,
    )
    summary = f"{a} will {verb} the {thing} {preposition} {b} on {when} at the {place}."
    return DialoguePair(dialogue, summary)
