"""A user's own ``algo/NAME.yaml`` that says some keys only: the rest is that of the algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from discrete_diffusion.cli.override_words import written
from discrete_diffusion.cli.parts import experiment_values
from discrete_diffusion.cli.search_path import config_repository
from discrete_diffusion.config.files import shipped_files
from discrete_diffusion.config.options import leaves

DEFAULT = "mdlm"
"""The algorithm of a YAML without ``name``."""


def with_algorithm(
    overrides: Sequence[str], user_config_dir: str | Path | None
) -> tuple[list[str], str]:
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
        said = experiment_values(overrides, user_config_dir)
    name = said.get("algo") if place is None else overrides[place].partition("=")[2]
    if name is None or _is_whole(name):
        return [*overrides], ""
    with config_repository(user_config_dir, overrides) as repository:
        file = repository.load_config(f"algo/{name}")
    if file is None or file.defaults_list or file.header.get("package"):
        return [*overrides], ""

    from omegaconf import OmegaConf

    keys: Any = OmegaConf.to_container(file.config, resolve=False)
    algorithm = str(keys.pop("name", DEFAULT))
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
