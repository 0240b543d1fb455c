"""Pairs in three splits that share no dialogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from continuous_states.dialogue.grammar import DialoguePair
from continuous_states.dialogue.words import tokens_of
from discrete_diffusion.data import SPLITS, shares_of

Splits = Mapping[str, Sequence[DialoguePair]]


def split_in_order(pairs: Sequence[DialoguePair], fractions: Sequence[float]) -> Splits:
    """The first are train, the next val, the last test."""
    return {name: pairs[share] for name, share in shares_of(len(pairs), fractions).items()}


def split_by_dialogue(
    pairs: Sequence[DialoguePair], fractions: Sequence[float], seed: int
) -> Splits:
    """All pairs with the same dialogue, word by word, in the same split; which one is drawn."""
    by_dialogue: dict[tuple[str, ...], list[DialoguePair]] = {}
    for pair in pairs:
        by_dialogue.setdefault(_identity(pair.dialogue), []).append(pair)
    groups = list(by_dialogue.values())
    order = np.random.default_rng(seed).permutation(len(groups)).tolist()
    return {
        name: [pair for k in order[share] for pair in groups[k]]
        for name, share in shares_of(len(groups), fractions).items()
    }


def without_held_out(splits: Splits) -> tuple[Splits, dict[str, int]]:
    """The splits without the pairs whose dialogue is in a later split; by split, how many those
    were."""
    later: set[tuple[str, ...]] = set()
    kept = {}
    for name in reversed(SPLITS):
        kept[name] = [pair for pair in splits[name] if _identity(pair.dialogue) not in later]
        later |= {_identity(pair.dialogue) for pair in kept[name]}
    return kept, {name: len(splits[name]) - len(kept[name]) for name in SPLITS}


def nearest_other(dialogues: Sequence[str]) -> list[int]:
    """Place, for each dialogue, of the nearest one before it that differs, word by word;
    the last comes before the first. Empty if all are the same."""
    known = [_identity(dialogue) for dialogue in dialogues]
    changes = [k for k in range(len(known)) if known[k] != known[k - 1]]
    if not changes:
        return []
    found = [0] * len(known)
    for place in range(changes[0], changes[0] + len(known)):
        k, before = place % len(known), (place - 1) % len(known)
        found[k] = found[before] if known[k] == known[before] else before
    return found


def _identity(dialogue: str) -> tuple[str, ...]:
    return tuple(tokens_of(dialogue))
