"""Bubble diagrams: floor plans as rooms and the spatial relations between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from discrete_diffusion.domains import register_domain
from discrete_diffusion.domains.domain import (
    Domain,
    Evaluation,
    Report,
    Sampled,
    SubCommand,
)
from discrete_diffusion.layout import VocabConfig

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.data import Dataset
    from discrete_diffusion.domains.cell_measurement import CellMeasurement
    from discrete_diffusion.evaluation.trained_model import TrainedModel


@register_domain
class BubbleDiagrams(Domain):
    """Plans of the embedded generator, or of files."""

    name, title = "bubble_diagrams", "diagrams"
    data_sets = {"bubble_diagrams": "tokens", "plans": "tokens"}
    settings = frozenset(
        {
            *("codes", "completions", "floor_draws", "given", "max_arrangements", "num_rooms"),
            *("reference", "seeds", "time_bins", "trajectory", "training"),
        }
    )
    settings_of_files = frozenset({"codes", "floor_draws", "reference", "training"})
    of_given = {"completions": "num_samples", "max_arrangements": "", "codes": ""}
    not_with_given = {
        "num_samples": "say how many completions of each partial diagram you want: completions={}",
        "num_rooms": "a partial diagram has as many rooms as it lists, null for those that are "
        "unknown; leave it out",
    }
    group_titles = {"node": "rooms", "edge": "relations"}

    def graph(self, data: Mapping[str, Any]) -> VocabConfig:
        """The vocabularies and slots of its diagrams."""
        if data.get("n_max") is None:
            raise ValueError("data.n_max is not set: the most rooms that a diagram may have")
        return VocabConfig(n_max=data["n_max"])

    def vocabulary(self, data: Mapping[str, Any]) -> dict[str, Any]:
        graph = self.graph(data)
        return {
            "n_max": graph.n_max,
            "room_types": list(graph.node_types),
            "relations": list(graph.edge_types),
        }

    def build(self, data: DictConfig) -> Dataset:
        from discrete_diffusion.domains.bubble_diagrams.build import (
            build_from_files,
            build_generated,
        )

        return (build_from_files if data.name == "plans" else build_generated)(data)

    def report(self, data: Any, split: str, config: DictConfig) -> Report:
        from discrete_diffusion.domains.bubble_diagrams.report import DiagramReport

        return DiagramReport(data, split)

    def sample(self, config: DictConfig, trained: TrainedModel) -> Sampled:
        if config.given is None:
            from discrete_diffusion.domains.bubble_diagrams.sampling import sample_diagrams

            return sample_diagrams(config, trained)
        from discrete_diffusion.domains.bubble_diagrams.completing import complete_file

        return complete_file(config, trained)

    def evaluate(self, config: DictConfig, trained: TrainedModel) -> Evaluation:
        from discrete_diffusion.domains.bubble_diagrams.evaluation import evaluate_model

        return evaluate_model(config, trained)

    def evaluate_files(self, config: DictConfig) -> Evaluation:
        from discrete_diffusion.domains.bubble_diagrams.evaluation import evaluate_files

        return evaluate_files(config)

    def cell_measurement(self) -> CellMeasurement:
        from discrete_diffusion.domains.bubble_diagrams.report import DiagramReport
        from discrete_diffusion.domains.cell_measurement import TokenCells

        return TokenCells(DiagramReport)

    def commands(self) -> Mapping[str, SubCommand]:
        from discrete_diffusion.domains.bubble_diagrams.commands import COMMANDS

        return COMMANDS
