"""Colours and line styles of all pictures."""

from __future__ import annotations

TEXT = "#26303d"
MUTED_TEXT = "#67717f"
LINE = "#a3adba"
BROKEN_LINE = "#d9546a"
HINT_LINE = "#b6c1d0"
PROGRESS = "#8ea2c0"
CARD = "#fbfcfd"
CARD_EDGE = "#e4e8ee"
FLAG_EDGE = "#e07b86"
FLAG_CARD = "#fef8f8"

Dashes = tuple[int, tuple[float, float]]
DOTS: Dashes = (0, (0.1, 2.6))
"""Line style of what is not known; with round caps."""
DASHES: Dashes = (0, (2.5, 2.0))
"""Line style of what is contradicted."""


def shade(colour: str, factor: float) -> str:
    """``#rrggbb`` with every channel multiplied by ``factor`` in 0..1: darker, same hue."""
    channels = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return "#" + "".join(f"{round(channel * factor):02x}" for channel in channels)
