"""A checkpoint's contents, made without training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from composed import composed
from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.checkpoints import checkpoint_info
from discrete_diffusion.checkpoints.contents import info_with_digest
from discrete_diffusion.checkpoints.files import INFO_KEY
from discrete_diffusion.config.files import plain
from discrete_diffusion.domains import complete_data

MACHINE = {"threads": 1, "processes": 1, "device": "cpu", "torch": "2"}


def training_state(config: Any, /, std: float = 1.0, **info: Any) -> dict[str, Any]:
    """What Lightning would save of a model of random weights; ``info`` replaces entries of
    the info."""
    torch.manual_seed(0)
    algorithm = build_algorithm(config)
    for value in algorithm.parameters():  # heads start at zero, which would hide a lost tensor
        torch.nn.init.normal_(value, std=std)
    averaged = {f"algorithm.{k}": v.detach() for k, v in algorithm.state_dict().items()}
    trained = {k: v + 1 if v.is_floating_point() else v for k, v in averaged.items()}
    content = {**checkpoint_info(plain(config), [0, 3, 4], data_fingerprint="f" * 16), **info}
    return {
        "state_dict": averaged,
        "current_model_state": trained,
        "global_step": 7,
        "loops": {"fit_loop": {"state_dict": {"combined_loader": [{"epoch": 1, "position": 2}]}}},
        "optimizer_states": [],
        "callbacks": {},
        INFO_KEY: info_with_digest(content, averaged, step=7, machine=MACHINE),
    }


def text_checkpoint(folder: Path, name: str, *words: str) -> str:
    """A checkpoint ``name.ckpt`` of that algorithm, of texts of four letters ``ab``."""
    (folder / "file.txt").write_text("ab" * 100)
    data = ["data=text", f"data.path={folder}/file.txt", "data.length=4", f"algo={name}"]
    config = composed("train", [*data, "algo.backbone=dit", "model=dit_tiny", *words])
    torch.save(training_state(complete_data(config), std=0.2), folder / f"{name}.ckpt")
    return str(folder / f"{name}.ckpt")
