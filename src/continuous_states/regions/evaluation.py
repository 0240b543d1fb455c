"""``evaluate`` of a model of rows: hidden rows predicted and filled, beside baselines."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from continuous_states.regions.filling import Filling
from continuous_states.regions.row_report import RowReport
from continuous_states.regions.row_scores import FillingScores
from continuous_states.regions.sampling import MASK_RATE
from continuous_states.regions.score_chart import plot_row_scores
from continuous_states.reporting import bound_row, held_out_bound
from discrete_diffusion.contracts import BoundEstimate
from discrete_diffusion.evaluation import (
    Evaluation,
    Interval,
    MeasuredData,
    TableRow,
    TableSection,
    checkpoint_facts,
    confidence_interval,
    keep_samples,
    measured_data,
    num_held_out,
    plus_minus,
    sampling_facts,
    sampling_seeds,
)
from discrete_diffusion.runtime import end_if_stopping, progress

if TYPE_CHECKING:
    from discrete_diffusion.evaluation import EvaluateRequest, TrainedModel
    from discrete_diffusion.sampling import Model

logger = logging.getLogger(__name__)

_WHO = {
    "": ("model", "its expected rows, one network call"),
    "filled_": ("model, filled", "the rows that the sampler filled in"),
    "column_mean_": ("column mean", "the mean training row"),
    "window_mean_": ("window mean", "of the observed rows of the window, shrunk"),
    "neighbour_mean_": ("neighbour mean", "of the observed rows near by, shrunk"),
    "oracle_": ("oracle", "the mean training row of the true programme: the ceiling"),
}
_WHAT = ("per_motif_r", "per_motif_r2", "masked_mse")


@dataclass(frozen=True)
class RowEvaluation(Evaluation):
    """``filling``: of the first sampling seed. ``scores``: of every one. ``by_rate``: at several
    mask rates. ``facts``: how all was measured, for ``metrics.json``."""

    facts: dict[str, Any]
    report: RowReport
    filling: Filling
    scores: tuple[FillingScores, ...]
    by_rate: list[FillingScores]
    bound: BoundEstimate
    measured_on: MeasuredData

    @cached_property
    def per_seed(self) -> dict[str, list[float]]:
        """Every score by name, one per sampling seed."""
        found = [scores.as_dict() for scores in self.scores]
        return {name: [each[name] for each in found] for name in found[0]}

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """Intervals of every score over the sampling seeds."""
        return {name: confidence_interval(values) for name, values in self.per_seed.items()}

    def sections(self) -> list[TableSection]:
        return [_row_section(self.intervals), _rate_section(self.by_rate), self._bound_section()]

    def notes(self) -> list[str]:
        first, num = self.scores[0], len(self.scores)
        hidden = [int(each) for each in self.per_seed["num_masked_rows"]]
        shown = " to ".join(f"{num:,}" for num in sorted({min(hidden), max(hidden)}))
        seeds = (
            f"± of scores is one standard error over {num} sampling seeds, each with masks of its "
            "own; metrics.json has 95 % intervals."
        )
        return [
            f"Windows: {self.facts['reference']}.",
            *self.measured_on.notes(),
            f"{shown} rows hidden in {first.num_windows:,} windows at mask rate "
            f"{first.mask_rate:g}; {self.per_seed['num_columns'][0]:,} columns, "
            f"{self.per_seed['dropped_columns'][0]:,} constant ones left out.",
            "Means over columns: per_motif_r, the correlation with the truth; per_motif_r2, the "
            "share of the spread about the training mean that is explained; masked_mse, the "
            "squared error in training standard deviations.",
            *([seeds] if num > 1 else []),
            "The scores by how much is hidden are of one sample of masks.",
            f"± of the bound is its standard error over {self.bound.num_samples:,} windows.",
        ]

    def metrics(self) -> dict[str, Any]:
        """Contents of ``metrics.json``; scores are means over sampling seeds, with intervals."""
        return {
            **self.facts,
            **self.bound.as_dict(),
            **{name: interval.mean for name, interval in self.intervals.items()},
            "intervals": {
                name: [self.intervals[name].low, self.intervals[name].high]
                for name in self.scores[0].scores()
            },
            "per_seed": self.per_seed,
            "by_mask_rate": [
                {"mask_rate": scores.mask_rate, **scores.scores()} for scores in self.by_rate
            ],
        }

    def save(self, folder: Path) -> None:
        """The windows of the first sampling seed."""
        self.report.write(self.filling, folder)

    def plot(self, folder: Path) -> None:
        """Maps of the first windows; scores by feature and by mask rate."""
        self.report.plot(self.filling, folder / "samples.png")
        names = self.report.data.feature_names
        plot_row_scores(self.scores[0], self.by_rate, names, folder / "row_scores.png")

    def _bound_section(self) -> TableSection:
        bound = self.bound
        of = "a window's rows"
        if bound.quantity == "gaussian_given_observed":
            of = "a window's hidden rows given the others, at all mask rates"
        rows = (
            bound_row(bound, f"{of}, scaled"),
            TableRow(
                f"nelbo_{bound.quantity}_per_token",
                f"{bound.per_token:.4f}",
                meaning="the bound per row",
            ),
        )
        return TableSection("the model on held-out data", rows)


def evaluate_rows(request: EvaluateRequest, trained: TrainedModel) -> RowEvaluation:
    """Measure a model of rows on windows that its checkpoint held out, or on other ones, scaled as
    those that it was trained on.

    Raises ``ValueError`` if the data of the checkpoint cannot be read.
    """
    trained.check_weights()
    measured_on = measured_data(request, trained, needs_training=True)
    data, split = measured_on.data, measured_on.split
    rate = MASK_RATE if request.mask_rate is None else request.mask_rate
    report = RowReport(data, split, rate, request.seed)
    num = len(data.splits[split][: request.num_samples])
    parts = progress.parts(
        f"filling {num:,} windows for each of {len(sampling_seeds(request))} seeds",
        f"measuring the model on {num_held_out(request, data, split):,} held-out samples",
        f"predicting {num:,} windows at every mask rate",
    )
    with trained.sharing() as shard:
        model = trained.on(shard)
        with next(parts):
            filling, scores, drawn = _fill_by_seed(request, model, report)
        with next(parts):
            bound = held_out_bound(request, model, data, split)
        with next(parts):
            by_rate = report.scores_by_mask_rate(model, request.num_samples)
    facts = {
        **checkpoint_facts(request, trained, data),
        **measured_on.facts(request),
        **sampling_facts(request, trained),
        **drawn,
    }
    return RowEvaluation(facts, report, filling, scores, by_rate, bound, measured_on)


def _fill_by_seed(
    request: EvaluateRequest, model: Model, report: RowReport
) -> tuple[Filling, tuple[FillingScores, ...], dict[str, Any]]:
    """The filling of the first sampling seed, the scores of all, and how they were made."""
    fillings: list[Filling] = []
    scores, calls, seconds = [], [], []
    seeds = sampling_seeds(request)
    for seed in seeds:
        filling = report.fill(model, request.num_samples, seed)
        if fillings:
            end_if_stopping()
        else:
            keep_samples(request, model.shard, partial(report.write, filling))
        assert filling.nfe is not None  # there is a sampler
        fillings = fillings or [filling]
        scores.append(report.scores(filling))
        calls.append(float(filling.nfe.double().mean()))
        seconds.append(filling.seconds)
        logger.info("seed %d: %s windows in %.1f s", seed, f"{len(filling):,}", filling.seconds)
    facts = {
        "seeds": seeds,
        "num_samples": len(fillings[0]),
        "network_calls_per_sample": sum(calls) / len(calls),
        "seconds": sum(seconds) / len(seconds),
    }
    return fillings[0], tuple(scores), facts


def _row_section(intervals: Mapping[str, Interval]) -> TableSection:
    """Who predicts hidden rows, and how well, from the intervals of ``FillingScores.scores``."""
    rows = []
    for prefix, (name, meaning) in _WHO.items():
        if prefix + _WHAT[0] in intervals:
            r, r2, mse = (_shown(intervals[prefix + what]) for what in _WHAT)
            rows.append(TableRow(name, r, r2, mse, meaning))
    heads = ("hidden rows predicted by", *_WHAT)
    return TableSection("hidden rows, from those observed", tuple(rows), heads)


def _rate_section(by_rate: Sequence[FillingScores]) -> TableSection:
    """``per_motif_r`` by how much is hidden."""
    rows = []
    for scores in by_rate:
        r = [plus_minus(each.per_motif_r, None, 4) for each in scores.by_name.values()]
        rows.append(TableRow(f"{100 * scores.mask_rate:g} %", *r))
    _, *others = by_rate[0].by_name
    heads = ("hidden", "per_motif_r", *(name.replace("_", " ") for name in others))
    return TableSection("by how much is hidden", tuple(rows), heads)


def _shown(interval: Interval) -> str:
    return interval.text(4)
