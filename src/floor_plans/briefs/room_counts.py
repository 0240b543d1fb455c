"""Check that rooms of every type can be counted out so that all numbers hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

_MOST_STEPS = 20_000
_MOST_WAYS = 256


@dataclass(frozen=True)
class Count:
    """At least ``least`` and at most ``most`` rooms of ``types``; None: any number."""

    types: frozenset[int]
    least: int = 0
    most: int | None = None


Ways = Sequence[Sequence[Count]]
"""All counts of one of these hold."""


def no_counts(counts: Sequence[Count], choices: Sequence[Ways] = ()) -> bool:
    """True: there are no numbers of rooms of each type with which all ``counts`` hold, and of each
    of ``choices`` all counts of one way. False: there are, or it was not decided."""
    total = 1
    for ways in choices:
        total *= len(ways)
    if total > _MOST_WAYS:
        choices = ()
    return all(
        _none([*counts, *(count for way in chosen for count in way)])
        for chosen in product(*choices)
    )


def _none(counts: Sequence[Count]) -> bool:
    """Depth first over groups of types that no count tells apart; a group may hold what every count
    leaves it."""
    types = sorted({code for count in counts for code in count.types})
    groups = sorted({tuple(code in count.types for count in counts) for code in types})
    last = [
        max((k for k, group in enumerate(groups) if group[c]), default=-1)
        for c in range(len(counts))
    ]
    if any(count.least > 0 and last[c] < 0 for c, count in enumerate(counts)):
        return True
    steps = 0

    def fits(k: int, sums: list[int]) -> bool:
        nonlocal steps
        steps += 1
        if steps > _MOST_STEPS or k == len(groups):
            return True
        members = [c for c, is_in in enumerate(groups[k]) if is_in]
        left = [most - sums[c] for c in members if (most := counts[c].most) is not None]
        for number in range(min(left, default=0) + 1):
            after = [total + number * is_in for total, is_in in zip(sums, groups[k], strict=True)]
            ended = (c for c in range(len(counts)) if last[c] == k)
            if all(after[c] >= counts[c].least for c in ended) and fits(k + 1, after):
                return True
        return False

    return not fits(0, [0] * len(counts))
