"""A permutation that no memory holds."""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.data.batches import Permutation


@pytest.mark.parametrize("num", [1, 2, 3, 4, 5, 63, 64, 65, 1000, 4097])
def test_everything_comes_once(num):
    found = Permutation(num, 3, 1)(torch.arange(num))
    assert found.sort().values.tolist() == list(range(num))


def test_it_is_a_function_of_its_seeds_and_works_place_by_place():
    places = torch.arange(1000)
    found = Permutation(1000, 5, 2)(places)
    assert torch.equal(found, Permutation(1000, 5, 2)(places))
    assert torch.equal(found[100:103], Permutation(1000, 5, 2)(places[100:103]))
    assert not torch.equal(found, Permutation(1000, 5, 3)(places))


def test_far_places_of_a_large_one():
    num = 10**12 + 39
    found = Permutation(num, 0)(torch.tensor([0, 1, num - 1]))
    assert len(found.unique()) == 3
    assert 0 <= int(found.min()) <= int(found.max()) < num


@pytest.mark.slow
def test_it_shuffles():
    """Of 400 seeds each of 8 places gets each of 8 values about 50 times, and neighbours part."""
    table = torch.stack([Permutation(8, seed)(torch.arange(8)) for seed in range(400)])
    counts = torch.stack([table[:, k].bincount(minlength=8) for k in range(8)]).double()
    chi_square = ((counts - 50).square() / 50).sum()
    assert chi_square < 49 + 5 * (2 * 49) ** 0.5
    beside = (table[:, 1:] - table[:, :-1] == 1).double().mean()
    assert abs(float(beside) - 1 / 8) < 5 * (1 / 8 * 7 / 8 / 2800) ** 0.5
