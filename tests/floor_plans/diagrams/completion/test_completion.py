"""Completions: their distribution by brute force, and when it is said to be approximate."""

from __future__ import annotations

import copy
import itertools
from collections import Counter

import pytest
import torch

from discrete_diffusion.algorithms import AR
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.sampling import (
    Ancestral,
    Autoregressive,
    Confidence,
    Entropy,
    EntropyBounded,
    FirstHitting,
    Margin,
    Model,
)
from fake_processes import in_processes
from floor_plans import BubbleDiagram, PartialDiagram, decode
from floor_plans.diagrams.partial import decode_partial
from floor_plans.diagrams.vocabulary import INVERSE
from floor_plans.learning.completions import CompletionRequest, approximations, complete_partials
from floor_plans.learning.weighing import UnseenError
from plan_examples import agrees
from tabulated_diagrams import misleading_mdlm, random_diagrams, tabulated_mdlm
from toy_world import noise_floor, total_variation

VOCAB = VocabConfig(n_max=4)
MODEL, ROWS, PROB = tabulated_mdlm(
    [*random_diagrams(60, 3, seed=0), *random_diagrams(60, 4, seed=1)], VOCAB
)
NUM = 2_500


def completed(partials, num=1, *, sampler=None, model=MODEL, seed=0, lines=None, **options):
    """Completions of small diagrams in canonical order by first hitting, unless told otherwise."""
    of_model = {key: options.pop(key) for key in ("steps", "batch_size", "shard") if key in options}
    lines = range(1, len(partials) + 1) if lines is None else lines
    by_line = dict(zip(lines, partials, strict=True))
    options = {"vocab": VOCAB, "node_order": "canonical", "num": num, **options}
    return complete_partials(
        Model(model, FirstHitting() if sampler is None else sampler, **of_model),
        CompletionRequest(partials=by_line, **options),
        generator=make_generator(seed),
    )


def automorphisms(partial):
    """Renumberings that leave a partial diagram as it is."""
    found = []
    for new in itertools.permutations(range(partial.num_rooms)):
        moved = [(new[i], new[j], r) for i, j, r in partial.relations]
        moved = tuple(sorted((i, j, r) if i < j else (j, i, INVERSE[r]) for i, j, r in moved))
        rooms = tuple(partial.rooms[new.index(k)] for k in range(partial.num_rooms))
        if (rooms, moved) == (partial.rooms, partial.relations):
            found.append([new.index(k) for k in range(partial.num_rooms)])
    return found


def key(diagram, symmetries):
    """Equal for diagrams that differ by what the partial diagram cannot tell apart."""
    images = (diagram.relabelled(order) for order in symmetries)
    return min((image.rooms, image.relations) for image in images)


def truth(partial, symmetries):
    """p(G) over all diagrams G and all ways to number their rooms that agree with ``partial``."""
    mass: Counter = Counter()
    for diagram, p in zip(decode(ROWS, VOCAB), PROB.tolist(), strict=True):
        if diagram.num_rooms == partial.num_rooms:
            for order in itertools.permutations(range(partial.num_rooms)):
                numbered = diagram.relabelled(order)
                if agrees(partial, numbered):
                    mass[key(numbered, symmetries)] += p
    return mass


def gap_to_truth(partial, output):
    """Total variation of the completions to the truth, and what chance may leave of it."""
    symmetries, num = automorphisms(partial), len(output.diagrams)
    mass = truth(partial, symmetries)
    counts = Counter(key(diagram, symmetries) for diagram in output.diagrams)
    every = list(mass | counts)
    prob = torch.tensor([mass[k] for k in every], dtype=torch.float64)
    prob = prob / prob.sum()
    share = torch.tensor([counts[k] / num for k in every], dtype=torch.float64)
    return total_variation(share, prob), noise_floor(prob, num)


PARTIALS = {
    "a type and a relation": PartialDiagram((1, None, None, None), ((0, 1, 3),)),
    "relations without types": PartialDiagram((None,) * 4, ((0, 1, 3), (1, 2, 2))),
    "two rooms of one type": PartialDiagram((2, 1, 2, None), ((0, 1, 7),)),
    "no relation": PartialDiagram((None, 1, 1, None), ((1, 2, 10),)),
    "three rooms": PartialDiagram((None, 2, None), ((0, 2, 2),)),
    "nothing": PartialDiagram((None, None, None), ()),
}


@pytest.mark.slow
@pytest.mark.parametrize("partial", PARTIALS.values(), ids=PARTIALS.keys())
def test_completions_have_the_models_conditional_distribution(partial):
    symmetries = automorphisms(partial)
    mass = truth(partial, symmetries)
    assert len(mass) > 5
    output = completed([partial], NUM)
    assert {key(diagram, symmetries) for diagram in output.diagrams} <= set(mass)
    gap, floor = gap_to_truth(partial, output)
    assert gap < floor
    assert approximations(FirstHitting(), MODEL, output) == []


@pytest.mark.slow
def test_numbers_as_they_stand_would_be_another_distribution():
    """What the arrangement is for: rooms that are not sorted are all but impossible."""
    partial = PartialDiagram((2, 1, 0, None), ())
    assert completed([partial], 50).diagrams[0].rooms[:3] == (2, 1, 0)
    literal = completed([partial], 50, node_order="given")
    assert literal.num_scored == 0
    assert all(agrees(partial, diagram) for diagram in literal.diagrams)
    sorted_first = PARTIALS["a type and a relation"]
    gap, _ = gap_to_truth(sorted_first, completed([sorted_first], NUM, node_order="given"))
    assert gap > 0.2


def test_a_random_part_of_the_arrangements_is_said_to_be_one():
    partial = PARTIALS["relations without types"]
    output = completed([PartialDiagram((0, 1, 2), ()), partial], 3, max_arrangements=2)
    ((line, error),) = output.arrangement_errors.items()
    assert (line, error > 0) == (2, True)
    (reason,) = approximations(FirstHitting(), MODEL, output)
    for named in (f"line 2 ({100 * error:.2g} %)", "max_arrangements"):
        assert named in reason
    assert all(agrees(partial, diagram) for diagram in output.diagrams[3:])


@pytest.mark.slow
def test_arrangements_kept_by_chance_weigh_what_they_stand_for():
    """Three of six: one of both relations' 0.02 of 0.22 for certain, and two that stand for 2.5
    each. It would have 0.02 / 0.1 of the weight if the two weighed no more than themselves, and
    0.02 / 0.052 if 2.5 times less."""
    model, partial, vocab = misleading_mdlm()
    for seed in range(3):
        output = completed([partial], NUM, model=model, vocab=vocab, seed=seed, max_arrangements=3)
        share = sum((0, 2, 0) in d.relations for d in output.diagrams) / NUM
        assert share == pytest.approx(0.02 / 0.22, abs=4 * (0.09 * 0.91 / NUM) ** 0.5)


def test_what_is_complete_or_empty_is_not_scored_and_order_is_kept():
    whole = BubbleDiagram((2, 1, 0), ((0, 1, 7),))  # not in the model's order, nor in its table
    partials = [
        PartialDiagram((None, None), ()),
        PartialDiagram.from_diagram(whole),
        PartialDiagram((None,) * 4, ()),
    ]
    model, _, _ = tabulated_mdlm([*random_diagrams(9, 2, 3), *random_diagrams(9, 4, 4)], VOCAB)
    output = completed(partials, 2, model=model)
    assert [d.num_rooms for d in output.diagrams] == [2, 2, 3, 3, 4, 4]
    assert output.diagrams[2] == output.diagrams[3] == whole
    assert output.network_calls.tolist() == [3, 3, 0, 0, 10, 10]
    assert output.num_scored == 0
    assert [d.metadata["given"] for d in output.diagrams] == [1, 1, 2, 2, 3, 3]


def test_a_trajectory_is_numbered_as_given_and_changes_nothing():
    partials = [PARTIALS["two rooms of one type"], PARTIALS["three rooms"]]
    plain, kept = completed(partials, 3), completed(partials, 3, trajectories=6)
    assert plain.trajectory is None
    assert plain.diagrams == kept.diagrams
    for k in range(6):
        partial, states = partials[k // 3], decode_partial(kept.trajectory[:, k], VOCAB)
        assert (states[0].rooms, states[0].relations) == (partial.rooms, partial.relations)
        assert states[-1] == PartialDiagram.from_diagram(kept.diagrams[k])
        for before, after in itertools.pairwise(states):
            assert set(before.relations) <= set(after.relations)


@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_only_the_first_trajectories_are_kept(batch_size):
    partials = [PARTIALS["two rooms of one type"], PARTIALS["three rooms"]]
    every = completed(partials, 3, trajectories=6, batch_size=batch_size)
    some = completed(partials, 3, trajectories=4, batch_size=batch_size)
    more = completed(partials, 3, trajectories=9, batch_size=batch_size)
    assert some.diagrams == every.diagrams
    assert some.trajectory.shape[1] == 4
    assert torch.equal(some.trajectory, every.trajectory[: len(some.trajectory), :4])
    assert torch.equal(every.trajectory[-1, :4], some.trajectory[-1])
    assert torch.equal(more.trajectory, every.trajectory)


def test_lines_are_called_as_they_are_numbered():
    partials = [PartialDiagram((0, 1, 2), ()), PARTIALS["relations without types"]]
    output = completed(partials, 2, lines=[3, 7], max_arrangements=2)
    assert [d.metadata["given"] for d in output.diagrams] == [3, 3, 7, 7]
    assert list(output.arrangement_errors) == [7]


@pytest.mark.parametrize(
    ("sampler", "options", "message"),
    [
        (FirstHitting(), {"steps": 0}, "steps=0: expected at least 1"),
        (EntropyBounded(), {"steps": 3}, "leave steps unset"),
        (Autoregressive(), {}, "autoregressive sampling needs algo=ar, got mdlm"),
    ],
)
def test_what_cannot_be_drawn_is_refused_before_anything_is_scored(sampler, options, message):
    model, shown = copy.copy(MODEL), []
    model.denoise = lambda *given: shown.append(given)
    with pytest.raises(ValueError, match=message):
        completed([PARTIALS["no relation"]], sampler=sampler, model=model, **options)
    assert shown == []


def reasons(sampler, output, model=MODEL, steps=None):
    return approximations(sampler, model, output, steps)


def drawn_by(sampler, steps=None):
    """Completions of nothing known by another sampler."""
    return completed([PARTIALS["nothing"]], sampler=sampler, steps=steps)


def test_why_completions_are_approximate():
    output = completed([PARTIALS["nothing"]])
    assert output.num_unknown.tolist() == output.network_calls.tolist() == [6]
    assert reasons(Ancestral(), output)[0].startswith("sampling=ancestral is approximate")
    assert reasons(Confidence(), output) == ["sampling=confidence is approximate"]
    assert "temperature" in reasons(FirstHitting(temperature=0.5), output)[0]
    whole = completed([PartialDiagram.from_diagram(BubbleDiagram((2, 0), ()))])
    assert reasons(Ancestral(), whole) == []


def test_several_tokens_per_call_are_why():
    several = ["several tokens are sampled per call"]
    twice = FirstHitting(tokens_per_call=2)
    assert reasons(twice, drawn_by(twice)) == several
    assert reasons(FirstHitting(), drawn_by(FirstHitting(), steps=5), steps=5) == several
    assert reasons(FirstHitting(), drawn_by(FirstHitting(), steps=6), steps=6) == []
    one = PartialDiagram((0, 1, None), ((0, 1, 2), (0, 2, 2), (1, 2, 2)))
    assert reasons(twice, completed([one])) == []  # there is but one token to draw


def test_the_order_of_the_process_alone_is_exact():
    told = copy.copy(MODEL)
    told.time_conditioning = True
    untold = copy.copy(MODEL)
    untold.time_conditioning = False
    output = drawn_by(FirstHitting())
    for sampler in (Margin(), Entropy(), EntropyBounded(entropy_budget=0.0, order="entropy")):
        for model in (told, untold):
            (reason,) = reasons(sampler, output, model)
            assert reason.startswith(f"sampling={sampler.name} samples in an order of its own")
        assert reasons(FirstHitting(), output, model) == []
    sure_first = EntropyBounded(entropy_budget=0.0, order="confidence")
    assert reasons(sure_first, output, untold) == ["sampling=entropy-bounded is approximate"]


def test_completions_do_not_depend_on_the_number_of_processes():
    """Nor on that of arrangements that have to be drawn, nor on the file's other lines."""
    partials = [PARTIALS["two rooms of one type"], PARTIALS["three rooms"], PARTIALS["nothing"]]

    def made(**options):
        output = completed(partials, 20, max_arrangements=3, trajectories=2, **options)
        diagrams = [(d.rooms, d.relations, d.metadata) for d in output.diagrams]
        return diagrams, output.trajectory.tolist(), output.num_scored, output.arrangement_errors

    alone = made()
    assert alone[-1]  # an arrangement was drawn
    assert in_processes(2, lambda shard: made(shard=shard)) == [alone] * 2


def test_all_processes_name_the_line_that_cannot_be_completed():
    seen, unseen = PartialDiagram((0, 1), ()), PartialDiagram((0, None), ((0, 1, 2),))
    model = AR(torch.nn.Identity(), MODEL.process, time_conditioning=False).eval()

    def made(shard):
        return completed([seen, unseen], model=model, shard=shard)

    for error in in_processes(2, made):
        assert type(error) is UnseenError
        assert str(error).startswith("line 2: ar ")
