"""Room programmes: the types of the rooms of a plan.

The number of rooms n is distributed as in real plans (RPLAN). Given n, a combination of group
counts (bedrooms, bathrooms, balconies, ...) is sampled with a probability proportional to a product
of one weight per group: the maximum-entropy model with the group statistics of real plans. Then
every bedroom and every lesser room gets its own type. RPLAN has no large plans; for them n is
given, and rooms are sampled one by one.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG

N_MAX = RPLAN_VOCAB_CONFIG.n_max
PAD = RPLAN_VOCAB_CONFIG.node_pad_id
"""Code of unused room slots."""

NUM_ROOMS = (4, 5, 6, 7, 8)
NUM_ROOMS_PROBS = (0.003, 0.072, 0.311, 0.362, 0.252)
"""Frequencies of room counts in RPLAN (training split of Graph2Plan's data)."""

LIVING, MASTER, KITCHEN, BATHROOM, DINING, CHILD, STUDY, SECOND, GUEST, BALCONY = range(10)
ENTRANCE, STORAGE, WALL_IN = range(10, 13)  # the codes of ``ROOM_TYPES``

# log-weight of 0, 1, 2, ... rooms of a group in addition to the living room
_LOG_WEIGHTS = {
    "bedroom": (-np.inf, -2.4, 1.0, 2.0, 0.6),
    "kitchen": (-4.5, 1.8),
    "bathroom": (-np.inf, 2.4, 0.85, -1.4),
    "balcony": (-1.5, 0.5, 1.0, 0.3),
    "dining": (1.4, 0.35, -1.8),
    "lesser": (1.5, 0.5, -1.0),
}
_BATHROOM_SHARED_OUT = 2.0
"""Extra log-weight of two or more bathrooms with three or more bedrooms."""

_BEDROOM_PROBS = {MASTER: 0.94, SECOND: 0.06}
_OTHER_BEDROOM_PROBS = {SECOND: 0.77, CHILD: 0.09, STUDY: 0.08, GUEST: 0.06}
_LESSER_PROBS = {STORAGE: 0.90, ENTRANCE: 0.07, WALL_IN: 0.03}

_LARGE_SHARES = {
    "bedroom": 0.30,
    "kitchen": 0.02,
    "bathroom": 0.21,
    "balcony": 0.18,
    "dining": 0.05,
    "lesser": 0.24,
}
"""Shares of groups among the rooms of a large plan beyond the first four, which are a living room,
a bedroom, a kitchen and a bathroom."""


def _combinations() -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Group counts Int[C, 6] with 4 to 8 rooms in total, and their log-weights Float[C]."""
    # all combinations of counts, with the sum of their log-weights
    tables = [np.array(table) for table in _LOG_WEIGHTS.values()]
    counts = np.array(list(product(*(range(len(table)) for table in tables))))
    log_weight = sum(table[counts[:, g]] for g, table in enumerate(tables))
    log_weight = log_weight + _BATHROOM_SHARED_OUT * ((counts[:, 0] >= 3) & (counts[:, 2] >= 2))
    total = 1 + counts.sum(1)
    fits = (total >= NUM_ROOMS[0]) & (total <= NUM_ROOMS[-1]) & np.isfinite(log_weight)
    return counts[fits], log_weight[fits]


def _draw(probs: NDArray[np.float64], u: NDArray[np.float64]) -> NDArray[np.int64]:
    """Sample indices by inverting the cumulative sum of ``probs`` Float[K] at u in [0, 1)."""
    cumulative = np.cumsum(probs)
    return np.searchsorted(cumulative / cumulative[-1], u, side="right")


def _draw_type(table: dict[int, float], u: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.array(list(table))[_draw(np.array(list(table.values())), u)]


def sample_programmes(num: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Sample the room types of ``num`` plans.

    Returns Int64[num, N_MAX]: codes of ``ROOM_TYPES`` in ascending order, with exactly one living
    room, first, and at most one entrance; ``PAD`` in unused slots.
    """
    # sample a combination of group counts: first n, then the counts given n
    counts, log_weight = _combinations()
    total = 1 + counts.sum(1)
    weight = np.exp(log_weight)
    per_n = np.array([weight[total == n].sum() for n in NUM_ROOMS])
    probs = weight * (np.array(NUM_ROOMS_PROBS) / per_n)[total - NUM_ROOMS[0]]
    chosen = counts[_draw(probs, rng.random(num))]

    candidates = _draw_candidates(num, rng)
    # candidate k of a group is used if the group has more than k rooms
    wanted = [chosen[:, g, None] > np.arange(c.shape[1]) for g, c in enumerate(candidates)]
    rooms = np.where(np.concatenate(wanted, 1), np.concatenate(candidates, 1), PAD)
    rooms = np.concatenate([np.full((num, 1), LIVING), rooms], axis=1)
    return np.sort(rooms, axis=1)[:, :N_MAX]


def sample_large_programmes(
    num_rooms: NDArray[np.int64], width: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Sample the room types of large plans with ``num_rooms`` Int[P] rooms, 4 or more.

    The first rooms are a living room, a bedroom, a kitchen and a bathroom. Each further room is of
    a group sampled by its share; rooms beyond the limit of a group (two kitchens, two dining rooms,
    a third of all rooms for bathrooms and balconies) become bedrooms. Returns Int64[P, width], like
    ``sample_programmes``.
    """
    # groups of all rooms; full groups give way to bedrooms
    num, groups = len(num_rooms), list(_LARGE_SHARES)
    drawn = _draw(np.array([*_LARGE_SHARES.values()]), rng.random((num, width - 4)))
    drawn = np.concatenate([np.tile(np.arange(3), (num, 1)), drawn], axis=1)
    for group, name in enumerate(groups):
        most = np.where(name in ("kitchen", "dining"), 2, num_rooms // 3)[:, None]
        is_over = (drawn == group) & (np.cumsum(drawn == group, axis=1) > most)
        drawn = np.where(is_over & (name != "bedroom"), 0, drawn)
    # types within groups, with at most one entrance
    bedrooms = _draw_type(_OTHER_BEDROOM_PROBS, rng.random(drawn.shape))
    bedrooms[:, 0] = _draw_type(_BEDROOM_PROBS, rng.random(num))
    lesser = _draw_type(_LESSER_PROBS, rng.random(drawn.shape))
    is_entrance = (drawn == groups.index("lesser")) & (lesser == ENTRANCE)
    lesser = np.where(is_entrance & (np.cumsum(is_entrance, axis=1) > 1), STORAGE, lesser)
    # assemble, pad, sort
    own = np.array([0, KITCHEN, BATHROOM, BALCONY, DINING, 0])[drawn]
    rooms = np.select([drawn == 0, drawn == groups.index("lesser")], [bedrooms, lesser], own)
    rooms = np.where(np.arange(1, width) < num_rooms[:, None], rooms, PAD)
    return np.sort(np.concatenate([np.full((num, 1), LIVING), rooms], axis=1), axis=1)


def _draw_candidates(num: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Types of the rooms of each group, Int[num, largest count], in the order of use."""
    largest = [len(table) - 1 for table in _LOG_WEIGHTS.values()]
    # the first bedroom is usually the master's
    bedrooms = _draw_type(_OTHER_BEDROOM_PROBS, rng.random((num, largest[0])))
    bedrooms[:, 0] = _draw_type(_BEDROOM_PROBS, rng.random(num))
    # at most one entrance
    lesser = _draw_type(_LESSER_PROBS, rng.random((num, largest[5])))
    first_entrance = np.cumsum(lesser == ENTRANCE, axis=1) <= 1
    lesser = np.where((lesser == ENTRANCE) & ~first_entrance, STORAGE, lesser)
    same = [
        np.full((num, k), code)
        for k, code in zip(largest[1:5], (KITCHEN, BATHROOM, BALCONY, DINING), strict=True)
    ]
    return [bedrooms, *same, lesser]
