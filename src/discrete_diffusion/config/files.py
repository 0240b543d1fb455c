"""The shipped configs, and configs as plain containers."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from discrete_diffusion.config.plugins import folders_of

CONFIG_GROUP = "discrete_diffusion.configs"
"""Entry points of packages that bring YAML files of their own; each names the package of them."""


def config_dir() -> Path:
    """The folder of the configs: in the installed package, or at the top of a checkout."""
    packaged = Path(__file__).parents[1] / "configs"
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "configs"


def config_dirs() -> list[Path]:
    """Folders of all shipped configs: ours, then those of installed packages."""
    return [config_dir(), *folders_of(CONFIG_GROUP)]


def shipped_files(group: str) -> dict[str, Path]:
    """Shipped YAML files of a group, by name; ours come before those of other packages."""
    folders = reversed(config_dirs())
    found = {path.stem: path for each in folders for path in (each / group).glob("*.yaml")}
    return dict(sorted(found.items()))


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
    """Our model presets by name; ``composing/presets.py`` has the user's too."""
    from omegaconf import OmegaConf

    files = shipped_files("model").items()
    return {name: ModelPreset.of(name, plain(OmegaConf.load(path))) for name, path in files}


def presets_of(backbone: str) -> list[str]:
    """Our model presets that a backbone fits, the smallest first."""
    fitting = [preset for preset in shipped_presets().values() if backbone in preset.backbones]
    return [preset.name for preset in sorted(fitting, key=lambda preset: preset.parameters)]


def shipped_config(group: str, name: str) -> dict[str, Any]:
    """A shipped config of a group, interpolations as they are, without what it chooses elsewhere;
    no keys if none has the name."""
    path = shipped_files(group).get(str(name))  # of a file, where it may be anything
    if path is None:
        return {}
    found = deepcopy(_read(path, path.stat().st_mtime_ns, resolve=False))
    found.pop("defaults", None)
    return found


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
    if sampling.get("name") not in shipped_files("sampling"):
        return dict(sampling)
    return {RENAMED.get(key, key): value for key, value in sampling.items()}
