"""``train init.checkpoint=...`` as a user sees it, on fields."""

from __future__ import annotations

import logging
import math
from pathlib import Path

import pytest
import torch

from discrete_diffusion import load
from discrete_diffusion.cli import compose
from discrete_diffusion.cli.train import TrainRequest, run_training

QUICK = [
    *("threads=1", "logger=none", "trainer.max_steps=1", "trainer.val_check_interval=1"),
    *("callbacks.num_samples=0", "eval.num_samples=0", "eval.noise_samples=1"),
]
STILL = ["optim.lr=1e-12", "optim.warmup_steps=0", "callbacks.ema_decay=null"]
"""Weights stay what they were at the start."""
EIT = [
    *("data.num_samples=40", "data.size=16", "data.mesh_rings=4", "data.num_boundary=8"),
    *("data.split=[0.8,0.1,0.1]", "data.batch_size=8", "model.d_model=8", "model.n_heads=2"),
    *QUICK,
]
UNET = [
    *("model.channels=8", "model.groups=4", "model.multipliers=[1]", "model.cond_dim=8"),
    "optim.lr_schedule=constant",
]
SAMPLED = ["eval.num_samples=2", "eval.samples_per_condition=2"]
FLOW = ["experiment=eit", *EIT, *UNET, *STILL]


def run(name: str, *overrides: str) -> Path:
    run_training(TrainRequest(compose("train", overrides), Path(name)))
    return Path(name) / "checkpoints" / "last.ckpt"


@pytest.mark.slow
def test_regression_is_measured_like_any_model_of_images():
    metrics = run_training(
        TrainRequest(compose("train", ["algo=regression", *EIT, *UNET, *SAMPLED]), Path("run"))
    )
    assert metrics["relative_l2"] == pytest.approx(metrics["relative_l2_single"], rel=1e-5)
    assert metrics["spread_ratio"] < 1e-3
    assert metrics["network_calls_per_draw"] == 1
    assert {"ridge_relative_l2", "condition_gap", "cond_gate"} <= metrics.keys()
    units = 16 * 16 / 2 * math.log(2 * math.pi)
    assert metrics["nelbo_gaussian"] > units


@pytest.mark.slow
def test_an_encoder_is_trained_on_images_and_goes_into_a_flow(caplog):
    caplog.set_level(logging.INFO)
    first = run("first", "experiment=eit_pretrain", *EIT, "model.head_widths=[8]")
    learnt = load(first).backbone.encoder.state_dict()
    noisy = ["data.noise_level=0.5"]  # so that these maps are not on the scale of those
    words = [
        *FLOW,
        *noisy,
        "model.encoder_time=true",
        f"init.checkpoint={first}",
        "init.parts=[encoder]",
    ]
    second = run("second", *words)
    assert f"encoder starts from {first}: 32 tensors" in caplog.text
    assert "not in the file, so as initialised: encoder.time_proj.weight, enc" in caplog.text
    first.unlink()
    third = run("second", *words, f"resume={second}", "trainer.max_steps=2")
    assert "init.checkpoint is not read" in caplog.text
    found = load(third).backbone.encoder.state_dict()
    for name, value in learnt.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=1e-8)
