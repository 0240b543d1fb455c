"""The shipped configs, and configs as plain containers."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any


def config_dir() -> Path:
    """The folder of the configs: in the installed package, or at the top of a checkout."""
    packaged = Path(__file__).parents[1] / "configs"
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "configs"


def plain(config: Any, *, resolve: bool = True) -> dict[str, Any]:
    """A config as a plain dict, interpolations resolved unless ``resolve`` is False."""
    from omegaconf import OmegaConf

    container = OmegaConf.to_container(config, resolve=resolve)
    if not isinstance(container, dict):
        raise TypeError(f"expected a config with keys, got {type(container).__name__}")
    return {str(key): value for key, value in container.items()}


def as_list(value: Any) -> list[str]:
    """``FILE`` or ``[A,B]`` of a config, or of Python, as a list; empty for null."""
    from omegaconf import ListConfig

    if value is None:
        return []
    several = isinstance(value, ListConfig | list | tuple)
    return [str(each) for each in value] if several else [str(value)]


def check_exists(key: str, path: Any, noun: str = "file or folder") -> None:
    """``FileNotFoundError`` unless there is something at the ``path`` that ``key`` of a config
    names, which the ``noun`` calls by its kind; null passes."""
    if path is not None and not Path(str(path)).exists():
        raise FileNotFoundError(f"{key}={path}: no {noun} at {Path(str(path)).absolute()}")


@dataclass(frozen=True)
class ModelPreset:
    """Facts that a model preset states about itself.

    ``backbones``: those it fits, () where none is named; ``parameters``: 0 where it is not stated;
    ``scales_with``: the keys of it that ``compare`` changes to give it another size, the second one
    for what steps of the first are too coarse for.
    """

    name: str
    backbones: tuple[str, ...] = ()
    parameters: int = 0
    scales_with: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, keys: Mapping[str, Any]) -> ModelPreset:
        """Read it from its keys, as YAML has them."""
        scales_with = keys.get("scales_with") or ()
        return cls(
            name,
            tuple(keys.get("backbones") or ()),
            int(keys.get("parameters") or 0),
            (scales_with,) if isinstance(scales_with, str) else tuple(scales_with),
        )


def shipped_presets() -> dict[str, ModelPreset]:
    """Our model presets by name; ``cli/search_path.py`` has the user's too."""
    from omegaconf import OmegaConf

    files = sorted((config_dir() / "model").glob("*.yaml"))
    return {path.stem: ModelPreset.of(path.stem, plain(OmegaConf.load(path))) for path in files}


def presets_of(backbone: str) -> list[str]:
    """Our model presets that a backbone fits, the smallest first."""
    fitting = [preset for preset in shipped_presets().values() if backbone in preset.backbones]
    return [preset.name for preset in sorted(fitting, key=lambda preset: preset.parameters)]


def sampler_settings(user_config_dir: str | Path | None = None) -> dict[str, dict[str, Any]]:
    """Samplers by name, each with its settings and defaults of ``sampling/``, a user's own too."""
    folders = [config_dir(), *([Path(user_config_dir)] if user_config_dir else [])]
    settings = {}
    for path in sorted(path for folder in folders for path in (folder / "sampling").glob("*.yaml")):
        found = deepcopy(_read(path, path.stat().st_mtime_ns))
        settings[str(found.pop("name", path.stem))] = found
    return settings


def shipped_config(group: str, name: str) -> dict[str, Any]:
    """A shipped config of a group, interpolations as they are, without what it chooses elsewhere;
    no keys if none has the name."""
    for path in (config_dir() / group).glob("*.yaml"):
        if path.stem == name:
            found = deepcopy(_read(path, path.stat().st_mtime_ns, resolve=False))
            found.pop("defaults", None)
            return found
    return {}


@lru_cache
def _read(path: Path, changed: int, *, resolve: bool = True) -> dict[str, Any]:
    """A YAML file as plain objects, once for each time at which it was ``changed``."""
    from omegaconf import OmegaConf

    return plain(OmegaConf.load(path), resolve=resolve)


RENAMED = {"default_steps": "steps"}
"""Settings of our samplers by what they were called, as checkpoints of then have them."""


def renamed_settings(sampling: Mapping[str, Any]) -> dict[str, Any]:
    """The ``sampling`` part of an earlier config with the settings called as they are now; of a
    sampler that is not ours as it is."""
    if not (config_dir() / "sampling" / f"{sampling.get('name')}.yaml").is_file():
        return dict(sampling)
    return {RENAMED.get(key, key): value for key, value in sampling.items()}
