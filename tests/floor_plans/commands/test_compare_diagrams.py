"""``discrete-diffusion compare`` on diagrams: columns of its tables."""

from __future__ import annotations

import csv
import json
import shutil

import pytest

from comparison_fixtures import SHORT, TWO, again
from discrete_diffusion.cli.compare import CompareRequest, run_comparison


@pytest.mark.slow
def test_columns_and_the_reference_of_the_tables_are_chosen(finished, tmp_path, caplog):
    out = tmp_path / "copy"
    shutil.copytree(finished[0], out)
    caplog.set_level("INFO")
    chosen = "columns=[nelbo,difference,backbone,valid,network_calls,buildable]"
    words = [*SHORT, *TWO, f"out={out}", chosen, "baseline=mdlm"]
    results = run_comparison(CompareRequest(words))
    assert "nothing to train: 2 cells finished" in caplog.messages
    first, rule, _, *rows = (out / "table.md").read_text().split("\n\n")[0].splitlines()
    heads = [head.strip() for head in first.split("|")[1:-1]]
    assert [heads[0], heads[3]] == ["algorithm", "backbone"]
    assert [head.split(",")[0].split(" ↓")[0] for head in (*heads[1:3], *heads[4:])] == [
        *("bound", "difference to mdlm", "valid", "network calls per sample")
    ]
    assert [rule.split("|")[k].strip() for k in (1, 2, 4)] == ["---", "---:", "---"]
    assert all(row.split("|")[3].strip() == "" for row in rows)  # each is its own reference
    latex = (out / "table.tex").read_text()
    assert "lrrlrr" in latex
    assert latex.count(r"\midrule") == 2
    with (out / "table.csv").open() as file:
        names = csv.DictReader(file).fieldnames
    assert names[:6] == ["algorithm", "backbone", "instead_of", "model", "parameters", "quantity"]
    assert names.index("valid") < names.index("valid_low") < names.index("network_calls")
    assert "relation_tv" not in names
    assert "relation_tv" in results["models"][0]
    table = (out / "table.md").read_text()
    assert "Not measured of any model: buildable." in table
    assert "of few distinct samples" in table


def test_a_misspelt_column_is_told_those_of_diagrams_too(tmp_path):
    said = r"'vald'; did you mean 'valid'\? Available: algorithm, backbone, buildable"
    with pytest.raises(ValueError, match=said):
        run_comparison(CompareRequest([*SHORT, *TWO, f"out={tmp_path / 'new'}", "columns=[vald]"]))
    assert not (tmp_path / "new" / "cells").exists()


@pytest.mark.slow
def test_what_a_comparison_writes(finished):
    out, results = finished
    assert results == json.loads((out / "results.json").read_text())
    with (out / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["algorithm"] + row["backbone"] for row in rows] == ["mdlmbd-denoiser", "mdlmdit"]
    first, second = (results["cells"][f"mdlm-{b}-seed0"] for b in ("bd-denoiser", "dit"))
    assert float(rows[1]["difference"]) == pytest.approx(second["bound"] - first["bound"])
    assert float(rows[1]["difference_standard_error"]) > 0
    assert rows[0]["difference"] == ""
    table = (out / "table.md").read_text()
    for said in (
        *("| difference to mdlm ↓ |", "transitive, % ↑", "One training seed (0)", "| real data |"),
        "bubble_diagrams, 2 steps of batch size 32, models bd_tiny (mdlm with bd-denoiser) and "
        "dit_tiny (mdlm with dit), seed 0.",
        "1 noise draw each",
        "Real data: 6 training samples",
    ):
        assert said in table
    assert len(table.splitlines()[0].split("|")) - 2 <= 13
    assert "| bd_tiny (183,708) |" in table
    assert "| dit_tiny (182,556) |" in table
    assert results["real_data"]["metrics"]["valid"] == 1
    assert results["real_data"] == json.loads((out / "real_data.json").read_text())
    assert (results["quantity"], results["split"]) == ("nats per unordered diagram", "test")
    assert "algos=[mdlm]" in results["command"]
    assert (out / "pareto.png").stat().st_size > 0


@pytest.mark.slow
def test_a_comparison_says_which_samples_can_be_built(finished, copy):
    pytest.importorskip("ortools", reason="OR-Tools decides it")
    assert "verdicts" not in finished[1]["terms"]  # a fifth of 6 samples is too few
    written = (copy / "checkpoints" / "last.ckpt").stat().st_mtime_ns
    measured = again(copy, "eval.num_solver_checks=4")
    for model in measured["models"]:
        share = model["buildable"]
        assert 4 * share == round(4 * share)
        error = model["buildable_standard_error"]
        assert error == pytest.approx((share * (1 - share) / 4) ** 0.5) or share in (0, 1)
        assert error > 0  # Wilson's, where all agree
    assert measured["real_data"]["metrics"]["num_verdicts"] == 4
    assert measured["real_data"]["metrics"]["buildable"] == 1
    table = (copy.parents[1] / "table.md").read_text()
    assert "| realisable, % ↑ | buildable, % ↑ |" in table
    assert "a constraint solver decides if a floor plan exists, for the first 4 samples" in table
    assert (copy / "checkpoints" / "last.ckpt").stat().st_mtime_ns == written
    without = again(copy, "eval.num_solver_checks=0")
    assert "buildable" not in without["models"][0]
    assert "buildable" not in (copy.parents[1] / "table.md").read_text()


@pytest.mark.slow
def test_real_data_are_valid(finished):
    (real,) = [
        row for row in (finished[0] / "table.md").read_text().splitlines() if "real data" in row
    ]
    assert "100.0" in real
