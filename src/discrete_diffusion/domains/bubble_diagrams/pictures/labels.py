"""Where the name of a bubble is written, and how wide it is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath
from numpy.typing import NDArray

from discrete_diffusion.domains.bubble_diagrams.pictures.connections import Connection
from discrete_diffusion.domains.bubble_diagrams.pictures.placement import Placement

Array = NDArray[np.float64]

FONT = "DejaVu Sans"
"""Ships with matplotlib: the same picture on every machine."""
POINTS_PER_INCH = 72.0

_LINE_HALO = 0.12
"""Free space kept between a label and a line, in placement units."""
_FLATNESS = 2.2
"""A label is wider than high: distances up and down count this much more than sideways."""


@cache
def text_width(text: str) -> float:
    """Width of ``text`` in units of its font size."""
    outline = TextPath((0, 0), text, size=100, prop=FontProperties(family=FONT))
    return float(outline.get_extents().width) / 100


def write(
    axes: Axes,
    x: float,
    y: float,
    text: str,
    points: float,
    colour: str,
    align: str,
    zorder: float = 4,
) -> None:
    """Put ``text`` at (x, y), ``points`` high; ``align``: "left" or "center" (also vertically)."""
    axes.text(
        x,
        y,
        text,
        fontsize=points,
        color=colour,
        family=FONT,
        ha=align,
        va="center_baseline" if align == "center" else "baseline",
        zorder=zorder,
        parse_math=False,
    )


def label_spot(placement: Placement, lines: Sequence[Connection], room: int) -> tuple[Array, float]:
    """Centre Float[2] and largest width of the label of a bubble, in placement units.

    The middle of the bubble, unless other bubbles lie on it: then the place, on a fixed polar
    grid, with the most free space between the rim, those bubbles and the lines that lead to them.
    """
    centre, radius = placement.centres[room], float(placement.radii[room])
    distance = np.linalg.norm(placement.centres - centre, axis=1)
    covers = (distance < placement.radii + radius) & ~placement.inside[room]
    covers[room] = False
    if not covers.any():
        return centre, 1.7 * radius
    depth = int(placement.depth[room])
    over = [line.points for line in lines if line.depth > depth]
    obstacles = np.concatenate([placement.centres[covers], *over])
    sizes = np.full(len(obstacles), _LINE_HALO)
    sizes[: covers.sum()] = placement.radii[covers]

    angles = np.linspace(0, 2 * np.pi, 48, endpoint=False) - np.pi / 2
    reach = np.linspace(0.0, 0.9, 16)[:, None, None] * radius
    spots = (reach * np.stack([np.cos(angles), np.sin(angles)], axis=-1)).reshape(-1, 2)
    free = _free_width(centre + spots, obstacles, sizes).min(axis=1)
    chord = np.sqrt(np.maximum(radius**2 - (np.abs(spots[:, 1]) + 0.12) ** 2, 0))
    half_width = np.minimum(free, chord - np.abs(spots[:, 0]))
    best = int(half_width.argmax())
    return centre + spots[best], float(max(1.8 * half_width[best], 0.5 * radius))


def _free_width(spots: Array, obstacles: Array, sizes: Array) -> Array:
    """Float[S, O]: how far each spot lies outside each disc, in the metric of a flat label."""
    towards = spots[:, None, :] - obstacles
    length = np.linalg.norm(towards, axis=-1).clip(min=1e-9)
    flat_length = np.linalg.norm(towards * np.array([1.0, _FLATNESS]), axis=-1)
    return flat_length * (1 - sizes / length)
