"""``evaluate`` of diagrams: metrics of samples, and of the model itself."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.evaluation import (
    Evaluation,
    ModelEvaluation,
    SampleScores,
    TableSection,
    facts_of_files,
    interval_entries,
    model_notes,
    sample_and_measure,
    scalars_first,
    shown_sizes,
)
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG
from discrete_diffusion.runtime import install_command
from floor_plans.diagrams.files.graph_formats import write_diagrams
from floor_plans.diagrams.metrics.sample_scores import score_samples
from floor_plans.diagrams.pictures.diagram_pictures import MAX_DRAWN, plot_grid
from floor_plans.diagrams.pictures.statistics import plot_samples
from floor_plans.diagrams.tokens import decode
from floor_plans.learning.conditions.conditioning_scores import (
    ConditioningScores,
    measure_conditioning,
)
from floor_plans.learning.real_data import (
    RealDiagrams,
    read_measured,
    real_data_for_model,
    real_data_for_samples,
)
from floor_plans.learning.report import NUM_LARGE_VERDICTS
from floor_plans.plans.verdict import NUM_VERDICTS, PlanScores, score_plans

if TYPE_CHECKING:
    from discrete_diffusion.evaluation import EvaluateRequest, TrainedModel
    from discrete_diffusion.layout import VocabConfig
    from floor_plans.diagrams.diagram import BubbleDiagram

logger = logging.getLogger(__name__)

FLOOR_DRAWS = 20
"""Default of ``floor_draws``."""

NUM_SAMPLES = 2_000
"""Default of ``num_samples``."""


@dataclass(frozen=True)
class DiagramEvaluation(Evaluation):
    """Evaluation of sampled diagrams, and of their model.

    ``facts``: settings of the measurement. ``sets``: samples by sampling seed or file. ``model``:
    measurements of the model itself, None for files of samples. ``plans``: shares of samples with a
    floor plan, None if not requested, or without OR-Tools. ``conditioning``: scores of a
    conditional model, else None.
    """

    facts: dict[str, Any]
    real: RealDiagrams
    sets: list[list[BubbleDiagram]]
    scores: SampleScores
    model: ModelEvaluation | None
    plans: PlanScores | None
    conditioning: ConditioningScores | None = None

    def sections(self) -> list[TableSection]:
        """Sections of the table, samples first."""
        plans = [] if self.plans is None else [self.plans.section()]
        model = [] if self.model is None else self.model.sections()
        conditioning = [] if self.conditioning is None else [self.conditioning.section()]
        return [*self.scores.sections(), *plans, *model, *conditioning]

    def notes(self) -> list[str]:
        notes = [f"Real data: {self.real.name}.", *self.scores.notes]
        notes += self.real.notes()
        notes += [] if self.plans is None else [self.plans.note()]
        notes += [] if self.conditioning is None else [self.conditioning.note()]
        return notes if self.model is None else [*notes, *model_notes(self.model.scores)]

    def metrics(self) -> dict[str, Any]:
        """Values for ``metrics.json``: single numbers before lists and tables."""
        found = self.scores.as_dict() | ({} if self.model is None else self.model.metrics())
        if self.plans is not None:
            found |= self.plans.as_dict()
            found |= interval_entries({**self.scores.intervals, **self.plans.intervals})
        found |= {} if self.conditioning is None else self.conditioning.as_dict()
        return {**self.facts, **scalars_first(found)}

    def save(self, folder: Path) -> None:
        """Write the samples of the first set."""
        write_diagrams(folder / "samples.jsonl", self.sets[0])

    def plot(self, folder: Path) -> None:
        plot_grid(self.sets[0][:MAX_DRAWN], folder / "samples.png")
        plot_samples(list(chain.from_iterable(self.sets)), self.real.reference, folder)
        if self.model is not None:
            self.model.plot(folder)


def evaluate_files(request: EvaluateRequest) -> DiagramEvaluation:
    """Evaluate ``samples=FILE`` or ``samples=[A,B]``; warn if these differ in size.

    Raises ``ValueError`` for an empty list.
    """
    names = request.samples
    if not names:
        raise ValueError("samples=[]: give at least one file")
    reports = [read_measured(name, request) for name in names]
    sets = [list(report.diagrams) for report in reports]
    unreadable = [len(report.problems) for report in reports]
    facts = facts_of_files(names, [len(diagrams) for diagrams in sets], unreadable)
    real = real_data_for_samples(request, sets[0])
    return _scored(request, facts, real, sets, num_unreadable=sum(unreadable))


def evaluate_model(
    request: EvaluateRequest, trained: TrainedModel, vocab: VocabConfig
) -> DiagramEvaluation:
    """Evaluate samples of a model, and the model itself."""
    real = real_data_for_model(request, trained, vocab)
    on = real.on
    assert on is not None
    trained.check_weights()
    conditioning = list[ConditioningScores | None]()
    tokens, facts, measured, scoring = sample_and_measure(
        request,
        trained,
        on,
        num=NUM_SAMPLES,
        save=lambda drawn, folder: write_diagrams(folder / "samples.jsonl", decode(drawn, vocab)),
        scoring=f"scoring the samples, with {_floor_draws(request)} draws for the floors",
        also=lambda model: conditioning.append(
            measure_conditioning(model, on.data, on.split, request.seed)
        ),
    )
    sets = [decode(drawn, vocab) for drawn in tokens]
    with scoring:
        return replace(_scored(request, facts, real, sets, measured), conditioning=conditioning[0])


def _floor_draws(request: EvaluateRequest) -> int:
    return FLOOR_DRAWS if request.floor_draws is None else int(request.floor_draws)


def _scored(
    request: EvaluateRequest,
    facts: dict[str, Any],
    real: RealDiagrams,
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
        floor_draws=_floor_draws(request),
        seed=request.seed,
        num_unreadable=num_unreadable,
    )
    facts = {**facts, **real.facts()}
    # shares of samples that can be built, if OR-Tools is installed
    is_large = any(diagram.num_rooms > RPLAN_VOCAB_CONFIG.n_max for diagram in real.reference)
    usual = NUM_LARGE_VERDICTS if is_large else NUM_VERDICTS
    asked = usual if request.verdicts is None else int(request.verdicts)
    if "transitive" not in scores.per_seed:
        asked = 0  # relations without direction have no contradictions
    plans = score_plans(sets, real.reference, asked)
    if plans is None and asked:
        logger.info(
            "the share of samples that can be built is not measured without %s",
            install_command("plans"),
        )
    return DiagramEvaluation(facts, real, sets, scores, model, plans)
