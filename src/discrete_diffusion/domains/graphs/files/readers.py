"""Graphs of files: JSON, GraphML, graph6, lists of edges, adjacency matrices, folders of the TU
collection; text plain or gzipped."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from discrete_diffusion.config.naming import counted
from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.data.text_files import read_text, split_lines, suffix_of
from discrete_diffusion.domains.graphs.files.edge_lists import edge_list_records
from discrete_diffusion.domains.graphs.files.linked_formats import parse_graph6, parse_graphml
from discrete_diffusion.domains.graphs.files.matrices import (
    BLOCK,
    array_records,
    digress_records,
)
from discrete_diffusion.domains.graphs.files.node_links import is_node_link
from discrete_diffusion.domains.graphs.files.notes import Notes
from discrete_diffusion.domains.graphs.files.records import (
    ALL,
    SPLIT_NAMES,
    GraphError,
    Records,
    failing,
    parse_graph,
)
from discrete_diffusion.domains.graphs.files.tu_folders import folder_records, part_of
from discrete_diffusion.domains.graphs.graph_types import GraphTypes


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

    By the ending, before ``.gz``: ``.jsonl``, a graph a line; ``.json``, a list of graphs or an
    object with one for each split; ``.g6``, a graph a line; ``.graphml``; ``.npz`` and ``.npy``,
    adjacency matrices; ``.edges``, ``.edgelist``, ``.txt``, ``.csv``, ``.tsv``, lists of edges, or
    blocks ``N= X: E:``. A folder with ``DS_A.txt`` is one of the TU collection.

    ``n_max``: the most nodes a graph may have. ``skip_invalid``: graphs that cannot be read are
    left out, and are the ``problems``; else the first raises ``ValueError``, which names file and
    line, and the ``key`` to set. ``samples``: a blank line, where each line is a graph, is one that
    cannot be read. Raises ``FileNotFoundError`` if there is no file, and ``ValueError`` if there is
    no graph, unless they are ``samples``.
    """
    path, types, found = Path(path), types or GraphTypes(), ReadGraphs()
    for file, records in _sources(path, types, found.notes):
        for split, place, parse in records:
            try:
                graph = parse()
                _check_size(graph, n_max)
            except GraphError as error:
                problem = f"{file}{place}: {error}"
                if not skip_invalid:
                    raise ValueError(
                        f"{problem}; correct it, or leave such graphs out with {key}=true"
                    ) from error
                found.problems.append(problem)
            else:
                found.splits.setdefault(split, []).append(graph)
        if samples and suffix_of(file) in _OF_LINES:
            found.problems += _blank(file)
    if not found.graphs and not (samples and found.problems):
        why = f": {found.problems[0]}" if found.problems else ""
        raise ValueError(f"{path} holds no graph that can be read{why}")
    return found


def _check_size(graph: TypedGraph, n_max: int | None) -> None:
    if n_max is not None and len(graph.nodes) > n_max:
        raise GraphError(f"{len(graph.nodes)} nodes, more than n_max={n_max}")


def _sources(path: Path, types: GraphTypes, notes: Notes) -> Iterator[tuple[Path, Records]]:
    """Each file, or a folder that is one data set, and its graphs."""
    files = _files_of(path)
    if path.is_dir() and any(map(part_of, files)):
        yield path, folder_records(files, types, notes)
        return
    for file in files:
        if part := part_of(file):
            raise ValueError(
                f"{file} is the part {part[1]} of the data set {part[0]}; give its folder, "
                f"{file.parent}"
            )
        if suffix_of(file) not in _FORMATS and file.suffix.lower() not in _BINARY:
            endings = ", ".join((*_FORMATS, *_BINARY))
            raise ValueError(
                f"{file}: expected one of {endings}, or text of these with .gz"
                + ("; move other files elsewhere" if path.is_dir() else "")
            )
    for file in files:
        yield file, _records(file, types, notes)


def _records(file: Path, types: GraphTypes, notes: Notes) -> Records:
    """Records of a file; content that cannot be split into graphs is a record that cannot be
    read."""
    if file.suffix.lower() in _BINARY:
        yield from array_records(file, types, notes)
        return
    try:
        text = read_text(file).text
    except ValueError as error:
        yield ALL, "", failing(str(error).removeprefix(f"{file} "))
        return
    yield from _FORMATS[suffix_of(file)](text, types, notes)


def _json_lines(text: str, types: GraphTypes, notes: Notes) -> Records:
    for place, line in _lines(text):
        yield ALL, place, partial(_parse_json_line, line, types, notes)


def _parse_json_line(line: str, types: GraphTypes, notes: Notes) -> TypedGraph:
    return _parse_record(load_json(line), types, notes)


def _parse_record(record: Any, types: GraphTypes, notes: Notes) -> TypedGraph:
    graph = parse_graph(record, types, notes)
    notes.forms["node-link JSON" if is_node_link(record) else "JSON"] += 1
    return graph


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """The place of each line that is not blank, and the line."""
    for number, line in enumerate(split_lines(text), start=1):
        if line.strip():
            yield f", line {number}", line


def _blank(file: Path) -> list[str]:
    lines = enumerate(split_lines(read_text(file).text), start=1)
    return [f"{file}, line {number}: is blank" for number, line in lines if not line.strip()]


def _json(text: str, types: GraphTypes, notes: Notes) -> Records:
    try:
        content = load_json(text)
    except GraphError as error:
        yield ALL, "", failing(str(error))
        return
    if isinstance(content, list):
        content = {ALL: content}
    if not isinstance(content, dict) or "edges" in content or is_node_link(content):
        content = {ALL: [content]}
    for name, graphs in content.items():
        split = SPLIT_NAMES.get(name)
        if split is None or not isinstance(graphs, list):
            yield (
                ALL,
                f", {name!r}",
                failing(f"expected lists of graphs by split: {', '.join(SPLIT_NAMES)}"),
            )
            continue
        for k, record in enumerate(graphs):
            yield split, f", {name}[{k}]", partial(_parse_record, record, types, notes)


def load_json(text: str) -> Any:
    """Raises ``GraphError`` for what is no JSON."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise GraphError(f"not JSON: {error}") from error


def _graph6(text: str, types: GraphTypes, notes: Notes) -> Records:
    for place, line in _lines(text):
        notes.forms["graph6"] += 1
        yield ALL, place, partial(parse_graph6, line, types, notes)


def _graphml(text: str, types: GraphTypes, notes: Notes) -> Records:
    notes.forms["GraphML"] += 1
    yield ALL, "", partial(parse_graphml, text, types, notes)


def _listed(text: str, types: GraphTypes, notes: Notes) -> Records:
    """A list of edges, or blocks of DiGress."""
    lines = (line.strip() for line in split_lines(text))
    first = next((line for line in lines if line and line[0] not in "#%"), "")
    read = digress_records if BLOCK.match(first) else edge_list_records
    yield from read(text, types, notes)


_FORMATS: dict[str, Callable[[str, GraphTypes, Notes], Records]] = {
    ".jsonl": _json_lines,
    ".json": _json,
    ".g6": _graph6,
    ".graph6": _graph6,
    ".graphml": _graphml,
    ".edges": _listed,
    ".edgelist": _listed,
    ".txt": _listed,
    ".csv": _listed,
    ".tsv": _listed,
}
"""Readers of text, by ending."""

_BINARY = (".npz", ".npy")
_OF_LINES = (".jsonl", ".g6", ".graph6")


def _files_of(path: Path) -> list[Path]:
    """The file itself, or those of a folder."""
    if not path.exists():
        raise FileNotFoundError(f"no graphs at {path.absolute()}")
    if not path.is_dir():
        return [path]
    files = [each for each in path.iterdir() if each.is_file() and each.name[0] != "."]
    return sorted(files, key=lambda each: _natural(each.name))


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort key by which graph2 comes before graph10."""
    return [(int(digits or -1), text) for digits, text in re.findall(r"(\d+)|(\D+)", name)]
