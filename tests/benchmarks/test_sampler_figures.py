"""The figure of samplers shows the numbers it was given, in every row and panel."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from sampler_figures import Curve, QualityPanel, ReferencePoint, draw_tradeoff

PANELS = [
    QualityPanel("tv", "Relation TV", (0.0, 0.05), more_is_better=False),
    QualityPanel("valid", "Valid", (0.9, 1.0), is_share=True),
]
ROWS = {
    "one": [
        Curve("ancestral", [20.0, 5.0], {"tv": [0.02, 0.03], "valid": [0.99, 0.95]}),
        Curve("first-hitting", [10.0, 5.0], {"tv": [0.02, 0.09], "valid": [0.99, 0.95]}),
    ],
    "two": [Curve("renoise", [48.0], {"tv": [0.04], "valid": [0.5]})],
}
REFERENCE = ReferencePoint(
    "the reference",
    27.0,
    {"tv": 0.016, "valid": 0.99},
    {"tv": (0.015, 0.017), "valid": (0.98, 0.995)},
)


def draw(rows=ROWS, path=None):
    return draw_tradeoff(rows, PANELS, path, reference=REFERENCE, few_calls=12)


@pytest.mark.slow
def test_curves_reference_and_the_line_of_few_calls(tmp_path):
    figure = draw(path=tmp_path / "tradeoff.png")
    assert (tmp_path / "tradeoff.png").stat().st_size > 0
    assert len(figure.axes) == 4
    tv, valid, *_ = figure.axes
    lines = {line.get_color(): line.get_xydata().tolist() for line in tv.lines[:2]}
    assert list(lines.values()) == [[[5, 0.03], [20, 0.02]], [[5, 0.05], [10, 0.02]]]  # 0.09: edge
    assert valid.lines[0].get_xydata().tolist() == [[5, 95], [20, 99]]
    assert figure.axes[3].lines[0].get_ydata().tolist() == [90]
    for axes, height in zip(figure.axes, [0.016, 99, 0.016, 99], strict=True):
        assert axes.lines[-2].get_xdata() == [12, 12]
        assert axes.lines[-1].get_xydata().tolist() == [[27, height]]
        assert axes.get_xscale() == "log"
    assert tv.patches[0].get_height() == pytest.approx(0.002)
    assert valid.patches[0].get_height() == pytest.approx(1.5)
    assert [axes.get_ylabel() for axes in figure.axes] == ["one", "", "two", ""]
    assert [axes.get_title(loc="left") for axes in figure.axes[:2]] == [
        "Relation TV ↓",
        "Valid, % ↑",
    ]


def test_names_stand_apart_inside_the_first_panel():
    crowded = [replace(ROWS["one"][1], label=f"predictor-corrector {k}") for k in range(4)]
    figure = draw({"crowded": crowded})
    figure.canvas.draw()
    first, second = figure.axes
    assert not second.texts
    assert sorted(text.get_text() for text in first.texts) == [c.label for c in crowded]
    boxes = sorted((text.get_window_extent() for text in first.texts), key=lambda box: box.y0)
    assert all(above.y0 > below.y1 - 2 for below, above in pairwise(boxes))
    inside = first.get_window_extent()
    assert min(box.x0 for box in boxes) > inside.x0
    assert boxes[-1].y1 < inside.y1


def test_nothing_to_draw_and_too_many_curves_are_refused():
    with pytest.raises(ValueError, match="at least one row"):
        draw({})
    with pytest.raises(ValueError, match=r"all: 5 curves.* 1 to 4"):
        draw({"all": ROWS["two"] * 5})
