"""Checkpoints: what is in one, and how an algorithm comes back out of it."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from discrete_diffusion import __version__

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.algorithms import Algorithm

INFO_KEY = "discrete_diffusion"


@dataclass(frozen=True)
class Checkpoint:
    """A run brought back: the algorithm in eval mode, its config, and how many training samples
    had each size (``size_counts[n]``)."""

    algorithm: Algorithm
    config: DictConfig
    size_counts: list[int]


def checkpoint_info(config: Mapping[str, Any], size_counts: list[int]) -> dict[str, Any]:
    """What a checkpoint says of itself: plain containers only, so that no pickle is needed."""
    return {"version": __version__, "config": dict(config), "size_counts": list(size_counts)}


def load(path: str | Path, *, ema: bool = True, device: torch.device | str = "cpu") -> Algorithm:
    """The algorithm of a checkpoint, ready to sample: ``load("run/checkpoints/best.ckpt")``.

    ``ema``: the averaged weights (default) or the last training weights.
    Raises ``FileNotFoundError`` or ``ValueError`` with one sentence if there is no such file or it
    is not a checkpoint of this package.
    """
    return read_checkpoint(path, ema=ema, device=device).algorithm


def read_checkpoint(
    path: str | Path, *, ema: bool = True, device: torch.device | str = "cpu"
) -> Checkpoint:
    """As ``load``, with the config and the size histogram of the training data."""
    from omegaconf import OmegaConf

    from discrete_diffusion.algorithms import build_algorithm

    state = _read(Path(path))
    info = _info(state, path)
    config = OmegaConf.create(dict(info["config"]))
    algorithm = build_algorithm(config)
    key = "state_dict" if ema or "current_model_state" not in state else "current_model_state"
    _load_weights(algorithm, state[key], info, path)
    return Checkpoint(algorithm.to(device).eval(), config, list(info["size_counts"]))


def check_resumable(path: str | Path, algorithm: Algorithm) -> None:
    """Raise the errors of ``load``, or ``ValueError`` if the weights do not fit ``algorithm``."""
    state = _read(Path(path))
    _load_weights(algorithm, state["state_dict"], _info(state, path), path)


def _info(state: dict[str, Any], path: str | Path) -> dict[str, Any]:
    info = state.get(INFO_KEY)
    if not isinstance(info, dict) or not {"config", "size_counts"} <= set(info):
        raise ValueError(f"{path} is not a checkpoint of discrete_diffusion: it names no config")
    return info


def _load_weights(
    algorithm: Algorithm, weights: dict[str, Any], info: dict[str, Any], path: str | Path
) -> None:
    prefix = "algorithm."
    own = {k.removeprefix(prefix): v for k, v in weights.items() if k.startswith(prefix)}
    try:
        algorithm.load_state_dict(own)
    except RuntimeError as error:
        raise ValueError(
            f"the weights in {path} do not fit the config (written by version "
            f"{info.get('version', '?')}, this is {__version__}): "
            f"{str(error).splitlines()[-1].strip()}"
        ) from error


def _read(path: Path) -> dict[str, Any]:
    """The file as plain containers and tensors."""
    if not path.exists():
        raise FileNotFoundError(f"no checkpoint at {path.absolute()}")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give the file in it, e.g. {path}/last.ckpt")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, zipfile.BadZipFile, RuntimeError, EOFError, KeyError) as error:
        raise ValueError(f"{path} is not a readable checkpoint: damaged, or not one") from error
    if not isinstance(state, dict) or "state_dict" not in state:
        raise ValueError(f"{path} is not a checkpoint: it holds no model weights")
    return state
