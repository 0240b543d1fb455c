"""Folders of the TU collection: ``DS_A.txt``, a pair of nodes a line, ``DS_graph_indicator.txt``,
the graph of every node, and labels.

Labels are types if ``data.node_types`` or ``data.edge_types`` names them; else they are dropped and
counted, as is what else the folder holds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from glob import escape
from pathlib import Path
from typing import Any

from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.data.text_files import read_text, split_lines
from discrete_diffusion.domains.graphs.file_kinds import EDGE_LIST
from discrete_diffusion.domains.graphs.files.notes import Notes
from discrete_diffusion.domains.graphs.files.records import (
    ALL,
    GraphError,
    Records,
    failing,
    parse_graph,
)
from discrete_diffusion.domains.graphs.graph_types import GraphTypes

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
    try:
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
        graphs = _graphs(tables, folder)
    except GraphError as error:
        yield ALL, "", failing(str(error))
        return
    for number, record in graphs.items():
        yield ALL, f", graph {number}", partial(_graph, record, types, notes)


def _graph(record: dict[str, Any], types: GraphTypes, notes: Notes) -> TypedGraph:
    notes.forms["graph of a TU folder"] += 1
    return parse_graph(record, types, notes)


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
    try:
        text = read_text(file, EDGE_LIST).text
    except ValueError as error:
        raise GraphError(str(error)) from error
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
