"""Samples that have a plan: rejection, and relations that close a circle."""

from __future__ import annotations

import logging
from itertools import combinations, product
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from all_boxes import triples_of_all_boxes

from discrete_diffusion import load
from discrete_diffusion.layout import RELATION_X_ORDER, RELATION_Y_ORDER, VocabConfig
from discrete_diffusion.runtime import Shard, Stop
from floor_plans import generate_plans
from floor_plans.plans import buildable
from floor_plans.plans.box_model import BoxRule
from floor_plans.plans.buildable import DrawnDiagram, NoCircles, keep_buildable
from floor_plans.plans.verdict import have_plans
from plan_examples import CIRCLE

pytest.importorskip("ortools", reason="OR-Tools decides which diagrams have a plan")


PLANS = generate_plans(3, seed=1)
POOL = [*PLANS, CIRCLE]
SHARE = [0.1, 0.2, 0.3, 0.4]


def drawing(seed=0, calls=10):
    """A model of three plans and a circle, and what it has drawn so far."""
    drawn = []

    def draw(turn, num):
        rows = np.random.default_rng([seed, turn]).choice(4, size=num, p=SHARE)
        new = [DrawnDiagram(POOL[row], calls) for row in rows]
        drawn.extend(new)
        return new

    return draw, drawn


def test_the_first_ones_that_have_a_plan_are_kept_in_their_order():
    draw, drawn = drawing()
    told = []
    kept = keep_buildable(draw, 50, on_kept=told.extend)
    fit = [each for each in drawn if each.diagram != CIRCLE]
    assert kept.samples == told == fit[:50]
    assert kept.num_drawn == len(drawn)
    assert kept.num_fit == len(fit)
    assert kept.acceptance == len(fit) / len(drawn)
    assert kept.facts["network_calls_per_sample"] == 10 * len(drawn) / 50
    assert kept.num_undecided == 0


@pytest.mark.slow
def test_they_are_distributed_as_what_is_drawn_given_a_plan(monkeypatch):
    monkeypatch.setattr(buildable, "_MOST_AT_ONCE", 700)
    kept = keep_buildable(drawing(seed=3)[0], 6000).samples
    counts = np.array([sum(each.diagram is plan for each in kept) for plan in PLANS])
    law = np.array(SHARE[:3]) / 0.6
    assert np.abs(counts / 6000 - law).max() < 4.5 * np.sqrt(0.25 / 6000)


def test_as_few_are_drawn_as_should_do():
    kept = keep_buildable(drawing(seed=5)[0], 400)
    assert len(kept.samples) == 400
    assert kept.num_drawn < 1.3 * 400 / 0.6


def test_tries_end_with_a_sentence_and_what_is_kept(caplog):
    pool = iter([*PLANS[:2], *[CIRCLE] * 400])
    with caplog.at_level(logging.INFO):
        kept = keep_buildable(
            lambda _, num: [DrawnDiagram(next(pool), 1) for _ in range(num)], 5, max_tries=7
        )
    assert [each.diagram for each in kept.samples] == PLANS[:2]
    assert kept.num_drawn == 35
    assert "2 of 5 samples: 5.7 % of 35 drawn samples have a plan" in caplog.text
    assert "max_tries=7" in caplog.text
    with pytest.raises(ValueError, match=r"no sample .* 0\.0 % of 15 drawn .*max_tries=3"):
        keep_buildable(lambda _, num: [DrawnDiagram(CIRCLE, 1)] * num, 5, max_tries=3)


def test_what_is_not_decided_is_rejected_and_counted(caplog):
    with pytest.raises(ValueError, match="4 undecided, rejected"):
        keep_buildable(
            lambda _, num: [DrawnDiagram(PLANS[0], 1)] * num, 2, max_tries=2, effort=1e-9
        )


def test_each_diagram_is_decided_once_whatever_its_numbering(monkeypatch):
    asked = []

    def counting(diagrams, **options):
        asked.extend(diagrams)
        return have_plans(diagrams, **options)

    monkeypatch.setattr(buildable, "have_plans", counting)
    other = PLANS[0].relabelled(range(PLANS[0].num_rooms)[::-1])
    pool = [PLANS[0], CIRCLE, other, CIRCLE.relabelled([2, 0, 1]), PLANS[1], other] * 9
    kept = keep_buildable(lambda turn, num: [DrawnDiagram(d, 1) for d in pool[:num]], 9)
    assert len(kept.samples) == 9
    assert len(asked) == 3


def test_processes_that_share_the_verdicts_keep_the_same():
    alone = keep_buildable(drawing()[0], 9)

    class Two(Shard):
        def map(self, function, items):
            return [function(item) for item in items]

    assert keep_buildable(drawing()[0], 9, shard=Two(0, 2)) == alone


def test_a_stop_leaves_what_is_kept(caplog):
    draw, _ = drawing()

    def stopped(turn, num):
        if turn == 1:
            raise Stop(2)
        return draw(turn, num)

    kept = keep_buildable(stopped, 50)
    assert "max_tries=" not in caplog.text  # they did not end it
    assert 0 < len(kept.samples) < 50
    assert kept.num_drawn == 50

    def cut(turn, num):
        assert turn == 0
        return draw(0, 50)[:30]

    assert keep_buildable(cut, 50).num_drawn == 30
    with pytest.raises(Stop):
        keep_buildable(lambda turn, num: stopped(1, num), 50)


@pytest.mark.slow
def test_the_command_draws_until_there_are_enough(sampled, untrained, capsys):
    words = ["num_samples=12", "num_rooms=3", "threads=1"]
    found, metrics = sampled("built", *words, "buildable=true")
    said = capsys.readouterr().out
    assert len(found) == 12
    assert have_plans(found) == [True] * 12
    assert metrics["num_samples"] == 12
    assert metrics["num_drawn"] > 12
    assert f"{100 * metrics['acceptance']:.1f} % of {metrics['num_drawn']} drawn samples" in said
    plain, _ = sampled("plain", *words)
    fit = [d for d, answer in zip(plain, have_plans(plain), strict=True) if answer]
    assert fit == found[: len(fit)]
    assert load(untrained).sample(12, rooms=3, buildable=True) == found


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["buildable=perhaps"], "buildable=perhaps: expected one of false, true, nar"),
        (["max_tries=3"], "max_tries=3 is for buildable="),
        (["buildable=true", "max_tries=0"], "max_tries=0"),
        (["buildable=true", "trajectory=2"], "trajectory=2 does not go with buildable=true"),
        (["buildable=narrowing", "given=p.jsonl"], "given=p.jsonl does not go with buildable=nar"),
    ],
)
def test_what_does_not_go_together_is_refused(sampled, capsys, words, named):
    Path("p.jsonl").write_text('{"rooms": [null, 1]}\n')
    with pytest.raises(SystemExit):
        sampled("built", *words)
    assert named in capsys.readouterr().err


NESTING = (0, 0, 0, 0, -1, 1, 0, 0, 0, 0, 0)
UNKNOWN = -1


def runs_in_a_circle(codes: dict[tuple[int, int], int]) -> bool:
    """By networkx, on any of the three orders."""
    for order in (RELATION_X_ORDER, RELATION_Y_ORDER, NESTING):
        graph = nx.DiGraph()
        for (i, j), code in codes.items():
            if order[code]:
                graph.add_edge(*((i, j) if order[code] < 0 else (j, i)))
        if not nx.is_directed_acyclic_graph(graph):
            return True
    return False


def tokens_of(vocab: VocabConfig, num_rooms: int, codes: dict[tuple[int, int], int]):
    """Int[L]: rooms and pairs MASK, but for the ``codes``."""
    real = vocab.real_positions(torch.tensor([num_rooms]))[0]
    x = torch.where(real, vocab.mask_id, vocab.pad_id)
    for pair, code in codes.items():
        x[vocab.edge_position(*pair)] = vocab.edge_offset + code
    return x


def test_of_three_rooms_every_relation_that_closes_a_circle_is_excluded():
    """All states of two known pairs, and of one."""
    vocab = VocabConfig(n_max=3)
    narrowing = NoCircles(vocab)
    pairs = list(combinations(range(3), 2))
    excluded = 0
    for last in pairs:
        others = [pair for pair in pairs if pair != last]
        states = [
            {p: c for p, c in zip(others, codes, strict=True) if c != UNKNOWN}
            for codes in product(range(UNKNOWN, 11), repeat=2)
        ]
        x = torch.stack([tokens_of(vocab, 3, state) for state in states])
        position = torch.full((len(x),), vocab.edge_position(*last))
        allowed = narrowing.support(x, position)[:, vocab.edge_offset :][:, :11].tolist()
        for state, row in zip(states, allowed, strict=True):
            expected = [not runs_in_a_circle({**state, last: code}) for code in range(11)]
            assert row == (expected if not runs_in_a_circle(state) else row)
            excluded += expected.count(False)
    assert excluded > 100


@pytest.mark.slow
def test_of_more_rooms_too_and_rooms_are_free():
    vocab, rng = VocabConfig(n_max=6), np.random.default_rng(0)
    narrowing, excluded = NoCircles(vocab), 0
    for _ in range(40):
        num_rooms = int(rng.integers(4, 7))
        pairs = list(combinations(range(num_rooms), 2))
        codes: dict[tuple[int, int], int] = {}
        for k in rng.permutation(len(pairs)).tolist():
            x = tokens_of(vocab, num_rooms, codes).unsqueeze(0)
            position = torch.tensor([vocab.edge_position(*pairs[k])])
            allowed = narrowing.support(x, position)[0, vocab.edge_offset :][:11]
            fit = [not runs_in_a_circle({**codes, pairs[k]: code}) for code in range(11)]
            assert allowed.tolist() == fit
            excluded += fit.count(False)
            codes[pairs[k]] = int(rng.choice(np.flatnonzero(fit)))
        assert narrowing.support(x, torch.tensor([0])).all()
    assert excluded > 300


@pytest.mark.parametrize("rule", [BoxRule(grid=4, threshold=0, min_side=1, max_aspect=2)])
def test_nothing_that_can_be_built_runs_in_a_circle(rule):
    pairs = list(combinations(range(3), 2))
    buildable = triples_of_all_boxes(rule, buildable=True)
    assert buildable
    for codes in buildable:
        assert not runs_in_a_circle(dict(zip(pairs, codes, strict=True)))
