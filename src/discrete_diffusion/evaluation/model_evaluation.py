"""``evaluate`` of a model of tokens itself: its bound and its calibration."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.domains.domain import Evaluation
from discrete_diffusion.evaluation.held_out import (
    BOUND_DRAWS,
    checkpoint_facts,
    held_out_split,
    name_of_split,
    readable_data,
)
from discrete_diffusion.evaluation.model_scores import ModelScores, score_model
from discrete_diffusion.evaluation.pictures import draw_model_pictures
from discrete_diffusion.evaluation.table import TableSection, model_notes, model_sections

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.data import TokenDataset
    from discrete_diffusion.evaluation.trained_model import Model, TrainedModel

logger = logging.getLogger(__name__)

TIME_BINS = 20
"""If ``time_bins`` does not say."""


@dataclass(frozen=True)
class ModelEvaluation(Evaluation):
    """``facts``: how all was measured. ``reference``: what it was measured on, in words.
    ``absorbing``: tokens are masked, not changed. ``group_titles``: what token groups are called.
    """

    facts: dict[str, Any]
    reference: str
    scores: ModelScores
    absorbing: bool = True
    group_titles: Mapping[str, str] = field(default_factory=dict)

    def metrics(self) -> dict[str, Any]:
        return {**self.facts, **self.scores.as_dict()}

    def sections(self) -> list[TableSection]:
        return model_sections(self.scores)

    def notes(self) -> list[str]:
        return [f"Real data: {self.reference}.", *model_notes(self.scores)]

    def draw(self, folder: Path) -> None:
        draw_model_pictures(self.scores, folder, absorbing=self.absorbing, titles=self.group_titles)


def measure_model(config: DictConfig, model: Model, data: TokenDataset, split: str) -> ModelScores:
    """As ``config`` says: ``bound_draws``, ``time_bins``, ``seed``."""
    logger.info("measuring the model on %s held-out samples", f"{len(data.splits[split]):,}")
    return score_model(
        model.algorithm,
        data,
        split,
        bound_draws=BOUND_DRAWS if config.bound_draws is None else config.bound_draws,
        time_bins=TIME_BINS if config.time_bins is None else config.time_bins,
        batch_size=model.rows_at_once,
        seed=config.seed,
        device=model.device,
        shard=model.shard,
    )


def evaluate_token_model(config: DictConfig, trained: TrainedModel) -> ModelEvaluation:
    """A model of tokens on the split that its checkpoint held out, without samples."""
    data = readable_data(trained)
    split = held_out_split(data, config.split)
    reference = name_of_split(trained, data, split)
    name = trained.data_config.name
    logger.info("no metrics of samples exist for data=%s; measuring the model", name)
    with trained.sharing() as shard:
        scores = measure_model(config, trained.on(shard), data, split)
    facts = {
        **checkpoint_facts(config, trained, data),
        "reference": reference,
        "num_reference": len(data.splits[split]),
    }
    absorbing = trained.algorithm.process.absorbing
    return ModelEvaluation(facts, reference, scores, absorbing, trained.domain.group_titles)
