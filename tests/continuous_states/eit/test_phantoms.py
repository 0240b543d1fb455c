"""Phantoms: how many shapes, how large, where, apart from each other; their images."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import ndimage

from continuous_states.eit.simulator import (
    GAP,
    LEVELS,
    MARGIN,
    SHAPE_KINDS,
    Shapes,
    SimulationSettings,
    conductivity_to_levels,
    levels_to_conductivity,
    rasterise,
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
    (image,) = rasterise([one_disc(0.5, -0.25, 0.2)], 81)
    rows, columns = np.nonzero(image == 4)
    assert columns.mean() * 2 / 80 - 1 == pytest.approx(0.5, abs=0.005)
    assert 1 - rows.mean() * 2 / 80 == pytest.approx(-0.25, abs=0.005)
    assert len(rows) * (2 / 80) ** 2 == pytest.approx(np.pi * 0.2**2, rel=0.05)
    assert set(np.unique(image)) == {0, 4}


@pytest.mark.parametrize("size", [16, 32])
def test_the_smallest_disc_covers_pixels_wherever_it_lies(size: int) -> None:
    places = np.random.default_rng(0).uniform(-0.6, 0.6, (200, 2))
    images = rasterise([one_disc(x, y, 0.1) for x, y in places], size)
    assert (images > 0).sum(axis=(1, 2)).min() >= (1 if size == 16 else 4)


@pytest.mark.parametrize("name", ["discs", "tubes"])
def test_an_image_holds_its_shapes(name: str) -> None:
    """At a size where the gap is a pixel and more, connected areas are the shapes."""
    phantoms = drawn(name, 10)
    for phantom, image in zip(phantoms, rasterise(phantoms, 301), strict=True):
        areas, num = ndimage.label(image > 0, structure=np.ones((3, 3)))
        assert num == len(phantom.levels)
        found = [np.unique(image[areas == k + 1]).tolist() for k in range(num)]
        assert sorted(found) == sorted([level] for level in phantom.levels.tolist())


def settings(**changes: object) -> SimulationSettings:
    values = {"num_samples": 6, "size": 16, "phantoms": "discs", "mesh_rings": 3}
    return SimulationSettings(**{**values, "num_boundary": 12, "phantom_seed": 0, **changes})


def test_a_seed_decides_every_sample_by_itself() -> None:
    first, longer = simulate_phantoms(settings()), simulate_phantoms(settings(num_samples=40))
    assert first.levels.dtype == np.uint8
    assert first.dtn.dtype == np.float32
    assert np.array_equal(first.levels, longer.levels[:6])
    assert np.allclose(first.dtn, longer.dtn[:6], rtol=1e-6)
    again = simulate_phantoms(settings())
    assert np.array_equal(first.levels, again.levels)
    assert np.array_equal(first.dtn, again.dtn)
    for other in (settings(phantom_seed=1), settings(phantoms="tubes")):
        changed = simulate_phantoms(other)
        assert (first.levels != changed.levels).any(axis=(1, 2)).all()
        assert (abs(first.dtn - changed.dtn).max(axis=(1, 2)) > 1e-3).all()


def test_size_and_mesh_leave_the_phantoms_as_they_are() -> None:
    coarse, fine = (simulate_phantoms(settings(size=s)).levels for s in (21, 41))
    assert np.array_equal(coarse, fine[:, ::2, ::2])
    other = simulate_phantoms(settings(size=21, mesh_rings=4, num_boundary=16))
    assert np.array_equal(coarse, other.levels)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"num_samples": 0}, "data.num_samples=0: expected a whole number, at least 1"),
        ({"size": 8}, "data.size=8: expected a whole number, at least 16"),
        ({"phantom_seed": -1}, "data.phantom_seed=-1: expected a whole number, at least 0"),
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
