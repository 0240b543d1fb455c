from __future__ import annotations

import pytest
import torch
from diagram_strategies import diagrams, relabelled_diagrams
from hypothesis import given
from hypothesis import strategies as st

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.data import inverse_ids, relabel
from discrete_diffusion.data.graph_tokens import random_orders
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG, VocabConfig
from floor_plans import BubbleDiagram, decode, encode

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
        (1, -1, r"sample 1, position 1 \(node\): id -1"),
        (1, 28, r"sample 1, position 1 \(node\): id 28"),
        (8, 13, r"sample 1, position 8 \(edge\): id 13"),
        (8, 14, r"sample 1, position 8 \(edge\): id 14"),  # PAD between two real rooms
        (8, 26, r"sample 1, position 8 \(edge\): id 26"),
        (8, 3, r"sample 1, position 8 \(edge\): id 3"),
        (4, 0, r"sample 1, position 4 \(node\): id 0 .*expected PAD"),  # a room after PAD
        (1, 14, r"sample 1, position 2 \(node\): id 2 .*expected PAD"),  # PAD before a room
        (35, 25, r"sample 1, position 35 \(edge\): id 25 .*expected PAD"),
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
