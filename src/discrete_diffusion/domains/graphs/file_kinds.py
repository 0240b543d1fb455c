"""Kinds of files of graphs, by what stands in them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from discrete_diffusion.runtime.inputs import FileKind, Head, begins_with_text, never

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
"""Names of the two columns of nodes, in lower case, letters and digits alone."""

_NODES = ("id", "nodeid", "nodeids", "node", "vertex", "vertexid")
"""Names of the first column of a table of nodes, likewise."""

_LOOKED_AT, _LONGEST_NAME = 20, 40
"""Lines of a table that are looked at, and letters of a node's name at most there."""

_EDGES = "write a line u v for each edge"


def plain_names(header: Sequence[str]) -> list[str]:
    """Names of columns in lower case, letters and digits alone."""
    return [re.sub(r"[^a-z0-9]", "", name.lower()) for name in header]


def _rows(head: Head) -> list[list[str]]:
    """Cells of the first lines of a table, names of its columns first; none of other text."""
    lines = [line for line in head.lines if line.strip()][:_LOOKED_AT]
    mark = next((mark for mark in ",;\t" if lines and mark in lines[0]), None)
    return [] if mark is None else [line.split(mark) for line in lines]


def _is_edge_table(head: Head) -> bool:
    """True if two columns are called as the ends of edges are, and hold words."""
    header, *rows = _rows(head) or [[]]
    names = plain_names(header)
    ends = next((pair for pair in ENDS if {*pair} <= {*names}), ())
    places = [names.index(name) for name in ends]
    cells = [row[k].strip() for row in rows for k in places if k < len(row)]
    return bool(places) and not any(len(cell) > _LONGEST_NAME for cell in cells)


def _is_node_table(head: Head) -> bool:
    names = plain_names(next(iter(_rows(head)), []))
    return bool(names) and names[0] in _NODES and not _is_edge_table(head)


GRAPH6 = FileKind(
    "graph6 or sparse6",
    begins_with_text(">>(graph6|sparse6)<<"),
    "data=graphs reads it",
    suffixes=(".g6", ".graph6", ".s6", ".sparse6"),
)
DIGRESS = FileKind(
    "blocks N= X: E: of DiGress",
    begins_with_text(r"(\s|[#%].*\n)*N\s*=\s*\d+\s*\n"),
    "data=graphs reads it",
)
EDGE_TABLE = FileKind("a table of edges", _is_edge_table, "data=graphs reads it")
EDGE_LIST = FileKind(
    "a list of edges",
    never,
    "data=graphs reads it",
    suffixes=(".edges", ".edgelist", ".txt", ".csv", ".tsv"),
)
"""Only among graphs: its names are those of any text."""

NODE_TABLE = FileKind(
    "a table of nodes",
    _is_node_table,
    "give a folder with it and a table of edges, whose columns are source and target, as data.path "
    "of data=graphs",
)
"""Only among graphs: its header may be that of any table."""

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
