"""Regions end to end: what a short training reaches; a resumed run ends as one left alone."""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.checkpoints.files import read_training_file
from discrete_diffusion.cli import compose
from discrete_diffusion.cli.train import TrainRequest, run_training

SHORT = (
    *("algo=masked-features", "data.num_windows=60", "data.batch_size=8"),
    *("threads=1", "logger=none"),
    *("data.num_motifs=8", "data.rows=12", "data.peak_length=40", "data.num_programmes=2"),
    *("model.d_model=16", "model.n_layers=2"),
    *("trainer.val_check_interval=3", "callbacks.num_samples=0", "eval.num_samples=4"),
)


@pytest.mark.slow
def test_a_short_training_beats_the_neighbours_and_stays_below_the_ceiling(tmp_path):
    """600 steps of the recipe's 1500."""
    config = compose(
        "train",
        [
            *("experiment=regions", "threads=1", "logger=none"),
            *("trainer.max_steps=600", "trainer.val_check_interval=600", "callbacks.num_samples=0"),
        ],
    )
    metrics = run_training(TrainRequest(config, tmp_path))
    assert 0.24 <= metrics["per_motif_r"] < metrics["oracle_per_motif_r"]
    assert 0.07 <= metrics["per_motif_r2"] < metrics["oracle_per_motif_r2"]
    for score in ("per_motif_r", "per_motif_r2"):
        assert metrics[f"neighbour_mean_{score}"] < 0.7 * metrics[f"filled_{score}"]
        assert metrics[f"filled_{score}"] < metrics[f"oracle_{score}"]
    assert metrics["num_columns"] == 33
    assert (tmp_path / "samples.npz").is_file()
    assert (tmp_path / "samples.png").is_file()


@pytest.mark.parametrize("objective", ["mask", pytest.param("ddpm", marks=pytest.mark.slow)])
def test_a_resumed_run_ends_as_one_left_alone(tmp_path, objective):
    options = [*SHORT, f"algo.objective={objective}", "sampling.steps=2"]

    def run(folder, steps, *more):
        config = compose("train", [*options, f"trainer.max_steps={steps}", *more])
        return run_training(TrainRequest(config, tmp_path / folder))

    whole = run("whole", 6, "optim.lr_schedule=constant")
    run("parts", 3, "optim.lr_schedule=constant")
    last = tmp_path / "parts" / "checkpoints" / "last.ckpt"
    resumed = run("parts", 6, "optim.lr_schedule=constant", f"resume={last}")
    weights = [
        read_training_file(tmp_path / name / "checkpoints" / "last.ckpt")["state_dict"]
        for name in ("whole", "parts")
    ]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])
    assert whole == resumed


@pytest.mark.slow
def test_a_step_of_the_published_recipe_at_reduced_size(tmp_path):
    words = ["experiment=get_region_as_published", "model.d_model=64", "model.n_layers=2"]
    words += ["model.n_heads=4", "data.num_windows=20", "data.rows=12", "data.num_motifs=4"]
    words += ["data.peak_length=40", "trainer.max_steps=1", "eval.num_samples=2", "logger=none"]
    words += ["eval.noise_samples=1", "callbacks.num_samples=1"]
    metrics = run_training(TrainRequest(compose("train", words), tmp_path))
    assert metrics["steps"] == 1
    assert metrics["dropped_columns"] == 1  # accessibility is constant
    assert metrics["num_columns"] == 4
    assert (tmp_path / "samples.npz").is_file()
