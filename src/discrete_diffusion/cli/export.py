"""``discrete-diffusion export``: the network of a checkpoint, for other runtimes to call."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from discrete_diffusion.config.naming import check_name
from discrete_diffusion.hub.published import boxed_model, check_model
from discrete_diffusion.runtime import progress
from discrete_diffusion.runtime.atomic_files import claimed_file

if TYPE_CHECKING:
    from omegaconf import DictConfig

logger = logging.getLogger(__name__)

FORMATS = {"onnx": "network.onnx", "mdlm": "mdlm.ckpt"}
"""Formats, and the file that each writes where ``out`` is null."""


def run(config: DictConfig) -> None:
    """Write ``out``, and compare it with the network that it was made of."""
    check_values(config)
    out = Path(str(config.out or FORMATS[str(config.format)]))
    if config.checkpoint is None:
        config.checkpoint = boxed_model()
    with claimed_file("out", out):
        _export(config, out)


def check_values(config: DictConfig) -> None:
    """``ValueError`` or ``FileNotFoundError`` for what the config alone shows to be wrong."""
    check_name("format", str(config.format), FORMATS)
    if config.checkpoint is not None:
        check_model("checkpoint", config.checkpoint)


def _export(config: DictConfig, out: Path) -> None:
    if out.exists() and not config.overwrite:
        raise ValueError(f"out={out} exists; give overwrite=true to replace it, or another name")
    from discrete_diffusion.checkpoints.contents import read_checkpoint
    from discrete_diffusion.checkpoints.exporting import export_onnx, export_original

    found = read_checkpoint(str(config.checkpoint), ema=config.ema)
    with progress.task("exporting the network"):
        if config.format == "mdlm":
            what = export_original(found.algorithm, found.info["config"], out, step=found.step)
        else:
            gap = export_onnx(found.algorithm, found.info["vocabulary"], out)
            what = f"forward(x_t, sigma) -> logits, within {gap:.0e} of this network's"
    logger.info("%s: %.1f MB; %s", out, out.stat().st_size / 1e6, what)
