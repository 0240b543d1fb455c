"""Likelihoods of ``docs/measure.md``: commands as printed, on fewer samples."""

from __future__ import annotations

import json
import re
import shlex

import pytest
import torch

from discrete_diffusion import load
from discrete_diffusion.cli import main
from discrete_diffusion.sampling.unmasking import ONE_PATH
from floor_plans import BubbleDiagram
from guide_code import DOCS, run_python

PAGE = "measure.md"
FEW = ("num_held_out=6", "num_samples=2", "seeds=1", "reference_repeats=0", "verdicts=0")
FEW += ("noise_samples=1", "time_bins=1", "pictures=false")


def commands() -> list[list[str]]:
    lines = (DOCS / PAGE).read_text().splitlines()
    return [shlex.split(x) for x in lines if re.match(r"discrete-diffusion .* out=by-", x)]


@pytest.mark.slow
def test_the_commands_of_the_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for _, command, *words in commands():
        main([command, *words, *FEW])
    printed = capsys.readouterr().out
    of_order = json.loads((tmp_path / "by-entropy" / "metrics.json").read_text())
    assert of_order["nll_ordered_fixed_entropy"] > 0
    assert "nll_ordered_fixed_entropy" in printed
    assert "sampling.order=entropy" in of_order["likelihood_sampler"]
    table = (tmp_path / "by-orders" / "table.md").read_text()
    found = json.loads((tmp_path / "by-orders" / "metrics.json").read_text())
    assert found["nelbo_by_orders"]["orders"] == [1, 2, 4, 8]
    assert f"{found['nelbo_unordered_8_orders']:.3f} ±" in table
    assert "nll_ordered_fixed_entropy" not in found


@pytest.mark.slow
def test_the_python_of_the_page():
    scope = run_python(PAGE, word="log_prob")
    assert all(isinstance(diagram, BubbleDiagram) for diagram in scope["diagrams"])
    assert scope["log_p"].shape == (4,)
    assert scope["log_p"].dtype == torch.float64


def test_the_page_names_every_order():
    listed = (DOCS / PAGE).read_text().partition("`likelihood=ORDER` is one of")[2]
    named = set(re.findall(r"`([\w-]+)`", listed.partition("Of equal positions")[0]))
    assert {*ONE_PATH, "plan"} <= named


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["likelihood=confidence"], "likelihood=confidence: this order compares tokens"),
        (["likelihood=remdm"], "unknown likelihood 'remdm'"),
        (["likelihood=[0,1]"], "likelihood=[0, 1]: expected every position from 0 to 35"),
        (["orders=0"], "orders=0"),
        (["orders=2", "brief=b.yaml"], "orders=2"),
    ],
)
def test_what_is_refused_at_once(untrained, tmp_path, monkeypatch, capsys, words, named):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b.yaml").write_text("rooms: {LivingRoom: at least 1}\n")
    with pytest.raises(SystemExit):
        main(["evaluate", f"checkpoint={untrained}", "out=none", *words])
    assert named in capsys.readouterr().err
    assert not (tmp_path / "none" / "metrics.json").exists()


@pytest.mark.slow
def test_files_of_samples_have_none(untrained, tmp_path, capsys):
    file = tmp_path / "samples.jsonl"
    main(["sample", f"checkpoint={untrained}", "num_samples=2", f"out={tmp_path}"])
    assert load(untrained).log_prob([], "entropy").shape == (0,)
    with pytest.raises(SystemExit):
        main(["evaluate", f"samples={file}", "likelihood=entropy", f"out={tmp_path / 'out'}"])
    assert "likelihood=entropy is for checkpoint=FILE" in capsys.readouterr().err
