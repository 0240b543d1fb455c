"""Every format gives back the plan that was written, but for what the page says it cannot hold."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from drawn_plans import PIXEL, assert_same, by_hand, embedded, expected_of, real

from floor_plans import BubbleDiagram, generate_plans, write_diagrams
from floor_plans.commands.data_commands import DIALECTS, FORMAT_NAMES
from floor_plans.commands.runs import SUFFIXES
from floor_plans.diagrams.files import graph_formats
from floor_plans.diagrams.geometry import relations_from_boxes
from floor_plans.diagrams.pictures.diagram_pictures import plot_grid
from floor_plans.diagrams.pictures.trajectory import Palette, write_gif
from floor_plans.diagrams.vocabulary import NO_EDGE
from floor_plans.drawings.readers import ReadOptions, read_report
from floor_plans.drawings.realised_files import FORMATS, write_plan
from floor_plans.plans.floor_plan import FloorPlan
from full_disk import check_old_or_new

pytest.importorskip("ezdxf", reason="dimensioned plans take the extra plans")
pytest.importorskip("shapely", reason="dimensioned plans take the extra plans")


READ = [name for name, each in FORMATS.items() if each.is_read]


def read_back(path: Path) -> FloorPlan:
    (diagram,) = read_report(path).diagrams
    return FloorPlan.of(diagram, "pixels")


@pytest.mark.slow
@pytest.mark.parametrize("format", READ)
def test_plans_come_back(tmp_path, format):
    for k, plan in enumerate([by_hand(), *embedded(5)]):
        path = tmp_path / f"{k}{FORMATS[format].suffix}"
        write_plan(path, plan, format)
        assert_same(read_back(path), expected_of(format, plan))
    report = read_report(tmp_path)
    assert (len(report.diagrams), report.problems) == (6, ())
    assert report.left_out.keys() <= {"walls"}  # of House-GAN++


def test_a_centre_on_the_line_of_an_edge_stays_on_it(tmp_path):
    """Where relations are measured again, they are those of the boxes in whole decimetres."""
    path = tmp_path / "plan.houseganpp.json"
    rng, num_on_lines = np.random.default_rng(0), 0
    for _ in range(60):
        corners = rng.integers(0, 30, (3, 2))
        whole = np.hstack([corners, corners + 2 * rng.integers(8, 20, (3, 2))])
        codes = relations_from_boxes(whole, 6)
        shaken = relations_from_boxes(whole + rng.uniform(-1e-9, 1e-9, whole.shape), 6)
        num_on_lines += bool((codes != shaken).any())
        boxes = tuple(tuple(side / 10 for side in box) for box in whole.tolist())
        write_plan(path, FloorPlan(BubbleDiagram((0, 2, 3), (), boxes)), "houseganpp")
        (read,) = read_report(path, ReadOptions(adjacency_threshold=0.6 / PIXEL)).diagrams
        pairs = np.argwhere(codes != NO_EDGE).tolist()
        assert read.relations == tuple((i, j, int(codes[i, j])) for i, j in pairs)
    assert num_on_lines > 5


@pytest.mark.slow
@pytest.mark.parametrize("format", READ)
def test_real_plans_come_back(tmp_path, real_data, format):
    path, plans = tmp_path / f"plan{FORMATS[format].suffix}", real(real_data, every=5)
    assert len(plans) == 6 + 200
    for plan in plans:  # all of them take minutes
        write_plan(path, plan, format)
        assert_same(read_back(path), expected_of(format, plan))


def test_gzipped_plans_are_read(tmp_path):
    for format in READ:
        path = tmp_path / f"plan{FORMATS[format].suffix}"
        write_plan(path, by_hand(), format)
        path = path.rename(f"{path}.gz")
        path.write_bytes(gzip.compress(path.read_bytes()))
        assert_same(read_back(path), expected_of(format, by_hand()))


def test_the_command_line_knows_every_format():
    endings = {each.suffix.removeprefix(".") for each in FORMATS.values()}
    assert set(FORMAT_NAMES) == set(FORMATS)
    assert {f"{name}.json" for name in DIALECTS} == {each for each in endings if "." in each}
    assert {f".{each}" for each in endings if "." not in each} <= set(SUFFIXES)


@pytest.mark.slow
def test_json_lines_hold_doors_and_boundary(tmp_path, real_data):
    plans = [by_hand(), *embedded(5), *real(real_data, every=10)]
    (tmp_path / "plans.jsonl").write_text("".join(json.dumps(p.to_json()) + "\n" for p in plans))
    write_diagrams(tmp_path / "same.jsonl", [plan.to_diagram() for plan in plans])
    assert (tmp_path / "same.jsonl").read_bytes() == (tmp_path / "plans.jsonl").read_bytes()
    report = read_report(tmp_path / "plans.jsonl")
    assert [FloorPlan.of(diagram, "feet") for diagram in report.diagrams] == plans
    for read, plan in zip(report.diagrams, plans, strict=True):
        assert_same(FloorPlan.of(read), plan)


@pytest.mark.parametrize("format", ["dxf", "geojson", "rlvr"])
def test_a_unit_is_no_matter_where_the_format_is_in_metres(tmp_path, format):
    plan = by_hand()
    path = tmp_path / f"plan{FORMATS[format].suffix}"
    write_plan(path, plan, format)
    for unit, gap in (("metres", None), ("feet", None), ("metres", 9 * 18 / 256), ("pixels", 9.0)):
        (read,) = read_report(path, ReadOptions(unit=unit, adjacency_threshold=gap)).diagrams
        assert_same(FloorPlan.of(read, unit), expected_of(format, plan))


@pytest.mark.parametrize("format", READ)
def test_damaged_files_are_read_or_refused_in_a_sentence(tmp_path, format):
    rng = random.Random(0)
    path = tmp_path / f"plan{FORMATS[format].suffix}"
    write_plan(path, by_hand(), format)
    text, outcomes = path.read_text(), set()
    for _ in range(60):
        damaged = text
        for _ in range(rng.choice([1, 3])):
            start = rng.randrange(len(damaged))
            new = rng.choice(["", "0", "-", "nan", "1e999", '"', "\n", "null", damaged[:99]])
            damaged = damaged[:start] + new + damaged[start + rng.choice([1, 5, 60]) :]
        path.write_text(damaged)
        report = read_report(path, ReadOptions(skip_invalid=True))
        assert report.problems or report.diagrams
        for problem in report.problems:
            assert str(path) in problem.sentence()
            assert "\n" not in problem.sentence()
        outcomes.add(bool(report.problems))
    assert True in outcomes


def test_what_cannot_be_written_leaves_no_file(tmp_path):
    with pytest.raises(ValueError, match="unknown format of plans 'dxg'; did you mean 'dxf'"):
        write_plan(tmp_path / "plan.dxg", by_hand(), "dxg")
    plan = by_hand()
    plan.diagram.metadata["score"] = float("nan")
    for format in ("dxf", "geojson", "rlvr"):
        with pytest.raises(ValueError, match="metadata cannot be written as JSON"):
            write_plan(tmp_path / f"plan.{format}", plan, format)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("module", ["ezdxf", "shapely"])
def test_without_the_extra_a_sentence_names_it(tmp_path, monkeypatch, module):
    paths = []
    for format in READ:
        paths.append(tmp_path / f"plan{FORMATS[format].suffix}")
        write_plan(paths[-1], by_hand(), format)
    from floor_plans.drawings import drawn_plan

    monkeypatch.setattr(drawn_plan, "find_spec", lambda name: None if name == module else name)
    for format, path in zip(READ, paths, strict=True):
        with pytest.raises(ValueError, match=rf"{module}, which is not.*pip install .*\[plans\]"):
            write_plan(tmp_path / "new", by_hand(), format)
        if format != "houseganpp":  # which takes neither
            with pytest.raises(ValueError, match=rf"{path.name}: .*pip install .*\[plans\]"):
                read_report(path)


PLANS = generate_plans(12, seed=1)
NOISE = np.random.default_rng(0)


def write_frames(path: Path) -> None:
    frames = NOISE.integers(0, 255, (3, 20, 20, 3), dtype=np.uint8)
    write_gif(path, frames, Palette(frames), [0.1, 0.2, 0.3])


def whole_plan(path: Path) -> FloorPlan:
    return FloorPlan.of(PLANS[0], "pixels")


WRITERS: dict[str, Callable[[Path], object]] = {
    "plans.jsonl": lambda path: write_diagrams(path, PLANS),
    "plans.json": lambda path: graph_formats.write_json_list(path, PLANS),
    "plan.graphml": lambda path: graph_formats.write_graphml(path, PLANS[0]),
    "plans.png": lambda path: plot_grid(PLANS[:2], path),
    "plans.svg": lambda path: plot_grid(PLANS[:2], path),
    "steps.gif": write_frames,
    **{
        f"plan{each.suffix}": lambda path, name=name: write_plan(path, whole_plan(path), name)
        for name, each in FORMATS.items()
    },
}


@pytest.mark.parametrize("late", [False, True], ids=["no room", "told late"])
@pytest.mark.parametrize("name", WRITERS)
def test_the_old_file_of_plans_or_the_new_one(tmp_path, name, late):
    check_old_or_new(tmp_path / name, WRITERS[name], late=late)
