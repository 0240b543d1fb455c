"""Room programmes: the types of the rooms of a plan.

The number of rooms n is distributed as in real plans (RPLAN). Given n, a combination of group
counts (bedrooms, bathrooms, balconies, ...) is sampled with a probability proportional to a product
of one weight per group: the maximum-entropy model with the group statistics of real plans. Then
every bedroom and every lesser room gets its own type. RPLAN has no large plans; for them n is
given, and rooms are sampled one by one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path

import numpy as np
import yaml

from discrete_diffusion.layout import ROOM_TYPES, RPLAN_VOCAB_CONFIG
from floor_plans.diagrams.geometry import Flags, Floats, Ints

N_MAX = RPLAN_VOCAB_CONFIG.n_max
PAD = RPLAN_VOCAB_CONFIG.node_pad_id  # code of unused room slots

_TEXT = Path(__file__).with_name("statistics.yaml").read_text(encoding="utf-8")
_STATISTICS = yaml.safe_load(_TEXT)
NUM_ROOMS, NUM_ROOMS_PROBS = zip(*_STATISTICS["num_rooms"].items(), strict=True)

LIVING, MASTER, KITCHEN, BATHROOM, DINING, CHILD, STUDY, SECOND, GUEST, BALCONY = range(10)
ENTRANCE, STORAGE, WALL_IN = range(10, 13)  # the codes of ``ROOM_TYPES``

_LOG_WEIGHTS = _STATISTICS["log_weights"]
_BATHROOM_SHARED_OUT = 2.0  # extra log-weight of two or more bathrooms with three or more bedrooms


def _draw(probs: Floats, u: Floats) -> Ints:
    """Sample indices by inverting the cumulative sum of ``probs`` Float[K] at u in [0, 1)."""
    cumulative = np.cumsum(probs)
    return np.searchsorted(cumulative / cumulative[-1], u, side="right")


def _draw_type(name: str, u: Floats) -> Ints:
    """Sample room types of a table of the statistics."""
    table = _STATISTICS[name]
    return np.array(list(map(ROOM_TYPES.index, table)))[_draw(np.array(list(table.values())), u)]


def sample_programmes(num: int, rng: np.random.Generator) -> Ints:
    """Sample the room types of ``num`` plans.

    Returns Int64[num, N_MAX]: codes of ``ROOM_TYPES`` in ascending order, with exactly one living
    room, first, and at most one entrance; ``PAD`` in unused slots.
    """
    # sample a combination of group counts: first n, then the counts given n
    tables = [np.array(table) for table in _LOG_WEIGHTS.values()]
    counts = np.array(list(product(*(range(len(table)) for table in tables))))
    log_weight = sum(table[counts[:, g]] for g, table in enumerate(tables))
    log_weight = log_weight + _BATHROOM_SHARED_OUT * ((counts[:, 0] >= 3) & (counts[:, 2] >= 2))
    total = 1 + counts.sum(1)
    fits = (total >= NUM_ROOMS[0]) & (total <= NUM_ROOMS[-1]) & np.isfinite(log_weight)
    counts, total, weight = counts[fits], total[fits], np.exp(log_weight[fits])
    per_n = np.array([weight[total == n].sum() for n in NUM_ROOMS])
    probs = weight * (np.array(NUM_ROOMS_PROBS) / per_n)[total - NUM_ROOMS[0]]
    chosen = counts[_draw(probs, rng.random(num))]

    candidates = _draw_candidates(num, rng)
    # candidate k of a group is used if the group has more than k rooms
    wanted = [chosen[:, g, None] > np.arange(c.shape[1]) for g, c in enumerate(candidates)]
    rooms = np.where(np.concatenate(wanted, 1), np.concatenate(candidates, 1), PAD)
    rooms = np.concatenate([np.full((num, 1), LIVING), rooms], axis=1)
    return np.sort(rooms, axis=1)[:, :N_MAX]


def sample_large_programmes(num_rooms: Ints, width: int, rng: np.random.Generator) -> Ints:
    """Sample the room types of large plans with ``num_rooms`` Int[P] rooms, 4 or more.

    The first rooms are a living room, a bedroom, a kitchen and a bathroom. Each further room is of
    a group sampled by its share; rooms beyond the limit of a group (two kitchens, two dining rooms,
    a third of all rooms for bathrooms and balconies) become bedrooms. Returns Int64[P, width], like
    ``sample_programmes``.
    """
    # groups of all rooms; full groups give way to bedrooms
    shares = _STATISTICS["large_shares"]
    num, groups = len(num_rooms), list(shares)
    drawn = _draw(np.array([*shares.values()]), rng.random((num, width - 4)))
    drawn = np.concatenate([np.tile(np.arange(3), (num, 1)), drawn], axis=1)
    for group, name in enumerate(groups):
        most = np.where(name in ("kitchen", "dining"), 2, num_rooms // 3)[:, None]
        is_over = (drawn == group) & (np.cumsum(drawn == group, axis=1) > most)
        drawn = np.where(is_over & (name != "bedroom"), 0, drawn)
    # types within groups, with at most one entrance
    bedrooms = _draw_type("other_bedrooms", rng.random(drawn.shape))
    bedrooms[:, 0] = _draw_type("first_bedrooms", rng.random(num))
    lesser = _draw_type("lesser_rooms", rng.random(drawn.shape))
    is_entrance = (drawn == groups.index("lesser")) & (lesser == ENTRANCE)
    lesser = np.where(is_entrance & (np.cumsum(is_entrance, axis=1) > 1), STORAGE, lesser)
    # assemble, pad, sort
    own = np.array([0, KITCHEN, BATHROOM, BALCONY, DINING, 0])[drawn]
    rooms = np.select([drawn == 0, drawn == groups.index("lesser")], [bedrooms, lesser], own)
    rooms = np.where(np.arange(1, width) < num_rooms[:, None], rooms, PAD)
    return np.sort(np.concatenate([np.full((num, 1), LIVING), rooms], axis=1), axis=1)


def _draw_candidates(num: int, rng: np.random.Generator) -> list[Ints]:
    """Types of the rooms of each group, Int[num, largest count], in the order of use."""
    largest = [len(table) - 1 for table in _LOG_WEIGHTS.values()]
    # the first bedroom is usually the master's
    bedrooms = _draw_type("other_bedrooms", rng.random((num, largest[0])))
    bedrooms[:, 0] = _draw_type("first_bedrooms", rng.random(num))
    # at most one entrance
    lesser = _draw_type("lesser_rooms", rng.random((num, largest[5])))
    first_entrance = np.cumsum(lesser == ENTRANCE, axis=1) <= 1
    lesser = np.where((lesser == ENTRANCE) & ~first_entrance, STORAGE, lesser)
    own = zip(largest[1:5], (KITCHEN, BATHROOM, BALCONY, DINING), strict=True)
    return [bedrooms, *(np.full((num, k), code) for k, code in own), lesser]


@dataclass(frozen=True)
class Ring:
    """``across`` slots on the top and bottom of the living room, ``down`` on its left and right.

    All sides are stored with ``side`` = S slots, the number of the longest, in the order top,
    bottom, left, right; along a side left to right, top to bottom. A shorter side uses its first
    slots and the last one, so that its ends meet the next sides in the corners.
    """

    across: int = 3
    down: int = 3

    @property
    def side(self) -> int:
        return max(self.across, self.down)

    @property
    def num_slots(self) -> int:
        return 4 * self.side

    @cached_property
    def used(self) -> Flags:
        """Bool[4 S]: slots that rooms may take."""
        lengths = np.array([self.across, self.across, self.down, self.down])[:, None]
        place = np.arange(self.side)
        return ((place < lengths - 1) | (place == self.side - 1)).reshape(-1)

    @cached_property
    def kind(self) -> Ints:
        """Int[4 S]: kind of each slot, 0 to 6, see statistics.yaml."""
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


RING = Ring()  # ring for plans of 4 to 8 rooms

_SHARE_OF_HOSTS = 0.72
"""Share of hosts among the rooms of a large plan; every other room shares the slot of a host."""


def ring_for(num_rooms: int) -> Ring:
    """Ring that grows in width with the number of rooms: the living room of a large plan is a hall
    along which the rooms lie."""
    hosts = _SHARE_OF_HOSTS * (num_rooms - 1)
    return Ring(across=max(RING.across, math.ceil((hosts - 2 * RING.down) / 2)))


_GROUPS = tuple(_STATISTICS["slot_preference"])
BEDROOMS, KITCHENS, BATHROOMS, BALCONIES, DININGS, LESSER, MASTERS = range(len(_GROUPS))
NUM_GROUPS = len(_GROUPS)
NO_ROOM = -1

GROUP_OF_TYPE = np.full(PAD + 1, BEDROOMS)
"""Siting group of every room code; entrances, storage and wall-ins are "lesser" rooms."""
GROUP_OF_TYPE[[KITCHEN, BATHROOM, BALCONY, DINING]] = (KITCHENS, BATHROOMS, BALCONIES, DININGS)
GROUP_OF_TYPE[BALCONY + 1 :] = LESSER
GROUP_OF_TYPE[MASTER] = MASTERS

_NEVER = -1e9
_SLOT_PREFERENCE = np.array(list(_STATISTICS["slot_preference"].values()))
_PLACING_ORDER = np.array([1, 3, 4, 6, 2, 5, 0, 7])
"""Rank of each group, and of an empty place, in the order of placing."""


@dataclass(frozen=True)
class Sites:
    """Rooms in each slot: ``hosts`` and ``guests`` Int[P, 4 S], indices of rooms or -1. A guest
    shares the slot of a host; a slot without a host has no guest."""

    hosts: Ints
    guests: Ints


def choose_sites(rooms: Ints, rng: np.random.Generator, ring: Ring = RING) -> Sites:
    """Sample a slot of the ``ring`` for every room but the living room. ``rooms``: Int[P, n_max] as
    ``sample_programmes`` returns them. ``ring`` has at least two slots per room."""
    num, num_slots = len(rooms), ring.num_slots
    plans = np.arange(num)
    # room 0 is the living room, without a slot
    rank = np.where(rooms == PAD, NUM_GROUPS, GROUP_OF_TYPE[rooms])
    order = np.argsort(_PLACING_ORDER[rank[:, 1:]], axis=1, kind="stable") + 1
    # log-weights that a placed room adds: affinities are symmetric, except within a slot
    affinity = np.zeros((NUM_GROUPS, NUM_GROUPS, 5))
    affinity[:, :, 0] = _NEVER
    for pair, values in _STATISTICS["affinity"].items():
        a, b = map(_GROUPS.index, pair.split())
        affinity[a, b, :4] = values
        affinity[b, a, 1:4] = values[1:]
    influence = affinity[:, :, ring.relation].transpose(0, 2, 1, 3)  # (placed, slot, group, slot)
    influence = np.ascontiguousarray(influence, dtype=np.float32)
    # log-weights of every slot for every group
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
