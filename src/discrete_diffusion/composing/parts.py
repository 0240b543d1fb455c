"""Parts that others registered, as choices of config groups: ``forward_process=mine`` needs no
YAML. One that a folder of the user's or a package has comes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from discrete_diffusion.algorithms.registry import algorithm_state
from discrete_diffusion.building.algorithm import BACKBONE_KEYS, given_to
from discrete_diffusion.composing.search_path import (
    Places,
    choices,
    config_repository,
    offer_default_models,
    written,
)
from discrete_diffusion.config.constructors import check_options, defaults_of, leaves, signature_of
from discrete_diffusion.config.files import RENAMED, plain, shipped_files
from discrete_diffusion.config.plugins import LazyEntry, Registry, import_plugins
from discrete_diffusion.config.signatures import check_value
from discrete_diffusion.config.values import unknown_name
from discrete_diffusion.domains.registry import WITH_CHECKPOINT, options_by_title
from discrete_diffusion.models.registry import available_backbones, default_models, usable_backbones
from discrete_diffusion.sampling.registry import SAMPLERS, sampler_state

if TYPE_CHECKING:
    from omegaconf import DictConfig


_FILES = ("experiment", "debug")
"""Groups whose YAMLs may set keys of the whole config."""

PART_GROUPS = {
    "algo": "discrete_diffusion.algorithms.registry:ALGORITHMS",
    "forward_process": "discrete_diffusion.forward_process.registry:PROCESSES",
    "noise": "discrete_diffusion.noise_schedules.registry:SCHEDULES",
    "sampling": "discrete_diffusion.sampling.registry:SAMPLERS",
}
"""Config groups whose choices are the names of a registry."""


def registry_of(group: str) -> Registry[Any]:
    """The registry of one of ``PART_GROUPS``."""
    registry: Registry[Any] = LazyEntry(PART_GROUPS[group]).load()
    return registry


def all_choices(group: str, places: Places = ()) -> list[str]:
    """``choices`` on the search path, and the parts of the registry that have no YAML."""
    names = registry_of(group).names() if group in PART_GROUPS else []
    return sorted({*choices(group, places), *names})


def import_named(overrides: Sequence[str], places: Places = ()) -> None:
    """Import the modules that the words of a command, or an experiment that they choose, name under
    ``plugins``. Raises ``ValueError`` for one that cannot be imported."""
    import_plugins(named_modules(overrides))
    import_plugins(experiment_values(overrides, places).get("plugins"))


def named_modules(overrides: Sequence[str]) -> Any:
    """Modules that ``plugins=`` among the words of a command names; None without it."""
    from omegaconf import OmegaConf

    words = [word.lstrip("+") for word in overrides]
    return OmegaConf.from_dotlist([w for w in words if w.startswith("plugins=")]).get("plugins")


def experiment_values(overrides: Sequence[str], places: Places = ()) -> dict[str, Any]:
    """Values in the YAMLs of the experiments that the words of a command choose, and in those that
    they are made of: values by key, and the choices of groups (``model``)."""
    from hydra.core.default_element import GroupDefault
    from omegaconf import OmegaConf

    words = [word.lstrip("+").partition("=")[::2] for word in overrides]
    paths = [f"{key}/{value}" for key, value in words if key in _FILES]
    found: dict[str, Any] = {}
    if not paths:
        return found
    with config_repository(places) as repository:
        while paths:
            path = paths.pop()
            file = repository.load_config(path)
            if file is None:
                continue
            for item in file.defaults_list or ():
                if isinstance(item, GroupDefault):
                    found.setdefault(str(item.group).lstrip("/"), item.value)
                elif item.path != "_self_":
                    paths.append(f"{path.rpartition('/')[0]}/{item.path}")
            keys: Any = OmegaConf.to_container(OmegaConf.create(file.config), resolve=False)
            found = {**dict(leaves(keys)), **found}
    return found


def check_parts(config: DictConfig) -> None:
    """``ValueError`` for a setting that the constructor of an algorithm, process, schedule or
    sampler does not have, or whose value it does not take. Imports no torch for ours."""
    for group in PART_GROUPS:
        options = plain(config[group])
        name = config[group].name
        del options["name"]
        build = registry_of(group).entry(name)
        num, also = 0, tuple[str, ...]()
        if group == "algo":
            num, also = given_to(algorithm_state(name))
            options = {key: value for key, value in options.items() if key not in BACKBONE_KEYS}
        elif group == "forward_process":
            num = 2
        elif group == "noise":
            num = int("layout" in signature_of(build))
        check_options(group, name, build, options, given=num, also=also)


def offer_part(config: str | None) -> bool:
    """Let Hydra know the part whose ``config`` it does not find, such as ``noise/mine``: its name,
    and the defaults of its constructor; or the model that a backbone of a package is registered
    with. False if there is no such part, or Hydra knows it."""
    from hydra.core.config_store import ConfigStore

    group, _, name = str(config).removesuffix(".yaml").partition("/")
    if group == "model" and name not in default_models():
        available_backbones()  # imports those of packages
        offer_default_models()
        return name in default_models()
    if group not in PART_GROUPS or f"{name}.yaml" in _offered(group):
        return False
    if name not in registry_of(group).names():
        return False
    part = registry_of(group).find(name)
    known = {"name": name, **defaults_of(part)}
    if group == "algo":
        known = {**_chosen_with(part), "backbone": _backbone_of(part), **known}
    ConfigStore.instance().store(name, known, group=group)
    return True


def withdraw_parts(places: Places) -> None:
    """Take back what was offered and has a YAML on the search path."""
    for group in PART_GROUPS:
        if offered := _offered(group):
            for name in choices(group, places, files_only=True):
                offered.pop(f"{name}.yaml", None)


def _offered(group: str) -> dict[str, Any]:
    """Presets registered with Hydra for a group, by file name."""
    from hydra.core.config_store import ConfigStore

    found: dict[str, Any] = ConfigStore.instance().repo.get(group, {})
    return found


def offer_options(command: str) -> None:
    """Let Hydra know the options of all kinds of data: ``sample.yaml``, ``evaluate.yaml`` and,
    under ``eval``, ``train.yaml``, which ``compare.yaml`` begins with, take them in as
    defaults. Other commands have none."""
    command = "train" if command == "compare" else command
    if command not in (*WITH_CHECKPOINT, "train"):
        return
    from hydra.core.config_store import ConfigStore

    node = {name: next(iter(o.values())).default for name, o in options_by_title(command).items()}
    if command == "train":
        node = {"eval": node}
    ConfigStore.instance().store(f"{command}_options", node, package="_global_")


def _chosen_with(algorithm: Any) -> dict[str, Any]:
    """The choices that go with an algorithm: its first process, and a sampler for it."""
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


def _backbone_of(algorithm: Any) -> str | None:
    """``bd-denoiser`` as in our YAMLs if the algorithm can use it, or else one that it can."""
    needs = getattr(algorithm, "backbone_needs", ())
    usable = usable_backbones(needs, getattr(algorithm, "state", "tokens"))
    return "bd-denoiser" if "bd-denoiser" in usable else next(iter(usable), None)


_DEFAULT = "mdlm"
"""The algorithm of a YAML without ``name``."""


def with_algorithm(overrides: Sequence[str], places: Places = ()) -> tuple[list[str], str]:
    """The overrides with ``algo=mdlm`` and the keys of the user's YAML instead of ``algo=NAME``,
    given there or by an experiment, and a sentence for the log; as they are, and "", where nothing
    is filled in.

    ``name: udlm`` takes the defaults of ``algo=udlm``, with its process and its sampler. A key that
    the algorithm does not have is refused like one of the command line. The YAML lies anywhere on
    the search path, with those of the package too. One that is complete, names an algorithm of a
    plug-in, or has ``defaults`` or a package of its own is left to Hydra.
    """
    place = next((k for k, word in enumerate(overrides) if word.startswith("algo=")), None)
    said: dict[str, Any] = {}
    if place is None:
        said = experiment_values(overrides, places)
    name = said.get("algo") if place is None else overrides[place].partition("=")[2]
    if name is None or _is_whole(name):
        return [*overrides], ""
    with config_repository(places) as repository:
        file = repository.load_config(f"algo/{name}")
    if file is None or file.defaults_list or file.header.get("package"):
        return [*overrides], ""

    from omegaconf import OmegaConf

    keys: Any = OmegaConf.to_container(file.config, resolve=False)
    algorithm = str(keys.pop("name", _DEFAULT))
    if algorithm == name or not _is_whole(algorithm):
        return [*overrides], ""
    given = {f"algo.{key}": value for key, value in leaves(keys)}
    words = [f"{key}={written(value)}" for key, value in given.items() if key not in said]
    before, after = (
        ([], overrides) if place is None else (overrides[:place], overrides[place + 1 :])
    )
    path = f"{file.path.removeprefix('file://')}/algo/{name}.yaml"
    note = f"algo={name}: {algorithm}, with its defaults for what {path} does not say"
    return [*before, f"algo={algorithm}", *words, *after], note


def _is_whole(name: str) -> bool:
    """True if the package's YAML of that name is a complete algorithm, with its own name or with
    defaults."""
    from omegaconf import OmegaConf

    path = shipped_files("algo").get(name)
    if path is None:
        return False
    keys: Any = OmegaConf.load(path)
    return "defaults" in keys or keys.get("name") == name


_SHARED = ("temperature", "top_p", "guidance")


def sampling_of(asked: Mapping[str, Any], trained: DictConfig) -> dict[str, Any]:
    """Name and settings of the sampler: those ``asked`` for if they name one; else those that the
    model was trained with, changed by what is requested, with defaults for the rest.

    Raises ``ValueError`` for a setting that the sampler of the model does not have.
    """
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
    """The settings that are not None; None counts for settings that not all samplers have."""
    own = ("name", *_SHARED)
    return {k: value for k, value in asked.items() if value is not None or k not in own}


def check_sampling(asked: Mapping[str, Any]) -> None:
    """``ValueError`` for a setting that the named sampler, or none without a name, has,
    and for a value that none with the setting takes. Imports no torch for samplers of ours."""
    given = given_settings(asked)
    if "name" in given:
        name = given.pop("name")
        check_options("sampling", name, SAMPLERS.entry(name), given)
        return
    for key, value in sorted(given.items()):
        having = samplers_with(key)
        if not having and key in RENAMED:
            raise ValueError(f"sampling.{key} is called sampling.{RENAMED[key]}, or steps= here")
        if not having:
            known = {key for name in SAMPLERS.names() for key in defaults_of_sampler(name)}
            raise ValueError(unknown_name("setting of a sampler", key, known))
        own = [signature_of(SAMPLERS.entry(name))[key].annotation for name in having]
        errors = [error for each in own if (error := _refusal(f"sampling.{key}", value, each))]
        if len(errors) == len(having):
            raise errors[0]


def samplers_with(key: str) -> list[str]:
    """Names of the samplers that have a setting."""
    return [name for name in SAMPLERS.names() if key in signature_of(SAMPLERS.entry(name))]


def defaults_of_sampler(name: str) -> dict[str, Any]:
    """Settings of a sampler with their defaults; none of an unknown one."""
    known = signature_of(SAMPLERS.entry(name)) if name in SAMPLERS.names() else {}
    return {key: each.default for key, each in known.items() if each.default is not each.empty}


def _refusal(key: str, value: Any, annotation: Any) -> ValueError | None:
    try:
        check_value(key, value, annotation)
    except ValueError as error:
        return error
    return None
