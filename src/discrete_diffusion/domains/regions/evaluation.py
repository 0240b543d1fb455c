"""``evaluate`` of a model of rows: hidden rows predicted and filled, beside baselines."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.domains.domain import Evaluation
from discrete_diffusion.domains.regions.filling import Filling
from discrete_diffusion.domains.regions.row_report import RowReport, draw_filling_scores
from discrete_diffusion.domains.regions.row_scores import (
    FillingScores,
    ScoresByMaskRate,
    scores_by_mask_rate,
)
from discrete_diffusion.domains.regions.row_table import (
    number,
    rate_section,
    row_notes,
    row_section,
)
from discrete_diffusion.domains.regions.sampling import MASK_RATE
from discrete_diffusion.evaluation.bound import BoundEstimate
from discrete_diffusion.evaluation.held_out import (
    checkpoint_facts,
    held_out_bound,
    held_out_split,
    name_of_split,
    readable_data,
    sampling_facts,
    sampling_seeds,
)
from discrete_diffusion.evaluation.intervals import Interval, confidence_interval
from discrete_diffusion.evaluation.table import TableRow, TableSection

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.evaluation.trained_model import Model, TrainedModel

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RowEvaluation(Evaluation):
    """``filling``: of the first sampling seed. ``scores``: of every one. ``facts``: how all was
    measured, for ``metrics.json``."""

    facts: dict[str, Any]
    report: RowReport
    filling: Filling
    scores: tuple[FillingScores, ...]
    by_rate: ScoresByMaskRate
    bound: BoundEstimate

    @cached_property
    def per_seed(self) -> dict[str, list[float]]:
        """Every score by name, one per sampling seed."""
        found = [scores.as_dict() for scores in self.scores]
        return {name: [each[name] for each in found] for name in found[0]}

    def sections(self) -> list[TableSection]:
        shown = {name: _shown(confidence_interval(x)) for name, x in self.per_seed.items()}
        return [row_section(shown), rate_section(self.by_rate), self._bound_section()]

    def notes(self) -> list[str]:
        num = len(self.scores)
        notes = [f"Windows: {self.facts['reference']}.", *row_notes(*self.scores)]
        if num > 1:
            notes.append(
                f"± of scores is half of the 95 % interval (Student's t) over {num} sampling "
                "seeds, each with masks of its own."
            )
        notes.append("The scores by how much is hidden are of one draw of masks.")
        windows = f"{self.bound.num_samples:,} windows"
        return [*notes, f"± of the bound is its standard error over {windows}."]

    def metrics(self) -> dict[str, Any]:
        """What ``metrics.json`` holds; scores are means over sampling seeds, with intervals."""
        intervals = {name: confidence_interval(x) for name, x in self.per_seed.items()}
        return {
            **self.facts,
            **self.bound.as_dict(),
            **{name: interval.mean for name, interval in intervals.items()},
            "intervals": {
                name: [intervals[name].low, intervals[name].high]
                for name in self.scores[0].scores()
            },
            "per_seed": self.per_seed,
            "by_mask_rate": self.by_rate.as_dict(),
        }

    def save(self, folder: Path) -> None:
        """The windows of the first sampling seed."""
        self.report.write(self.filling, folder)

    def draw(self, folder: Path) -> None:
        """Maps of the first windows; scores by feature and by mask rate."""
        names = self.report.data.feature_names
        self.report.draw(self.filling, folder / "samples.png")
        draw_filling_scores(self.scores[0], names, folder / "row_scores.png", self.by_rate)

    def _bound_section(self) -> TableSection:
        bound = self.bound
        of = "a window's rows"
        if bound.quantity == "gaussian_given_observed":
            of = "a window's hidden rows given the others, at all mask rates"
        rows = (
            TableRow(
                f"nelbo_{bound.quantity}",
                f"{bound.per_sample:.3f} ± {bound.standard_error:.3f}",
                meaning=f"held-out bound on -log p of {of}, scaled, nats (± standard error)",
            ),
            TableRow(
                f"nelbo_{bound.quantity}_per_token",
                f"{bound.per_token:.4f}",
                meaning="the bound per row",
            ),
        )
        return TableSection("the model on held-out data", rows)


def evaluate_rows(config: DictConfig, trained: TrainedModel) -> RowEvaluation:
    """Measure a model of rows on windows that its checkpoint held out.

    Raises ``ValueError`` if the data of the checkpoint cannot be read.
    """
    trained.check_weights()
    data = readable_data(trained)
    split = held_out_split(data, config.split)
    rate = MASK_RATE if config.mask_rate is None else config.mask_rate
    report = RowReport(data, split, rate, config.seed)
    with trained.sharing() as shard:
        model = trained.on(shard)
        filling, scores, drawn = _fill_by_seed(config, model, report)
        bound = held_out_bound(config, model, data, split)
        by_rate = scores_by_mask_rate(
            model,
            data,
            split,
            baselines=report.baselines,
            num=config.num_samples,
            seed=config.seed,
        )
    facts = {
        **checkpoint_facts(config, trained, data),
        "reference": name_of_split(trained, data, split),
        "num_reference": len(data.splits[split]),
        **sampling_facts(config, trained),
        **drawn,
    }
    return RowEvaluation(facts, report, filling, scores, by_rate, bound)


def _fill_by_seed(
    config: DictConfig, model: Model, report: RowReport
) -> tuple[Filling, tuple[FillingScores, ...], dict[str, Any]]:
    """The filling of the first sampling seed, the scores of all, and how they were made."""
    fillings: list[Filling] = []
    scores, calls, seconds = [], [], []
    seeds = sampling_seeds(config)
    for seed in seeds:
        filling = report.fill(model, config.num_samples, seed)
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


def _shown(interval: Interval) -> str:
    value = number(interval.mean)
    return value if interval.low is None else f"{value} ± {interval.mean - interval.low:.4f}"
