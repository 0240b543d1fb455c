"""The figure of a comparison shows the numbers it was given."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest

from discrete_diffusion.viz.pareto import ModelPoint, QualityAxis, plot_pareto

POINTS = [
    ModelPoint("mdlm", 0.0, 0.0, 27.0, 0.6, is_reference=True),
    ModelPoint("udlm", 1.5, 0.25, 100.0, 0.7),
    ModelPoint("gidd", 0.5, 0.125, 100.0, 0.69),
    ModelPoint("ar", -0.5, 0.25, 28.0, 0.65),
]
SHARE = QualityAxis("transitive share", is_share=True)
WORDS = {"quantity": "nats per diagram", "quality": QualityAxis("transitive share")}


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


def test_the_reference_need_not_be_the_first_and_a_model_without_difference_is_left_out():
    first, second, third, last = POINTS
    points = [replace(first, is_reference=False), replace(second, difference=0, is_reference=True)]
    points += [replace(third, difference=math.nan, error=math.nan), last]
    left, _ = plot_pareto(points, **WORDS).axes
    assert left.get_title(loc="left").endswith("difference to udlm")
    colours = [container[0].get_color() for container in left.containers]
    assert colours[1] not in (colours[0], colours[2])
    assert "gidd" not in [label.get_text() for label in left.get_yticklabels()]


def test_shares_are_percent_within_their_range_and_replaced_backbones_are_hollow():
    points = [*POINTS[:3], ModelPoint("ar", -0.5, 0.25, 28.0, 1.0, replaced=True)]
    figure = plot_pareto(points, title="plans, 5 steps", **{**WORDS, "quality": SHARE})
    left, right = figure.axes
    assert right.get_ylim()[1] == 100
    assert [y for _, y in right.collections[0].get_offsets()] == pytest.approx([60, 70, 69, 100])
    assert max(text.xyann[1] for text in right.texts) < 100
    assert "log scale" in right.get_xlabel()
    assert right.get_ylabel().startswith("transitive share, %")
    assert figure.get_suptitle() == "plans, 5 steps"
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend[:2] == ["mdlm, the reference", "another backbone in place"]
    assert legend[2].startswith("front")
    markers = [container[0].get_markerfacecolor() for container in left.containers]
    assert markers[3] == "white"
    assert "white" not in markers[:3]


def test_a_difference_that_few_draws_carry_is_marked(tmp_path):
    points = [*POINTS[:2], replace(POINTS[2], is_doubtful=True), POINTS[3]]
    figure = plot_pareto(points, tmp_path / "p.png", **WORDS)
    shapes = [container[0].get_marker() for container in figure.axes[0].containers]
    assert shapes == ["o", "o", "X", "o"]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "carried by a few noise samples" in legend


def test_labels_stay_inside_the_figure():
    points = [replace(p, label=f"{p.label} (bd-denoiser)") for p in POINTS]
    figure = plot_pareto(points, **{**WORDS, "quality": SHARE})
    figure.canvas.draw()
    right = figure.axes[1]
    boxes = [text.get_bbox_patch().get_window_extent() for text in right.texts]
    assert max(box.x1 for box in boxes) < figure.bbox.width
    for k, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[k + 1 :])


def test_one_model_has_no_difference_to_itself():
    assert len(plot_pareto(POINTS[:1], **WORDS).axes) == 1
    with pytest.raises(ValueError, match="one model without samples"):
        plot_pareto([ModelPoint("mdlm", 0.0, 0.0, math.nan, math.nan)], **WORDS)


def test_down_is_better_turns_the_front_around():
    figure = plot_pareto(POINTS, **{**WORDS, "quality": QualityAxis("rest", more_is_better=False)})
    assert figure.axes[1].lines[0].get_xydata().tolist() == [[27.0, 0.6]]


def test_without_samples_there_is_one_panel():
    points = [ModelPoint(p.label, p.difference, math.nan, math.nan, math.nan) for p in POINTS]
    assert len(plot_pareto(points, **WORDS).axes) == 1


def test_quality_has_error_bars_and_two_models_have_no_front():
    points = [replace(p, quality_error=0.02) for p in POINTS[:2]]
    figure = plot_pareto(points, **{**WORDS, "quality": SHARE})
    right = figure.axes[1]
    (bars,) = (container[2][0].get_segments() for container in right.containers)
    assert [list(bar[:, 1]) for bar in bars] == [pytest.approx([58, 62]), pytest.approx([68, 72])]
    assert "one standard error" in right.get_ylabel()
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert not [text for text in legend if text.startswith("front")]


def test_nothing_to_draw_is_refused():
    with pytest.raises(ValueError, match="at least one point"):
        plot_pareto([], **WORDS)
