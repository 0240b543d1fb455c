"""Procedural floor plans: reproducible, sound, and distributed as promised."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from discrete_diffusion.data import canonical_orders, relabel
from discrete_diffusion.layout import RELATION_X_ORDER, RELATION_Y_ORDER, RELATIONS, ROOM_TYPES
from floor_plans.diagrams.geometry import relations_from_boxes
from floor_plans.diagrams.procedural.generator import (
    BLOCK_SIZE,
    MAX_PLAN_SIDE,
    MIN_ROOM_SIDE,
    PlanArrays,
    generate_plans,
    sample_plans,
)
from floor_plans.diagrams.procedural.programme import NUM_ROOMS, NUM_ROOMS_PROBS, PAD
from floor_plans.diagrams.tokens import encode
from floor_plans.diagrams.vocabulary import FORBIDDEN_INSIDE, NO_EDGE

INSIDE, SURROUNDING = RELATIONS.index("inside"), RELATIONS.index("surrounding")
SECOND_ROOM, ENTRANCE = ROOM_TYPES.index("SecondRoom"), ROOM_TYPES.index("Entrance")


@pytest.fixture(scope="module")
def plans() -> PlanArrays:
    return sample_plans(20_000, seed=7)


def closure(adjacent: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Bool[P, n, n]: is there a path of at least one step from i to j?"""
    reach = adjacent
    for _ in range(3):  # paths of up to 2^3 = 8 steps
        reach = reach | (reach[..., :, :, None] & reach[..., None, :, :]).any(-2)
    return reach


def num_distinct(plans: PlanArrays) -> int:
    """Plans that differ by more than a relabelling of their rooms."""
    encoded = plans.encode()
    orders = canonical_orders(encoded.x0, encoded.num_nodes).orders
    return len(torch.unique(relabel(encoded.x0, encoded.num_nodes, orders), dim=0))


def test_no_plans_and_one_plan() -> None:
    assert generate_plans(0) == []
    assert sample_plans(0).boxes.shape == (0, 8, 4)
    (plan,) = generate_plans(1)
    assert plan.rooms[0] == 0
    assert plan.boxes is not None


@pytest.mark.parametrize(
    ("arguments", "named"), [({"num": -1}, "num=-1"), ({"num": 3, "seed": -2}, "seed=-2")]
)
def test_refuses_negative_arguments(arguments: dict[str, int], named: str) -> None:
    with pytest.raises(ValueError, match=f"^{named}: expected an integer >= 0"):
        generate_plans(**arguments)
    least = {name: max(value, 0) for name, value in arguments.items()}
    assert len(generate_plans(**least)) == least["num"]


def test_same_seed_same_plans_whatever_the_number() -> None:
    few, many = sample_plans(BLOCK_SIZE + 1, seed=3), sample_plans(BLOCK_SIZE + 300, seed=3)
    for name in ("room_types", "num_rooms", "boxes", "relations"):
        assert np.array_equal(getattr(few, name), getattr(many, name)[: len(few)])
    assert generate_plans(5, seed=3) == few.to_diagrams()[:5]
    assert not np.array_equal(sample_plans(50, seed=4).boxes, few.boxes[:50])


def test_leaves_global_random_state_alone() -> None:
    before, torch_before = np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    sample_plans(10, seed=1)
    after = np.random.get_state()  # noqa: NPY002
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    assert torch.equal(torch_before, torch.get_rng_state())


def test_arrays_agree_with_diagrams_and_tokens() -> None:
    plans = sample_plans(200, seed=5)
    diagrams = plans.to_diagrams()
    encoded, expected = plans.encode(), encode(diagrams)
    assert torch.equal(encoded.x0, expected.x0)
    assert torch.equal(encoded.real, expected.real)
    assert torch.equal(encoded.num_nodes, expected.num_nodes)
    for k, diagram in enumerate(diagrams):
        assert diagram.num_rooms == plans.num_rooms[k]
        codes = relations_from_boxes(np.array(diagram.boxes))
        listed = [(i, j, int(codes[i, j])) for i, j in np.argwhere(codes != NO_EDGE)]
        assert diagram.relations == tuple(listed)


@pytest.mark.slow
def test_room_counts(plans: PlanArrays) -> None:
    shares = np.bincount(plans.num_rooms, minlength=9)[4:] / len(plans)
    error = np.sqrt(np.array(NUM_ROOMS_PROBS) / len(plans))
    assert plans.num_rooms.min() == NUM_ROOMS[0]
    assert plans.num_rooms.max() == NUM_ROOMS[-1]
    assert (np.abs(shares - NUM_ROOMS_PROBS) < 5 * error).all()


def test_rooms(plans: PlanArrays) -> None:
    types = plans.room_types
    assert (types[:, 0] == 0).all()
    assert (np.diff(types, axis=1) >= 0).all()  # by type, PAD last
    assert ((types == 0).sum(1) == 1).all()
    assert ((types == ENTRANCE).sum(1) <= 1).all()
    per_type = np.bincount(types[types != PAD], minlength=len(ROOM_TYPES))
    assert (per_type[:12] > 0).all()
    assert per_type[:12].argmax() == SECOND_ROOM
    assert per_type[:12].argmin() == ENTRANCE
    for common in ("MasterRoom", "Kitchen", "Bathroom"):
        assert (types == ROOM_TYPES.index(common)).any(1).mean() > 0.9


def test_number_of_relations(plans: PlanArrays) -> None:
    edges = (plans.relations != NO_EDGE).sum((1, 2))
    assert edges.mean() == pytest.approx(10.2, rel=0.02)
    assert edges.min() >= 3
    assert edges.max() <= 20


def test_every_plan_is_connected(plans: PlanArrays) -> None:
    edge = plans.relations != NO_EDGE
    reach = closure(edge | edge.transpose(0, 2, 1))
    real = plans.room_types != PAD
    assert (reach[:, 0] == real).all()


def test_containment(plans: PlanArrays) -> None:
    assert sum(map(len, FORBIDDEN_INSIDE.values())) == 69
    present = plans.relations[plans.relations != NO_EDGE]
    assert 0.06 <= np.isin(present, [INSIDE, SURROUNDING]).mean() <= 0.08
    for code in (INSIDE, SURROUNDING):
        plan, i, j = (plans.relations == code).nonzero()
        inner, outer = (i, j) if code == INSIDE else (j, i)
        pairs = zip(
            plans.room_types[plan, inner].tolist(),
            plans.room_types[plan, outer].tolist(),
            strict=True,
        )
        assert not [(a, b) for a, b in pairs if b in FORBIDDEN_INSIDE.get(a, ())]


@pytest.mark.parametrize("order", [RELATION_X_ORDER, RELATION_Y_ORDER])
def test_relations_are_transitive(plans: PlanArrays, order: tuple[int, ...]) -> None:
    sign = np.array(order)[plans.relations]
    before = (sign < 0) | (sign > 0).transpose(0, 2, 1)
    assert not closure(before).diagonal(axis1=1, axis2=2).any()


def test_boxes_are_rooms_of_a_plan(plans: PlanArrays) -> None:
    real = plans.room_types != PAD
    sides = plans.boxes[..., 2:] - plans.boxes[..., :2]
    assert (sides[real] >= MIN_ROOM_SIDE).all()
    assert (plans.boxes[~real] == 0).all()
    assert (plans.boxes >= 0).all()
    assert (plans.boxes <= MAX_PLAN_SIDE).all()
    assert np.where(real[..., None], plans.boxes[..., :2], 999).min(1).max() == 0


def test_plans_are_varied(plans: PlanArrays) -> None:
    assert len(np.unique(plans.room_types, axis=0)) >= 500
    assert num_distinct(plans) >= 0.95 * len(plans)
