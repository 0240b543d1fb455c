"""Configs of tests that vary values: what chooses a group is composed once a session, values are
then put in."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from omegaconf import DictConfig, OmegaConf

from discrete_diffusion.cli import compose
from discrete_diffusion.composing.search_path import group_overrides


def composed(command: str, overrides: Sequence[str] = ()) -> DictConfig:
    """As ``compose(command, overrides)``, but values are not held to the kinds of their defaults.

    Overrides are choices of groups (``algo=udlm``), a backbone, and values as YAML has them.
    """
    groups = group_overrides(overrides)
    groups += [word for word in overrides if word.startswith("algo.backbone=")]
    config = _chosen(command, tuple(groups)).copy()
    OmegaConf.set_struct(config, False)
    values = OmegaConf.from_dotlist([w.lstrip("+") for w in overrides if w not in groups])
    config.merge_with(values)
    OmegaConf.set_struct(config, True)
    return config


_chosen = lru_cache(maxsize=None)(compose)
