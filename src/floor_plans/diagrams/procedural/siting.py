"""Siting: positions of rooms around the living room.

A plan is a ring of slots around the core of the living room, three on each of its four sides, more
in large plans (the ends of neighbouring sides meet in a corner of the plan):

    L0 | T0  T1  T2 | R0
    L1 |   living   | R1
    L2 | B0  B1  B2 | R2

Rooms are placed one after the other. The probability of a free slot depends on its kind (kitchens
face north, balconies south) and on the rooms already placed around it (bathrooms stay with
bedrooms). Some rooms may share a slot with a *host*: a balcony in front of a bedroom, an en-suite
bathroom. Plans are mirror-symmetric in distribution. The weights were fitted to relation and degree
frequencies of real plans.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from floor_plans.diagrams.procedural.programme import (
    BALCONY,
    BATHROOM,
    DINING,
    KITCHEN,
    MASTER,
    PAD,
)

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


BEDROOMS, KITCHENS, BATHROOMS, BALCONIES, DININGS, LESSER, MASTERS = range(7)
NUM_GROUPS = 7
NO_ROOM = -1

GROUP_OF_TYPE = np.full(PAD + 1, BEDROOMS)
"""Siting group of every room code; entrances, storage and wall-ins are "lesser" rooms."""
GROUP_OF_TYPE[[KITCHEN, BATHROOM, BALCONY, DINING]] = (KITCHENS, BATHROOMS, BALCONIES, DININGS)
GROUP_OF_TYPE[BALCONY + 1 :] = LESSER
GROUP_OF_TYPE[MASTER] = MASTERS

# log-weight of each group for each kind of slot
#   top corner, top middle, side top, side middle, side bottom, bottom corner, bottom middle
_SLOT_PREFERENCE = np.array(
    [
        [0.62, -0.92, 1.7, -1.37, 0.95, 0.26, -1.25],  # BEDROOMS
        [0.99, -0.41, 1.17, -0.3, -0.33, -0.71, -0.42],  # KITCHENS
        [0.01, 0.56, -0.45, 1.16, 0.42, -1.14, -0.56],  # BATHROOMS
        [0.46, 0.76, -1.6, 0.84, -1.08, 1.1, -0.47],  # BALCONIES
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],  # DININGS
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],  # LESSER
        [0.32, -0.5, 0.5, -1.58, 1.65, 0.29, -0.68],  # MASTERS
    ]
)

# influence of a placed room of the first group: log-weight for a room of the second group in the
# same slot, the next slot along the side, the slot round the corner, the slot two steps away
_NEVER = -1e9
_AFFINITY = {
    (BEDROOMS, BEDROOMS): (_NEVER, 0.82, 2.45, 0.27),
    (MASTERS, BEDROOMS): (_NEVER, 1.67, 1.91, 1.41),
    (MASTERS, KITCHENS): (_NEVER, -1.88, -1.02, -0.45),
    (MASTERS, BATHROOMS): (-0.32, 1.13, 0.92, -0.36),
    (MASTERS, BALCONIES): (0.89, 1.78, 3.23, -0.19),
    (MASTERS, LESSER): (-2.0, 1.42, 1.07, 0.15),
    (BEDROOMS, KITCHENS): (_NEVER, -0.08, 0.27, 1.53),
    (BEDROOMS, BATHROOMS): (-1.21, 0.89, 0.97, 0.96),
    (BEDROOMS, BALCONIES): (-0.42, 0.73, 1.84, -0.34),
    (BEDROOMS, LESSER): (-2.0, 0.59, -0.69, 0.84),
    (KITCHENS, BATHROOMS): (-0.73, 0.84, 1.12, -0.46),
    (KITCHENS, BALCONIES): (0.44, 0.21, -0.92, -1.34),
    (BATHROOMS, BATHROOMS): (_NEVER, 1.67, 0.35, 0.98),
    (BATHROOMS, BALCONIES): (_NEVER, -1.62, -0.17, -0.27),
    (BALCONIES, BALCONIES): (_NEVER, -0.01, -0.31, -0.93),
    (KITCHENS, DININGS): (_NEVER, -0.36, 0.62, -1.92),
    (DININGS, BALCONIES): (-0.61, 0.33, -0.82, -0.66),
}
_PLACING_ORDER = np.array([1, 3, 4, 6, 2, 5, 0, 7])
"""Rank of each group, and of an empty place, in the order of placing."""


@dataclass(frozen=True)
class Sites:
    """Rooms in each slot: ``hosts`` and ``guests`` Int[P, 4 S], indices of rooms or -1.

    A guest shares the slot of a host; a slot without a host has no guest.
    """

    hosts: NDArray[np.int64]
    guests: NDArray[np.int64]


def _influence(ring: Ring) -> NDArray[np.float32]:
    """Float[group placed, slot placed, group, slot]: log-weights that a placed room adds."""
    # symmetric affinities, except within a slot
    affinity = np.zeros((NUM_GROUPS, NUM_GROUPS, 5))
    affinity[:, :, 0] = _NEVER
    for (a, b), values in _AFFINITY.items():
        affinity[a, b, :4] = values
        affinity[b, a, 1:4] = values[1:]
    influence = affinity[:, :, ring.relation]  # (placed, group, slot placed, slot)
    return np.ascontiguousarray(influence.transpose(0, 2, 1, 3), dtype=np.float32)


def choose_sites(rooms: NDArray[np.int64], rng: np.random.Generator, ring: Ring = RING) -> Sites:
    """Sample a slot of the ``ring``, with at least two slots per room, for all but the living room.

    ``rooms``: Int[P, n_max] as ``sample_programmes`` returns them. Returns ``Sites``.
    """
    num, num_slots = len(rooms), ring.num_slots
    plans = np.arange(num)
    # room 0 is the living room, without a slot
    rank = np.where(rooms == PAD, NUM_GROUPS, GROUP_OF_TYPE[rooms])
    order = np.argsort(_PLACING_ORDER[rank[:, 1:]], axis=1, kind="stable") + 1
    # log-weights of every slot for every group
    influence = _influence(ring)
    start = np.where(ring.used, _SLOT_PREFERENCE[:, ring.kind], 2 * _NEVER).astype(np.float32)
    log_weight = np.broadcast_to(start, (num, NUM_GROUPS, num_slots)).copy()
    hosts, guests = (np.full((num, num_slots), NO_ROOM) for _ in range(2))
    for step in range(rooms.shape[1] - 1):
        room = order[:, step]
        here = plans[rooms[plans, room] != PAD]
        room = room[here]
        group = GROUP_OF_TYPE[rooms[here, room]]
        # sample a slot by its log-weights with the Gumbel-max trick
        waiting = rng.standard_exponential((num, num_slots), dtype=np.float32)[here]
        gumbel = -np.log(np.maximum(waiting, np.finfo(np.float32).tiny))
        slot = (log_weight[here, group] + gumbel).argmax(1)
        # a taken slot makes the room a guest
        is_guest = hosts[here, slot] != NO_ROOM
        hosts[here[~is_guest], slot[~is_guest]] = room[~is_guest]
        guests[here[is_guest], slot[is_guest]] = room[is_guest]
        log_weight[here] += influence[group, slot]
        log_weight[here[is_guest], :, slot[is_guest]] = _NEVER  # two rooms fill a slot
    return Sites(hosts=hosts, guests=guests)
