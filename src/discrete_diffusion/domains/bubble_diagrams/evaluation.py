"""``evaluate`` of diagrams: what samples are like, and the model itself."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.domains.bubble_diagrams.domain import BubbleDiagrams
from discrete_diffusion.domains.bubble_diagrams.files.writers import write_diagrams
from discrete_diffusion.domains.bubble_diagrams.pictures.drawing import draw_grid
from discrete_diffusion.domains.bubble_diagrams.pictures.statistics import draw_sample_pictures
from discrete_diffusion.domains.bubble_diagrams.real_data import (
    RealData,
    real_data_for_model,
    real_data_for_samples,
)
from discrete_diffusion.domains.bubble_diagrams.report import MAX_DRAWN
from discrete_diffusion.domains.bubble_diagrams.sample_scores import SampleScores, score_samples
from discrete_diffusion.domains.bubble_diagrams.sample_sets import (
    SampleSets,
    draw_sample_sets,
    read_sample_sets,
)
from discrete_diffusion.domains.bubble_diagrams.sample_table import (
    sample_notes,
    sample_sections,
    shown_sizes,
)
from discrete_diffusion.domains.domain import Evaluation
from discrete_diffusion.evaluation.held_out import checkpoint_facts
from discrete_diffusion.evaluation.model_evaluation import ModelEvaluation, measure_model
from discrete_diffusion.evaluation.table import TableSection, model_notes

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.evaluation.trained_model import TrainedModel

logger = logging.getLogger(__name__)

FLOOR_DRAWS = 20
"""If ``floor_draws`` does not say."""


@dataclass(frozen=True)
class DiagramEvaluation(Evaluation):
    """``model``: what was measured of the model itself; None of files of samples."""

    facts: dict[str, Any]
    real: RealData
    samples: SampleSets
    scores: SampleScores
    model: ModelEvaluation | None

    def sections(self) -> list[TableSection]:
        """Samples first."""
        return sample_sections(self.scores) + ([] if self.model is None else self.model.sections())

    def notes(self) -> list[str]:
        notes = [
            f"Real data: {self.real.name}.",
            *sample_notes(
                self.scores,
                self.samples.sizes,
                len(self.real.reference),
                self.samples.unreadable,
            ),
        ]
        return notes if self.model is None else [*notes, *model_notes(self.model.scores)]

    def metrics(self) -> dict[str, Any]:
        samples = self.scores.as_dict()
        model = {} if self.model is None else self.model.metrics()
        scalars = {k: v for k, v in {**samples, **model}.items() if not isinstance(v, dict | list)}
        return {**self.facts, **scalars, **samples, **model}

    def save(self, folder: Path) -> None:
        """The samples of the first set."""
        write_diagrams(folder / "samples.jsonl", self.samples.sets[0])

    def draw(self, folder: Path) -> None:
        draw_grid(self.samples.sets[0][:MAX_DRAWN], folder / "samples.png")
        pooled = [diagram for diagrams in self.samples.sets for diagram in diagrams]
        draw_sample_pictures(pooled, self.real.reference, folder)
        if self.model is not None:
            self.model.draw(folder)


def evaluate_files(config: DictConfig) -> DiagramEvaluation:
    """``samples=FILE`` or ``samples=[A,B]``."""
    samples = read_sample_sets(config)
    real = real_data_for_samples(config)
    facts = {
        **samples.facts,
        "reference": real.name,
        "num_reference": len(real.reference),
    }
    return DiagramEvaluation(facts, real, samples, _score(config, samples, real), None)


def evaluate_model(config: DictConfig, trained: TrainedModel) -> DiagramEvaluation:
    """The samples of a model, and the model itself."""
    real = real_data_for_model(config, trained)
    assert real.data is not None
    trained.check_weights()
    with trained.sharing() as shard:
        model = trained.on(shard)
        samples = draw_sample_sets(config, trained, model)
        scores = measure_model(config, model, real.data, real.split)
    facts = {
        **checkpoint_facts(config, trained, real.data),
        **samples.facts,
        "reference": real.name,
        "num_reference": len(real.data.splits[real.split]),
    }
    measured = ModelEvaluation(
        {},
        real.name,
        scores,
        trained.algorithm.process.absorbing,
        BubbleDiagrams.group_titles,
    )
    return DiagramEvaluation(facts, real, samples, _score(config, samples, real), measured)


def _score(config: DictConfig, samples: SampleSets, real: RealData) -> SampleScores:
    logger.info(
        "measuring %s samples against %s real plans",
        shown_sizes(samples.sizes),
        f"{len(real.reference):,}",
    )
    return score_samples(
        samples.sets,
        real.reference,
        training=real.training,
        known=real.known,
        floor_draws=FLOOR_DRAWS if config.floor_draws is None else config.floor_draws,
        seed=config.seed,
    )
