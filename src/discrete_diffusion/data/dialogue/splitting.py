"""Pairs in three splits that share no dialogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from discrete_diffusion.data.base import SPLITS
from discrete_diffusion.data.dialogue.grammar import DialoguePair
from discrete_diffusion.data.dialogue.words import tokens_of
from discrete_diffusion.data.regions.windows import shares_of

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
        by_dialogue.setdefault(_identity(pair), []).append(pair)
    groups = list(by_dialogue.values())
    order = np.random.default_rng(seed).permutation(len(groups)).tolist()
    return {
        name: [pair for k in order[share] for pair in groups[k]]
        for name, share in shares_of(len(groups), fractions).items()
    }


def without_held_out(splits: Splits) -> tuple[Splits, int]:
    """The splits without the training pairs whose dialogue is in another one; how many those
    were."""
    held_out = {_identity(pair) for name in SPLITS[1:] for pair in splits[name]}
    train = [pair for pair in splits["train"] if _identity(pair) not in held_out]
    return {**splits, "train": train}, len(splits["train"]) - len(train)


def _identity(pair: DialoguePair) -> tuple[str, ...]:
    return tuple(tokens_of(pair.dialogue))
