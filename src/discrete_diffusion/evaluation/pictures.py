"""The pictures of an evaluation, from its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from discrete_diffusion.data.bubble_diagrams import BubbleDiagram
from discrete_diffusion.evaluation.bound_by_time import BoundByTime
from discrete_diffusion.evaluation.calibration import Calibration
from discrete_diffusion.evaluation.diagram_counts import count_diagrams
from discrete_diffusion.evaluation.model_scores import ModelScores
from discrete_diffusion.rooms import RELATIONS
from discrete_diffusion.viz import (
    BarPanel,
    ReliabilityPanel,
    draw_adjacency,
    draw_bars,
    draw_bound_by_time,
    draw_reliability,
)
from discrete_diffusion.viz.palette import ROOM_STYLES

FEWEST_PAIRS = 50
"""A pair of room types seen less often is left out of the heat maps."""

_GROUP_TITLES = {"node": "rooms", "edge": "relations"}


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


def draw_model_pictures(scores: ModelScores, folder: Path, *, absorbing: bool) -> None:
    """``calibration.png`` and ``nelbo_by_t.png``; ``absorbing``: tokens are masked, not changed."""
    draw_calibration(scores.calibration, folder / "calibration.png")
    draw_time(scores.by_time, folder / "nelbo_by_t.png", absorbing=absorbing)


def draw_calibration(calibration: Calibration, path: Path) -> None:
    """A reliability diagram for every token group that has events."""
    error = calibration.error
    panels = [
        ReliabilityPanel(
            name=_title(group).capitalize(),
            predicted=calibration.predicted[:, g].numpy(),
            observed=calibration.observed[:, g].numpy(),
            num_events=calibration.num_events[:, g].numpy(),
            error=error[:, g].numpy(),
        )
        for g, group in enumerate(calibration.groups)
        if calibration.num_positions[:, g].any()
    ]
    draw_reliability(calibration.shares, panels, path)


def draw_time(by_time: BoundByTime, path: Path, *, absorbing: bool) -> None:
    """The integrand of the bound and the cross-entropy per token."""
    titles = [_title(group) for group in by_time.groups]
    draw_bound_by_time(
        by_time.edges.numpy(),
        {title: by_time.integrand[:, g].numpy() for g, title in enumerate(titles)},
        {title: by_time.cross_entropy[:, g].numpy() for g, title in enumerate(titles)},
        path,
        standard_error=by_time.standard_error.numpy(),
        uniform={title: float(by_time.uniform[g]) for g, title in enumerate(titles)},
        token="masked token" if absorbing else "token",
    )


def _title(group: str) -> str:
    return _GROUP_TITLES.get(group, f"{group}s")
