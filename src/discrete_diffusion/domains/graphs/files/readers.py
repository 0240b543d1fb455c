"""Graphs of files: JSON, GraphML, graph6, lists of edges, adjacency matrices, folders of the TU
collection; text plain or gzipped."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from discrete_diffusion.config.values import counted
from discrete_diffusion.data.files import load_json, read_text, split_lines
from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.domains.graphs.file_kinds import (
    DIGRESS,
    EDGE_LIST,
    EDGE_TABLE,
    GRAPH6,
    NODE_TABLE,
)
from discrete_diffusion.domains.graphs.files.edge_lists import edge_list_records
from discrete_diffusion.domains.graphs.files.folders import (
    folder_records,
    ogb_part,
    ogb_records,
    part_of,
    table_records,
    tables_of,
)
from discrete_diffusion.domains.graphs.files.formats import (
    array_records,
    digress_records,
    parse_graph6,
    parse_graphml,
)
from discrete_diffusion.domains.graphs.files.records import (
    ALL,
    SPLIT_NAMES,
    GraphError,
    Notes,
    Records,
    failing,
    is_node_link,
    parse_graph,
)
from discrete_diffusion.domains.graphs.graph_types import GraphTypes
from discrete_diffusion.runtime.inputs import (
    GRAPHML,
    JSON,
    JSON_LINES,
    NPY,
    NPZ,
    FileKind,
    check_kind,
)


@dataclass
class ReadGraphs:
    """``splits``: graphs by the split that the file has them in, ``ALL`` of those in none.
    ``problems``: of each graph that was left out, where it is and why. ``notes``: how they were
    read, and what was dropped."""

    splits: dict[str, list[TypedGraph]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: Notes = field(default_factory=Notes)

    @property
    def graphs(self) -> list[TypedGraph]:
        """Graphs of all splits."""
        return [graph for graphs in self.splits.values() for graph in graphs]

    def summary(self, path: str | Path) -> str:
        """One line for the log: what was dropped, and the first reason why graphs were left out."""
        summary = "; ".join(
            [f"{path}: {counted(len(self.graphs), 'graph')}", *self.notes.sentences()]
        )
        if len(self.problems):
            summary += f"; left out {len(self.problems):,} that cannot be read: {self.problems[0]}"
        return summary


def read_graphs(
    path: str | Path,
    types: GraphTypes | None = None,
    *,
    skip_invalid: bool = False,
    n_max: int | None = None,
    key: str = "skip_invalid",
    samples: bool = False,
) -> ReadGraphs:
    """All graphs of a file, or of the files of a folder, in the order of their names.

    By the content, then by the name: JSON lines, a graph a line; JSON, a list of graphs or an
    object with one for each split; graph6 and sparse6, a graph a line; GraphML; ``.npz`` and
    ``.npy``, adjacency matrices; lists of edges; blocks ``N= X: E:``. A folder with ``DS_A.txt`` is
    one of the TU collection, one with ``edge.csv`` and ``num-node-list.csv`` of OGB, and one with a
    table of nodes and a table of edges is a graph.

    ``n_max``: the most nodes a graph may have. ``skip_invalid``: graphs that cannot be read are
    left out, and are the ``problems``; else the first raises ``ValueError``, which names file and
    line, and the ``key`` to set. ``samples``: a blank line, where each line is a graph, is one that
    cannot be read. Raises ``FileNotFoundError`` if there is no file, and ``ValueError`` if there is
    no graph, unless they are ``samples``.
    """
    path, types, found = Path(path), types or GraphTypes(), ReadGraphs()
    for file, kind, records in _sources(path, types, found.notes):
        for split, place, parse in _and_faults(file, records):
            try:
                graph = parse()
                _check_size(graph, n_max)
            except ValueError as error:  # numbers of thousands of digits, too
                problem = f"{file}{place}: {error}"
                if not skip_invalid:
                    raise ValueError(
                        f"{problem}; correct it, or leave such graphs out with {key}=true"
                    ) from error
                found.problems.append(problem)
            else:
                found.splits.setdefault(split, []).append(graph)
        if samples and kind in _OF_LINES:
            found.problems += _blank(file, kind)
    if not found.graphs and not (samples and found.problems):
        why = f": {found.problems[0]}" if found.problems else ""
        raise ValueError(f"{path} holds no graph that can be read{why}")
    return found


def _check_size(graph: TypedGraph, n_max: int | None) -> None:
    if n_max is not None and len(graph.nodes) > n_max:
        raise GraphError(f"{len(graph.nodes)} nodes, more than n_max={n_max}")


def _sources(
    path: Path, types: GraphTypes, notes: Notes
) -> Iterator[tuple[Path, FileKind | None, Records]]:
    """Each file with its kind, or a folder that is one data set, and its graphs."""
    files = _files_of(path)
    if path.is_dir():
        if any(map(part_of, files)):
            yield path, None, folder_records(files, types, notes)
            return
        if any(map(ogb_part, files)):
            yield path, None, ogb_records(files, types, notes)
            return
        if all(tables_of(files)):
            yield path, None, table_records(files, types, notes)
            return
    kinds = {file: _kind_of(file, path.is_dir()) for file in files}
    for file, kind in kinds.items():
        known = kind if isinstance(kind, FileKind) else None
        yield file, known, _records(file, kind, types, notes)


def _and_faults(file: Path, records: Records) -> Records:
    """Records; content that cannot be split into graphs is a record that cannot be read."""
    try:
        yield from records
    except ValueError as error:  # a number of thousands of digits, too
        yield ALL, "", failing(str(error).removeprefix(f"{file} "))


def _kind_of(file: Path, in_folder: bool) -> FileKind | str:
    """The kind of a file of graphs, or why it is none; ``ValueError`` for a part of a data set."""
    part = part_of(file) or (("OGB", name) if (name := ogb_part(file)) else None)
    if part:
        raise ValueError(
            f"{file} is the part {part[1]} of the data set {part[0]}; give its folder, "
            f"{file.parent}"
        )
    try:
        kind = check_kind(file, tuple(_FORMATS), _EXPECTED)
    except ValueError as error:
        return str(error).removeprefix(f"{file} ")
    if kind is None:
        raise ValueError(
            f"{file}: expected {_EXPECTED}; call a list of edges .edges"
            + ("; move other files elsewhere" if in_folder else "")
        )
    return kind


def _records(file: Path, kind: FileKind | str, types: GraphTypes, notes: Notes) -> Records:
    """Records of a file of a kind; ``GraphError`` for the reason why it is of none."""
    if isinstance(kind, str):
        raise GraphError(kind)
    content = file if kind in (NPZ, NPY) else read_text(file, kind).text
    yield from _FORMATS[kind](content, types, notes)


def _json_lines(text: str, types: GraphTypes, notes: Notes) -> Records:
    for place, line in _lines(text):
        yield ALL, place, partial(_parse_json_line, line, types, notes)


def _parse_json_line(line: str, types: GraphTypes, notes: Notes) -> TypedGraph:
    return parse_graph(parse_json(line), types, notes)


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """The place of each line that is not blank, and the line."""
    for number, line in enumerate(split_lines(text), start=1):
        if line.strip():
            yield f", line {number}", line


def _blank(file: Path, kind: FileKind) -> list[str]:
    lines = enumerate(split_lines(read_text(file, kind).text), start=1)
    return [f"{file}, line {number}: is blank" for number, line in lines if not line.strip()]


def _json(text: str, types: GraphTypes, notes: Notes) -> Records:
    content = parse_json(text)
    if isinstance(content, list):
        content = {ALL: content}
    if not isinstance(content, dict) or "edges" in content or is_node_link(content):
        content = {ALL: [content]}
    for name, graphs in content.items():
        split = SPLIT_NAMES.get(name)
        if split is None or not isinstance(graphs, list):
            why = f"expected lists of graphs by split: {', '.join(SPLIT_NAMES)}"
            yield ALL, f", {name!r}", failing(why)
            continue
        for k, record in enumerate(graphs):
            yield split, f", {name}[{k}]", partial(parse_graph, record, types, notes)


def parse_json(text: str) -> Any:
    """Raises ``GraphError`` for what is no JSON."""
    try:
        return load_json(text)
    except ValueError as error:
        raise GraphError(f"not JSON: {error}") from error


def _graph6(text: str, types: GraphTypes, notes: Notes) -> Records:
    for place, line in _lines(text):
        yield ALL, place, partial(parse_graph6, line, types, notes)


def _node_table(text: str, types: GraphTypes, notes: Notes) -> Records:
    raise GraphError(f"is {NODE_TABLE.sentence()}")
    yield  # so that this too is a reader


def _graphml(text: str, types: GraphTypes, notes: Notes) -> Records:
    yield ALL, "", partial(parse_graphml, text, types, notes)


_FORMATS: dict[FileKind, Callable[..., Records]] = {
    NPZ: array_records,
    NPY: array_records,
    JSON_LINES: _json_lines,
    JSON: _json,
    GRAPH6: _graph6,
    GRAPHML: _graphml,
    DIGRESS: digress_records,
    EDGE_TABLE: edge_list_records,
    NODE_TABLE: _node_table,
    EDGE_LIST: edge_list_records,
}
"""Readers by kind: of arrays of a path, of others of the text."""

_EXPECTED = (
    "JSON, JSON lines, GraphML, graph6 or sparse6, lists of edges, blocks of DiGress, or adjacency "
    "matrices (.npz, .npy)"
)
_OF_LINES = (JSON_LINES, GRAPH6)


def _files_of(path: Path) -> list[Path]:
    """The file itself, or those of a folder."""
    if not path.exists():
        raise FileNotFoundError(f"no graphs at {path.absolute()}")
    if not path.is_dir():
        return [path]
    entries = [each for each in path.iterdir() if each.name[0] != "."]
    if lost := [each for each in entries if each.is_symlink() and not each.exists()]:
        raise FileNotFoundError(f"{lost[0]} is a link to nothing; restore its file, or remove it")
    files = [each for each in entries if each.is_file()]
    return sorted(files, key=lambda each: _natural(each.name))


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort key by which graph2 comes before graph10."""
    return [(int(digits or -1), text) for digits, text in re.findall(r"(\d+)|(\D+)", name)]
