"""Which settings each sampler has, read off the configs: no sampler is imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from discrete_diffusion.config_files import config_dir, plain


def sampler_settings(user_config_dir: str | Path | None = None) -> dict[str, dict[str, Any]]:
    """Samplers by name, each with its settings and their defaults, as ``sampling/`` has them; a
    user's own among them."""
    from omegaconf import OmegaConf

    folders = [config_dir(), *([Path(user_config_dir)] if user_config_dir else [])]
    settings = {}
    for path in sorted(path for folder in folders for path in (folder / "sampling").glob("*.yaml")):
        found = plain(OmegaConf.load(path))
        settings[str(found.pop("name", path.stem))] = found
    return settings
