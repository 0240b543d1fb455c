"""Graphs of any kind: benchmark graphs, or your own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config.plugins import Later, LazyEntry
from discrete_diffusion.config.values import check_name
from discrete_diffusion.domains.domain import GRAPH_FEATURES, Domain
from discrete_diffusion.domains.graphs.commands import COMMANDS
from discrete_diffusion.domains.graphs.file_kinds import GRAPH_KINDS
from discrete_diffusion.domains.graphs.structures import STRUCTURES
from discrete_diffusion.domains.option import (
    DATA,
    FLOOR_DRAWS,
    LIKELIHOOD,
    ORDERS,
    SEEDS,
    TIME_BINS,
    Option,
    completions,
)
from discrete_diffusion.domains.registry import register_domain

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.data.base import Dataset
    from discrete_diffusion.domains.cell_measurement import SampleScore
    from discrete_diffusion.domains.graphs import build, libraries, requests
    from discrete_diffusion.domains.graphs.metrics import validity
    from discrete_diffusion.evaluation.report import Evaluation, Samples
    from discrete_diffusion.evaluation.requests import EvaluateRequest, SampleRequest
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.layout.vocab_config import VocabConfig
else:
    build = Later("discrete_diffusion.domains.graphs.build")
    libraries = Later("discrete_diffusion.domains.graphs.libraries")
    validity = Later("discrete_diffusion.domains.graphs.metrics.validity")
    requests = Later("discrete_diffusion.domains.graphs.requests")

_STRUCTURE = Option(
    "structure",
    "tree, forest, connected or planar: every sample is, for its edges are narrowed as they are "
    "drawn; samples get weights that undo what this tilts; null narrows nothing",
    registry=STRUCTURES,
)
_SAMPLE = (
    Option(
        "nodes_per_graph",
        "nodes of every graph, or several numbers to sample as often as in the training data among "
        "them, nodes_per_graph=[12,16]; null samples all that the training data has",
        least=1,
        listed=True,
        without_given="a partial graph has as many nodes as its n says",
    ),
    Option("given", "a file of partial graphs to complete, see docs/graphs.md", is_file=True),
    completions("of each partial graph; null is 4"),
    Option(
        "graphml",
        "true: also every sample as GraphML, graphml/0.graphml, ...",
        default=False,
        written=True,
    ),
    _STRUCTURE,
)
_EVALUATE = (
    DATA,
    Option(
        "reference",
        "graphs to compare with; null takes those that the checkpoint held out. A file with splits "
        "gives its test graphs, and its training graphs as training",
        is_file=True,
        of_files=True,
    ),
    Option(
        "training",
        "graphs trained on, for novelty and the ratio; null takes those of the checkpoint",
        is_file=True,
        of_files=True,
    ),
    SEEDS,
    FLOOR_DRAWS,
    Option(
        "kind",
        "what makes a graph valid; null takes data.kind of the checkpoint",
        words=("planar", "tree", "sbm", "community", "ego"),
        of_files=True,
    ),
    Option(
        "kernel",
        "of the distances: of total variation or of the earth mover's distance; null is emd for "
        "the kinds community and ego, else tv",
        words=("tv", "emd"),
        of_files=True,
    ),
    TIME_BINS,
    LIKELIHOOD,
    ORDERS,
    Option(
        "skip_invalid",
        "files: true leaves out graphs that cannot be read, and counts them",
        default=False,
        of_files=True,
        reading=True,
    ),
    _STRUCTURE,
)


@register_domain
class Graphs(Domain):
    """Graphs of files."""

    name, title = "graphs", "graphs"
    data_sets = {"graphs": "tokens"}
    data_files = ("path", "train_path", "val_path", "test_path")
    file_kinds = GRAPH_KINDS
    fixed_keys = ("n_max", "node_types", "edge_types", "node_order")
    options = {"sample": _SAMPLE, "evaluate": _EVALUATE}
    commands = {"data": COMMANDS}
    graph_features = GRAPH_FEATURES
    group_titles = {"node": "nodes", "edge": "pairs"}
    sample_files = ("samples.jsonl", "graphml")
    streamed_file = "samples.jsonl"
    quick = {
        "num_held_out": 40,
        "num_samples": 40,
        "seeds": 1,
        "floor_draws": 5,
        "bound_draws": 1,
        "time_bins": 5,
    }

    report = LazyEntry("discrete_diffusion.domains.graphs.report:GraphReport")
    cell_measurement = LazyEntry("discrete_diffusion.domains.graphs.report:GraphCells")

    def complete(self, data: DictConfig) -> None:
        """``n_max`` follows from the graphs, unless it is set."""
        libraries.check_installed()
        if data.kind is not None:
            check_name("data.kind", str(data.kind), validity.KINDS)
        if data.n_max is None:
            data.n_max = build.largest_graph(data)

    def vocabulary(self, data: Mapping[str, Any]) -> VocabConfig:
        """The vocabularies and slots of its graphs."""
        from discrete_diffusion.domains.graphs.graph_types import GraphTypes

        if data.get("n_max") is None:
            raise ValueError(
                "data.n_max is not set: the most nodes that a graph may have; complete_data(config)"
                " reads it off the graphs"
            )
        return GraphTypes.of(data).vocabulary(data["n_max"])

    def build(self, data: DictConfig) -> Dataset:
        return build.build_dataset(data, self.vocabulary(data))

    def test_data(self, data: DictConfig) -> Dataset:
        return build.build_test_graphs(data, self.vocabulary(data))

    def rewards(
        self, data: Mapping[str, Any], file: str | None = None
    ) -> Mapping[str, SampleScore]:
        return validity.graph_rewards(data.get("kind"))

    def sample(self, request: SampleRequest, trained: TrainedModel) -> Samples:
        drawn_by = requests.sample_graphs if request.given is None else requests.complete_graphs
        return drawn_by(request, trained, self.vocabulary(trained.data_config))

    def evaluate(self, request: EvaluateRequest, trained: TrainedModel | None) -> Evaluation:
        if trained is None:
            return requests.evaluate_files(request)
        return requests.evaluate_model(request, trained, self.vocabulary(trained.data_config))
