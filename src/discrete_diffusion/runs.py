"""``train`` and ``compare`` in Python: the work of these commands, with the same configs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from discrete_diffusion.cli.compare import CompareRequest, run_comparison
from discrete_diffusion.cli.run_folders import reserve_run_folder
from discrete_diffusion.cli.train import TrainRequest, run_training
from discrete_diffusion.composing.compose import compose
from discrete_diffusion.composing.search_path import written


def train(
    *overrides: str, folder: str | Path, config_dir: str | Path | None = None, **settings: Any
) -> dict[str, Any]:
    """Train a model in a run folder, as the command ``train`` does.

    >>> train(folder="runs/first", model="bd_tiny", trainer={"max_steps": 300})
    >>> load("runs/first").sample(16)

    Args:
        *overrides: words of the command line, ``"algo=mdlm"``, ``"trainer.max_steps=300"``.
        folder: folder of the run, see ``hydra.run.dir``.
        config_dir: a folder of further YAML files, like ``--config-dir``.
        **settings: keys of the config; a mapping gives the keys below one.

    Returns:
        Contents of ``metrics.json``.

    Raises:
        ValueError: the config is not valid, or the folder holds another run.
        Stop: on SIGINT or SIGTERM, as soon as the run can go on from a checkpoint.
    """
    # the config of the command, into a folder that no run has
    words = [*overrides, *override_words(settings)]
    request = TrainRequest(compose("train", words, user_config_dir=config_dir), Path(folder))
    with reserve_run_folder(request.folder, request.config):
        return run_training(request)


def compare(
    *overrides: str, out: str | Path, config_dir: str | Path | None = None, **settings: Any
) -> dict[str, Any]:
    """Train and measure algorithms, backbones and seeds side by side, as ``compare`` does.

    >>> compare(out="comparison", algos=["mdlm", "udlm"], trainer={"max_steps": 300})

    Args:
        *overrides: words of the command line, ``"algos=[mdlm,udlm]"``.
        out: the folder that receives the table and the cells; finished cells in it are kept.
        config_dir: a folder of further YAML files, like ``--config-dir``.
        **settings: keys of the config; a mapping gives the keys below one.

    Returns:
        Contents of ``results.json``.

    Raises:
        ValueError: before the first run if a cell is not valid; after the last run if a cell
            failed.
    """
    words = [*overrides, *override_words({**settings, "out": str(out)})]
    return run_comparison(CompareRequest(words, user_config_dir=config_dir))


def override_words(settings: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Settings as words of the command line.

    >>> override_words({"trainer": {"max_steps": 3}})
    ['trainer.max_steps=3']

    Args:
        settings: keys of the config; a mapping gives the keys below one.
        prefix: what the keys begin with, ``"trainer."``.

    Returns:
        A word for each setting.
    """
    words = []
    for key, value in settings.items():
        if isinstance(value, Mapping):
            words += override_words(value, f"{prefix}{key}.")
        else:
            words.append(f"{prefix}{key}={written(_plain(value))}")
    return words


def _plain(value: Any) -> Any:
    """Turn paths into text and sequences into lists."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(each) for each in value]
    return value
