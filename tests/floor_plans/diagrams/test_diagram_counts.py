"""Counts behind the charts, by hand and under relabelling."""

from __future__ import annotations

import numpy as np
import pytest

from floor_plans import BubbleDiagram, generate_plans
from floor_plans.diagrams.metrics.structure import count_diagrams

LIVING, MASTER, BATH = 0, 1, 3
PLANS = [
    BubbleDiagram((LIVING, BATH, BATH), ((0, 1, 2), (1, 2, 3))),  # right-of read from the bath
    BubbleDiagram((BATH, LIVING), ((0, 1, 0),)),  # the living room is right-below
    BubbleDiagram((MASTER,), ()),
]


def test_counts_by_hand():
    counts = count_diagrams(PLANS)
    assert counts.rooms.tolist() == [0, 1, 1, 1]
    assert counts.degrees.tolist() == [1, 4, 1]
    assert counts.edges.tolist() == [1, 1, 1]
    assert counts.room_types[[LIVING, MASTER, BATH]].tolist() == [2, 1, 3]
    assert counts.relations.tolist() == [0, 0, 1, 0.5, 0, 0, 0.5, 0, 0, 1]
    assert counts.pairs[LIVING, BATH] == counts.pairs[BATH, LIVING] == 3
    assert counts.pairs[BATH, BATH] == 1
    assert counts.related[LIVING, BATH] == counts.related[BATH, LIVING] == 2
    share = counts.share_related()
    assert share[LIVING, BATH] == pytest.approx(2 / 3)
    assert share[BATH, BATH] == 1
    assert np.isnan(share[LIVING, MASTER])
    assert np.isnan(counts.share_related(least=2)[BATH, BATH])


def test_counts_do_not_depend_on_the_order_of_rooms():
    plans = generate_plans(200, seed=3)
    rng = np.random.default_rng(0)
    shuffled = [plan.relabelled(rng.permutation(plan.num_rooms)) for plan in plans]
    one, other = count_diagrams(plans), count_diagrams(shuffled)
    for name in ("rooms", "degrees", "edges", "room_types", "relations", "pairs", "related"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    assert one.relations.sum() == sum(len(plan.relations) for plan in plans)
    assert np.triu(one.pairs).sum() == sum(p.num_rooms * (p.num_rooms - 1) / 2 for p in plans)


def test_no_diagram_is_refused():
    with pytest.raises(ValueError, match="no diagrams"):
        count_diagrams([])
