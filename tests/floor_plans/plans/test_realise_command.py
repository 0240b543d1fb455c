"""``plans realise`` and ``sample realise=true``: files, lines in their order, and refusals."""

from __future__ import annotations

import json
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path
from threading import Timer

import pytest

from discrete_diffusion.cli import main
from floor_plans import BubbleDiagram, generate_plans, read_diagrams, write_diagrams
from plan_examples import CIRCLE

pytest.importorskip("ortools", reason="OR-Tools finds plans")
pytest.importorskip("shapely", reason="dimensioned plans take the extra plans")

from discrete_diffusion.runtime import progress
from discrete_diffusion.sampling import FirstHitting
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.rules.finding import remove_halls
from floor_plans.solver import realising
from floor_plans.solver.plan_model import PlanModel
from floor_plans.solver.realised import Realised, scores_of
from floor_plans.solver.realising import realise
from interrupting import stop_at_call, stopped

SMALL = BubbleDiagram((0, 2, 3), [(0, 1, 2), (0, 2, 6)])
PLOT = ["out=built", "boundary=[[0,0],[12,0],[12,8],[0,8]]"]
INPUT = [replace(generate_plans(1, seed=1)[0], boxes=None), CIRCLE, SMALL]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_diagrams("samples.jsonl", INPUT)
    return tmp_path


def lines(path: str) -> list[dict]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


@pytest.mark.slow
def test_every_line_has_its_plan_or_the_reason_why_it_has_none(folder, capsys):
    main(["plans", "realise", "samples.jsonl", "out=built", "formats=dxf,geojson"])
    said = capsys.readouterr().out
    assert "2 of 3 diagrams have a plan" in said
    first, none, small = lines("built/plans.jsonl")
    assert "no floor plan exists: living room left-of master room" in none["no_plan"]
    assert "boxes" not in none
    for given, line in ((INPUT[0], first), (SMALL, small)):
        plan = FloorPlan.of(BubbleDiagram.from_json(line))
        own = remove_halls(plan.diagram)  # the first has room for a hall
        assert (own.rooms, own.relations) == (given.rooms, given.relations)
        assert plan.honours_diagram
        assert line["areas"] == pytest.approx(plan.areas, abs=0.01)
        is_off = [
            area != pytest.approx(target, rel=0.101)
            for area, target in zip(plan.areas[: own.num_rooms], line["target_areas"], strict=True)
        ]
        given_up = [entry for entry in line.get("given_up", []) if entry.get("demand") == "areas"]
        assert any(is_off) == bool(given_up)
    assert "given_up" not in small
    assert (
        read_diagrams("built/plans.jsonl", adjacency_threshold=0.6)[2].relations == SMALL.relations
    )
    numbers = json.loads(Path("built/plans.json").read_text())
    assert numbers["num_diagrams"] == 3
    assert numbers["num_with_plan"] == 2
    assert numbers["num_all_met"] == sum("given_up" not in line for line in (first, small))
    assert numbers["reasons"] == {"no floor plan exists": 1}
    assert numbers["overlap"] == 0
    assert sorted(path.name for path in Path("built/dxf").iterdir()) == ["1.dxf", "3.dxf"]
    assert sorted(path.name for path in Path("built/geojson").iterdir()) == [
        "1.geojson",
        "3.geojson",
    ]
    assert "Living" in Path("built/plans.svg").read_text()
    assert not list(Path("built").glob("*partial*"))


@pytest.mark.slow
def test_given_areas_and_outlines_count_before_drawn_ones(folder):
    corners = [[0, 0], [9, 0], [9, 5], [5, 5], [5, 9], [0, 9]]
    data = SMALL.to_json() | {"areas": [24, None, 4.5], "boundary": corners}
    Path("given.jsonl").write_text(json.dumps(data) + "\n")
    main(
        [
            "plans",
            "realise",
            "given.jsonl",
            "out=built",
            "total_area=37.5",
            "variants=2",
            "rules=none",
        ]
    )
    first, second = lines("built/plans.jsonl")
    assert first["target_areas"] == second["target_areas"] == [24, 9.0, 4.5]
    assert first["boxes"] != second["boxes"]
    plan = FloorPlan.of(BubbleDiagram.from_json(first))
    assert plan.boundary == tuple(map(tuple, corners))
    assert all(plan.outline.buffer(1e-6).covers(box) for box in plan.boxes)


@pytest.mark.slow
def test_areas_of_a_file_and_a_ratio(folder):
    write_diagrams("real.jsonl", generate_plans(5, seed=2))
    words = ["areas=real.jsonl", "ratio=1.5", "picture=floor.png", "seed=3"]
    write_diagrams("samples.jsonl", [SMALL])
    main(["plans", "realise", "samples.jsonl", "out=built", *words])
    (line,) = lines("built/plans.jsonl")
    x0, y0, x1, y1 = FloorPlan.of(BubbleDiagram.from_json(line)).outline.bounds
    assert (x1 - x0) / (y1 - y0) == pytest.approx(1.5, rel=0.03)
    assert Path("built/floor.png").stat().st_size > 1000
    living = {
        round(area, 2)
        for plan in generate_plans(5, seed=2)
        for room, area in zip(plan.rooms, FloorPlan.of(plan, "pixels").areas, strict=True)
        if room == 0
    }
    assert line["target_areas"][0] in living or 0 in line["at_least"]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["out=built", "formats=dfx"], "dxf"),
        (["out=built", "layers=iso"], "unknown layers 'iso'"),
        (["out=built", "storey=2"], "storey=2"),
        (["out=built", "ratio=1e300"], "ratio=1e+300: expected a number in [0.1, 10]"),
        (["out=built", "total_area=1e12"], "1e+12 m2 in all: expected at most 40,000"),
        (["out=built", "tolerance=2"], "tolerance=2"),
        (["out=built", "total_area=5"], "rules=default need at least"),
        (["out=built", "threads=0"], "threads=0"),
        (["out=built", "picture=plans.pdf"], "picture=plans.pdf"),
        (["out=built", "boundary=[[0,0],[1,1]]"], "boundary"),
        (["out=built", "front_door=[1,2]"], "front_door=[1.0, 2.0]"),
        (
            [*PLOT, "front_door=[5500,8000]"],
            "front_door=[5500.0, 8000.0]: 9,694.9 m from the boundary; expected a place [x, y] on "
            "it, in metres",
        ),
        (["out=built", "front_door=door"], "front_door=door: expected its place [x,y]"),
        (["out=built", "north=nan"], "north=nan: expected a number"),
        (["out=built", "boundary=nowhere.json"], "boundary=nowhere.json: no such file"),
        (["out=built", "boundary=[[0,0],[9,0],[9,9],[0,9]]", "total_area=500"], "81.0 m2"),
        (["out=built", "picture=../plans.svg"], "picture=../plans.svg"),
        (["out=built", "areas=samples.jsonl"], "areas=samples.jsonl"),
        (["out=samples.jsonl"], "out=samples.jsonl"),
        ([], "--out"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_written(folder, capsys, words, named):
    with pytest.raises(SystemExit):
        main(["plans", "realise", "samples.jsonl", *words])
    assert named in capsys.readouterr().err
    assert not Path("built").exists()


def test_a_line_with_wrong_areas_is_named(folder, capsys):
    good, bad = SMALL.to_json(), SMALL.to_json() | {"areas": [24, -1, 4]}
    Path("given.jsonl").write_text(f"{json.dumps(good)}\n\n{json.dumps(bad)}\n")
    with pytest.raises(SystemExit):
        main(["plans", "realise", "given.jsonl", "out=built"])
    error = capsys.readouterr().err
    assert "given.jsonl, line 3, field 'areas'" in error


@pytest.mark.slow
def test_earlier_plans_are_replaced_only_if_asked(folder, capsys):
    write_diagrams("samples.jsonl", [SMALL])
    words = ["plans", "realise", "samples.jsonl", "out=built", "formats=rlvr"]
    main(words)
    (before,) = lines("built/plans.jsonl")
    with pytest.raises(SystemExit):
        main(words)
    assert "overwrite=true" in capsys.readouterr().err
    main([*words, "overwrite=true", "seed=5"])
    (after,) = lines("built/plans.jsonl")
    assert after["target_areas"] != before["target_areas"]
    assert Path("built/rlvr.replaced-1").is_dir()
    capsys.readouterr()
    main([*words[:-1], "overwrite=true", "formats=dxf"])
    assert "left as they were, of earlier plans: built/rlvr\n" in capsys.readouterr().out


@pytest.mark.slow
def test_plans_are_not_replaced_by_those_that_are_found_for_them(folder, capsys):
    words = ["plans", "realise", "samples.jsonl", "out=built"]
    write_diagrams("samples.jsonl", [SMALL])
    main(words)
    before = Path("built/plans.jsonl").read_bytes()
    for again in (["built/plans.jsonl", "out=built"], [*words[2:], "areas=built/plans.jsonl"]):
        with pytest.raises(SystemExit):
            main(["plans", "realise", *again, "overwrite=true"])
        assert "built/plans.jsonl would be overwritten" in capsys.readouterr().err
    assert Path("built/plans.jsonl").read_bytes() == before


@pytest.mark.slow
def test_fewer_variants_are_said(folder):
    tight = SMALL.to_json() | {"boundary": [[0, 0], [3, 0], [3, 2], [0, 2]]}
    Path("tight.jsonl").write_text(json.dumps(tight) + "\n")
    main(["plans", "realise", "tight.jsonl", "out=built", "variants=9", "rules=none"])
    found = lines("built/plans.jsonl")
    assert 0 < len(found) < 9
    for line in found:
        words = [each["found"] for each in line["given_up"]]
        assert f"{len(found)} of 9 variants were found" in words


@pytest.mark.slow
def test_no_picture_of_earlier_plans_stays_beside_none(folder):
    write_diagrams("samples.jsonl", [SMALL])
    main(["plans", "realise", "samples.jsonl", "out=built"])
    write_diagrams("samples.jsonl", [CIRCLE])
    main(["plans", "realise", "samples.jsonl", "out=built", "overwrite=true"])
    assert "no_plan" in lines("built/plans.jsonl")[0]
    assert not Path("built/plans.svg").exists()


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_writes_the_plans_that_were_found(folder, monkeypatch, capsys, threads):
    """It comes while the solver works, which has its own way with signals."""
    many = [SMALL] * 4 + [INPUT[0]] * 50
    write_diagrams(
        "many.jsonl", [replace(each, metadata={"name": k}) for k, each in enumerate(many)]
    )
    begun = []

    def interrupted(job, **options):
        begun.append(job)
        if len(begun) == 5:
            Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        return realise(job, **options)

    monkeypatch.setattr(realising, "realise", interrupted)
    before = threading.active_count()
    words = ["plans", "realise", "many.jsonl", "out=built", f"threads={threads}"]
    stopped(capsys, *words)
    found = [line["name"] for line in lines("built/plans.jsonl")]
    assert found == [*range(len(found))]
    assert 0 < len(found) < 12
    assert json.loads(Path("built/plans.json").read_text())["num_not_tried"] == 54 - len(found)
    assert threading.active_count() == before  # no search goes on


@pytest.mark.slow
def test_ctrl_c_keeps_the_variants_of_the_diagram_at_hand(folder, monkeypatch, capsys):
    write_diagrams("small.jsonl", [SMALL])
    best, noted = PlanModel.find_best, []

    def interrupted(self, *arguments):
        noted.append(progress.where())
        if "variant 3" in noted[-1]:
            signal.raise_signal(signal.SIGINT)
        return best(self, *arguments)

    monkeypatch.setattr(PlanModel, "find_best", interrupted)
    stopped(capsys, "plans", "realise", "small.jsonl", "out=built", "variants=99")
    assert len(lines("built/plans.jsonl")) == 2  # the third is given up
    assert "variant 3 of at most 99" in noted[-1]


@pytest.mark.slow
def test_sample_writes_plans_beside_its_samples(sampled, capsys):
    words = ["num_samples=3", "num_rooms=2", "threads=1", "realise=true", "buildable=true"]
    _, metrics = sampled("drawn", *words)
    samples, plans = lines("drawn/samples.jsonl"), lines("drawn/plans.jsonl")
    assert [plan["rooms"][:2] for plan in plans] == [sample["rooms"] for sample in samples]
    for plan, sample in zip(plans, samples, strict=True):
        own = [relation for relation in plan["relations"] if relation[1] < 2]
        assert own == sample["relations"]
    assert all("boxes" in plan for plan in plans)
    assert metrics["plans"]["num_with_plan"] == 3
    assert "3 of 3 diagrams have a plan" in capsys.readouterr().out


def test_wrong_areas_of_a_given_line_are_named_before_anything_is_drawn(sampled, capsys):
    good = {"rooms": ["LivingRoom", None], "relations": [], "areas": [30, None]}
    bad = good | {"areas": [30]}
    Path("given.jsonl").write_text(f"{json.dumps(good)}\n{json.dumps(bad)}\n")
    with pytest.raises(SystemExit):
        sampled("drawn", "given=given.jsonl", "threads=1", "realise=true")
    error = capsys.readouterr().err
    assert "given.jsonl, line 2" in error
    assert "areas" in error
    assert not list(Path().glob("drawn/samples*"))


def test_plans_of_earlier_samples_are_said_to_be_left(sampled, capsys):
    Path("drawn").mkdir()
    Path("drawn/plans.jsonl").write_text("earlier\n")
    sampled("drawn", "num_samples=2", "num_rooms=3", "threads=1", "overwrite=true")
    shown = capsys.readouterr()
    assert "plans.jsonl are left as they were" in shown.out + shown.err
    assert Path("drawn/plans.jsonl").read_text() == "earlier\n"


DRAWN = ["num_samples=4", "num_rooms=3", "threads=1", "out=drawn", "realise=true"]


@pytest.mark.slow
def test_ctrl_c_while_plans_are_found_keeps_these(untrained, folder, monkeypatch, capsys):
    begun = []

    def interrupted(job, **options):
        begun.append(job)
        if len(begun) == 2:
            signal.raise_signal(signal.SIGINT)
        return Realised(reason="none")

    monkeypatch.setattr(realising, "realise", interrupted)
    error = stopped(capsys, "sample", f"checkpoint={untrained}", *DRAWN)
    assert len(begun) == 2
    assert len(lines("drawn/plans.jsonl")) == 1  # the second is given up
    assert "the 4 finished samples are in drawn" in error
    found = json.loads(Path("drawn/metrics.json").read_text())
    assert found["stopped_by"] == "SIGINT"
    assert found["plans"]["num_diagrams"] == 1
    assert found["plans"]["num_not_tried"] == 3


def test_ctrl_c_while_samples_are_drawn_begins_no_plan(untrained, folder, monkeypatch, capsys):
    stop_at_call(monkeypatch, FirstHitting, 2)
    stopped(capsys, "sample", f"checkpoint={untrained}", *DRAWN, "batch_size=2")
    found = json.loads(Path("drawn/metrics.json").read_text())
    assert found["num_samples"] == found["plans"]["num_not_tried"] == 2
    assert not list(Path("drawn").glob("plans*"))


@pytest.mark.slow
def test_variants_are_ranked_and_drawn_side_by_side_with_their_scores(folder):
    write_diagrams("samples.jsonl", [SMALL, CIRCLE, SMALL])
    main(["plans", "realise", "samples.jsonl", "out=built", "variants=3", "total_area=60"])
    found = [line for line in lines("built/plans.jsonl") if "boxes" in line]
    ranks = [
        (
            line["diagram"],
            len(line.get("given_up", ())),
            line["scores"]["num_broken"],
            -line["scores"]["total"],
        )
        for line in found
    ]
    assert ranks == sorted(ranks)
    assert len(found) > 4
    for line in found:
        plan = FloorPlan.of(BubbleDiagram.from_json(line))
        expected = scores_of(plan, line["target_areas"])
        assert line["scores"]["compactness"] == pytest.approx(expected.compactness, abs=1e-3)
        assert line["scores"]["num_broken"] == expected.num_broken
    drawn = Path("built/plans.svg").read_text()
    for line in found:
        assert f"{line['diagram']}, 1 of " in drawn
    assert drawn.count(" rules broken, ") + drawn.count(" rule broken, ") == len(found)


@pytest.mark.slow
def test_a_front_door_and_north_are_given_to_the_solver(folder):
    write_diagrams("small.jsonl", [SMALL])
    plot = ["boundary=[[0,0],[9,0],[9,7],[0,7]]", "rules=none", "total_area=45", "out=built"]
    main(["plans", "realise", "small.jsonl", *plot, "front_door=[0,3]", "north=90"])
    (line,) = lines("built/plans.jsonl")
    (door,) = [each for each in line["doors"] if "outside" in each["rooms"]]
    assert door["from"][0] == door["to"][0] == 0
    assert door["from"][1] <= 3 <= door["to"][1]
    assert line["boxes"][0][0] == 0  # the living room, at the west side
    assert line["north"] == 90
    assert "plan-0-north" in Path("built/plans.svg").read_text()
