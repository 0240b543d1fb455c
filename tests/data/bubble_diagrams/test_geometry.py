from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discrete_diffusion.data.bubble_diagrams.geometry import relations_from_boxes
from discrete_diffusion.rooms import RELATIONS

V = (10, 10, 20, 20)


def around(x: float, y: float, half: float = 3) -> tuple[float, float, float, float]:
    return (x - half, y - half, x + half, y + half)


def name(u, v=V, threshold: float = 9.0) -> str:
    return RELATIONS[relations_from_boxes([u, v], threshold)[0, 1]]


@pytest.mark.parametrize(
    ("centre", "expected"),
    [
        ((5, 5), "left-above"),
        ((15, 5), "above"),
        ((25, 5), "right-above"),
        ((5, 15), "left-of"),
        ((25, 15), "right-of"),
        ((5, 25), "left-below"),
        ((15, 25), "below"),
        ((25, 25), "right-below"),
        # on the line that prolongs an edge: one sector each, the same after a quarter turn
        ((10, 5), "above"),
        ((20, 5), "right-above"),
        ((25, 10), "right-of"),
        ((25, 20), "right-below"),
        ((20, 25), "below"),
        ((10, 25), "left-below"),
        ((5, 20), "left-of"),
        ((5, 10), "left-above"),
        # on an edge or a corner
        ((15, 10), "above"),
        ((20, 15), "right-of"),
        ((15, 20), "below"),
        ((10, 15), "left-of"),
        ((10, 10), "left-above"),
        ((20, 10), "right-above"),
        ((20, 20), "right-below"),
        ((10, 20), "left-below"),
        # inside, though the boxes only overlap
        ((19, 15), "inside"),
    ],
)
def test_the_centre_is_placed_against_the_box(centre, expected):
    assert name(around(*centre)) == expected


def test_containment_is_strict_only_for_surrounding():
    assert name((9, 9, 21, 21)) == "surrounding"
    assert name((10, 9, 21, 21)) == "inside"  # not strictly around: the centre decides
    assert name((10, 10, 20, 20)) == "inside"
    assert name((10, 12, 15, 20)) == "inside"


def test_the_threshold_is_a_gap_per_axis_and_included():
    assert name((29, 10, 40, 20)) == "right-of"
    assert name((29.5, 10, 40, 20)) == "no-edge"
    assert name((29.5, 10, 40, 20), threshold=10) == "right-of"
    assert name((29, 29, 40, 40)) == "right-below"
    assert name((29, 30, 40, 40)) == "no-edge"
    assert name((1e308, 0, 1.7e308, 1), (-1.7e308, 0, -1e308, 1)) == "no-edge"


def test_only_pairs_above_the_diagonal_are_filled_and_batches_agree_with_single_plans():
    rng = np.random.default_rng(0)
    corners = np.sort(rng.integers(0, 60, (5, 4, 7, 2, 2)), axis=-2).reshape(5, 4, 7, 4)
    codes = relations_from_boxes(corners)
    assert codes.shape == (5, 4, 7, 7)
    assert codes.dtype == np.int64
    assert (codes[..., *np.tril_indices(7)] == 10).all()
    assert set(np.unique(codes)) == set(range(11))
    for a, b in np.ndindex(5, 4):
        assert (codes[a, b] == relations_from_boxes(corners[a, b])).all()


@given(st.lists(st.integers(-30, 30), min_size=8, max_size=8), st.integers(0, 9))
def test_moving_a_plan_keeps_its_relations_and_a_quarter_turn_turns_them(sides, threshold):
    box = np.sort(np.array(sides).reshape(2, 2, 2), axis=1).reshape(2, 4)
    code = relations_from_boxes(box, threshold)[0, 1]
    assert relations_from_boxes(box + 7, threshold)[0, 1] == code
    quarter_turn = np.stack([-box[:, 3], box[:, 0], -box[:, 1], box[:, 2]], axis=1)
    turned = (8, 0, 3, 7, 4, 5, 2, 6, 9, 1, 10)[code]  # (x, y) -> (-y, x): left becomes above
    degenerate = (box[1, :2] == box[1, 2:]).any()
    assert degenerate or relations_from_boxes(quarter_turn, threshold)[0, 1] == turned


@pytest.mark.parametrize(
    ("boxes", "message"),
    [
        ([[0, 0, 1]], r"shape \(\.\.\., n, 4\), got \(1, 3\)"),
        ([0, 0, 1, 1], "shape"),
        ([[0, 0, float("nan"), 1]], "finite"),
        ([[0, 0, -1, 1]], "x0 <= x1"),
    ],
)
def test_boxes_that_are_no_boxes_are_refused(boxes, message):
    with pytest.raises(ValueError, match=message):
        relations_from_boxes(boxes)


def test_the_rule_reproduces_every_relation_of_the_rendered_plans(real_data):
    lines = (real_data / "rplan_render_999" / "plans.jsonl").read_text().splitlines()
    plans = [json.loads(line) for line in lines]
    assert len(plans) == 999
    for plan in plans:
        codes = relations_from_boxes(plan["boxes"])
        got = [[i, j, codes[i, j]] for i, j in np.argwhere(codes != 10).tolist()]
        assert got == sorted(plan["rel"]), plan["name"]
