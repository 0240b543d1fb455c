"""Options that only some cells of a comparison have: algo.num_steps=10, model.pool=mean."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from omegaconf import DictConfig, OmegaConf

from discrete_diffusion.cli.compare.arguments import is_option, key_of
from discrete_diffusion.naming import unknown_name

_OF_MODEL = "model."
_NO_SETTINGS = {"name", "backbone", "backbones", "parameters", "counted_at", "counted_with"}
"""Keys of a section that say what it is."""


def split_options(overrides: Sequence[str]) -> tuple[list[str], list[str]]:
    """(overrides of all cells, options of those that have their key)."""
    plain = [override for override in overrides if not is_option(override)]
    return plain, [override for override in overrides if is_option(override)]


def split_model_options(options: Sequence[str]) -> tuple[list[str], list[str]]:
    """(options that an algorithm has or has not, those that its model preset does)."""
    of_model = [option for option in options if key_of(option).startswith(_OF_MODEL)]
    return [option for option in options if option not in of_model], of_model


def options_of(options: Sequence[str], config: DictConfig) -> list[str]:
    """Those whose key a config has."""
    return [option for option in options if _has(config, key_of(option))]


def options_by_name(
    options: Sequence[str], configs: Mapping[str, DictConfig]
) -> dict[str, list[str]]:
    """Which options each algorithm, or cell, has. ``configs``: by its name.

    Raises ``ValueError`` for an option that none of them has, naming those there are.
    """
    for option in options:
        key = key_of(option)
        if not any(_has(config, key) for config in configs.values()):
            section, name, known = _nearest_known(key, configs.values())
            asked = f"{option.lstrip('+')}: the configs of {', '.join(configs)} have no {key}"
            if not known:
                raise ValueError(f"{asked}, nor any other value under '{section}'")
            raise ValueError(f"{asked}; {unknown_name('key', name, known)}")
    return {name: options_of(options, config) for name, config in configs.items()}


def said_of_options(options: Sequence[str], owned: Mapping[str, Sequence[str]]) -> list[str]:
    """``algo.num_steps=10: for d3pm`` of each option that some algorithm lacks."""
    lines = []
    for option in options:
        owners = [name for name, own in owned.items() if option in own]
        if len(owners) < len(owned):
            lines.append(f"{option.lstrip('+')}: for {', '.join(owners)}")
    return lines


def _nearest_known(key: str, configs: Collection[DictConfig]) -> tuple[str, str, set[str]]:
    """(section, name in it, its keys): the innermost section on the way to ``key`` that a config
    has, else the outermost."""
    section, _, name = key.rpartition(".")
    nodes = [OmegaConf.select(config, section) for config in configs]
    known = {str(k) for node in nodes if isinstance(node, DictConfig) for k in node}
    if not known and "." in section:
        return _nearest_known(section, configs)
    return section, name, known - _NO_SETTINGS


def _has(config: DictConfig, key: str) -> bool:
    parent, _, name = key.rpartition(".")
    node = OmegaConf.select(config, parent)
    return isinstance(node, DictConfig) and name in node
