from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest
import torch

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.data import canonical_orders, relabel
from discrete_diffusion.layout import VocabConfig
from floor_plans import PartialDiagram, encode, generate_plans
from floor_plans.diagrams.partial import encode_partial
from floor_plans.learning.arrangements import ArrangementTree, as_numbered

VOCAB = VocabConfig(n_max=6)


def grown(partial, vocab=VOCAB, steps=None):
    """The tree and the arrangements after so many of its steps; after all, with every room."""
    tree = ArrangementTree(partial, vocab)
    found = tree.root()
    for step in range(len(tree.steps) if steps is None else steps):
        choices = tree.choices(found, step)
        found = choices.extend(found, torch.arange(len(choices)))
    return tree, (tree.filled(found) if steps is None else found)


def led_to(partial, orders, vocab=VOCAB):
    tokens, num = encode_partial([partial], vocab), len(orders)
    num_rooms = torch.full((num,), partial.num_rooms)
    return relabel(tokens.expand(num, -1), num_rooms, orders, vocab)


def rows(tokens):
    return Counter(tuple(row) for row in tokens.tolist())


@pytest.mark.parametrize(
    ("partial", "symmetries"),
    [
        (PartialDiagram((3, 0, 2, 1, 5), ((0, 1, 2),)), 1),  # one way only
        (PartialDiagram((7, 0, 7, 7), ((0, 1, 2), (2, 3, 4))), 1),
        (PartialDiagram((None, 0, 7, None, 7), ((0, 4, 2),)), 1),
        (PartialDiagram((None,) * 5, ((0, 1, 3), (1, 2, 3))), 1),
        (PartialDiagram((None,) * 4, ()), 1),
        (PartialDiagram((None, None, 9), ((0, 2, 2), (1, 2, 2))), 2),  # rooms 0 and 1 are alike
        (PartialDiagram((None,) * 5, ((0, 1, 10), (2, 3, 10))), 8),
        (PartialDiagram((9,), ()), 1),
        (PartialDiagram((7,) * 5, ()), 1),
        (PartialDiagram((7, 7, None, 7, None), ((1, 2, 3),)), 1),
    ],
)
def test_all_arrangements_by_brute_force(partial, symmetries):
    n, expected = partial.num_rooms, []
    for permutation in itertools.permutations(range(n)):
        types = [partial.rooms[k] for k in permutation if partial.rooms[k] is not None]
        if types == sorted(types):
            expected.append([*permutation, *range(n, VOCAB.n_max)])
    _, found = grown(partial)
    assert set(rows(found.tokens)) == set(rows(led_to(partial, torch.tensor(expected))))
    assert set(rows(found.tokens).values()) == {symmetries}
    assert torch.equal(led_to(partial, found.orders(VOCAB.n_max)), found.tokens)


def test_the_canonical_order_of_every_completion_is_among_them():
    """Otherwise a model of canonical order could not draw that completion."""
    vocab, generator = VocabConfig(n_max=8), make_generator(1)
    for plan in generate_plans(15, seed=1):
        whole = PartialDiagram.from_diagram(plan)
        partial = PartialDiagram(
            tuple(r if torch.rand((), generator=generator) < 0.8 else None for r in whole.rooms),
            whole.relations[::3],
        )
        encoded = encode([plan], vocab)
        order = canonical_orders(encoded.x0, encoded.num_nodes, vocab).orders
        canonical = relabel(encoded.x0, encoded.num_nodes, order, vocab)
        _, found = grown(partial, vocab)
        fits = ((found.tokens == vocab.mask_id) | (found.tokens == canonical)).all(dim=1)
        assert fits.any()


def test_after_every_step_all_show_the_same_tokens_and_none_is_a_dead_end():
    partial = PartialDiagram((7, None, 0, None, 7, None), ((0, 1, 2), (1, 3, 4), (2, 3, 8)))
    tree, end = grown(partial)
    for steps in range(len(tree.steps)):
        _, found = grown(partial, steps=steps)
        known = (found.tokens != VOCAB.mask_id) & (found.tokens != VOCAB.pad_id)
        assert (known.sum(dim=1) == steps).all()
        assert set(tree.choices(found, steps).parents.tolist()) == set(range(len(found)))
    assert len(end) == math.comb(6, 3) * 2 * 3 * 2  # slots of types, of room 0, of 1 and of 3


def test_relations_that_leave_few_choices_come_first_then_rooms_with_many():
    star = PartialDiagram((None,) * 6, ((0, 1, 3), (2, 3, 3), (3, 4, 3), (3, 5, 2), (4, 5, 2)))
    tree, _ = grown(star, steps=0)
    assert tree.steps == [(3, 4, 3), (3, 5, 2), (4, 5, 2), (2, 3, 3), (0, 1, 3)]
    typed = PartialDiagram((1, None, 7, None, None), ((3, 4, 2), (1, 3, 2), (0, 2, 2), (2, 3, 3)))
    tree, _ = grown(typed, steps=0)
    assert tree.steps == [1, 7, (0, 2, 2), (2, 3, 3), (1, 3, 2), (3, 4, 2)]


def test_many_rooms_that_nothing_tells_apart():
    vocab = VocabConfig(n_max=14)
    lone = PartialDiagram((None,) * 14, ((0, 1, 2),))  # the other twelve cannot be told apart
    assert len(grown(lone, vocab)[1]) == 14 * 13
    assert len(grown(PartialDiagram((7,) * 14, ()), vocab)[1]) == 1
    tied = PartialDiagram((*(7,) * 12, 0, None), ((0, 1, 2), (12, 13, 3)))
    _, found = grown(tied, vocab)
    assert len(found) == 12 * 11 * 14  # where rooms 0 and 1 stand, and where room 13 does
    assert torch.equal(led_to(tied, found.orders(14), vocab), found.tokens)


def test_the_outlook_is_the_mean_over_what_is_left():
    """By brute force, for relations with both rooms in slots, one of them, and none."""
    relations = ((0, 1, 3), (0, 2, 1), (1, 2, 4), (3, 4, 6), (0, 3, 2))
    partial = PartialDiagram((None, None, 5, None, None), relations)
    tree, _ = grown(partial, steps=0)
    logits = torch.randn(200, VOCAB.length, VOCAB.vocab_size, generator=make_generator(0))
    for step in range(1, len(tree.steps)):
        _, found = grown(partial, steps=step)
        log_d0 = logits[: len(found)].double().log_softmax(dim=-1)
        choices = tree.choices(found, step)
        guess = tree.outlook(found, choices, step, log_d0)
        for k in range(0, len(choices), 7):
            parent, slots = int(choices.parents[k]), choices.slots[k].tolist()
            typed = [s for s in range(5) if found.tokens[parent, s] != VOCAB.mask_id]
            expected = 0.0
            for i, j, r in tree.steps[step + 1 :]:
                left = [s for s in range(5) if s not in slots and s not in typed]
                ends = [
                    [slots[e]] if slots[e] >= 0 else (typed if e == 2 else left) for e in (i, j)
                ]
                pairs = [(a, b) for a, b in itertools.product(*ends) if a != b]
                expected += math.log(sum(shown(log_d0[parent], *p, r) for p in pairs) / len(pairs))
            assert float(guess[k]) == pytest.approx(expected, abs=1e-9)
    before = tree.outlook(tree.root(), tree.choices(tree.root(), 0), 0, log_d0[:1])
    assert before.tolist() == [0.0] * 5


def shown(log_d0, a, b, r):
    """D of "the room in slot a has relation r to the room in slot b"."""
    token = r if a < b else VOCAB.edge_inverse[r]
    position = VOCAB.edge_position(min(a, b), max(a, b))
    return math.exp(log_d0[position, VOCAB.edge_offset + token])


def test_the_files_own_numbers():
    partial = PartialDiagram((3, None), ((0, 1, 2),))
    found = as_numbered(partial, VOCAB)
    assert torch.equal(found.tokens, encode_partial([partial], VOCAB))
    assert torch.equal(led_to(partial, found.orders(VOCAB.n_max)), found.tokens)
