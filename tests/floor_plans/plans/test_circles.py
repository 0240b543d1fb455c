"""Which relations ``NoCircles`` excludes: those that close a circle, and no other."""

from __future__ import annotations

from itertools import combinations, product

import networkx as nx
import numpy as np
import pytest
import torch
from all_boxes import triples_of_all_boxes

from discrete_diffusion.layout import RELATION_X_ORDER, RELATION_Y_ORDER, VocabConfig
from floor_plans.plans.box_model import BoxRule
from floor_plans.plans.buildable import NoCircles

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
