"""What samples are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STATES = ("tokens", "features", "field", "latent")
"""Ids per position, rows of numbers, images, latent vectors: data, algorithm and backbone agree."""

IMAGES, DIALOGUES = "images from maps", "dialogues"
"""Kinds of data that exist in two states, see ``data_kind``."""


def data_state(data_config: Mapping[str, Any]) -> str:
    """The state of the samples of a ``config.data``: ``features`` if they have ``rows``, ``field``
    if they have a ``field_size``, ``latent`` if they are targets by themselves (``target_length``)
    and not part of a sequence (``length``), else ``tokens``."""
    if data_config.get("field_size") is not None:
        return "field"
    if "target_length" in data_config and "length" not in data_config:
        return "latent"
    return "features" if data_config.get("rows") is not None else "tokens"


def data_conditions(data_config: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of what comes with every sample of a ``config.data``: ``dtn``, the map that an image is
    to be found from, if maps have ``num_boundary`` nodes; else nothing."""
    return () if data_config.get("num_boundary") is None else ("dtn",)


def data_kind(data_config: Mapping[str, Any]) -> str:
    """What the samples of a ``config.data`` mean, which decides what a command makes of them:
    ``IMAGES``, ``DIALOGUES`` (with their summaries), ``diagrams``, ``text`` (other ids), or their
    state."""
    if data_conditions(data_config):
        return IMAGES
    if data_config.get("source_length") is not None:
        return DIALOGUES
    if data_config.get("n_max") is not None:
        return "diagrams"
    state = data_state(data_config)
    return "text" if state == "tokens" else state
