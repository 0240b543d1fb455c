"""The geometric rule: boxes of rooms -> spatial relations between them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discrete_diffusion.rooms import NO_EDGE, RELATIONS

DEFAULT_THRESHOLD = 9.0
"""Pixels (of a plan drawn on 256 x 256) up to which two boxes count as neighbours."""

_INSIDE, _SURROUNDING = map(RELATIONS.index, ("inside", "surrounding"))

# Where the centre of u lies against the box of v. Rows: y of the centre before, on, between, on,
# after the box's two y edges (y grows downwards); columns: the same for x. A centre on the line
# that prolongs an edge belongs to one sector only: the table is the same after a quarter turn.
_SECTORS = np.array(
    [
        [0, 3, 3, 8, 8],
        [0, 0, 3, 8, 7],
        [2, 2, 4, 7, 7],
        [2, 1, 6, 9, 9],
        [1, 1, 6, 6, 9],
    ]
)


def relations_from_boxes(
    boxes: ArrayLike, threshold: float = DEFAULT_THRESHOLD
) -> NDArray[np.int64]:
    """The relation of every pair of rooms u < v, from their boxes.

    A pair is related if its boxes come within ``threshold`` of each other along both axes. Then u
    strictly around v on all four sides is "surrounding"; u within v (edges may coincide) is
    "inside"; otherwise the *centre* of u is placed against the *box* of v: eight sectors, "inside"
    if it falls into the box. This is the rule of Graph2Plan (arXiv 2004.13204). It is not
    antisymmetric: computing (v, u) often differs from the inverse 9 - r of (u, v), so relabelled
    rooms keep their relations by ``BubbleDiagram.relabelled`` and never by measuring again.

    ``boxes``: Float[..., n, 4] as (x0, y0, x1, y1), y downwards, in the unit of ``threshold``.
    Returns Int64[..., n, n]: the code of (u, v) for u < v, and "no-edge" (10) everywhere else.

    Raises ``ValueError`` for another shape, a non-finite number, or a box with x1 < x0 or y1 < y0.
    """
    box = np.asarray(boxes, dtype=np.float64)
    if box.ndim < 2 or box.shape[-1] != 4:
        raise ValueError(f"boxes must have shape (..., n, 4), got {box.shape}")
    if not np.isfinite(box).all():
        raise ValueError("boxes must be finite numbers")
    if (box[..., 2:] < box[..., :2]).any():
        raise ValueError("boxes must be (x0, y0, x1, y1) with x0 <= x1 and y0 <= y1")
    u_low, u_high = box[..., :, None, :2], box[..., :, None, 2:]  # (..., n, 1, 2): x, y
    v_low, v_high = box[..., None, :, :2], box[..., None, :, 2:]  # (..., 1, n, 2)

    with np.errstate(over="ignore"):  # a gap beyond float64 is infinite, hence not near
        near = (np.maximum(u_low - v_high, v_low - u_high) <= threshold).all(-1)
    around = ((u_low < v_low) & (u_high > v_high)).all(-1)
    within = ((u_low >= v_low) & (u_high <= v_high)).all(-1)

    centre = u_low / 2 + u_high / 2
    column = (
        (centre >= v_low).astype(np.int64)
        + (centre > v_low)
        + (centre >= v_high)
        + (centre > v_high)
    )  # 0 before, 1 on, 2 between, 3 on, 4 after
    code = _SECTORS[column[..., 1], column[..., 0]]
    code = np.where(around, _SURROUNDING, np.where(within, _INSIDE, code))

    upper = np.triu(np.ones((box.shape[-2],) * 2, dtype=bool), k=1)
    return np.where(near & upper, code, NO_EDGE)
