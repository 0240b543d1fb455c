"""Chances of briefs: 0 or 1 of finished diagrams, above 0 of what can still be met; and the law of
samples that meet them, against enumeration."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from brief_examples import BRIEFS, KITCHEN, LIVING, PAIRS, VOCAB, all_diagrams

from discrete_diffusion.categorical import effective_number, log_mean, make_generator
from discrete_diffusion.runtime import Shard
from discrete_diffusion.sampling import FirstHitting
from floor_plans import BubbleDiagram, decode, encode
from floor_plans.briefs.brief import Brief, CountRule, Numbers
from floor_plans.briefs.brief_request import BriefPredicate
from floor_plans.briefs.chances import MOST_STATES, BriefConstraint
from floor_plans.briefs.particles import Move, Particles
from floor_plans.briefs.reading import brief_of
from floor_plans.diagrams.vocabulary import ROOM_TYPES
from tabulated_diagrams import tabulated_mdlm
from toy_world import noise_floor, total_variation


@pytest.fixture(scope="module")
def world():
    """A model of half of all diagrams of two and three rooms: algorithm, rows, shares."""
    diagrams = [*all_diagrams(2), *all_diagrams(3)][::4]
    return tabulated_mdlm(diagrams, VOCAB)


@pytest.mark.parametrize("name", [*BRIEFS, *PAIRS])
def test_finished_diagrams_are_judged_as_the_brief_says(name):
    brief = (BRIEFS | PAIRS)[name]
    diagrams = [*all_diagrams(1), *all_diagrams(2), *all_diagrams(3)]
    found = BriefConstraint(brief, VOCAB).met(encode(diagrams, VOCAB).x0)
    assert found.tolist() == [not brief.unmet(diagram) for diagram in diagrams]
    assert 0 < found.double().mean() < 1


@pytest.mark.parametrize("name", BRIEFS)
def test_the_last_token_is_judged_exactly(name):
    """h is 1 or 0 of a finished diagram, for each value of the token that comes last."""
    diagrams = [*all_diagrams(2), *all_diagrams(3)][::3]
    x = encode(diagrams, VOCAB).x0
    constraint = BriefConstraint(BRIEFS[name], VOCAB)
    real = x != VOCAB.pad_id
    log_d0 = torch.full((len(x), VOCAB.length, VOCAB.vocab_size), -3.0)
    for position in range(VOCAB.length):
        rows = real[:, position].nonzero().squeeze(1)
        hidden = x[rows].clone()
        hidden[:, position] = VOCAB.mask_id
        where = torch.full((len(rows),), position)
        found = constraint.log_chances(hidden, where, log_d0[rows])
        for v in VOCAB.layout().support[position].nonzero().squeeze(1).tolist():
            whole = hidden.clone()
            whole[:, position] = v
            assert torch.allclose(found[:, v].exp(), constraint.log_weights(whole).exp())


@pytest.mark.parametrize("name", [*BRIEFS, *PAIRS])
def test_what_can_still_be_met_has_a_chance(name, world):
    _, rows, _ = world
    constraint = BriefConstraint((BRIEFS | PAIRS)[name], VOCAB)
    met = rows[constraint.met(rows)]
    generator = make_generator(0)
    hidden = torch.rand(met.shape, generator=generator) < 0.6
    hidden &= met != VOCAB.pad_id
    hidden[:, 0] = True
    x = met.masked_fill(hidden, VOCAB.mask_id)
    log_d0 = VOCAB.layout().uniform_log_probs().expand(len(x), -1, -1)
    found = constraint.log_chances(x, torch.zeros(len(x), dtype=torch.long), log_d0)
    assert (found[torch.arange(len(x)), met[:, 0]] > -torch.inf).all()


def test_counts_of_independent_rooms_are_exact():
    rules = [
        CountRule(LIVING, Numbers(1, 1)),
        CountRule(KITCHEN, Numbers(0, 1)),
        CountRule(BRIEFS["one or more of a group"].counts[0].kind, Numbers(2)),
    ]
    constraint = BriefConstraint(Brief(counts=rules), VOCAB)
    generator = make_generator(1)
    log_d0 = torch.randn(1, VOCAB.length, VOCAB.vocab_size, generator=generator).double()
    log_d0 = log_d0.masked_fill(~VOCAB.layout().support, -torch.inf).log_softmax(dim=-1)
    x = torch.full((1, VOCAB.length), VOCAB.mask_id)
    found = constraint.log_chances(x, torch.tensor([1]), log_d0).exp()[0]
    p = log_d0[0].exp()
    for v in range(13):
        expected = sum(
            float(p[0, a] * p[2, b])
            for a, b in product(range(13), repeat=2)
            if all(sum(room in r.kind.types for room in (a, v, b)) in r.number for r in rules)
        )
        assert float(found[v]) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", [*BRIEFS, *list(PAIRS)[::4]])
def test_particles_tend_to_the_conditional(name, world):
    """Of the exact network of a tabulated law, with rooms in canonical order."""
    algorithm, rows, prob = world
    constraint = BriefConstraint((BRIEFS | PAIRS)[name], VOCAB)
    three = (rows != VOCAB.pad_id).sum(dim=1) == 6
    rows, prob = rows[three], prob[three] / prob[three].sum()
    law = prob * constraint.met(rows)
    law *= torch.tensor([constraint.brief.preference(diagram) for diagram in decode(rows, VOCAB)])
    p, law = float(law.sum()), law / law.sum()
    num = 1_500
    real = torch.ones(num, VOCAB.length, dtype=torch.bool)
    output = Particles(constraint=constraint).sample(algorithm, real, generator=make_generator(2))
    weights = output.log_weights.exp()
    drawn = output.x0[weights > 0]
    assert constraint.met(drawn).all()
    assert not any(constraint.brief.unmet(diagram) for diagram in decode(drawn, VOCAB))
    assert log_mean(output.log_weights) == pytest.approx(math.log(p), abs=0.15)
    index = (drawn.unsqueeze(1) == rows).all(dim=-1).int().argmax(dim=1)
    share = torch.zeros_like(law).index_add_(0, index, weights[weights > 0])
    num = int(0.3 * effective_number(output.log_weights))
    assert total_variation(share / share.sum(), law) < noise_floor(law, num)


def test_rejection_and_moves_prefer_what_should_be(world):
    """Both by the weights of the rules that hold: of three rooms, against enumeration."""
    algorithm, rows, prob = world
    brief = BRIEFS["what should be"]
    three = (rows != VOCAB.pad_id).sum(dim=1) == 6
    rows, prob = rows[three], prob[three] / prob[three].sum()
    diagrams = decode(rows, VOCAB)
    weights = torch.tensor([brief.preference(diagram) for diagram in diagrams])
    assert {round(float(12 * weight)) for weight in weights} == {1, 3, 4, 12}
    law = prob * weights * torch.tensor([not brief.unmet(diagram) for diagram in diagrams])
    law, num = law / law.sum(), 12_000

    def share(found: torch.Tensor) -> torch.Tensor:
        return torch.bincount(found, minlength=len(law)).double() / len(found)

    drawn = torch.multinomial(prob, num, replacement=True, generator=make_generator(0))
    judge = BriefPredicate(brief, Shard(), entropy=(7,))
    kept = drawn[torch.tensor(judge([diagrams[k] for k in drawn.tolist()]))]
    assert total_variation(share(kept), law) < noise_floor(law, len(kept))
    # moves leave the law as it is
    start = torch.multinomial(law, 4_000, replacement=True, generator=make_generator(1))
    move = Move(FirstHitting(), algorithm, BriefConstraint(brief, VOCAB), share=0.6)
    real = torch.ones(len(start), VOCAB.length, dtype=torch.bool)
    output, accepted = move(rows[start], real, generator=make_generator(2))
    moved = (output.x0.unsqueeze(1) == rows).all(dim=-1).int().argmax(dim=1)
    assert 0.1 < accepted.double().mean() < 1
    assert total_variation(share(moved), law) < noise_floor(law, len(start))


def test_options_of_counts_are_exact():
    """Of rooms that are independent: numbers of which one holds, next to one that always does."""
    constraint = BriefConstraint(BRIEFS["one of two numbers"], VOCAB)
    log_d0 = torch.randn(1, VOCAB.length, VOCAB.vocab_size, generator=make_generator(3)).double()
    log_d0 = log_d0.masked_fill(~VOCAB.layout().support, -torch.inf).log_softmax(dim=-1)
    x = torch.full((1, VOCAB.length), VOCAB.mask_id)
    found, p = constraint.log_chances(x, torch.tensor([2]), log_d0).exp()[0], log_d0[0].exp()
    for v in range(3):
        expected = sum(
            float(p[0, a] * p[1, b])
            for a, b in product(range(13), repeat=2)
            if not constraint.brief.unmet(BubbleDiagram((a, b, v), ()))
        )
        assert float(found[v]) == pytest.approx(expected, abs=1e-5)


def test_options_of_many_counts_keep_the_number_of_states_low():
    """Three options of the same rooms are exact; options of all rooms count as independent."""
    flat = {"Kitchen": 1, "Bathroom": "1-2", "Balcony": 1, "Bedroom": 3, "StudyRoom": 1}
    options = [{"rooms": {**flat, **other}} for other in ({}, {"Bedroom": 2}, {"Balcony": 0})]
    one, most = BriefConstraint(brief_of({"any": options}), VOCAB), dict.fromkeys(ROOM_TYPES, "0-1")
    assert [len(one._either), len(one._counts)] == [0, 1]
    options = [{"rooms": most}, {"rooms": {**most, "Kitchen": "2+"}}]
    many = BriefConstraint(brief_of({"any": options, "should": options[:1]}), VOCAB)
    assert [len(many._either), len(many._counts)] == [1, 0]
    counters = [each for o in many._either for _, counters in o for each in counters]
    assert all(each._next.shape[1] <= MOST_STATES for each in (*one._counts, *counters))
    diagrams = [BubbleDiagram(rooms, ()) for rooms in ((2, 2, 2), (0, 0, 2), (0, 1, 2))]
    expected = [not many.brief.unmet(diagram) for diagram in diagrams]
    assert many.met(encode(diagrams, VOCAB).x0).tolist() == expected == [True, False, True]
