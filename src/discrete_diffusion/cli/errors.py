"""Messages of one sentence for errors that a user can mend."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import MarkedYAMLError

from discrete_diffusion.composing.compose import compose_plainly
from discrete_diffusion.composing.parts import (
    PART_GROUPS,
    all_choices,
    defaults_of_sampler,
    named_modules,
    samplers_with,
)
from discrete_diffusion.composing.search_path import group_overrides
from discrete_diffusion.config.files import (
    check_own_files,
    explain_yaml_error,
    place_of_choice,
    shipped_files,
)
from discrete_diffusion.config.renamed_keys import new_name
from discrete_diffusion.config.values import unknown_name
from discrete_diffusion.domains.registry import WITH_CHECKPOINT, missing_package

_LAUNCHER_PACKAGES = {
    "joblib": "hydra-joblib-launcher",
    "submitit_local": "hydra-submitit-launcher",
    "submitit_slurm": "hydra-submitit-launcher",
}

_MENDABLE = (
    *(ValueError, TypeError, OSError),
    *(HydraException, OmegaConfBaseException, MarkedYAMLError),
)
"""Exception types of errors that a user can mend, apart from a lack of memory."""


def sentence(error: Exception) -> str | None:
    """Return the message of an error that a user can mend, printable, or None for other errors."""
    # memory of Python, the system, or torch, which raises a general error for that of the CPU
    words = ("allocate memory", "not enough memory", "out of memory")
    of_torch = isinstance(error, RuntimeError) and any(word in str(error) for word in words)
    of_system = isinstance(error, OSError) and words[0] in str(error)
    if of_torch or of_system or isinstance(error, MemoryError):
        where = "the GPU" if type(error).__name__ == "OutOfMemoryError" else "this machine"
        return f"{where} is out of memory; take a smaller batch_size, num_samples or model"
    if not isinstance(error, _MENDABLE):
        return None
    text = str(error)
    # an error of the YAML parser
    if mark := getattr(error, "problem_mark", None):
        text = f"{mark.name}, {explain_yaml_error(error)}"
    elif (key := getattr(error, "full_key", None)) and "not in struct" in text:
        text = f"the config has no {key}, which is needed; set {key}=..., or compose a YAML with it"
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def explain_hydra_error(
    error: Exception, config_name: str, overrides: Sequence[str], user_dir: Path | None
) -> str:
    """Return a sentence for an error of Hydra, with the closest choice or key, or Hydra's own."""
    # an unknown choice of a group
    missing = getattr(error, "missing_cfg_file", None)
    if isinstance(error, MissingConfigException) and missing and "/" in missing:
        group, name = missing.removesuffix(".yaml").rsplit("/", 1)
        if renamed := new_name(f"{group}={name}"):
            return f"{group}={name} is now {renamed}"
        if group == "hydra/launcher":
            package = _LAUNCHER_PACKAGES.get(name)
            remedy = "" if package is None else f"pip install {package}, or "
            return (
                f"hydra/launcher={name}: no plug-in that is installed offers it; {remedy}leave it "
                "out to run one job after the other"
            )
        files = check_own_files(config_name, overrides, user_dir)
        place = place_of_choice(files, group, name)
        if found := {*all_choices(group, user_dir), *(error.options or ())}:
            text = unknown_name(f"{group} choice", name, found)
            text += missing_package(name) if group == "data" else ""
            return f"{place}{text}{plugins_hint(group, name, overrides)}"
        return f"{place}found no config {missing}"
    # null for a group, or several values for a key
    for group in (word.lstrip("+").removesuffix("=null") for word in overrides):
        known = all_choices(group, user_dir)
        if f"{group}=null" in overrides and known:
            return f"{group}=null: leave it out for the default, or choose: {', '.join(known)}"
    if several := re.match(r"Ambiguous value for argument '([^=]+)=(.*)'\n", str(error)):
        key, values = several.groups()
        sweep = "" if config_name in WITH_CHECKPOINT else "; to run each, add --multirun"
        return f"{key}={values}: a list stands in brackets, {key}=[{values}]{sweep}"
    # an unknown key
    if isinstance(error, ConfigCompositionException):
        return _unknown_key(error, config_name, overrides, user_dir) or str(error)
    return str(error)


def plugins_hint(group: str, name: str, overrides: Sequence[str]) -> str:
    """Return advice to name the module that registers a part, by ``plugins=``, or "".

    Modules that the command's checkpoint remembers are suggested."""
    if group not in PART_GROUPS:
        return ""
    # modules of the command, and those that the checkpoint remembers
    given = [str(module) for module in named_modules(overrides) or ()]
    values = dict(word.lstrip("+").partition("=")[::2] for word in overrides)
    known, checkpoint = [], values.get("checkpoint", "").strip("'\"")
    if checkpoint:
        from discrete_diffusion.checkpoints.contents import remembered_modules

        known = [module for module in remembered_modules(checkpoint) if module not in given]
    if known:
        return (
            f"; {checkpoint} has parts of {', '.join(known)}: if '{name}' is one too, add "
            f"plugins=[{','.join([*given, *known])}], else the module that has it, "
            f"plugins=[{','.join([*given, 'MODULE'])}]"
        )
    if given:
        return f"; none of plugins=[{','.join(given)}] registers '{name}'"
    return f"; if a module of your own has '{name}', name it: plugins=[MODULE]"


def _unknown_key(
    error: Exception, config_name: str, overrides: Sequence[str], user_dir: Path | None
) -> str | None:
    """Return a sentence for an unknown key, with the closest key; None for other errors."""
    found = re.match(r"Could not override '([^']+)'", str(error))
    if found is None:
        return None
    # the section of the key, with the chosen groups
    parent, _, key = found.group(1).rpartition(".")
    groups = group_overrides(overrides, user_dir)
    config = compose_plainly(config_name, groups, user_dir)
    # a key that was renamed
    section, _, name = (renamed := new_name(found.group(1)) or "").rpartition(".")
    if renamed and (
        section == "sampling" or name in (config.get(section, {}) if section else config)
    ):
        return f"{found.group(1)} is now {renamed}"
    node = OmegaConf.select(config, parent) if parent else config
    if node is None and parent:
        return _unknown_section(found.group(1), config)
    if not isinstance(node, DictConfig):
        return None
    # settings of samplers
    if parent == "sampling":
        sampler, having = str(node.get("name")), samplers_with(key)
        text = unknown_name(f"setting of sampling={sampler}", key, defaults_of_sampler(sampler))
        verb = "has" if len(having) == 1 else "have"
        return f"{text}; {', '.join(having)} {verb} it" if having else text
    # a known key of another section
    if meant := _same_key_elsewhere(config, key):
        return f"unknown config key '{found.group(1)}'; did you mean {' or '.join(meant)}?"
    # a key whose comment in the YAML begins with the word: model.width, for d_model
    file = shipped_files(parent).get(str(node.get("name"))) if parent else None
    named = re.findall(rf"^(\w+): .*# {re.escape(key)}\b", file.read_text(), re.M) if file else []
    if named:
        return f"unknown config key '{found.group(1)}'; did you mean {parent}.{named[0]}?"
    where = f"config key under '{parent}'" if parent else "config key"
    text = unknown_name(where, key, map(str, node))
    # advise a new key only if no known key is near, as nothing might read it
    if config_name in WITH_CHECKPOINT or "did you mean" in text:
        return text
    return f"{text} (+{found.group(1)}=... adds a new one)"


def _unknown_section(key: str, config: DictConfig) -> str:
    """Return a sentence for the first unknown section of a dotted key, with the closest section."""
    # the first part that the config does not have
    parts = key.split(".")
    depth = next(
        k for k in range(len(parts)) if OmegaConf.select(config, ".".join(parts[: k + 1])) is None
    )
    node = OmegaConf.select(config, ".".join(parts[:depth])) if depth else config
    sections = [str(name) for name in node if isinstance(node[name], DictConfig)]
    where = f"section under '{'.'.join(parts[:depth])}'" if depth else "section"
    return unknown_name(f"config {where}", parts[depth], sections)


def _same_key_elsewhere(config: DictConfig, key: str) -> list[str]:
    """Overrides for the keys of a config with the name or meaning of ``key``: ``out=FOLDER``."""
    if key in ("run_dir", "output_dir") and "out" not in config:
        return ["out=FOLDER"]
    if key in ("steps", "num_steps", "maxsteps", "iterations") and "trainer" in config:
        of_sampler = ["sampling.steps=..."] if "steps" in config.get("sampling", {}) else []
        return ["trainer.max_steps=...", *of_sampler]
    sections = {str(name): node for name, node in config.items() if isinstance(node, DictConfig)}
    return [f"{name}.{key}=..." for name, node in sections.items() if key in node and key != "name"]
