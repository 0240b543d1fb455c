"""Images of diagrams: the relations that the moved boxes would have, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from diagram_strategies import diagrams
from hypothesis import given
from hypothesis import strategies as st

from discrete_diffusion.data import EncodedGraphs
from discrete_diffusion.data.graph_tokens import distinct_keys
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from floor_plans import decode, encode, generate_plans
from floor_plans.diagrams.geometry import relations_from_boxes
from floor_plans.diagrams.metrics.structure import structure_metrics
from floor_plans.diagrams.tokens import SYMMETRIES, moved_relations, symmetric_images
from floor_plans.learning.build import DiagramDataset

SQUARE = SYMMETRIES["square"]


def moved_boxes(boxes, motion):
    """Boxes (n, 4) after the motion, written from the geometry alone."""
    mirror_x, mirror_y, swap = motion
    x0, y0, x1, y1 = boxes.T
    if mirror_x:
        x0, x1 = -x1, -x0
    if mirror_y:
        y0, y1 = -y1, -y0
    if swap:
        x0, y0, x1, y1 = y0, x0, y1, x1
    return np.stack([x0, y0, x1, y1], axis=1)


@pytest.mark.parametrize("motion", SQUARE)
def test_moved_relations_are_those_of_moved_boxes(motion):
    rng = np.random.default_rng(0)
    low = rng.uniform(0, 60, (400, 5, 2))
    boxes = np.concatenate([low, low + rng.uniform(1, 60, (400, 5, 2))], axis=-1)
    table = np.array(moved_relations(motion))
    for plan in boxes:
        expected = table[relations_from_boxes(plan)]
        np.testing.assert_array_equal(relations_from_boxes(moved_boxes(plan, motion)), expected)


def test_the_eight_motions_are_a_group():
    tables = {moved_relations(motion) for motion in SQUARE}
    assert len(tables) == 8
    for a in tables:
        assert sorted(a) == list(range(11))
        assert all(a[9 - r] == 9 - a[r] for r in range(10))  # so images commute with relabelling
        for b in tables:
            assert tuple(a[r] for r in b) in tables


@pytest.mark.slow
@given(st.lists(diagrams(), min_size=1, max_size=4))
def test_images_keep_rooms_and_transitivity(given_diagrams):
    moved = decode(symmetric_images(encode(given_diagrams), RPLAN_VOCAB_CONFIG, "square").x0)
    count = len(given_diagrams)
    assert len(moved) == 7 * count
    for k in range(0, len(moved), count):
        part = moved[k : k + count]
        assert [d.rooms for d in part] == [d.rooms for d in given_diagrams]
        shares = [structure_metrics(plans)["transitive"] for plans in (part, given_diagrams)]
        assert shares[0] == shares[1]


def test_only_training_diagrams_get_images_and_none_that_is_held_out():
    vocab = RPLAN_VOCAB_CONFIG
    train, test = encode(generate_plans(12, seed=0)), encode(generate_plans(5, seed=1))
    mirrored = symmetric_images(train, vocab, "mirror")
    held_out = decode(mirrored.x0[:2])
    order = list(range(held_out[0].num_rooms))[::-1]
    val = encode([held_out[0].relabelled(order), held_out[1]])  # two images, one relabelled
    splits = {"train": train, "val": val, "test": test}
    data = DiagramDataset(splits, vocab, node_order="given", symmetry="mirror")
    assert torch.equal(data.splits["train"].x0, torch.cat([train.x0, mirrored.x0[2:]]))
    assert torch.equal(data.splits["val"].x0, val.x0)
    assert torch.equal(data.splits["test"].x0, test.x0)
    assert torch.equal(data.originals("train").x0, train.x0)
    assert torch.equal(data.originals("val").x0, val.x0)
    assert "10 mirror images" in data.summary()


def test_the_images_of_a_plan_differ():
    plans = encode(generate_plans(12, seed=0))
    every = EncodedGraphs.joined([plans, symmetric_images(plans, RPLAN_VOCAB_CONFIG, "square")])
    assert len(distinct_keys(every, RPLAN_VOCAB_CONFIG).unique()) == 96


def test_no_symmetry_adds_nothing():
    plans = encode(generate_plans(3, seed=0))
    assert len(symmetric_images(plans, RPLAN_VOCAB_CONFIG, "none")) == 0
    splits = {"train": plans, "val": encode([]), "test": encode([])}
    data = DiagramDataset(splits, RPLAN_VOCAB_CONFIG, node_order="given")
    assert torch.equal(data.splits["train"].x0, plans.x0)


def test_an_unknown_symmetry_is_refused():
    with pytest.raises(ValueError, match="unknown symmetry 'mirorr'; did you mean 'mirror'"):
        symmetric_images(encode([]), RPLAN_VOCAB_CONFIG, "mirorr")
