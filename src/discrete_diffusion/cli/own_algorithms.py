"""A user's own ``algo/NAME.yaml`` that says some keys only: the rest is that of the algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from discrete_diffusion.cli.override_words import written
from discrete_diffusion.config.files import config_dir
from discrete_diffusion.config.options import leaves

DEFAULT = "mdlm"
"""The algorithm of a YAML without ``name``."""


def with_algorithm(
    overrides: Sequence[str], user_config_dir: str | Path | None
) -> tuple[list[str], str]:
    """The overrides with ``algo=mdlm`` and the keys of the user's YAML in the place of
    ``algo=NAME``, and a sentence for the log; as they are, and "", where nothing is filled in.

    ``name: udlm`` takes the defaults of ``algo=udlm``, with its process and its sampler. A key that
    the algorithm does not have is refused like one of the command line. A YAML that is one of ours,
    names an algorithm of a plug-in, or has ``defaults`` or a package of its own is left to Hydra.
    """
    for k, word in enumerate(overrides):
        key, _, name = word.partition("=")
        if key != "algo" or user_config_dir is None:
            continue
        path = Path(user_config_dir) / "algo" / f"{name}.yaml"
        keys = _keys_of(path)
        algorithm = str(keys.pop("name", DEFAULT)) if keys is not None else ""
        if keys is None or _is_ours(name) or not _is_ours(algorithm):
            return [*overrides], ""
        words = [f"algo={algorithm}", *(f"algo.{key}={written(v)}" for key, v in leaves(keys))]
        note = f"algo={name}: {algorithm}, with its defaults for what {path} does not say"
        return [*overrides[:k], *words, *overrides[k + 1 :]], note
    return [*overrides], ""


def _keys_of(path: Path) -> dict[str, Any] | None:
    """Keys and values of a YAML; None if there is none, or it composes other files."""
    from omegaconf import OmegaConf

    if not path.is_file() or "@package" in path.read_text(encoding="utf-8").split("\n")[0]:
        return None
    found = OmegaConf.to_container(OmegaConf.load(path), resolve=False)
    if not isinstance(found, dict) or "defaults" in found:
        return None
    return {str(key): value for key, value in found.items()}


def _is_ours(name: str) -> bool:
    return (config_dir() / "algo" / f"{name}.yaml").is_file()
