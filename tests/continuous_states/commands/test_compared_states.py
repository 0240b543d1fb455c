"""Comparisons of images and of dialogues: what the table names, and the errors of its numbers."""

from __future__ import annotations

import math

import pytest
import torch

from compared_models import bounds, compared, model, shown
from continuous_states.dialogue.comparing import DialogueCells
from continuous_states.eit.commands import ImageCells
from discrete_diffusion.evaluation import Baseline, share_error
from discrete_diffusion.evaluation.comparison import ComparedModel, paired_difference
from discrete_diffusion.evaluation.comparison_table import table_notes


def images(name: str, with_bound: bool, errors: torch.Tensor) -> ComparedModel:
    values = {"relative_l2": errors} | ({"nelbo": bounds(1)} if with_bound else {})
    metrics = {"draws_per_image": [8.0], "pixel_accuracy": [0.75], "spread_ratio": [0.9]}
    metrics |= {"condition_gap": [0.25], "condition_gap_standard_error": [0.0125]}
    quantity = "nats per image" if with_bound else None
    return model(name, errors, values=values, metrics=metrics, quantity=quantity)


def test_images_are_compared_by_their_errors_and_bounds_only_among_ids():
    errors = [bounds(1, shift) for shift in (2, 2.5, 3)]
    models = [images("flow-matching", False, errors[0]), images("mdlm", True, errors[1])]
    models.append(images("udlm", True, errors[2]))
    ridge = Baseline("ridge", {"relative_l2": errors[2][0]}, {"pixel_accuracy": 0.5})
    comparison = compared(*models, by=ImageCells(), baselines=(ridge,))
    assert comparison.measures == ["relative_l2", "nelbo"]
    rows = comparison.rows()
    apart = paired_difference(errors[2], errors[0])
    for row in (rows[2], comparison.baseline_rows()[0]):
        assert row["relative_l2_difference"] == apart.mean
        assert row["relative_l2_difference_standard_error"] == apart.standard_error
        assert row["relative_l2"] == pytest.approx(float(errors[2].mean()))
    assert (rows[0]["nelbo"], rows[1]["difference"]) == (None, None)
    values = [m.values["nelbo"] for m in models[1:]]
    assert rows[2]["difference"] == paired_difference(values[1], values[0]).mean
    _, cells = shown(comparison, {})
    assert cells[0][4:] == ["–", "", "0.250 ± 0.013", "0.90", "75.0"]
    assert cells[3][0] == "ridge"
    assert cells[3][4:] == ["–", "", "", "", "50.0"]
    assert "No bound of flow-matching" in " ".join(table_notes(comparison))


def test_summaries_are_compared_by_bound_and_rouge_l_which_is_to_rise():
    values = [{"nelbo": bounds(1, 20), "rouge_l": 0.1 * bounds(1, shift)} for shift in (5, 7)]
    metrics = {"num_summaries": [40], "exact_match": [0.25], "exact_match_standard_error": [0.07]}
    metrics |= {"slot_accuracy": [0.5], "shuffled_rouge_l": [0.31], "nelbo_source_gap": [6.25]}
    models = tuple(
        model(name, bounds(1), values=each, metrics=metrics, quantity="nats per summary")
        for name, each in zip(("latent-seq2seq", "mdlm"), values, strict=True)
    )
    frequent = Baseline("most frequent", {"rouge_l": values[0]["rouge_l"][0]}, {"exact_match": 0.0})
    comparison = compared(*models, by=DialogueCells(), baselines=(frequent,))
    assert comparison.mean(models[1], "rouge_l") == float(values[1]["rouge_l"].mean())
    assert comparison.mean(models[1], "slot_accuracy") == 0.5
    assert math.isnan(comparison.mean(models[1], "relative_l2"))
    _, cells = shown(comparison, {})
    apart = paired_difference(values[1]["rouge_l"], values[0]["rouge_l"])
    assert cells[1][5] == f"+{apart.mean:.3f} ± {apart.standard_error:.3f}"
    assert cells[1][6:] == ["25.0 ± 7.0", "50.0", "0.310", "6.25"]
    assert cells[2][2:6] == ["–", "", cells[0][4], cells[2][5]]
    assert cells[2][5].startswith("0.000")


def test_a_measured_error_of_0_is_that_of_a_share():
    metrics = {"num_summaries": [40.0], "exact_match": [1.0], "exact_match_standard_error": [0.0]}
    column = next(c for c in DialogueCells().columns if c.name == "exact_match")
    seeds = {name: value * 2 for name, value in metrics.items()}
    for found, num in ((metrics, 40), (seeds, 80)):
        one = model("ar", bounds(num // 40), metrics=found).estimate(column)
        assert one.standard_error == one.over_samples == share_error(1.0, num)
