"""Registered parts as choices of config groups, and their settings.

``forward_process=mine`` needs no YAML if ``mine`` is registered; a YAML of the user's or of a
package replaces the registered one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from discrete_diffusion.algorithms.registry import algorithm_state
from discrete_diffusion.building.algorithm import BACKBONE_KEYS, given_to
from discrete_diffusion.composing.search_path import (
    choices,
    config_repository,
    offer_default_models,
    written,
)
from discrete_diffusion.config.constructors import check_options, defaults_of, leaves, signature_of
from discrete_diffusion.config.files import plain, shipped_files
from discrete_diffusion.config.plugins import LazyEntry, Registry, import_plugins
from discrete_diffusion.config.renamed_keys import new_name
from discrete_diffusion.config.values import check_value, unknown_name
from discrete_diffusion.domains.registry import WITH_CHECKPOINT, options_by_title
from discrete_diffusion.models.registry import available_backbones, default_models, usable_backbones
from discrete_diffusion.sampling.registry import SAMPLERS, sampler_state

_WHOLE_CONFIG = ("experiment", "debug")
"""Groups whose YAMLs may set keys of the whole config."""

PART_GROUPS = {
    "algo": "discrete_diffusion.algorithms.registry:ALGORITHMS",
    "forward_process": "discrete_diffusion.forward_process.registry:PROCESSES",
    "schedule": "discrete_diffusion.noise_schedules.registry:SCHEDULES",
    "sampling": "discrete_diffusion.sampling.registry:SAMPLERS",
}
"""Config groups whose choices are the names of a registry."""

_DEFAULT = "mdlm"
"""Algorithm of a YAML without ``name``."""


def registry_of(group: str) -> Registry[Any]:
    """Return the registry of a config group in ``PART_GROUPS``."""
    registry: Registry[Any] = LazyEntry(PART_GROUPS[group]).load()
    return registry


def all_choices(group: str, user_dir: Path | None = None) -> list[str]:
    """Choices of a config group: YAML files on the search path and registered parts."""
    names = registry_of(group).names() if group in PART_GROUPS else []
    return sorted({*choices(group, user_dir), *names})


# --- what the words of a command choose ---


def import_named(overrides: Sequence[str], user_dir: Path | None = None) -> None:
    """Import the modules of ``plugins`` in the words of a command and in its experiments."""
    import_plugins(named_modules(overrides))
    import_plugins(experiment_values(overrides, user_dir).get("plugins"))


def named_modules(overrides: Sequence[str]) -> Any:
    """Modules in ``plugins=`` among the words of a command; None if it is not given."""
    words = [word.lstrip("+") for word in overrides]
    return OmegaConf.from_dotlist([w for w in words if w.startswith("plugins=")]).get("plugins")


def experiment_values(overrides: Sequence[str], user_dir: Path | None = None) -> dict[str, Any]:
    """Values by key, and choices of groups, that the experiments of a command set."""
    words = [word.lstrip("+").partition("=")[::2] for word in overrides]
    paths = [f"{key}/{value}" for key, value in words if key in _WHOLE_CONFIG]
    found: dict[str, Any] = {}
    if not paths:
        return found
    # not before it is needed: commands on data import no Hydra
    from hydra.core.default_element import GroupDefault

    with config_repository(user_dir) as repository:
        while paths:
            path = paths.pop()
            file = repository.load_config(path)
            if file is None:
                continue
            # choices of groups, and experiments among the defaults
            for item in file.defaults_list or ():
                if isinstance(item, GroupDefault):
                    found.setdefault(str(item.group).lstrip("/"), item.value)
                elif item.path != "_self_":
                    paths.append(f"{path.rpartition('/')[0]}/{item.path}")
            keys: Any = OmegaConf.to_container(OmegaConf.create(file.config), resolve=False)
            found = {**dict(leaves(keys)), **found}
    return found


def with_algorithm(overrides: Sequence[str], user_dir: Path | None = None) -> tuple[list[str], str]:
    """Complete a user's own ``algo=NAME``, given in the overrides or by an experiment.

    With ``name: udlm`` the YAML gets the defaults of ``algo=udlm``, with its process and sampler.
    It stays unchanged if it is complete, names the algorithm of a plug-in, or has ``defaults`` or a
    package header. Returns the overrides, and a sentence for the log or ""."""
    place = next((k for k, word in enumerate(overrides) if word.startswith("algo=")), None)
    said = experiment_values(overrides, user_dir) if place is None else {}
    name = said.get("algo") if place is None else overrides[place].partition("=")[2]
    if name is None or _is_complete(name):
        return [*overrides], ""
    with config_repository(user_dir) as repository:
        file = repository.load_config(f"algo/{name}")
    if file is None or file.defaults_list or file.header.get("package"):
        return [*overrides], ""
    # keys of the YAML, unless the experiment sets them
    keys: Any = OmegaConf.to_container(file.config, resolve=False)
    algorithm = str(keys.pop("name", _DEFAULT))
    if algorithm == name or not _is_complete(algorithm):
        return [*overrides], ""
    given = {f"algo.{key}": value for key, value in leaves(keys)}
    words = [f"{key}={written(value)}" for key, value in given.items() if key not in said]
    # in place of algo=NAME, or at the beginning
    before, after = (
        ([], overrides) if place is None else (overrides[:place], overrides[place + 1 :])
    )
    path = f"{file.path.removeprefix('file://')}/algo/{name}.yaml"
    note = f"algo={name}: {algorithm}, with its defaults for what {path} does not say"
    return [*before, f"algo={algorithm}", *words, *after], note


def _is_complete(name: str) -> bool:
    """True if the shipped YAML of that name has that name itself, or defaults."""
    path = shipped_files("algo").get(name)
    if path is None:
        return False
    keys: Any = OmegaConf.load(path)
    return "defaults" in keys or keys.get("name") == name


# --- registered parts, as Hydra's choices ---


def check_parts(config: DictConfig) -> None:
    """Raise ``ValueError`` for an unknown setting or a wrong value of a part; imports no torch."""
    for group in PART_GROUPS:
        options, name = plain(config[group]), config[group].name
        del options["name"]
        build = registry_of(group).entry(name)
        # arguments that are objects, not settings
        num, also = 0, tuple[str, ...]()
        if group == "algo":
            num, also = given_to(algorithm_state(name))
            options = {key: value for key, value in options.items() if key not in BACKBONE_KEYS}
        elif group == "forward_process":
            num = 2
        elif group == "schedule":
            num = int("layout" in signature_of(build))
        check_options(group, name, build, options, given=num, also=also)


def offer_part(config: str | None) -> bool:
    """Register with Hydra a part for a missing config such as ``noise/mine``; False for none."""
    from hydra.core.config_store import ConfigStore

    group, _, name = str(config).removesuffix(".yaml").partition("/")
    if group == "model" and name not in default_models():
        # imports the parts of packages
        available_backbones()
        offer_default_models()
        return name in default_models()
    if group not in PART_GROUPS or f"{name}.yaml" in _offered_parts(group):
        return False
    if name not in registry_of(group).names():
        return False
    # a config of the constructor's defaults
    part = registry_of(group).find(name)
    known = {"name": name, **defaults_of(part)}
    if group == "algo":
        needs, state = getattr(part, "backbone_needs", ()), getattr(part, "state", "tokens")
        usable = usable_backbones(needs, state)
        backbone = "bd-denoiser" if "bd-denoiser" in usable else next(iter(usable), None)
        known = {**_choices_with(part), "backbone": backbone, **known}
    ConfigStore.instance().store(name, known, group=group)
    return True


def _choices_with(algorithm: Any) -> dict[str, Any]:
    """Default choices for an algorithm: its first forward process, and a sampler that fits."""
    processes = getattr(algorithm, "processes", ())
    samplers = getattr(algorithm, "samplers", None)
    in_steps = getattr(algorithm, "discrete_time", False)
    chosen = {}
    if processes:
        chosen["forward_process"] = processes[0]
    if samplers:
        chosen["sampling"] = samplers[0]
    elif processes and (processes[0] != "absorbing" or in_steps):
        chosen["sampling"] = "ancestral"
    defaults = [{f"override /{key}@_global_.{key}": name} for key, name in chosen.items()]
    return {"defaults": defaults} if defaults else {}


def withdraw_parts(user_dir: Path | None) -> None:
    """Remove from Hydra the offered parts that have a YAML on the search path."""
    for group in PART_GROUPS:
        if offered := _offered_parts(group):
            for name in choices(group, user_dir, files_only=True):
                offered.pop(f"{name}.yaml", None)


def _offered_parts(group: str) -> dict[str, Any]:
    """Parts of a group that were registered with Hydra, by file name."""
    from hydra.core.config_store import ConfigStore

    found: dict[str, Any] = ConfigStore.instance().repo.get(group, {})
    return found


def offer_options(command: str) -> None:
    """Register with Hydra the options of all kinds of data, which are defaults of the YAMLs."""
    command = "train" if command == "compare" else command
    if command not in (*WITH_CHECKPOINT, "train"):
        return
    from hydra.core.config_store import ConfigStore

    node = {name: next(iter(o.values())).default for name, o in options_by_title(command).items()}
    if command == "train":
        node = {"eval": node}
    ConfigStore.instance().store(f"{command}_options", node, package="_global_")


# --- name and settings of the requested sampler ---

_SHARED = ("temperature", "top_p", "guidance", "refresh")
"""Settings that many samplers have; null means that they are not given."""


def sampling_of(asked: Mapping[str, Any], trained: DictConfig) -> dict[str, Any]:
    """Return name and settings of a sampler: those ``asked``, or the ``trained`` ones changed.

    Raises ``ValueError`` for a setting that the sampler of the model does not have."""
    given = given_settings(asked)
    if "name" in given:
        return given
    name = trained.sampling.name
    own = {**defaults_of_sampler(name), **plain(trained.sampling)}
    if unknown := sorted(given.keys() - own.keys()):
        having = [
            f"sampling={other}"
            for other in samplers_with(unknown[0])
            if sampler_state(other) == sampler_state(name)
        ]
        remedy = f"; take one that has it: {', '.join(having)}" if having else "; leave it out"
        raise ValueError(
            f"sampling.{unknown[0]}: the model was trained with sampling={name}, which has "
            f"{', '.join(key for key in own if key != 'name')}{remedy}"
        )
    return {**own, **given}


def given_settings(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Select the given settings: not None, or settings that only some samplers have."""
    own = ("name", *_SHARED)
    return {k: value for k, value in asked.items() if value is not None or k not in own}


def check_sampling(asked: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` for an unknown setting or a wrong value of the named sampler.

    Without a name any sampler may take it. Does not import torch for built-in samplers."""
    given = given_settings(asked)
    if "name" in given:
        name = given.pop("name")
        check_options("sampling", name, SAMPLERS.entry(name), given)
        return
    for key, value in sorted(given.items()):
        having = samplers_with(key)
        if not having and (renamed := new_name(f"sampling.{key}")):
            raise ValueError(f"sampling.{key} is now {renamed}")
        if not having:
            known = {key for name in SAMPLERS.names() for key in defaults_of_sampler(name)}
            raise ValueError(unknown_name("setting of a sampler", key, known))
        # the model may have any sampler: an error only if no sampler takes the value
        errors = []
        for name in having:
            annotation = signature_of(SAMPLERS.entry(name))[key].annotation
            try:
                check_value(f"sampling.{key}", value, annotation)
            except ValueError as error:
                errors.append(error)
        if len(errors) == len(having):
            raise errors[0]


def samplers_with(key: str) -> list[str]:
    """Names of the samplers that have a setting."""
    return [name for name in SAMPLERS.names() if key in signature_of(SAMPLERS.entry(name))]


def defaults_of_sampler(name: str) -> dict[str, Any]:
    """Settings of a sampler with their defaults; {} for an unknown sampler."""
    known = signature_of(SAMPLERS.entry(name)) if name in SAMPLERS.names() else {}
    return {key: each.default for key, each in known.items() if each.default is not each.empty}
