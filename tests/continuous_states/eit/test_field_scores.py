"""Reconstructions and baselines: numbers that are known, files that can be read."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from toy_fields import MapSampler, Nothing, gaussian_fields, inverse_mdlm, level_images

from continuous_states.eit.image_report import ImageReport
from continuous_states.eit.image_scores import (
    fit_field_baselines,
    reconstruct_held_out,
    score_images,
    score_reconstructions,
)
from continuous_states.eit.simulator import LEVELS
from continuous_states.sampling import Ode
from discrete_diffusion.sampling import FirstHitting, Model
from gaussian_images import GaussianImages, exact_flow

DATA = level_images()
FITTED = fit_field_baselines(DATA)
BASELINES = ("mean_image", "ones", "ridge")
PARTS = ("steps", "batch_size")
"""Options that are of the model."""


def reconstruct(sampler=None, algorithm=None, data=DATA, **options):
    parts = {"batch_size": 999} | {k: options.pop(k) for k in PARTS if k in options}
    model = Model(algorithm or Nothing(), sampler or MapSampler(0.3), **parts)
    return reconstruct_held_out(
        model, data, "val", **{"num": None, "draws": 3, "seed": 1} | options
    )


def test_an_exact_model_has_the_errors_of_its_law():
    """x ~ N(+-m, C): D draws are (1 + 1/D) tr C off, and from the other's map |2 m|^2 more."""
    images, num, draws = GaussianImages(), 1500, 4
    data = gaussian_fields(images, num)
    found = reconstruct(Ode(solver="heun"), exact_flow(images), data, draws=draws)
    numbers = score_reconstructions(found, fit_field_baselines(data))
    shuffled = score_images(found.shuffled_mean, found.truth, levels=None).as_dict()[
        "mean_squared_error"
    ]
    left = float(images.world.covariance.diagonal().mean())
    apart = float(images.mean.square().mean())
    assert shuffled == pytest.approx((1 + 1 / draws) * left + 4 * apart, rel=0.06)
    expected = {
        "mean_squared_error": (1 + 1 / draws) * left,
        "mean_squared_error_single": 2 * left,
        "ridge_mean_squared_error": left,
        "mean_image_mean_squared_error": left + apart,
        "ones_mean_squared_error": left + apart + 1,
    }
    for name, value in expected.items():
        assert numbers[name] == pytest.approx(value, rel=0.06), name
    assert numbers["spread_ratio"] == pytest.approx(1.0, abs=0.05)
    assert numbers["condition_gap"] > 10 * numbers["condition_gap_standard_error"]
    assert not any("pixel" in name for name in numbers)  # there are no levels


def test_relative_errors_are_those_of_the_images_drawn():
    found = reconstruct(num=6)
    numbers = score_reconstructions(found, FITTED)

    def relative(images: torch.Tensor) -> np.ndarray:
        pairs = zip(images, found.truth, strict=True)
        return np.array([float((y - x).norm() / x.norm()) for y, x in pairs])

    own, others = relative(found.mean), relative(found.shuffled_mean)
    expected = {
        "relative_l2": own,
        "relative_l2_single": relative(found.first),
        "relative_l2_shuffled": others,
        "condition_gap": others - own,
        "ones_relative_l2": relative(torch.ones_like(found.truth)),
    }
    for name, values in expected.items():
        assert numbers[name] == pytest.approx(values.mean(), rel=1e-5), name
    for name in ("relative_l2", "condition_gap"):
        error = expected[name].std(ddof=1) / math.sqrt(6)
        assert numbers[f"{name}_standard_error"] == pytest.approx(error, rel=1e-4)
    assert numbers["ridge_relative_l2"] < 1e-3  # maps are linear in images


def test_spread_is_compared_with_error():
    """Draws x + noise: the mean of D is off by noise / sqrt(D) only, so the spread is too wide."""
    numbers = score_reconstructions(reconstruct(MapSampler(0.5), draws=9))
    assert numbers["spread_ratio"] == pytest.approx(math.sqrt((1 + 1 / 9) * 9), rel=0.1)


def test_a_model_of_ids_is_scored_as_one_of_images_is():
    data = level_images(tokens=True)
    found = reconstruct(FirstHitting(), inverse_mdlm(), data)
    numbers = score_reconstructions(found, fit_field_baselines(data))
    assert numbers["relative_l2"] == numbers["relative_l2_single"] == 0.0
    assert numbers["pixel_accuracy"] == 1.0
    assert numbers["condition_gap"] == numbers["relative_l2_shuffled"] > 0.1
    on_images = score_reconstructions(reconstruct(), FITTED)
    of_baselines = [name for name in numbers if name.startswith(BASELINES)]
    assert len(of_baselines) == 3 * len(BASELINES) + 1
    for name in of_baselines:
        assert numbers[name] == on_images[name], name


def test_numbers_have_flat_names():
    numbers = score_reconstructions(reconstruct(steps=7), FITTED)
    what = ("relative_l2", "mean_squared_error", "pixel_accuracy")
    expected = {f"{who}{each}" for who in ("", *(f"{n}_" for n in BASELINES)) for each in what}
    expected |= {f"{each}_single" for each in what}
    expected |= {
        *("relative_l2_standard_error", "relative_l2_shuffled"),
        *("condition_gap", "condition_gap_standard_error", "majority_pixel_accuracy"),
        *("spread_ratio", "ridge_penalty"),
        *("num_images", "draws_per_image", "network_calls_per_draw"),
    }
    assert set(numbers) == expected
    assert [numbers[key] for key in ("num_images", "network_calls_per_draw")] == [14, 7]
    one = score_reconstructions(reconstruct(num=1, draws=1), FITTED)
    assert set(numbers) - set(one) == {
        *("relative_l2_standard_error", "relative_l2_shuffled"),
        *("condition_gap", "condition_gap_standard_error", "spread_ratio"),
    }


def test_baselines_are_fitted_on_the_training_split():
    fitted = fit_field_baselines(DATA)
    assert list(fitted.by_name) == list(BASELINES)
    train = DATA.splits["train"]
    maps = train.conditions["dtn"].double()
    assert torch.allclose(fitted.by_name["mean_image"].image, train.x0.double().mean(dim=0))
    shown = fitted.standardised(maps.float())
    assert torch.allclose(shown.mean(dim=0), torch.zeros(4, 4).double(), atol=1e-5)
    assert torch.allclose(shown.std(dim=0, correction=0), torch.ones(4, 4).double(), atol=1e-5)
    val = DATA.splits["val"]
    other = fit_field_baselines(DATA.changed("val", x0=val.x0 + 1)).by_name
    asked = val.conditions["dtn"]
    for name in BASELINES:
        assert torch.equal(other[name].predict(asked), fitted.by_name[name].predict(asked)), name
    with pytest.raises(ValueError, match=r"no maps .* data=eit"):
        fit_field_baselines(DATA.changed("train", conditions={}))


def test_a_report_of_nothing(tmp_path):
    report, nothing = ImageReport(DATA), reconstruct(num=0)
    assert report.measure(nothing) == {}
    report.save(nothing, tmp_path / "none")
    report.plot(nothing, tmp_path / "none.png")
    assert not list(tmp_path.iterdir())


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
    exact = score_images(truth, truth, levels=LEVELS).as_dict()
    assert [exact[k] for k in ("mean_squared_error", "pixel_accuracy")] == [0.0, 1.0]


def test_without_levels_no_pixel_is_counted():
    scores = score_images(TRUTH + 1, TRUTH, levels=None)
    assert scores.pixel_hits is None
    assert math.isnan(scores.as_dict()["pixel_accuracy"])
    assert math.isnan(scores.majority_pixel_accuracy)
    assert scores.as_dict()["mean_squared_error"] == pytest.approx(1.0)
