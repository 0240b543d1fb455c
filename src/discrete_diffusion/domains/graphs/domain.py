"""Graphs of any kind: benchmark graphs or a user's own, and ``discrete-diffusion data graphs``."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config.plugins import Later, LazyEntry
from discrete_diffusion.config.values import check_name, counted
from discrete_diffusion.domains.commands import SubCommand
from discrete_diffusion.domains.domain import GRAPH_FEATURES, Domain
from discrete_diffusion.domains.graphs.options import EVALUATE_OPTIONS, GRAPH_KINDS, SAMPLE_OPTIONS
from discrete_diffusion.domains.registry import register_domain

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.data.base import Dataset
    from discrete_diffusion.domains.cell_measurement import SampleScore
    from discrete_diffusion.domains.graphs import build, graph_set, metrics, readers, requests
    from discrete_diffusion.domains.graphs import records as graph_records
    from discrete_diffusion.evaluation.report import Evaluation, Samples
    from discrete_diffusion.evaluation.requests import EvaluateRequest, SampleRequest
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.layout.vocab_config import VocabConfig
else:
    build = Later("discrete_diffusion.domains.graphs.build")
    graph_records = Later("discrete_diffusion.domains.graphs.records")
    graph_set = Later("discrete_diffusion.domains.graphs.graph_set")
    metrics = Later("discrete_diffusion.domains.graphs.metrics")
    readers = Later("discrete_diffusion.domains.graphs.readers")
    requests = Later("discrete_diffusion.domains.graphs.requests")


def add_file_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="graphs: a file or folder, see docs/graphs_and_molecules.md"
    )
    parser.add_argument("--node-types", help="names of the types of nodes, such as a,b")
    parser.add_argument("--edge-types", help="of edges, the last for no edge, such as thin,none")


def check_file(options: Namespace) -> None:
    """Read a file or folder of graphs and say what it holds: how it was read, how many graphs,
    nodes, edges and types, what was dropped, and what cannot be read."""
    default = graph_records.GraphTypes()
    types = graph_records.GraphTypes.of(
        {
            "node_types": _names(options.node_types) or list(default.nodes),
            "edge_types": _names(options.edge_types) or list(default.edges),
        }
    )
    source = readers.read_graphs(options.file, types, skip_invalid=True)
    graphs = source.graphs
    splits = _shares((name, len(part)) for name, part in source.splits.items())
    print(f"{options.file}: {counted(len(graphs), 'graph')}", end="")
    print(f" ({splits})" if len(source.splits) > 1 else "")
    print(f"read as: {_shares(source.notes.forms.items())}")
    for sentence in source.notes.sentences():
        print(sentence)
    # sizes of the graphs
    sizes, edges = [len(graph.nodes) for graph in graphs], [len(graph.edges) for graph in graphs]
    print(f"nodes of a graph: {_range(sizes)} (data.n_max={max(sizes)})")
    print(f"edges of a graph: {_range(edges)}")
    alone = sum(
        len(graph.nodes) - len({node for i, j, _ in graph.edges for node in (i, j)})
        for graph in graphs
    )
    pieces = sum(not metrics.is_connected(graph) for graph in graphs)
    print(f"in several pieces: {counted(pieces, 'graph')}", end="; ")
    print(f"without an edge: {counted(alone, 'node')}")
    # numbers of each type
    nodes_of = Counter(types.nodes[kind] for graph in graphs for kind in graph.nodes)
    edges_of = Counter(types.edges[kind] for graph in graphs for *_, kind in graph.edges)
    print(f"nodes: {_shares(nodes_of.most_common())}")
    print(f"edges: {_shares(edges_of.most_common()) or 'none'}")
    if source.problems:
        print(f"left out {counted(len(source.problems), 'graph')} that cannot be read:")
        for problem in source.problems[:5]:
            print(f"  {problem}")


def _range(numbers: Sequence[int]) -> str:
    same = min(numbers) == max(numbers)
    return f"{min(numbers):,}" if same else f"{min(numbers):,} to {max(numbers):,}"


def _shares(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in counts)


def _names(given: str | None) -> list[str]:
    return [] if given is None else [name.strip() for name in given.strip("[]").split(",")]


COMMANDS = {
    "graphs": SubCommand(
        "FILE   what a file or folder of graphs holds, and how it was read",
        add_file_options,
        check_file,
    )
}


@register_domain
class Graphs(Domain):
    """Graphs of files."""

    name, title = "graphs", "graphs"
    data_sets = {"graphs": "tokens"}
    data_files = ("path", "train_path", "val_path", "test_path")
    file_kinds = GRAPH_KINDS
    fixed_keys = ("n_max", "node_types", "edge_types", "node_order")
    options = {"sample": SAMPLE_OPTIONS, "evaluate": EVALUATE_OPTIONS}
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

    report = LazyEntry("discrete_diffusion.domains.graphs.samples:GraphReport")
    cell_measurement = LazyEntry("discrete_diffusion.domains.graphs.samples:GraphCells")

    def complete(self, data: DictConfig) -> None:
        """Set ``n_max`` from the graphs, unless it is set."""
        graph_set.check_installed()
        if data.kind is not None:
            check_name("data.kind", str(data.kind), metrics.KINDS)
        if data.n_max is None:
            data.n_max = build.largest_graph(data)

    def vocabulary(self, data: Mapping[str, Any]) -> VocabConfig:
        """Vocabularies and slots of the graphs."""
        if data.get("n_max") is None:
            raise ValueError(
                "data.n_max is not set: the most nodes that a graph may have; complete_data(config)"
                " reads it off the graphs"
            )
        return graph_records.GraphTypes.of(data).vocabulary(data["n_max"])

    def build(self, data: DictConfig) -> Dataset:
        return build.build_dataset(data, self.vocabulary(data))

    def test_data(self, data: DictConfig) -> Dataset:
        return build.build_test_graphs(data, self.vocabulary(data))

    def rewards(
        self, data: Mapping[str, Any], file: str | None = None
    ) -> Mapping[str, SampleScore]:
        return metrics.graph_rewards(data.get("kind"))

    def sample(self, request: SampleRequest, trained: TrainedModel) -> Samples:
        sample = requests.sample_graphs if request.given is None else requests.complete_graphs
        return sample(request, trained, self.vocabulary(trained.data_config))

    def evaluate(self, request: EvaluateRequest, trained: TrainedModel | None) -> Evaluation:
        if trained is None:
            return requests.evaluate_files(request)
        return requests.evaluate_model(request, trained, self.vocabulary(trained.data_config))
