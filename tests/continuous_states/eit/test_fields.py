"""Scores of images against values worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from continuous_states.eit.image_scores import score_images
from continuous_states.eit.simulator import LEVELS, conductivity_to_levels
from discrete_diffusion.evaluation import standard_error

TRUTH = torch.tensor([[[[3.0, 0.0], [0.0, 4.0]]], [[[1.0, 1.0], [1.0, 1.0]]]])


def test_errors_are_those_of_the_hand():
    predicted = TRUTH.clone()
    predicted[0, 0, 0, 0] += 1.0
    predicted[1] += 0.5
    scores = score_images(predicted, TRUTH, levels=(0, 1, 3, 4))
    assert scores.relative_errors.tolist() == pytest.approx([1 / 5, 1 / 2])
    assert scores.relative_l2 == pytest.approx(0.35)
    assert scores.squared_errors.tolist() == pytest.approx([1 / 4, 1 / 4])
    assert scores.as_dict()["mean_squared_error"] == pytest.approx(0.25)


def test_pixels_are_rounded_to_the_nearest_level():
    truth = torch.tensor([1.0, 2.0, 2.75, 5.0, 1.0, 1.0]).reshape(1, 1, 2, 3)
    predicted = torch.tensor([1.49, 2.38, 2.37, 99.0, 1.51, -3.0]).reshape(1, 1, 2, 3)
    scores = score_images(predicted, truth, levels=LEVELS)
    right = [True, False, False, True, False, True]
    assert scores.pixel_hits.tolist() == [sum(right) / 6]
    assert scores.majority_pixel_accuracy == pytest.approx(3 / 6)
    constant = score_images(torch.ones_like(truth), truth, levels=LEVELS)
    assert constant.as_dict()["pixel_accuracy"] == scores.majority_pixel_accuracy
    raised = score_images(torch.full_like(truth, 2.0), truth + 1, levels=LEVELS)
    assert (
        raised.as_dict()["pixel_accuracy"] == raised.majority_pixel_accuracy == pytest.approx(3 / 6)
    )
    exact = score_images(truth, truth, levels=LEVELS)
    assert (
        exact.relative_l2,
        exact.as_dict()["mean_squared_error"],
        exact.as_dict()["pixel_accuracy"],
    ) == (0.0, 0.0, 1.0)


def test_without_levels_no_pixel_is_counted():
    scores = score_images(TRUTH + 1, TRUTH, levels=None)
    assert scores.pixel_hits is None
    assert math.isnan(scores.as_dict()["pixel_accuracy"])
    assert math.isnan(scores.majority_pixel_accuracy)
    assert scores.as_dict()["mean_squared_error"] == pytest.approx(1.0)


def test_levels_are_the_nearest_and_the_lower_of_two():
    values = torch.linspace(0, 6, 997)
    nearest = (values[:, None] - torch.tensor(LEVELS)).abs().argmin(dim=1)
    assert torch.equal(conductivity_to_levels(values), nearest)
    assert torch.equal(conductivity_to_levels(values.double()), nearest)
    assert conductivity_to_levels(torch.tensor([0.5, 1.5]), (0.0, 1.0, 2.0)).tolist() == [0, 1]


def test_numbers_have_names():
    scores = score_images(TRUTH + 1, TRUTH, levels=LEVELS)
    assert scores.as_dict("a_", "_b") == {
        "a_relative_l2_b": scores.relative_l2,
        "a_mean_squared_error_b": pytest.approx(1.0),
        "a_pixel_accuracy_b": scores.as_dict()["pixel_accuracy"],
    }
    assert math.isnan(standard_error(torch.tensor([1.0])))
    assert standard_error(torch.tensor([0.0, 0.0, 3.0, 3.0])) == pytest.approx(math.sqrt(3) / 2)


def test_images_that_have_no_score_are_refused():
    with pytest.raises(ValueError, match=r"predicted \(2, 1, 2, 1\) and truth \(2, 1, 2, 2\)"):
        score_images(TRUTH[..., :1], TRUTH, levels=LEVELS)
    with pytest.raises(ValueError, match="at least one image"):
        score_images(TRUTH[:0], TRUTH[:0], levels=LEVELS)
    with pytest.raises(ValueError, match="image 1 of the truth is 0 everywhere"):
        score_images(TRUTH, torch.stack([TRUTH[0], 0 * TRUTH[0]]), levels=LEVELS)
