"""The pictures of what held-out data says of a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from discrete_diffusion.evaluation.bound_by_time import BoundByTime
from discrete_diffusion.evaluation.calibration import Calibration
from discrete_diffusion.evaluation.model_scores import ModelScores
from discrete_diffusion.viz import ReliabilityPanel, draw_bound_by_time, draw_reliability


def draw_model_pictures(
    scores: ModelScores, folder: Path, *, absorbing: bool, titles: Mapping[str, str]
) -> None:
    """``calibration.png`` and ``nelbo_by_t.png``; ``absorbing``: tokens are masked, not changed;
    ``titles``: of token groups, the name in the plural without one."""
    draw_calibration(scores.calibration, folder / "calibration.png", titles)
    draw_time(scores.by_time, folder / "nelbo_by_t.png", absorbing=absorbing, titles=titles)


def draw_calibration(calibration: Calibration, path: Path, titles: Mapping[str, str]) -> None:
    """A reliability diagram for every token group that has events."""
    error = calibration.error
    panels = [
        ReliabilityPanel(
            name=_title(group, titles).capitalize(),
            predicted=calibration.predicted[:, g].numpy(),
            observed=calibration.observed[:, g].numpy(),
            num_events=calibration.num_events[:, g].numpy(),
            error=error[:, g].numpy(),
        )
        for g, group in enumerate(calibration.groups)
        if calibration.num_positions[:, g].any()
    ]
    draw_reliability(calibration.shares, panels, path)


def draw_time(
    by_time: BoundByTime, path: Path, *, absorbing: bool, titles: Mapping[str, str]
) -> None:
    """The integrand of the bound and the cross-entropy per token."""
    shown = [_title(group, titles) for group in by_time.groups]
    draw_bound_by_time(
        by_time.edges.numpy(),
        {title: by_time.integrand[:, g].numpy() for g, title in enumerate(shown)},
        {title: by_time.cross_entropy[:, g].numpy() for g, title in enumerate(shown)},
        path,
        standard_error=by_time.standard_error.numpy(),
        uniform={title: float(by_time.uniform[g]) for g, title in enumerate(shown)},
        token="masked token" if absorbing else "token",
    )


def _title(group: str, titles: Mapping[str, str]) -> str:
    return titles.get(group, f"{group}s")
