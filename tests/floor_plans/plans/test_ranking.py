"""Scores of plans made by hand, and the order that they give."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from floor_plans.plans.doors import find_doors
from floor_plans.solver.realised import Realised, Shortfall, ranked_variants, scores_of
from plan_examples import FLAT, floor_plan

pytest.importorskip("shapely", reason="dimensioned plans take the extra plans")


def test_scores_of_a_rectangle_in_half_of_its_plot():
    plot = ((0.0, 0.0), (8.0, 0.0), (8.0, 4.0), (0.0, 4.0))
    plan = floor_plan([("LivingRoom", (0.0, 0.0, 4.0, 4.0))], boundary=plot)
    found = scores_of(plan, [20.0])
    assert found.compactness == pytest.approx(1.0)
    assert found.fill == pytest.approx(0.5)
    assert found.area_error == pytest.approx(0.2)
    assert found.light == pytest.approx(1.3 * 1.0 / 16)  # 1.28 m2 are 0.985 m: a tenth upwards
    assert found.total == pytest.approx((1 + 0.5 + 0.8 + 1) / 4)
    assert found.num_broken == 3  # no front door, no way from it, and the plot is not full
    longer = floor_plan([("LivingRoom", (0.0, 0.0, 8.0, 2.0))])
    assert scores_of(longer, [16.0]).compactness == pytest.approx(0.8)
    assert scores_of(longer, [16.0]).to_json()["fill"] == 1.0
    dark = scores_of(floor_plan([("Storage", (0.0, 0.0, 2.0, 2.0))]), [4.0])
    assert dark.light is None
    assert dark.total == 1.0
    assert "light" not in dark.sentence()


def test_the_best_is_first():
    """What is given up counts first, then rules, then the scores."""
    home = find_doors(FLAT)
    doorless = replace(home, doors=())
    wide = replace(home, boundary=((0.0, 0.0), (40.0, 0.0), (40.0, 40.0), (0.0, 40.0)))
    areas = Shortfall("areas are off", demand="areas")
    plans, shortfalls = (home, doorless, home, wide), ((areas,), (), (), ())
    found, scores = ranked_variants(Realised(plans, FLAT.areas, shortfalls))
    assert (found.plans[0], found.plans[-1]) == (home, home)
    assert {*found.plans[1:3]} == {doorless, wide}
    assert found.shortfalls == ((), (), (), (areas,))
    broken = [each.num_broken for each in scores[:3]]
    assert broken == sorted(broken)
    assert broken[0] < broken[-1]
    assert all(math.isclose(each.area_error, 0) for each in scores)
    assert ranked_variants(Realised(reason="none")) == (Realised(reason="none"), ())
