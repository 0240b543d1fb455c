"""Procedural plans past eight rooms."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from discrete_diffusion.cli import compose
from discrete_diffusion.domains import domain_of
from discrete_diffusion.layout import VocabConfig
from floor_plans.diagrams.geometry import relations_from_boxes
from floor_plans.diagrams.metrics.structure import structure_metrics
from floor_plans.diagrams.procedural.generator import MIN_ROOM_SIDE, generate_plans, sample_plans
from floor_plans.diagrams.procedural.programme import (
    BALCONY,
    BATHROOM,
    DINING,
    KITCHEN,
    LIVING,
    PAD,
    RING,
    Ring,
    ring_for,
)
from floor_plans.diagrams.tokens import encode
from floor_plans.diagrams.vocabulary import ADJACENCY, DIRECTIONS
from floor_plans.learning.build import DiagramDataset, build_dataset
from floor_plans.learning.report import NUM_LARGE_VERDICTS, DiagramReport


@pytest.fixture(scope="module")
def plans():
    return sample_plans(1500, 3, (9, 20))


@pytest.mark.slow
def test_large_plans_are_sound_and_plausible(plans):
    structure = structure_metrics(plans.to_diagrams())
    sound = ("valid", "exactly_one_living_room", "transitive", "inside_valid")
    assert {structure[name] for name in sound} == {1.0}
    real = plans.room_types != PAD
    assert (real.sum(axis=1) == plans.num_rooms).all()
    counts = {code: (plans.room_types == code).sum(axis=1) for code in range(13)}
    assert (counts[LIVING] == 1).all()
    assert ((counts[KITCHEN] >= 1) & (counts[KITCHEN] <= 2)).all()
    assert (counts[DINING] <= 2).all()
    bedrooms = sum(counts[code] for code in (1, 5, 6, 7, 8))
    assert (bedrooms >= 1).all()
    assert (counts[BATHROOM] >= 1).all()
    assert (counts[BALCONY] <= plans.num_rooms // 3).all()
    assert np.corrcoef(bedrooms, plans.num_rooms)[0, 1] > 0.5
    sides = plans.boxes[..., 2:] - plans.boxes[..., :2]
    assert sides[real].min() >= MIN_ROOM_SIDE


def test_relations_are_those_of_the_boxes(plans):
    measured = relations_from_boxes(plans.boxes[:50])
    real = plans.room_types[:50] != PAD
    both = np.triu(np.ones((20, 20), dtype=bool), 1) & real[:, :, None] & real[:, None, :]
    assert (plans.relations[:50][both] == measured[both]).all()


def test_every_number_of_rooms_is_as_frequent(plans):
    counts = np.bincount(plans.num_rooms, minlength=21)[9:]
    assert counts.sum() == 1500
    assert abs(counts - 125).max() < 4.5 * 125**0.5


@pytest.mark.slow
def test_a_seed_fixes_the_plans(plans):
    again = sample_plans(100, 3, (9, 20))
    for name, values in vars(again).items():
        assert (values == getattr(plans, name)[:100]).all()
    other = sample_plans(100, 4, (9, 20))
    assert not np.array_equal(other.boxes, again.boxes)
    text = again.relations.astype(np.int16).tobytes() + again.room_types.astype(np.int16).tobytes()
    assert hashlib.sha256(text).hexdigest()[:12] == "a4eb40c3e561"


@pytest.mark.slow
@pytest.mark.parametrize("n", [4, 33])
def test_the_least_and_the_most(n):
    for plan in generate_plans(4, 0, (n, n)):
        assert plan.num_rooms == n


def test_tokens_of_arrays_and_of_diagrams_agree():
    plans, vocab = sample_plans(20, 0, (9, 14)), VocabConfig(n_max=16)
    assert (plans.encode(vocab).x0 == encode(plans.to_diagrams(), vocab).x0).all()


@pytest.mark.parametrize("asked", [(3, 9), (20, 9), (9, 34), (9,), 9])
def test_ranges_that_cannot_be_are_refused(asked):
    with pytest.raises(ValueError, match=r"data\.num_rooms=\[.*from 4 to 33, such as \[9,20\]"):
        sample_plans(1, 0, asked)


def test_the_data_set_says_its_range(tmp_path, monkeypatch):
    monkeypatch.setenv("DISCRETE_DIFFUSION_CACHE", str(tmp_path))
    words = ["data.n_max=12", "data.num_rooms=[9,12]", "data.num_plans=60"]
    data = compose("train", words).data
    built = build_dataset(data, domain_of(data).vocabulary(data))
    sizes = built.sizes(built.splits["train"])
    assert int(sizes.min()) >= 9
    assert int(sizes.max()) <= 12
    data.n_max = 10
    with pytest.raises(ValueError, match=r"data\.n_max=10: the embedded plans have up to 12 rooms"):
        build_dataset(data, domain_of(data).vocabulary(data))


def test_rings():
    assert ring_for(8) == RING
    assert ring_for(33).across > ring_for(20).across > 3
    for ring in (RING, Ring(6, 3), Ring(3, 2)):
        relation = ring.relation[np.ix_(ring.used, ring.used)]
        assert (relation == relation.T).all()
        assert (np.diagonal(relation) == 0).all()
        assert ((relation == 1) | (relation == 2)).sum(axis=1).tolist() == [2] * len(relation)
        assert (relation == 2).sum() == 8  # four corners, from both sides
    with pytest.raises(ValueError, match="at least its two corners"):
        Ring(1, 3)


@pytest.mark.parametrize(
    ("vocabulary", "n_max", "asked", "decided"),
    [
        (DIRECTIONS, 8, None, 200),
        (DIRECTIONS, 20, None, NUM_LARGE_VERDICTS),
        (DIRECTIONS, 20, 70, 70),
        (ADJACENCY, 20, 70, 0),
    ],
)
def test_fewer_large_plans_are_decided(vocabulary, n_max, asked, decided):
    vocab = vocabulary.graph(n_max)
    splits = dict.fromkeys(("train", "val", "test"), encode([], vocab))
    data = DiagramDataset(splits, vocab, node_order="canonical")
    assert DiagramReport(data, num_verdicts=asked).num_decided(1000) == decided
