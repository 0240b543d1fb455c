"""Looking ahead: a relation is refused if and only if no completion has a plan."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from all_boxes import (
    boxes_of_grid,
    codes_of_pairs,
    diagram_of,
    free_sides_around,
    is_apart,
    triples_of_all_boxes,
)

from discrete_diffusion import load
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.sampling import build_sampler
from floor_plans import decode
from floor_plans.diagrams.vocabulary import INSIDE, SURROUNDING
from floor_plans.plans.box_model import BoxRule
from floor_plans.plans.buildable import LookAhead, codes_of_boxes
from floor_plans.plans.verdict import have_plans
from tabulated_diagrams import tabulated_mdlm

pytest.importorskip("ortools", reason="OR-Tools decides which diagrams have a plan")

RULE = BoxRule(grid=4, threshold=0, min_side=1, max_aspect=2)
VOCAB = VocabConfig(n_max=3)
PAIRS = list(combinations(range(3), 2))


def tokens_of(codes: dict[tuple[int, int], int]) -> torch.Tensor:
    """Int[L]: three rooms, MASK but for the pairs of ``codes``."""
    x = torch.full((VOCAB.length,), VOCAB.mask_id)
    for pair, code in codes.items():
        x[VOCAB.edge_position(*pair)] = VOCAB.edge_offset + code
    return x


@pytest.mark.slow
def test_codes_of_boxes_are_those_that_a_diagram_with_such_boxes_may_have():
    boxes = boxes_of_grid(RULE)
    first, second = codes_of_pairs(boxes, RULE.threshold)
    apart, within = is_apart(boxes), free_sides_around(boxes, RULE) > 0
    seen = set()
    for a, b in np.argwhere(apart | within | within.T).tolist():
        found = set(np.flatnonzero(codes_of_boxes((tuple(boxes[a]), tuple(boxes[b])), RULE)[0, 1]))
        expected = {int(first[a, b]), int(second[a, b])} if apart[a, b] else set()
        expected |= {INSIDE} if within[a, b] else set()
        expected |= {SURROUNDING} if within[b, a] else set()
        assert found == expected
        seen |= found
    assert len(seen) == 11


@pytest.mark.slow
def test_a_relation_is_refused_if_and_only_if_no_completion_has_a_plan():
    """Random relations of three rooms, one after the other; those that are refused are replaced."""
    possible, rng = triples_of_all_boxes(RULE, buildable=True), np.random.default_rng(0)
    num_refused = 0
    for _ in range(12):
        ahead = LookAhead(VOCAB, rule=RULE, effort=5.0)
        ahead.begin(tokens_of({}).unsqueeze(0))
        codes: dict[tuple[int, int], int] = {}
        for k in rng.permutation(3).tolist():
            for code in rng.permutation(11).tolist():
                tried = {**codes, PAIRS[k]: code}
                position = torch.tensor([VOCAB.edge_position(*PAIRS[k])])
                refused = ahead.refuses(torch.tensor([0]), tokens_of(tried).unsqueeze(0), position)
                fits = any(
                    all(triple[PAIRS.index(pair)] == c for pair, c in tried.items())
                    for triple in possible
                )
                assert refused.item() is not fits
                num_refused += not fits
                if fits:
                    codes = tried
                    break
        assert tuple(codes[pair] for pair in PAIRS) in possible
    assert num_refused > 10
    assert ahead.work.num_undecided == 0


def test_rooms_are_never_refused_and_equal_beginnings_are_solved_once():
    ahead = LookAhead(VOCAB, rule=RULE)
    x = torch.stack([tokens_of({}), tokens_of({}), tokens_of({(0, 1): 2})])
    ahead.begin(x)
    assert ahead.work.num_solved == 2
    x[:, 0] = 1
    assert not ahead.refuses(torch.arange(3), x, torch.zeros(3, dtype=torch.long)).any()
    assert ahead.work.num_asked == 0


def test_what_is_given_and_has_no_plan_is_refused_at_the_beginning():
    circle = tokens_of({(0, 1): 2, (1, 2): 2, (0, 2): 7})
    with pytest.raises(ValueError, match="sample 1: no floor plan is found"):
        LookAhead(VOCAB, rule=RULE).begin(torch.stack([tokens_of({}), circle]))
    with pytest.raises(ValueError, match="no floor plan is found"):
        LookAhead(VOCAB, rule=RULE, effort=0.0).begin(tokens_of({}).unsqueeze(0))


def test_without_time_the_relations_of_the_boxes_are_left():
    """What is undecided is refused, and yet the diagram is finished and has a plan."""
    ahead = LookAhead(VOCAB, rule=RULE)
    ahead.begin(tokens_of({}).unsqueeze(0))
    ahead._effort = 0.0
    codes: dict[tuple[int, int], int] = {}
    for pair in PAIRS:
        left = []
        for code in range(11):
            x, position = tokens_of({**codes, pair: code}), VOCAB.edge_position(*pair)
            if not ahead.refuses(torch.tensor([0]), x.unsqueeze(0), torch.tensor([position])):
                left.append(code)
        assert 1 <= len(left) <= 2
        codes[pair] = left[0]
    assert ahead.work.num_undecided == ahead.work.num_refused > 20
    assert have_plans([diagram_of(tuple(codes[pair] for pair in PAIRS))], rule=RULE) == [True]


@pytest.fixture(scope="module")
def world():
    """A model of forty diagrams of three rooms, some of which have a plan on the small grid."""
    rng = np.random.default_rng(5)
    possible = sorted(triples_of_all_boxes(RULE, buildable=True))
    triples = [possible[row] for row in rng.integers(len(possible), size=20)]
    triples += [tuple(codes) for codes in rng.integers(11, size=(20, 3)).tolist()]
    algorithm, rows, prob = tabulated_mdlm([diagram_of(codes) for codes in triples], VOCAB)
    answers = have_plans(decode(rows, VOCAB), rule=RULE, effort=5.0)
    assert None not in answers
    return algorithm, rows, torch.where(torch.tensor(answers, dtype=torch.bool), prob, 0.0)


def drawn(algorithm, num, ahead):
    return build_sampler({"name": "first-hitting"}).sample(
        algorithm,
        VOCAB.real_positions(torch.full((num,), 3)),
        generator=make_generator(2),
        narrowing=ahead,
    )


@pytest.mark.slow
def test_threads_share_the_work_and_change_nothing(world):
    one, two = (
        drawn(world[0], 12, LookAhead(VOCAB, rule=RULE, threads=threads)) for threads in (1, 2)
    )
    assert torch.equal(one.x0, two.x0)
    assert torch.equal(one.log_weights, two.log_weights)


@pytest.mark.slow
def test_every_sample_has_a_plan_and_the_mean_weight_is_their_probability(world):
    algorithm, _, law = world
    num, ahead = 75, LookAhead(VOCAB, rule=RULE, effort=5.0)
    output = drawn(algorithm, num, ahead)
    diagrams = decode(output.x0, VOCAB)
    assert have_plans(diagrams, rule=RULE, effort=5.0) == [True] * num
    weights = output.log_weights.exp()
    mass = float(law.sum())
    assert 0.2 < mass < 0.95
    assert float(weights.mean()) == pytest.approx(mass, abs=4.5 * float(weights.std()) / num**0.5)
    assert ahead.work.num_refused > 10
    assert ahead.work.num_solved < ahead.work.num_asked


WORDS = ["num_samples=4", "num_rooms=4", "buildable=lookahead"]


@pytest.mark.slow
def test_the_command_looks_ahead(sampled, untrained, capsys):
    found, metrics = sampled("built", *WORDS, "threads=2")
    said = capsys.readouterr().out
    assert have_plans(found) == [True] * 4
    weights = np.exp([diagram.metadata["log_weight"] for diagram in found])
    assert metrics["mean_weight"] == pytest.approx(weights.mean())
    assert 1 <= metrics["effective_samples"] <= 4
    assert metrics["num_solved"] > 0
    assert f"refused {metrics['num_refused']:,} of {metrics['num_asked']:,} relations" in said
    torch.set_num_threads(1)
    assert load(untrained).sample(4, rooms=4, buildable="lookahead") == found


@pytest.mark.slow
def test_narrowing_rejects_the_rest(sampled):
    words = ["num_samples=8", "num_rooms=4", "threads=1", "max_tries=200"]
    found, metrics = sampled("built", *words, "buildable=narrowing")
    _, plain = sampled("plain", *words, "buildable=true")
    assert have_plans(found) == [True] * 8
    assert metrics["num_drawn"] < plain["num_drawn"]
    assert any(diagram.metadata["log_weight"] < 0 for diagram in found)
    assert "mean_weight" not in plain


@pytest.mark.slow
def test_completions_look_ahead(sampled):
    given = {"rooms": ["LivingRoom", None, None, "Kitchen"], "relations": [[1, 0, "left-of"]]}
    Path("p.jsonl").write_text(json.dumps(given) + "\n")
    words = ["given=p.jsonl", "num_completions=3", "threads=1", "buildable=lookahead"]
    found, metrics = sampled("built", *words)
    assert have_plans(found) == [True] * 3
    for diagram in found:
        assert diagram.rooms[0] == 0
        assert (0, 1, 7) in diagram.relations
        assert {"given", "log_weight"} <= diagram.metadata.keys()
    assert metrics["num_refused"] > 0
    assert not metrics["exact"]
    assert "log_weight" in metrics["approximate_because"]


def test_a_line_without_a_plan_is_named(sampled, capsys):
    fine = {"rooms": [None, None], "relations": [[1, 0, "left-of"]]}
    relations = [[0, 1, "inside"], [1, 2, "left-of"], [0, 2, "above"]]
    never = {"rooms": [None] * 3, "relations": relations}
    Path("p.jsonl").write_text(json.dumps(fine) + "\n" + json.dumps(never) + "\n")
    with pytest.raises(SystemExit):
        sampled("built", "given=p.jsonl", "buildable=lookahead")
    assert "p.jsonl, line 2: no floor plan has these relations" in capsys.readouterr().err
