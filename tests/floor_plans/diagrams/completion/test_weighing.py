"""Weights of arrangements: exact, and right on average where only some are kept."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest
import torch

from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.cli import compose
from discrete_diffusion.data import canonical_orders, relabel
from discrete_diffusion.layout import VocabConfig
from floor_plans import PartialDiagram, encode, generate_plans
from floor_plans.diagrams.partial import encode_partial
from floor_plans.learning.arrangements import ArrangementTree, as_numbered
from floor_plans.learning.weighing import Arranger, list_arrangements, thin_rows, weigh_arrangements
from tabulated_diagrams import misleading_mdlm, random_diagrams, tabulated_mdlm

VOCAB = VocabConfig(n_max=4)
MODEL, ROWS, PROB = tabulated_mdlm(random_diagrams(90, 4, seed=1), VOCAB)
PARTIALS = [
    PartialDiagram((None,) * 4, ((0, 1, 3), (1, 2, 2))),
    PartialDiagram((1, None, None, None), ((0, 1, 3), (2, 3, 6))),
    PartialDiagram((2, 1, 2, None), ((0, 1, 7), (2, 3, 3))),
    PartialDiagram((None, 1, 1, None), ((1, 2, 10), (0, 1, 2), (2, 3, 7))),
]


def weighed(partial, seed=0, max_scored=10**6, max_kept=None, model=MODEL, batch_size=512):
    return weigh_arrangements(
        model,
        ArrangementTree(partial, VOCAB),
        max_scored=max_scored,
        max_kept=max_kept,
        batch_size=batch_size,
        generator=make_generator(seed),
    )


def exact(tokens):
    """Z of partial tokens Int[R, L], by enumeration."""
    fits = (tokens.unsqueeze(1) == VOCAB.mask_id) | (tokens.unsqueeze(1) == ROWS)
    return fits.all(dim=-1).double() @ PROB


@pytest.mark.parametrize("partial", PARTIALS)
def test_all_arrangements_weigh_what_the_model_says_of_them(partial):
    found = weighed(partial)
    assert found.error is None
    torch.testing.assert_close(found.log_weights.exp(), exact(found.arrangements.tokens))
    in_parts = weighed(partial, batch_size=2)
    torch.testing.assert_close(in_parts.log_weights, found.log_weights)
    assert in_parts.num_scored == found.num_scored
    assert in_parts.num_batches > found.num_batches


def test_what_all_have_in_common_and_the_last_choice_cost_no_call():
    assert weighed(PartialDiagram((2, 1, 0, 1), ())).num_scored == 0
    one = weighed(PartialDiagram((2, 1, 0, None), ()))
    assert (len(one.arrangements), one.num_scored, one.num_batches) == (4, 1 + 2 + 3, 3)
    assert weighed(PartialDiagram((None,) * 4, ((0, 1, 3),))).num_scored == 1
    assert weighed(PartialDiagram((None,) * 4, ((0, 1, 3), (1, 2, 2)))).num_scored == 1 + 12


@pytest.mark.parametrize("partial", PARTIALS)
@pytest.mark.parametrize("max_scored", [1, 8, 13, 30])
def test_no_more_is_shown_than_allowed_but_for_one_per_token(partial, max_scored):
    found = weighed(partial, max_scored=max_scored)
    num_steps = len(ArrangementTree(partial, VOCAB).steps)
    assert found.num_scored <= max(max_scored, num_steps)
    assert found.num_batches <= num_steps
    if found.error is None:
        assert len(found.arrangements) == len(weighed(partial).arrangements)


@pytest.mark.slow
@pytest.mark.parametrize(("partial", "max_kept"), [(PARTIALS[0], 2), (PARTIALS[1], 3)])
def test_those_kept_weigh_for_all_on_average(partial, max_kept):
    every = weighed(partial).arrangements
    row_of = {tuple(slots): k for k, slots in enumerate(every.slots.tolist())}
    seeds, z = 150, exact(every.tokens)
    weights = torch.zeros(seeds, len(every), dtype=torch.float64)
    errors = torch.zeros(seeds, dtype=torch.float64)
    for seed in range(seeds):
        found = weighed(partial, seed, max_kept=max_kept)
        rows = [row_of[tuple(slots)] for slots in found.arrangements.slots.tolist()]
        weights[seed].index_add_(0, torch.tensor(rows), found.log_weights.exp())
        errors[seed] = found.error
    difference, chance = weights.mean(dim=0) - z, weights.std(dim=0) / seeds**0.5
    assert (difference.abs() <= 4 * chance + 0.01 * z.max()).all()
    assert (weights > 0).any(dim=0)[z > 0.1 * z.max()].all()
    total = weights.sum(dim=1) / z.sum()
    assert abs(float(total.mean()) - 1) < 4 * float(total.std()) / seeds**0.5
    assert 0.5 < float(errors.square().mean().sqrt() / total.std()) < 2
    if partial == PARTIALS[0]:  # 0.15; without an outlook 0.5
        assert total.std() < 0.3


@pytest.mark.parametrize(("max_kept", "expected"), [(2, 0.8**0.5 * 0.2 / 0.22), (3, 0.0)])
def test_the_error_of_what_is_kept(max_kept, expected):
    """One of weight 0.02 for certain, and one or two of 0.2 together, with a chance of 0.2 or 0.4:
    whichever the two are they weigh the same."""
    model, partial, vocab = misleading_mdlm()
    tree, options = ArrangementTree(partial, vocab), {"max_scored": 0, "batch_size": 9}
    found = weigh_arrangements(
        model, tree, max_kept=max_kept, generator=make_generator(0), **options
    )
    assert len(found.arrangements) == max_kept
    assert float(found.log_weights.exp().sum()) == pytest.approx(0.22 / 0.97)
    assert found.error == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
def test_the_error_of_those_that_are_weighed_after_they_were_listed():
    """For noise that is not absorbing, whose network weighs whole arrangements."""
    vocab = VocabConfig(n_max=4)
    config = compose("train", ["algo=udlm", "model=bd_tiny", "data.max_nodes=4"])
    algorithm = build_algorithm(config).eval()
    with torch.no_grad():
        generator = make_generator(0)
        for parameter in algorithm.parameters():
            noise = torch.empty_like(parameter).normal_(generator=generator)
            parameter.copy_(noise / parameter.shape[-1] ** 0.5)
    totals, errors = [], []
    for seed in range(60):
        listed = list_arrangements(ArrangementTree(PARTIALS[0], vocab), 5, make_generator(seed))
        assert listed.error == pytest.approx(0, abs=1e-6)  # of the numbers of arrangements
        arranger = Arranger(algorithm, vocab, "canonical", None, 64, torch.device("cpu"), 1)
        found = arranger.weigh(listed, make_generator(0))
        totals.append(float(found.log_weights.exp().sum()))
        errors.append(found.error)
    total = torch.tensor(totals)
    relative = float(total.std() / total.mean())
    assert relative > 0.05
    assert 0.5 < float(torch.tensor(errors).square().mean().sqrt()) / relative < 2


def test_arrangements_are_listed_alike():
    partial = PARTIALS[0]
    tree = ArrangementTree(partial, VOCAB)
    every = list_arrangements(tree, 24, make_generator(0))
    assert (len(every.arrangements), every.error) == (24, None)
    assert every.log_weights.tolist() == [0.0] * 24
    counts = torch.zeros(4, 4)
    for seed in range(150):
        some = list_arrangements(tree, 5, make_generator(seed))
        assert some.error is not None
        assert some.log_weights.exp().sum() == pytest.approx(24, rel=0.3)
        counts[some.arrangements.slots[:, 0], some.arrangements.slots[:, 1]] += 1
    share = counts[~torch.eye(4, dtype=torch.bool)] / counts.sum()
    assert (share - 1 / 12).abs().max() < 0.03


def test_logits_that_are_nan_are_told_before_arrangements_are_chosen():
    model, _, _ = tabulated_mdlm(random_diagrams(9, 4, seed=1), VOCAB)
    model.backbone.register_forward_hook(lambda *call: call[-1] * torch.nan)
    with pytest.raises(ValueError, match=r"TabulatedBackbone\.forward.*NaN or infinite logits"):
        weighed(PARTIALS[0], max_kept=2, model=model)


@pytest.mark.slow
def test_thinned_rows_stand_for_all_on_average():
    """Over the one random number that is drawn: kept so often, and weighing what is told."""
    generator = make_generator(3)
    weights = torch.tensor([5.0, 0.1, 0.0, 0.7, 0.4, 0.2, 3.0, 0.3, 0.1], dtype=torch.float64)
    seeds, log_weights = 1500, weights.log() - 700  # far below what exp could hold
    kept, total = torch.zeros(seeds, 9).double(), torch.zeros(seeds, 9).double()
    for seed in range(seeds):
        thinned = thin_rows(log_weights, 4, generator)
        assert thinned.rows.tolist() == sorted(set(thinned.rows.tolist()))
        assert len(thinned.rows) == 4
        kept[seed, thinned.rows] = 1
        total[seed, thinned.rows] = (log_weights[thinned.rows] - thinned.log_chances + 700).exp()
    c = weights[[1, 3, 4, 5, 7, 8]].sum() / 2  # two of these six beside the two heavy ones
    chances = (weights / c).clamp(max=1)
    assert float(chances.sum()) == pytest.approx(4)
    assert (kept.mean(dim=0) - chances).abs().max() < 4 * 0.5 / seeds**0.5
    assert (total.mean(dim=0) - weights).abs().max() < 4 * float(c) * 0.5 / seeds**0.5
    torch.testing.assert_close(total[:, [0, 6]], weights[[0, 6]].expand(seeds, 2))


def test_few_rows_are_all_kept_and_rows_of_weight_0_are_not():
    generator = make_generator(0)
    few = thin_rows(torch.tensor([0.0, -3.0]).double(), 2, generator)
    assert (few.rows.tolist(), few.log_chances.tolist()) == ([0, 1], [0.0, 0.0])
    nothing = float("-inf")
    mostly_none = torch.tensor([nothing, 1.0, nothing, 2.0, nothing], dtype=torch.float64)
    for num in (2, 3, 4):
        thinned = thin_rows(mostly_none, num, generator)
        assert (thinned.rows.tolist(), thinned.log_chances.tolist()) == ([1, 3], [0.0, 0.0])
    alike = thin_rows(torch.zeros(1000).double(), 250, generator)
    assert (alike.rows.diff() == 4).all()
    torch.testing.assert_close(alike.log_chances.exp(), torch.full((250,), 0.25).double())


def test_thinning_takes_of_neighbours_in_proportion():
    weights = torch.rand(400, generator=make_generator(1), dtype=torch.float64)
    expected = 40 * weights[:200].sum() / weights.sum()
    for seed in range(5):
        kept = thin_rows(weights.log(), 40, make_generator(seed)).rows
        assert abs((kept < 200).sum() - expected) < 1


SIX_ROOMS = VocabConfig(n_max=6)


def grown(partial, vocab=SIX_ROOMS, steps=None):
    """The tree and the arrangements after so many of its steps; after all, with every room."""
    tree = ArrangementTree(partial, vocab)
    found = tree.root()
    for step in range(len(tree.steps) if steps is None else steps):
        choices = tree.choices(found, step)
        found = choices.extend(found, torch.arange(len(choices)))
    return tree, (tree.filled(found) if steps is None else found)


def led_to(partial, orders, vocab=SIX_ROOMS):
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
            expected.append([*permutation, *range(n, SIX_ROOMS.n_max)])
    _, found = grown(partial)
    assert set(rows(found.tokens)) == set(rows(led_to(partial, torch.tensor(expected))))
    assert set(rows(found.tokens).values()) == {symmetries}
    assert torch.equal(led_to(partial, found.orders(SIX_ROOMS.n_max)), found.tokens)


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
        known = (found.tokens != SIX_ROOMS.mask_id) & (found.tokens != SIX_ROOMS.pad_id)
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
    logits = torch.randn(200, SIX_ROOMS.length, SIX_ROOMS.vocab_size, generator=make_generator(0))
    for step in range(1, len(tree.steps)):
        _, found = grown(partial, steps=step)
        log_d0 = logits[: len(found)].double().log_softmax(dim=-1)
        choices = tree.choices(found, step)
        guess = tree.outlook(found, choices, step, log_d0)
        for k in range(0, len(choices), 7):
            parent, slots = int(choices.parents[k]), choices.slots[k].tolist()
            typed = [s for s in range(5) if found.tokens[parent, s] != SIX_ROOMS.mask_id]
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
    token = r if a < b else SIX_ROOMS.edge_inverse[r]
    position = SIX_ROOMS.edge_position(min(a, b), max(a, b))
    return math.exp(log_d0[position, SIX_ROOMS.edge_offset + token])


def test_the_files_own_numbers():
    partial = PartialDiagram((3, None), ((0, 1, 2),))
    found = as_numbered(partial, SIX_ROOMS)
    assert torch.equal(found.tokens, encode_partial([partial], SIX_ROOMS))
    assert torch.equal(led_to(partial, found.orders(SIX_ROOMS.n_max)), found.tokens)
