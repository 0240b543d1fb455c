"""Which file of a ``config.data`` a model is trained on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discrete_diffusion.data.base import SPLITS


def training_path(config: Mapping[str, Any]) -> str | None:
    """``path``, or ``train_path``; None for the embedded text. ``ValueError`` if the paths
    contradict each other."""
    separate = {split: config.get(f"{split}_path") for split in SPLITS}
    if config["path"] is not None and any(separate.values()):
        raise ValueError("give data.path or data.train_path and data.val_path, not both")
    if any(separate.values()) and (separate["train"] is None or separate["val"] is None):
        raise ValueError(
            f"data={config['name']} needs data.train_path=FILE and data.val_path=FILE together"
        )
    return config["path"] if separate["train"] is None else separate["train"]
