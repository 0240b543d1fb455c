"""Hydra's complaints as one sentence with the closest name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from hydra.errors import ConfigCompositionException, MissingConfigException
from omegaconf import DictConfig, OmegaConf

from discrete_diffusion.cli.compose import choices, compose_plainly, group_overrides
from discrete_diffusion.naming import unknown_name

_LAUNCHER_PACKAGES = {
    "joblib": "hydra-joblib-launcher",
    "submitit_local": "hydra-submitit-launcher",
    "submitit_slurm": "hydra-submitit-launcher",
}


def explain(
    error: Exception, config_name: str, overrides: Sequence[str], user_config_dir: str | Path | None
) -> str:
    """What a user can do about ``error``; its own words where we have none better."""
    missing = getattr(error, "missing_cfg_file", None)
    if isinstance(error, MissingConfigException) and missing and "/" in missing:
        group, name = missing.removesuffix(".yaml").rsplit("/", 1)
        if group == "hydra/launcher":
            return _missing_launcher(name)
        if known := choices(group, user_config_dir):
            return unknown_name(f"{group} choice", name, known)
    if isinstance(error, ConfigCompositionException):
        groups = group_overrides(overrides, user_config_dir)
        return _unknown_key(error, config_name, groups, user_config_dir) or str(error)
    return str(error)


def _missing_launcher(name: str) -> str:
    package = _LAUNCHER_PACKAGES.get(name)
    remedy = "" if package is None else f"pip install {package}, or "
    return (
        f"hydra/launcher={name}: no plug-in that is installed offers it; {remedy}leave it out to "
        "run one job after the other"
    )


def _unknown_key(
    error: Exception, config_name: str, groups: list[str], user_config_dir: str | Path | None
) -> str | None:
    found = re.match(r"Could not override '([^']+)'", str(error))
    if found is None:
        return None
    parent, _, key = found.group(1).rpartition(".")
    config = compose_plainly(config_name, groups, user_config_dir)
    node = OmegaConf.select(config, parent) if parent else config
    if not isinstance(node, DictConfig):
        return None
    where = f"config key under '{parent}'" if parent else "config key"
    sentence = unknown_name(where, key, map(str, node))
    return f"{sentence} (+{found.group(1)}=... adds a new one)"
