"""Differences against direct computation; the table names what it shows."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from discrete_diffusion.evaluation.comparison import (
    ComparedModel,
    Comparison,
    markdown_table,
    paired_difference,
    table_cells,
    table_notes,
)

GENERATOR = torch.Generator().manual_seed(0)


def bounds(seeds: int, shift: float = 0.0) -> torch.Tensor:
    return torch.randn(seeds, 40, generator=GENERATOR, dtype=torch.float64) + shift


def model(name: str, values: torch.Tensor, **options) -> ComparedModel:
    fields = {
        "backbone": "dit",
        "model": "dit_tiny",
        "instead_of": None,
        "parameters": 182_556,
        "quantity": "nats per unordered diagram",
        "metrics": {"valid": [0.5] * len(values)},
    }
    return ComparedModel(algorithm=name, bounds=values, **{**fields, **options})


def test_one_seed_is_a_paired_t_statistic():
    base = bounds(1)
    values = base + 0.3 + 0.1 * bounds(1)
    found = paired_difference(values, base)
    d = (values - base)[0].numpy()
    assert found.mean == pytest.approx(d.mean())
    assert found.standard_error == pytest.approx(d.std(ddof=1) / np.sqrt(len(d)))
    assert found.over_seeds is None
    unpaired = math.hypot(float(values.std()), float(base.std())) / math.sqrt(len(d))
    assert found.standard_error < unpaired / 5  # what pairing is for


def test_several_seeds_add_the_error_between_them():
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


def test_other_shapes_are_refused():
    with pytest.raises(ValueError, match=r"got \(2, 40\) and \(1, 40\)"):
        paired_difference(bounds(2), bounds(1))


def test_different_quantities_share_no_column():
    with pytest.raises(ValueError, match="different quantities"):
        Comparison((model("a", bounds(1)), model("b", bounds(1), quantity="bits")), (0,))


def test_rows_and_table_are_those_of_the_numbers():
    first, other = bounds(2), bounds(2, shift=1.5)
    metrics = {"valid": [0.25, 0.75], "network_calls": [20.0, 21.0], "unheard_of": [1.0, 1.0]}
    replaced = model("ar", other, instead_of="bd-denoiser", metrics=metrics)
    comparison = Comparison((model("mdlm", first), replaced), (0, 7))
    rows = comparison.rows()
    assert rows[0]["difference"] is None
    assert rows[1]["difference"] == pytest.approx(float((other - first).mean()))
    assert rows[1]["valid"] == 0.5
    heads, cells = table_cells(comparison)
    assert heads == [
        "algorithm",
        "backbone",
        "parameters",
        "bound, nats per unordered diagram",
        "difference to mdlm ± s.e. over samples and seeds",
        "valid",
        "network calls",
    ]
    assert cells[0][4] == ""
    assert cells[1][1] == "dit (for bd-denoiser)"
    assert cells[1][4].startswith(f"{rows[1]['difference']:+.2f} ± ")
    assert cells[0][-1] == ""  # not measured for mdlm
    notes = " ".join(table_notes(comparison, split="test", draws=16, num_samples=1000))
    assert "Training seeds 0, 7" in notes
    assert "ar cannot use bd-denoiser" in notes
    assert markdown_table(heads, cells).count("\n") == 4
