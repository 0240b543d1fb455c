"""Request of a comparison: reads and checks the command's words before slow imports."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from omegaconf import DictConfig, OmegaConf

from discrete_diffusion.cli.train import check_training_values
from discrete_diffusion.composing.parts import all_choices
from discrete_diffusion.composing.search_path import places_of
from discrete_diffusion.config.constructors import check_keys
from discrete_diffusion.config.values import (
    Bounds,
    Count,
    CountOrZero,
    check_name,
    is_number,
    unknown_name,
)
from discrete_diffusion.models.registry import BACKBONES
from discrete_diffusion.runtime.atomic_files import check_folder
from discrete_diffusion.runtime.processes import started

_LISTS = {
    "algos": "[mdlm,udlm]",
    "backbones": "[bd-denoiser,dit]",
    "seeds": "[0,1,2]",
    "columns": "[nelbo,difference,valid]",
}
_OWN_KEYS = (
    *(*_LISTS, "out", "num_held_out", "noise_samples", "size_tolerance", "overwrite"),
    "reference",
)
"""Config keys of ``compare`` that ``train`` does not have."""

_SET_BY_CELL = {
    "algo": "algos=[...]",
    "algo.name": "algos=[...]",
    "algo.backbone": "backbones=[...]",
    "seed": "seeds=[...]",
    "eval.noise_samples": "noise_samples=N",
    "resume": "the same command again, which goes on by itself",
}
_OF_SOME = ("algo.", "schedule.", "sampling.", "model.")
"""Prefixes of config keys that only some cells have."""

_NO_SETTINGS = {
    *("name", "backbone", "backbones", "parameters", "counted_at", "counted_with", "scales_with"),
}
"""Keys that describe a config section and are not settings."""


def key_of(override: str) -> str:
    """Key of an override: ``++algo.draw=uniform`` -> ``algo.draw``."""
    return override.split("=")[0].lstrip("+~")


def is_option(override: str) -> bool:
    """True for an override that applies only to cells with its key, such as ``algo.num_steps=10``.

    False for ``+model.KEY``, which a backbone without a preset reads."""
    return key_of(override).startswith(_OF_SOME) and not override.startswith(("~", "+model."))


def read_words(overrides: Sequence[str], flags: Iterable[str] = ()) -> list[str]:
    """Write options as ``++KEY=VALUE``, so that Hydra composes them for any ``algo``.

    Raises ``ValueError`` for a sweep, a value that should be a list, and a folder other than
    ``out``.
    """
    if "--multirun" in flags:
        raise ValueError(
            "compare runs its cells itself: leave --multirun out, and choose how they run with "
            "hydra/launcher="
        )
    # words that only other commands have, and lists
    words = []
    for override in overrides:
        key, value = key_of(override), override.partition("=")[2].strip()
        of_none = key in ("backbones", "columns") and value == "null"
        if key in _LISTS and not of_none and not value.startswith(("[", "${")):
            raise ValueError(f"{override}: expected a list, as in {key}={_LISTS[key]}")
        if key in ("hydra.run.dir", "hydra.sweep.dir"):
            raise ValueError(f"{override}: compare writes into one folder; give out={value}")
        if key in _SET_BY_CELL:
            raise ValueError(f"compare sets {key} for every cell; give {_SET_BY_CELL[key]} instead")
        words.append("++" + override.lstrip("+") if is_option(override) else override)
    return words


def shared_overrides(overrides: Sequence[str]) -> list[str]:
    """Select from the result of ``read_words`` the overrides of every cell's ``train``."""
    shared = [o for o in overrides if key_of(o) not in (*_OWN_KEYS, "eval.num_samples")]
    # compare measures once; sampling at validations only if requested
    return ["callbacks.num_samples=0", *shared, "eval.num_samples=0", "eval.noise_samples=1"]


def check_request(
    config: DictConfig, overrides: Sequence[str], user_config_dir: str | None
) -> None:
    """Raise ``ValueError`` for wrong values in the config of the command.

    These are unknown or repeated names, values of another type, a folder that cannot be written to,
    and several processes."""
    # one process
    if (found := started()) is not None:
        raise ValueError(
            f"compare runs in one process, and {found.by} started several; start it by itself, "
            "with hydra/launcher=joblib or submitit_slurm"
        )
    # lists
    for key, example in _LISTS.items():
        values = OmegaConf.to_container(config)[key]  # type: ignore[call-overload,index]
        if key in ("backbones", "columns") and values is None:
            continue
        if not isinstance(values, list) or not values:
            raise ValueError(
                f"{key}={values}: expected a list of one or more, as in {key}={example}"
            )
        if len({*map(str, values)}) < len(values):
            raise ValueError(f"{key}={values}: the same one twice")
    # names and seeds
    known = all_choices("algo", places_of(overrides, user_config_dir))
    for name in config.algos:
        check_name("algorithm", name, known)
    if config.reference is not None:
        check_name("algorithm in reference=", config.reference, config.algos)
    for name in config.backbones or ():
        BACKBONES.entry(name)
    for seed in config.seeds:
        if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
            raise ValueError(f"seeds: got {seed}, expected whole numbers, at least 0")
    # numbers
    several = Annotated[int, Bounds(least=2)]
    keys = {"num_held_out": several, "noise_samples": Count, "eval.num_samples": CountOrZero}
    check_keys(config, keys)
    tolerance = config.size_tolerance
    if tolerance is not None and not (is_number(tolerance) and 0 <= tolerance < 1):
        raise ValueError(
            f"size_tolerance={tolerance}: expected a share below 1, as in size_tolerance=0.05, or "
            "null for any difference"
        )
    # training of one process
    if config.trainer.devices != 1 or config.trainer.get("num_nodes", 1) != 1:
        raise ValueError(
            f"trainer.devices={config.trainer.devices}: compare trains every cell in one process; "
            "run several cells at a time with hydra/launcher=joblib instead"
        )
    if config.trainer.get("max_steps") == 0:
        raise ValueError(
            "trainer.max_steps=0: expected at least 1; compare measures trained models"
        )
    check_training_values(config)
    _check_folder(config.out)


def _check_folder(out: str | None) -> None:
    # a folder that can be written to
    if out is None or not str(out).strip():
        raise ValueError("out= is empty: give the folder to write into, as in out=compared")
    path = Path(str(out)).absolute()
    there = next(p for p in (path, *path.parents) if p.exists())
    check_folder("out", str(out))
    if not os.access(there, os.W_OK | os.X_OK):
        raise ValueError(f"out={out}: {there} cannot be written to; give another folder")


def has_key(config: DictConfig, option: str) -> bool:
    """True if a config has the key of an override."""
    section, _, name = key_of(option).rpartition(".")
    node = OmegaConf.select(config, section)
    return isinstance(node, DictConfig) and name in node


def option_notes(options: Sequence[str], configs: Mapping[str, DictConfig]) -> list[str]:
    """Notes on options that apply to some of the ``configs`` only: ``algo.num_steps=10: for d3pm``.

    ``configs``: configs by name. Raises ``ValueError`` with the closest key for an option that no
    config has.
    """
    lines = []
    for option in options:
        # configs with the key
        own = [name for name, config in configs.items() if has_key(config, option)]
        if not own:
            _refuse_unknown(option, configs)
        if len(own) < len(configs):
            lines.append(f"{option.lstrip('+')}: for {', '.join(own)}")
    return lines


def _refuse_unknown(option: str, configs: Mapping[str, DictConfig]) -> None:
    key = key_of(option)
    asked = f"{option.lstrip('+')}: the configs of {', '.join(configs)} have no {key}"
    section, name, known = _nearest_known(key, configs.values())
    if not known:
        raise ValueError(f"{asked}, nor any other value under '{section}'")
    raise ValueError(f"{asked}; {unknown_name('key', name, known)}")


def _nearest_known(key: str, configs: Collection[DictConfig]) -> tuple[str, str, set[str]]:
    """Find the innermost known section of a dotted ``key``.

    Returns the section, the unknown name in it, and the known names in it."""
    section, _, name = key.rpartition(".")
    nodes = [OmegaConf.select(config, section) for config in configs]
    known = {str(k) for node in nodes if isinstance(node, DictConfig) for k in node}
    if not known and "." in section:
        return _nearest_known(section, configs)
    return section, name, known - _NO_SETTINGS
