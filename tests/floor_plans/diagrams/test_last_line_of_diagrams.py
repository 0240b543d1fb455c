"""The last line of ``train`` on diagrams: every number is of what it says."""

from __future__ import annotations

from types import SimpleNamespace

from floor_plans.learning.report import DiagramReport


def test_verdicts_have_their_own_count():
    found = {"transitive": 0.95, "buildable": 1.0, "num_verdicts": 40, "num_samples": 200}
    bounds = {"nelbo_unordered": 24.07, "nelbo_standard_error": 0.6}
    bounds |= {"nelbo_blind": 43.14, "nelbo_uniform": 58.22}
    bounds |= {"nelbo_blind_ordered_fixed": 51.4, "nelbo_uniform_ordered_fixed": 66.48}
    line = DiagramReport(SimpleNamespace()).summary({**bounds, **found})
    assert line.endswith(", transitive 95.0 %, buildable 100.0 % of 40  [200 samples]")
    assert "(blind 43.14, untrained 58.22; of one order 51.40, 66.48)" in line
