"""``plans make`` and ``make_plans``: diagrams of a model, a plan of each, the best first."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from discrete_diffusion.cli import main
from discrete_diffusion.layout import VocabConfig
from floor_plans import BubbleDiagram

pytest.importorskip("ortools", reason="OR-Tools finds plans")
pytest.importorskip("shapely", reason="dimensioned plans take the extra plans")

from floor_plans.briefs import making
from floor_plans.briefs.brief_request import stated_condition
from floor_plans.briefs.making import PlanSearch, make_plans
from floor_plans.briefs.reading import brief_of
from floor_plans.learning import sampling
from floor_plans.plans.outline import Outline
from floor_plans.rules.rule_set import read_rules
from floor_plans.solver import realising
from floor_plans.solver.realised import Realised, Shortfall
from floor_plans.solver.realising import realise
from floor_plans.solver.requests import PlanRequest
from floor_plans.solver.spec import RoomAreas
from plan_examples import CIRCLE

PAIR = BubbleDiagram((0, 2), [(0, 1, 2)])
THREE = BubbleDiagram((0, 2, 3), [(0, 1, 2), (0, 2, 6)])
BEHIND = BubbleDiagram((0, 3, 1), [(0, 1, 2), (1, 2, 2)])
"""A bedroom that only the bathroom leads to."""
FREE_OF_RULES = PlanRequest(total_area=60.0)
NO_HALL = PlanRequest(rules=read_rules("default"), hall="never")


def model_of(*diagrams: BubbleDiagram) -> SimpleNamespace:
    """A model that samples these, and remembers what it was asked."""
    asked: list[dict] = []

    def sample(num, **options):
        asked.append({"num": num, **options})
        return list(diagrams)[:num]

    return SimpleNamespace(sample=sample, asked=asked)


@pytest.mark.slow
def test_every_different_diagram_is_tried_once_and_the_best_plans_come_first():
    model = model_of(PAIR, THREE, PAIR, CIRCLE)
    made = make_plans(
        model, FREE_OF_RULES, num=4, candidates=4, num_rooms=3, brief={"num_rooms": 3}
    )
    assert model.asked == [{"num": 4, "seed": 0, "brief": {"num_rooms": 3}, "num_rooms": 3}]
    assert len(made) == 2  # the circle has no plan
    assert {each.plan.diagram.rooms for each in made} == {PAIR.rooms, THREE.rooms}
    places = [(len(each.given_up), each.scores.num_broken, -each.scores.total) for each in made]
    assert places == sorted(places)
    (first,) = make_plans(model, FREE_OF_RULES, num=1, candidates=4)
    assert first.plan == made[0].plan
    assert sum(first.plan.areas) == pytest.approx(60, rel=0.1)


@pytest.mark.slow
def test_habitable_plans_break_no_rule():
    model = model_of(BEHIND, PAIR)
    best, other = make_plans(model, NO_HALL, num=2, strict=False)
    assert (best.broken, "access" in other.broken) == ((), True)
    (kept,) = make_plans(model, NO_HALL, num=2)
    assert kept.plan == best.plan
    assert make_plans(model_of(BEHIND), NO_HALL, num=1) == []


@pytest.mark.slow
def test_a_diagram_that_a_plot_rules_out_is_not_planned():
    plot = Outline(boundary=((0, 0), (8, 0), (8, 6), (0, 6)))
    search = PlanSearch(model_of(BEHIND), replace(NO_HALL, outline=plot), num=1)
    assert [*search.tried(search.jobs()[0])] == [None]
    assert search.ruled_out == [BEHIND]
    search = replace(search, strict=False, ruled_out=[])
    (made,) = search.tried(search.jobs()[0])
    assert made.found.excluded
    assert "access" in made.broken
    assert search.ruled_out == []


@pytest.mark.parametrize(
    ("keeps", "num", "strict", "rounds"),
    [
        ("", 1, True, 3),
        ("a", 1, True, 1),
        ("b", 1, True, 2),
        ("bc", 2, True, 3),
        ("", 1, False, 1),
        ("abc", 5, True, 1),
    ],
)
def test_other_diagrams_are_tried_while_too_few_plans_keep_the_rules(
    monkeypatch, keeps, num, strict, rounds
):
    """The first diagram is drawn in every round, and another one; each is tried once."""
    diagrams = {"a": PAIR, "b": THREE, "c": BEHIND}
    seeds, tried = [], []

    def sample(_, *, seed):
        seeds.append(seed)
        return [PAIR, diagrams["abc"[seed - 7]]]

    def realise_all(jobs, **_):
        for job in jobs:
            tried.append(job.diagram)
            keeps_all = job.diagram in [diagrams[name] for name in keeps]
            yield Realised((None,), (), (() if keeps_all else (Shortfall("", "entry"),),))

    monkeypatch.setattr(making, "realise_all", realise_all)
    monkeypatch.setattr(making, "ranked_variants", lambda found: (found, (None,)))
    monkeypatch.setattr(making, "rank_key", lambda *_: 0)
    model, request = SimpleNamespace(sample=sample), replace(NO_HALL, seed=7)
    kept = make_plans(model, request, num=num, candidates=5, strict=strict)
    assert seeds == [7, 8, 9][:rounds]
    assert tried == [diagrams[name] for name in "abc"[:rounds]]
    assert len(kept) == (len(set(keeps) & set("abc"[:rounds])) if strict else 1)


def test_a_search_that_is_given_up_leaves_no_threads(monkeypatch, tmp_path):
    """The error is held, and its traceback holds the search."""
    begun, closed = [], []

    def realise_all(jobs, **_):
        begun.append(jobs)
        try:
            yield None
        finally:
            closed.append(jobs)

    monkeypatch.setattr(making, "realise_all", realise_all)
    monkeypatch.setattr(sampling, "realise_all", realise_all)
    with pytest.raises(AttributeError) as in_making:
        make_plans(model_of(PAIR), FREE_OF_RULES, num=1)
    request = SimpleNamespace(out=tmp_path, seed=0)
    trained = SimpleNamespace(stop_asked=lambda: False)
    with pytest.raises(AttributeError) as in_sampling:
        sampling.realise_samples(request, trained, [PAIR], RoomAreas)
    assert in_making.type is in_sampling.type
    assert len(begun) == len(closed) == 2


@pytest.mark.slow
def test_rules_are_default_and_twice_as_many_diagrams_are_sampled():
    model = model_of(PAIR)
    (made,) = make_plans(model, num=3)
    assert model.asked[0]["num"] == 6
    assert made.job.spec.rules.name == "default"


BRIEF = {
    "num_rooms": 2,
    "area": 44,
    "outline": [[0, 0], [8, 0], [8, 6], [0, 6]],
    "front_door": [0, 3],
    "north": 90,
}


def test_the_solver_is_given_what_a_brief_says_of_the_plan():
    (made,) = make_plans(model_of(PAIR), num=1, candidates=1, brief=BRIEF)
    spec = made.job.spec
    assert sum(spec.areas) == pytest.approx(44)
    assert spec.outline.area == pytest.approx(48)
    assert spec.front_door == (0.0, 3.0)
    assert spec.north == 90
    assert made.plan.boundary == ((0, 0), (8, 0), (8, 6), (0, 6))
    (door,) = [door for door in made.plan.doors if door.is_front]
    assert door.start[0] == door.end[0] == 0
    assert {2.0 <= y <= 4.0 for _, y in (door.start, door.end)} == {True}


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        (FREE_OF_RULES, "total_area=60"),
        (PlanRequest(outline=Outline(ratio=1.4)), "ratio"),
        (PlanRequest(north=0), "north"),
    ],
)
def test_what_a_brief_says_too_is_refused(request_, named):
    with pytest.raises(ValueError, match=named):
        make_plans(model_of(PAIR), request_, num=1, brief=BRIEF)


def test_no_warning_says_that_the_solver_should_be_given_what_it_is_given(caplog):
    """The condition of a model without facts, while diagrams are drawn for plans and otherwise."""
    brief, trained = brief_of({"area": 60}), SimpleNamespace(data_config={}, path="run")

    def sample(num, **options):
        assert stated_condition(brief, trained, VocabConfig(n_max=3)) == ({}, [])
        return [PAIR]

    PlanSearch(SimpleNamespace(sample=sample), PlanRequest(), num=1).diagrams(0)
    assert not caplog.records
    sample(1)
    assert "plans make brief=" in caplog.text


def test_a_front_door_goes_with_the_outline_of_a_brief():
    brief = {key: value for key, value in BRIEF.items() if key != "front_door"}
    request = PlanRequest(front_door=(8, 3))
    (made,) = make_plans(model_of(PAIR), request, num=1, candidates=1, brief=brief)
    assert made.job.spec.front_door == (8, 3)


@pytest.mark.parametrize(("options", "said"), [({"num": 0}, "num=0"), ({"candidates": 2}, "=2")])
def test_numbers_out_of_range_are_refused_before_anything_is_sampled(options, said):
    model = model_of(PAIR)
    with pytest.raises(ValueError, match=said):
        make_plans(model, **options)
    assert not model.asked


@pytest.fixture
def command(tmp_path, monkeypatch):
    """The command in an empty folder, with a model of these diagrams."""
    monkeypatch.chdir(tmp_path)

    def run(*words, of=(PAIR, THREE)):
        monkeypatch.setattr(
            "discrete_diffusion.api.loading.load", lambda path, **options: model_of(*of)
        )
        main(["plans", "make", "out=made", "rules=none", "total_area=60", *words])

    return run


def lines(folder: str = "made") -> list[dict]:
    return [json.loads(line) for line in Path(f"{folder}/plans.jsonl").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_writes_the_best_of_the_plans_that_are_found(command, monkeypatch, capsys, number):
    """It comes while the plan of the second diagram is looked for, which is given up."""
    begun = []

    def interrupted(job, **options):
        begun.append(job)
        if len(begun) == 2:
            signal.raise_signal(number)
        return realise(job, **options)

    monkeypatch.setattr(realising, "realise", interrupted)
    with pytest.raises(SystemExit) as stop:
        command("num=2", "candidates=2", "threads=1")
    assert stop.value.code == 128 + number
    (line,) = lines()
    assert "boxes" in line
    assert "the best 1 plan of 1 different diagram," in capsys.readouterr().out


@pytest.mark.slow
def test_a_signal_before_the_first_plan_writes_nothing(command, monkeypatch, capsys):
    def interrupted(job, **options):
        signal.raise_signal(signal.SIGUSR2)
        return realise(job, **options)

    monkeypatch.setattr(realising, "realise", interrupted)
    with pytest.raises(SystemExit) as stop:
        command("num=2", "candidates=2", "threads=1")
    assert stop.value.code == 128 + signal.SIGUSR2
    assert "stopped by SIGUSR2" in capsys.readouterr().err
    assert not Path("made").exists()


@pytest.mark.slow
def test_the_command_writes_what_plans_realise_writes_of_the_best(command, capsys):
    command("num=1", "candidates=2", "formats=[geojson]")
    (line,) = lines()
    (best,) = make_plans(model_of(PAIR, THREE), FREE_OF_RULES, num=1, candidates=2)
    assert line["rooms"] == best.plan.to_json()["rooms"]
    assert line["scores"] == best.scores.to_json()
    assert sorted(path.name for path in Path("made").iterdir()) == [
        *("geojson", "plans.json", "plans.jsonl", "plans.svg")
    ]
    assert "the best 1 plan of 2 different diagrams" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        command("num=1")
    assert "made holds an earlier" in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_names_the_rules_that_no_habitable_plan_keeps(command, capsys):
    of = {"of": (BEHIND, PAIR)}
    words = ("rules=default", "hall=never")
    command("num=2", *words, **of)
    assert len(lines()) == 1
    said = capsys.readouterr().out
    assert "the best 1 plan of 2 different diagrams, best first" in said
    assert "1 plan withheld, for broken rules: access by 1" in said
    assert "made/withheld has them; strict=false ranks them too" in said
    (withheld,) = lines("made/withheld")
    assert [each["rule"] for each in withheld["given_up"]] == ["access"]
    with pytest.raises(SystemExit):
        command("num=2", *words, **of)
    assert "plans.svg, withheld; give overwrite=true" in capsys.readouterr().err
    command("num=2", *words, "strict=false", "overwrite=true", **of)
    assert len(lines()) == 2
    said = capsys.readouterr().out
    assert "left as they were, of earlier plans: made/withheld" in said
    assert "withheld," not in said
    with pytest.raises(SystemExit):
        command("num=1", *words, "out=none", of=(BEHIND,))
    assert "1 plan found, and each breaks a rule: access by 1; raise" in capsys.readouterr().err
    assert len(lines("none/withheld")) == 1
    assert [path.name for path in Path("none").iterdir()] == ["withheld"]
    # on a plot it is not planned
    with pytest.raises(SystemExit):
        command("num=1", *words, "boundary=[[0,0],[8,0],[8,8],[0,8]]", "out=plot", of=(BEHIND,))
    said = capsys.readouterr()
    assert "1 different diagram left out, of which no plan keeps all rules" in said.out
    assert "no plan was found of 1 different diagram" in said.err
    assert not Path("plot").exists()


@pytest.mark.slow
def test_a_signal_with_plans_that_break_rules_alone_writes_them(command, monkeypatch, capsys):
    def interrupted(job, **options):
        found = realise(job, **options)
        signal.raise_signal(signal.SIGINT)
        return found

    Path("made/dxf").mkdir(parents=True)
    Path("made/plans.jsonl").touch()
    monkeypatch.setattr(realising, "realise", interrupted)
    words = ("overwrite=true", "formats=[geojson]")
    with pytest.raises(SystemExit) as stop:
        command("num=1", "rules=default", "hall=never", "threads=1", *words, of=(BEHIND,))
    assert stop.value.code == 128 + signal.SIGINT
    said = capsys.readouterr().out
    assert "1 plan withheld, for broken rules: access by 1" in said
    assert "left as they were, of earlier plans: made/dxf, made/plans.jsonl\n" in said
    assert "stopped before any plan kept all rules" in said
    assert len(lines("made/withheld")) == 1
    assert Path("made/withheld/geojson/1.geojson").exists()


@pytest.mark.slow
def test_diagrams_that_the_area_is_too_small_for_are_left_out_and_counted(command, capsys):
    small = ("rules=default", "total_area=17")
    command("num=1", *small, of=(THREE, PAIR))
    assert [line["rooms"][:2] for line in lines()] == [["LivingRoom", "Kitchen"]]
    assert (
        "1 different diagram left out; of the first: field 'total_area'" in capsys.readouterr().out
    )
    with pytest.raises(SystemExit):
        command("num=1", "candidates=1", *small, "out=none", of=(THREE,))
    assert "no plan is possible of 1 different diagram" in capsys.readouterr().err


@pytest.mark.slow
def test_without_any_plan_it_says_so_and_writes_nothing(command, capsys):
    with pytest.raises(SystemExit):
        command("num=1", "candidates=1", of=(CIRCLE,))
    assert "no plan was found of 1 different diagram" in capsys.readouterr().err
    assert not Path("made").exists()
