"""Numbers as JSON, which knows neither NaN nor infinity: null for what is not finite."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from discrete_diffusion.runtime.atomic_files import write_text

logger = logging.getLogger(__name__)


def rounded(values: Tensor, digits: int = 6) -> list[float | None]:
    """A vector as a list of ``digits`` significant digits; NaN and infinities become None."""
    return [
        float(f"{value:.{digits}g}") if math.isfinite(value) else None for value in values.tolist()
    ]


def finite_or_none(value: Any) -> Any:
    """``value`` with None for every NaN and infinity in it, in its dicts and lists too."""
    if isinstance(value, dict):
        return {key: finite_or_none(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite_or_none(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_metrics(folder: Path, metrics: dict[str, Any]) -> None:
    """Write ``metrics.json`` into ``folder``, whole; warns of the names that are null in it."""
    written = finite_or_none(metrics)
    if lost := [name for name in metrics if written[name] != metrics[name]]:
        logger.warning("not finite, so null in metrics.json: %s", ", ".join(lost))
    write_json(folder / "metrics.json", written, indent=2)


def write_json(path: Path, content: Mapping[str, Any], *, indent: int = 1) -> None:
    """Write a JSON object, whole."""
    write_text(path, json.dumps(content, indent=indent, allow_nan=False) + "\n")


def read_json(path: Path, keys: Collection[str]) -> dict[str, Any] | None:
    """A JSON object; None if there is no such file, or one without all of ``keys``."""
    try:
        content = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return content if isinstance(content, dict) and {*keys} <= content.keys() else None
