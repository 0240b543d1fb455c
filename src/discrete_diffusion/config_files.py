"""The shipped configs, and configs as plain containers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def config_dir() -> Path:
    """The folder of the configs: in the installed package, or at the top of a checkout."""
    packaged = Path(__file__).parent / "configs"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "configs"


def plain(config: Any) -> dict[str, Any]:
    """A config as a plain dict, interpolations resolved."""
    from omegaconf import OmegaConf

    container = OmegaConf.to_container(config, resolve=True)
    if not isinstance(container, dict):
        raise TypeError(f"expected a config with keys, got {type(container).__name__}")
    return {str(key): value for key, value in container.items()}


def as_list(value: Any) -> list[str]:
    """``FILE`` or ``[A,B]`` of a config as a list; empty for null."""
    from omegaconf import ListConfig

    if value is None:
        return []
    return [str(each) for each in value] if isinstance(value, ListConfig) else [str(value)]


def check_exists(key: str, path: Any, noun: str = "file or folder") -> None:
    """``FileNotFoundError`` unless there is something at the ``path`` that ``key`` of a config
    names, which the ``noun`` calls by its kind; null passes."""
    if path is not None and not Path(str(path)).exists():
        raise FileNotFoundError(f"{key}={path}: no {noun} at {Path(str(path)).absolute()}")


def model_presets() -> dict[str, tuple[list[str], int]]:
    """Our model presets: name -> (backbones it fits, parameters as the preset states them)."""
    from omegaconf import OmegaConf

    presets = {}
    for path in sorted((config_dir() / "model").glob("*.yaml")):
        preset = plain(OmegaConf.load(path))
        presets[path.stem] = (list(preset.get("backbones", [])), int(preset.get("parameters", 0)))
    return presets


def presets_of(backbone: str) -> list[str]:
    """Our model presets that a backbone fits, the smallest first."""
    sizes = {name: size for name, (fits, size) in model_presets().items() if backbone in fits}
    return sorted(sizes, key=sizes.__getitem__)


def sampler_settings(user_config_dir: str | Path | None = None) -> dict[str, dict[str, Any]]:
    """Samplers by name, each with its settings and defaults of ``sampling/``, a user's own too."""
    from omegaconf import OmegaConf

    folders = [config_dir(), *([Path(user_config_dir)] if user_config_dir else [])]
    settings = {}
    for path in sorted(path for folder in folders for path in (folder / "sampling").glob("*.yaml")):
        found = plain(OmegaConf.load(path))
        settings[str(found.pop("name", path.stem))] = found
    return settings


RENAMED = {"default_steps": "steps"}
"""Settings of our samplers by what they were called, as checkpoints of then have them."""


def renamed_settings(sampling: Mapping[str, Any]) -> dict[str, Any]:
    """The ``sampling`` part of an earlier config with the settings called as they are now; of a
    sampler that is not ours as it is."""
    if not (config_dir() / "sampling" / f"{sampling.get('name')}.yaml").is_file():
        return dict(sampling)
    return {RENAMED.get(key, key): value for key, value in sampling.items()}
