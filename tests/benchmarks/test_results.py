"""Pages of the docs show what ``benchmarks/results`` holds, and ``make results`` writes it."""

from __future__ import annotations

import json
import math
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
from discrete_diffusion.evaluation.json_values import finite_or_none

SCRIPT = """
def sections(record):
    said = f"{record.command}, seed {record.seed}: {record.results['1']:.1f}"
    return {("page.md", record.name): said}


def figures(record):
    return {f"{record.name}.png": lambda path: path.write_text(record.hardware)}
"""
COMMAND = "python benchmarks/measuring_toys.py --size 3"
PAGE = "# Toys\n\n<!-- toys: start -->\n0.0\n<!-- toys: end -->\n\nSaid by hand.\n"


def test_pages_show_what_the_results_hold():
    assert results.complaints(results.records()) == []


@pytest.fixture
def docs(tmp_path, monkeypatch) -> Path:
    """A page with the section ``toys`` beside no results; the script makes what it measured."""
    docs, kept = tmp_path / "docs", tmp_path / "results"
    for module in (record, results):
        monkeypatch.setattr(module, "DOCS", docs)
        monkeypatch.setattr(module, "RESULTS", kept)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "measuring_toys.py").write_text(SCRIPT)
    (tmp_path / "measuring_silently.py").write_text("")
    (docs / "images").mkdir(parents=True)
    (docs / "page.md").write_text(PAGE)
    return docs


def test_a_result_is_published_with_its_section_and_its_figure(docs):
    path = record.publish("toys", command=COMMAND, seed=[0, 1], results={1: 2.25})
    assert set(json.loads(path.read_text())) == {"command", "seed", "hardware", "results"}
    made = f"{COMMAND}, seed [0, 1]: 2.2"
    assert (docs / "page.md").read_text() == PAGE.replace("0.0", made)
    assert (docs / "images" / "toys.png").read_text() == record.hardware()
    assert results.complaints(results.records()) == []


def test_all_pages_are_made_again(docs, monkeypatch, capsys):
    record.write_result("toys", command=COMMAND, seed=0, results={"1": 4})

    def run(*words: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["results.py", *words])
        with pytest.raises(SystemExit) as end:
            results.main()
        return end.value.code, capsys.readouterr().out

    status, said = run("--check")
    assert status == 1
    assert said.splitlines() == [
        "docs/page.md, section 'toys' is not what benchmarks/results/toys.json gives: `make "
        "results` writes that",
        "docs/images/toys.png is not there: `make results` draws it",
    ]
    assert (docs / "page.md").read_text() == PAGE
    assert run() == (0, "written: docs/page.md: toys\nwritten: docs/images/toys.png\n")
    assert (docs / "page.md").read_text() == PAGE.replace("0.0", f"{COMMAND}, seed 0: 4.0")
    assert run("--check") == (0, "pages and results agree\n")


def test_what_has_no_counterpart_is_named(docs, capsys):
    said = results.complaints(results.records())
    assert said == ["docs/page.md, section 'toys' is given by no file of results"]
    silent = "python benchmarks/measuring_silently.py"
    record.publish("demo", command=silent, seed=0, results=[])
    record.publish("other", command=silent, seed=0, results=[])
    record.publish("more", command=COMMAND, seed=0, results={"1": 1})
    assert "no section <!-- more: start -->" in capsys.readouterr().err
    found = results.records()
    assert results.write(found) == ["docs/images/more.png"]
    assert results.complaints(found) == [
        "docs/page.md, section 'more' is not there, benchmarks/results/more.json gives it: write "
        "its marks into the page",
        "benchmarks/results/other.json is in no page: benchmarks/measuring_silently.py has no "
        "sections for it",
        "docs/page.md, section 'toys' is given by no file of results",
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
        bound_draws=16,
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
    text = compare.sections(found)["results_algorithms.md", "comparison toys"]
    table = comparison_table(comparison, {"exact_match": 1.0}).markdown()
    minutes = {1: "3", 2: "8"}[num_seeds]  # 3 of 60 s; and 3 of 90 s
    assert text == (
        f"{table}\n* a note\n* Training took {minutes} minutes in all.\n\n"
        "![Bounds and samples by algorithm](images/comparison_toys.png)"
    )
    assert table.count("±") > 8
    ((name, draw),) = compare.figures(found).items()
    draw(tmp_path / name)
    assert (tmp_path / "comparison_toys.png").stat().st_size > 0
