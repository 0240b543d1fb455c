"""Rejection of 100,000 samples of an exact network, against enumeration: for every kind of rule and
pairs of kinds what is kept is the model's law given the brief. One set of samples serves all."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
import torch
from brief_examples import BRIEFS, PAIRS, VOCAB, all_diagrams

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.runtime import Shard
from discrete_diffusion.sampling import build_sampler
from floor_plans import BubbleDiagram, decode
from floor_plans.briefs.brief import Brief, Numbers
from floor_plans.briefs.brief_request import BriefPredicate
from floor_plans.plans.buildable import Accepted, DrawnDiagram, accept_samples
from tabulated_diagrams import tabulated_mdlm
from toy_world import noise_floor, total_variation

pytestmark = pytest.mark.slow

NUM, AT_ONCE = 100_000, 20_000
NUMBERS = {"two rooms": Numbers(2, 2), "three rooms or more": Numbers(3)}
ALL: dict[str, Brief] = {
    **{name: Brief(num_rooms=number) for name, number in NUMBERS.items()},
    **BRIEFS,
    **{f"{a}, {b}": replace(BRIEFS[b], num_rooms=NUMBERS[a]) for a in NUMBERS for b in BRIEFS},
    **PAIRS,
}


@dataclass(frozen=True)
class World:
    """``diagrams``: all there are, of probability Float64[K]; ``drawn``: what the model drew, each
    one of these objects."""

    diagrams: list[BubbleDiagram]
    prob: torch.Tensor
    drawn: list[DrawnDiagram]

    def law(self, drawn: list[DrawnDiagram]) -> torch.Tensor:
        """Float64[K]: how often each diagram is there."""
        row = {id(diagram): k for k, diagram in enumerate(self.diagrams)}
        rows = torch.tensor([row[id(each.diagram)] for each in drawn])
        return torch.bincount(rows, minlength=len(row)).double() / len(drawn)


@pytest.fixture(scope="module")
def world() -> World:
    """Sizes come as often as in the world, as they come of a checkpoint's training data."""
    algorithm, rows, prob = tabulated_mdlm([*all_diagrams(2), *all_diagrams(3)[::5]], VOCAB)
    of_size = rows != VOCAB.pad_id
    generator = make_generator(11)
    sampler, x = build_sampler({"name": "first-hitting"}), []
    for k in range(NUM // AT_ONCE):
        sizes = torch.multinomial(prob, AT_ONCE, replacement=True, generator=make_generator(12, k))
        x.append(sampler.sample(algorithm, of_size[sizes], generator=generator).x0)
    both, which = torch.cat([rows, *x]).unique(dim=0, return_inverse=True)
    assert len(both) == len(rows)  # nothing was drawn that the world has not
    place = torch.empty(len(rows), dtype=torch.long)
    place[which[: len(rows)]] = torch.arange(len(rows))
    each = [DrawnDiagram(diagram, 1) for diagram in decode(rows, VOCAB)]
    drawn = [each[k] for k in place[which[len(rows) :]].tolist()]
    return World([one.diagram for one in each], prob, drawn)


def test_samples_without_a_brief_are_those_of_the_world(world):
    assert total_variation(world.law(world.drawn), world.prob) < noise_floor(world.prob, NUM)


@pytest.mark.parametrize("name", ALL)
def test_what_rejection_keeps_is_the_conditional(name, world):
    brief = ALL[name]
    met = torch.tensor([not brief.unmet(diagram) for diagram in world.diagrams])
    p = float(world.prob[met].sum())
    assert 0 < p < 1
    law = world.prob * met / p
    answers = BriefPredicate(brief, Shard())(world.diagrams)
    verdicts = dict(zip(map(id, world.diagrams), answers, strict=True))
    start = 0

    def draw(turn: int, num: int) -> list[DrawnDiagram]:
        nonlocal start
        start += num
        return world.drawn[start - num : start]

    def judge(diagrams):
        return [verdicts[id(diagram)] for diagram in diagrams]

    kept = accept_samples(draw, judge, Accepted(NUM, "meet the brief"), max_tries=1, remedy="")
    assert kept.num_drawn == NUM
    assert abs(kept.acceptance - p) < 4.5 * math.sqrt(p * (1 - p) / NUM)
    found = world.law(kept.samples)
    assert float(found[~met].sum()) == 0
    assert total_variation(found, law) < noise_floor(law, len(kept.samples))
