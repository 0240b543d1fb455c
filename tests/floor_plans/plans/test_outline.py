"""Outlines on the solver's grid: what is closed, against polygons of shapely."""

from __future__ import annotations

import numpy as np
import pytest

shapely = pytest.importorskip("shapely", reason="outlines take the extra plans")

from floor_plans.diagrams.files.fields import DiagramError  # noqa: E402
from floor_plans.plans.outline import Outline  # noqa: E402

L_SHAPE = ((1.0, 2.0), (13.0, 2.0), (13.0, 7.0), (8.0, 7.0), (8.0, 12.0), (1.0, 12.0))
SLANTED = ((0.0, 0.0), (12.03, 0.0), (9.0, 8.07), (0.0, 10.0))
NOTCHED = ((0, 0), (10.04, 0), (10.04, 8), (6.06, 8), (6.06, 5.55), (4, 5.55), (4, 8), (0, 8))


def test_an_l_shape_blocks_one_corner():
    outline = Outline(boundary=L_SHAPE)
    assert outline.origin == (1.0, 2.0)
    assert outline.size == (120, 100)
    assert outline.blocked == ((70, 50, 120, 100),)
    assert outline.area == pytest.approx(60 + 35)


@pytest.mark.parametrize("boundary", [L_SHAPE, SLANTED, NOTCHED])
def test_a_box_lies_inside_if_it_meets_nothing_closed(boundary):
    outline = Outline(boundary=boundary)
    polygon = shapely.Polygon(boundary).buffer(1e-5)
    rng, (width, height), (x, y) = np.random.default_rng(0), outline.size, outline.origin
    closed = [shapely.box(*each) for each in outline.blocked]
    open_boxes = 0
    for _ in range(400):
        x0, x1 = np.sort(rng.choice(width + 1, 2, replace=False))
        y0, y1 = np.sort(rng.choice(height + 1, 2, replace=False))
        box = shapely.box(x0, y0, x1, y1)
        if any(box.intersection(each).area > 0 for each in closed):
            continue
        open_boxes += 1
        assert polygon.covers(shapely.box(x + x0 / 10, y + y0 / 10, x + x1 / 10, y + y1 / 10))
    assert open_boxes > 20


@pytest.mark.parametrize("boundary", [L_SHAPE, NOTCHED])
def test_right_angles_lose_less_than_a_decimetre(boundary):
    outline = Outline(boundary=boundary)
    width, height = outline.size
    lost = sum((x1 - x0) * (y1 - y0) for x0, y0, x1, y1 in outline.blocked)
    kept = (width * height - lost) / 100
    assert outline.area - 0.1 * shapely.Polygon(boundary).length <= kept <= outline.area + 1e-9


def test_what_is_no_outline_is_refused():
    with pytest.raises(ValueError, match="boundary and ratio"):
        Outline(boundary=L_SHAPE, ratio=1.5)
    with pytest.raises(ValueError, match="ratio=0"):
        Outline(ratio=0)
    for wrong in (
        [[0, 0], [1, 1]],
        [[0, 0], [4, 4], [4, 0], [0, 4]],
        "square",
        [[0, 0], [4, 0], [np.nan, 4]],
    ):
        with pytest.raises(DiagramError, match="boundary"):
            Outline(boundary=wrong)
