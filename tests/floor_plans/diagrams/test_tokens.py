from __future__ import annotations

import numpy as np
import pytest
import torch
from diagram_strategies import diagrams, relabelled_diagrams
from hypothesis import given
from hypothesis import strategies as st

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.data import EncodedGraphs, inverse_ids, relabel
from discrete_diffusion.data.graph_tokens import distinct_keys, random_orders
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG, VocabConfig
from floor_plans import BubbleDiagram, decode, encode, generate_plans
from floor_plans.diagrams.geometry import relations_from_boxes
from floor_plans.diagrams.metrics.diagrams import structure_metrics
from floor_plans.diagrams.tokens import SYMMETRIES, moved_relations, symmetric_images
from floor_plans.learning.build import DiagramDataset

ROOMS_14 = VocabConfig(n_max=14)
MOLECULES = VocabConfig(n_max=5, node_types=("C", "N"), edge_types=("single", "double", "none"))


def test_encoding_by_hand():
    encoded = encode([BubbleDiagram((0, 7, 2), ((0, 2, 9), (1, 2, 0)))])
    pad, no_edge = 14, 15 + 10
    expected = [pad] * 36
    expected[:3] = [0, 7, 2]
    expected[8], expected[9], expected[15] = no_edge, 15 + 9, 15  # (0, 1), (0, 2), (1, 2)
    assert encoded.x0.tolist() == [expected]
    assert encoded.x0.dtype == torch.int64
    assert encoded.num_nodes.tolist() == [3]
    assert torch.equal(encoded.real, encoded.x0 != pad)
    RPLAN_VOCAB_CONFIG.layout().check(encoded.x0, encoded.real)


@pytest.mark.slow
@given(st.lists(diagrams(), max_size=5), st.sampled_from([RPLAN_VOCAB_CONFIG, ROOMS_14]))
def test_tokens_round_trip(some, vocab):
    encoded = encode(some, vocab)
    assert encoded.x0.shape == (len(some), vocab.length)
    assert decode(encoded.x0, vocab) == some
    assert torch.equal(decode_then_encode(encoded.x0, vocab), encoded.x0)


def decode_then_encode(tokens, vocab):
    return encode(decode(tokens, vocab), vocab).x0


@pytest.mark.parametrize("n_max", [1, 2])
def test_the_smallest_vocabularies_work(n_max):
    vocab = VocabConfig(n_max=n_max)
    one = BubbleDiagram((4,), ())
    encoded = encode([one], vocab)
    assert decode(encoded.x0, vocab) == [one]
    order = random_orders(encoded.num_nodes, n_max, make_generator(0))
    assert torch.equal(relabel(encoded.x0, encoded.num_nodes, order, vocab), encoded.x0)


@pytest.mark.slow
@given(st.lists(relabelled_diagrams(), min_size=1, max_size=6))
def test_relabelling_tokens_is_relabelling_diagrams(pairs):
    some, orders = zip(*pairs, strict=True)
    encoded = encode(some)
    order = torch.tensor([[*o, *range(len(o), 8)] for o in orders])
    moved = relabel(encoded.x0, encoded.num_nodes, order)
    assert decode(moved) == [d.relabelled(o) for d, o in pairs]
    assert torch.equal(moved != 14, encoded.real)
    back = relabel(moved, encoded.num_nodes, order.argsort(dim=1))
    assert torch.equal(back, encoded.x0)


def test_relabelling_moves_masks_and_follows_the_vocabulary():
    encoded = encode([BubbleDiagram((0, 1, 2), ((0, 1, 0),))])
    encoded.x0[0, [1, 9]] = 13
    moved = relabel(encoded.x0, encoded.num_nodes, torch.tensor([[1, 0, 2, 3, 4, 5, 6, 7]]))
    assert moved[0, :3].tolist() == [13, 0, 2]
    assert moved[0, [8, 9, 15]].tolist() == [15 + 9, 25, 13]
    assert inverse_ids(RPLAN_VOCAB_CONFIG)[15:26].tolist() == [24 - r for r in range(10)] + [25]
    assert inverse_ids(MOLECULES).tolist() == list(range(MOLECULES.vocab_size))


def test_relabelling_an_undirected_graph_keeps_edge_types():
    offset = MOLECULES.edge_offset
    x0 = torch.randint(offset, offset + 3, (4, MOLECULES.length), generator=make_generator(1))
    x0[:, :5] = torch.tensor([0, 1, 0, 1, 1])
    order = random_orders(torch.full((4,), 5), 5, make_generator(2))
    moved = relabel(x0, torch.full((4,), 5), order, MOLECULES)
    for b in range(4):
        for i, j in MOLECULES.endpoints:
            a, c = sorted((int(order[b, i]), int(order[b, j])))
            old = x0[b, MOLECULES.edge_position(a, c)]
            assert moved[b, MOLECULES.edge_position(i, j)] == old


def test_random_orders_permute_real_slots_only_and_uniformly():
    num_nodes = torch.tensor([1, 3, 8]).repeat(4000)
    orders = random_orders(num_nodes, 8, make_generator(3))
    assert torch.equal(orders.sort(dim=1).values, torch.arange(8).expand_as(orders))
    assert torch.equal(orders[0::3], torch.arange(8).expand(4000, 8))
    assert torch.equal(orders[1::3, 3:], torch.arange(3, 8).expand(4000, 5))
    _, counts = orders[1::3].unique(dim=0, return_counts=True)
    assert len(counts) == 6
    assert (counts - 4000 / 6).abs().max() < 4 * (4000 / 6 * 5 / 6) ** 0.5
    firsts = orders[2::3, 0].bincount(minlength=8)
    assert (firsts - 500).abs().max() < 4 * (500 * 7 / 8) ** 0.5


def test_random_orders_follow_the_generator_and_leave_the_global_one_alone():
    num_nodes = torch.full((5,), 8)
    before = torch.random.get_rng_state()
    first = random_orders(num_nodes, 8, make_generator(4))
    assert torch.equal(first, random_orders(num_nodes, 8, make_generator(4)))
    assert not torch.equal(first, random_orders(num_nodes, 8, make_generator(5)))
    assert torch.equal(before, torch.random.get_rng_state())


def test_encoding_refuses_what_does_not_fit():
    big = BubbleDiagram((0,) * 9, ())
    with pytest.raises(ValueError, match="diagram 1 has 9 rooms, more than n_max=8"):
        encode([BubbleDiagram((0,), ()), big])
    assert encode([big], ROOMS_14).x0.shape == (1, 105)
    with pytest.raises(ValueError, match="needs the vocabulary of rooms"):
        encode([big], MOLECULES)
    with pytest.raises(ValueError, match="needs the vocabulary of rooms"):
        decode(torch.zeros(1, MOLECULES.length, dtype=torch.long), MOLECULES)


@pytest.mark.parametrize(
    ("position", "token", "message"),
    [
        (2, 13, r"sample 1, position 2 \(node\): id 13"),  # MASK
        (1, 15, r"sample 1, position 1 \(node\): id 15"),  # a relation on a room slot
        (8, 14, r"sample 1, position 8 \(edge\): id 14"),  # PAD between two real rooms
        (8, 3, r"sample 1, position 8 \(edge\): id 3"),
        (4, 0, r"sample 1, position 4 \(node\): id 0 .*expected PAD"),  # a room after PAD
        (1, 14, r"sample 1, position 2 \(node\): id 2 .*expected PAD"),  # PAD before a room
        (0, 14, r"sample 1, position 0 \(node\): PAD"),
    ],
)
def test_decoding_names_sample_and_position(position, token, message):
    plan = BubbleDiagram((0, 1, 2), ((0, 1, 0),))
    tokens = encode([plan, plan]).x0
    tokens[1, position] = token
    with pytest.raises(ValueError, match=message):
        decode(tokens)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (torch.zeros(36, dtype=torch.long), r"shape \(B, 36\), got \(36,\)"),
        (torch.zeros(1, 35, dtype=torch.long), r"shape \(B, 36\), got \(1, 35\)"),
        (torch.zeros(1, 36), "integer token ids, got torch.float32"),
    ],
)
def test_decoding_refuses_other_tensors(tokens, message):
    with pytest.raises(ValueError, match=message):
        decode(tokens)


def test_relabelling_refuses_orders_that_touch_pad():
    encoded = encode([BubbleDiagram((0, 1), ()), BubbleDiagram((0, 1, 2), ())])
    order = torch.arange(8).repeat(2, 1)
    for wrong in ([0, 1, 3, 2, 4, 5, 6, 7], [0, 0, 2, 3, 4, 5, 6, 7]):
        order[1] = torch.tensor(wrong)
        with pytest.raises(ValueError, match="sample 1: order"):
            relabel(encoded.x0, encoded.num_nodes, order)
    with pytest.raises(ValueError, match=r"order of shape \(2, 8\), got \(2, 7\)"):
        relabel(encoded.x0, encoded.num_nodes, order[:, :7])


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
