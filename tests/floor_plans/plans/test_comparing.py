"""Of how many samples ``compare`` asks whether they can be built."""

from __future__ import annotations

import pytest
from omegaconf import OmegaConf

from floor_plans.learning import report
from floor_plans.learning.report import NUM_LARGE_VERDICTS, DiagramCells


@pytest.mark.parametrize(
    ("num_samples", "asked", "num"),
    [(1000, None, 200), (50, None, 10), (49, None, 0), (49, 7, 7), (8, 20, 8), (0, None, 0)],
)
def test_a_fifth_unless_that_is_too_few(monkeypatch, num_samples, asked, num):
    settings = {"eval": {"num_samples": num_samples, "verdicts": asked}, "data": {"n_max": 8}}
    config = OmegaConf.create(settings)
    monkeypatch.setattr(report, "is_installed", lambda: True)
    assert DiagramCells().num_verdicts(config) == num
    monkeypatch.setattr(report, "is_installed", lambda: False)
    assert DiagramCells().num_verdicts(config) == 0
    config.data.n_max = 20  # seconds each
    monkeypatch.setattr(report, "is_installed", lambda: True)
    assert DiagramCells().num_verdicts(config) == min(num, NUM_LARGE_VERDICTS)
