"""``evaluate`` of a model of tokens: its bound and its calibration, and metrics of its samples."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.evaluation.calibration import MASKED_SHARES
from discrete_diffusion.evaluation.held_out import (
    BOUND_DRAWS,
    checkpoint_facts,
    keep_samples,
    sampling_facts,
    some_held_out,
)
from discrete_diffusion.evaluation.intervals import (
    Interval,
    error_note,
    interval_entries,
    share_interval,
)
from discrete_diffusion.evaluation.likelihood import measure_paths, num_path_passes
from discrete_diffusion.evaluation.measured_data import MeasuredData, measured_data
from discrete_diffusion.evaluation.model_scores import ModelScores, score_model
from discrete_diffusion.evaluation.pictures import plot_model
from discrete_diffusion.evaluation.report import Evaluation
from discrete_diffusion.evaluation.table import TableRow, TableSection, model_notes, model_sections

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.data.base import TokenDataset
    from discrete_diffusion.evaluation.requests import EvaluateRequest
    from discrete_diffusion.evaluation.token_report import TokenReport
    from discrete_diffusion.evaluation.token_samples import TokenSamples
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.sampling.model import Model

logger = logging.getLogger(__name__)

TIME_BINS = 20
"""If ``time_bins`` does not say."""

NUM_SAMPLES = 1000
"""If ``num_samples`` does not say."""


@dataclass(frozen=True)
class MeasuredSamples:
    """``drawn``: samples of a model, and ``values``, what ``report`` measures of them. ``real``:
    what it measures of held-out samples in their place."""

    drawn: TokenSamples
    report: TokenReport
    values: dict[str, float]
    real: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        """Values for ``metrics.json``."""
        real = {f"{name}_real_data": value for name, value in self.real.items()}
        shares = interval_entries(self.shares) if self.shares else {}
        return {**self.drawn.facts, **self.values, **real, **shares}

    @property
    def shares(self) -> dict[str, Interval]:
        """Intervals of the metrics that are shares of samples."""
        return {
            column.name: share_interval(
                [self.values[column.name]], self.values.get(column.counted, len(self.drawn.tokens))
            )
            for column in self.report.columns
            if column.of_samples and column.name in self.values
        }

    def section(self) -> TableSection:
        """The two side by side."""
        shares = self.shares
        rows = [
            TableRow(
                name,
                shares[name].text(4) if name in shares else f"{value:.4f}",
                f"{self.real[name]:.4f}" if name in self.real else "",
            )
            for name, value in self.values.items()
        ]
        rows.append(TableRow("network_calls_per_sample", f"{self.drawn.network_calls:g}"))
        return TableSection(f"{len(self.drawn.tokens):,} samples", tuple(rows))


@dataclass(frozen=True)
class ModelEvaluation(Evaluation):
    """``facts``: how all was measured. ``reference``: what it was measured on, in words.
    ``absorbing``: tokens are masked, not changed. ``group_titles``: what token groups are called.
    ``scores``: None where samples alone were measured. ``samples``: None where none were.
    ``measured_on``: what ``reference`` names, where
    nothing else says how it is read.
    """

    facts: dict[str, Any]
    reference: str
    scores: ModelScores | None
    absorbing: bool = True
    group_titles: Mapping[str, str] = field(default_factory=dict)
    samples: MeasuredSamples | None = None
    measured_on: MeasuredData | None = None

    def metrics(self) -> dict[str, Any]:
        of_samples = {} if self.samples is None else self.samples.as_dict()
        of_model = {} if self.scores is None else self.scores.as_dict()
        return {**self.facts, **of_samples, **of_model}

    def sections(self) -> list[TableSection]:
        of_samples = [] if self.samples is None else [self.samples.section()]
        return [*of_samples, *model_sections(self.scores)]

    def notes(self) -> list[str]:
        other = [] if self.measured_on is None else self.measured_on.notes()
        shares = self.samples is not None and self.samples.shares
        errors = [error_note(1)] if shares else []
        return [f"Real data: {self.reference}.", *other, *errors, *model_notes(self.scores)]

    def save(self, folder: Path) -> None:
        if self.samples is not None:
            self.samples.report.save(self.samples.drawn.tokens, folder)

    def plot(self, folder: Path) -> None:
        if self.scores is not None:
            plot_model(self.scores, folder, absorbing=self.absorbing, titles=self.group_titles)


def num_passes(request: EvaluateRequest, length: int) -> int:
    """Number of times that the network sees each held-out sample of ``length`` tokens in
    ``measure_model``, at most."""
    if request.bound_draws == 0:
        return 0
    bound_draws = BOUND_DRAWS if request.bound_draws is None else request.bound_draws
    time_bins = TIME_BINS if request.time_bins is None else request.time_bins
    passes = int(bound_draws + time_bins + len(MASKED_SHARES))
    return passes + num_path_passes(request, length)


def measure_model(
    request: EvaluateRequest, model: Model, data: TokenDataset, split: str
) -> ModelScores | None:
    """Measure a model as ``request`` says: ``bound_draws``, ``time_bins``, ``likelihood``,
    ``orders``, ``seed``; None for ``bound_draws=0``."""
    if request.bound_draws == 0:
        return None
    logger.info("measuring the model on %s held-out samples", f"{len(data.splits[split]):,}")
    scores = score_model(
        model,
        data,
        split,
        bound_draws=BOUND_DRAWS if request.bound_draws is None else request.bound_draws,
        time_bins=TIME_BINS if request.time_bins is None else request.time_bins,
        seed=request.seed,
    )
    return replace(scores, paths=measure_paths(request, model, data, split))


def evaluate_token_model(
    request: EvaluateRequest,
    trained: TrainedModel,
    report: Callable[[Any, str, DictConfig], TokenReport] | None = None,
) -> ModelEvaluation:
    """A model of tokens on the split that its checkpoint held out, or on other data, and
    ``num_samples`` samples as ``report`` measures them, see ``Domain.report``; without it the model
    by itself."""
    if report is None and request.bound_draws == 0:
        name = trained.data_config.name
        raise ValueError(
            f"bound_draws=0: no metrics of samples exist for data={name}; leave it out"
        )
    measured_on = measured_data(request, trained)
    data, split = measured_on.data, measured_on.split
    if report is None:
        name = trained.data_config.name
        logger.info("no metrics of samples exist for data=%s; measuring the model", name)
    made = None if report is None else report(data, split, trained.config)
    with trained.sharing() as shard:
        model = trained.on(shard)
        drawn = None if made is None else draw_samples(request, model, made)
        if made is not None and drawn is not None:
            keep_samples(request, shard, partial(made.save, drawn.tokens))
        scores = measure_model(request, model, some_held_out(request, data, split), split)
    samples = None
    if made is not None and drawn is not None:
        real = made.measure_real(len(drawn.tokens))
        samples = MeasuredSamples(drawn, made, made.measure(drawn.tokens), real)
    facts = {
        **checkpoint_facts(request, trained, data),
        **measured_on.facts(request),
        **({} if samples is None else sampling_facts(request, trained)),
    }
    absorbing = trained.algorithm.process.absorbing
    titles = trained.domain.group_titles
    name = measured_on.name
    return ModelEvaluation(facts, name, scores, absorbing, titles, samples, measured_on)


def draw_samples(request: EvaluateRequest, model: Model, report: TokenReport) -> TokenSamples:
    """Samples as ``request`` says: ``num_samples``, ``seed``."""
    num = NUM_SAMPLES if request.num_samples is None else request.num_samples
    logger.info("sampling %s samples", f"{num:,}")
    return report.drawn(model, num, request.seed)
