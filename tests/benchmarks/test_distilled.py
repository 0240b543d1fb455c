"""The table and the figure of students show the numbers of their teacher beside theirs."""

from __future__ import annotations

import pytest

from distilled import FIGURE, STEPS, TEACHER, cells_of, figures, is_judged, sections
from record import Part, Record
from sampler_figures import CostPanel, CostPoint, QualityRow, draw_costs

QUALITY = {"relation_tv": 0.02, "node_tv": 0.01, "valid": 0.99, "mode_coverage_weighted": 0.9}


def results():
    cells = []
    for cell in cells_of(["4"], 2):
        numbers = {**QUALITY, "calls": 27.0 if cell.steps is None else cell.steps}
        numbers |= {"transitive": 0.9 + 0.02 * cell.seed, "cpu_seconds": numbers["calls"]}
        numbers |= {"buildable": 0.8} if is_judged(cell, [4]) else {}
        cells.append({"line": cell.line, **cell.facts, **numbers})
    model = {"steps": 10, "batch_size": 64, "parameters": 1000, "nats_standard_error": 0.1}
    return {
        "num_samples": 1000,
        "num_reference": 500,
        "num_verdicts": 50,
        "floors": {**QUALITY, "transitive": 1.0, "buildable": 1.0},
        "models": {
            TEACHER: {**model, "nats": 18.0},
            "4": {**model, "nats": 19.0, "cpu_minutes": 30.4},
        },
        "cells": cells,
    }


@pytest.fixture
def record():
    return Record("distilled", "python benchmarks/distilled.py", [0, 1], "a processor", results())


def test_the_table_has_a_row_per_sampler_with_means_over_seeds(record):
    table = sections(record)[Part.SAMPLERS, "distilled"].split("\n\n")[0]
    rows = {line.split(" | ")[0].strip("| "): line.split(" | ") for line in table.splitlines()[2:]}
    assert len(rows) == 2 + len(STEPS) + 1 + 1
    assert rows["teacher, first-hitting"][1:3] == ["27.0", "≤ 18.00 ± 0.10"]
    student = rows["student, few-call"]
    assert student[2] == "19.00 ± 0.10"
    assert student[3] == "0.0200 ± 0.0000"
    assert student[6] == "91.0 ± 1.0"  # 90 and 92
    assert student[8].startswith("80.0 (")
    assert student[9].startswith("27.0 ± 0.0")
    judged = {name for name, row in rows.items() if row[8]}
    assert judged == {
        *("teacher, first-hitting", "teacher, first-hitting, steps=4", "teacher, entropy-bounded"),
        *("student, few-call", "real plans"),
    }


def test_what_training_took_is_said(record):
    said = sections(record)[Part.SAMPLERS, "distilled training"]
    assert said == (
        "* 4 calls: 1,000 parameters, 10 steps of 64, 30 CPU-minutes with its own evaluation."
    )


@pytest.mark.slow
def test_the_figure_is_drawn_from_the_record(record, tmp_path):
    ((name, draw),) = figures(record).items()
    assert name == FIGURE
    draw(tmp_path / name)
    assert (tmp_path / name).stat().st_size > 0


def test_curves_run_by_cost_and_floors_are_lines():
    costs, rows = [CostPanel("calls", "calls")], [QualityRow("tv", "TV"), QualityRow("bad", "bad")]
    points = [
        CostPoint({"calls": calls, "tv": tv, "bad": 1.0}, {"tv": 0.01, "bad": 0.0})
        for calls, tv in ((27.0, 0.02), (4.0, 0.05))
    ]
    figure = draw_costs({"one": points}, costs, rows, floors={"tv": 0.015})
    tv, bad = figure.axes
    assert tv.lines[0].get_xydata().tolist() == [[4, 0.05], [27, 0.02]]
    assert list(tv.lines[1].get_ydata()) == [0.015, 0.015]
    assert len(bad.lines) == 1
    with pytest.raises(ValueError, match="0 curves"):
        draw_costs({}, costs, rows, floors={})
