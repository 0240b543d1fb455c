"""Samples with a plan that keeps rules: their law, one answer for each diagram, what is counted."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from discrete_diffusion import load
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from floor_plans import BubbleDiagram, decode
from plan_examples import CIRCLE

pytest.importorskip("ortools", reason="OR-Tools finds plans")
pytest.importorskip("shapely", reason="dimensioned plans take the extra plans")

from discrete_diffusion.layout import RELATIONS, ROOM_TYPES
from discrete_diffusion.sampling import build_sampler
from floor_plans.plans.buildable import Accepted, DrawnDiagram
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.rules.rule_set import RuleSet, judge, read_rules
from floor_plans.solver import habitable
from floor_plans.solver.habitable import Habitable, counting_judge, keep_habitable
from floor_plans.solver.realised import Realised
from floor_plans.solver.realising import realise
from tabulated_diagrams import tabulated_mdlm
from toy_world import noise_floor, total_variation

DEFAULT = read_rules("default")
FACADE = {**DEFAULT.rules["facade"], "rooms": ("MasterRoom",), "length": 100.0}
STRICT = RuleSet("strict", {"front": DEFAULT.rules["front"], "facade": FACADE})
"""No plan gives a master room 100 m of outer wall."""


def diagram_of(rooms: str, *relations: tuple[int, str, int]) -> BubbleDiagram:
    codes = tuple(ROOM_TYPES.index(name) for name in rooms.split())
    return BubbleDiagram(codes, [(i, j, RELATIONS.index(name)) for i, name, j in relations])


GOOD = diagram_of("LivingRoom Kitchen SecondRoom", (0, "left-of", 1), (0, "above", 2))
DARK = diagram_of("LivingRoom MasterRoom", (0, "above", 1))


@pytest.fixture
def planned(monkeypatch):
    """The diagrams of which a plan is looked for."""
    jobs = []

    def counting_judge(job):
        jobs.append(job.diagram)
        return realise(job)

    monkeypatch.setattr(habitable, "realise", counting_judge)
    return jobs


@pytest.mark.slow
def test_what_is_kept_is_what_the_model_draws_given_that_it_is_habitable(monkeypatch):
    """An exact network on 33 diagrams of two rooms, and answers that any function might give."""
    world = [
        BubbleDiagram(rooms, [] if code is None else [(0, 1, code)])
        for rooms, code in product([(0, 2), (2, 0), (1, 3)], [None, *range(10)])
    ]
    monkeypatch.setattr(habitable, "have_plans", lambda diagrams, **_: [True] * len(diagrams))
    monkeypatch.setattr(habitable, "realise", lambda job: job.diagram)
    monkeypatch.setattr(
        habitable,
        "_broken_rules",
        lambda found, rules: ("width",) if found.canonical_key()[1][:1] < ((0, 1, 5),) else (),
    )
    algorithm, rows, prob = tabulated_mdlm(world, RPLAN_VOCAB_CONFIG)
    sampler, real = build_sampler({"name": "first-hitting"}), rows != RPLAN_VOCAB_CONFIG.pad_id

    def draw(turn: int, num: int) -> list[DrawnDiagram]:
        generator = torch.Generator().manual_seed(turn)
        sizes = torch.multinomial(prob, num, replacement=True, generator=generator)
        drawn = sampler.sample(algorithm, real[sizes], generator=generator)
        diagrams = decode(drawn.x0, RPLAN_VOCAB_CONFIG)
        return [DrawnDiagram(*each) for each in zip(diagrams, drawn.nfe.tolist(), strict=True)]

    monkeypatch.setattr(habitable, "_AT_ONCE", 500)
    judge_all = Habitable(DEFAULT)
    kept = keep_habitable(draw, 6000, judge_all)
    each = decode(rows, RPLAN_VOCAB_CONFIG)
    fit = torch.tensor([not broken for broken in judge_all(each)])
    p = float(prob[fit].sum())
    assert 0.2 < p < 0.8
    law = prob * fit / p
    found = torch.zeros(len(each), dtype=torch.float64)
    for sample in kept.samples:
        found[each.index(sample.diagram)] += 1 / len(kept.samples)
    assert float(found[~fit].sum()) == 0
    assert total_variation(found, law) < noise_floor(law, len(kept.samples))
    assert abs(kept.acceptance - p) < 4.5 * np.sqrt(p * (1 - p) / kept.num_drawn)
    assert kept.rejected_by == {"width": kept.num_drawn - kept.num_fit}


@pytest.mark.slow
def test_the_answer_and_the_plan_do_not_depend_on_the_numbering(planned):
    other = GOOD.relabelled([2, 0, 1])
    answers = Habitable(STRICT)
    assert answers([GOOD, CIRCLE, other, DARK]) == [(), ("no plan",), (), ("facade",)]
    assert len(planned) == 2  # a circle is not buildable, which is decided without
    for diagram in (GOOD, other):
        found = answers.plan_of(diagram)
        (plan,) = found.plans
        assert (plan.diagram.rooms, plan.diagram.relations) == (diagram.rooms, diagram.relations)
        assert plan.honours_diagram
        assert judge(plan, STRICT).keeps_all
        assert plan.largest_area_error(found.areas) < 0.1
    assert len(planned) == 2
    first, second = (answers.plan_of(each).plans[0] for each in (GOOD, other))
    assert second.boxes == tuple(first.boxes[old] for old in (2, 0, 1))
    assert second.relabelled([1, 2, 0]) == first
    there = Habitable(STRICT)
    assert there([GOOD]) == [()]
    assert len(planned) == 2
    assert there.plan_of(GOOD) == answers.plan_of(GOOD)
    assert len(planned) == 3  # the answer was kept, and the plan is found again


def test_only_a_proof_of_no_plan_saves_the_planning(monkeypatch, planned):
    """Undecided is not "no plan": the planner looks for one, and may find it."""
    verdicts = iter([[None, False, True], [None]])
    monkeypatch.setattr(habitable, "have_plans", lambda diagrams, **_: next(verdicts))
    monkeypatch.setattr(habitable, "_broken_rules", lambda found, rules: ())
    monkeypatch.setattr(habitable, "realise", lambda job: planned.append(job.diagram))
    two, three = diagram_of("Kitchen"), diagram_of("Bathroom")
    assert Habitable(STRICT)([GOOD, two, three]) == [(), (habitable.NO_PLAN,), ()]
    assert [each.num_rooms for each in planned] == [3, 1]
    other = diagram_of("Balcony")
    monkeypatch.setattr(habitable, "_broken_rules", lambda found, rules: ("front",))
    assert Habitable(STRICT)([other]) == [("front",)]


def test_a_rule_that_does_not_apply_is_not_broken():
    """A plan without a boundary has no outline to fill."""
    rules = RuleSet("fill", {"fill": DEFAULT.rules["fill"]})
    plan = FloorPlan(BubbleDiagram((0,), (), ((0.0, 0.0, 5.0, 4.0),)))
    assert judge(plan, rules).kept == {"fill": None}
    assert habitable._broken_rules(Realised((plan,)), rules) == ()
    assert habitable._broken_rules(Realised(), rules) == (habitable.NO_PLAN,)


def test_answers_are_kept_by_rules_and_version(monkeypatch, tmp_path):
    planned, diagrams = [], [GOOD, DARK]

    def broken(diagram, rules):
        planned.append(diagram)
        return ("facade", "front")[: len(rules.rules)] if 1 in diagram.rooms else ()

    monkeypatch.setattr(habitable, "realise", lambda job: job.diagram)
    monkeypatch.setattr(habitable, "_broken_rules", broken)
    file = tmp_path / "rules.yaml"
    front = "front: {rooms: [LivingRoom, DiningRoom, Entrance, Hall]}\n"
    file.write_text(
        f"{front}facade: {{rooms: [MasterRoom], wall: {FACADE['wall']}, length: 100}}\n"
    )
    for rules in (STRICT, STRICT, read_rules(file)):
        assert Habitable(rules)(diagrams) == [(), ("facade", "front")]
        assert len(planned) == 2
    file.write_text(front)
    assert Habitable(read_rules(file))(diagrams) == [(), ("facade",)]
    assert len(planned) == 4
    monkeypatch.setattr(habitable, "_planner_version", lambda: "another version")
    assert Habitable(STRICT)(diagrams) == [(), ("facade", "front")]
    assert len(planned) == 6


@pytest.mark.slow
def test_rejected_samples_are_counted_by_rule_and_too_few_end_with_a_sentence(caplog):
    pool = [GOOD, DARK, CIRCLE, DARK] * 3

    def draw(turn, num):
        return [DrawnDiagram(pool.pop(0), 1) for _ in range(num)]

    kept = keep_habitable(draw, 3, Habitable(STRICT), max_tries=4)
    assert [each.diagram for each in kept.samples] == [GOOD] * 3
    assert kept.facts["rejected_by"] == {"facade": 6, "no plan": 3}
    with pytest.raises(ValueError, match=r"rules strict; rejected by facade 6; max_tries=3.*=FILE"):
        keep_habitable(
            lambda _, num: [DrawnDiagram(DARK, 1)] * num, 2, Habitable(STRICT), max_tries=3
        )


@pytest.mark.slow
def test_of_what_meets_a_brief_the_rest_is_not_planned(planned):
    kept, strict = Accepted(9), Habitable(STRICT)
    asked = counting_judge(strict, kept, lambda diagrams: [each is not CIRCLE for each in diagrams])
    assert asked([CIRCLE, GOOD, DARK, CIRCLE, GOOD]) == [False, True, False, False, True]
    assert kept.rejected_by == {"facade": 1}
    assert len(planned) == 2
    assert counting_judge(strict, kept, lambda diagrams: [None] * len(diagrams))([GOOD]) == [None]


@pytest.mark.slow
def test_the_command_takes_a_brief(sampled, capsys):
    Path("two.yaml").write_text("num_rooms: 2\nrooms: {Kitchen: 0}\n")
    words = ["num_samples=2", "threads=1", "brief=two.yaml", "livable=true", "realise=true"]
    found, metrics = sampled("briefed", *words)
    assert [each.num_rooms for each in found] == [2, 2]
    assert not any("Kitchen" in each.room_names for each in found)
    assert Habitable(DEFAULT)(found) == [(), ()]
    assert (metrics["habitable"], metrics["method"]) == ("default", "rejection")
    assert "meet the brief and are livable" in capsys.readouterr().out
    lines = Path("briefed/plans.jsonl").read_text().splitlines()
    plans = [FloorPlan.of(BubbleDiagram.from_json(json.loads(line))) for line in lines]
    assert [judge(plan, DEFAULT).keeps_all for plan in plans] == [True, True]


@pytest.mark.slow
def test_once_there_are_enough_the_rest_is_not_planned(monkeypatch):
    monkeypatch.setattr(habitable, "_AT_ONCE", 2)
    asked = []

    def draw(turn, num):
        asked.append(num)
        return [DrawnDiagram(GOOD if turn else DARK, 5) for _ in range(num)]

    kept = keep_habitable(draw, 3, Habitable(STRICT))
    assert asked[0] == 3
    assert asked[1] > 4
    assert kept.num_drawn == 3 + 4  # two parts of the second round had three
    assert kept.num_fit == 4
    assert kept.network_calls == 5 * sum(asked)


@pytest.mark.slow
def test_the_command_writes_the_plans_that_were_found(sampled, untrained, planned, capsys):
    words = ["num_samples=2", "num_rooms=2", "threads=1"]
    found, metrics = sampled("lived", *words, "livable=true", "realise=true")
    said = capsys.readouterr().out
    assert len(planned) <= metrics["num_drawn"]  # not once more for the files
    assert "2 livable samples" in said
    assert "CPU-seconds" in said
    assert Habitable(DEFAULT)(found) == [(), ()]
    lines = Path("lived/plans.jsonl").read_text().splitlines()
    for diagram, line in zip(found, map(json.loads, lines), strict=True):
        plan = FloorPlan.of(BubbleDiagram.from_json(line))
        assert plan.diagram.rooms[:2] == diagram.rooms
        assert set(diagram.relations) <= {*plan.diagram.relations}
        assert judge(plan, DEFAULT).keeps_all
    rejected = sum(metrics.get("rejected_by", {}).values())
    assert rejected >= len(planned) - 2  # a rule at least of each
    assert load(untrained).sample(2, rooms=2, livable="default") == found


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["livable=perhaps"], "livable"),
        (["livable=rules.yaml"], "livable=rules.yaml: no file"),
        (["livable=3"], "livable=3: expected false, true, or rules: default, irc"),
        (["livable=none"], "take buildable=true"),
        (["livable=true", "trajectory=2"], "trajectory=2 does not go with livable=default"),
        (["livable=irc", "given=p.jsonl"], "given=p.jsonl does not go with livable=irc"),
        (["livable=true", "buildable=lookahead"], "take buildable=narrowing"),
        (
            ["livable=true", "brief=b.yaml", "method=smc"],
            "livable=True does not go with brief= and method=smc",
        ),
        (
            ["livable=irc", "brief=b.yaml", "given=p.jsonl"],
            "livable=irc does not go with brief= and given=",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(sampled, capsys, words, named):
    Path("p.jsonl").write_text('{"rooms": [null, 1]}\n')
    Path("b.yaml").write_text("num_rooms: 3\n")
    with pytest.raises(SystemExit):
        sampled("lived", *words)
    assert named in capsys.readouterr().err
