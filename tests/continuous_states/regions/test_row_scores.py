"""Model, sampler and baselines on hidden rows: numbers that are known, files that can be read."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from toy_regions import ChainModel, SpreadSampler, changed, toy_regions

from continuous_states.regions.row_report import RowReport
from continuous_states.regions.row_scores import (
    FillingScores,
    RowScores,
    fill_held_out,
    fit_baselines,
    score_rows,
)
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.data import Examples
from discrete_diffusion.sampling import Model

DATA = toy_regions()
BASELINES = ("column_mean", "neighbour_mean", "window_mean", "oracle")


def filled(data=DATA, sampler=None, algorithm=None, rate=0.5, **options):
    model = Model(algorithm or ChainModel(), sampler, batch_size=options.pop("batch_size", 8))
    options = {"num": None, "seed": 1} | options
    return fill_held_out(model, data, "val", mask_rate=rate, **options)


def scored(filling, data=DATA, rate=0.5, seed=0) -> FillingScores:
    """By a report of its own, whose baselines are fitted at the rate of the filling."""
    return RowReport(data, "val", rate, seed).scores(filling)


def test_the_oracle_is_above_all_others_on_rows_of_programmes():
    data = toy_regions(24)
    scores = scored(filled(data), data)
    assert list(scores.by_name) == ["model", *BASELINES]
    found = scores.scores()
    for name in BASELINES[:3]:
        assert found["oracle_per_motif_r"] > found[f"{name}_per_motif_r"]
        assert found["oracle_per_motif_r2"] > found[f"{name}_per_motif_r2"]
    assert found["column_mean_per_motif_r"] == 0.0
    assert found["column_mean_per_motif_r2"] == pytest.approx(0.0, abs=1e-6)


def test_numbers_have_flat_names():
    filling = filled(sampler=SpreadSampler())
    numbers = scored(filling).as_dict()
    expected = {
        f"{who}{what}"
        for who in ("", "filled_", *(f"{name}_" for name in BASELINES))
        for what in ("per_motif_r", "per_motif_r2", "masked_mse")
    }
    counts = {"num_windows", "num_masked_rows", "num_columns", "dropped_columns", "mask_rate"}
    assert set(numbers) == expected | counts
    assert numbers["num_masked_rows"] == int(filling.masked.sum())
    assert (numbers["num_columns"], numbers["dropped_columns"]) == (5, 1)
    assert (numbers["num_windows"], numbers["mask_rate"]) == (12, 0.5)
    assert numbers["filled_masked_mse"] > numbers["masked_mse"]
    expected = {n for n in numbers if not n.startswith(("filled_", "oracle_"))}
    assert set(scored(filled(), changed(DATA, programmes=None)).as_dict()) == expected
    assert set(fit_baselines(DATA, 0.5).measure(filled()).as_dict()) == expected


def test_baselines_are_fitted_on_the_training_split_alone():
    fitted = fit_baselines(DATA, 0.5)
    others = {
        name: e if name == "train" else Examples(e.x0 + 1, e.real)
        for name, e in DATA.splits.items()
    }
    again = fit_baselines(changed(DATA, splits=others), 0.5)
    assert torch.equal(fitted.mean, again.mean)
    for name in ("neighbour_mean", "window_mean"):
        assert torch.equal(fitted.by_name[name].slope, again.by_name[name].slope)
    rows = DATA.splits["train"].x0[DATA.splits["train"].real].double()
    assert torch.allclose(fitted.scale, rows.std(dim=0, correction=0))


def test_scores_by_mask_rate_are_those_of_each_rate():
    """Though the report is of another rate."""
    rates, model = (0.2, 0.5, 0.8), Model(ChainModel(), None, batch_size=8)
    found = RowReport(DATA, "val", 0.4, seed=1).scores_by_mask_rate(model, None, rates)
    for rate, scores in zip(rates, found, strict=True):
        assert list(scores.by_name) == ["model", "neighbour_mean", "oracle"]
        alone = scored(filled(rate=rate), rate=rate, seed=1).as_dict()
        record = scores.as_dict()
        assert len(record) == 9 + 5
        assert record == {name: alone[name] for name in record}
    report = RowReport(changed(DATA, programmes=None))
    (without,) = report.scores_by_mask_rate(model, None, (0.5,))
    assert list(without.by_name) == ["model", "neighbour_mean"]


def test_a_report_scores_baselines_anew_where_the_masks_are_others():
    report = RowReport(DATA, "val", 0.5, seed=3)
    first, few = filled(), filled(num=5)
    other_model = filled(algorithm=ChainModel(0.2), sampler=SpreadSampler())
    other_masks = filled(seed=2)
    assert torch.equal(first.masked, other_model.masked)
    for filling in (first, other_model, other_masks, few, few, first):
        assert report.measure(filling) == scored(filling, seed=3).as_dict()


@pytest.mark.slow
def test_a_report_without_a_sampler_or_without_windows(tmp_path):
    report = RowReport(DATA, "val", 0.5)
    filling = filled(num=2)
    report.save(filling, tmp_path)
    with np.load(tmp_path / "samples.npz", allow_pickle=False) as saved:
        assert "filled" not in saved
    nothing = replace(
        filling,
        truth=filling.truth[:0],
        real=filling.real[:0],
        masked=filling.masked[:0],
        predicted=filling.predicted[:0],
    )
    assert report.measure(nothing) == {}
    report.save(nothing, tmp_path / "none")
    report.plot(nothing, tmp_path / "none.png")
    assert not (tmp_path / "none").exists()
    assert not (tmp_path / "none.png").exists()


W, N, M = 5, 9, 4
G = make_generator(1)
TRUTH = torch.randn(W, N, M, generator=G)
PREDICTED = TRUTH + torch.randn(W, N, M, generator=G)
MASKED = torch.rand(W, N, generator=G) < 0.5
MEAN, SCALE = torch.tensor([0.1, -0.2, 0.3, 0.0]), torch.tensor([1.0, 2.0, 0.5, 1.0])


def by_column(predicted, truth=TRUTH, masked=MASKED, mean=MEAN) -> RowScores:
    """Errors in the units of the data."""
    scale = torch.ones(truth.shape[-1])
    return score_rows(predicted, truth, masked, column_mean=mean, column_scale=scale)


def test_columns_agree_with_numpy_and_a_loop():
    scores = score_rows(PREDICTED, TRUTH, MASKED, column_mean=MEAN, column_scale=SCALE)
    for m in range(M):
        pairs = [
            (float(TRUTH[w, n, m]), float(PREDICTED[w, n, m]))
            for w in range(W)
            for n in range(N)
            if MASKED[w, n]
        ]
        x, y = (np.array(side) for side in zip(*pairs, strict=True))
        residual = sum((a - b) ** 2 for a, b in pairs)
        spread = sum((a - float(MEAN[m])) ** 2 for a, _ in pairs)
        assert float(scores.r[m]) == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-12)
        assert float(scores.r2[m]) == pytest.approx(1 - residual / spread, abs=1e-12)
        mse = residual / len(pairs) / float(SCALE[m]) ** 2
        assert float(scores.mse[m]) == pytest.approx(mse, abs=1e-12)
    assert scores.num_rows == len(pairs) == int(MASKED.sum())
    assert scores.as_dict() == pytest.approx(
        {
            "per_motif_r": float(scores.r.mean()),
            "per_motif_r2": float(scores.r2.mean()),
            "masked_mse": float(scores.mse.mean()),
        }
    )
    assert scores.mean_r == scores.as_dict("filled_")["filled_per_motif_r"]
    unscaled = score_rows(PREDICTED, TRUTH, MASKED, column_mean=MEAN, column_scale=0 * SCALE)
    blank = torch.where(MASKED.unsqueeze(-1), PREDICTED, torch.nan)  # observed rows do not count
    assert unscaled.as_dict() == by_column(blank).as_dict()  # a scale of 0 counts as 1


def test_a_constant_column_is_dropped_and_counted():
    constant = torch.full((W, N, 1), 0.1)
    moving = torch.where(MASKED.unsqueeze(-1), constant, 7.0)  # constant where it is masked
    truth = torch.cat([TRUTH, constant, moving], dim=2)
    predicted = torch.cat([PREDICTED, constant, moving + 1], dim=2)
    mean = torch.cat([MEAN, torch.tensor([0.1, 0.1])])
    scores = by_column(predicted, truth, mean=mean)
    assert scores.kept.tolist() == [True] * M + [False] * 2
    assert scores.as_dict() == by_column(PREDICTED).as_dict()
    assert scores.r[M:].isnan().all()
    nothing = by_column(constant, constant, mean=torch.tensor([0.1]))
    assert nothing.kept.tolist() == [False]
    assert all(math.isnan(value) for value in nothing.as_dict().values())


def test_a_constant_prediction_orders_nothing():
    """It is as good as the mean it says, and its correlation is 0 by definition."""
    flat = torch.full((W, N, M), 1 / 3)
    scores = by_column(flat, mean=torch.full((M,), 1 / 3))
    assert scores.r.tolist() == [0.0] * M
    assert scores.r2.abs().max() < 1e-6
