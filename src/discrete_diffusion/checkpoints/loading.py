"""From a checkpoint file to an algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from discrete_diffusion import __version__
from discrete_diffusion.checkpoints.contents import INFO_KEY, algorithm_weights, check_info
from discrete_diffusion.checkpoints.files import (
    is_weights_file,
    read_training_file,
    read_weights_file,
)

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.algorithms import Algorithm


@dataclass(frozen=True)
class Checkpoint:
    """A run brought back: the algorithm in eval mode, its config, and how many training samples
    had each size (``size_counts[n]``).

    ``algorithm``: an ``TokenAlgorithm`` on tokens, ``MaskedFeatures`` on features.

    ``step``: optimiser steps taken; ``data_fingerprint``: of the data trained on.
    """

    algorithm: Any
    config: DictConfig
    size_counts: list[int]
    step: int
    data_fingerprint: str


def load(path: str | Path, *, ema: bool = True, device: torch.device | str = "cpu") -> Any:
    """The algorithm of a checkpoint, ready to sample: ``load("run/checkpoints/best.ckpt")``; an
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
    """As ``load``, with the config and the size histogram of the training data."""
    from omegaconf import OmegaConf

    info, weights = read_weights(Path(path), ema=ema)
    config = OmegaConf.create(info["config"])
    algorithm = _build(config, info, path)
    load_weights(algorithm, weights, info, path)
    return Checkpoint(
        algorithm.to(device).eval(),
        config,
        list(info["size_counts"]),
        info["step"],
        info["data_fingerprint"],
    )


def split_training_state(
    state: dict[str, Any], path: object
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """(checked info, averaged weights) of what ``read_training_file`` returned."""
    weights = state.get("state_dict")
    weights = algorithm_weights(weights) if isinstance(weights, dict) else {}
    info = check_info(state.get(INFO_KEY), weights, path)
    return info, weights


def load_weights(
    algorithm: Algorithm, weights: dict[str, Tensor], info: dict[str, Any], path: object
) -> None:
    """Load ``weights`` into ``algorithm``, or ``ValueError`` saying what does not fit."""
    try:
        algorithm.load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(
            f"the weights in {path} do not fit the config (written by version "
            f"{info.get('version', '?')}, this is {__version__}): "
            f"{str(error).splitlines()[-1].strip()}"
        ) from error


def read_weights(path: Path, *, ema: bool) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """(checked info, weights of the algorithm by name); ``ema`` and errors as for ``load``."""
    if is_weights_file(path):
        found, weights = read_weights_file(path)
        info = check_info(found, weights, path)
        if not ema:
            raise ValueError(f"{path} holds the averaged weights only; ema=false needs the .ckpt")
        return info, weights
    state = read_training_file(path)
    info, weights = split_training_state(state, path)
    if not ema and isinstance(state.get("current_model_state"), dict):
        weights = algorithm_weights(state["current_model_state"])
    return info, weights


def _build(config: DictConfig, info: dict[str, Any], path: object) -> Algorithm:
    from omegaconf.errors import OmegaConfBaseException

    from discrete_diffusion.algorithms import build_algorithm

    try:
        return build_algorithm(config)
    except (ValueError, TypeError, OmegaConfBaseException) as error:
        raise ValueError(
            f"the model of {path} (written by version {info.get('version', '?')}, this is "
            f"{__version__}) cannot be rebuilt: {str(error).splitlines()[0]}"
        ) from error
