"""The report shows what ``benchmarks/results`` holds, and ``make results`` writes it."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

import compare
import record
import results
from discrete_diffusion.domains.registry import get_domain
from discrete_diffusion.evaluation.comparison import Baseline, ComparedModel, Comparison
from discrete_diffusion.evaluation.comparison_table import comparison_table
from discrete_diffusion.evaluation.tables import finite_or_none

SCRIPT = """
from record import Part

def sections(record):
    return {(Part.DEMO, record.name): f"{record.results['1']:.1f}"}


def figures(record):
    return {f"{record.name}.png": lambda path: path.write_text(record.hardware)}
"""
COMMAND = "python benchmarks/measuring_toys.py --size 3"


def test_the_report_shows_what_the_results_hold():
    assert results.complaints(record.records()) == []


def test_processors_of_one_name_are_told_apart(tmp_path, monkeypatch):
    """Two generations that both say no more than AMD EPYC."""
    said = []
    for family in (25, 26):
        info = tmp_path / "cpuinfo"
        info.write_text(f"cpu family\t: {family}\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n")
        monkeypatch.setattr(record, "Path", lambda path, info=info: info)
        said.append(record.hardware())
    assert said[0].startswith("AMD EPYC (cpu family 25, model 17, ")
    assert said[0] != said[1]


def test_every_table_has_a_title_and_a_short_caption():
    for each in record.records():
        for _, name in each.sections():
            table = each.tables[name]
            assert table["title"]
            assert 0 < len(table["caption"].split()) <= 60, (each.name, name)


@pytest.fixture
def report(tmp_path, monkeypatch) -> Path:
    """Where the report goes; the script makes what it measured."""
    docs, kept, report = tmp_path / "docs", tmp_path / "results", tmp_path / "REPORT.md"
    for module in (record, results):
        monkeypatch.setattr(module, "DOCS", docs)
        monkeypatch.setattr(module, "REPORT", report)
    monkeypatch.setattr(record, "RESULTS", kept)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "measuring_toys.py").write_text(SCRIPT)
    (tmp_path / "measuring_silently.py").write_text("")
    (docs / "images").mkdir(parents=True)
    return report


def test_a_result_is_published_with_its_table_and_its_figure(report):
    path = record.publish("toys", command=COMMAND, seed=[0, 1], results={1: 2.25})
    written = json.loads(path.read_text())
    assert set(written) == {"command", "seed", "hardware", "date", "commit", "results"}
    assert re.fullmatch(r"[0-9a-f]{8}|unknown", written["commit"])
    source = f"`{COMMAND}`, seeds 0, 1; {record.hardware()}; commit `{written['commit']}`"
    shown = f"## Demo and quality\n\n### Toys\n\n{source}, {written['date']}\n\n2.2\n"
    assert report.read_text().endswith(shown)
    assert (report.parent / "docs" / "images" / "toys.png").read_text() == record.hardware()
    assert results.complaints(record.records()) == []


def test_a_new_measurement_keeps_the_caption_and_asks_about_it(report, capsys):
    path = record.publish("toys", command=COMMAND, seed=0, results={1: 1})
    table = {"title": "Toys of size 3", "caption": "They are small.", "images": ["toys.png"]}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"tables": {"toys": table}}))
    capsys.readouterr()
    record.publish("toys", command=COMMAND, seed=0, results={1: 3})
    assert "toys.json, 'toys': is the caption still true?" in capsys.readouterr().err
    _, text = report.read_text().split("### Toys of size 3\n\n")
    assert text.endswith(
        "\n\nThey are small.\n\n3.0\n\n![Toys of size 3](../docs/images/toys.png)\n"
    )


def test_the_report_is_made_again(report, monkeypatch, capsys):
    record.write_result("toys", command=COMMAND, seed=0, results={"1": 4})

    def run(*words: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["results.py", *words])
        with pytest.raises(SystemExit) as end:
            results.main()
        return end.value.code, capsys.readouterr().out

    status, said = run("--check")
    assert status == 1
    assert said.splitlines() == [
        "REPORT.md does not show 'toys' as benchmarks/results/toys.json has it: `make results`",
        "docs/images/toys.png is not there: `make results`",
    ]
    assert not report.exists()
    assert run() == (0, "written: benchmarks/REPORT.md\nwritten: docs/images/toys.png\n")
    assert run("--check") == (0, "the report and the results agree\n")
    report.write_text(report.read_text() + "by hand\n")
    assert run("--check")[0] == 1


def test_what_has_no_counterpart_is_named(report):
    silent = "python benchmarks/measuring_silently.py"
    path = record.publish("other", command=silent, seed=0, results=[])
    path.write_text(json.dumps(json.loads(path.read_text()) | {"tables": {"gone": {}}}))
    assert results.complaints(record.records()) == [
        "benchmarks/results/other.json is not in the report: its script has no tables for it: "
        "`make results`",
        "benchmarks/results/other.json: no table is called 'gone': `make results`",
    ]


@pytest.mark.parametrize("num_seeds", [1, 2])
def test_a_comparison_is_shown_from_its_numbers_alone(num_seeds, tmp_path):
    """As ``compare`` shows it, which has the values of all samples."""
    measurement, seeds = get_domain("dialogue").cell_measurement(), tuple(range(num_seeds))
    generator = torch.Generator().manual_seed(0)

    def values(*names: str, num: int = num_seeds) -> dict[str, torch.Tensor]:
        shape = (num, 5) if num else (5,)
        return {n: torch.rand(shape, generator=generator, dtype=torch.float64) for n in names}

    def model(algorithm: str, *measures: str) -> ComparedModel:
        metrics = {"exact_match": [0.5, 0.25], "seconds_training": [60.0, 90.0]}
        metrics |= {"network_calls": [math.nan] * 2, "num_samples": [5.0, 5.0]}
        return ComparedModel(
            algorithm,
            backbone="dit",
            model="dit_mini",
            instead_of=None,
            parameters=1000,
            quantity="nats" if "nelbo" in measures else None,
            values=values(*measures),
            metrics={name: numbers[:num_seeds] for name, numbers in metrics.items()},
            config=OmegaConf.create(),
            folder=Path(),
        )

    comparison = Comparison(
        models=(model("ar", "rouge_l"), *(model(n, "nelbo", "rouge_l") for n in ("mdlm", "udlm"))),
        seeds=seeds,
        measured=measurement.measures,
        columns=measurement.columns,
        split="test",
        noise_samples=16,
        baselines=(Baseline("a guess", values("rouge_l", num=0), {"exact_match": 0.125}),),
    )
    cells = {
        f"{m.algorithm}-{m.backbone}-seed{seed}": {
            "metrics": {name: numbers[seed] for name, numbers in m.metrics.items()}
        }
        for m in comparison.models
        for seed in seeds
    }
    kept = {
        "domain": "dialogue",
        "setting": "toys",
        "seeds": list(seeds),
        "split": "test",
        "terms": {"bound_draws": 16},
        "models": comparison.rows(),
        "baselines": comparison.baseline_rows(),
        "real_data": {"metrics": {"exact_match": 1.0}},
        "cells": cells,
        "notes": ["a note"],
    }
    kept = json.loads(json.dumps(finite_or_none(kept)))
    found = record.Record("comparison_toys", "python benchmarks/compare.py toys", 0, "", kept)
    text = compare.sections(found)[record.Part.ALGORITHMS, "comparison toys"]
    table = comparison_table(comparison, {"exact_match": 1.0}).markdown()
    minutes = {1: "3", 2: "8"}[num_seeds]  # 3 of 60 s; and 3 of 90 s
    assert text == (
        f"{table}\n* a note\n* Training took {minutes} minutes in all.\n\n"
        "![Bounds and samples by algorithm](../docs/images/comparison_toys.png)"
    )
    assert table.count("±") > 8
    ((name, draw),) = compare.figures(found).items()
    draw(tmp_path / name)
    assert (tmp_path / "comparison_toys.png").stat().st_size > 0
