"""Phantoms: how many shapes, how large, where, apart from each other; their images."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import ndimage
from scipy.linalg import eigh

from continuous_states.eit.simulator import (
    GAP,
    LEVELS,
    MARGIN,
    SHAPE_KINDS,
    DtNSolver,
    Mesh,
    Shapes,
    SimulationSettings,
    centroid_reader,
    conductivity_to_levels,
    levels_to_conductivity,
    rasterise_shapes,
    ring_mesh,
    sample_shapes,
    simulate_phantoms,
)


def drawn(name: str, num: int = 300) -> list[Shapes]:
    rng = np.random.default_rng(0)
    return [sample_shapes(SHAPE_KINDS[name], rng) for _ in range(num)]


def points_along(ends: np.ndarray) -> np.ndarray:
    share = np.linspace(0, 1, 101)[:, None]
    return ends[0] * (1 - share) + ends[1] * share


@pytest.mark.parametrize(("name", "most"), [("discs", 5), ("tubes", 3)])
def test_every_number_of_shapes_and_every_level_is_as_likely(name: str, most: int) -> None:
    shapes = drawn(name)
    counts = np.bincount([len(s.levels) for s in shapes], minlength=most + 1)
    assert len(counts) == most + 1
    assert counts[0] == 0
    assert counts[1:].min() > 0.7 * 300 / most
    levels = np.bincount(np.concatenate([s.levels for s in shapes]), minlength=6)
    assert len(levels) == 6
    assert levels[0] == 0
    assert levels[1:].min() > 0.75 * levels.sum() / 5


@pytest.mark.parametrize("name", ["discs", "tubes"])
def test_shapes_stay_inside_and_apart(name: str) -> None:
    for phantom in drawn(name, 100):
        lines = [points_along(ends) for ends in phantom.ends]
        for line, radius in zip(lines, phantom.radius, strict=True):
            assert np.linalg.norm(line, axis=1).max() + radius <= 1 - MARGIN + 1e-12
        for i in range(len(lines)):
            for j in range(i):
                away = np.linalg.norm(lines[i][:, None] - lines[j], axis=-1).min()
                assert away >= phantom.radius[i] + phantom.radius[j] + GAP - 1e-12


@pytest.mark.slow
def test_sizes_span_their_ranges() -> None:
    discs, tubes = drawn("discs"), drawn("tubes")
    assert all((s.ends[:, 0] == s.ends[:, 1]).all() for s in discs)
    radius = np.concatenate([s.radius for s in discs])
    assert 0.1 <= radius.min() < 0.12
    assert 0.3 < radius.max() <= 0.35
    half_width = np.concatenate([s.radius for s in tubes])
    assert 0.08 <= half_width.min() < 0.1
    assert 0.14 < half_width.max() <= 0.15
    core = np.concatenate([np.linalg.norm(s.ends[:, 0] - s.ends[:, 1], axis=1) for s in tubes])
    length = core + 2 * half_width
    assert 0.5 <= length.min() < 0.55
    assert 1.0 < length.max() <= 1.2


def one_disc(x: float, y: float, radius: float) -> Shapes:
    ends = np.array([[[x, y], [x, y]]])
    return Shapes(ends, np.array([radius]), np.array([4]))


def test_a_disc_is_drawn_where_it_is() -> None:
    """First row on top: y = 1."""
    (image,) = rasterise_shapes([one_disc(0.5, -0.25, 0.2)], 81)
    rows, columns = np.nonzero(image == 4)
    assert columns.mean() * 2 / 80 - 1 == pytest.approx(0.5, abs=0.005)
    assert 1 - rows.mean() * 2 / 80 == pytest.approx(-0.25, abs=0.005)
    assert len(rows) * (2 / 80) ** 2 == pytest.approx(np.pi * 0.2**2, rel=0.05)
    assert set(np.unique(image)) == {0, 4}


def test_the_smallest_disc_covers_a_pixel_wherever_it_lies() -> None:
    places = np.random.default_rng(0).uniform(-0.6, 0.6, (200, 2))
    images = rasterise_shapes([one_disc(x, y, 0.1) for x, y in places], 16)
    assert (images > 0).sum(axis=(1, 2)).min() >= 1


@pytest.mark.parametrize("name", ["discs", "tubes"])
def test_an_image_holds_its_shapes(name: str) -> None:
    """At a size where the gap is a pixel and more, connected areas are the shapes."""
    phantoms = drawn(name, 10)
    for phantom, image in zip(phantoms, rasterise_shapes(phantoms, 301), strict=True):
        areas, num = ndimage.label(image > 0, structure=np.ones((3, 3)))
        assert num == len(phantom.levels)
        found = [np.unique(image[areas == k + 1]).tolist() for k in range(num)]
        assert sorted(found) == sorted([level] for level in phantom.levels.tolist())


def settings(**changes: object) -> SimulationSettings:
    values = {"num_samples": 6, "size": 16, "phantoms": "discs", "mesh_rings": 3}
    return SimulationSettings(**{**values, "num_boundary": 12, "generator_seed": 0, **changes})


def test_a_seed_decides_every_sample_whatever_the_number_size_and_mesh() -> None:
    first, longer = simulate_phantoms(settings()), simulate_phantoms(settings(num_samples=40))
    assert first.levels.dtype == np.uint8
    assert first.dtn.dtype == np.float32
    assert np.array_equal(first.levels, longer.levels[:6])
    assert np.allclose(first.dtn, longer.dtn[:6], rtol=1e-6)
    again = simulate_phantoms(settings())
    assert np.array_equal(first.levels, again.levels)
    assert np.array_equal(first.dtn, again.dtn)
    changed = simulate_phantoms(settings(generator_seed=1))
    assert (first.levels != changed.levels).any(axis=(1, 2)).all()
    coarse, fine = (simulate_phantoms(settings(size=s)).levels for s in (21, 41))
    assert np.array_equal(coarse, fine[:, ::2, ::2])
    other = simulate_phantoms(settings(size=21, mesh_rings=4, num_boundary=16))
    assert np.array_equal(coarse, other.levels)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"num_samples": 0}, "data.num_samples=0: expected a whole number, at least 1"),
        ({"size": 8}, "data.size=8: expected a whole number, at least 16"),
        ({"generator_seed": -1}, "data.generator_seed=-1: expected a whole number, at least 0"),
        ({"phantoms": "disc"}, "unknown data.phantoms 'disc'; did you mean 'discs'"),
        ({"num_boundary": 13}, "data.num_boundary=13: expected a multiple of 4"),
    ],
)
def test_settings_out_of_range_are_refused(changes: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        settings(**changes)


def test_levels_and_conductivities_are_the_same_numbers() -> None:
    assert LEVELS == (1.0, 2.0, 2.75, 3.5, 4.25, 5.0)
    ids = torch.randint(0, 6, (3, 4, 5))
    conductivity = levels_to_conductivity(ids)
    assert conductivity.dtype == torch.float32
    assert torch.equal(conductivity_to_levels(conductivity), ids)
    near = torch.tensor([-3.0, 1.4, 1.6, 2.3, 2.4, 4.7, 9.0])
    assert conductivity_to_levels(near).tolist() == [0, 0, 1, 1, 2, 5, 5]
    with pytest.raises(ValueError, match=r"ids from 0 to 6; expected 0 to 5"):
        levels_to_conductivity(torch.tensor([0, 6]))


Floats = NDArray[np.float64]


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


@pytest.mark.parametrize(("rings", "num", "nodes"), [(12, 32, 209), (24, 128, 1601), (2, 8, 13)])
def test_the_mesh_fills_the_polygon_once(rings: int, num: int, nodes: int) -> None:
    mesh = ring_mesh(rings, num)
    a, b, c = mesh.points[mesh.triangles].transpose(1, 0, 2)
    (x0, y0), (x1, y1) = (b - a).T, (c - a).T
    areas = abs(x0 * y1 - y0 * x1) / 2
    assert areas.min() > 0.05 * np.pi / len(areas)
    assert areas.sum() == pytest.approx(num / 2 * np.sin(2 * np.pi / num), abs=1e-12)
    assert len(mesh.points) == nodes
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


@pytest.mark.parametrize(
    ("rings", "num", "tolerances"),
    [
        (12, 32, (0.0016, 0.0106, 0.0288, 0.0595)),
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


@pytest.mark.parametrize("inside", [5.0, 0.2])
def test_the_spectrum_of_a_centred_disc(inside: float) -> None:
    """lambda_n = n (1 + mu r^2n) / (1 - mu r^2n), mu = (s - 1) / (s + 1), for conductivity s
    within r = 1/2, a ring of the mesh."""
    mesh, tolerance, modes = ring_mesh(12, 64), 0.012, 3
    within = np.linalg.norm(mesh.centroids, axis=1) < 0.5
    n = np.arange(1, modes + 1)
    share = (inside - 1) / (inside + 1) * 0.5 ** (2 * n)
    expected = n * (1 + share) / (1 - share)
    found = eigenvalues(mesh, np.where(within, inside, 1.0), modes)
    assert abs(found / expected - 1).max() < tolerance
    assert abs(expected / n - 1).max() > 0.25  # the disc is seen


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


@pytest.mark.parametrize(("rings", "num"), [(2, 8), (6, 24)])
def test_an_assembly_by_loops_agrees(rings: int, num: int) -> None:
    mesh = ring_mesh(rings, num)
    solver, sigma = DtNSolver(mesh), random_sigma(mesh)
    maps = solver.solve(sigma)
    assert maps.dtype == np.float64
    assert np.array_equal(maps, maps.transpose(0, 2, 1))
    for ours, row in zip(maps, sigma, strict=True):
        assert np.allclose(ours, map_by_loops(mesh, row), rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match=r"sigma has shape \(3, 5\); expected \(M, \d+\), a value"):
        solver.solve(sigma[:, :5])


def test_a_quarter_turn_of_the_image_shifts_the_map_by_a_quarter() -> None:
    """Counter-clockwise, as the boundary is numbered."""
    num = 12
    mesh = ring_mesh(4, num)
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
