"""Differences against direct computation; the table names what it shows."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
import torch

from compared_models import BY, bounds, compared, model, shown
from discrete_diffusion.evaluation.bound import DrawTail
from discrete_diffusion.evaluation.comparison import paired_difference
from discrete_diffusion.evaluation.comparison_table import (
    comparison_table,
    table_notes,
    verdicts,
    with_error,
)
from discrete_diffusion.evaluation.sample_scores import share_error


def test_one_seed_is_a_paired_t_statistic_and_several_add_the_error_between_them():
    base = bounds(1)
    values = base + 0.3 + 0.1 * bounds(1)
    found = paired_difference(values, base)
    d = (values - base)[0].numpy()
    assert found.mean == pytest.approx(d.mean())
    assert found.standard_error == pytest.approx(d.std(ddof=1) / np.sqrt(len(d)))
    assert found.over_seeds is None
    base, values = bounds(3), bounds(3)
    values += torch.tensor([[0.0], [1.0], [2.0]])
    found = paired_difference(values, base)
    d = (values - base).numpy()
    over_samples = d.mean(axis=0).std(ddof=1) / np.sqrt(d.shape[1])
    over_seeds = d.mean(axis=1).std(ddof=1) / np.sqrt(3)
    assert found.over_samples == pytest.approx(over_samples)
    assert found.over_seeds == pytest.approx(over_seeds)
    assert found.standard_error == pytest.approx(np.sqrt(over_samples**2 + over_seeds**2))
    assert found.mean == pytest.approx(d.mean())


def test_the_error_covers_new_samples_and_new_seeds():
    """Sample, seed and interaction effects drawn 400 times: the error is that of the mean."""
    generator = np.random.default_rng(0)
    found = []
    for _ in range(400):
        effects = [generator.normal(size=shape) for shape in ((1, 30), (4, 1), (4, 30))]
        d = 0.5 * effects[0] + 0.2 * effects[1] + 0.3 * effects[2]
        found.append(paired_difference(torch.from_numpy(d), torch.zeros(4, 30)))
    real = np.std([f.mean for f in found])
    stated = np.sqrt(np.mean([f.standard_error**2 for f in found]))
    assert stated == pytest.approx(real, rel=0.12)


def test_other_shapes_and_different_quantities_are_refused():
    with pytest.raises(ValueError, match=r"got \(2, 40\) and \(1, 40\)"):
        paired_difference(bounds(2), bounds(1))
    with pytest.raises(ValueError, match="different quantities"):
        compared(model("a", bounds(1)), model("b", bounds(1), quantity="bits"))


def test_rows_and_table_are_those_of_the_numbers():
    first, other = bounds(2), bounds(2, shift=1.5)
    metrics = {"valid": [0.25, 0.75], "network_calls": [20.0, 21.0], "unheard_of": [1.0, 1.0]}
    replaced = model("ar", other, instead_of="bd-denoiser", metrics=metrics)
    comparison = compared(model("mdlm", first), replaced, seeds=(0, 7))
    rows = comparison.rows()
    assert rows[0]["difference"] is None
    assert rows[1]["difference"] == pytest.approx(float((other - first).mean()))
    assert rows[1]["valid"] == 0.5
    heads, cells = shown(comparison, {"valid": 1.0, "relation_tv": 0.1, "network_calls": 9})
    assert heads == [
        "algorithm",
        "backbone",
        "bound, nats per unordered diagram ↓",
        "difference to mdlm ↓",
        "valid, % ↑",
        "network calls per sample ↓",
    ]
    assert cells[0] == ["real data", "", "", "", "100.0", ""]
    assert cells[1][3] == ""
    assert cells[2][1] == "dit (for bd-denoiser)"
    assert cells[2][3].startswith(f"{rows[1]['difference']:+.2f} ± ")
    assert cells[2][4] == "50.0 ± 25.0"  # over seeds
    assert cells[1][-1] == ""  # not measured for mdlm
    notes = " ".join(table_notes(comparison))
    assert "1 noise draw each" in notes
    assert "over held-out samples and seeds; of a difference too, paired by sample and se" in notes
    assert "ar cannot use bd-denoiser" in notes
    assert comparison_table(comparison, {"valid": 1.0}).markdown().count("\n") == 5


def test_a_verdict_names_the_models_the_direction_and_what_is_no_evidence():
    base = bounds(1)
    generator = torch.Generator().manual_seed(0)
    near = base + 0.5 * torch.randn(base.shape, dtype=base.dtype, generator=generator)
    tail = DrawTail(shape=0.9, effective=2.0, largest_share=0.5, num_samples=64, draws=1)
    few = replace(model("gidd", base + 3), tail=tail)
    models = (
        model("mdlm", base),
        model("udlm", base + 3),
        model("ar", base - 3),
        model("d3pm", near),
    )
    worse, better, same, doubtful = verdicts(compared(*models, few))
    assert worse.startswith("udlm is 3.000 ± 0.000 worse than mdlm")
    assert better.startswith("ar is 3.000 ± 0.000 better than mdlm")
    assert "no evidence" not in worse + better
    assert "no evidence of a difference" in same
    assert "noise_samples" in doubtful


def test_one_seed_has_the_error_of_a_share_of_samples():
    metrics = {"valid": [0.9], "mode_coverage": [0.5], "num_samples": [400]}
    comparison = compared(model("mdlm", bounds(1), metrics=metrics), seeds=(3,))
    heads, cells = shown(comparison, {})
    assert not any("difference" in head for head in heads)  # to itself
    bound = comparison.models[0].values["nelbo"][0]
    error = float(bound.std()) / math.sqrt(40)
    assert cells[0][2] == f"{float(bound.mean()):.2f} ± {error:.2f}"
    assert cells[0][3] == "90.0 ± 1.5"  # 100 sqrt(0.9 * 0.1 / 400)
    assert cells[0][4] == "50.0"  # no share of samples
    notes = " ".join(table_notes(comparison))
    assert "400 samples of every model." in notes
    assert "One training seed (3)" in notes


def test_numbers_with_errors():
    assert with_error(12345.678, 0.5, 1) == "12,345.7 ± 0.5"
    assert with_error(123456789.0, 2e7, 2, sign="+") == "+1.235e+08 ± 2e+07"
    assert with_error(math.nan, 1.0, 1) == ""


@pytest.mark.parametrize("value", [-0.004, 0.004, -0.0, 0])
def test_what_rounds_to_zero_has_no_sign(value):
    assert with_error(value, 0.001, 2, sign="+") == with_error(value, 0.001, 2) == "0.00 ± 0.00"
    assert with_error(value - 0.02, 0.01, 2, sign="+").startswith("-0.02")


@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize("share", [0.0, 0.625, 1.0])
def test_no_share_of_samples_is_shown_without_an_error(share, seeds):
    """``62.5 ± 0.0`` of three seeds that agree, and ``100.0 ± 0.0`` of one."""
    metrics = {"num_samples": [4000.0] * seeds, "valid": [share] * seeds}
    values = {"nelbo": bounds(seeds)}
    found = compared(model("mdlm", bounds(seeds), values=values, metrics=metrics))
    heads, cells = shown(replace(found, seeds=tuple(range(seeds))), {})
    (text,) = (cells[0][k] for k, head in enumerate(heads) if head.startswith("valid"))
    assert float(text.partition(" ± ")[2]) > 0


def test_a_share_of_fresh_samples_has_the_error_of_those_of_all_seeds():
    metrics = {"num_samples": [400.0] * 3, "valid": [0.90, 0.91, 0.89]}
    column = next(c for c in BY.columns if c.name == "valid")
    alike = model("mdlm", bounds(3), metrics=metrics)
    found = alike.estimate(column)
    assert found.over_samples == share_error(0.9, 1200)
    assert found.over_seeds == 0  # 400 samples explain a spread of 1 %
    assert found.standard_error == found.over_samples
    errors = alike.errors(column)
    expected = scipy.stats.binomtest(1080, 1200).proportion_ci(0.95, "wilson")
    assert (errors["valid_low"], errors["valid_high"]) == pytest.approx(tuple(expected))
    apart = model("mdlm", bounds(3), metrics={**metrics, "valid": [0.80, 0.90, 1.00]})
    found = apart.estimate(column)
    assert found.over_samples == share_error(0.9, 1200)
    assert found.standard_error == pytest.approx(0.1 / math.sqrt(3))
    errors = apart.errors(column)
    assert errors["valid_standard_error"] == found.standard_error
    assert errors["valid_error_over_seeds"] == found.over_seeds
    assert errors["valid_high"] - errors["valid_low"] > 0.2
