"""Model, sampler and baselines on hidden rows: numbers that are known, files that can be read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from toy_regions import ChainModel, SpreadSampler, changed, toy_regions

from continuous_states.regions.row_report import RowReport
from continuous_states.regions.row_scores import FillingScores, fill_held_out, fit_baselines
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


@pytest.mark.slow
def test_a_report_measures_saves_and_draws(tmp_path):
    report = RowReport(DATA, "val", 0.5, seed=3)
    filling = filled(sampler=SpreadSampler())
    assert report.measure(filling) == scored(filling, seed=3).as_dict()
    report.save(filling, tmp_path / "run")
    names = ["samples.npz", "samples.png"]
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == names
    with np.load(tmp_path / "run" / "samples.npz", allow_pickle=False) as saved:
        assert tuple(saved["feature_names"]) == DATA.feature_names
        for name in ("truth", "real", "masked", "predicted", "filled"):
            assert np.array_equal(saved[name], getattr(filling, name).numpy()), name


class Counting:
    """A baseline that says how often it was asked."""

    def __init__(self, baseline) -> None:
        self.baseline, self.times = baseline, 0

    def predict(self, windows):
        self.times += 1
        return self.baseline.predict(windows)


def test_a_report_scores_baselines_once_while_the_masks_are_the_same():
    report = RowReport(DATA, "val", 0.5, seed=3)
    counting = {name: Counting(x) for name, x in report.baselines.by_name.items()}
    report.baselines = replace(report.baselines, by_name=counting)
    first, few = filled(), filled(num=5)
    other_model = filled(algorithm=ChainModel(0.2), sampler=SpreadSampler())
    other_masks = filled(seed=2)
    assert torch.equal(first.masked, other_model.masked)
    for filling, times in ((first, 1), (other_model, 1), (other_masks, 2), (few, 3), (few, 3)):
        expected = scored(filling, seed=3).as_dict()
        assert report.measure(filling) == expected
        assert {each.times for each in counting.values()} == {times}


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
