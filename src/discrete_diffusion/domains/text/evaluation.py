"""``evaluate`` of a model of text."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from discrete_diffusion.domains.text.judge import read_judge
from discrete_diffusion.domains.text.quality import quality_line
from discrete_diffusion.domains.text.report import TextReport
from discrete_diffusion.evaluation.model_evaluation import ModelEvaluation, evaluate_token_model

if TYPE_CHECKING:
    from discrete_diffusion.evaluation.requests import EvaluateRequest
    from discrete_diffusion.evaluation.trained_model import TrainedModel

logger = logging.getLogger(__name__)


def evaluate_text(request: EvaluateRequest, trained: TrainedModel) -> ModelEvaluation:
    """A model on held-out or other text; its samples, too, if their number or a judge is given.

    Raises ``ValueError`` for a judge that cannot read them, before anything is measured."""
    judge = None if request.judge is None else read_judge(request.judge, trained)
    if request.num_samples is None and judge is None:
        return evaluate_token_model(request, trained)
    found = evaluate_token_model(request, trained, partial(TextReport, judge=judge))
    if judge is not None:
        found.facts["judge"] = judge.name
    if found.samples is not None and found.samples.values:
        calls = {"network_calls_per_sample": found.samples.drawn.network_calls}
        logger.info("%s", quality_line({**found.samples.values, **calls}))
    return found
