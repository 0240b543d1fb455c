"""Images of diagrams: the relations that the moved boxes would have, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from diagram_strategies import diagrams
from hypothesis import given
from hypothesis import strategies as st

from discrete_diffusion.data.bubble_diagrams import decode, encode
from discrete_diffusion.data.bubble_diagrams.dataset import DiagramDataset, distinct_keys
from discrete_diffusion.data.bubble_diagrams.geometry import relations_from_boxes
from discrete_diffusion.data.bubble_diagrams.symmetries import (
    SYMMETRIES,
    moved_relations,
    with_images,
)
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from discrete_diffusion.metrics import spatial_transitivity

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


@given(st.lists(diagrams(), min_size=1, max_size=4))
def test_images_keep_rooms_and_transitivity(given_diagrams):
    encoded = encode(given_diagrams)
    images = decode(with_images(encoded, RPLAN_VOCAB_CONFIG, "square").x0)
    count = len(given_diagrams)
    assert images[:count] == given_diagrams
    for k in range(0, len(images), count):
        part = images[k : k + count]
        assert [d.rooms for d in part] == [d.rooms for d in given_diagrams]
        assert spatial_transitivity(part).overall == spatial_transitivity(given_diagrams).overall


def test_only_training_diagrams_get_images():
    vocab = RPLAN_VOCAB_CONFIG
    plans = encode(decode(torch.stack([*_some_tokens(12)])))
    splits = {"train": plans, "val": plans, "test": encode([])}
    data = DiagramDataset(splits, vocab, node_order="given", symmetry="mirror")
    assert len(data.splits["train"]) == 24
    assert torch.equal(data.splits["train"].x0[:12], plans.x0)
    assert torch.equal(data.splits["val"].x0, plans.x0)
    for split in ("train", "val"):
        assert torch.equal(data.originals(split).x0, plans.x0)
    assert "mirror" in data.summary()
    assert len(distinct_keys(with_images(plans, vocab, "square"), vocab)) == 96


def test_an_unknown_symmetry_is_refused():
    with pytest.raises(ValueError, match="unknown symmetry 'mirorr'; did you mean 'mirror'"):
        with_images(encode([]), RPLAN_VOCAB_CONFIG, "mirorr")


def _some_tokens(num):
    from discrete_diffusion.data.bubble_diagrams import generate_plans

    return encode(generate_plans(num, seed=0)).x0
