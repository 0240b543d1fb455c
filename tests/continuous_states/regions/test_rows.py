"""Scores of hidden rows: by hand and by numpy, on masked rows and moving columns only."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from continuous_states.regions.row_scores import RowScores, score_rows
from discrete_diffusion.categorical import make_generator

W, N, M = 5, 9, 4
G = make_generator(1)
TRUTH = torch.randn(W, N, M, generator=G)
PREDICTED = TRUTH + torch.randn(W, N, M, generator=G)
MASKED = torch.rand(W, N, generator=G) < 0.5
MEAN, SCALE = torch.tensor([0.1, -0.2, 0.3, 0.0]), torch.tensor([1.0, 2.0, 0.5, 1.0])


def scored(predicted, truth=TRUTH, masked=MASKED, mean=MEAN) -> RowScores:
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
    assert unscaled.as_dict() == scored(blank).as_dict()  # a scale of 0 counts as 1


def test_a_constant_column_is_dropped_and_counted():
    constant = torch.full((W, N, 1), 0.1)
    moving = torch.where(MASKED.unsqueeze(-1), constant, 7.0)  # constant where it is masked
    truth = torch.cat([TRUTH, constant, moving], dim=2)
    predicted = torch.cat([PREDICTED, constant, moving + 1], dim=2)
    mean = torch.cat([MEAN, torch.tensor([0.1, 0.1])])
    scores = scored(predicted, truth, mean=mean)
    assert scores.kept.tolist() == [True] * M + [False] * 2
    assert scores.as_dict() == scored(PREDICTED).as_dict()
    assert scores.r[M:].isnan().all()
    nothing = scored(constant, constant, mean=torch.tensor([0.1]))
    assert nothing.kept.tolist() == [False]
    assert all(math.isnan(value) for value in nothing.as_dict().values())


def test_a_constant_prediction_orders_nothing():
    """It is as good as the mean it says, and its correlation is 0 by definition."""
    flat = torch.full((W, N, M), 1 / 3)
    scores = scored(flat, mean=torch.full((M,), 1 / 3))
    assert scores.r.tolist() == [0.0] * M
    assert scores.r2.abs().max() < 1e-6


def test_what_does_not_belong_together_is_refused():
    with pytest.raises(ValueError, match=r"\(5, 9, 3\).*expected \(W, N, M\) twice"):
        scored(PREDICTED[..., :3])
    with pytest.raises(ValueError, match=r"masked \(5, 8\)"):
        scored(PREDICTED, masked=MASKED[:, :8])
    with pytest.raises(ValueError, match="no row is masked"):
        scored(PREDICTED, masked=MASKED & False)
