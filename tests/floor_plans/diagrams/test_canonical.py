from __future__ import annotations

import math
from itertools import permutations, product

import numpy as np
import pytest
import torch
from diagram_strategies import diagrams
from hypothesis import given
from hypothesis import strategies as st

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.data import canonical, canonical_orders, relabel
from discrete_diffusion.data.graph_tokens import random_orders
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG, VocabConfig
from floor_plans import BubbleDiagram, encode

SMALL = VocabConfig(
    n_max=3,
    node_types=("a", "b"),
    edge_types=("before", "beside", "after", "none"),
    edge_inverse=(2, 1, 0, 3),
)


def canonical_tokens(x0, num_nodes, vocab=RPLAN_VOCAB_CONFIG):
    return relabel(x0, num_nodes, canonical_orders(x0, num_nodes, vocab).orders, vocab)


def orbit(x0, n, vocab):
    """All distinct token sequences (K, L) of one graph, by trying every permutation."""
    orders = torch.tensor([[*o, *range(n, vocab.n_max)] for o in permutations(range(n))])
    copies = x0.expand(len(orders), -1)
    return relabel(copies, torch.full((len(orders),), n), orders, vocab).unique(dim=0)


def all_graphs(vocab):
    """Every token sequence of ``n_max`` nodes."""
    nodes = [range(vocab.num_node_types)] * vocab.n_max
    edges = [range(vocab.edge_offset, vocab.edge_offset + vocab.num_edge_types)] * vocab.num_edges
    return torch.tensor(list(product(*nodes, *edges)))


def test_all_three_node_graphs():
    """n!/|Aut| counts the token sequences of a graph, and one of them is its canonical one."""
    x0 = all_graphs(SMALL)
    num_nodes = torch.full((len(x0),), 3)
    found = canonical_orders(x0, num_nodes, SMALL)
    forms = relabel(x0, num_nodes, found.orders, SMALL)
    form_of = {}
    for k in range(len(x0)):
        members = orbit(x0[k], 3, SMALL)
        assert math.isclose(found.log_num_orders[k].exp(), len(members), rel_tol=1e-12)
        assert (members == forms[k]).all(dim=1).any()
        class_key = tuple(map(tuple, members.tolist()))
        assert form_of.setdefault(class_key, tuple(forms[k].tolist())) == tuple(forms[k].tolist())
    assert len(set(form_of.values())) == len(form_of)
    assert sum(map(len, form_of)) == len(x0) == 2**3 * 4**3


def test_entropy_of_randomly_ordered_graphs():
    """H(ordered) = H(G) + E log(n!/|Aut G|) when every order of a graph is equally likely."""
    x0 = all_graphs(SMALL)
    num_nodes = torch.full((len(x0),), 3)
    found = canonical_orders(x0, num_nodes, SMALL)
    forms = relabel(x0, num_nodes, found.orders, SMALL)
    _, graph_of = forms.unique(dim=0, return_inverse=True)
    p_graph = torch.rand(int(graph_of.max()) + 1, generator=make_generator(0)).double()
    p_graph /= p_graph.sum()
    p_ordered = p_graph[graph_of] * (-found.log_num_orders).exp()
    assert math.isclose(p_ordered.sum(), 1.0, rel_tol=1e-12)
    log_num_orders = torch.zeros_like(p_graph)
    log_num_orders[graph_of] = found.log_num_orders
    entropy_ordered = -(p_ordered * p_ordered.log()).sum()
    entropy_graph = -(p_graph * p_graph.log()).sum()
    expected = entropy_graph + (p_graph * log_num_orders).sum()
    assert math.isclose(entropy_ordered, expected, rel_tol=1e-12)


@pytest.mark.slow
@given(
    diagrams(max_rooms=5, num_types=2, edge_codes=(10, 10, 4, 5))
    | diagrams(max_rooms=5, num_types=1, edge_codes=(10, 10, 2, 7))
    | diagrams(max_rooms=5)
)
def test_number_of_orders_and_canonical_form_against_every_permutation(diagram):
    encoded = encode([diagram])
    n = diagram.num_rooms
    members = orbit(encoded.x0[0], n, RPLAN_VOCAB_CONFIG)
    found = canonical_orders(encoded.x0, encoded.num_nodes)
    assert math.isclose(found.log_num_orders[0].exp(), len(members), rel_tol=1e-12)
    num_rooms = torch.full((len(members),), n)
    assert len(canonical_tokens(members, num_rooms).unique(dim=0)) == 1
    assert (canonical_orders(members, num_rooms).log_num_orders == found.log_num_orders).all()


@pytest.mark.parametrize(
    ("vocab", "density"),
    [
        (RPLAN_VOCAB_CONFIG, 0.1),
        (RPLAN_VOCAB_CONFIG, 0.5),
        (VocabConfig(n_max=14), 0.3),
        (VocabConfig(n_max=9, node_types=("C", "N"), edge_types=("1", "2", "none")), 0.25),
        (VocabConfig(n_max=6, node_types=("C",), edge_types=("1", "none")), 0.5),
    ],
)
def test_relabelled_batches_get_the_same_tokens(vocab, density):
    generator = make_generator(1)
    num_nodes = torch.randint(1, vocab.n_max + 1, (300,), generator=generator)
    num_types = min(2, vocab.num_node_types)
    x0 = torch.randint(0, num_types, (300, vocab.length), generator=generator)
    edge = torch.randint(0, vocab.no_edge, (300, vocab.num_edges), generator=generator)
    absent = torch.rand(edge.shape, generator=generator) > density
    x0[:, vocab.n_max :] = edge.masked_fill(absent, vocab.no_edge) + vocab.edge_offset
    x0[~vocab.real_positions(num_nodes)] = vocab.pad_id

    orders = random_orders(num_nodes, vocab.n_max, generator)
    moved = relabel(x0, num_nodes, orders, vocab)
    first, second = (canonical_orders(x, num_nodes, vocab) for x in (x0, moved))
    assert torch.equal(
        relabel(x0, num_nodes, first.orders, vocab), relabel(moved, num_nodes, second.orders, vocab)
    )
    assert torch.equal(first.log_num_orders, second.log_num_orders)
    assert (first.log_num_orders >= 0).all()
    assert first.log_num_orders.dtype == torch.float64


def test_the_order_is_type_then_left_to_right_then_top_to_bottom():
    below_right = BubbleDiagram((7, 7, 7, 0), ((0, 1, 7), (0, 2, 6), (1, 2, 3)))
    encoded = encode([below_right])
    assert canonical_orders(encoded.x0, encoded.num_nodes).orders[0, :4].tolist() == [3, 1, 2, 0]


def test_eight_identical_unrelated_rooms_have_one_order(monkeypatch):
    """Interchangeable rooms never reach the exact search, so eight or fifty cost nothing."""
    monkeypatch.setattr(canonical, "label_canonically", None)
    for n in (8, 50):
        vocab = VocabConfig(n_max=n)
        encoded = encode([BubbleDiagram((3,) * n, ())], vocab)
        found = canonical_orders(encoded.x0, encoded.num_nodes, vocab)
        assert found.log_num_orders.tolist() == [0.0]


def test_twins_are_counted_apart_from_other_symmetries():
    """Two balconies on each of two bedrooms that mirror each other: |Aut| = 2! 2! 2."""
    encoded = encode(
        [BubbleDiagram((7, 7, 9, 9, 9, 9), ((0, 2, 5), (0, 3, 5), (1, 4, 5), (1, 5, 5)))]
    )
    found = canonical_orders(encoded.x0, encoded.num_nodes)
    assert math.isclose(found.log_num_orders[0].exp(), math.factorial(6) / 8, rel_tol=1e-12)


def test_related_rooms_are_no_twins_unless_the_relation_is_symmetric():
    left_of = encode([BubbleDiagram((7, 7), ((0, 1, 2),))])
    assert canonical_orders(left_of.x0, left_of.num_nodes).log_num_orders[0] == math.log(2)
    bonded = VocabConfig(n_max=2, node_types=("C",), edge_types=("single", "none"))
    x0 = torch.tensor([[0, 0, bonded.edge_offset]])
    assert canonical_orders(x0, torch.tensor([2]), bonded).log_num_orders[0] == 0


@pytest.mark.slow
@given(st.lists(diagrams(max_rooms=6, num_types=2, edge_codes=(10, 2, 7)), min_size=1, max_size=4))
def test_hash_collisions_cost_only_time(some):
    """With a hash that collides always, order and count are still exact."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(canonical, "_mix_bits", lambda values: np.zeros_like(values))
        encoded = encode(some)
        orders = random_orders(encoded.num_nodes, 8, make_generator(2))
        moved = relabel(encoded.x0, encoded.num_nodes, orders)
        collided = canonical_orders(encoded.x0, encoded.num_nodes)
        again = canonical_tokens(moved, encoded.num_nodes)
        assert torch.equal(relabel(encoded.x0, encoded.num_nodes, collided.orders), again)
    exact = canonical_orders(encoded.x0, encoded.num_nodes).log_num_orders
    torch.testing.assert_close(collided.log_num_orders, exact, rtol=1e-12, atol=1e-12)


def test_tokens_that_are_not_clean_are_refused():
    encoded = encode([BubbleDiagram((0, 1), ())])
    encoded.x0[0, 8] = 13
    with pytest.raises(ValueError, match="sample 0, position 8"):
        canonical_orders(encoded.x0, encoded.num_nodes)


def test_an_empty_batch_is_empty():
    found = canonical_orders(torch.zeros(0, 36, dtype=torch.long), torch.zeros(0).long())
    assert found.orders.shape == (0, 8)
    assert found.log_num_orders.shape == (0,)
