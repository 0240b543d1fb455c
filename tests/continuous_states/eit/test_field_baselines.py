"""Baselines of images: against numpy's least squares, and where they are exact."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from continuous_states.eit.image_scores import Ridge, SameImage, mean_image, upper_triangle
from discrete_diffusion.categorical import make_generator

N, ENTRIES, SHAPE = 4, 10, (1, 2, 3)


def symmetric(num: int, seed: int) -> Tensor:
    root = torch.randn(num, N, N, generator=make_generator(seed), dtype=torch.float64)
    return root + root.transpose(1, 2) + 7


def linear_images(maps: Tensor, noise: float = 0.0) -> Tensor:
    """Images whose pixels are linear in the upper triangle, plus noise."""
    weights = torch.randn(ENTRIES, 6, generator=make_generator(9), dtype=torch.float64)
    pixels = 3 + upper_triangle(maps) @ weights
    pixels += noise * torch.randn(pixels.shape, generator=make_generator(len(maps))).double()
    return pixels.reshape(-1, *SHAPE)


def closed_form(maps: Tensor, images: Tensor, asked: Tensor, penalty: float) -> np.ndarray:
    """Least squares of the augmented system [Z; sqrt(penalty M) I] W = [X; 0], by numpy."""
    at = np.triu_indices(N)
    z, new = (each.numpy()[:, at[0], at[1]] for each in (maps, asked))
    mean, scale = z.mean(axis=0), z.std(axis=0)
    x = images.numpy().reshape(len(images), -1)
    left = np.concatenate([(z - mean) / scale, np.sqrt(penalty * len(z)) * np.eye(ENTRIES)])
    right = np.concatenate([x - x.mean(axis=0), np.zeros((ENTRIES, 6))])
    weights = np.linalg.lstsq(left, right, rcond=None)[0]
    return ((new - mean) / scale @ weights + x.mean(axis=0)).reshape(-1, *SHAPE)


@pytest.mark.parametrize(
    ("num", "penalty"), [(6, 0.3), (40, 1e-4)], ids=["fewer samples than entries", "more"]
)
def test_ridge_agrees_with_least_squares_of_numpy(num, penalty):
    maps, asked = symmetric(num, 1), symmetric(7, 3)
    images = linear_images(maps, noise=2.0)
    fitted = Ridge.fit(maps, images, penalties=(penalty,))
    predicted = fitted.predict(asked)
    assert predicted.dtype == torch.float32
    expected = closed_form(maps, images, asked, penalty)
    assert predicted.numpy() == pytest.approx(expected, rel=1e-4, abs=1e-4)


def error_left_out(maps: Tensor, images: Tensor, penalty: float) -> float:
    """Fitted anew without each image, entries standardised by all; by numpy."""
    z = upper_triangle(maps)
    z = ((z - z.mean(dim=0)) / z.std(dim=0, correction=0)).numpy()
    x, num = images.flatten(1).numpy(), len(images)
    total = 0.0
    for k in range(num):
        rest = np.arange(num) != k
        mean_z, mean_x = z[rest].mean(axis=0), x[rest].mean(axis=0)
        left, right = z[rest] - mean_z, x[rest] - mean_x
        matrix = left.T @ left + num * penalty * np.eye(ENTRIES)
        weights = np.linalg.solve(matrix, left.T @ right)
        total += ((x[k] - mean_x - (z[k] - mean_z) @ weights) ** 2).sum()
    return total


@pytest.mark.parametrize(("num", "noise"), [(6, 0.1), (12, 15.0), (40, 15.0)])
def test_the_penalty_is_the_best_for_images_left_out(num, noise):
    maps = symmetric(num, 1)
    images = linear_images(maps, noise)
    penalties = [0.01 * 1.5**k for k in range(20)]
    errors = {p: error_left_out(maps, images, p) for p in penalties}
    best = min(errors, key=errors.get)
    for order in (penalties, penalties[::-1]):
        assert Ridge.fit(maps, images, penalties=order).penalty == best
    if noise > 1 and num == 12:  # the smallest fits the noise, the largest nothing
        assert penalties[0] < best < penalties[-1]


def test_the_units_of_entries_and_constant_ones_do_not_matter():
    maps, asked = symmetric(40, 1), symmetric(7, 3)
    images = linear_images(maps, 1.0)
    units = torch.linspace(0.1, 9, N * N).reshape(N, N).double()
    plain, scaled = (
        Ridge.fit(u * maps, images).predict(u * asked) for u in (torch.ones_like(units), units)
    )
    assert torch.allclose(plain, scaled, atol=1e-3)

    maps[:, 0, 1] = 0.1  # constant in training
    fitted = Ridge.fit(maps, images)
    one, two = (asked.clone() for _ in range(2))
    one[:, 0, 1], two[:, 0, 1] = 0.1, 5.0
    assert torch.equal(fitted.predict(one), fitted.predict(two))
    assert fitted.predict(two).isfinite().all()


def test_the_mean_image_does_not_read_the_map():
    images, maps = linear_images(symmetric(5, 1)), symmetric(3, 2)
    mean = SameImage(mean_image(images)).predict(maps)
    assert mean.dtype == torch.float32
    assert torch.allclose(mean.double(), images.mean(dim=0).expand(3, *SHAPE), atol=1e-5)
    one = Ridge.fit(symmetric(1, 1), images[:1])  # is its own mean
    assert torch.allclose(one.predict(maps).double(), images[:1].expand(3, *SHAPE))


def test_nothing_to_fit_to_is_refused():
    maps, images = symmetric(5, 1), linear_images(symmetric(5, 1))
    for fit in (lambda: mean_image(images[:0]), lambda: Ridge.fit(maps[:0], images[:0])):
        with pytest.raises(ValueError, match="at least one image"):
            fit()
