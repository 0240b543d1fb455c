"""What samples are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STATES = ("tokens", "features", "field", "latent")
"""Ids per position, rows of numbers, images, latent vectors: data, algorithm and backbone agree."""


def data_state(data_config: Mapping[str, Any]) -> str:
    """The state of the samples of a ``config.data``: ``features`` if they have ``rows``, ``field``
    if they have a ``field_size``, else ``tokens``."""
    if data_config.get("field_size") is not None:
        return "field"
    return "features" if data_config.get("rows") is not None else "tokens"
