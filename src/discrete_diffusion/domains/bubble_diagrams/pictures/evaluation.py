"""The pictures of an evaluation: real diagrams against sampled ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram
from discrete_diffusion.domains.bubble_diagrams.metrics.diagram_counts import count_diagrams
from discrete_diffusion.domains.bubble_diagrams.pictures.adjacency import draw_adjacency
from discrete_diffusion.domains.bubble_diagrams.pictures.palette import ROOM_STYLES
from discrete_diffusion.rooms import RELATIONS
from discrete_diffusion.viz import BarPanel, draw_bars

FEWEST_PAIRS = 50
"""A pair of room types seen less often is left out of the heat maps."""


def draw_sample_pictures(
    samples: Sequence[BubbleDiagram], reference: Sequence[BubbleDiagram], folder: Path
) -> None:
    """``adjacency.png``, ``histograms.png`` and ``relations.png``: real against sampled."""
    real, sampled = count_diagrams(reference), count_diagrams(samples)
    names = [style.name for style in ROOM_STYLES]
    draw_adjacency(
        real.share_related(FEWEST_PAIRS),
        sampled.share_related(FEWEST_PAIRS),
        names,
        folder / "adjacency.png",
        note="How often two rooms of one diagram are related, by their types. "
        f"A dot: fewer than {FEWEST_PAIRS} such pairs.",
    )
    draw_bars(
        [
            BarPanel("Rooms per diagram", "rooms", "diagrams", real.rooms, sampled.rooms),
            BarPanel("Relations per room", "relations", "rooms", real.degrees, sampled.degrees),
            BarPanel("Relations per diagram", "relations", "diagrams", real.edges, sampled.edges),
        ],
        folder / "histograms.png",
    )
    draw_bars(
        [
            BarPanel("Room types", "", "rooms", real.room_types, sampled.room_types, names),
            BarPanel(
                "Relations",
                "seen from the room whose type comes first",
                "relations",
                real.relations,
                sampled.relations,
                RELATIONS[:-1],
            ),
        ],
        folder / "relations.png",
    )
