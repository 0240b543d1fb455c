"""Folders whose tables make up graphs: nodes and edges as Gephi exports them, and raw files of OGB.

OGB has ``edge.csv``, a pair of nodes a line, numbered from 0 in each graph, ``num-node-list.csv``
and ``num-edge-list.csv``, how many of each graph. What else a folder holds is dropped and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.data.text_files import TableError, read_text, split_lines, table_rows
from discrete_diffusion.domains.graphs.file_kinds import EDGE_TABLE, NODE_TABLE
from discrete_diffusion.domains.graphs.files.edge_list_lines import blocks_of
from discrete_diffusion.domains.graphs.files.edge_lists import checked_words
from discrete_diffusion.domains.graphs.files.node_links import TYPE
from discrete_diffusion.domains.graphs.files.notes import Notes
from discrete_diffusion.domains.graphs.files.records import (
    ALL,
    GraphError,
    Records,
    failing,
    parse_graph,
)
from discrete_diffusion.domains.graphs.graph_types import GraphTypes
from discrete_diffusion.runtime.file_kinds import CSV, TSV, kind_of

_SIZES = ("num-node-list", "num-edge-list")
_FEATURES = ("node-feat", "edge-feat", "graph-label", "node-label", "node_year")
_TABLES = (CSV, TSV)


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
    try:
        for part in ("edge", *_SIZES):
            if part not in parts:
                raise GraphError(
                    f"has no {part}.csv or {part}.csv.gz, and other parts of OGB's raw files: "
                    "without it nothing says where a graph ends; copy the whole folder raw"
                )
        edges, nums, num_edges = (_numbers(parts[part]) for part in ("edge", *_SIZES))
        _check_sizes(parts, edges, nums, num_edges)
    except GraphError as error:
        yield ALL, "", failing(str(error))
        return
    notes.drop((file.name for file in files if ogb_part(file) not in ("edge", *_SIZES)), "file")
    start = 0
    for number, ((num,), (size,)) in enumerate(zip(nums, num_edges, strict=True), start=1):
        record = {"n": num, "edges": [list(pair) for pair in edges[start : start + size]]}
        start += size
        yield ALL, f", graph {number}", partial(_graph, record, "graph of OGB", types, notes)


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
    try:
        if len(nodes) > 1 or len(edges) > 1:
            raise GraphError(
                f"holds {len(nodes)} tables of nodes and {len(edges)} of edges; give a folder with "
                "one of each for every graph"
            )
        record = _joined(nodes[0], edges[0], types, notes)
    except ValueError as error:  # of a table that is no text, too
        yield ALL, "", failing(str(error))
        return
    notes.drop((file.name for file in files if file not in (*nodes, *edges)), "file")
    yield ALL, "", partial(_graph, record, "table of nodes and table of edges", types, notes)


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


def _graph(record: dict[str, Any], form: str, types: GraphTypes, notes: Notes) -> TypedGraph:
    notes.forms[form] += 1
    return parse_graph(record, types, notes)


def _numbers(file: Path) -> list[list[int]]:
    """Rows of whole numbers."""
    try:
        lines = split_lines(read_text(file, *_TABLES).text)
    except ValueError as error:
        raise GraphError(str(error)) from error
    rows = []
    for k, line in enumerate(lines, start=1):
        cells = [cell.strip() for cell in line.split(",")]
        if line.strip() and not all(cell.isdecimal() for cell in cells):
            raise GraphError(f"{file.name}, line {k}: expected whole numbers, got {line[:60]!r}")
        rows += [[int(cell) for cell in cells]] if line.strip() else []
    return rows
