"""A triangle mesh of the unit disc: nodes on concentric rings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import Delaunay

from discrete_diffusion.config import check_whole_number

FOLD = 4
"""Every ring holds a multiple of this many nodes, so a quarter turn maps the mesh onto itself."""

_TWIST = 1e-3


@dataclass(frozen=True)
class Mesh:
    """P nodes, of which the first n are the boundary, counter-clockwise from (1, 0); T triangles.

    ``points``: Float64[P, 2]. ``triangles``: Int64[T, 3] nodes. ``num_boundary``: n.
    """

    points: NDArray[np.float64]
    triangles: NDArray[np.int64]
    num_boundary: int

    @property
    def centroids(self) -> NDArray[np.float64]:
        """Centres of the triangles, Float64[T, 2]."""
        return self.points[self.triangles].mean(axis=1)


def check_mesh_size(mesh_rings: int, num_boundary: int) -> None:
    """Raise ``ValueError`` for numbers that make no mesh of rings inside each other."""
    check_whole_number("data.mesh_rings", mesh_rings, least=2)
    check_whole_number("data.num_boundary", num_boundary, least=FOLD)
    least = max(2 * FOLD, 2 * mesh_rings)
    least += -least % FOLD
    if num_boundary % FOLD or num_boundary < least:
        raise ValueError(
            f"data.num_boundary={num_boundary}: expected a multiple of {FOLD}, at least {least} "
            f"for data.mesh_rings={mesh_rings}"
        )


def ring_mesh(mesh_rings: int, num_boundary: int) -> Mesh:
    """Nodes on ``mesh_rings`` equidistant circles and in the centre, triangulated by Delaunay.

    Ring k of R has about n k / R nodes, every second ring is turned by half a spacing. Raises
    ``ValueError`` for numbers that make no mesh.
    """
    check_mesh_size(mesh_rings, num_boundary)
    points, twisted = [], []
    for k in range(mesh_rings, 0, -1):
        depth = mesh_rings - k
        num = max(FOLD, FOLD * round(num_boundary * k / mesh_rings / FOLD))
        angles = 2 * np.pi * (np.arange(num) + depth % 2 / 2) / num
        points.append(_circle(k / mesh_rings, angles))
        twisted.append(_circle(k / mesh_rings, angles + _TWIST * (depth / mesh_rings) ** 2))
    centre = np.zeros((1, 2))
    # Four nodes on one circle leave Delaunay a choice that rounding would make; the twist makes it.
    triangles = np.sort(Delaunay(np.concatenate([*twisted, centre])).simplices, axis=1)
    triangles = triangles[np.lexsort(triangles.T[::-1])].astype(np.int64)
    return Mesh(np.concatenate([*points, centre]), triangles, num_boundary)


def _circle(radius: float, angles: NDArray[np.float64]) -> NDArray[np.float64]:
    return radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)
