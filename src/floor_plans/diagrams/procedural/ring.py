"""Ring of slots around the living room for the other rooms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

NUM_KINDS = 7
"""Number of kinds of slots, up to mirror images: top corner, top middle, side top, side middle,
side bottom, bottom corner, bottom middle."""


@dataclass(frozen=True)
class Ring:
    """``across`` slots on the top and bottom of the living room, ``down`` on its left and right.

    All sides are stored with ``side`` = S slots, the number of the longest, in the order top,
    bottom, left, right; along a side left to right, top to bottom. A shorter side uses its first
    slots and the last one, so that its ends meet the next sides in the corners.
    """

    across: int = 3
    down: int = 3

    def __post_init__(self) -> None:
        if min(self.across, self.down) < 2:
            raise ValueError(f"{self}: a side of the ring has at least its two corners")

    @property
    def side(self) -> int:
        return max(self.across, self.down)

    @property
    def num_slots(self) -> int:
        return 4 * self.side

    @cached_property
    def used(self) -> NDArray[np.bool_]:
        """Bool[4 S]: slots that rooms may take."""
        lengths = np.array([self.across, self.across, self.down, self.down])[:, None]
        place = np.arange(self.side)
        return ((place < lengths - 1) | (place == self.side - 1)).reshape(-1)

    @cached_property
    def kind(self) -> Ints:
        """Int[4 S]: kind of each slot."""
        place = np.arange(self.side)
        inner = (place > 0) & (place < self.side - 1)
        upright = np.where(inner, 3, np.where(place == 0, 2, 4))
        top, bottom = np.where(inner, 1, 0), np.where(inner, 6, 5)
        return np.concatenate([top, bottom, upright, upright])

    @cached_property
    def relation(self) -> Ints:
        """Int[4 S, 4 S]: relation of two slots: 0 same, 1 next along the side, 2 round the corner,
        3 two steps away, 4 farther."""
        # used slots in clockwise order
        sides = np.arange(self.num_slots).reshape(4, self.side)
        top, bottom, left, right = (side[self.used[side]] for side in sides)
        around = np.concatenate([top, right, bottom[::-1], left[::-1]])
        relation = np.full((self.num_slots, self.num_slots), 4)
        place = np.arange(len(around))
        # steps along the ring, the shorter way
        steps = np.abs(place[:, None] - place)
        steps = np.minimum(steps, len(around) - steps)
        named = np.array([0, 1, 3, 4])[steps.clip(max=3)]
        same_side = around[:, None] // self.side == around // self.side
        relation[np.ix_(around, around)] = np.where((steps == 1) & ~same_side, 2, named)
        return relation


RING = Ring()
"""Ring for plans of 4 to 8 rooms."""

_SHARE_OF_HOSTS = 0.72
"""Share of hosts among the rooms of a large plan; the others share a slot with one."""


def ring_for(num_rooms: int) -> Ring:
    """Ring that grows in width with the number of rooms: the living room of a large plan is a hall
    along which the rooms lie."""
    hosts = _SHARE_OF_HOSTS * (num_rooms - 1)
    return Ring(across=max(RING.across, math.ceil((hosts - 2 * RING.down) / 2)))
