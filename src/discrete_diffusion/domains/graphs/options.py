"""Choices of a user that are known before a heavy library is imported: kinds of files of graphs,
structures of samples, and options of ``sample`` and ``evaluate``.

Another structure is a ``Narrowing`` made from a ``VocabConfig``: an entry point of the group
``discrete_diffusion.graph_structures``, or registered in a module that ``plugins=[...]`` names:

    @register_structure("bipartite")
    class Bipartite(GraphNarrowing): ...
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from discrete_diffusion.config.plugins import LazyEntry, Registry
from discrete_diffusion.domains import commands
from discrete_diffusion.domains.commands import Option
from discrete_diffusion.runtime.inputs import FileKind, Head, begins_with_text, never

if TYPE_CHECKING:
    from discrete_diffusion.layout.vocab_config import VocabConfig
    from discrete_diffusion.sampling.partial_samples import Narrowing

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
"""Names of the two columns of nodes in a table of edges, as ``plain_names`` has them."""

_NODES = ("id", "nodeid", "nodeids", "node", "vertex", "vertexid")
"""Names of the first column of a table of nodes, likewise."""

_MAX_ROWS, _MAX_NAME = 20, 40
"""Lines of a table that are inspected, and letters of a node's name at most there."""


def plain_names(header: Sequence[str]) -> list[str]:
    """Names of columns in lower case, reduced to letters and digits."""
    return [re.sub(r"[^a-z0-9]", "", name.lower()) for name in header]


def _rows(head: Head) -> list[list[str]]:
    """Cells of the first lines of a table, names of its columns first; none of other text."""
    lines = [line for line in head.lines if line.strip()][:_MAX_ROWS]
    mark = next((mark for mark in ",;\t" if lines and mark in lines[0]), None)
    return [] if mark is None else [line.split(mark) for line in lines]


def _is_edge_table(head: Head) -> bool:
    """True if two columns are named as the ends of edges are, and hold short words."""
    header, *rows = _rows(head) or [[]]
    names = plain_names(header)
    ends = next((pair for pair in ENDS if {*pair} <= {*names}), ())
    places = [names.index(name) for name in ends]
    cells = [row[k].strip() for row in rows for k in places if k < len(row)]
    return bool(places) and not any(len(cell) > _MAX_NAME for cell in cells)


def _is_node_table(head: Head) -> bool:
    names = plain_names(next(iter(_rows(head)), []))
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
    "give a folder with it and a table of edges, whose columns are source and target, as data.path "
    "of data=graphs",
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
        "them, nodes_per_graph=[12,16]; null samples all that the training data has",
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
    Option(
        "graphml",
        "true: also every sample as GraphML, graphml/0.graphml, ...",
        default=False,
        written=True,
    ),
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
        "training",
        "graphs trained on, for novelty and the ratio; null takes those of the checkpoint",
        is_file=True,
        of_files=True,
    ),
    commands.SEEDS,
    commands.FLOOR_DRAWS,
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
