"""Options that only some algorithms or schedules of a comparison have: algo.num_steps=10."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from omegaconf import DictConfig, OmegaConf

from discrete_diffusion.cli.compare.requests import is_option, key_of
from discrete_diffusion.naming import unknown_name


def split_options(overrides: Sequence[str]) -> tuple[list[str], list[str]]:
    """(overrides of all cells, options of those that have their key)."""
    plain = [override for override in overrides if not is_option(override)]
    return plain, [override for override in overrides if is_option(override)]


def options_by_algorithm(
    options: Sequence[str], configs: Mapping[str, DictConfig]
) -> dict[str, list[str]]:
    """Which options each algorithm has. ``configs``: of every algorithm without any option.

    Raises ``ValueError`` for an option that none of them has, naming those there are.
    """
    for option in options:
        key = key_of(option)
        if not any(_has(config, key) for config in configs.values()):
            section, _, name = key.partition(".")
            known = {str(k) for config in configs.values() for k in config.get(section) or ()}
            known -= {"name", "backbone"}
            asked = f"{option.lstrip('+')}: the configs of {', '.join(configs)} have no {key}"
            if not known:
                raise ValueError(f"{asked}, nor any other value under '{section}'")
            raise ValueError(f"{asked}; {unknown_name('key', name, known)}")
    return {
        name: [option for option in options if _has(config, key_of(option))]
        for name, config in configs.items()
    }


def said_of_options(options: Sequence[str], owned: Mapping[str, Sequence[str]]) -> list[str]:
    """``algo.num_steps=10: for d3pm`` of each option that some algorithm lacks."""
    lines = []
    for option in options:
        owners = [name for name, own in owned.items() if option in own]
        if len(owners) < len(owned):
            lines.append(f"{option.lstrip('+')}: for {', '.join(owners)}")
    return lines


def _has(config: DictConfig, key: str) -> bool:
    parent, _, name = key.rpartition(".")
    node = OmegaConf.select(config, parent)
    return isinstance(node, DictConfig) and name in node
