"""The finite-element map: exact identities, closed forms on the disc, an independent assembly."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import eigh

from continuous_states.eit.simulator import DtNSolver, Mesh, centroid_reader, ring_mesh

Floats = NDArray[np.float64]

SIZES = [(12, 32), (12, 64), (24, 128)]
NUM_NODES = {(12, 32): 209, (12, 64): 417, (24, 128): 1601}


def random_sigma(mesh: Mesh, num: int = 3, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).uniform(0.5, 5, (num, len(mesh.triangles)))


def eigenvalues(mesh: Mesh, sigma: Floats, modes: int) -> Floats:
    """Float64[modes]: of ``Lambda u = lambda M u`` with M the mass matrix of the boundary polygon,
    both of a mode (cosine and sine) averaged; the constant left out."""
    n = mesh.num_boundary
    one, side = np.eye(n), 2 * np.sin(np.pi / n)
    mass = side * (4 * one + np.roll(one, 1, axis=0) + np.roll(one, -1, axis=0)) / 6
    values = eigh(DtNSolver(mesh).solve(sigma[None])[0], mass, eigvals_only=True)
    return values[1 : 2 * modes + 1].reshape(modes, 2).mean(axis=1)


@pytest.mark.parametrize(("rings", "num"), [*SIZES, (2, 8), (3, 12), (4, 8), (12, 24), (5, 40)])
def test_the_mesh_fills_the_polygon_once(rings: int, num: int) -> None:
    mesh = ring_mesh(rings, num)
    a, b, c = mesh.points[mesh.triangles].transpose(1, 0, 2)
    (x0, y0), (x1, y1) = (b - a).T, (c - a).T
    areas = abs(x0 * y1 - y0 * x1) / 2
    assert areas.min() > 0.05 * np.pi / len(areas)
    assert areas.sum() == pytest.approx(num / 2 * np.sin(2 * np.pi / num), abs=1e-12)
    assert len(mesh.points) == NUM_NODES.get((rings, num), len(mesh.points))
    assert len(mesh.triangles) == 2 * len(mesh.points) - 2 - num  # Euler
    angles = 2 * np.pi * np.arange(num) / num
    boundary = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert np.allclose(mesh.points[:num], boundary, atol=1e-15)
    assert (np.linalg.norm(mesh.points[num:], axis=1) < 1 - 0.5 / rings).all()


@pytest.mark.parametrize(
    ("rings", "num", "sentence"),
    [
        (1, 32, "data.mesh_rings=1: expected a whole number, at least 2"),
        (12, 30, "data.num_boundary=30: expected a multiple of 4, at least 24 for data.mesh_r"),
        (13, 24, "data.num_boundary=24: expected a multiple of 4, at least 28 for data.mesh_rings"),
        (2, 4, "data.num_boundary=4: expected a multiple of 4, at least 8"),
    ],
)
def test_numbers_that_make_no_mesh_are_refused(rings: int, num: int, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        ring_mesh(rings, num)


@pytest.mark.parametrize(("rings", "num"), SIZES)
def test_maps_are_symmetric_and_semi_definite_with_constants_as_kernel(
    rings: int, num: int
) -> None:
    mesh = ring_mesh(rings, num)
    maps = DtNSolver(mesh).solve(random_sigma(mesh))
    assert maps.dtype == np.float64
    assert np.array_equal(maps, maps.transpose(0, 2, 1))
    assert abs(maps.sum(axis=2)).max() < 1e-12
    values = np.linalg.eigvalsh(maps)
    assert abs(values[:, 0]).max() < 1e-12
    assert values[:, 1].min() > 0.01


@pytest.mark.parametrize(
    ("rings", "num", "tolerances"),
    [
        (12, 32, (0.0016, 0.0106, 0.0288, 0.0595)),
        (12, 64, (0.0005, 0.0040, 0.0113, 0.0217)),
        (24, 128, (0.0002, 0.0011, 0.0029, 0.0060)),
    ],
)
def test_the_spectrum_of_the_disc(rings: int, num: int, tolerances: tuple[float, ...]) -> None:
    """lambda_n = n. Linear elements are too stiff, so what is found is never less."""
    mesh = ring_mesh(rings, num)
    modes = np.arange(1, 5)
    error = eigenvalues(mesh, np.ones(len(mesh.triangles)), modes=4) / modes - 1
    assert (error > 0).all()
    assert (error < tolerances).all()


@pytest.mark.parametrize(
    ("rings", "num", "tolerance", "modes"), [(12, 64, 0.012, 3), (24, 128, 0.006, 4)]
)
@pytest.mark.parametrize("inside", [5.0, 0.2])
def test_the_spectrum_of_a_centred_disc(
    rings: int, num: int, tolerance: float, modes: int, inside: float
) -> None:
    """lambda_n = n (1 + mu r^2n) / (1 - mu r^2n), mu = (s - 1) / (s + 1), for conductivity s
    within r = 1/2: a ring of both meshes."""
    mesh = ring_mesh(rings, num)
    within = np.linalg.norm(mesh.centroids, axis=1) < 0.5
    n = np.arange(1, modes + 1)
    share = (inside - 1) / (inside + 1) * 0.5 ** (2 * n)
    expected = n * (1 + share) / (1 - share)
    found = eigenvalues(mesh, np.where(within, inside, 1.0), modes)
    assert abs(found / expected - 1).max() < tolerance
    assert abs(expected / n - 1).max() > 0.25  # the disc is seen


def test_the_map_scales_with_the_conductivity_and_grows_with_it() -> None:
    mesh = ring_mesh(6, 24)
    solver, sigma = DtNSolver(mesh), random_sigma(mesh)
    maps = solver.solve(sigma)
    assert np.allclose(solver.solve(3 * sigma), 3 * maps, rtol=0, atol=1e-12)
    more = solver.solve(sigma + random_sigma(mesh, seed=1))
    assert np.linalg.eigvalsh(more - maps).min() > -1e-12


def map_by_loops(mesh: Mesh, sigma: Floats) -> Floats:
    """S triangle by triangle from the gradients of its hat functions, then all inner nodes at
    once."""
    num, n = len(mesh.points), mesh.num_boundary
    stiffness = np.zeros((num, num))
    for nodes, conductivity in zip(mesh.triangles, sigma, strict=True):
        plane = np.column_stack([np.ones(3), mesh.points[nodes]])
        gradients = np.linalg.inv(plane)[1:]  # of the function that is 1 at node i, column i
        area = abs(np.linalg.det(plane)) / 2
        for i in range(3):
            for j in range(3):
                product = gradients[:, i] @ gradients[:, j]
                stiffness[nodes[i], nodes[j]] += conductivity * area * product
    inner = np.linalg.solve(stiffness[n:, n:], stiffness[n:, :n])
    return stiffness[:n, :n] - stiffness[:n, n:] @ inner


@pytest.mark.parametrize(("rings", "num"), [(2, 8), (4, 12), (6, 24)])
def test_an_assembly_by_loops_agrees(rings: int, num: int) -> None:
    mesh = ring_mesh(rings, num)
    sigma = random_sigma(mesh)
    for ours, row in zip(DtNSolver(mesh).solve(sigma), sigma, strict=True):
        assert np.allclose(ours, map_by_loops(mesh, row), rtol=0, atol=1e-12)


def test_samples_do_not_meet() -> None:
    mesh = ring_mesh(4, 12)
    solver, sigma = DtNSolver(mesh), random_sigma(mesh, num=4)
    alone = np.concatenate([solver.solve(row[None]) for row in sigma])
    assert np.allclose(solver.solve(sigma), alone, rtol=0, atol=1e-13)
    with pytest.raises(ValueError, match=r"sigma has shape \(4, 5\); expected \(M, \d+\), a value"):
        solver.solve(sigma[:, :5])


@pytest.mark.parametrize(("rings", "num"), [(12, 32), (4, 12)])
def test_a_quarter_turn_of_the_image_shifts_the_map_by_a_quarter(rings: int, num: int) -> None:
    """Counter-clockwise, as the boundary is numbered. Smaller turns are no symmetry of the mesh."""
    mesh = ring_mesh(rings, num)
    solver, reader = DtNSolver(mesh), centroid_reader(mesh, 20)
    image = np.random.default_rng(0).uniform(1, 5, (20, 20))

    def map_of(picture: Floats) -> Floats:
        return solver.solve((reader @ picture.ravel())[None])[0]

    turned = map_of(np.rot90(image))
    shifted = np.roll(map_of(image), (num // 4, num // 4), axis=(0, 1))
    assert np.allclose(turned, shifted, rtol=0, atol=1e-12)
    assert not np.allclose(turned, map_of(image), rtol=0, atol=1e-2)


def test_an_image_is_read_where_its_pixels_are() -> None:
    """Bilinear reading is exact for a plane: x to the right, y upwards, corners at -1 and 1."""
    mesh = ring_mesh(5, 20)
    axis = np.linspace(-1, 1, 16)
    plane = 3 + 2 * axis[None, :] + 0.5 * -axis[:, None]
    x, y = mesh.centroids.T
    assert np.allclose(centroid_reader(mesh, 16) @ plane.ravel(), 3 + 2 * x + 0.5 * y)
