"""The recipes of masked regions: the published network whole, and a step of it made small."""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.cli import compose
from discrete_diffusion.cli.train import TrainRequest, run_training
from discrete_diffusion.domains import complete_data

SMALL = (
    "model.d_model=64",
    "model.n_layers=2",
    "model.n_heads=4",
    "data.num_windows=20",
    "data.rows=12",
    "data.num_motifs=4",
    "data.peak_length=40",
    "trainer.max_steps=1",
    "eval.num_samples=2",
    "eval.bound_draws=1",
    "callbacks.num_samples=1",
    "logger=none",
)


def test_the_published_network_is_whole():
    config = complete_data(compose("train", ["experiment=get_region_literal"]))
    with torch.device("meta"):
        algorithm = build_algorithm(config)
    assert sum(p.numel() for p in algorithm.parameters()) == 128_767_003


@pytest.mark.slow
def test_a_step_of_the_published_recipe_at_reduced_size(tmp_path):
    metrics = run_training(
        TrainRequest(compose("train", ["experiment=get_region_literal", *SMALL]), tmp_path)
    )
    assert metrics["steps"] == 1
    assert metrics["dropped_columns"] == 1  # accessibility is constant
    assert metrics["num_columns"] == 4
    assert (tmp_path / "samples.npz").is_file()
