"""Bubble diagrams: floor plans as rooms and the spatial relations between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from discrete_diffusion.domains import register_domain
from discrete_diffusion.domains.bubble_diagrams.briefs.command import BRIEF_COMMANDS
from discrete_diffusion.domains.bubble_diagrams.commands.data_commands import COMMANDS
from discrete_diffusion.domains.bubble_diagrams.files.file_kinds import PLAN_KINDS
from discrete_diffusion.domains.bubble_diagrams.options import EVALUATE, SAMPLE, TRAIN
from discrete_diffusion.domains.bubble_diagrams.studio.command import STUDIO
from discrete_diffusion.domains.bubble_diagrams.vocabulary import DIRECTIONS, vocabulary_named
from discrete_diffusion.domains.domain import Domain
from discrete_diffusion.domains.sub_command import SubCommand

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from torch import Tensor

    from discrete_diffusion.data.base import Dataset
    from discrete_diffusion.domains.cell_measurement import CellMeasurement, SampleScore
    from discrete_diffusion.evaluation.report import Evaluation, Report, Samples
    from discrete_diffusion.evaluation.requests import EvaluateRequest, SampleRequest
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.layout.vocab_config import VocabConfig


@register_domain
class BubbleDiagrams(Domain):
    """Plans of the embedded generator, or of files."""

    name, title = "bubble_diagrams", "diagrams"
    data_sets = {"bubble_diagrams": "tokens", "plans": "tokens", "cubigraph": "tokens"}
    data_files = ("path", "train_path", "val_path", "test_path", "names")
    file_kinds = PLAN_KINDS
    data_sets_of_files = {"bubble_diagrams": "plans"}
    fixed_keys = ("n_max", "relations", "condition", "node_order")
    sample_options, evaluate_options, train_options = SAMPLE, EVALUATE, TRAIN
    group_titles = {"node": "rooms", "edge": "relations"}
    streamed_file = "samples.jsonl"
    sample_files = (
        *("plans.jsonl", "plans.partial.jsonl", "plans.json", "floor_plans.svg"),
        *("trajectory.gif", "trajectory.png"),
    )
    quick = {
        "num_held_out": 200,
        "num_samples": 200,
        "seeds": 1,
        "floor_draws": 5,
        "verdicts": 50,
        "bound_draws": 1,
        "time_bins": 5,
    }

    def graph(self, data: Mapping[str, Any]) -> VocabConfig:
        """The vocabularies and slots of its diagrams."""
        if data.get("n_max") is None:
            raise ValueError("data.n_max is not set; give the most rooms of a diagram, such as 8")
        return vocabulary_named(data.get("relations", DIRECTIONS.name)).graph(data["n_max"])

    def conditions(self, data: Mapping[str, Any]) -> tuple[str, ...]:
        return ("condition",) if data.get("condition") else ()

    def condition_sizes(self, data: Mapping[str, Any]) -> tuple[int, ...] | None:
        from discrete_diffusion.domains.bubble_diagrams.conditions.facts import Facts

        facts = Facts.of(data, self.graph(data))
        return None if facts is None else facts.sizes

    def vocabulary(self, data: Mapping[str, Any]) -> dict[str, Any]:
        graph = self.graph(data)
        return {
            "n_max": graph.n_max,
            "room_types": list(graph.node_types),
            "relations": list(graph.edge_types),
        }

    def build(self, data: DictConfig) -> Dataset:
        from discrete_diffusion.domains.bubble_diagrams.work import build_dataset

        return build_dataset(data, self.graph(data))

    def test_data(self, data: DictConfig) -> Dataset:
        from discrete_diffusion.domains.bubble_diagrams.work import build_test_plans

        return build_test_plans(data, self.graph(data))

    def tokens(self, data: Mapping[str, Any], samples: Any) -> Tensor:
        from discrete_diffusion.domains.bubble_diagrams.work import encode

        return encode(samples, self.graph(data)).x0

    def decode(self, data: Mapping[str, Any], tokens: Tensor) -> list[Any]:
        from discrete_diffusion.domains.bubble_diagrams.work import decode

        return decode(tokens, self.graph(data))

    def rewards(
        self, data: Mapping[str, Any], file: str | None = None
    ) -> Mapping[str, SampleScore]:
        from discrete_diffusion.domains.bubble_diagrams.work import diagram_rewards

        return diagram_rewards(self.graph(data), file)

    def report(self, data: Any, split: str, config: DictConfig) -> Report:
        from discrete_diffusion.domains.bubble_diagrams.work import AdjacencyReport, DiagramReport

        of = DiagramReport if data.vocab.edge_directions else AdjacencyReport
        return of(data, split, num_verdicts=config.eval.verdicts)

    def sample(self, request: SampleRequest, trained: TrainedModel) -> Samples:
        from discrete_diffusion.domains.bubble_diagrams.work import (
            answer_brief,
            chosen_by_brief,
            complete_file,
            sample_diagrams,
        )

        vocab = self.graph(trained.data_config)
        if request.given is not None:
            choose = None if request.brief is None else chosen_by_brief(request, trained, vocab)
            return complete_file(request, trained, vocab, choose)
        if request.brief is not None:
            return answer_brief(request, trained, vocab)
        return sample_diagrams(request, trained, vocab)

    def evaluate(self, request: EvaluateRequest, trained: TrainedModel) -> Evaluation:
        from discrete_diffusion.domains.bubble_diagrams.work import (
            evaluate_brief,
            evaluate_model,
            refuse_options,
        )

        refuse_options(request)
        if request.brief is not None:
            return evaluate_brief(request, trained, self.graph(trained.data_config))
        return evaluate_model(request, trained, self.graph(trained.data_config))

    def evaluate_files(self, request: EvaluateRequest) -> Evaluation:
        from discrete_diffusion.domains.bubble_diagrams.work import evaluate_files

        return evaluate_files(request)

    def cell_measurement(self) -> CellMeasurement:
        from discrete_diffusion.domains.bubble_diagrams.work import DiagramCells

        return DiagramCells()

    def commands(self) -> Mapping[str, SubCommand]:
        return COMMANDS

    def own_commands(self) -> Mapping[str, Mapping[str, SubCommand]]:
        return {"brief": BRIEF_COMMANDS, "studio": {"": STUDIO}}
