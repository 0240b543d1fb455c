"""What is said of filled rows: numbers, a file, a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from discrete_diffusion.domains.domain import Headline, Report
from discrete_diffusion.domains.regions import RegionDataset
from discrete_diffusion.domains.regions.filling import Filling, fill_held_out
from discrete_diffusion.domains.regions.metrics import RowScores
from discrete_diffusion.domains.regions.region_maps import draw_region_maps
from discrete_diffusion.domains.regions.row_files import write_filling
from discrete_diffusion.domains.regions.row_scores import (
    FillingScores,
    ScoresByMaskRate,
    fit_baselines,
    score_baselines,
    score_filling,
)
from discrete_diffusion.domains.regions.score_chart import draw_row_scores

if TYPE_CHECKING:
    from discrete_diffusion.evaluation.trained_model import Model

DRAWN = ("model", "neighbour_mean", "oracle")


class RowReport(Report):
    """Scores of filled windows beside those of baselines, and what they look like.

    The baselines are fitted once, for rows masked at ``mask_rate``. Every ``filling`` is of the
    first windows of ``split``; while the masks are the same, the scores of the baselines are kept.
    """

    headlines = (Headline("per_motif_r"), Headline("per_motif_r2"))

    def __init__(
        self, data: RegionDataset, split: str = "val", mask_rate: float = 0.5, seed: int = 0
    ) -> None:
        self.data, self.split, self.mask_rate, self.seed = data, split, mask_rate, seed
        self.baselines = fit_baselines(data, mask_rate, seed)
        self._last: tuple[Tensor, dict[str, RowScores]] | None = None

    def scores(self, filling: Filling) -> FillingScores:
        """Model, sampler and baselines."""
        return score_filling(
            filling,
            self.data,
            self.split,
            self.mask_rate,
            self.seed,
            baselines=self.baselines,
            baseline_scores=self._baseline_scores(filling),
        )

    def sample(self, model: Model, num: int, seed: int, stream: tuple[int, ...] = ()) -> Filling:
        return self.fill(model, num, seed + sum(stream))

    def fill(self, model: Model, num: int | None, seed: int) -> Filling:
        """The first ``num`` windows of the split, all if it is None."""
        return fill_held_out(
            model, self.data, self.split, num=num, mask_rate=self.mask_rate, seed=seed
        )

    def _baseline_scores(self, filling: Filling) -> dict[str, RowScores]:
        if self._last is None or not self._last[0].equal(filling.masked):
            scores = score_baselines(filling, self.data, self.split, self.baselines)
            self._last = (filling.masked.clone(), scores)
        return self._last[1]

    def measure(self, filling: Filling) -> dict[str, float]:
        """Scores by name; none of no window."""
        return self.scores(filling).as_dict() if len(filling) else {}

    def save(self, filling: Filling, folder: Path) -> None:
        """Write ``samples.npz`` (see ``write_filling``) and ``samples.png`` into a folder."""
        if len(filling) == 0:
            return
        self.write(filling, folder)
        self.draw(filling, folder / "samples.png")

    def write(self, filling: Filling, folder: Path) -> None:
        """Write ``samples.npz`` alone, see ``write_filling``."""
        places = self.data.places(self.split, len(filling))
        write_filling(folder, filling, self.data.feature_names, places)

    def draw(self, filling: Filling, path: Path) -> None:
        """Draw the first windows: true, masked and filled (predicted, without a sampler)."""
        if len(filling) == 0:
            return
        rows, title = filling.filled, "Filled"
        if rows is None:
            rows, title = filling.predicted, "Predicted"
        draw_region_maps(
            filling.truth.numpy(),
            filling.masked.numpy(),
            rows.numpy(),
            path,
            feature_names=self.data.feature_names,
            real=filling.real.numpy(),
            filled_title=title,
        )

    def summary(self, metrics: Mapping[str, Any]) -> str:
        if "per_motif_r" not in metrics:
            bound = next(name for name in metrics if name.startswith("nelbo_"))
            return f"metrics: {bound} {metrics[bound]:.2f}"
        parts = []
        for name, shown in (("per_motif_r", "r"), ("per_motif_r2", "R2")):
            known = [
                f"{whose} {metrics[key]:.3f}"
                for whose in ("neighbour mean", "oracle")
                if (key := f"{whose.replace(' ', '_')}_{name}") in metrics
            ]
            parts.append(f"per-motif {shown} {metrics[name]:.3f} ({', '.join(known)})")
        num, rate = metrics["num_masked_rows"], metrics["mask_rate"]
        return f"metrics: {', '.join(parts)}  [{num:,} rows hidden at rate {rate:g}]"


def draw_filling_scores(
    scores: FillingScores,
    feature_names: Sequence[str],
    path: Path,
    by_rate: ScoresByMaskRate | None = None,
) -> None:
    """Draw Pearson's r by column, of the model, the neighbour mean and the oracle, and its mean by
    mask rate if that was measured."""
    found = {"model": scores.predicted, **scores.baselines}
    draw_row_scores(
        {_shown(name): found[name].r.numpy() for name in DRAWN if name in found},
        feature_names,
        path,
        rates=by_rate.rates if by_rate else (),
        r_by_rate={
            _shown(name): [each.per_motif_r for each in values]
            for name, values in (by_rate.by_name if by_rate else {}).items()
        },
    )


def _shown(name: str) -> str:
    return name.replace("_", " ")
