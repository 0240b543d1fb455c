from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discrete_diffusion.layout import RELATIONS
from floor_plans import generate_plans
from floor_plans.diagrams.geometry import (
    UNITS,
    check_one_unit,
    check_scale,
    relations_from_boxes,
    threshold_of,
)
from floor_plans.diagrams.vocabulary import NO_EDGE
from floor_plans.drawings.readers import ReadOptions, read_report

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


PLANS = [plan.boxes for plan in generate_plans(200, seed=0)]


def measured(scale, threshold, plans=PLANS):
    """Boxes at another scale, and how many of their pairs are related."""
    for plan in plans:
        boxes = scale * np.array(plan)
        yield boxes, int((relations_from_boxes(boxes, threshold) != NO_EDGE).sum())


@pytest.mark.parametrize("unit", UNITS)
def test_in_its_own_unit_a_plan_keeps_its_relations(unit):
    scale = threshold_of(unit, None) / 9
    in_pixels = [num for _, num in measured(1, 9)]
    plans = list(measured(scale, threshold_of(unit, None) * (1 + 1e-9)))
    assert [num for _, num in plans] == in_pixels
    check_scale(plans, unit=unit, threshold=None)


@pytest.mark.parametrize("unit", [unit for unit in UNITS if unit != "pixels"])
def test_boxes_in_another_unit_are_refused_with_what_was_measured(unit):
    scale = threshold_of(unit, None) / 9
    with pytest.raises(
        ValueError, match=rf"data\.unit={unit}, or .*data\.adjacency_threshold="
    ) as caught:
        check_scale(list(measured(scale, 9)), unit="pixels", threshold=None)
    sides = np.concatenate([scale * np.array(plan) for plan in PLANS])
    side = np.median((sides[:, 2:] - sides[:, :2]).min(axis=1))
    share = sum(num for _, num in measured(scale, 9)) / sum(
        len(plan) * (len(plan) - 1) / 2 for plan in PLANS
    )
    for word in (
        f"measures {float(f'{side:.3g}'):g}",
        f"{share:.0%} of all pairs",
        "adjacency_threshold=9",
        "unit=pixels",
    ):
        assert word in str(caught.value)
    check_scale(list(measured(scale, scale * 9)), unit="pixels", threshold=scale * 9)


def test_a_threshold_as_wide_as_a_room_is_refused_even_if_it_was_given():
    for threshold, unit in ((9, "metres"), (30, "pixels")):
        scale = threshold_of(unit, None) / 9
        with pytest.raises(ValueError, match=rf"unit={unit} with adjacency_threshold={threshold}"):
            check_scale(list(measured(scale, threshold)), unit=unit, threshold=threshold)


def test_a_narrow_threshold_is_refused_only_where_walls_part_rooms_and_nobody_chose_it():
    apart = [np.array([[0, 0, 300, 300], [320, 0, 600, 300], [0, 320, 300, 600]])] * 2
    with pytest.raises(ValueError, match=r"data\.unit=centimetres"):
        check_scale([(boxes, 0) for boxes in apart], unit="pixels", threshold=None)
    check_scale([(boxes, 2) for boxes in apart], unit="pixels", threshold=None)
    check_scale([(boxes, 0) for boxes in apart], unit="pixels", threshold=9)
    touching = [boxes - [[0, 0, 0, 0], [20, 0, 20, 0], [0, 20, 0, 20]] for boxes in apart]
    check_scale(list(measured(1, 9, touching)), unit="pixels", threshold=None)


def test_a_pair_of_rooms_tells_nothing():
    check_scale([(np.array([[0, 0, 1, 1], [20, 0, 21, 1]]), 0)], unit="pixels", threshold=None)
    check_scale([], unit="pixels", threshold=None)


def test_files_in_metres_are_refused_and_read_by_their_unit(tmp_path):
    path = tmp_path / "plans.jsonl"
    plans = list(generate_plans(20, seed=0))
    scale = 18 / 256
    objects = [
        {"rooms": list(p.room_names), "boxes": (scale * np.array(p.boxes)).tolist()} for p in plans
    ]
    path.write_text("".join(json.dumps(each) + "\n" for each in objects))
    for arguments in ({}, {"adjacency_threshold": 9.0}, {"skip_invalid": True}):
        with pytest.raises(ValueError, match=rf"^{path}: .*data\.unit=metres"):
            read_report(path, ReadOptions(**arguments))
    for arguments in ({"unit": "metres"}, {"adjacency_threshold": 0.633}):
        read = read_report(path, ReadOptions(**arguments)).diagrams
        assert [d.relations for d in read] == [plan.relations for plan in plans]
    with_relations = [each | {"relations": []} for each in objects]  # nothing is measured
    path.write_text("".join(json.dumps(each) + "\n" for each in with_relations))
    assert len(read_report(path).diagrams) == 20


@pytest.mark.parametrize("unit", ["metres", "feet", "millimetres"])
@pytest.mark.parametrize("num", [3, 8, 20, 40])
def test_a_few_plans_in_another_unit_are_refused(tmp_path, unit, num):
    """Whatever their share: 40 of 52 are the most, and then the 12 in pixels are named."""
    scale = threshold_of(unit, None) / 9
    plans = list(generate_plans(20, seed=0)) * 2
    objects = [
        {"rooms": list(p.room_names), "boxes": (by * np.array(p.boxes)).tolist()}
        for by, some in ((1, plans[:12]), (scale, plans[:num]))
        for p in some
    ]
    path, folder = tmp_path / "plans.jsonl", tmp_path / "folder"
    folder.mkdir()
    lines = [json.dumps(each) + "\n" for each in objects]
    path.write_text("".join(lines))
    (folder / "a.jsonl").write_text("".join(lines[:12]))
    (folder / "b.jsonl").write_text("".join(lines[12:]))
    odd, line = (num, 13) if num < 12 else (12, 1)
    counts = rf"{odd} of {12 + num} plans, the first at " if unit != "feet" else "the first at "
    remedy = r"shorter side measures .* a file per unit, .*data\.unit"
    for arguments in ({}, {"adjacency_threshold": 9.0}, {"unit": unit, "skip_invalid": True}):
        with pytest.raises(ValueError, match=rf"^{path}: .*{counts}{path}, line \d+, .*{remedy}"):
            read_report(path, ReadOptions(**arguments))
    if unit != "feet":
        file = f"{folder}/{'ab'[num < 12]}.jsonl"
        with pytest.raises(ValueError, match=rf"^{folder}: {counts}{file}, line 1, .*{remedy}"):
            read_report(folder)
        with pytest.raises(ValueError, match=rf"line {line}, have boxes"):
            read_report(path)


def test_one_plan_of_another_size_or_a_fiftieth_are_no_reason(tmp_path):
    def boxes(num):
        return [("", 14 * np.array(plan)) for plan in PLANS[:num]]

    pixels = [("", np.array(plan)) for plan in PLANS]
    check_one_unit([*pixels[:10], *boxes(1)])
    check_one_unit([*pixels[:196], *boxes(4)])
    with pytest.raises(ValueError, match="5 of 200 plans"):
        check_one_unit([*pixels[:195], *boxes(5)])
    check_one_unit([])


def test_numbers_of_a_refusal_are_plain():
    with pytest.raises(
        ValueError, match=r"measures 2\d{3}, .*data\.adjacency_threshold=\d{2}0 "
    ) as caught:
        check_scale(list(measured(1000 * 18 / 256, 9)), unit="pixels", threshold=None)
    assert "e+" not in str(caught.value)
    drawn_on_2560 = list(measured(10, 9))
    with pytest.raises(
        ValueError, match=r"unit=centimetres.*adjacency_threshold=8\d .*plan drawn larger"
    ):
        check_scale(drawn_on_2560, unit="pixels", threshold=None)
    check_scale(list(measured(10, 90)), unit="pixels", threshold=90)


@pytest.mark.parametrize("threshold", [None, 0.0, 9.0])
def test_points_have_no_extent(threshold):
    points = [(np.array([[0, 0, 0, 0], [9, 9, 9, 9], [0, 9, 0, 9]]), 3)] * 4
    with pytest.raises(ValueError, match="its boxes have no extent") as caught:
        check_scale(points, unit="pixels", threshold=threshold)
    assert "threshold" not in str(caught.value)


def test_an_unknown_unit_is_named_once():
    with pytest.raises(ValueError, match=r"^unit=feets: unknown unit 'feets'; did you mean 'feet'"):
        threshold_of("feets", None)


def test_real_plans_are_in_pixels(real_data):
    with (real_data / "rplan_render_999" / "plans.jsonl").open() as lines:
        plans = [json.loads(line)["boxes"] for line in lines]
    check_scale(list(measured(1, 9, plans)), unit="pixels", threshold=None)
    check_one_unit([("", boxes) for boxes in plans])
    read_report(real_data / "houseganpp_samples")
    for k in range(0, len(plans), 10):  # a few plans alone are no reason either
        check_scale(list(measured(1, 9, plans[k : k + 1])), unit="pixels", threshold=None)
