"""Baselines of hidden rows: against loops, against known relations, against the best possible."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.domains.regions import baselines as row_baselines
from discrete_diffusion.domains.regions.baselines import (
    ColumnMean,
    MaskedWindows,
    NeighbourMean,
    ProgrammeMean,
    WindowMean,
    column_scale,
)

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
    fitted = NeighbourMean.fit(train.rows, train.real, train.masked, radius=radius)
    mean = train.rows[train.real].double().mean(dim=0)
    products, squares = torch.zeros(M).double(), torch.zeros(M).double()
    for w, n in train.masked.nonzero().tolist():
        if near := neighbours(train, w, n, reach):
            offset = torch.stack(near).mean(dim=0) - mean
            products += offset * (train.rows[w, n] - mean)
            squares += offset**2
    assert torch.allclose(fitted.slope, products / squares, atol=1e-12)
    predicted = fitted.predict(held_out)
    for w, n in held_out.masked.nonzero().tolist():
        near = neighbours(held_out, w, n, reach)
        guess = mean + fitted.slope * (torch.stack(near).mean(dim=0) - mean) if near else mean
        assert torch.allclose(predicted[w, n].double(), guess, atol=1e-6)
    if radius is None:
        whole = WindowMean.fit(train.rows, train.real, train.masked)
        assert isinstance(whole, WindowMean)
        assert torch.equal(whole.predict(held_out), predicted)


def test_every_baseline_leaves_observed_rows_and_sees_no_masked_one():
    train, held_out = windows(1), windows(2)
    of = torch.where(held_out.real, torch.arange(N) % 2, -1)
    answer = torch.where(held_out.masked.unsqueeze(-1), torch.nan, held_out.rows)
    for baseline in (
        ColumnMean.fit(train.rows, train.real),
        NeighbourMean.fit(train.rows, train.real, train.masked),
        WindowMean.fit(train.rows, train.real, train.masked),
        ProgrammeMean.fit(train.rows, train.real, of),
    ):
        plain, blind = (
            baseline.predict(MaskedWindows(rows, held_out.masked, held_out.real, of))
            for rows in (held_out.rows, answer)
        )
        assert plain.dtype == torch.float32
        assert torch.equal(plain, blind)
        assert torch.equal(plain[~held_out.masked], held_out.rows[~held_out.masked])
        assert not torch.equal(plain, held_out.rows)


def test_column_mean_is_that_of_real_rows():
    train = windows(1)
    mean = ColumnMean.fit(train.rows, train.real).mean
    assert torch.allclose(mean, train.rows[train.real].double().mean(dim=0))
    assert not torch.allclose(mean, train.rows.double().mean(dim=(0, 1)))
    with pytest.raises(ValueError, match="no real row"):
        ColumnMean.fit(train.rows, train.real & False)


def test_deviations_are_those_of_real_rows():
    """At a mean that is large beside them, too: of squares that are summed none would be left."""
    train = windows(1)
    rows = train.rows.double() + 1e8
    rows[..., 2] = 0.1
    mean = ColumnMean.fit(rows, train.real).mean
    expected = rows[train.real].std(dim=0, correction=0)
    assert torch.allclose(column_scale(rows, train.real, mean), expected, rtol=1e-7, atol=1e-15)


def test_windows_are_worked_on_in_chunks_whose_size_changes_nothing(monkeypatch):
    train, held_out = windows(1, num=37), windows(2, num=35)
    of, asked = (torch.where(x.real, torch.arange(N) % 3, -1) for x in (train, held_out))
    train.real[16:32] = False  # a chunk without a row

    def everything(size: int) -> list[Tensor]:
        monkeypatch.setattr(row_baselines, "CHUNK", size)
        column = ColumnMean.fit(train.rows, train.real)
        near = NeighbourMean.fit(train.rows, train.real, train.masked, radius=2)
        window = WindowMean.fit(train.rows, train.real, train.masked, mean=column.mean)
        programme = ProgrammeMean.fit(train.rows, train.real, of, mean=column.mean)
        given = MaskedWindows(held_out.rows, held_out.masked, held_out.real, asked)
        predicted = [each.predict(given).double() for each in (column, near, window, programme)]
        scale = column_scale(train.rows, train.real, column.mean)
        return [column.mean, scale, near.slope, window.slope, programme.means, *predicted]

    one, at_once, many = everything(1), everything(100), everything(16)
    for first, *others in zip(one, at_once, many, strict=True):
        for other in others:
            assert torch.allclose(first, other, rtol=1e-12, atol=1e-6 if first.ndim == 3 else 1e-12)


def test_a_mean_that_is_handed_on_is_not_taken_again():
    train, given = windows(1), torch.arange(M).double()
    of = torch.zeros_like(train.real).long()
    for fitted in (
        NeighbourMean.fit(train.rows, train.real, train.masked, mean=given),
        WindowMean.fit(train.rows, train.real, train.masked, mean=given),
        ProgrammeMean.fit(train.rows, train.real, of, mean=given),
    ):
        assert fitted.mean is given


def test_the_slope_of_a_linear_relation_is_recovered():
    """x = mu + b (n - mu) exactly, for the one masked row of each window; the observed rows are the
    window's mean in every row. A column without spread has slope 0."""
    slope = torch.tensor([0.5, -2.0, 1.0]).double()
    level = torch.randn(40, 1, M, generator=make_generator(4)).double()
    level = (level - level.mean(dim=0)) * torch.tensor([1.0, 1.0, 0.0])
    rows = 3 + level.repeat(1, N, 1)
    masked = torch.zeros(40, N, dtype=torch.bool)
    masked[:, 5] = True
    rows[:, 5] = 3 + slope * level[:, 0]
    fitted = NeighbourMean.fit(rows, torch.ones_like(masked), masked, radius=2)
    assert fitted.mean.tolist() == pytest.approx([3.0] * M)
    assert fitted.slope.tolist() == pytest.approx([0.5, -2.0, 0.0])
    predicted = fitted.predict(MaskedWindows(rows, masked, torch.ones_like(masked)))
    assert torch.allclose(predicted, rows)
    with pytest.raises(ValueError, match="radius=0: expected at least 1"):
        NeighbourMean.fit(rows, masked, masked, radius=0)


def simulated(seed: int, num: int = 300) -> MaskedWindows:
    """Domains of four rows share one of three programmes; noise of variance 1."""
    generator = make_generator(seed)
    means = 3 * torch.eye(3) + 1
    of = torch.randint(3, (num, 3), generator=generator).repeat_interleave(4, dim=1)
    rows = means[of] + torch.randn(num, 12, 3, generator=generator)
    masked = torch.rand(num, 12, generator=generator) < 0.5
    return MaskedWindows(rows, masked, torch.ones_like(masked), of)


def test_nothing_beats_the_oracle_on_rows_of_programmes():
    train, held_out = simulated(1), simulated(2)

    def error(baseline) -> float:
        off = (baseline.predict(held_out) - held_out.rows)[held_out.masked]
        return float(off.square().mean())

    errors = [
        error(ProgrammeMean.fit(train.rows, train.real, train.programmes)),
        error(NeighbourMean.fit(train.rows, train.real, train.masked, radius=3)),
        error(WindowMean.fit(train.rows, train.real, train.masked)),
        error(ColumnMean.fit(train.rows, train.real)),
    ]
    assert errors == sorted(errors)
    assert errors[0] == pytest.approx(1.0, abs=0.05)  # the noise
    assert errors[3] == pytest.approx(3.0, abs=0.1)  # and the programmes' variance, 3^2 * 2/9


def test_programmes_that_training_does_not_have_get_the_column_mean():
    train, held_out = windows(1), windows(2)
    of = torch.where(train.real, torch.tensor([0, 2]).repeat(N)[:N], -1)
    fitted = ProgrammeMean.fit(train.rows, train.real, of)
    assert torch.allclose(fitted.means[2], train.rows[of == 2].double().mean(dim=0))
    mean = train.rows[train.real].double().mean(dim=0).float()
    for unknown in (1, 3, -1):
        asked = torch.full((W, N), unknown)
        predicted = fitted.predict(
            MaskedWindows(held_out.rows, held_out.masked, held_out.real, asked)
        )
        assert torch.allclose(predicted[held_out.masked], mean)
    with pytest.raises(ValueError, match="without programmes"):
        fitted.predict(held_out)
