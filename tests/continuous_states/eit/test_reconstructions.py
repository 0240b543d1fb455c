"""Pictures of reconstructions: what is drawn is what was given, on shared scales."""

from __future__ import annotations

import numpy as np
import pytest

from continuous_states.eit.image_report import MAX_SAMPLES, plot_reconstructions, plot_side_by_side


def samples(num: int = 7):
    random = np.random.default_rng(0)
    maps = random.normal(size=(num, 4, 4))
    truth = 1 + 4 * (random.random((num, 6, 6)) < 0.2).astype(np.float32)
    mean = truth + 0.3 * random.normal(size=truth.shape).astype(np.float32)
    deviation = random.random(truth.shape).astype(np.float32)
    return maps, truth, mean, deviation


@pytest.mark.slow
def test_a_line_per_sample_shows_what_was_given():
    maps, truth, mean, deviation = samples()
    figure = plot_reconstructions(maps, truth, mean, deviation, draws=8)
    grid = np.array(figure.axes[: 5 * MAX_SAMPLES]).reshape(MAX_SAMPLES, 5)
    for k, line in enumerate(grid):
        given = (maps[k], truth[k], mean[k], deviation[k], mean[k] - truth[k])
        for axes, values in zip(line, given, strict=True):
            assert np.array_equal(np.asarray(axes.images[0].get_array()), values)
        relative = np.linalg.norm(mean[k] - truth[k]) / np.linalg.norm(truth[k])
        assert line[4].get_ylabel() == f"relative L2 {relative:.3f}"
    titles = [axes.get_title(loc="left") for axes in grid[0]]
    assert titles == ["Map", "True", "Mean of 8 samples", "Spread of samples", "Error"]
    one = plot_reconstructions(maps, truth, mean, deviation, draws=1)
    titles = [axes.get_title(loc="left") for axes in one.axes[:4]]
    assert titles == ["Map", "True", "One sample", "Error"]  # one sample has no spread
    assert len(one.axes) == 4 * MAX_SAMPLES + 3


@pytest.mark.slow
def test_colours_mean_the_same_in_every_line():
    maps, truth, mean, deviation = samples(3)
    mean[2, 0, 0] = truth[2, 0, 0] + 5
    figure = plot_reconstructions(maps, truth, mean, deviation, draws=8)
    limits = [
        {axes.images[0].get_clim() for axes in column}
        for column in np.array(figure.axes[:15]).reshape(3, 5).T
    ]
    assert all(len(each) == 1 for each in limits)
    maps_of, true, drawn, spread, error = (each.pop() for each in limits)
    assert true == drawn == (1.0, 5.0)
    assert maps_of == (-maps_of[1], maps_of[1])
    assert error == pytest.approx((-5.0, 5.0))
    assert spread == pytest.approx((0.0, deviation.max()))
    labels = [axes.get_xlabel() for axes in figure.axes[15:]]
    assert labels == ["standard deviations", "conductivity", "standard deviation", "mean − truth"]


@pytest.mark.slow
def test_exact_and_constant_images_are_drawn(tmp_path):
    maps, truth, _, deviation = samples(1)
    for image in (truth, truth * 0 + 1, truth * 0):
        path = tmp_path / "fields.png"
        figure = plot_reconstructions(maps * 0, image, image, deviation * 0, path, draws=1)
        assert figure.axes[3].images[0].get_clim() == (-1.0, 1.0)  # no error is white
        assert path.read_bytes().startswith(b"\x89PNG")


def test_shapes_that_do_not_belong_together_are_refused():
    maps, truth, mean, deviation = samples()
    for bad in (
        (maps[:2], truth, mean, deviation),
        (maps, truth, mean[:, :5], deviation),
        (maps, truth[:, None], mean[:, None], deviation[:, None]),
        (maps[:0], truth[:0], mean[:0], deviation[:0]),
    ):
        with pytest.raises(ValueError, match="do not belong together"):
            plot_reconstructions(*bad, draws=2)


@pytest.mark.slow
def test_models_stand_beside_the_truth_on_one_scale(tmp_path):
    _, truth, mean, _ = samples()
    models = {"mdlm": mean, "udlm": truth}
    figure = plot_side_by_side(truth, models, tmp_path / "images.png", draws=8)
    assert (tmp_path / "images.png").read_bytes().startswith(b"\x89PNG")
    grid = np.array(figure.axes[: 3 * MAX_SAMPLES]).reshape(MAX_SAMPLES, 3)
    assert [axes.get_title(loc="left") for axes in grid[0]] == ["True", "mdlm", "udlm"]
    assert {axes.images[0].get_clim() for axes in grid.flat} == {(1.0, 5.0)}
    for k, line in enumerate(grid):
        for axes, values in zip(line, (truth[k], mean[k], truth[k]), strict=True):
            assert np.array_equal(np.asarray(axes.images[0].get_array()), values)
        relative = np.linalg.norm(mean[k] - truth[k]) / np.linalg.norm(truth[k])
        assert line[1].get_xlabel() == f"relative L2 {relative:.3f}"
        assert line[2].get_xlabel() == "relative L2 0.000"
    assert figure.axes[-1].get_xlabel() == "conductivity; of models the mean of 8 samples"
    for bad in ({}, {"mdlm": mean[:2]}):
        with pytest.raises(ValueError, match="at least one sample and one model"):
            plot_side_by_side(truth, bad, draws=8)
