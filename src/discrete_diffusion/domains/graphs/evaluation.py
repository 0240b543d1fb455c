"""``evaluate`` of graphs: what samples are like, and the model itself."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.data.graph_tokens import TypedGraph, decode_graphs
from discrete_diffusion.domains.graphs.files.writers import write_graphs
from discrete_diffusion.domains.graphs.graph_types import GraphTypes, Untyped
from discrete_diffusion.domains.graphs.libraries import check_installed
from discrete_diffusion.domains.graphs.metrics.graph_set import GraphSet
from discrete_diffusion.domains.graphs.pictures import MAX_DRAWN, plot_graphs
from discrete_diffusion.domains.graphs.real_data import (
    RealGraphs,
    read_measured,
    real_data_for_model,
    real_data_for_samples,
)
from discrete_diffusion.domains.graphs.report import SAMPLES
from discrete_diffusion.domains.graphs.sample_scores import (
    SampledGraphs,
    SampleScores,
    score_samples,
)
from discrete_diffusion.domains.graphs.structures import STRUCTURES
from discrete_diffusion.evaluation.held_out import sampling_seeds
from discrete_diffusion.evaluation.measured_data import MeasuredData
from discrete_diffusion.evaluation.model_evaluation import ModelEvaluation
from discrete_diffusion.evaluation.report import Evaluation, scalars_first
from discrete_diffusion.evaluation.sample_sets import SampleSets, facts_of_files, sample_and_measure
from discrete_diffusion.evaluation.structure import Structure, structure_notes, structure_sections
from discrete_diffusion.evaluation.table import TableSection, model_notes
from discrete_diffusion.runtime import progress

if TYPE_CHECKING:
    from torch import Tensor

    from discrete_diffusion.evaluation.requests import EvaluateRequest
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.layout.vocab_config import VocabConfig

logger = logging.getLogger(__name__)

FLOOR_DRAWS = 20
"""If ``floor_draws`` does not say."""


@dataclass(frozen=True)
class GraphEvaluation(Evaluation):
    """``facts``: how all was measured. ``sets``: the samples, by sampling seed or file.
    ``model``: what was measured of the model itself; None of files of samples.
    """

    facts: dict[str, Any]
    real: RealGraphs
    types: GraphTypes
    sets: list[list[TypedGraph]]
    scores: SampleScores
    model: ModelEvaluation | None

    def sections(self) -> list[TableSection]:
        """Sections of the table, samples first."""
        model = [] if self.model is None else self.model.sections()
        return [*self.scores.sections(), *structure_sections(self.facts), *model]

    def notes(self) -> list[str]:
        notes = [f"Reference: {self.real.name}.", *self.scores.notes(), *self.real.notes()]
        notes += structure_notes(self.facts)
        return notes if self.model is None else [*notes, *model_notes(self.model.scores)]

    def metrics(self) -> dict[str, Any]:
        """Single numbers before lists and tables."""
        found = self.scores.as_dict() | ({} if self.model is None else self.model.metrics())
        return {**self.facts, **scalars_first(found)}

    def save(self, folder: Path) -> None:
        """The samples of the first set."""
        write_graphs(folder / SAMPLES, self.sets[0], self.types)

    def plot(self, folder: Path) -> None:
        if self.sets[0]:
            plot_graphs(self.sets[0][:MAX_DRAWN], folder / "samples.png", self.types)
        if self.model is not None:
            self.model.plot(folder)


def evaluate_files(request: EvaluateRequest) -> GraphEvaluation:
    """``samples=FILE`` or ``samples=[A,B]``, as graphs without types. Raises ``ValueError`` for an
    empty list."""
    check_installed()
    names, types = request.samples, Untyped()
    if not names:
        raise ValueError("samples=[]: give at least one file")
    real = real_data_for_samples(request, types)
    reports = [read_measured(name, request, types, samples=True) for name in names]
    sets = [SampledGraphs(GraphSet(r.graphs), len(r.problems)) for r in reports]
    facts = facts_of_files(
        names, [len(each) for each in sets], [each.num_unreadable for each in sets]
    )
    scores = _scores(request, real, sets, request.kind)
    graphs = [r.graphs for r in reports]
    return GraphEvaluation(facts | real.facts(), real, types, graphs, scores, None)


def evaluate_model(
    request: EvaluateRequest, trained: TrainedModel, vocab: VocabConfig
) -> GraphEvaluation:
    """The samples of a model, as many per seed as there are reference graphs unless
    ``num_samples`` says, and the model itself."""
    check_installed()
    real = real_data_for_model(request, trained, vocab)
    assert real.data is not None
    trained.check_weights()
    num = len(real.reference) if request.num_samples is None else int(request.num_samples)
    types = GraphTypes.of(trained.data_config)

    def save(drawn: Tensor, folder: Path) -> None:
        write_graphs(folder / SAMPLES, decode_graphs(drawn, vocab), types)

    drawing = SampleSets(num, sampling_seeds(request), save)
    parts = progress.parts(*drawing.parts(len(real.reference)), "scoring the samples")
    tokens, facts, measured = sample_and_measure(
        *(request, trained, MeasuredData(real.data, real.split, real.name), drawing),
        parts=parts,
        structure=Structure.requested(request, STRUCTURES, vocab),
    )
    sets = [decode_graphs(drawn, vocab) for drawn in tokens]
    kind = trained.data_config.kind if request.kind is None else request.kind
    with next(parts):
        scores = _scores(request, real, [SampledGraphs(GraphSet(each)) for each in sets], kind)
    return GraphEvaluation(facts | real.facts(), real, types, sets, scores, measured)


def _scores(
    request: EvaluateRequest, real: RealGraphs, sets: Sequence[SampledGraphs], kind: str | None
) -> SampleScores:
    return score_samples(
        sets,
        real,
        kind=kind,
        kernel=request.kernel,
        floor_draws=FLOOR_DRAWS if request.floor_draws is None else int(request.floor_draws),
        seed=request.seed,
    )
