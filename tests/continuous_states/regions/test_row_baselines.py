"""Baselines of hidden rows: against loops, against known relations, against the best possible."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from continuous_states.regions import row_scores as row_baselines
from continuous_states.regions.row_scores import (
    ColumnMean,
    MaskedWindows,
    NeighbourMean,
    ProgrammeMean,
    RowBaseline,
    column_scale,
)
from discrete_diffusion.categorical import make_generator

W, N, M = 6, 11, 3


def windows(seed: int = 0, num: int = W) -> MaskedWindows:
    """Random rows and masks; window 0 is shorter, all of window 1 is masked."""
    generator = make_generator(seed)
    real = torch.ones(num, N, dtype=torch.bool)
    real[0, -3:] = False
    masked = (torch.rand(num, N, generator=generator) < 0.5) & real
    masked[1] = True
    rows = torch.randn(num, N, M, generator=generator) + 2
    return MaskedWindows(torch.where(real.unsqueeze(-1), rows, 0.0), masked, real)


def of_programmes(windows: MaskedWindows, programmes: Tensor) -> MaskedWindows:
    return replace(windows, programmes=torch.where(windows.real, programmes, -1))


def fitted(train: MaskedWindows, radius: int | None = 8) -> list[RowBaseline]:
    """Every baseline; the oracle if the windows have programmes."""
    column = ColumnMean.fit(train)
    near = [NeighbourMean.fit(train, column.mean, each) for each in (radius, None)]
    oracle = [] if train.programmes is None else [ProgrammeMean.fit(train, column.mean)]
    return [column, *near, *oracle]


def neighbours(data: MaskedWindows, w: int, n: int, radius: int) -> list[Tensor]:
    return [
        data.rows[w, k].double()
        for k in range(N)
        if abs(k - n) <= radius and data.real[w, k] and not data.masked[w, k]
    ]


@pytest.mark.parametrize("radius", [1, 3, None])
def test_neighbour_means_agree_with_loops(radius):
    train, held_out = windows(1), windows(2)
    reach = N if radius is None else radius
    mean = train.rows[train.real].double().mean(dim=0)
    near_mean = NeighbourMean.fit(train, mean, radius)
    products, squares = torch.zeros(M).double(), torch.zeros(M).double()
    for w, n in train.masked.nonzero().tolist():
        if near := neighbours(train, w, n, reach):
            offset = torch.stack(near).mean(dim=0) - mean
            products += offset * (train.rows[w, n] - mean)
            squares += offset**2
    assert torch.allclose(near_mean.slope, products / squares, atol=1e-12)
    predicted = near_mean.predict(held_out)
    for w, n in held_out.masked.nonzero().tolist():
        near = neighbours(held_out, w, n, reach)
        guess = mean + near_mean.slope * (torch.stack(near).mean(dim=0) - mean) if near else mean
        assert torch.allclose(predicted[w, n].double(), guess, atol=1e-6)


def test_every_baseline_leaves_observed_rows_and_sees_no_masked_one():
    held_out = of_programmes(windows(2), torch.arange(N) % 2)
    answer = torch.where(held_out.masked.unsqueeze(-1), torch.nan, held_out.rows)
    for baseline in fitted(of_programmes(windows(1), torch.arange(N) % 2)):
        plain, blind = (
            baseline.predict(replace(held_out, rows=rows)) for rows in (held_out.rows, answer)
        )
        assert plain.dtype == torch.float32
        assert torch.equal(plain, blind)
        assert torch.equal(plain[~held_out.masked], held_out.rows[~held_out.masked])
        assert not torch.equal(plain, held_out.rows)


def test_means_and_small_deviations_are_those_of_real_rows():
    train = windows(1)
    rows = train.rows.double() + 1e8
    rows[..., 2] = 0.1
    train = replace(train, rows=rows)
    expected = rows[train.real].std(dim=0, correction=0)
    mean = ColumnMean.fit(train).mean
    assert torch.allclose(mean, rows[train.real].mean(dim=0))
    assert torch.allclose(column_scale(train, mean), expected, rtol=1e-7, atol=1e-15)
    with pytest.raises(ValueError, match="no real row"):
        ColumnMean.fit(replace(train, real=train.real & False))


def test_windows_are_worked_on_in_chunks_whose_size_changes_nothing(monkeypatch):
    train, held_out = (
        of_programmes(windows(seed, num), torch.arange(N) % 3) for seed, num in ((1, 37), (2, 35))
    )
    train.real[16:32] = False  # a chunk without a row

    def everything(size: int) -> list[Tensor]:
        monkeypatch.setattr(row_baselines, "CHUNK", size)
        baselines = fitted(train, radius=2)
        column, near, window, programme = baselines
        scale = column_scale(train, column.mean)
        predicted = [each.predict(held_out).double() for each in baselines]
        return [column.mean, scale, near.slope, window.slope, programme.means, *predicted]

    one, at_once, many = everything(1), everything(100), everything(16)
    for first, *others in zip(one, at_once, many, strict=True):
        for other in others:
            assert torch.allclose(first, other, rtol=1e-12, atol=1e-6 if first.ndim == 3 else 1e-12)


def test_programmes_that_training_does_not_have_get_the_column_mean():
    train = of_programmes(windows(1), torch.tensor([0, 2]).repeat(N)[:N])
    held_out = windows(2)
    mean = ColumnMean.fit(train).mean
    oracle = ProgrammeMean.fit(train, mean)
    expected = train.rows[train.programmes == 2].double().mean(dim=0)
    assert torch.allclose(oracle.means[2], expected)
    for unknown in (1, 3, -1):
        predicted = oracle.predict(replace(held_out, programmes=torch.full((W, N), unknown)))
        assert torch.allclose(predicted[held_out.masked], mean.float())
