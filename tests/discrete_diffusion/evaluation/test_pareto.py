"""The figure of a comparison shows the numbers it was given."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest

from discrete_diffusion.evaluation.comparison import Column
from discrete_diffusion.evaluation.comparison_figure import ModelPoint, plot_pareto

POINTS = [
    ModelPoint("mdlm", 0.0, 0.0, 27.0, 0.6, is_reference=True),
    ModelPoint("udlm", 1.5, 0.25, 100.0, 0.7),
    ModelPoint("gidd", 0.5, 0.125, 100.0, 0.69),
    ModelPoint("ar", -0.5, 0.25, 28.0, 0.65),
]
QUALITY = Column("transitive share", "transitive", 1, up=True)
SHARE = replace(QUALITY, share=True)
WORDS = {"quantity": "nats per diagram", "quality": QUALITY}


def legend_of(figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_differences_errors_and_the_front(tmp_path):
    figure = plot_pareto(POINTS, tmp_path / "p.png", **WORDS)
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
    # fewer is better
    figure = plot_pareto(POINTS, **{**WORDS, "quality": replace(QUALITY, up=False)})
    assert figure.axes[1].lines[0].get_xydata().tolist() == [[27.0, 0.6]]


def test_the_reference_need_not_be_the_first_and_a_model_without_difference_is_left_out():
    first, second, third, last = POINTS
    points = [replace(first, is_reference=False), replace(second, difference=0, is_reference=True)]
    points += [replace(third, difference=math.nan, error=math.nan), last]
    left, _ = plot_pareto(points, **WORDS).axes
    assert left.get_title(loc="left").endswith("difference to udlm")
    colours = [container[0].get_color() for container in left.containers]
    assert colours[1] not in (colours[0], colours[2])
    assert "gidd" not in [label.get_text() for label in left.get_yticklabels()]


def test_percent_and_marks_of_replaced_backbones_and_doubtful_differences():
    doubtful = replace(POINTS[2], is_doubtful=True)
    points = [*POINTS[:2], doubtful, ModelPoint("ar", -0.5, 0.25, 28.0, 1.0, replaced=True)]
    figure = plot_pareto(points, title="plans, 5 steps", **{**WORDS, "quality": SHARE})
    left, right = figure.axes
    assert right.get_ylim()[1] == 100
    assert [y for _, y in right.collections[0].get_offsets()] == pytest.approx([60, 70, 69, 100])
    assert max(text.xyann[1] for text in right.texts) < 100
    assert right.get_ylabel().startswith("transitive share, %")
    assert figure.get_suptitle() == "plans, 5 steps"
    mdlm, replaced, few, front = legend_of(figure)
    assert mdlm.startswith("mdlm")
    assert "in place" in replaced
    assert "noise samples" in few
    assert front.startswith("front")
    dots = [container[0] for container in left.containers]
    assert [dot.get_marker() for dot in dots] == ["o", "o", "X", "o"]
    assert [dot.get_markerfacecolor() == "white" for dot in dots] == [False, False, False, True]


def test_labels_stay_inside_the_figure():
    points = [replace(p, label=f"{p.label} (bd-denoiser)") for p in POINTS]
    figure = plot_pareto(points, **{**WORDS, "quality": SHARE})
    figure.canvas.draw()
    boxes = [text.get_bbox_patch().get_window_extent() for text in figure.axes[1].texts]
    assert max(box.x1 for box in boxes) < figure.bbox.width
    for k, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[k + 1 :])


def test_panels_without_numbers_are_left_out():
    assert len(plot_pareto(POINTS[:1], **WORDS).axes) == 1  # no difference to itself
    points = [ModelPoint(p.label, p.difference, math.nan, math.nan, math.nan) for p in POINTS]
    assert len(plot_pareto(points, **WORDS).axes) == 1
    for none, problem in (([], "at least one point"), (points[:1], "one model without samples")):
        with pytest.raises(ValueError, match=problem):
            plot_pareto(none, **WORDS)


def test_quality_has_error_bars_and_two_models_have_no_front():
    points = [replace(p, quality_error=0.02) for p in POINTS[:2]]
    figure = plot_pareto(points, **{**WORDS, "quality": SHARE})
    (bars,) = (container[2][0].get_segments() for container in figure.axes[1].containers)
    assert [list(bar[:, 1]) for bar in bars] == [pytest.approx([58, 62]), pytest.approx([68, 72])]
    assert not [text for text in legend_of(figure) if text.startswith("front")]
