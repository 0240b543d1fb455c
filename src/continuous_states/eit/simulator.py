"""Simulation of phantoms (discs or tubes of raised conductivity in the unit disc), and of their
Dirichlet-to-Neumann maps by finite elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from einops import rearrange
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial import Delaunay
from torch import Tensor

from discrete_diffusion.config import check_whole_number, unknown_name
from discrete_diffusion.data import cache_dir, cached_arrays

Floats = NDArray[np.float64]
Maps = NDArray[np.float32]

LEVELS = (1.0, 2.0, 2.75, 3.5, 4.25, 5.0)
"""Conductivity of each id; id 0 is the background."""

MASK_ID = len(LEVELS)
VOCAB_SIZE = len(LEVELS) + 1

SIMULATOR_VERSION = 1
"""Version of the simulator; raise it whenever the same seed gives other samples. Part of the names
of cached files."""

SMALLEST_SIZE = 16
"""Smallest image size at which the smallest disc always covers a pixel."""

NODES_WORTH_CACHING = 100_000
"""Boundary nodes of all maps: 2 seconds of simulation at 32 a map, 4 at 128."""

_BLOCK_SIZE = 32
_PHANTOM_STREAM = 0

MARGIN = 0.1
"""Width of the ring at the boundary that contains no shape."""

GAP = 0.01
"""Least distance between two shapes."""

_CANDIDATES = 128

FOLD = 4
"""Every ring has a multiple of this many nodes, so a quarter turn maps the mesh onto itself."""

_TWIST = 1e-3


def levels_to_conductivity(levels: Tensor) -> Tensor:
    """Convert ids 0..5, Int[...], to conductivities Float32[...]. Raises ``ValueError`` for other
    ids."""
    if levels.numel() and not 0 <= int(levels.min()) <= int(levels.max()) < len(LEVELS):
        raise ValueError(
            f"ids from {int(levels.min())} to {int(levels.max())}; expected 0 to "
            f"{len(LEVELS) - 1}, which stand for the conductivities {LEVELS}"
        )
    return torch.tensor(LEVELS, device=levels.device)[levels.long()]


def are_levels(conductivity: Tensor) -> Tensor:
    """Bool[...]: True where a conductivity Float[...] is one of the six levels."""
    nearest = levels_to_conductivity(conductivity_to_levels(conductivity))
    return (nearest - conductivity).abs() <= 1e-4


def conductivity_to_levels(conductivity: Tensor, levels: Sequence[float] = LEVELS) -> Tensor:
    """Index Int64[...] of the nearest of the ascending ``levels`` for conductivities Float[...]; of
    two equally near levels, the lower."""
    values = torch.tensor(levels, dtype=conductivity.dtype, device=conductivity.device)
    return torch.bucketize(conductivity.contiguous(), (values[1:] + values[:-1]) / 2)


@dataclass(frozen=True)
class ShapeKind:
    """Kind of shapes: all points within ``radius`` of a segment; discs if the segment has length 0.

    ``most``: largest number of shapes of a phantom, at least 1. ``spread``: centres are uniform on
    [-spread, spread]^2. ``length``: length of the whole shape, end to end; None for discs. The unit
    of length is the radius of the unit disc, half the width of the image.
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
    """Sample 1 to ``kind.most`` shapes (uniformly), inside the margin and at least ``GAP``
    apart."""
    # number and levels, then positions until all fit
    num = int(rng.integers(1, kind.most + 1))
    levels = rng.integers(1, len(LEVELS), num)
    while True:
        # candidates: discs, or tubes with half their length on each side, in any direction
        centre = rng.uniform(-kind.spread, kind.spread, (_CANDIDATES, 2))
        radius = rng.uniform(*kind.radius, _CANDIDATES)
        arm = np.zeros_like(centre)
        if kind.length is not None:
            half = rng.uniform(*kind.length, _CANDIDATES) / 2 - radius
            angle = rng.uniform(0, np.pi, _CANDIDATES)
            arm = half[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        ends = np.stack([centre - arm, centre + arm], axis=1)  # (C, 2, 2)
        # one after the other, as far as they fit
        chosen: list[int] = []
        fits = (np.linalg.norm(ends, axis=-1) + radius[:, None] <= 1 - MARGIN).all(axis=1)
        while fits.any() and len(chosen) < num:
            chosen.append(int(np.argmax(fits)))
            away = _segment_distance(ends[chosen[-1]], ends)
            fits &= away >= radius + radius[chosen[-1]] + GAP
        if len(chosen) == num:
            return Shapes(ends[chosen], radius[chosen], levels)


def rasterise_shapes(shapes: Sequence[Shapes], size: int) -> NDArray[np.uint8]:
    """Level ids UInt8[M, H, W]: a pixel has the id of the shape that covers its centre, else 0. The
    centres of the outermost pixels are on x = -1, x = 1, y = 1 (first row) and y = -1."""
    # centres of the pixels
    axis = np.linspace(-1, 1, size)
    pixels = np.stack(np.meshgrid(axis, -axis), axis=-1)  # (H, W, 2)
    images = np.zeros((len(shapes), size, size), np.uint8)
    for image, phantom in zip(images, shapes, strict=True):
        for ends, radius, level in zip(phantom.ends, phantom.radius, phantom.levels, strict=True):
            image[_point_distance(pixels, ends[0], ends[1]) <= radius] = level
    return images


def _segment_distance(segment: Floats, others: Floats) -> Floats:
    """Distances Float64[C] of a segment (2, 2) from ``others`` (C, 2, 2); 0 where they cross."""
    (a, b), (c, d) = segment, others.transpose(1, 0, 2)
    # an end of one segment is nearest, unless they cross
    ends = ((a, c, d), (b, c, d), (c, a, b), (d, a, b))
    nearest = np.minimum.reduce([_point_distance(*each) for each in ends])
    crossing = _side_of_line(a, b, c) * _side_of_line(a, b, d) < 0
    crossing &= _side_of_line(c, d, a) * _side_of_line(c, d, b) < 0
    return np.where(crossing, 0.0, nearest)


def _side_of_line(a: Floats, b: Floats, point: Floats) -> Floats:
    """Positive if ``point`` is left of the line from a to b."""
    along, to = b - a, point - a
    return along[..., 0] * to[..., 1] - along[..., 1] * to[..., 0]


def _point_distance(points: Floats, a: Floats, b: Floats) -> Floats:
    """Distance of points (..., 2) from the segments a (..., 2) to b (..., 2)."""
    along = b - a
    length = np.maximum((along**2).sum(axis=-1), np.finfo(float).tiny)
    # nearest point of the segment
    share = (((points - a) * along).sum(axis=-1) / length).clip(0, 1)
    return np.sqrt(((points - a - share[..., None] * along) ** 2).sum(axis=-1))


@dataclass(frozen=True)
class Mesh:
    """Mesh of P nodes and T triangles; the first n nodes are the boundary, counter-clockwise from
    (1, 0).
    ``points``: Float64[P, 2]. ``triangles``: Int64[T, 3] nodes. ``num_boundary``: n."""

    points: NDArray[np.float64]
    triangles: NDArray[np.int64]
    num_boundary: int

    @property
    def centroids(self) -> NDArray[np.float64]:
        """Centres of the triangles, Float64[T, 2]."""
        return self.points[self.triangles].mean(axis=1)


def check_mesh_size(mesh_rings: int, num_boundary: int) -> None:
    """Raise ``ValueError`` if no mesh can be built with these numbers of rings and boundary
    nodes."""
    check_whole_number("data.mesh_rings", mesh_rings, least=2)
    check_whole_number("data.num_boundary", num_boundary, least=FOLD)
    # a multiple of FOLD that leaves room for all rings
    least = max(2 * FOLD, 2 * mesh_rings)
    least += -least % FOLD
    if num_boundary % FOLD or num_boundary < least:
        raise ValueError(
            f"data.num_boundary={num_boundary}: expected a multiple of {FOLD}, at least {least} "
            f"for data.mesh_rings={mesh_rings}"
        )


def ring_mesh(mesh_rings: int, num_boundary: int) -> Mesh:
    """Mesh of nodes on ``mesh_rings`` equidistant circles and at the centre, with a Delaunay
    triangulation. Ring k of R has about n k / R nodes; every second ring is rotated by half a
    spacing. Raises ``ValueError`` as in ``check_mesh_size``."""
    check_mesh_size(mesh_rings, num_boundary)
    # rings from the boundary inwards
    points: list[Floats] = []
    twisted: list[Floats] = []
    for k in range(mesh_rings, 0, -1):
        depth = mesh_rings - k
        num = max(FOLD, FOLD * round(num_boundary * k / mesh_rings / FOLD))
        angles = 2 * np.pi * (np.arange(num) + depth % 2 / 2) / num
        twist = _TWIST * (depth / mesh_rings) ** 2
        for nodes, turned in ((points, angles), (twisted, angles + twist)):
            circle = np.stack([np.cos(turned), np.sin(turned)], axis=1)
            nodes.append(k / mesh_rings * circle)
    centre = np.zeros((1, 2))
    # four nodes on one circle leave Delaunay a choice, which the twist makes instead of rounding
    triangles = np.sort(Delaunay(np.concatenate([*twisted, centre])).simplices, axis=1)
    # sorted, so that their order is fixed
    triangles = triangles[np.lexsort(triangles.T[::-1])].astype(np.int64)
    return Mesh(np.concatenate([*points, centre]), triangles, num_boundary)


class DtNSolver:
    """Dirichlet-to-Neumann maps Lambda of conductivities sigma on one mesh, many at a time.

    ``div(sigma grad u) = 0`` in the disc, u = f on its boundary. With linear elements (P1), one
    conductivity per triangle and the stiffness matrix

        S_ij = sum over triangles T of  sigma_T  integral over T of  grad phi_i . grad phi_j,

    the boundary nodes b and the inner ones i,

        Lambda = S_bb - S_bi S_ii^-1 S_ib.

    This is the weak form: ``v^T Lambda f`` is the integral of v times the current that flows in at
    voltage f. Lambda is symmetric, positive semi-definite, and its rows sum to 0.

    Inner nodes are eliminated in layers, the farthest from the boundary first. A node shares
    triangles only with its own and the neighbouring layers, so every step is a Cholesky
    factorisation of one layer (LAPACK, batched) instead of all of S_ii. Computed in Float64.
    """

    def __init__(self, mesh: Mesh) -> None:
        self.num_triangles = len(mesh.triangles)
        self._layers = _mesh_layers(mesh)
        # stiffness of each triangle, Float64[T, 3, 3]: the integral of grad phi_i . grad phi_j is
        # e_i . e_j / (4 area), with e_i the edge opposite to node i
        corners = mesh.points[mesh.triangles]
        edges = np.roll(corners, -1, axis=1) - np.roll(corners, 1, axis=1)
        (x0, y0), (x1, y1) = edges[:, 0].T, edges[:, 1].T
        area = abs(x0 * y1 - y0 * x1) / 2
        local = edges @ edges.transpose(0, 2, 1) / (4 * area[:, None, None])
        # terms of S within each layer, and between neighbours
        self._own = [_stiffness_block(mesh, local, layer, layer) for layer in self._layers]
        self._outwards = [
            _stiffness_block(mesh, local, inner, outer)
            for outer, inner in zip(self._layers[:-1], self._layers[1:], strict=True)
        ]

    def solve(self, sigma: Floats) -> Floats:
        """Compute maps Lambda Float64[M, n, n] of positive conductivities Float64[M, T]."""
        if sigma.ndim != 2 or sigma.shape[1] != self.num_triangles:
            raise ValueError(
                f"sigma has shape {sigma.shape}; expected (M, {self.num_triangles}), a value for "
                "each triangle"
            )
        columns = np.ascontiguousarray(sigma.T)
        # the Schur complement of each layer is added to the next one outwards
        last = len(self._layers) - 1
        matrix = self._assemble(self._own[last], columns, last, last)
        for k in range(last - 1, -1, -1):
            # eliminate layer k + 1 from layer k
            factor = torch.linalg.cholesky(matrix)
            coupling = self._assemble(self._outwards[k], columns, k + 1, k)
            half = torch.linalg.solve_triangular(factor, coupling, upper=False)
            matrix = self._assemble(self._own[k], columns, k, k) - half.mT @ half
        return ((matrix + matrix.mT) / 2).numpy()

    def _assemble(self, block: sparse.csr_matrix, columns: Floats, k: int, j: int) -> Tensor:
        """Block of S between layers k and j, Float64[M, len k, len j]."""
        return torch.from_numpy(
            rearrange(np.asarray(block @ columns), "(i j) m -> m i j", i=len(self._layers[k]))
        ).contiguous()


def _mesh_layers(mesh: Mesh) -> list[NDArray[np.int64]]:
    """Group nodes by their number of edges to the nearest boundary node; the boundary is first."""
    rows, columns = _stiffness_entries(mesh)
    num = len(mesh.points)
    neighbours = sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(num, num))
    # from the boundary inwards, one edge at a time
    found = np.arange(num) < mesh.num_boundary
    layers = [np.arange(mesh.num_boundary)]
    while not found.all():
        reached = np.zeros(num, dtype=bool)
        reached[neighbours[layers[-1]].indices] = True
        layers.append(np.flatnonzero(reached & ~found))
        found |= reached
    return layers


def _stiffness_entries(mesh: Mesh) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and columns of the 9 T entries that triangles add to S."""
    return np.repeat(mesh.triangles, 3, axis=1).ravel(), np.tile(mesh.triangles, 3).ravel()


def _stiffness_block(
    mesh: Mesh, local: Floats, rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> sparse.csr_matrix:
    """Terms of each triangle, with conductivity 1, in a block of S: (len rows * len columns, T)."""
    num, (i, j) = len(mesh.points), _stiffness_entries(mesh)
    # places of the nodes in the part, -1 outside
    row, column = np.full(num, -1), np.full(num, -1)
    row[rows], column[columns] = np.arange(len(rows)), np.arange(len(columns))
    # entries of S whose row and column are both in the part
    inside = (row[i] >= 0) & (column[j] >= 0)
    entry = row[i[inside]] * len(columns) + column[j[inside]]
    triangle = np.repeat(np.arange(len(mesh.triangles)), 9)[inside]
    shape = (len(rows) * len(columns), len(mesh.triangles))
    return sparse.csr_matrix((local.ravel()[inside], (entry, triangle)), shape=shape)


@dataclass(frozen=True)
class SimulationSettings:
    """Settings of phantoms and maps. Raises ``ValueError`` for a value out of range."""

    num_samples: int
    size: int
    phantoms: str
    mesh_rings: int
    num_boundary: int
    generator_seed: int

    def __post_init__(self) -> None:
        check_whole_number("data.num_samples", self.num_samples, least=1)
        check_whole_number("data.size", self.size, least=SMALLEST_SIZE)
        check_whole_number("data.generator_seed", self.generator_seed, least=0)
        check_mesh_size(self.mesh_rings, self.num_boundary)
        if self.phantoms not in SHAPE_KINDS:
            raise ValueError(unknown_name("data.phantoms", self.phantoms, SHAPE_KINDS))


@dataclass(frozen=True)
class SimulatedPhantoms:
    """M phantoms. ``levels``: UInt8[M, H, W] ids 0..5. ``dtn``: Float32[M, n, n], the maps."""

    levels: NDArray[np.uint8]
    dtn: Maps


def simulate_phantoms(settings: SimulationSettings) -> SimulatedPhantoms:
    """Simulate ``settings.num_samples`` phantoms with their maps; fewer phantoms of the same seed
    are the first of more. A map is computed from the conductivity at the centroids of the
    triangles, interpolated bilinearly in the image."""
    s, kind = settings, SHAPE_KINDS[settings.phantoms]
    # what all phantoms share
    mesh = ring_mesh(s.mesh_rings, s.num_boundary)
    solver, reader = DtNSolver(mesh), centroid_reader(mesh, s.size)
    levels = np.zeros((s.num_samples, s.size, s.size), np.uint8)
    dtn = np.zeros((s.num_samples, s.num_boundary, s.num_boundary), np.float32)
    for first in range(0, s.num_samples, _BLOCK_SIZE):
        block = range(first, min(first + _BLOCK_SIZE, s.num_samples))
        # images, then maps of their conductivities at the centroids
        streams = (np.random.default_rng([s.generator_seed, _PHANTOM_STREAM, k]) for k in block)
        shapes = [sample_shapes(kind, rng) for rng in streams]
        levels[block.start : block.stop] = images = rasterise_shapes(shapes, s.size)
        pixels = rearrange(np.asarray(LEVELS)[images], "m h w -> (h w) m")
        dtn[block.start : block.stop] = solver.solve((reader @ pixels).T)
    return SimulatedPhantoms(levels, dtn)


def phantom_cache_file(settings: SimulationSettings) -> Path:
    """File in which ``cached_phantoms(settings)`` keeps its phantoms."""
    s = settings
    sizes = f"{s.phantoms}-m{s.num_samples}-p{s.size}-r{s.mesh_rings}-n{s.num_boundary}"
    return cache_dir() / f"eit-v{SIMULATOR_VERSION}-{sizes}-s{s.generator_seed}.npz"


def cached_phantoms(settings: SimulationSettings) -> SimulatedPhantoms:
    """Result of ``simulate_phantoms(settings)``, cached where simulating takes long; a cache that
    cannot be read or written is logged and ignored."""
    if settings.num_samples * settings.num_boundary < NODES_WORTH_CACHING:
        return simulate_phantoms(settings)
    # arrays that the cache must hold
    s = settings
    expected = {
        "levels": (np.uint8, (s.num_samples, s.size, s.size)),
        "dtn": (np.float32, (s.num_samples, s.num_boundary, s.num_boundary)),
    }
    arrays = cached_arrays(
        phantom_cache_file(s),
        "phantoms",
        expected,
        lambda: vars(simulate_phantoms(s)),
        compressed=False,  # maps hardly shrink, and it takes longer than reading more
    )
    return SimulatedPhantoms(**arrays)


def background_map(mesh_rings: int, num_boundary: int) -> NDArray[np.float64]:
    """Map of conductivity 1, Float64[n, n]."""
    solver = DtNSolver(ring_mesh(mesh_rings, num_boundary))
    return solver.solve(np.ones((1, solver.num_triangles)))[0]


def centroid_reader(mesh: Mesh, size: int) -> sparse.csr_matrix:
    """Matrix (T, H W) that interpolates an image bilinearly at the centroids of the triangles."""
    x, y = mesh.centroids.T
    # the four pixels around each centroid, and their weights
    column, row = ((x + 1) / 2 * (size - 1), (1 - y) / 2 * (size - 1))
    left, top = (np.floor(v).astype(np.int64).clip(0, size - 2) for v in (column, row))
    right, down = column - left, row - top
    weights = [(1 - right) * (1 - down), right * (1 - down), (1 - right) * down, right * down]
    pixels = [(top + i) * size + left + j for i in (0, 1) for j in (0, 1)]
    triangle = np.tile(np.arange(len(x)), 4)
    shape = (len(x), size * size)
    return sparse.csr_matrix(
        (np.concatenate(weights), (triangle, np.concatenate(pixels))), shape=shape
    )
