"""Held-out images are drawn from their maps and from others', by whatever number of processes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from toy_fields import SHARES, MapSampler, Nothing, inverse_mdlm, level_images

from continuous_states.eit.image_report import MAX_SAMPLES, plot_reconstructions, plot_side_by_side
from continuous_states.eit.image_scores import reconstruct_held_out
from discrete_diffusion.sampling import Ancestral, FirstHitting, Model
from fake_processes import in_processes

DATA = level_images()
NUM = SHARES["val"]
PARTS = ("steps", "batch_size", "shard")
"""Options that are of the model."""
TENSORS = ("truth", "dtn", "mean", "deviation", "first", "shuffled_mean", "nfe")


def reconstruct(sampler=None, algorithm=None, data=DATA, **options):
    parts = {"batch_size": 12} | {k: options.pop(k) for k in PARTS if k in options}
    model = Model(algorithm or Nothing(), sampler or MapSampler(), **parts)
    return reconstruct_held_out(
        model, data, "val", **{"num": None, "draws": 3, "seed": 1} | options
    )


def test_mean_deviation_and_first_are_those_of_the_draws_of_each_sample():
    seen: list[torch.Tensor] = []

    class Recording(MapSampler):
        def sample(self, *args, **options):
            output = super().sample(*args, **options)
            seen.append(output.x0)
            return output

    found = reconstruct(Recording(), num=7, draws=3, batch_size=7, steps=5)
    # two samples at a time, the last one alone; all own maps and then those of others
    own = torch.cat(seen[:4]).reshape(7, 3, 1, 3, 3)
    others = torch.cat(seen[4:]).reshape(7, 3, 1, 3, 3)
    assert torch.allclose(found.mean, own.mean(dim=1))
    assert torch.allclose(found.deviation, own.std(dim=1), atol=1e-6)
    assert torch.equal(found.first, own[:, 0])
    assert torch.allclose(found.shuffled_mean, others.mean(dim=1))
    assert found.nfe.tolist() == [5.0] * 7
    assert (len(found), found.draws) == (7, 3)
    assert found.seconds > 0


def test_samples_are_the_first_of_the_split_in_their_order():
    found = reconstruct(MapSampler(noise=0.0), num=5)
    examples = DATA.splits["val"]
    assert torch.equal(found.truth, examples.x0[:5])
    assert torch.equal(found.dtn, examples.conditions["dtn"][:5])
    assert torch.allclose(found.mean, found.truth, atol=1e-4)
    assert (found.deviation < 1e-5).all()
    assert len(reconstruct(num=100)) == NUM


@pytest.mark.parametrize(("num", "batch_size"), [(2, 100), (8, 4), (NUM, 1)])
def test_no_sample_keeps_its_map_when_they_are_shuffled(num, batch_size):
    found = reconstruct(MapSampler(noise=0.0), num=num, draws=2, batch_size=batch_size)
    assert torch.allclose(found.shuffled_mean, found.truth.roll(1, dims=0), atol=1e-4)
    assert reconstruct(num=1).shuffled_mean is None  # there is no other
    assert reconstruct(num=0).mean.shape == (0, 1, 3, 3)
    found = reconstruct(MapSampler(blind=True), num=num)  # reads no map
    assert torch.equal(found.shuffled_mean, found.mean)


@pytest.mark.parametrize(("draws", "batch_size"), [(3, 12), (5, 4), (1, 3)])
def test_no_more_images_at_once_than_asked_for(draws, batch_size):
    sampler = MapSampler(noise=0.0)
    found = reconstruct(sampler, draws=draws, batch_size=batch_size)
    assert max(shape[0] for shape in sampler.asked) <= batch_size
    assert sum(shape[0] for shape in sampler.asked) == 2 * NUM * draws
    assert torch.allclose(found.mean, found.truth, atol=1e-4)
    if draws == 1:
        assert (found.deviation == 0).all()


def test_nothing_depends_on_the_number_of_processes():
    alone = reconstruct()
    for found in in_processes(3, lambda shard: reconstruct(shard=shard)):
        for name in TENSORS:
            assert torch.equal(getattr(found, name), getattr(alone, name)), name
    assert torch.equal(reconstruct().mean, alone.mean)
    assert not torch.equal(reconstruct(seed=2).mean, alone.mean)


@pytest.mark.parametrize("sampler", [Ancestral(), FirstHitting()])
def test_ids_become_the_images_of_their_levels(sampler):
    """A model that reads the ids off the map reconstructs the phantoms exactly."""
    data = level_images(tokens=True)
    steps = 4 if isinstance(sampler, Ancestral) else None
    found = reconstruct(sampler, inverse_mdlm(), data, steps=steps)
    assert torch.equal(found.truth, DATA.splits["val"].x0)
    for name in ("mean", "first"):
        assert torch.equal(getattr(found, name), found.truth), name
    assert (found.deviation == 0).all()
    assert torch.equal(found.shuffled_mean, found.truth.roll(1, dims=0))
    calls = found.nfe
    assert ((calls >= 1) & (calls <= (4 if steps else 9))).all()


def test_bad_requests_are_refused():
    with pytest.raises(ValueError, match="draws=0: expected at least 1"):
        reconstruct(draws=0)
    with pytest.raises(ValueError, match=r"no maps .* data=eit"):
        reconstruct(data=DATA.changed("val", conditions={}))
    with pytest.raises(ValueError, match=r"ids from 0 to 8; expected 0 to 5"):
        reconstruct(data=DATA.changed("val", x0=torch.arange(9).expand(2, 9)))


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
    one = plot_reconstructions(maps * 0, truth, truth, deviation, draws=1)
    assert len(one.axes) == 4 * MAX_SAMPLES + 3  # one sample has no spread
    assert one.axes[3].images[0].get_clim() == (-1.0, 1.0)  # no error is white


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
