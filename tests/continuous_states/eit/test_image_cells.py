"""Images of models on equal terms: the same truth, errors of each, baselines beside them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from continuous_states.eit.commands import ImageCells, score_images_of
from discrete_diffusion.contracts import SampleOutput
from discrete_diffusion.domains import build_data, complete_data
from discrete_diffusion.evaluation import EvaluationProtocol
from discrete_diffusion.sampling import Model

TERMS = EvaluationProtocol(num_samples=3, draws=2)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The same phantoms in two states."""
    from discrete_diffusion.cli import compose

    words = ["data.num_samples=30", "data.size=16", "data.mesh_rings=4", "data.num_boundary=8"]
    words += ["data.split=[0.6,0.2,0.2]"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DISCRETE_DIFFUSION_CACHE", str(tmp_path_factory.mktemp("cache")))
        names = ("eit", "eit_quantised")
        return [
            build_data(complete_data(compose("train", [f"algo={algo}", f"data={name}", *words])))
            for name, algo in zip(names, ("flow-matching", "mdlm"), strict=True)
        ]


class Constant:
    """Draws 1 everywhere, or NaN."""

    state = "field"

    def __init__(self, value: float = 1.0) -> None:
        self.value = value

    def sample(self, algorithm, real, *, generator, steps=None, conditions=None):
        images, calls = torch.full(real.shape, self.value), torch.full((len(real),), 5)
        return SampleOutput(images, calls, torch.zeros(len(real)))


def test_errors_are_those_of_the_images_drawn(both, tmp_path):
    algorithm = torch.nn.Identity()
    model = Model(algorithm, Constant())
    found = [score_images_of(model, data, TERMS, tmp_path) for data in both]
    truth = both[0].splits["test"].x0[:3].double().flatten(1)
    errors = (truth - 1).norm(dim=1) / truth.norm(dim=1)
    for each in found:  # in either state
        assert each["relative_l2"] == pytest.approx(errors.tolist())
        metrics = each["metrics"]
        assert metrics["relative_l2_single"] == pytest.approx(float(errors.mean()))
        assert (metrics["condition_gap"], metrics["spread_ratio"]) == (0, 0)
        assert metrics["pixel_accuracy"] == pytest.approx(float((truth == 1).double().mean()))
        assert (metrics["network_calls"], metrics["num_images"]) == (5, 3)
    assert (tmp_path / "samples.npz").is_file()
    with pytest.raises(ValueError, match="training has diverged"):
        score_images_of(Model(algorithm, Constant(float("nan"))), both[0], TERMS, tmp_path)


def test_baselines_are_fitted_to_training_images_and_scored_on_held_out_ones(both):
    mean, ridge = ImageCells().baselines(both[1], 3)
    truth = both[0].splits["test"].x0[:3].double()
    guess = both[0].splits["train"].x0.double().mean(dim=0)
    errors = (truth - guess).flatten(1).norm(dim=1) / truth.flatten(1).norm(dim=1)
    assert torch.allclose(mean.values["relative_l2"], errors, rtol=1e-5)
    assert (mean.name, ridge.name) == ("mean image", "ridge regression")
    assert ridge.values["relative_l2"].shape == (3,)


def test_other_images_or_maps_are_refused(both):
    ImageCells().check_same(*both)
    field, levels = both
    for change in ("x0", "dtn"):
        splits = dict(field.splits)
        rows = torch.arange(len(splits["val"])).flip(0)
        changed = splits["val"][rows]
        kept = splits["val"]
        x0, maps = (
            (changed.x0, kept.conditions) if change == "x0" else (kept.x0, changed.conditions)
        )
        splits["val"] = type(kept)(x0, kept.real, conditions=maps)
        other = SimpleNamespace(splits=splits, levels=field.levels, summary=field.summary)
        with pytest.raises(ValueError, match="the val split differs"):
            ImageCells().check_same(levels, other)
