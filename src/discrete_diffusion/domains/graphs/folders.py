"""Folders of the TU collection, raw files of OGB, and tables of nodes and edges as Gephi has them.

TU: ``DS_A.txt``, a pair of nodes a line, ``DS_graph_indicator.txt``, the graph of every node, and
labels, which are types if ``data.node_types`` or ``data.edge_types`` names them. OGB: ``edge.csv``,
a pair of nodes a line, numbered from 0 in each graph, ``num-node-list.csv`` and
``num-edge-list.csv``, the numbers of nodes and edges of each graph. Other content is dropped and
counted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from glob import escape
from pathlib import Path
from typing import Any

from discrete_diffusion.data.files import TableError, read_text, split_lines, table_rows
from discrete_diffusion.domains.graphs.domain import EDGE_LIST, EDGE_TABLE, NODE_TABLE
from discrete_diffusion.domains.graphs.edge_lists import blocks_of, checked_words
from discrete_diffusion.domains.graphs.records import (
    ALL,
    TYPE,
    GraphError,
    GraphTypes,
    Notes,
    Records,
    parse_graph,
)
from discrete_diffusion.runtime.inputs import CSV, TSV, kind_of

_PART = re.compile(r"(?P<name>.+)_(?P<part>A|graph_indicator|(node|edge|graph)_\w+)\.txt(\.gz)?")
_TABLES = ("A", "graph_indicator", "node_labels", "edge_labels")
_SIZES = ("num-node-list", "num-edge-list")
_FEATURES = ("node-feat", "edge-feat", "graph-label", "node-label", "node_year")

Tables = dict[str, list[list[str]]]


def tu_part(path: Path) -> tuple[str, str] | None:
    """Name of a file's data set in the TU collection, and the file's part of the data set.

    None for another file, and for a file without other parts of the data set next to it.
    """
    name = _PART.fullmatch(path.name)
    if name is None:
        return None
    siblings = path.parent.glob(f"{escape(name['name'])}_*.txt*")
    if sum(_PART.fullmatch(each.name) is not None for each in siblings) < 2:
        return None
    return name["name"], name["part"]


def tu_records(files: Sequence[Path], types: GraphTypes, notes: Notes) -> Records:
    """Yield a record for each graph of a TU folder. Raises ``GraphError`` naming file and line."""
    # the parts of one data set
    parts = {part: file for file in files if (part := tu_part(file)) is not None}
    names = sorted({name for name, _ in parts})
    if len(names) > 1:
        raise GraphError(f"holds {len(names)} data sets, {', '.join(names)}; give one")
    # two parts are required
    folder = {part: file for (_, part), file in parts.items()}
    if missing := {"A", "graph_indicator"} - folder.keys():
        raise GraphError(f"has no {names[0]}_{min(missing)}.txt, and other parts of {names[0]}")
    tables = {part: _table(file) for part, file in folder.items() if part in _TABLES}
    # labels that are not types, other parts and other files are dropped
    if len(types.nodes) == 1 and "node_labels" in tables:
        notes.drop([_shown_labels("node", tables)], "node", len(tables.pop("node_labels")))
    if len(types.edges) == 2 and "edge_labels" in tables:
        notes.drop([_shown_labels("edge", tables)], "pair", len(tables.pop("edge_labels")))
    for other in folder.keys() - {*_TABLES}:
        notes.drop([other], other.partition("_")[0], len(_table(folder[other])))
    notes.drop([file.name for file in files if tu_part(file) is None], "file")
    # one record for each graph
    for number, record in _tu_graphs(tables, folder).items():
        parse = partial(parse_graph, record, types, notes, "graph of a TU folder")
        yield ALL, f", graph {number}", parse


def _shown_labels(unit: str, tables: Tables) -> str:
    """Describe dropped labels by their name and values, which a user may name as types."""
    values = sorted({row[0] for row in tables[f"{unit}_labels"]}, key=lambda v: (len(v), v))
    shown = ", ".join(values[:10]) + (", ..." if len(values) > 10 else "")
    return f"{unit}_labels ({shown}; data.{unit}_types names what is kept)"


def _table(file: Path) -> list[list[str]]:
    text = read_text(file, EDGE_LIST).text
    return [[word for word in re.split(r"[\s,]+", line) if word] for line in split_lines(text)]


def _tu_graphs(tables: Tables, folder: dict[str, Path]) -> dict[int, dict[str, Any]]:
    """Records by the number of the graph; nodes are in the order of the file."""
    # the graph of every node
    rows, labels = tables["graph_indicator"], tables.get("node_labels")
    while rows and not rows[-1]:
        rows.pop()  # a blank line at the end
    graph_of = [
        _numbers_of(row, folder["graph_indicator"], k, 1)[0] for k, row in enumerate(rows, start=1)
    ]
    # a label for every node, if there are labels
    if labels is not None and len(labels) < len(graph_of):
        raise GraphError(
            f"{folder['node_labels'].name} has {len(labels):,} lines; expected one for each of "
            f"{len(graph_of):,} nodes"
        )
    # nodes, numbered within their graph
    graphs: dict[int, dict[str, Any]] = {}
    place = []
    # a node takes the next number of its graph
    for node, graph in enumerate(graph_of):
        record = graphs.setdefault(graph, {"n": 0, "edges": []})
        place.append(record["n"])
        record["n"] += 1
        if labels is not None:
            record.setdefault("node_types", []).append(labels[node][0] if labels[node] else "")
    # edges, each with the line of its label
    kinds = tables.get("edge_labels")
    for k, row in enumerate(tables["A"], start=1):
        if row:
            u, v = _tu_edge(row, folder["A"], k, graph_of)
            edge: list[Any] = [place[u], place[v]]
            if kinds is not None:
                if k > len(kinds) or not kinds[k - 1]:
                    raise GraphError(
                        f"{folder['edge_labels'].name} has no line {k}, for {folder['A'].name}, "
                        f"line {k}: {u + 1}, {v + 1}"
                    )
                edge.append(kinds[k - 1][0])
            graphs[graph_of[u]]["edges"].append(edge)
    return dict(sorted(graphs.items()))


def _tu_edge(row: Sequence[str], file: Path, line: int, graph_of: Sequence[int]) -> tuple[int, int]:
    """Parse a line as two different nodes of one graph, numbered from 0."""
    # numbers in the file begin at 1
    u, v = (node - 1 for node in _numbers_of(row, file, line, 2))
    where = f"{file.name}, line {line}: {u + 1}, {v + 1}"
    if not all(0 <= node < len(graph_of) for node in (u, v)):
        raise GraphError(f"{where}: expected nodes 1 to {len(graph_of):,}")
    if graph_of[u] != graph_of[v]:
        raise GraphError(f"{where}: one is of graph {graph_of[u]}, one of {graph_of[v]}")
    if u == v:
        raise GraphError(f"{where}: node {u + 1} is linked to itself; leave such edges out")
    return u, v


def _numbers_of(row: Sequence[str], file: Path, line: int, num: int) -> list[int]:
    if len(row) != num or not all(word.isdecimal() for word in row):
        expected = "two nodes" if num == 2 else "the number of a graph"
        raise GraphError(f"{file.name}, line {line}: expected {expected}, got {' '.join(row)!r}")
    return [int(word) for word in row]


def ogb_part(path: Path) -> str | None:
    """Part of OGB's raw files that a file holds, by its name.

    None for another file, and for an ``edge.csv`` without another part next to it.
    """
    name, ending = path.name.partition(".")[::2]
    if not ending.startswith("csv") or name not in ("edge", *_SIZES, *_FEATURES):
        return None
    others = (path.parent.glob(f"{part}.csv*") for part in (*_SIZES, *_FEATURES))
    return name if name != "edge" or any(map(any, others)) else None


def ogb_records(files: Sequence[Path], types: GraphTypes, notes: Notes) -> Records:
    """Yield a record for each graph of OGB's raw files."""
    # three files are required
    parts = {part: file for file in files if (part := ogb_part(file)) is not None}
    for part in ("edge", *_SIZES):
        if part not in parts:
            raise GraphError(
                f"has no {part}.csv or {part}.csv.gz, and other parts of OGB's raw files: "
                "without it nothing says where a graph ends; copy the whole folder raw"
            )
    # their numbers have to agree
    edges = _ogb_table(parts["edge"], 2)
    nums, num_edges = (_ogb_table(parts[part], 1) for part in _SIZES)
    total = sum(size for (size,) in num_edges)
    if len(nums) != len(num_edges) or total != len(edges):
        raise GraphError(
            f"{parts[_SIZES[0]].name} has {len(nums):,} graphs, {parts[_SIZES[1]].name} "
            f"{len(num_edges):,} with {total:,} edges, and {parts['edge'].name} {len(edges):,} "
            "lines; expected as many"
        )
    notes.drop((file.name for file in files if ogb_part(file) not in ("edge", *_SIZES)), "file")
    # the edges of all graphs are one list, cut by their numbers
    start = 0
    for number, ((num,), (size,)) in enumerate(zip(nums, num_edges, strict=True), start=1):
        record = {"n": num, "edges": [list(pair) for pair in edges[start : start + size]]}
        start += size
        parse = partial(parse_graph, record, types, notes, "graph of OGB")
        yield ALL, f", graph {number}", parse


def _ogb_table(file: Path, width: int) -> list[list[int]]:
    """Read rows of ``width`` whole numbers, without blank lines."""
    rows = []
    # rows of numbers, without blank lines
    for k, line in enumerate(split_lines(read_text(file, CSV, TSV).text), start=1):
        cells = [cell.strip() for cell in line.split(",")]
        if line.strip() and not all(cell.isdecimal() for cell in cells):
            raise GraphError(f"{file.name}, line {k}: expected whole numbers, got {line[:60]!r}")
        rows += [[int(cell) for cell in cells]] if line.strip() else []
    # every row has the same width
    wrong = next((k for k, row in enumerate(rows, start=1) if len(row) != width), None)
    if wrong is not None:
        expected = "two nodes" if width == 2 else "a number"
        raise GraphError(f"{file.name}, line {wrong}: expected {expected}")
    return rows


def tables_of(files: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Tables of nodes and tables of edges among ``files``."""
    kinds = {file: kind_of(file, (EDGE_TABLE, NODE_TABLE)) for file in files}
    nodes, edges = (
        [file for file, kind in kinds.items() if kind is wanted]
        for wanted in (NODE_TABLE, EDGE_TABLE)
    )
    return nodes, edges


def table_records(files: Sequence[Path], types: GraphTypes, notes: Notes) -> Records:
    """Yield the single graph of a table of nodes and a table of edges."""
    nodes, edges = tables_of(files)
    if len(nodes) > 1 or len(edges) > 1:
        raise GraphError(
            f"holds {len(nodes)} tables of nodes and {len(edges)} of edges; give a folder with "
            "one of each for every graph"
        )
    record = _joined(nodes[0], edges[0], types, notes)
    notes.drop((file.name for file in files if file not in (*nodes, *edges)), "file")
    form = "table of nodes and table of edges"
    yield ALL, "", partial(parse_graph, record, types, notes, form)


def _joined(nodes: Path, edges: Path, types: GraphTypes, notes: Notes) -> dict[str, Any]:
    """Join a table of nodes, named in its first column, and a table of edges into a record."""
    # the header says which mark separates cells
    text = read_text(nodes, NODE_TABLE).text
    first = text.lstrip().partition("\n")[0]
    mark = next(mark for mark in ",;\t" if mark in first)
    try:
        header, *rows = [row for _, row in table_rows(split_lines(text), mark) if row]
    except TableError as error:
        raise GraphError(f"{nodes.name}, {error}") from error
    # nodes by name, and their types
    number: dict[str, int] = {}
    for k, row in enumerate(rows):
        if number.setdefault(row[0].strip(), k) != k:
            raise GraphError(f"{nodes.name}: node {row[0]} is listed twice")
    record: dict[str, Any] = {"n": len(rows), "edges": []}
    names = [name.strip().lower() for name in header]
    kept = {0}
    # types of nodes where there are several
    if TYPE in names and len(types.nodes) > 1:
        kept.add(names.index(TYPE))
        record["node_types"] = [row[names.index(TYPE)].strip() for row in rows]
    notes.drop((name for k, name in enumerate(header) if k not in kept), "node", len(rows))
    # edges between them
    for line in (line for block in blocks_of(read_text(edges, EDGE_TABLE).text) for line in block):
        words = checked_words(line, types, notes)
        if unknown := [word for word in words[:2] if word not in number]:
            raise GraphError(
                f"{edges.name}, line {line.number}: node {unknown[0]} is not in {nodes.name}"
            )
        record["edges"].append([*(number[word] for word in words[:2]), *words[2:]])
    return record
