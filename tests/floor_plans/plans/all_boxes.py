"""All boxes of a small grid, and the codes that two or three of them have."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np

from floor_plans import BubbleDiagram
from floor_plans.diagrams.geometry import relations_from_boxes
from floor_plans.diagrams.vocabulary import INSIDE, NO_EDGE, SURROUNDING
from floor_plans.plans.box_model import BoxRule

PAIRS = list(combinations(range(3), 2))


def boxes_of_grid(rule: BoxRule) -> np.ndarray:
    """Int[K, 4]: all that the rule allows."""
    sides = list(combinations(range(rule.grid + 1), 2))
    found = [(x0, y0, x1, y1) for (x0, x1), (y0, y1) in product(sides, sides)]
    boxes = np.array(found)
    width, height = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    short, long = np.minimum(width, height), np.maximum(width, height)
    return boxes[(short >= rule.min_side) & (long <= rule.max_aspect * short)]


def codes_of_pairs(boxes: np.ndarray, threshold: int) -> tuple[np.ndarray, np.ndarray]:
    """Int[K, K] and Int[K, K]: the code of (i, j) read in its first and in its second direction."""
    pairs = np.stack(np.broadcast_arrays(boxes[:, None], boxes[None]), axis=2)
    first = relations_from_boxes(pairs, threshold)[..., 0, 1]
    second = first.T
    return first, np.where(second == NO_EDGE, NO_EDGE, 9 - second)


def is_apart(boxes: np.ndarray) -> np.ndarray:
    """Bool[K, K]."""
    low, high = boxes[:, :2], boxes[:, 2:]
    return ((low[:, None] >= high[None]) | (low[None] >= high[:, None])).any(-1)


def free_sides_around(boxes: np.ndarray, rule: BoxRule) -> np.ndarray:
    """Int[K, K]: four bits, the sides of the second box along which the first leaves it a strip as
    wide as a room; 0 if the first does not lie within the second."""
    low, high = boxes[:, :2], boxes[:, 2:]
    gaps = np.concatenate([low[:, None] - low[None], high[None] - high[:, None]], axis=-1)
    bits = ((gaps >= rule.min_side) * [1, 2, 4, 8]).sum(-1)
    return np.where((gaps >= 0).all(-1), bits, 0)


def triples_of_all_boxes(rule: BoxRule, *, buildable: bool) -> set[tuple[int, int, int]]:
    """Codes of (0, 1), (0, 2), (1, 2) that some three boxes have."""
    boxes = boxes_of_grid(rule)
    both = codes_of_pairs(boxes, rule.threshold)
    apart, free = is_apart(boxes), free_sides_around(boxes, rule)
    within = free > 0
    fine = [
        np.select([read == INSIDE, read == SURROUNDING], [within, within.T], apart) for read in both
    ]
    if not buildable:
        fine = [np.ones_like(apart)] * 2
    free = np.where(within & buildable, free, 15)
    seen = np.zeros(11**3, bool)
    for a in range(len(boxes)):
        strips = (free[:, a, None] & free[None, :, a]) > 0  # of the first room
        strips &= ((free[a, :, None] & free.T) > 0) & ((free[a, None, :] & free) > 0)
        for ab, ac, bc in product(range(2), repeat=3):
            kept = fine[ab][a][:, None] & fine[ac][a][None] & fine[bc] & strips
            codes = 121 * both[ab][a][:, None] + 11 * both[ac][a][None] + both[bc]
            seen[np.unique(codes[kept])] = True
    return {(*divmod(code // 11, 11), code % 11) for code in np.flatnonzero(seen).tolist()}


def diagram_of(codes: tuple[int, ...]) -> BubbleDiagram:
    relations = [(i, j, r) for (i, j), r in zip(PAIRS, codes, strict=True) if r != NO_EDGE]
    return BubbleDiagram((0, 1, 2), relations)


def pairs_of_all_boxes(rule: BoxRule, *, buildable: bool) -> set[int]:
    """Codes of (0, 1) that some two boxes have."""
    boxes = boxes_of_grid(rule)
    within, apart = free_sides_around(boxes, rule) > 0, is_apart(boxes)
    found = set()
    for read in codes_of_pairs(boxes, rule.threshold):
        fine = np.select([read == INSIDE, read == SURROUNDING], [within, within.T], apart)
        found |= set(np.unique(read[fine] if buildable else read).tolist())
    return found
