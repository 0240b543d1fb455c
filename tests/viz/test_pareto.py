"""The figure of a comparison shows the numbers it was given."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from discrete_diffusion.viz import ModelPoint, draw_pareto

POINTS = [
    ModelPoint("mdlm", 0.0, 0.0, 27.0, 0.6),
    ModelPoint("udlm", 1.5, 0.25, 100.0, 0.7),
    ModelPoint("gidd", 0.5, 0.125, 100.0, 0.69),
    ModelPoint("ar", -0.5, 0.25, 28.0, 0.65),
]
WORDS = {"quantity": "nats per diagram", "quality": "transitive share"}


def test_differences_errors_and_the_front(tmp_path):
    figure = draw_pareto(POINTS, tmp_path / "p.png", **WORDS)
    left, right = figure.axes
    assert (tmp_path / "p.png").stat().st_size > 0
    assert [label.get_text() for label in left.get_yticklabels()] == [p.label for p in POINTS]
    bars = [c.get_segments()[0][:, 0] for container in left.containers for c in container[2]]
    assert [list(bar) for bar in bars] == [[0, 0], [1.25, 1.75], [0.375, 0.625], [-0.75, -0.25]]
    assert right.collections[0].get_offsets().tolist() == [[p.calls, p.quality] for p in POINTS]
    front = right.lines[0].get_xydata().tolist()
    assert front == [[27.0, 0.6], [28.0, 0.65], [100.0, 0.7]]  # not gidd: udlm costs the same
    heights = sorted(text.xyann[1] for text in right.texts)
    assert min(b - a for a, b in pairwise(heights)) > 0.005


def test_down_is_better_turns_the_front_around():
    figure = draw_pareto(POINTS, more_is_better=False, **WORDS)
    assert figure.axes[1].lines[0].get_xydata().tolist() == [[27.0, 0.6]]


def test_without_samples_there_is_one_panel():
    points = [ModelPoint(p.label, p.difference, math.nan, math.nan, math.nan) for p in POINTS]
    assert len(draw_pareto(points, **WORDS).axes) == 1


def test_nothing_to_draw_is_refused():
    with pytest.raises(ValueError, match="at least one point"):
        draw_pareto([], **WORDS)
