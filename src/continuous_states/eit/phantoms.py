"""Phantoms: discs or tubes of raised conductivity in the unit disc, as images of level ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuous_states.eit.levels import LEVELS

Floats = NDArray[np.float64]

MARGIN = 0.1
"""Width of the ring at the boundary that stays background."""

GAP = 0.01
"""Least distance between two shapes."""

_CANDIDATES = 128


@dataclass(frozen=True)
class ShapeKind:
    """A shape is what lies within ``radius`` of a segment: a disc if its length is 0.

    ``most``: shapes of a phantom, at least 1. ``spread``: centres are uniform on
    [-spread, spread]^2. ``length``: of the whole shape, end to end, None for discs. Lengths in
    radii of the unit disc: half the width of the image.
    """

    most: int
    spread: float
    radius: tuple[float, float]
    length: tuple[float, float] | None


SHAPE_KINDS = {
    "discs": ShapeKind(most=5, spread=0.6, radius=(0.1, 0.35), length=None),
    "tubes": ShapeKind(most=3, spread=0.4, radius=(0.08, 0.15), length=(0.5, 1.2)),
}


@dataclass(frozen=True)
class Shapes:
    """K shapes that do not touch. ``ends``: Float64[K, 2, 2] both ends of each segment.
    ``radius``: Float64[K]. ``levels``: Int64[K] ids 1..5."""

    ends: Floats
    radius: Floats
    levels: NDArray[np.int64]


def sample_shapes(kind: ShapeKind, rng: np.random.Generator) -> Shapes:
    """1 to ``kind.most`` shapes, each number as likely, inside the margin and ``GAP`` apart."""
    num = int(rng.integers(1, kind.most + 1))
    levels = rng.integers(1, len(LEVELS), num)
    while True:
        ends, radius = _draw_candidates(kind, rng)
        chosen: list[int] = []
        fits = (np.linalg.norm(ends, axis=-1) + radius[:, None] <= 1 - MARGIN).all(axis=1)
        while fits.any() and len(chosen) < num:
            chosen.append(int(np.argmax(fits)))
            away = _segment_distance(ends[chosen[-1]], ends)
            fits &= away >= radius + radius[chosen[-1]] + GAP
        if len(chosen) == num:
            return Shapes(ends[chosen], radius[chosen], levels)


def rasterise(shapes: Sequence[Shapes], size: int) -> NDArray[np.uint8]:
    """UInt8[M, H, W] level ids: that of the shape a pixel centre lies in, else 0.

    The centres of the outermost pixels are on x = -1, x = 1, y = 1 (first row) and y = -1.
    """
    axis = np.linspace(-1, 1, size)
    pixels = np.stack(np.meshgrid(axis, -axis), axis=-1)  # (H, W, 2)
    images = np.zeros((len(shapes), size, size), np.uint8)
    for image, phantom in zip(images, shapes, strict=True):
        for ends, radius, level in zip(phantom.ends, phantom.radius, phantom.levels, strict=True):
            image[_point_distance(pixels, ends[0], ends[1]) <= radius] = level
    return images


def _draw_candidates(kind: ShapeKind, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Ends Float64[C, 2, 2] and radii Float64[C] of shapes that may touch."""
    centre = rng.uniform(-kind.spread, kind.spread, (_CANDIDATES, 2))
    radius = rng.uniform(*kind.radius, _CANDIDATES)
    if kind.length is None:
        return np.stack([centre, centre], axis=1), radius
    half = rng.uniform(*kind.length, _CANDIDATES) / 2 - radius
    angle = rng.uniform(0, np.pi, _CANDIDATES)
    arm = half[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return np.stack([centre - arm, centre + arm], axis=1), radius


def _segment_distance(segment: Floats, others: Floats) -> Floats:
    """Distance Float64[C] of a segment (2, 2) from others (C, 2, 2); 0 where they cross."""
    (a, b), (c, d) = segment, others.transpose(1, 0, 2)
    nearest = np.minimum.reduce(
        [
            _point_distance(a, c, d),
            _point_distance(b, c, d),
            _point_distance(c, a, b),
            _point_distance(d, a, b),
        ]
    )
    crossing = (_side(a, b, c) * _side(a, b, d) < 0) & (_side(c, d, a) * _side(c, d, b) < 0)
    return np.where(crossing, 0.0, nearest)


def _side(a: Floats, b: Floats, point: Floats) -> Floats:
    """Positive if ``point`` is left of the line from a to b."""
    along, to = b - a, point - a
    return along[..., 0] * to[..., 1] - along[..., 1] * to[..., 0]


def _point_distance(points: Floats, a: Floats, b: Floats) -> Floats:
    """Distance of points (..., 2) from the segments a (..., 2) to b (..., 2)."""
    along = b - a
    length = np.maximum((along**2).sum(axis=-1), np.finfo(float).tiny)
    share = (((points - a) * along).sum(axis=-1) / length).clip(0, 1)
    return np.sqrt(((points - a - share[..., None] * along) ** 2).sum(axis=-1))
