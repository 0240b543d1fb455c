"""Folders of the TU collection, raw files of OGB, and tables of nodes and edges as Gephi has them.

TU: ``DS_A.txt``, a pair of nodes a line, ``DS_graph_indicator.txt``, the graph of every node, and
labels, which are types if ``data.node_types`` or ``data.edge_types`` names them. OGB: ``edge.csv``,
a pair of nodes a line, numbered from 0 in each graph, ``num-node-list.csv`` and
``num-edge-list.csv``, how many of each graph. What else a folder holds is dropped and counted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from glob import escape
from pathlib import Path
from typing import Any

from discrete_diffusion.data.files import TableError, read_text, split_lines, table_rows
from discrete_diffusion.domains.graphs.file_kinds import EDGE_LIST, EDGE_TABLE, NODE_TABLE
from discrete_diffusion.domains.graphs.files.edge_list_lines import blocks_of
from discrete_diffusion.domains.graphs.files.edge_lists import checked_words
from discrete_diffusion.domains.graphs.files.records import (
    ALL,
    TYPE,
    GraphError,
    Notes,
    Records,
    parse_graph,
)
from discrete_diffusion.domains.graphs.graph_types import GraphTypes
from discrete_diffusion.runtime.inputs import CSV, TSV, kind_of

_PART = re.compile(r"(?P<name>.+)_(?P<part>A|graph_indicator|(node|edge|graph)_\w+)\.txt(\.gz)?")


def part_of(path: Path) -> tuple[str, str] | None:
    """The name of the data set and the part of it that a file is; None of another file, and of one
    that stands beside no other part."""
    found = _PART.fullmatch(path.name)
    if found is None:
        return None
    beside = path.parent.glob(f"{escape(found['name'])}_*.txt*")
    if sum(_PART.fullmatch(each.name) is not None for each in beside) < 2:
        return None
    return found["name"], found["part"]


def folder_records(files: Sequence[Path], types: GraphTypes, notes: Notes) -> Records:
    """Records of the files of a folder, some of which are parts of one data set. ``GraphError``
    names file and line."""
    parts = {part_of(file): file for file in files}
    names = sorted({key[0] for key in parts if key is not None})
    if len(names) > 1:
        raise GraphError(f"holds {len(names)} data sets, {', '.join(names)}; give one")
    folder = {key[1]: file for key, file in parts.items() if key is not None}
    if missing := {"A", "graph_indicator"} - folder.keys():
        raise GraphError(f"has no {names[0]}_{min(missing)}.txt, and other parts of {names[0]}")
    tables = {
        part: _table(file)
        for part, file in folder.items()
        if part in ("A", "graph_indicator", "node_labels", "edge_labels")
    }
    _drop(folder, tables, files, types, notes)
    for number, record in _graphs(tables, folder).items():
        parse = partial(parse_graph, record, types, notes, "graph of a TU folder")
        yield ALL, f", graph {number}", parse


def _drop(
    folder: dict[str, Path],
    tables: dict[str, list[list[str]]],
    files: Sequence[Path],
    types: GraphTypes,
    notes: Notes,
) -> None:
    if len(types.nodes) == 1 and "node_labels" in tables:
        notes.drop([_labels("node", tables)], "node", len(tables.pop("node_labels")))
    if len(types.edges) == 2 and "edge_labels" in tables:
        notes.drop([_labels("edge", tables)], "pair", len(tables.pop("edge_labels")))
    for part, file in folder.items():
        if part not in ("A", "graph_indicator", "node_labels", "edge_labels"):
            notes.drop([part], part.partition("_")[0], len(_table(file)))
    others = [file.name for file in files if part_of(file) is None]
    notes.drop(others, "file")


def _labels(what: str, tables: dict[str, list[list[str]]]) -> str:
    """Labels with the values that there are, which is what to name to keep them."""
    values = sorted({row[0] for row in tables[f"{what}_labels"]}, key=lambda v: (len(v), v))
    shown = ", ".join(values[:10]) + (", ..." if len(values) > 10 else "")
    return f"{what}_labels ({shown}; data.{what}_types names what is kept)"


def _table(file: Path) -> list[list[str]]:
    text = read_text(file, EDGE_LIST).text
    return [[word for word in re.split(r"[\s,]+", line) if word] for line in split_lines(text)]


def _graphs(
    tables: dict[str, list[list[str]]], folder: dict[str, Path]
) -> dict[int, dict[str, Any]]:
    """Records by the number of the graph; nodes in the order of the file."""
    while tables["graph_indicator"] and not tables["graph_indicator"][-1]:
        tables["graph_indicator"].pop()  # a blank line at the end
    indicator = folder["graph_indicator"]
    graph_of = [
        _number(row, indicator, k, 1)[0] for k, row in enumerate(tables["graph_indicator"], start=1)
    ]
    labels = tables.get("node_labels")
    if labels is not None and len(labels) < len(graph_of):
        raise GraphError(
            f"{folder['node_labels'].name} has {len(labels):,} lines; expected one for each of "
            f"{len(graph_of):,} nodes"
        )
    records: dict[int, dict[str, Any]] = {}
    place = []
    for node, graph in enumerate(graph_of):
        record = records.setdefault(graph, {"n": 0, "edges": []})
        place.append(record["n"])
        record["n"] += 1
        if labels is not None:
            record.setdefault("node_types", []).append(labels[node][0] if labels[node] else "")
    _add_edges(records, graph_of, place, tables, folder)
    return dict(sorted(records.items()))


def _add_edges(
    records: dict[int, dict[str, Any]],
    graph_of: Sequence[int],
    place: Sequence[int],
    tables: dict[str, list[list[str]]],
    folder: dict[str, Path],
) -> None:
    """``place``: the number of each node within its graph."""
    kinds = tables.get("edge_labels")
    for k, row in enumerate(tables["A"], start=1):
        if not row:
            continue
        u, v = (node - 1 for node in _number(row, folder["A"], k, 2))
        where = f"{folder['A'].name}, line {k}: {u + 1}, {v + 1}"
        if not all(0 <= node < len(graph_of) for node in (u, v)):
            raise GraphError(f"{where}: expected nodes 1 to {len(graph_of):,}")
        if graph_of[u] != graph_of[v]:
            raise GraphError(f"{where}: one is of graph {graph_of[u]}, one of {graph_of[v]}")
        if u == v:
            raise GraphError(f"{where}: node {u + 1} is linked to itself; leave such edges out")
        edge: list[Any] = [place[u], place[v]]
        if kinds is not None:
            if k > len(kinds) or not kinds[k - 1]:
                raise GraphError(f"{folder['edge_labels'].name} has no line {k}, for {where}")
            edge.append(kinds[k - 1][0])
        records[graph_of[u]]["edges"].append(edge)


def _number(row: Sequence[str], file: Path, line: int, num: int) -> list[int]:
    if len(row) != num or not all(word.isdecimal() for word in row):
        expected = "two nodes" if num == 2 else "the number of a graph"
        raise GraphError(f"{file.name}, line {line}: expected {expected}, got {' '.join(row)!r}")
    return [int(word) for word in row]


_SIZES = ("num-node-list", "num-edge-list")
_FEATURES = ("node-feat", "edge-feat", "graph-label", "node-label", "node_year")


def ogb_part(path: Path) -> str | None:
    """The part of OGB's raw files that a file is, by its name; None of another file, and of an
    ``edge.csv`` next to no other part."""
    name, ending = path.name.partition(".")[::2]
    if not ending.startswith("csv") or name not in ("edge", *_SIZES, *_FEATURES):
        return None
    others = (path.parent.glob(f"{part}.csv*") for part in (*_SIZES, *_FEATURES))
    return name if name != "edge" or any(map(any, others)) else None


def ogb_records(files: Sequence[Path], types: GraphTypes, notes: Notes) -> Records:
    """Records of OGB's raw files."""
    parts = {part: file for file in files if (part := ogb_part(file)) is not None}
    for part in ("edge", *_SIZES):
        if part not in parts:
            raise GraphError(
                f"has no {part}.csv or {part}.csv.gz, and other parts of OGB's raw files: "
                "without it nothing says where a graph ends; copy the whole folder raw"
            )
    edges, nums, num_edges = (_numbers(parts[part]) for part in ("edge", *_SIZES))
    _check_sizes(parts, edges, nums, num_edges)
    notes.drop((file.name for file in files if ogb_part(file) not in ("edge", *_SIZES)), "file")
    start = 0
    for number, ((num,), (size,)) in enumerate(zip(nums, num_edges, strict=True), start=1):
        record = {"n": num, "edges": [list(pair) for pair in edges[start : start + size]]}
        start += size
        parse = partial(parse_graph, record, types, notes, "graph of OGB")
        yield ALL, f", graph {number}", parse


def _check_sizes(
    parts: dict[str, Path],
    edges: Sequence[Sequence[int]],
    nums: Sequence[Sequence[int]],
    num_edges: Sequence[Sequence[int]],
) -> None:
    tables = {"edge": edges, _SIZES[0]: nums, _SIZES[1]: num_edges}
    for part, rows in tables.items():
        width = 2 if part == "edge" else 1
        wrong = next((k for k, row in enumerate(rows, start=1) if len(row) != width), None)
        if wrong is not None:
            expected = "two nodes" if width == 2 else "a number"
            raise GraphError(f"{parts[part].name}, line {wrong}: expected {expected}")
    total = sum(size for (size,) in num_edges)
    if len(nums) != len(num_edges) or total != len(edges):
        raise GraphError(
            f"{parts[_SIZES[0]].name} has {len(nums):,} graphs, {parts[_SIZES[1]].name} "
            f"{len(num_edges):,} with {total:,} edges, and {parts['edge'].name} {len(edges):,} "
            "lines; expected as many"
        )


def tables_of(files: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Tables of nodes and tables of edges among files."""
    kinds = {file: kind_of(file, (EDGE_TABLE, NODE_TABLE)) for file in files}
    nodes, edges = (
        [file for file, kind in kinds.items() if kind is wanted]
        for wanted in (NODE_TABLE, EDGE_TABLE)
    )
    return nodes, edges


def table_records(files: Sequence[Path], types: GraphTypes, notes: Notes) -> Records:
    """The one graph of a table of nodes and one of edges."""
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
    """The record of a table of nodes, known by its first column, and one of edges."""
    text = read_text(nodes, NODE_TABLE).text
    first = text.lstrip().partition("\n")[0]
    mark = next(mark for mark in ",;\t" if mark in first)
    try:
        header, *rows = [row for _, row in table_rows(split_lines(text), mark) if row]
    except TableError as error:
        raise GraphError(f"{nodes.name}, {error}") from error
    number: dict[str, int] = {}
    for k, row in enumerate(rows, start=2):
        if number.setdefault(row[0].strip(), len(number)) != k - 2:
            raise GraphError(f"{nodes.name}: node {row[0]} is listed twice")
    record: dict[str, Any] = {"n": len(rows), "edges": []}
    names = [name.strip().lower() for name in header]
    typed = TYPE in names and len(types.nodes) > 1
    if typed:
        record["node_types"] = [row[names.index(TYPE)].strip() for row in rows]
    kept = {0, names.index(TYPE)} if typed else {0}
    notes.drop((name for k, name in enumerate(header) if k not in kept), "node", len(rows))
    for line in (line for block in blocks_of(read_text(edges, EDGE_TABLE).text) for line in block):
        words = checked_words(line, types, notes)
        if unknown := [word for word in words[:2] if word not in number]:
            raise GraphError(
                f"{edges.name}, line {line.number}: node {unknown[0]} is not in {nodes.name}"
            )
        record["edges"].append([*(number[word] for word in words[:2]), *words[2:]])
    return record


def _numbers(file: Path) -> list[list[int]]:
    """Rows of whole numbers."""
    rows = []
    for k, line in enumerate(split_lines(read_text(file, CSV, TSV).text), start=1):
        cells = [cell.strip() for cell in line.split(",")]
        if line.strip() and not all(cell.isdecimal() for cell in cells):
            raise GraphError(f"{file.name}, line {k}: expected whole numbers, got {line[:60]!r}")
        rows += [[int(cell) for cell in cells]] if line.strip() else []
    return rows
