"""Weights of a file to start a backbone from."""

from __future__ import annotations

import pytest
import torch

from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.checkpoints.start import initialise, read_starting_weights
from discrete_diffusion.config.files import plain


def test_a_whole_backbone_of_a_file(config, files):
    for kind, ema in (("ckpt", True), ("ckpt", False), ("safetensors", True)):
        algorithm = build_algorithm(config)
        start = read_starting_weights(files[kind], ema=ema)
        done = initialise(algorithm.backbone, start, config=plain(config))
        assert done.missing == done.unused == ()
        state = torch.load(files["ckpt"], weights_only=True)
        saved = state["state_dict" if ema else "current_model_state"]
        for name, value in algorithm.backbone.state_dict().items():
            assert torch.equal(value, saved[f"algorithm.backbone.{name}"])


def test_files_that_are_none(tmp_path, files):
    with pytest.raises(FileNotFoundError, match="no checkpoint at"):
        read_starting_weights(tmp_path / "gone.ckpt")
    broken = tmp_path / "broken.ckpt"
    broken.write_bytes(files["ckpt"].read_bytes()[:-2000])
    with pytest.raises(ValueError, match="is not a readable checkpoint"):
        read_starting_weights(broken)
