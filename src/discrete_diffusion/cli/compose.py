"""Configs: where they are, how they are composed, which model preset a backbone takes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING

from discrete_diffusion.cli.override_words import paths_as_typed, quoted, text_of, written
from discrete_diffusion.cli.request_options import COMMANDS, offer_options
from discrete_diffusion.config_files import config_dir, model_presets, plain
from discrete_diffusion.models.registry import backbone_spec, check_backbone_name
from discrete_diffusion.naming import unknown_name
from discrete_diffusion.options import check_kinds, check_whole_number
from discrete_diffusion.plugins import import_plugins

if TYPE_CHECKING:
    from omegaconf import DictConfig

_HYDRA = RLock()


_OF_TRAINING = (
    *("algo", "callbacks", "debug", "eval", "experiment", "forward_process", "init", "logger"),
    *("model", "noise", "optim", "resume", "trainer"),
)
"""Keys of ``train`` that ``sample`` and ``evaluate`` do not have."""


def compose(
    config_name: str = "train",
    overrides: Sequence[str] = (),
    *,
    user_config_dir: str | Path | None = None,
) -> DictConfig:
    """The config that a command would see: ``compose("train", ["algo=mdlm", "model=bd_small"])``.

    ``user_config_dir``: a folder of further YAML files, like ``--config-dir``. Hydra's global state
    is left as it was, so this works inside a running command too.

    Raises ``ValueError`` for an unknown backbone, a model preset that does not fit it, a value of
    the wrong kind or a key that the data set does not have; Hydra's own exceptions for unknown
    groups and keys.
    """
    overrides = with_open_keys(config_name, paths_as_typed(overrides))
    return _completed(config_name, overrides, user_config_dir)[0]


def complete_overrides(
    config_name: str, overrides: Sequence[str], user_config_dir: str | Path | None = None
) -> list[str]:
    """The overrides, and ``model=...`` if a backbone was given without a preset that fits it.
    Raises ``ValueError`` as ``compose`` does."""
    _, added = _completed(config_name, overrides, user_config_dir)
    return [*overrides, *added]


def _completed(
    config_name: str, overrides: Sequence[str], user_config_dir: str | Path | None
) -> tuple[DictConfig, list[str]]:
    """The checked config, and the overrides that were added.

    Imports the modules of ``plugins`` first. Finds the preset from the backbone and the choices of
    groups alone, so that other overrides may name keys that only the new preset has.
    """
    chosen = group_overrides(overrides, user_config_dir)
    chosen += [o for o in overrides if o.lstrip("+").startswith(("algo.backbone=", "plugins="))]
    defaults = _defaults(config_name, tuple(chosen), user_config_dir)
    import_plugins(defaults.get("plugins"))
    if config_name == "train" and (words := _teacher_words(defaults, overrides)):
        config, added = _completed(config_name, [*overrides, *words], user_config_dir)
        return config, [*words, *added]
    preset = missing_preset(defaults, overrides)
    added = [] if preset is None else [f"model={preset}"]
    config = compose_plainly(config_name, [*overrides, *added], user_config_dir)
    if len(chosen) < len(overrides):
        defaults = _defaults(config_name, (*chosen, *added), user_config_dir)
        check_kinds(config, defaults)
        _check_data_keys(config, defaults)
    return config, added


def _check_data_keys(config: DictConfig, defaults: DictConfig) -> None:
    """``ValueError`` for a key under ``data`` that the YAML of the data set does not have."""
    known = defaults.get("data")
    for key in config.data if known else ():
        if key not in known:
            name = known.get("name")
            raise ValueError(
                f"{unknown_name(f'key of data={name}', str(key), map(str, known))}; "
                "other data is a data set of its own, see docs/add_a_domain.md"
            )


@lru_cache
def _defaults(
    config_name: str, groups: tuple[str, ...], user_config_dir: str | Path | None
) -> DictConfig:
    """The config of choices of groups alone. Shared by all callers: do not change it."""
    return compose_plainly(config_name, groups, user_config_dir)


def with_open_keys(config_name: str, overrides: Sequence[str]) -> list[str]:
    """The overrides as Hydra takes them: ``sample`` and ``evaluate`` get ``++`` before
    ``data.key=value`` and, unless a sampler is named, before ``sampling.key=value``, as only the
    checkpoint knows these keys.

    Raises ``ValueError`` for ``data=`` and keys of ``train``, which the checkpoint decides, and for
    ``+key=value``, which nothing would read.
    """
    if config_name not in COMMANDS:
        return [*overrides]
    for word in overrides:
        root = re.split(r"[.=@]", word.lstrip("+~"))[0]
        if root in _OF_TRAINING:
            raise ValueError(
                f"{word}: {root} is for train; {config_name} goes by the checkpoint; leave it out"
            )
        if word[:1] == "+" != word[1:2] and root not in ("data", "sampling", "hydra"):
            raise ValueError(f"{word}: {config_name} takes no keys beside its own; leave out the +")
        if word.lstrip("+~").startswith("data="):
            raise ValueError(
                f"{word}: {config_name} takes the data of the checkpoint; leave it out, or replace "
                "some of its keys, as in data.phantoms=tubes"
            )
    named = any(word.lstrip("+").startswith("sampling=") for word in overrides)
    opened = ("data.",) if named else ("data.", "sampling.")
    return [f"++{word}" if word.startswith(opened) else word for word in overrides]


def group_overrides(
    overrides: Sequence[str], user_config_dir: str | Path | None = None
) -> list[str]:
    """Those of the overrides that choose a config of a group: ``model=bd_base``, ``~logger``."""
    return [o for o in overrides if choices(o.split("=")[0].lstrip("+~"), user_config_dir)]


def compose_plainly(
    config_name: str,
    overrides: Sequence[str],
    user_config_dir: str | Path | None,
    *,
    with_hydra: bool = False,
) -> DictConfig:
    """As ``compose``, but taking the model preset as it stands; ``with_hydra``: with the section
    ``hydra``, whose ``runtime.choices`` are those of the groups."""
    from hydra import compose as hydra_compose

    offer_options(config_name)
    with own_hydra(user_config_dir) as searchpath:
        words = [*searchpath, *overrides]
        return hydra_compose(config_name, overrides=words, return_hydra_config=with_hydra)


@contextmanager
def own_hydra(user_config_dir: str | Path | None = None) -> Iterator[list[str]]:
    """Hydra with our configs inside the block, in one thread at a time, as it is one for all of
    them; afterwards the one that ran before.

    Yields the overrides that add ``user_config_dir`` to its search path.
    """
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    folder = None if user_config_dir is None else Path(user_config_dir).absolute()
    with _HYDRA:
        running = GlobalHydra.instance().hydra
        GlobalHydra.instance().clear()
        try:
            with initialize_config_dir(str(config_dir()), version_base="1.3"):
                yield [] if folder is None else [f"hydra.searchpath=[{quoted(f'file://{folder}')}]"]
        finally:
            GlobalHydra.instance().hydra = running


def _teacher_words(defaults: DictConfig, overrides: Sequence[str]) -> list[str]:
    """Overrides that give an algorithm with a teacher (``distill``) the data, noise, model and
    backbone of the checkpoint that it starts from, or of the run that it goes on with, but for what
    the command says itself; none for other algorithms.

    Raises the errors of reading a checkpoint.
    """
    said = dict(word.lstrip("+~").partition("=")[::2] for word in overrides)
    files = (text_of(said.get(key, "null")) for key in ("resume", "init.checkpoint"))
    path = next((file for file in files if file != "null"), None)
    if path is None or "algo" not in defaults:
        return []
    from discrete_diffusion.algorithms import ALGORITHMS

    if not getattr(ALGORITHMS.known(defaults.algo.name), "has_teacher", False):
        return []
    from discrete_diffusion.checkpoints import LAST, read_contents

    teacher = read_contents(path, of_folder=LAST)
    teacher.check_plugged_in()
    was, words = teacher.info["config"], []
    other = said.get("algo.backbone", was["algo"]["backbone"]) != was["algo"]["backbone"]
    for group in ("data", "noise") if other else ("data", "noise", "model"):
        name = was[group].get("name")
        if group in said or name not in choices(group):
            continue
        own = plain(_defaults("train", (f"{group}={name}",), None)[group])
        words.append(f"{group}={name}")
        kept = {k: v for k, v in was[group].items() if k in own and own[k] != v}
        words += [f"{group}.{k}={written(v)}" for k, v in kept.items()]
    for key in ("backbone", "time_conditioning", "condition_dropout"):
        if key in was["algo"]:
            words.append(f"algo.{key}={written(was['algo'][key])}")
    return [word for word in words if word.partition("=")[0] not in said]


def missing_preset(config: DictConfig, overrides: Sequence[str]) -> str | None:
    """The model preset that fits ``algo.backbone``; None if the config has one that fits.

    Raises ``ValueError`` for an unknown backbone, and for a ``model=`` that does not fit it.
    """
    if "algo" not in config or "model" not in config or "algos" in config:
        return None  # the cells of compare have backbones of their own
    backbone = config.algo.backbone
    check_backbone_name(backbone)
    fits = config.model.get("backbones")
    if fits is None or backbone in fits:
        return None
    presets = model_presets()
    fitting = [name for name, (backbones, _) in presets.items() if backbone in backbones]
    if any(o.lstrip("+").startswith("model=") for o in overrides):
        if not fitting:  # a plug-in without a preset of ours reads what it needs
            return None
        raise ValueError(
            f"model={config.model.name} is made for {', '.join(fits)}, not for backbone "
            f"'{backbone}'; choose one of model={', model='.join(fitting)}, or "
            f"algo.backbone={' or algo.backbone='.join(fits)}"
        )
    default = backbone_spec(backbone).default_model
    if fitting:
        size = presets[config.model.name][1] if config.model.name in presets else 0
        return min(fitting, key=lambda name: (_distance(presets[name][1], size), name != default))
    return default


def choices(group: str, user_config_dir: str | Path | None = None) -> list[str]:
    """The choices of a config group, with those of the user's folder."""
    folders = [config_dir(), *([Path(user_config_dir)] if user_config_dir else [])]
    return sorted({path.stem for folder in folders for path in (folder / group).glob("*.yaml")})


def check_counts(config: DictConfig, **smallest: int) -> None:
    """``ValueError`` naming a key (``eval__bound_draws`` for eval.bound_draws) unless its value is
    null or a whole number of at least ``smallest``."""
    from omegaconf import OmegaConf

    for name, least in smallest.items():
        key = name.replace("__", ".")
        value = OmegaConf.select(config, key)
        if value is not None:
            check_whole_number(key, value, least=least)


def _distance(size: int, wanted: int) -> float:
    return abs(math.log(size / wanted)) if size and wanted else 0.0
