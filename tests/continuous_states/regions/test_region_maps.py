"""Region maps and row scores: what is drawn is what was given."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from continuous_states.regions.row_report import MAX_WINDOWS, plot_region_maps, plot_row_scores
from continuous_states.regions.row_scores import Filling, FillingScores, RowScores

NAMES = ["a", "b", "a again", "b again", "flat"]


def windows(num: int = 4, rows: int = 10):
    """Columns 0, 2 and 1, 3 are alike, column 4 is constant; window 0 has two rows less."""
    random = np.random.default_rng(0)
    one, other = random.normal(size=(2, num, rows))
    truth = np.stack([one, other, one * 3 + 1, other + 5, np.full((num, rows), 0.1)], axis=2)
    truth = truth.astype(np.float32)
    masked = random.random((num, rows)) < 0.5
    masked[:, 0], masked[:, 1] = True, False
    real = np.ones((num, rows), bool)
    real[0, -2:] = False
    truth[~real] = 0
    return truth, masked & real, real


def filling_of(truth, masked, real, filled=None, predicted=None) -> Filling:
    given = {"truth": truth, "masked": masked, "real": real, "filled": filled}
    given["predicted"] = truth if predicted is None else predicted
    return Filling(**{k: None if x is None else torch.from_numpy(x) for k, x in given.items()})


def labels(axes) -> list[str]:
    return [label.get_text() for label in axes.get_xticklabels()]


def test_maps_hold_z_scores_with_hidden_rows_blank():
    truth, masked, real = windows()
    filled = np.where(masked[..., None], truth + 1, truth)
    figure = plot_region_maps(filling_of(truth, masked, real, filled), feature_names=NAMES)
    grid = np.array(figure.axes[: 3 * MAX_WINDOWS]).reshape(MAX_WINDOWS, 3)
    names = labels(grid[-1][0])
    order = [NAMES.index(name) for name in names]
    mean, scale = truth[real].mean(axis=0), truth[real].std(axis=0)
    for w in range(MAX_WINDOWS):
        observed = grid[w][1].images[0].get_array()
        true, drawn = (np.asarray(grid[w][k].images[0].get_array()) for k in (0, 2))
        size = 8 if w == 0 else 10
        assert true.shape == (size, 5)
        hidden = masked[w, :size]
        assert (np.ma.getmaskarray(observed) == hidden[:, None]).all()
        for name in ("a", "b again"):
            column, k = names.index(name), NAMES.index(name)
            z = (truth[w, :size, k] - mean[k]) / scale[k]
            assert true[:, column] == pytest.approx(z, abs=1e-4)
            assert drawn[:, column] == pytest.approx(z + hidden / scale[k], abs=1e-4)
        assert np.all(true[:, names.index("flat")] == 0)
        assert f"{hidden.sum()} of {size} rows hidden" in grid[w][1].get_title(loc="left")
    alike = [{order[k] for k in pair} for pair in ((0, 1), (1, 2), (2, 3), (3, 4))]
    assert {0, 2} in alike  # alike columns stand side by side
    assert {1, 3} in alike


def test_many_columns_are_counted_and_files_are_written(tmp_path):
    truth = np.random.default_rng(1).normal(size=(1, 6, 60))
    masked = np.arange(6)[None] < 3
    names = [f"m{k}" for k in range(60)]
    path = tmp_path / "maps.png"
    filling = filling_of(truth, masked, np.ones_like(masked))
    figure = plot_region_maps(filling, path, feature_names=names)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert labels(figure.axes[0]) == []
    assert figure.axes[0].get_xlabel().startswith("60 features")


def scores_of(mask_rate: float, **r: list[float]) -> FillingScores:
    """Those of the model and of others, whose correlations are given by column."""

    def scores(values: list[float]) -> RowScores:
        x = torch.tensor(values, dtype=torch.float64)
        return RowScores(r=x, r2=x, mse=x, kept=~x.isnan(), num_rows=9)

    return FillingScores({k: scores(values) for k, values in r.items()}, mask_rate, num_windows=2)


def test_row_scores_are_sorted_by_the_model_without_dropped_columns():
    dropped = float("nan")
    model, oracle = [0.1, 0.3, 0.2, dropped, 0.0], [0.5, 0.6, 0.7, dropped, 0.1]
    scores = scores_of(0.5, model=model, oracle=oracle, window_mean=oracle)
    by_rate = [scores_of(0.3, model=[0.2], oracle=[0.4]), scores_of(0.7, model=[0.1], oracle=[0.4])]
    columns, rates = plot_row_scores(scores, by_rate, NAMES).axes
    assert labels(columns) == ["b", "a again", "a", "flat"]
    drawn = {line.get_label(): list(line.get_ydata()) for line in columns.lines}
    assert drawn["model: mean 0.150"] == [0.3, 0.2, 0.1, 0.0]
    assert drawn["oracle: mean 0.475"] == [0.6, 0.7, 0.5, 0.1]
    assert not any(label.startswith("window") for label in drawn)
    assert rates.lines[0].get_xdata().tolist() == pytest.approx([30, 70])
    assert list(rates.lines[1].get_ydata()) == [0.4, 0.4]
    assert columns.lines[0].get_color() == rates.lines[0].get_color()
