"""Scores of a model itself on held-out data, without samples: bound, calibration."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from discrete_diffusion.contracts import BoundEstimate
from discrete_diffusion.data.base import TokenDataset
from discrete_diffusion.data.batches import SplitBatches
from discrete_diffusion.evaluation.bound import (
    BoundBySize,
    MeasurementSettings,
    blind_bounds,
    sample_bounds,
)
from discrete_diffusion.evaluation.bound_by_time import BoundByTime, bound_by_time
from discrete_diffusion.evaluation.calibration import Calibration, measure_calibration
from discrete_diffusion.evaluation.likelihood import PathScores
from discrete_diffusion.evaluation.tails import DrawTail
from discrete_diffusion.sampling.model import Model

_BASELINES, _BOUND, _BY_TIME, _CALIBRATION = (20,), (21,), (22,), (23,)
"""Keep the noise of the measurements apart from each other, and from batches and samples."""


@dataclass(frozen=True)
class ModelScores:
    """Measurements of a model on a split. ``by_size``: the bound by size; ``baselines``: the blind
    and uniform bounds; ``further``: the bound in further units; ``paths``: what was measured along
    paths of samplers; ``tail``: of the noise draws of the bound, None where they do not tell."""

    bound: BoundEstimate
    by_size: BoundBySize
    further: dict[str, float]
    baselines: dict[str, float]
    by_time: BoundByTime
    calibration: Calibration
    paths: PathScores = field(default_factory=PathScores)
    tail: DrawTail | None = None

    def as_dict(self) -> dict[str, Any]:
        """Scores by name; ``calibration_error_GROUP`` is the mean over masked shares."""
        error = self.calibration.error.nanmean(dim=0)
        return {
            **self.bound.as_dict(),
            **({} if self.tail is None else self.tail.as_dict()),
            **self.further,
            **self.baselines,
            **{
                f"calibration_error_{group}": float(error[g])
                for g, group in enumerate(self.calibration.groups)
                if not error[g].isnan()
            },
            "calibration": self.calibration.as_dict(),
            "nelbo_by_size": self.by_size.as_dict(),
            "nelbo_by_t": self.by_time.as_dict(),
            **self.paths.as_dict(),
        }


def score_model(
    model: Model,
    data: TokenDataset,
    split: str,
    *,
    bound_draws: int,
    time_bins: int,
    seed: int,
) -> ModelScores:
    """Measure the algorithm of ``model`` on every sample of a split, where and by whom it says.

    ``bound_draws``: noise draws per sample for the bound; ``time_bins``: draws per sample, one in
    each bin, for the bound by time. The blind bound needs training data; without, it is left out.
    Raises ``ValueError`` if the split is empty.
    """
    algorithm = model.algorithm

    def batches() -> SplitBatches:
        return SplitBatches(data, split, batch_size=model.rows_at_once, seed=seed)

    def settings(stream: tuple[int, ...]) -> MeasurementSettings:
        return MeasurementSettings((seed, *stream), model.device, model.shard)

    [baselines] = model.shard.map(partial(blind_bounds, data, stream=_BASELINES), [split])
    if len(data.splits["train"]) == 0:
        baselines = {k: v for k, v in baselines.items() if not k.startswith("nelbo_blind")}
    bounds = sample_bounds(algorithm, batches(), draws=bound_draws, settings=settings(_BOUND))
    bound = bounds.estimate(data.bound)
    return ModelScores(
        bound=bound,
        by_size=bounds.by_size(batches().sizes, data.bound, unit=data.size_unit),
        further=data.further_bounds(split, bound),
        baselines=baselines,
        by_time=bound_by_time(
            algorithm, batches(), num_bins=time_bins, settings=settings(_BY_TIME)
        ),
        calibration=measure_calibration(algorithm, batches(), settings=settings(_CALIBRATION)),
        tail=bounds.tail,
    )
