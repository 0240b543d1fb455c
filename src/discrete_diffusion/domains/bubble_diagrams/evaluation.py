"""``evaluate`` of diagrams: what samples are like, and the model itself."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion import progress
from discrete_diffusion.config_files import as_list
from discrete_diffusion.domains.bubble_diagrams.files.writers import write_diagrams
from discrete_diffusion.domains.bubble_diagrams.pictures.drawing import MAX_DRAWN, draw_grid
from discrete_diffusion.domains.bubble_diagrams.pictures.statistics import draw_sample_pictures
from discrete_diffusion.domains.bubble_diagrams.plans.scores import (
    NUM_VERDICTS,
    PlanScores,
    score_plans,
)
from discrete_diffusion.domains.bubble_diagrams.real_data import (
    RealData,
    read_measured,
    real_data_for_model,
    real_data_for_samples,
)
from discrete_diffusion.domains.bubble_diagrams.report import NUM_LARGE_VERDICTS
from discrete_diffusion.domains.bubble_diagrams.sample_scores import (
    SampleScores,
    score_samples,
    shown_sizes,
)
from discrete_diffusion.domains.bubble_diagrams.tokens import decode
from discrete_diffusion.domains.domain import Evaluation
from discrete_diffusion.evaluation.held_out import (
    checkpoint_facts,
    sampling_facts,
    sampling_seeds,
    some_held_out,
)
from discrete_diffusion.evaluation.model_evaluation import (
    ModelEvaluation,
    measure_model,
    num_passes,
)
from discrete_diffusion.evaluation.table import TableSection, model_notes
from discrete_diffusion.evaluation.token_samples import draw_fresh
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from torch import Tensor

    from discrete_diffusion.domains.bubble_diagrams import BubbleDiagram
    from discrete_diffusion.evaluation.trained_model import Model, TrainedModel
    from discrete_diffusion.layout import VocabConfig
    from discrete_diffusion.types import SampleOutput

logger = logging.getLogger(__name__)

FLOOR_DRAWS = 20
"""If ``floor_draws`` does not say."""

NUM_SAMPLES = 2_000
"""If ``num_samples`` does not say."""


@dataclass(frozen=True)
class DiagramEvaluation(Evaluation):
    """``facts``: how all was measured. ``sets``: the samples, by sampling seed or file.
    ``model``: what was measured of the model itself; None of files of samples.
    ``num_unreadable``: samples of the files that were left out. ``plans``: which have a floor plan;
    None if that was not asked, or cannot be decided without OR-Tools.
    """

    facts: dict[str, Any]
    real: RealData
    sets: list[list[BubbleDiagram]]
    scores: SampleScores
    model: ModelEvaluation | None
    num_unreadable: int
    plans: PlanScores | None

    def sections(self) -> list[TableSection]:
        """Samples first."""
        plans = [] if self.plans is None else [self.plans.section()]
        model = [] if self.model is None else self.model.sections()
        return [*self.scores.sections(), *plans, *model]

    def notes(self) -> list[str]:
        notes = [f"Real data: {self.real.name}.", *self.scores.notes(self.num_unreadable)]
        notes += [] if self.plans is None else [self.plans.note()]
        return notes if self.model is None else [*notes, *model_notes(self.model.scores)]

    def metrics(self) -> dict[str, Any]:
        """Single numbers before lists and tables."""
        found = self.scores.as_dict() | ({} if self.model is None else self.model.metrics())
        found |= {} if self.plans is None else self.plans.as_dict()
        scalars = {k: v for k, v in found.items() if not isinstance(v, dict | list)}
        return {**self.facts, **scalars, **found}

    def save(self, folder: Path) -> None:
        """The samples of the first set."""
        write_diagrams(folder / "samples.jsonl", self.sets[0])

    def draw(self, folder: Path) -> None:
        draw_grid(self.sets[0][:MAX_DRAWN], folder / "samples.png")
        draw_sample_pictures(list(chain.from_iterable(self.sets)), self.real.reference, folder)
        if self.model is not None:
            self.model.draw(folder)


def evaluate_files(config: DictConfig) -> DiagramEvaluation:
    """``samples=FILE`` or ``samples=[A,B]``; warns if they differ in size.

    Raises ``ValueError`` for an empty list.
    """
    names = as_list(config.samples)
    if not names:
        raise ValueError("samples=[]: give at least one file")
    reports = [read_measured(name, config) for name in names]
    sets = [list(report.diagrams) for report in reports]
    unreadable = [len(report.problems) for report in reports]
    sizes = [len(diagrams) for diagrams in sets]
    if len(set(sizes)) > 1:
        logger.warning(
            "the sample files differ in size (%s): distances depend on it, so their mean mixes "
            "unlike numbers",
            ", ".join(map(str, sizes)),
        )
    facts = {
        "samples": names,
        "num_samples": sizes[0] if len(set(sizes)) == 1 else sizes,
        "num_unreadable_samples": unreadable,
    }
    real = real_data_for_samples(config, sets[0])
    return _scored(config, facts, real, sets, num_unreadable=sum(unreadable))


def evaluate_model(
    config: DictConfig, trained: TrainedModel, vocab: VocabConfig
) -> DiagramEvaluation:
    """The samples of a model, and the model itself."""
    real = real_data_for_model(config, trained, vocab)
    assert real.data is not None
    trained.check_weights()
    num, seeds = _num_samples(config), sampling_seeds(config)
    parts = progress.parts(
        f"drawing {shown_sizes([num] * len(seeds))} samples",
        f"measuring the model on {len(real.reference):,} held-out samples",
        f"scoring the samples, with {_floor_draws(config)} draws for the floors",
    )
    with trained.sharing() as shard:
        model = trained.on(shard)
        with next(parts):
            sets, facts = _drawn(config, trained, model, vocab, len(real.reference))
        with next(parts):
            measured_data = some_held_out(config, real.data, real.split)
            scores = measure_model(config, model, measured_data, real.split)
    facts = {**checkpoint_facts(config, trained, real.data), **facts}
    absorbing = trained.algorithm.process.absorbing
    measured = ModelEvaluation({}, real.name, scores, absorbing, trained.domain.group_titles)
    with next(parts):
        return _scored(config, facts, real, sets, measured)


def _num_samples(config: DictConfig) -> int:
    return NUM_SAMPLES if config.num_samples is None else int(config.num_samples)


def _floor_draws(config: DictConfig) -> int:
    return FLOOR_DRAWS if config.floor_draws is None else int(config.floor_draws)


def _drawn(
    config: DictConfig,
    trained: TrainedModel,
    model: Model,
    vocab: VocabConfig,
    num_held_out: int,
) -> tuple[list[list[BubbleDiagram]], dict[str, Any]]:
    """``num_samples`` diagrams for each of ``seeds`` sampling seeds, and how they were drawn.

    The first batch tells how long that and measuring the model will take."""
    sets, drawn = [], []
    num, seeds = _num_samples(config), sampling_seeds(config)
    start, told = time.perf_counter(), False

    def estimate(rows: Tensor, output: SampleOutput) -> None:
        nonlocal told
        if not told:
            seconds = time.perf_counter() - start
            drawing = seconds / len(rows) * num * len(seeds)
            measuring = seconds / float(output.nfe.sum()) * num_passes(config) * num_held_out
            logger.info(
                "about %.0f s to draw the samples and %.0f s to measure the model",
                *(drawing, measuring),
            )
        told = True

    if model.shard.world_size == 1:
        model = replace(model, on_drawn=estimate)
    for seed in seeds:
        samples = draw_fresh(trained, model, num, seed)
        drawn.append(samples)
        sets.append(decode(samples.tokens, vocab))
        logger.info("seed %d: %s samples in %.1f s", seed, f"{num:,}", samples.seconds)
    return sets, {
        "seeds": seeds,
        "num_samples": num,
        **sampling_facts(config, trained),
        "network_calls_per_sample": sum(samples.network_calls for samples in drawn) / len(drawn),
        "seconds": sum(samples.seconds for samples in drawn) / len(drawn),
    }


def _scored(
    config: DictConfig,
    facts: dict[str, Any],
    real: RealData,
    sets: list[list[BubbleDiagram]],
    model: ModelEvaluation | None = None,
    num_unreadable: int = 0,
) -> DiagramEvaluation:
    logger.info(
        "measuring %s samples against %s real plans",
        shown_sizes([len(diagrams) for diagrams in sets]),
        f"{len(real.reference):,}",
    )
    scores = score_samples(
        sets,
        real.reference,
        training=real.training,
        known=real.known,
        floor_draws=_floor_draws(config),
        seed=config.seed,
    )
    facts = {
        **facts,
        "reference": real.name,
        "num_reference": len(real.reference),
        "num_held_out": len(real.reference),
        "num_held_out_available": real.num_available,
    }
    is_large = any(diagram.num_rooms > RPLAN_VOCAB_CONFIG.n_max for diagram in real.reference)
    usual = NUM_LARGE_VERDICTS if is_large else NUM_VERDICTS
    asked = usual if config.verdicts is None else int(config.verdicts)
    if not scores.has_directions:
        asked = 0  # there is nothing to contradict
    plans = score_plans(sets, real.reference, asked)
    if plans is None and asked:
        logger.info(
            'which samples can be built is not measured without pip install "%s"',
            "discrete-diffusion[plans]",
        )
    return DiagramEvaluation(facts, real, sets, scores, model, num_unreadable, plans)
