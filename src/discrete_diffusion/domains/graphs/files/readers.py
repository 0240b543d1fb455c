"""Graphs of files: JSON lines, JSON with splits, GraphML, graph6, edge lists; plain or gzipped."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from discrete_diffusion.data.base import SPLITS
from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.data.text_files import read_text, suffix_of
from discrete_diffusion.domains.graphs.files.linked_formats import (
    parse_edge_list,
    parse_graph6,
    parse_graphml,
)
from discrete_diffusion.domains.graphs.files.records import GraphError, parse_graph
from discrete_diffusion.domains.graphs.graph_types import GraphTypes
from discrete_diffusion.naming import counted

ALL = "all"
"""Graphs of no split."""

_SPLIT_NAMES = {**{name: name for name in (*SPLITS, ALL)}, "valid": "val", "validation": "val"}


@dataclass
class ReadGraphs:
    """``splits``: graphs by the split that the file has them in, ``ALL`` of those in none.
    ``problems``: of each graph that was left out, where it is and why."""

    splits: dict[str, list[TypedGraph]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def graphs(self) -> list[TypedGraph]:
        """Of all splits."""
        return [graph for graphs in self.splits.values() for graph in graphs]

    def summary(self, path: str | Path) -> str:
        """One line for the log; with the first reason why graphs were left out."""
        said = f"{path}: {counted(len(self.graphs), 'graph')}"
        if len(self.problems):
            said += f"; left out {len(self.problems):,} that cannot be read: {self.problems[0]}"
        return said


def read_graphs(
    path: str | Path,
    types: GraphTypes | None = None,
    *,
    skip_invalid: bool = False,
    n_max: int | None = None,
    key: str = "skip_invalid",
) -> ReadGraphs:
    """All graphs of a file, or of the files of a folder, in the order of their names.

    By the ending, before ``.gz``: ``.jsonl``, a graph a line; ``.json``, a list of graphs or an
    object with one for each split; ``.g6``, a graph a line; ``.graphml``; ``.edges``, ``.edgelist``
    or ``.txt``, a graph of one edge "u v" a line.

    ``n_max``: the most nodes a graph may have. ``skip_invalid``: graphs that cannot be read are
    left out, and are the ``problems``; else the first raises ``ValueError``, which names file and
    line, and the ``key`` to set. Raises ``FileNotFoundError`` if there is no file, and
    ``ValueError`` if there is no graph.
    """
    path, types, found = Path(path), types or GraphTypes(), ReadGraphs()
    for file in _files_of(path):
        for split, place, parse in _records(file, types):
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
    if not found.graphs:
        why = f": {found.problems[0]}" if found.problems else ""
        raise ValueError(f"{path} holds no graph that can be read{why}")
    return found


def _check_size(graph: TypedGraph, n_max: int | None) -> None:
    if n_max is not None and len(graph.nodes) > n_max:
        raise GraphError(f"{len(graph.nodes)} nodes, more than n_max={n_max}")


Records = Iterator[tuple[str, str, Callable[[], TypedGraph]]]
"""The split of a graph, its place in the file, and what reads it or raises ``GraphError``."""


def _records(file: Path, types: GraphTypes) -> Records:
    """What cannot be told apart into graphs is a record that cannot be read."""
    try:
        text = read_text(file).text
    except ValueError as error:
        yield ALL, "", _failing(str(error).removeprefix(f"{file} "))
        return
    yield from _FORMATS[suffix_of(file)](text, types)


def _json_lines(text: str, types: GraphTypes) -> Records:
    for place, line in _lines(text):
        yield ALL, place, partial(_parse_json_line, line, types)


def _parse_json_line(line: str, types: GraphTypes) -> TypedGraph:
    return parse_graph(load_json(line), types)


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """The place of each line that is not blank, and the line."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            yield f", line {number}", line


def _json(text: str, types: GraphTypes) -> Records:
    try:
        content = load_json(text)
    except GraphError as error:
        yield ALL, "", _failing(str(error))
        return
    if isinstance(content, list):
        content = {ALL: content}
    if not isinstance(content, dict) or "edges" in content:
        content = {ALL: [content]}
    for name, graphs in content.items():
        split = _SPLIT_NAMES.get(name)
        if split is None or not isinstance(graphs, list):
            yield (
                ALL,
                f", {name!r}",
                _failing(f"expected lists of graphs by split: {', '.join(_SPLIT_NAMES)}"),
            )
            continue
        for k, record in enumerate(graphs):
            yield split, f", {name}[{k}]", partial(parse_graph, record, types)


def load_json(text: str) -> Any:
    """Raises ``GraphError`` for what is no JSON."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise GraphError(f"not JSON: {error}") from error


def _graph6(text: str, types: GraphTypes) -> Records:
    for place, line in _lines(text):
        yield ALL, place, partial(parse_graph6, line, types)


def _graphml(text: str, types: GraphTypes) -> Records:
    yield ALL, "", partial(parse_graphml, text, types)


def _edge_list(text: str, types: GraphTypes) -> Records:
    yield ALL, "", partial(parse_edge_list, text, types)


_FORMATS: dict[str, Callable[[str, GraphTypes], Records]] = {
    ".jsonl": _json_lines,
    ".json": _json,
    ".g6": _graph6,
    ".graph6": _graph6,
    ".graphml": _graphml,
    ".edges": _edge_list,
    ".edgelist": _edge_list,
    ".txt": _edge_list,
}


def _failing(reason: str) -> Callable[[], TypedGraph]:
    def fail() -> TypedGraph:
        raise GraphError(reason)

    return fail


def _files_of(path: Path) -> list[Path]:
    """The file itself, or those of a folder; ``ValueError`` for an ending that none has."""
    if not path.exists():
        raise FileNotFoundError(f"no graphs at {path.absolute()}")
    files = [path]
    if path.is_dir():
        files = [each for each in path.iterdir() if each.is_file() and each.name[0] != "."]
        files.sort(key=lambda each: _natural(each.name))
    for file in files:
        if suffix_of(file) not in _FORMATS:
            raise ValueError(
                f"{file}: expected one of {', '.join(_FORMATS)}, or one of these with .gz"
                + ("; move other files elsewhere" if path.is_dir() else "")
            )
    return files


def _natural(name: str) -> list[tuple[int, str]]:
    """By which graph2 comes before graph10."""
    return [(int(digits or -1), text) for digits, text in re.findall(r"(\d+)|(\D+)", name)]
