"""The run that ``train`` goes on with, ``resume``: what it had is what the command does not say."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from discrete_diffusion.config.files import check_exists, shipped_files
from discrete_diffusion.config.options import leaves

if TYPE_CHECKING:
    pass

logger = logging.getLogger(__name__)


_LAST = "last.ckpt"
"""As in ``checkpoints.files``, which imports torch."""

_OF_COMMAND = ("resume", "overwrite", "plugins", "callbacks.extra")
"""Keys that a run that goes on does not take over: what is done with files, and names of code."""

_CHOSEN = ("data", "model", "algo", "noise", "forward_process", "sampling")
"""Groups whose choice has a name in the config."""

_WITH_ALGORITHM = ("forward_process", "sampling")
"""Groups whose choice goes with that of ``algo``."""


@lru_cache(maxsize=1)
def _kept_config(path: str, *state: object) -> dict[str, Any]:
    """``state``: by which the file is seen to be another than before."""
    from discrete_diffusion.checkpoints.contents import read_contents

    found = read_contents(path, of_folder=_LAST)
    found.check_plugged_in()
    config: dict[str, Any] = found.info["config"]
    return config


def config_to_resume(path: str) -> dict[str, Any]:
    """Config of the run of ``resume=path``: do not change it. Raises the errors of reading it."""
    check_exists("resume", path, "checkpoint")  # before torch is imported
    files = [Path(path, part) for part in ("", _LAST, f"checkpoints/{_LAST}")]
    return _kept_config(path, Path.cwd(), *(f.stat().st_mtime_ns for f in files if f.exists()))


def choices_of_run(
    was: Mapping[str, Any], typed: Mapping[str, str], names: Callable[[str], Collection[str]]
) -> list[str]:
    """Overrides that choose what the run with the config ``was`` had, where the command does not:
    ``typed``, its keys and values. ``names``: the choices of a group."""
    left = () if typed.get("algo", was["algo"]["name"]) == was["algo"]["name"] else _WITH_ALGORITHM
    found = {group: (was.get(group) or {}).get("name") for group in _CHOSEN}
    of_optim = (was.get("optim") or {}).get("_target_")
    files = shipped_files("optim")
    found["optim"] = next(
        (
            name
            for name, file in files.items()
            if OmegaConf.select(OmegaConf.load(file), "_target_") == of_optim
        ),
        None,
    )
    words = [
        f"{group}={name}"
        for group, name in found.items()
        if group not in typed and name in names(group) and group not in left
    ]
    loggers = [*(was.get("logger") or {})]
    if "logger" not in typed and {*loggers} <= {*names("logger")}:
        words.append(f"logger=[{','.join(loggers) or 'none'}]")
    if "algo.backbone" not in typed and "backbone" in was["algo"]:
        words.append(f"algo.backbone={was['algo']['backbone']}")
    return words


def with_config_of_run(
    config: DictConfig, was: Mapping[str, Any], typed: Collection[str]
) -> DictConfig:
    """A copy of a composed config in which all that the command does not say is as the run with the
    config ``was`` had it. ``typed``: its keys, those of its experiments too; to choose of a group
    what the run had says nothing."""
    former, config = OmegaConf.create(dict(was)), OmegaConf.create(config)
    names = {group: f"{group}.name" for group in _CHOSEN} | {"optim": "optim._target_"}
    same = {
        group
        for group, key in names.items()
        if OmegaConf.select(config, key) == OmegaConf.select(former, key)
    }
    same |= {"logger"} if {*(config.get("logger") or {})} == {*(was.get("logger") or {})} else set()
    kept = [*_OF_COMMAND, *(key for key in typed if key not in same)]
    kept += () if "algo" in same else _WITH_ALGORITHM
    for key, value in leaves(was):
        if key.endswith("_target_") or any(key == k or key.startswith(f"{k}.") for k in kept):
            continue
        OmegaConf.update(config, key, value, force_add=True)
    return config
