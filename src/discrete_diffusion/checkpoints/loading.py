"""From a checkpoint file to an algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from discrete_diffusion.checkpoints.contents import read_contents

if TYPE_CHECKING:
    from omegaconf import DictConfig


@dataclass(frozen=True)
class Checkpoint:
    """A run brought back.

    ``algorithm``: in eval mode; a ``TokenAlgorithm`` on tokens, ``MaskedFeatures`` on features.
    ``size_counts``: how many training samples are of size n, for n = 0, 1, ...
    ``step``: optimiser steps taken; ``data_fingerprint``: of the data trained on.
    """

    algorithm: Any
    config: DictConfig
    size_counts: list[int]
    step: int
    data_fingerprint: str


def load(path: str | Path, *, ema: bool = True, device: torch.device | str = "cpu") -> Any:
    """The algorithm of a checkpoint, ready to sample: ``load("run/checkpoints/best.ckpt")``; a
    ``TokenAlgorithm`` on tokens, ``MaskedFeatures`` on features.

    ``path``: a ``.ckpt`` or a ``.safetensors``. ``ema``: the averaged weights (default) or the last
    training weights, which only a ``.ckpt`` has.
    Raises ``FileNotFoundError`` or ``ValueError`` with one sentence if there is no such file, if it
    is damaged, of a newer format, or not a checkpoint of this package.
    """
    return read_checkpoint(path, ema=ema, device=device).algorithm


def read_checkpoint(
    path: str | Path, *, ema: bool = True, device: torch.device | str = "cpu"
) -> Checkpoint:
    """As ``load``, with the config and what else is known of the run."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    from discrete_diffusion.algorithms import build_algorithm

    found = read_contents(path)
    info, config = found.info, OmegaConf.create(found.info["config"])
    try:
        algorithm = build_algorithm(config)
    except (ValueError, TypeError, OmegaConfBaseException) as error:
        raise ValueError(
            f"the model of {path} ({found.versions()}) cannot be rebuilt: "
            f"{str(error).splitlines()[0]}"
        ) from error
    found.load_into(algorithm, ema=ema)
    return Checkpoint(
        algorithm.to(device).eval(),
        config,
        list(info["size_counts"]),
        info["step"],
        info["data_fingerprint"],
    )
