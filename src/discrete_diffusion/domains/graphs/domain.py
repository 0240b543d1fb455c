"""Graphs of any kind, of benchmarks or of a user: kinds of files, structures of samples, options,
and ``discrete-diffusion data graphs``.

Another structure is a ``Narrowing`` made from a ``VocabConfig``: an entry point of the group
``discrete_diffusion.graph_structures``, or registered in a module that ``plugins=[...]`` names:

    @register_structure("bipartite")
    class Bipartite(GraphNarrowing): ...
"""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config.plugins import Later, LazyEntry, Registry
from discrete_diffusion.config.values import check_name, counted
from discrete_diffusion.domains import commands
from discrete_diffusion.domains.commands import Option, SubCommand
from discrete_diffusion.domains.domain import GRAPH_FEATURES, Domain
from discrete_diffusion.domains.registry import register_domain
from discrete_diffusion.runtime.inputs import FileKind, Head, begins_with_text, never

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.data.base import Dataset
    from discrete_diffusion.evaluation.report import Evaluation, Samples
    from discrete_diffusion.evaluation.requests import EvaluateRequest, SampleRequest
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.layout.vocab_config import VocabConfig
    from discrete_diffusion.sampling.partial_samples import Narrowing

# imported when they are first used
_build: Any = Later("discrete_diffusion.domains.graphs.build")
_metrics: Any = Later("discrete_diffusion.domains.graphs.metrics")
_readers: Any = Later("discrete_diffusion.domains.graphs.readers")
_records: Any = Later("discrete_diffusion.domains.graphs.records")
_requests: Any = Later("discrete_diffusion.domains.graphs.requests")

ENDS = (
    ("source", "target"),
    ("from", "to"),
    ("src", "dst"),
    ("src", "dest"),
    ("node1", "node2"),
    ("vertex1", "vertex2"),
    ("id1", "id2"),
    ("start", "end"),
    ("head", "tail"),
    ("fromnodeid", "tonodeid"),
    ("sourceid", "targetid"),
    ("fromnode", "tonode"),
)
"""Names of the two columns of nodes in a table of edges, as ``plain_names`` returns them."""

_NODES = ("id", "nodeid", "nodeids", "node", "vertex", "vertexid")
"""Names of the first column of a table of nodes, as ``plain_names`` returns them."""

_MAX_ROWS, _MAX_NAME = 20, 40
"""Most lines of a table that are inspected, and most letters of a node's name in them."""


def plain_names(header: Sequence[str]) -> list[str]:
    """Names of columns in lower case, reduced to letters and digits."""
    return [re.sub(r"[^a-z0-9]", "", name.lower()) for name in header]


def _table_rows(head: Head) -> list[list[str]]:
    """Cells of the first lines of a table, beginning with the header; empty for other text."""
    lines = [line for line in head.lines if line.strip()][:_MAX_ROWS]
    mark = next((mark for mark in ",;\t" if lines and mark in lines[0]), None)
    return [] if mark is None else [line.split(mark) for line in lines]


def _is_edge_table(head: Head) -> bool:
    """True if two columns have names in ``ENDS`` and hold short words."""
    header, *rows = _table_rows(head) or [[]]
    names = plain_names(header)
    ends = next((pair for pair in ENDS if {*pair} <= {*names}), ())
    places = [names.index(name) for name in ends]
    cells = [row[k].strip() for row in rows for k in places if k < len(row)]
    return bool(places) and not any(len(cell) > _MAX_NAME for cell in cells)


def _is_node_table(head: Head) -> bool:
    names = plain_names(next(iter(_table_rows(head)), []))
    return bool(names) and names[0] in _NODES and not _is_edge_table(head)


_READ = "data=graphs reads it"
_EDGES = "write a line u v for each edge"

GRAPH6 = FileKind(
    "graph6 or sparse6",
    begins_with_text(">>(graph6|sparse6)<<"),
    _READ,
    suffixes=(".g6", ".graph6", ".s6", ".sparse6"),
)
DIGRESS = FileKind(
    "blocks N= X: E: of DiGress",
    begins_with_text(r"(\s|[#%].*\n)*N\s*=\s*\d+\s*\n"),
    _READ,
)
EDGE_TABLE = FileKind("a table of edges", _is_edge_table, _READ)

# Only among graphs: the names of lists are those of any text, and the header of a table of nodes
# may be that of any table.
EDGE_LIST = FileKind(
    "a list of edges",
    never,
    _READ,
    suffixes=(".edges", ".edgelist", ".txt", ".csv", ".tsv"),
)
NODE_TABLE = FileKind(
    "a table of nodes",
    _is_node_table,
    "give the table of edges, whose columns are source and target, as data.path of data=graphs",
)

GRAPH_KINDS = (
    GRAPH6,
    DIGRESS,
    EDGE_TABLE,
    FileKind("digraph6, of directed graphs", begins_with_text(">>digraph6<<"), _EDGES),
    FileKind(
        "DOT or GML",
        begins_with_text(
            r'\s*(strict\s+)?(di)?graph(\s+("[^"\n]*"|\w+))?\s*\{|'
            r"\s*(#.*\n|creator .*\n|version .*\n)*\s*graph\s*\["
        ),
        "write it as GraphML",
    ),
    FileKind(
        "a Matrix Market file",
        begins_with_text("%%MatrixMarket"),
        "save the matrix with scipy.sparse.save_npz",
    ),
    FileKind("a Pajek file", begins_with_text(r"\s*\*vertices\s+\d"), "write it as GraphML"),
    FileKind("a DIMACS file", begins_with_text(r"(c .*\n|c\n)*p\s+\w+\s+\d+\s+\d+"), _EDGES),
)

STRUCTURES: Registry[Callable[[VocabConfig], Narrowing]] = Registry(
    "structure",
    "discrete_diffusion.graph_structures",
    {
        name.lower(): LazyEntry(f"discrete_diffusion.sampling.graph_structures:{name}")
        for name in ("Tree", "Forest", "Connected", "Planar")
    },
)
register_structure = STRUCTURES.register

_STRUCTURE = Option(
    "structure",
    "tree, forest, connected or planar: every sample is, because its edges are narrowed as they "
    "are sampled; samples get weights that undo the bias of this; null narrows nothing",
    registry=STRUCTURES,
)
SAMPLE_OPTIONS = (
    Option(
        "nodes_per_graph",
        "nodes of every graph, or several numbers to sample as often as in the training data among "
        "them, nodes_per_graph=[12,16]; null samples every size of the training data",
        least=1,
        listed=True,
        without_given="a partial graph has as many nodes as its n says",
    ),
    Option(
        "given",
        "a file of partial graphs to complete, see docs/graphs_and_molecules.md",
        is_file=True,
    ),
    commands.completions("of each partial graph; null is 4"),
    _STRUCTURE,
)
EVALUATE_OPTIONS = (
    commands.DATA,
    Option(
        "reference",
        "graphs to compare with; null takes those that the checkpoint held out. A file with splits "
        "gives its test graphs, and its training graphs as training",
        is_file=True,
        of_files=True,
    ),
    Option(
        "training_data",
        "graphs trained on, for novelty and the ratio; null takes those of the checkpoint",
        is_file=True,
        of_files=True,
    ),
    commands.SEEDS,
    commands.REFERENCE_REPEATS,
    Option(
        "kind",
        "what makes a graph valid; null takes data.graph_family of the checkpoint",
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
    commands.TIME_BINS,
    commands.LIKELIHOOD,
    commands.ORDERS,
    Option(
        "skip_invalid",
        "files: true leaves out graphs that cannot be read, and counts them",
        default=False,
        of_files=True,
        reading=True,
    ),
    _STRUCTURE,
)


def _add_file_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="graphs: a file or folder, see docs/graphs_and_molecules.md"
    )
    parser.add_argument("--node-types", help="names of the types of nodes, such as a,b")
    parser.add_argument("--edge-types", help="of edges, the last for no edge, such as thin,none")


def check_file(options: Namespace) -> None:
    """Read a file or folder of graphs and say what it holds: how it was read, how many graphs,
    nodes, edges and types, what was dropped, and what cannot be read."""
    # types as a user names them
    default = _records.GraphTypes()
    types = _records.GraphTypes.of(
        {
            "node_types": _type_names(options.node_types) or list(default.nodes),
            "edge_types": _type_names(options.edge_types) or list(default.edges),
        }
    )
    source = _readers.read_graphs(options.file, types, skip_invalid=True)
    graphs = source.graphs
    # how many, and how they were read
    splits = _shown_counts((name, len(part)) for name, part in source.splits.items())
    print(f"{options.file}: {counted(len(graphs), 'graph')}", end="")
    print(f" ({splits})" if len(source.splits) > 1 else "")
    print(f"read as: {_shown_counts(source.notes.forms.items())}")
    for sentence in source.notes.sentences():
        print(sentence)
    # sizes of the graphs
    sizes, edges = [len(graph.nodes) for graph in graphs], [len(graph.edges) for graph in graphs]
    print(f"nodes of a graph: {_shown_range(sizes)} (data.max_nodes={max(sizes)})")
    print(f"edges of a graph: {_shown_range(edges)}")
    # nodes and graphs that models may find hard
    alone = sum(
        len(graph.nodes) - len({node for i, j, _ in graph.edges for node in (i, j)})
        for graph in graphs
    )
    pieces = sum(not _metrics.is_connected(graph) for graph in graphs)
    print(f"in several pieces: {counted(pieces, 'graph')}", end="; ")
    print(f"without an edge: {counted(alone, 'node')}")
    # numbers of each type
    nodes_of = Counter(types.nodes[kind] for graph in graphs for kind in graph.nodes)
    edges_of = Counter(types.edges[kind] for graph in graphs for *_, kind in graph.edges)
    print(f"nodes: {_shown_counts(nodes_of.most_common())}")
    print(f"edges: {_shown_counts(edges_of.most_common()) or 'none'}")
    # graphs that cannot be read
    if source.problems:
        print(f"left out {counted(len(source.problems), 'graph')} that cannot be read:")
        for problem in source.problems[:5]:
            print(f"  {problem}")


def _shown_range(numbers: Sequence[int]) -> str:
    same = min(numbers) == max(numbers)
    return f"{min(numbers):,}" if same else f"{min(numbers):,} to {max(numbers):,}"


def _shown_counts(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in counts)


def _type_names(given: str | None) -> list[str]:
    return [] if given is None else [name.strip() for name in given.strip("[]").split(",")]


COMMANDS = {
    "graphs": SubCommand(
        "FILE   what a file or folder of graphs holds, and how it was read",
        _add_file_options,
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
    fixed_keys = ("max_nodes", "node_types", "edge_types", "node_order")
    options = {"sample": SAMPLE_OPTIONS, "evaluate": EVALUATE_OPTIONS}
    commands = {"data": COMMANDS}
    graph_features = GRAPH_FEATURES
    group_titles = {"node": "nodes", "edge": "pairs"}
    sample_files = ("samples.jsonl",)
    streamed_file = "samples.jsonl"
    quick = {
        "num_held_out": 40,
        "num_samples": 40,
        "num_seeds": 1,
        "reference_repeats": 5,
        "noise_samples": 1,
        "time_bins": 5,
    }

    report = LazyEntry("discrete_diffusion.domains.graphs.samples:GraphReport")
    cell_measurement = LazyEntry("discrete_diffusion.domains.graphs.samples:GraphCells")

    def complete(self, data: DictConfig) -> None:
        """Set ``n_max`` from the graphs, unless it is set."""
        _build.check_installed()
        if data.graph_family is not None:
            check_name("data.graph_family", str(data.graph_family), _metrics.KINDS)
        if data.max_nodes is None:
            data.max_nodes = _build.largest_graph(data)

    def vocabulary(self, data: Mapping[str, Any]) -> VocabConfig:
        """Vocabulary of the graphs: types and slots."""
        if data.get("max_nodes") is None:
            raise ValueError(
                "data.max_nodes is not set: the most nodes that a graph may have; "
                "complete_data(config) reads it off the graphs"
            )
        return _records.GraphTypes.of(data).vocabulary(data["max_nodes"])

    def build(self, data: DictConfig) -> Dataset:
        return _build.build_dataset(data, self.vocabulary(data))

    def test_data(self, data: DictConfig) -> Dataset:
        return _build.build_test_graphs(data, self.vocabulary(data))

    def rewards(self, data: Mapping[str, Any], file: str | None = None) -> Mapping[str, Any]:
        return _metrics.graph_rewards(data.get("graph_family"))

    def sample(self, request: SampleRequest, trained: TrainedModel) -> Samples:
        sample = _requests.sample_graphs if request.given is None else _requests.complete_graphs
        return sample(request, trained, self.vocabulary(trained.data_config))

    def evaluate(self, request: EvaluateRequest, trained: TrainedModel | None) -> Evaluation:
        if trained is None:
            return _requests.evaluate_files(request)
        return _requests.evaluate_model(request, trained, self.vocabulary(trained.data_config))
