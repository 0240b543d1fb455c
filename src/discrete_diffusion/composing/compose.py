"""Compose the configs of commands, including values of earlier runs."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from discrete_diffusion.algorithms.registry import ALGORITHMS
from discrete_diffusion.composing.parts import (
    PART_GROUPS,
    all_choices,
    check_parts,
    experiment_values,
    import_named,
    offer_options,
    offer_part,
    with_algorithm,
    withdraw_parts,
)
from discrete_diffusion.composing.search_path import (
    checked_dir,
    choices,
    group_overrides,
    missing_preset,
    own_hydra,
    paths_as_typed,
    text_of,
    written,
)
from discrete_diffusion.config.constructors import check_kinds, leaves
from discrete_diffusion.config.files import (
    ConfigFile,
    check_exists,
    check_interpolations,
    check_own_files,
    plain,
    shipped_files,
)
from discrete_diffusion.config.plugins import import_plugins
from discrete_diffusion.config.values import unknown_name
from discrete_diffusion.domains.registry import WITH_CHECKPOINT
from discrete_diffusion.models.registry import default_models

_KEYS_OF_TRAIN = (
    *("algo", "callbacks", "debug", "eval", "experiment", "forward_process", "init", "logger"),
    *("model", "schedule", "optim", "resume", "trainer"),
)
"""Keys of ``train`` that ``sample`` and ``evaluate`` do not have."""

_WITH_GROUPS = ("algo.backbone=", "plugins=")
"""Overrides that, like choices of groups, decide which model preset fits."""

_CLOSED = {
    "data": "; other data needs a data set of its own, see docs/extend.md",
    "callbacks": "; a callback of your own is +callbacks.extra.NAME._target_=package.Class",
    "eval": "",
    "init": "",
}
"""Config sections that take no new keys, with advice for each."""


# --- composing ---


def compose(
    config_name: str = "train",
    overrides: Sequence[str] = (),
    *,
    user_config_dir: str | Path | None = None,
) -> DictConfig:
    """Compose the config of a command: ``compose("train", ["algo=mdlm", "model=bd_small"])``.

    ``user_config_dir``: a folder of further YAML files, like ``--config-dir``. Hydra's global state
    is left as it was, so this works inside a running command too.

    Raises ``ValueError`` for an unknown backbone, a model preset that does not fit it, a value of
    the wrong kind or a key that the data set does not have; Hydra's own exceptions for unknown
    groups and keys.
    """
    user_dir = checked_dir(user_config_dir)
    files, words, _ = hydra_words(config_name, overrides, user_dir)
    return completed_config(config_name, words, user_dir, files)[0]


def compose_plainly(
    config_name: str,
    overrides: Sequence[str],
    user_dir: Path | None = None,
    *,
    with_hydra: bool = False,
) -> DictConfig:
    """Compose a config without choosing a model preset; parts of registries are choices too.

    ``with_hydra``: keep the section ``hydra``; its ``runtime.choices`` are those of the groups."""
    from hydra import compose as hydra_compose
    from hydra.errors import MissingConfigException

    import_named(overrides, user_dir)
    if config_name == "train":
        overrides, _ = with_algorithm(overrides, user_dir)
    offer_options(config_name)
    with own_hydra(user_dir) as searchpath:
        withdraw_parts(user_dir)
        words = [*searchpath, *overrides]
        # a registered part is offered when Hydra does not find it
        while True:
            try:
                return hydra_compose(config_name, overrides=words, return_hydra_config=with_hydra)
            except MissingConfigException as error:
                if not offer_part(error.missing_cfg_file):
                    raise


def completed_config(
    config_name: str,
    overrides: Sequence[str],
    user_dir: Path | None = None,
    files: Sequence[ConfigFile] = (),
) -> tuple[DictConfig, list[str]]:
    """Compose and check a config; return it with the completed overrides.

    Adds ``model=...`` for a backbone that the preset does not fit, and choices of a run to resume
    or of a teacher. Raises ``ValueError`` as ``compose`` does."""
    # choices of groups only, as other overrides may name keys that only the added preset has
    of_groups = group_overrides(overrides, user_dir)
    chosen = [*of_groups, *(o for o in overrides if o.lstrip("+").startswith(_WITH_GROUPS))]
    import_named(chosen, user_dir)
    defaults = _defaults(config_name, chosen, user_dir)
    import_plugins(defaults.get("plugins"))
    # a run to resume, or a teacher, decides the choices that the command does not make
    typed, was, words = dict[str, str](), None, list[str]()
    said = experiment_values(chosen, user_dir)
    starts = [*said, *(word.lstrip("+~").partition("=")[0] for word in overrides)]
    if config_name == "train" and {"resume", "init.checkpoint"} & {*starts}:
        values = {key: written(value) for key, value in said.items()}
        values |= dict(word.lstrip("+~").partition("=")[::2] for word in overrides)
        typed = {key: text_of(value) for key, value in values.items()}
        resumed = _file_of("resume", typed, overrides, user_dir)
        was = None if resumed is None else config_to_resume(resumed)
        words = (
            _teacher_words(defaults, typed, overrides, user_dir)
            if was is None
            else _choices_of_run(was, typed)
        )
    if words:
        return completed_config(config_name, [*overrides, *words], user_dir, files)
    # a model preset that fits the backbone
    preset = missing_preset(defaults, of_groups, user_dir)
    added = [] if preset is None else [f"model={preset}"]
    overrides, chosen = [*overrides, *added], [*chosen, *added]
    config = compose_plainly(config_name, overrides, user_dir)
    # checks of what the overrides changed
    check_interpolations(files, config)
    if len(chosen) < len(overrides):
        defaults = _defaults(config_name, chosen, user_dir)
        check_kinds(config, defaults, described=config_name != "compare")
    if config_name == "train":
        check_parts(config)
    if was is not None:
        config = with_config_of_run(config, was, typed)
    plainly = [o for o in chosen if not o.startswith(("experiment=", "debug="))]
    if len(plainly) < len(overrides):
        _check_keys(config, defaults, _defaults(config_name, plainly, user_dir))
    return config, overrides


def _check_keys(config: DictConfig, defaults: DictConfig, without: DictConfig) -> None:
    """Raise ``ValueError`` for a new key in a section of ``_CLOSED``, also of an experiment."""
    for section, remedy in _CLOSED.items():
        known = (defaults if section == "data" else without).get(section)
        for key in config[section] if known else ():
            if key not in known:
                of = f"data={known.get('name')}" if section == "data" else section
                raise ValueError(unknown_name(f"key of {of}", str(key), map(str, known)) + remedy)


def _defaults(config_name: str, groups: Sequence[str], user_dir: Path | None) -> DictConfig:
    """Compose a config of group choices only. Callers share it and must not change it."""
    return _kept_defaults(config_name, tuple(groups), user_dir, repr(default_models()))


@lru_cache
def _kept_defaults(
    config_name: str, groups: tuple[str, ...], user_dir: Path | None, registered: str
) -> DictConfig:
    """Cache of ``_defaults``. ``registered``: presets in the registry, for the cache key only."""
    return compose_plainly(config_name, groups, user_dir)


def offer_parts_of_jobs(config_name: str, overrides: Sequence[str], user_dir: Path | None) -> None:
    """Import modules of ``plugins``, and register parts that jobs of a sweep choose with Hydra."""
    modules = [word for word in overrides if word.startswith("plugins=")]
    import_named(overrides, user_dir)
    for word in overrides:
        group, _, names = word.lstrip("+").partition("=")
        named = re.findall(r"[\w-]+", names) if group in PART_GROUPS else []
        for name in {*named} & {*all_choices(group)} - {*choices(group, user_dir)}:
            compose_plainly(config_name, [*modules, f"{group}={name}"], user_dir)


# --- words of a command that Hydra takes in another form ---


def hydra_words(
    config_name: str, overrides: Sequence[str], user_dir: Path | None, *, sweeps: bool = False
) -> tuple[list[ConfigFile], list[str], str]:
    """Check the user's files, and rewrite overrides in the form that Hydra accepts.

    Returns the files, the overrides, and a note for the log; see ``check_own_files``,
    ``paths_as_typed``, ``with_open_keys`` and ``with_algorithm``."""
    files = check_own_files(config_name, overrides, user_dir)
    words = with_open_keys(config_name, paths_as_typed(overrides, sweeps=sweeps))
    if config_name != "train" or sweeps:
        return files, words, ""
    return files, *with_algorithm(words, user_dir)


def with_open_keys(config_name: str, overrides: Sequence[str]) -> list[str]:
    """Rewrite overrides so that Hydra accepts keys that only a preset or the checkpoint defines.

    Raises ``ValueError`` for keys that the checkpoint decides, and for an unused ``+key=value``."""
    if config_name == "train":
        overrides = [f"+{word}" if word.startswith("+model.") else word for word in overrides]
    if config_name in ("train", "compare"):
        # optim._target_=package.Class opens all keys; optim.decay_steps is in no YAML
        own = any(word.lstrip("+").startswith("optim._target_=") for word in overrides)
        start = "optim." if own else "optim.decay_steps="
        words = [f"++{word}" if word.startswith(start) else word for word in overrides]
        chosen = any(word.startswith("optim=") for word in words)
        return ["optim=custom", *words] if own and not chosen else words
    if config_name not in WITH_CHECKPOINT:
        return [*overrides]
    for word in overrides:
        root = re.split(r"[.=@]", word.lstrip("+~"))[0]
        if root in _KEYS_OF_TRAIN:
            raise ValueError(
                f"{word}: {root} is a key of train; {config_name} takes what the checkpoint was "
                "trained with; leave it out"
            )
        if word[:1] == "+" != word[1:2] and root not in ("data", "sampling", "hydra"):
            raise ValueError(f"{word}: {config_name} takes no new keys; leave out the +")
        if word.lstrip("+~").startswith("data="):
            raise ValueError(
                f"{word}: {config_name} takes the kind of data of the checkpoint; leave it out, or "
                "give another file of it with data.path=FILE, or other keys"
            )
    named = any(word.lstrip("+").startswith("sampling=") for word in overrides)
    opened = ("data.",) if named else ("data.", "sampling.")
    return [f"++{word}" if word.startswith(opened) else word for word in overrides]


# --- earlier runs: a run to resume, a teacher ---

_LAST = "last.ckpt"
"""Same as ``LAST`` in ``checkpoints.files``, which would import torch."""

_NOT_RESUMED = ("resume", "overwrite", "plugins", "callbacks.extra")
"""Keys that a resumed run does not take from the earlier run: file handling, and code."""

_CHOSEN = ("data", "model", "algo", "schedule", "forward_process", "sampling")
"""Config groups whose choice is recorded as ``name`` in the config."""

_WITH_ALGORITHM = ("forward_process", "sampling")
"""Config groups whose default choice depends on ``algo``."""


@lru_cache(maxsize=1)
def _cached_run_config(path: str, *state: object) -> dict[str, Any]:
    """Read the config in a checkpoint; cached until ``state``, the state of the file, changes."""
    from discrete_diffusion.checkpoints.contents import read_contents

    found = read_contents(path, of_folder=_LAST)
    found.check_plugged_in()
    config: dict[str, Any] = found.info["config"]
    return config


def config_to_resume(path: str) -> dict[str, Any]:
    """Read the config of the run at ``resume=path``; callers must not change the config."""
    # before torch is imported
    check_exists("resume", path, "checkpoint")
    files = [Path(path, part) for part in ("", _LAST, f"checkpoints/{_LAST}")]
    return _cached_run_config(
        path, Path.cwd(), *(f.stat().st_mtime_ns for f in files if f.exists())
    )


def _choices_of_run(was: Mapping[str, Any], typed: Mapping[str, str]) -> list[str]:
    """Overrides with the choices of the run ``was`` for groups not ``typed`` in the command."""
    left = () if typed.get("algo", was["algo"]["name"]) == was["algo"]["name"] else _WITH_ALGORITHM
    found = {group: (was.get(group) or {}).get("name") for group in _CHOSEN}
    # an optimiser has no name in the config: find the YAML with its class
    of_optim = (was.get("optim") or {}).get("_target_")
    of_files = {
        OmegaConf.select(OmegaConf.load(file), "_target_"): name
        for name, file in reversed(shipped_files("optim").items())
    }
    found["optim"] = of_files.get(of_optim)
    words = [
        f"{group}={name}"
        for group, name in found.items()
        if group not in typed and name in all_choices(group) and group not in left
    ]
    loggers = [*(was.get("logger") or {})]
    if "logger" not in typed and {*loggers} <= {*all_choices("logger")}:
        words.append(f"logger=[{','.join(loggers) or 'none'}]")
    if "algo.backbone" not in typed and "backbone" in was["algo"]:
        words.append(f"algo.backbone={was['algo']['backbone']}")
    return words


def with_config_of_run(
    config: DictConfig, was: Mapping[str, Any], typed: Collection[str]
) -> DictConfig:
    """Copy a composed config with the values of the earlier run ``was`` for keys that are not
    ``typed`` in the command or its experiments."""
    former, config = OmegaConf.create(dict(was)), OmegaConf.create(config)
    # if a typed choice is the same as in the run, the run decides the keys below it
    names = {group: f"{group}.name" for group in _CHOSEN} | {"optim": "optim._target_"}
    same = {
        group
        for group, key in names.items()
        if OmegaConf.select(config, key) == OmegaConf.select(former, key)
    }
    same |= {"logger"} if {*(config.get("logger") or {})} == {*(was.get("logger") or {})} else set()
    kept = [*_NOT_RESUMED, *(key for key in typed if key not in same)]
    kept += () if "algo" in same else _WITH_ALGORITHM
    for key, value in leaves(was):
        if key.endswith("_target_") or any(key == k or key.startswith(f"{k}.") for k in kept):
            continue
        OmegaConf.update(config, key, value, force_add=True)
    return config


def _file_of(
    key: str, typed: Mapping[str, str], overrides: Sequence[str], user_dir: Path | None
) -> str | None:
    """Return the file that a key of the command names, or None."""
    path = typed.get(key, "null")
    if "${" in path:
        path = OmegaConf.select(compose_plainly("train", overrides, user_dir), key)
    return None if path == "null" else path


def _teacher_words(
    defaults: DictConfig, typed: Mapping[str, str], overrides: Sequence[str], user_dir: Path | None
) -> list[str]:
    """Overrides with data, schedule, model and backbone of a teacher, except ``typed`` keys."""
    path = _file_of("init.checkpoint", typed, overrides, user_dir)
    if path is None or "algo" not in defaults:
        return []
    if not getattr(ALGORITHMS.entry(defaults.algo.name), "has_teacher", False):
        return []
    from discrete_diffusion.checkpoints.contents import read_contents

    teacher = read_contents(path)
    teacher.check_plugged_in()
    was, words = teacher.info["config"], []
    # choices of groups, and their keys that differ from the defaults
    other = typed.get("algo.backbone", was["algo"]["backbone"]) != was["algo"]["backbone"]
    for group in ("data", "schedule") if other else ("data", "schedule", "model"):
        name = was[group].get("name")
        if group in typed or name not in all_choices(group):
            continue
        own = plain(_defaults("train", [f"{group}={name}"], None)[group])
        words.append(f"{group}={name}")
        kept = {k: v for k, v in was[group].items() if k in own and own[k] != v}
        words += [f"{group}.{k}={written(v)}" for k, v in kept.items()]
    for key in ("backbone", "time_conditioning", "condition_dropout"):
        if key in was["algo"]:
            words.append(f"algo.{key}={written(was['algo'][key])}")
    return [word for word in words if word.partition("=")[0] not in typed]
