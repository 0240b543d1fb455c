"""Phantoms and their Dirichlet-to-Neumann maps, simulated from a seed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from einops import rearrange
from numpy.typing import NDArray
from scipy import sparse

from continuous_states.eit.dtn_map import DtNSolver
from continuous_states.eit.levels import LEVELS
from continuous_states.eit.mesh import Mesh, check_mesh_size, ring_mesh
from continuous_states.eit.phantoms import SHAPE_KINDS, rasterise, sample_shapes
from discrete_diffusion.config import check_whole_number, unknown_name
from discrete_diffusion.data import cache_dir, cached_arrays

Maps = NDArray[np.float32]

SIMULATOR_VERSION = 1
"""To be raised whenever the same seed gives other samples: cached files carry it in their name."""

SMALLEST_SIZE = 16
"""Images on which the smallest disc still covers a pixel or more, wherever it lies."""

NODES_WORTH_CACHING = 100_000
"""Boundary nodes of all maps: 2 seconds of simulation at 32 a map, 4 at 128."""

_BLOCK_SIZE = 32
_PHANTOM_STREAM = 0


@dataclass(frozen=True)
class SimulationSettings:
    """Settings of phantoms and maps. Raises ``ValueError`` for a value out of range."""

    num_samples: int
    size: int
    phantoms: str
    mesh_rings: int
    num_boundary: int
    phantom_seed: int

    def __post_init__(self) -> None:
        check_whole_number("data.num_samples", self.num_samples, least=1)
        check_whole_number("data.size", self.size, least=SMALLEST_SIZE)
        check_whole_number("data.phantom_seed", self.phantom_seed, least=0)
        check_mesh_size(self.mesh_rings, self.num_boundary)
        if self.phantoms not in SHAPE_KINDS:
            raise ValueError(unknown_name("data.phantoms", self.phantoms, SHAPE_KINDS))


@dataclass(frozen=True)
class SimulatedPhantoms:
    """M phantoms. ``levels``: UInt8[M, H, W] ids 0..5. ``dtn``: Float32[M, n, n] their maps."""

    levels: NDArray[np.uint8]
    dtn: Maps


def simulate_phantoms(settings: SimulationSettings) -> SimulatedPhantoms:
    """``settings.num_samples`` phantoms with their maps; more of one seed begin with the same.

    The map of a phantom is that of the conductivity at the centroids of the triangles, read off
    the image by bilinear interpolation.
    """
    s, kind = settings, SHAPE_KINDS[settings.phantoms]
    mesh = ring_mesh(s.mesh_rings, s.num_boundary)
    solver, reader = DtNSolver(mesh), centroid_reader(mesh, s.size)
    levels = np.zeros((s.num_samples, s.size, s.size), np.uint8)
    dtn = np.zeros((s.num_samples, s.num_boundary, s.num_boundary), np.float32)
    for first in range(0, s.num_samples, _BLOCK_SIZE):
        block = range(first, min(first + _BLOCK_SIZE, s.num_samples))
        streams = (np.random.default_rng([s.phantom_seed, _PHANTOM_STREAM, k]) for k in block)
        drawn = [sample_shapes(kind, rng) for rng in streams]
        levels[block.start : block.stop] = images = rasterise(drawn, s.size)
        pixels = rearrange(np.asarray(LEVELS)[images], "m h w -> (h w) m")
        dtn[block.start : block.stop] = solver.solve((reader @ pixels).T)
    return SimulatedPhantoms(levels, dtn)


def cache_file(settings: SimulationSettings) -> Path:
    """File in which ``cached_phantoms(settings)`` keeps its phantoms."""
    s = settings
    sizes = f"{s.phantoms}-m{s.num_samples}-p{s.size}-r{s.mesh_rings}-n{s.num_boundary}"
    return cache_dir() / f"eit-v{SIMULATOR_VERSION}-{sizes}-s{s.phantom_seed}.npz"


def cached_phantoms(settings: SimulationSettings) -> SimulatedPhantoms:
    """``simulate_phantoms(settings)``, kept in the cache where simulating takes long.

    A cache that cannot be read or written is logged and does no harm.
    """
    if settings.num_samples * settings.num_boundary < NODES_WORTH_CACHING:
        return simulate_phantoms(settings)
    s = settings
    expected = {
        "levels": (np.uint8, (s.num_samples, s.size, s.size)),
        "dtn": (np.float32, (s.num_samples, s.num_boundary, s.num_boundary)),
    }
    arrays = cached_arrays(
        cache_file(s),
        "phantoms",
        expected,
        lambda: vars(simulate_phantoms(s)),
        compressed=False,  # maps hardly shrink, and it takes longer than reading more
    )
    return SimulatedPhantoms(**arrays)


def background_map(mesh_rings: int, num_boundary: int) -> NDArray[np.float64]:
    """Float64[n, n]: the map of conductivity 1."""
    solver = DtNSolver(ring_mesh(mesh_rings, num_boundary))
    return solver.solve(np.ones((1, solver.num_triangles)))[0]


def centroid_reader(mesh: Mesh, size: int) -> sparse.csr_matrix:
    """(T, H W): weights that read an image at the centroids, bilinear between pixel centres."""
    x, y = mesh.centroids.T
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
