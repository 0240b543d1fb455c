"""Bubble diagrams: floor plans as rooms and the spatial relations between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config import Later, LazyEntry
from discrete_diffusion.domains import Domain, register_domain
from floor_plans.commands.data_commands import BRIEF_COMMANDS, COMMANDS
from floor_plans.diagrams.files.foreign_files import PLAN_KINDS
from floor_plans.diagrams.vocabulary import DIRECTIONS, fact_sizes, vocabulary_named
from floor_plans.options import EVALUATE, SAMPLE, TRAIN
from floor_plans.studio.command import STUDIO

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from torch import Tensor

    from discrete_diffusion.data import Dataset
    from discrete_diffusion.domains import SampleScore
    from discrete_diffusion.evaluation import (
        EvaluateRequest,
        Evaluation,
        Report,
        SampleRequest,
        Samples,
        TrainedModel,
    )
    from discrete_diffusion.layout import VocabConfig
    from floor_plans.briefs import answering, brief_request, evaluating
    from floor_plans.diagrams import tokens as token_ids
    from floor_plans.learning import build, completions, evaluation, report, sampling
else:
    answering = Later("floor_plans.briefs.answering")
    brief_request = Later("floor_plans.briefs.brief_request")
    build = Later("floor_plans.learning.build")
    evaluating = Later("floor_plans.briefs.evaluating")
    evaluation = Later("floor_plans.learning.evaluation")
    completions = Later("floor_plans.learning.completions")
    report = Later("floor_plans.learning.report")
    sampling = Later("floor_plans.learning.sampling")
    token_ids = Later("floor_plans.diagrams.tokens")


@register_domain
class BubbleDiagrams(Domain):
    """Domain of bubble diagrams: plans of the embedded generator, or of files."""

    name, title = "bubble_diagrams", "diagrams"
    data_sets = {"bubble_diagrams": "tokens", "plans": "tokens", "cubigraph": "tokens"}
    data_files = ("path", "train_path", "val_path", "test_path", "room_names")
    file_kinds = PLAN_KINDS
    reading_keys = ("room_codes", "unit", "adjacency_threshold")
    data_sets_of_files = {"bubble_diagrams": "plans"}
    fixed_keys = ("max_nodes", "relations", "condition_on", "node_order")
    options = {"sample": SAMPLE, "evaluate": EVALUATE, "train": TRAIN}
    commands = {"data": COMMANDS, "brief": BRIEF_COMMANDS, "studio": {"": STUDIO}}
    group_titles = {"node": "rooms", "edge": "relations"}
    command_help = (
        "plans   realise FILE out=DIR   floor plans in metres from diagrams",
        "plans   make out=DIR [brief=FILE]   sample, realise, keep the best",
        "brief   check FILE        what a brief asks of floor plans, if it can be met",
        "brief   schema            JSON Schema of a brief",
        "studio  [checkpoint=RUN]  a local page: draw, complete, realise",
    )
    setting_help = ("data=plans data.path=plans.jsonl                 your own plans",)
    streamed_file = "samples.jsonl"
    sample_files = (
        *("plans.jsonl", "plans.partial.jsonl", "plans.json", "floor_plans.svg"),
        *("trajectory.gif", "trajectory.png"),
    )
    quick = {
        "num_held_out": 200,
        "num_samples": 200,
        "num_seeds": 1,
        "reference_repeats": 5,
        "num_solver_checks": 50,
        "noise_samples": 1,
        "time_bins": 5,
    }

    cell_measurement = LazyEntry("floor_plans.learning.report:DiagramCells")

    def vocabulary(self, data: Mapping[str, Any]) -> VocabConfig:
        """Vocabularies and slots of the diagrams of a ``config.data``."""
        if data.get("max_nodes") is None:
            raise ValueError(
                "data.max_nodes is not set; give the most rooms of a diagram, such as 8"
            )
        return vocabulary_named(data.get("relations", DIRECTIONS.name)).graph(data["max_nodes"])

    def conditions(self, data: Mapping[str, Any]) -> Mapping[str, tuple[int, ...]]:
        sizes = fact_sizes(data)
        return {"condition": sizes} if sizes else {}

    def build(self, data: DictConfig) -> Dataset:
        return build.build_dataset(data, self.vocabulary(data))

    def test_data(self, data: DictConfig) -> Dataset:
        return build.build_test_plans(data, self.vocabulary(data))

    def tokens(self, data: Mapping[str, Any], samples: Any) -> Tensor:
        return token_ids.encode(samples, self.vocabulary(data)).x0

    def decode(self, data: Mapping[str, Any], tokens: Tensor) -> list[Any]:
        return token_ids.decode(tokens, self.vocabulary(data))

    def rewards(
        self, data: Mapping[str, Any], file: str | None = None
    ) -> Mapping[str, SampleScore]:
        return brief_request.diagram_rewards(self.vocabulary(data), file)

    def report(self, data: Any, split: str, config: DictConfig) -> Report:
        of = report.DiagramReport if data.vocab.edge_directions else report.AdjacencyReport
        return of(data, split, num_verdicts=config.eval.num_solver_checks)

    def sample(self, request: SampleRequest, trained: TrainedModel) -> Samples:
        vocab = self.vocabulary(trained.data_config)
        if request.given is not None:
            choose = None
            if request.brief is not None:
                choose = brief_request.chosen_by_brief(request, trained, vocab)
            return completions.complete_file(request, trained, vocab, choose)
        if request.brief is not None:
            return answering.answer_brief(request, trained, vocab)
        return sampling.sample_diagrams(request, trained, vocab)

    def evaluate(self, request: EvaluateRequest, trained: TrainedModel | None) -> Evaluation:
        if trained is None:
            return evaluation.evaluate_files(request)
        evaluating.refuse_options(request)
        if request.brief is not None:
            return evaluating.evaluate_brief(request, trained, self.vocabulary(trained.data_config))
        return evaluation.evaluate_model(request, trained, self.vocabulary(trained.data_config))
