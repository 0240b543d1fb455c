from __future__ import annotations

import itertools

import pytest
import torch

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.data.bubble_diagrams import PartialDiagram, encode, generate_plans
from discrete_diffusion.data.bubble_diagrams.arrangement import as_numbered, sorted_by_type
from discrete_diffusion.data.bubble_diagrams.canonical import canonical_orders
from discrete_diffusion.data.bubble_diagrams.partial import encode_partial
from discrete_diffusion.data.bubble_diagrams.tokens import relabel
from discrete_diffusion.layout import VocabConfig

VOCAB = VocabConfig(n_max=6)


def arranged(partial, vocab=VOCAB, max_rows=10_000, seed=0):
    return sorted_by_type(partial, vocab, max_rows=max_rows, generator=make_generator(seed))


def led_to(partial, orders, vocab=VOCAB):
    encoded, num = encode_partial([partial], vocab), len(orders)
    return relabel(encoded.tokens.expand(num, -1), encoded.num_rooms.expand(num), orders, vocab)


def rows(tokens):
    return {tuple(row) for row in tokens.tolist()}


@pytest.mark.parametrize(
    "partial",
    [
        PartialDiagram((3, 0, 2, 1, 5), ((0, 1, 2),)),  # one way only
        PartialDiagram((7, 0, 7, 7), ((0, 1, 2), (2, 3, 4))),
        PartialDiagram((None, 0, 7, None, 7), ((0, 4, 2),)),
        PartialDiagram((None,) * 5, ((0, 1, 3), (1, 2, 3))),
        PartialDiagram((None,) * 4, ()),
        PartialDiagram((None, None, 9), ((0, 2, 2), (1, 2, 2))),  # rooms 0 and 1 are alike
        PartialDiagram((9,), ()),
        PartialDiagram((7,) * 5, ()),
        PartialDiagram((7, 7, None, 7, None), ((1, 2, 3),)),
    ],
)
def test_all_arrangements_by_brute_force(partial):
    n, expected = partial.num_rooms, []
    for permutation in itertools.permutations(range(n)):
        types = [partial.rooms[k] for k in permutation if partial.rooms[k] is not None]
        if types == sorted(types):
            expected.append([*permutation, *range(n, VOCAB.n_max)])
    found = arranged(partial)
    assert found.are_all
    assert rows(found.tokens) == rows(led_to(partial, torch.tensor(expected)))
    assert len(rows(found.tokens)) == len(found)
    assert torch.equal(led_to(partial, found.orders), found.tokens)


def test_the_canonical_order_of_every_completion_is_among_them():
    """Otherwise a model of canonical order could not draw that completion."""
    vocab, generator = VocabConfig(n_max=8), make_generator(1)
    for plan in generate_plans(60, seed=1):
        whole = PartialDiagram.from_diagram(plan)
        partial = PartialDiagram(
            tuple(r if torch.rand((), generator=generator) < 0.8 else None for r in whole.rooms),
            whole.relations[::3],
        )
        encoded = encode([plan], vocab)
        order = canonical_orders(encoded.x0, encoded.num_rooms, vocab).orders
        canonical = relabel(encoded.x0, encoded.num_rooms, order, vocab)
        found = arranged(partial, vocab)
        fits = ((found.tokens == vocab.mask_id) | (found.tokens == canonical)).all(dim=1)
        assert found.are_all
        assert fits.any()


def test_too_many_arrangements_are_represented_by_a_random_part():
    partial = PartialDiagram((None,) * 6, ((0, 1, 3), (1, 2, 3), (3, 4, 2)))
    everything = arranged(partial)
    part, other = arranged(partial, max_rows=50), arranged(partial, max_rows=50, seed=1)
    assert len(everything) == 720
    assert len(part) == len(other) == 50
    assert not part.are_all
    assert rows(part.tokens) != rows(other.tokens)
    assert rows(part.tokens) | rows(other.tokens) <= rows(everything.tokens)
    assert torch.equal(led_to(partial, part.orders), part.tokens)


def test_more_orders_than_can_be_listed():
    vocab = VocabConfig(n_max=14)
    relations = tuple((k, k + 1, 3) for k in range(13))
    partial = PartialDiagram((0, *(None,) * 6, *(7,) * 7), relations)
    found = arranged(partial, vocab, max_rows=64)
    assert len(found) == 64
    assert not found.are_all
    assert torch.equal(led_to(partial, found.orders, vocab), found.tokens)
    for order in found.orders.tolist():
        types = [partial.rooms[k] for k in order if partial.rooms[k] is not None]
        assert types == sorted(types)
    lone = PartialDiagram((None,) * 14, ((0, 1, 2),))  # the other twelve cannot be told apart
    assert len(arranged(lone, vocab)) == 14 * 13


def test_rooms_that_nothing_tells_apart_are_one_arrangement():
    vocab = VocabConfig(n_max=14)
    equal = arranged(PartialDiagram((7,) * 14, ()), vocab)
    assert (len(equal), equal.are_all) == (1, True)
    tied = PartialDiagram((*(7,) * 12, 0, None), ((0, 1, 2), (12, 13, 3)))
    found = arranged(tied, vocab)
    assert found.are_all
    assert len(found) == 12 * 11 * 14  # where rooms 0 and 1 stand, and where room 13 does
    assert torch.equal(led_to(tied, found.orders, vocab), found.tokens)


def test_drawn_orders_are_uniform():
    """Each of 28 kinds of place for two known rooms among eight, far beyond what is listed."""
    relations = tuple((i, j, 2) for i in range(8) for j in range(i + 1, 8))
    partial = PartialDiagram((0, 1, *(None,) * 6), relations)
    found = arranged(partial, VocabConfig(n_max=8), max_rows=2000)
    slots = (found.tokens[:, :8] < 13).nonzero()[:, 1].reshape(-1, 2)
    share = torch.bincount(slots[:, 0] * 8 + slots[:, 1], minlength=64)
    share = share[share > 0] / len(found)
    assert len(share) == 28
    assert (share - 1 / 28).abs().max() < 5 * (1 / 28 / len(found)) ** 0.5


def test_the_files_own_numbers():
    partial = PartialDiagram((3, None), ((0, 1, 2),))
    found = as_numbered(partial, VOCAB)
    assert torch.equal(found.tokens, encode_partial([partial], VOCAB).tokens)
    assert torch.equal(led_to(partial, found.orders), found.tokens)
