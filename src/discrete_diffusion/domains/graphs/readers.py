"""Graphs of files: JSON, GraphML, graph6, lists of edges, adjacency matrices, and folders of the TU
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
from discrete_diffusion.domains.graphs import domain, formats, records
from discrete_diffusion.domains.graphs.edge_lists import edge_list_records
from discrete_diffusion.domains.graphs.records import ALL, GraphError, GraphTypes, Notes, Records
from discrete_diffusion.runtime import inputs
from discrete_diffusion.runtime.inputs import FileKind


@dataclass
class ReadGraphs:
    """Graphs that were read.

    ``splits``: graphs by their split in the file, ``ALL`` for graphs of no split. ``problems``:
    place and fault of each graph that was left out. ``notes``: how graphs were read, and what was
    dropped.
    """

    splits: dict[str, list[TypedGraph]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: Notes = field(default_factory=Notes)

    @property
    def graphs(self) -> list[TypedGraph]:
        """Graphs of all splits."""
        return [graph for graphs in self.splits.values() for graph in graphs]

    def summary(self, path: str | Path) -> str:
        """Line for the log: what was dropped, and the first reason why graphs were left out."""
        parts = [f"{path}: {counted(len(self.graphs), 'graph')}", *self.notes.sentences()]
        if self.problems:
            parts.append(f"left out {len(self.problems):,} that cannot be read: {self.problems[0]}")
        return "; ".join(parts)


def read_graphs(
    path: str | Path,
    types: GraphTypes | None = None,
    *,
    skip_invalid: bool = False,
    max_nodes: int | None = None,
    key: str = "skip_invalid",
    samples: bool = False,
) -> ReadGraphs:
    """Read all graphs of a file, or of the files of a folder in the order of their names.

    The format is known by the content, then by the name: JSON lines, a graph a line; JSON, a list
    of graphs or an object with a list for each split; graph6 and sparse6, a graph a line; GraphML;
    ``.npz`` and ``.npy``, adjacency matrices; lists of edges; blocks ``N= X: E:``. A folder with
    ``DS_A.txt`` is of the TU collection.

    ``types``: graphs without types by default. ``skip_invalid``: leave out graphs that cannot be
    read, as ``problems``; error messages call it ``key``. ``max_nodes``: most nodes that a graph
    may have. ``samples``: a blank line among lines of graphs counts as a graph that cannot be read.

    Raises ``FileNotFoundError``, and ``ValueError`` naming file and line for a graph that cannot be
    read, or if no graph can.
    """
    path, types, result = Path(path), types or GraphTypes(), ReadGraphs()
    # graphs of every file, or the first problem
    for file, kind, graphs in _sources(path, types, result.notes):
        for split, place, parse in graphs:
            try:
                graph = parse()
                if max_nodes is not None and len(graph.nodes) > max_nodes:
                    raise GraphError(f"{len(graph.nodes)} nodes, more than max_nodes={max_nodes}")
            except ValueError as error:  # also a number of thousands of digits
                problem = f"{file}{place}: {error}"
                if not skip_invalid:
                    raise ValueError(
                        f"{problem}; correct it, or leave such graphs out with {key}=true"
                    ) from error
                result.problems.append(problem)
            else:
                result.splits.setdefault(split, []).append(graph)
        if samples and kind in (inputs.JSON_LINES, domain.GRAPH6):
            lines = enumerate(split_lines(read_text(file, kind).text), start=1)
            blank = [k for k, line in lines if not line.strip()]
            result.problems += [f"{file}, line {k}: is blank" for k in blank]
    # something has to be readable
    if not result.graphs and not (samples and result.problems):
        why = f": {result.problems[0]}" if result.problems else ""
        raise ValueError(f"{path} holds no graph that can be read{why}")
    return result


def _sources(
    path: Path, types: GraphTypes, notes: Notes
) -> Iterator[tuple[Path, FileKind | None, Records]]:
    """Yield each file with its kind, or a folder that is one data set, and its graphs."""
    files = _files_of(path)
    if path.is_dir() and any(map(formats.tu_part, files)):
        yield path, None, _with_faults(path, formats.tu_records(files, types, notes))
        return
    # the kinds of all files first, so that a foreign file is refused before any is read
    kinds = {file: _kind_of(file, path.is_dir()) for file in files}
    for file, kind in kinds.items():
        if isinstance(kind, str):
            yield file, None, iter([(ALL, "", records.failing_parser(kind))])
        else:
            yield file, kind, _with_faults(file, _file_records(file, kind, types, notes))


def _files_of(path: Path) -> list[Path]:
    """The file itself, or the files of a folder in natural order, graph2 before graph10."""
    if not path.exists():
        raise FileNotFoundError(f"no graphs at {path.absolute()}")
    if not path.is_dir():
        return [path]
    # visible entries, all of which must exist
    entries = [each for each in path.iterdir() if each.name[0] != "."]
    if lost := [each for each in entries if each.is_symlink() and not each.exists()]:
        raise FileNotFoundError(f"{lost[0]} is a link to nothing; restore its file, or remove it")

    def natural(file: Path) -> list[tuple[int, str]]:
        parts = re.findall(r"(\d+)|(\D+)", file.name)
        return [(int(digits or -1), text) for digits, text in parts]

    return sorted((each for each in entries if each.is_file()), key=natural)


def _with_faults(file: Path, content: Records) -> Records:
    """Yield records; content that cannot be split into graphs becomes a record that cannot be
    read."""
    try:
        yield from content
    except ValueError as error:  # also a number of thousands of digits
        yield ALL, "", records.failing_parser(str(error).removeprefix(f"{file} "))


def _kind_of(file: Path, in_folder: bool) -> FileKind | str:
    """Kind of a file, or why it cannot be read; ``ValueError`` for a part of a data set."""
    # a part of a data set needs its whole folder
    if part := formats.tu_part(file):
        raise ValueError(
            f"{file} is the part {part[1]} of the data set {part[0]}; give its folder, "
            f"{file.parent}"
        )
    is_edges = file.name.startswith("edge.csv")
    if is_edges and any(any(file.parent.glob(f"{other}.csv*")) for other in _WITH_EDGES):
        raise ValueError(
            f"{file} is of the raw files of OGB, whose edges do not say where a graph ends; write "
            "the graphs as JSON lines"
        )
    # the kind by content or name
    try:
        kind = inputs.check_kind(file, (*_FORMATS, domain.NODE_TABLE), _EXPECTED)
    except ValueError as error:
        return str(error).removeprefix(f"{file} ")
    if kind is domain.NODE_TABLE:
        return f"is {kind.sentence()}"
    if kind is None:
        raise ValueError(
            f"{file}: expected {_EXPECTED}; call a list of edges .edges"
            + ("; move other files elsewhere" if in_folder else "")
        )
    return kind


def _file_records(file: Path, kind: FileKind, types: GraphTypes, notes: Notes) -> Records:
    content = file if kind in (inputs.NPZ, inputs.NPY) else read_text(file, kind).text
    yield from _FORMATS[kind](content, types, notes)


def parse_json(text: str) -> Any:
    """Parse JSON. Raises ``GraphError`` for other text."""
    try:
        return load_json(text)
    except ValueError as error:
        raise GraphError(f"not JSON: {error}") from error


def _json_records(text: str, types: GraphTypes, notes: Notes) -> Records:
    content = parse_json(text)
    # a list of graphs, or one graph, has no splits
    if isinstance(content, list):
        content = {ALL: content}
    if not isinstance(content, dict) or "edges" in content or records.is_node_link(content):
        content = {ALL: [content]}
    # graphs by split
    for name, graphs in content.items():
        split = records.SPLIT_NAMES.get(name)
        if split is None or not isinstance(graphs, list):
            why = f"expected lists of graphs by split: {', '.join(records.SPLIT_NAMES)}"
            yield ALL, f", {name!r}", records.failing_parser(why)
            continue
        for k, record in enumerate(graphs):
            yield split, f", {name}[{k}]", partial(records.parse_graph, record, types, notes)


def _graph_lines(
    parse: Callable[[str, GraphTypes, Notes], TypedGraph],
) -> Callable[[str, GraphTypes, Notes], Records]:
    """Make a reader of text with a graph in each line, which ``parse`` reads."""

    def read(text: str, types: GraphTypes, notes: Notes) -> Records:
        for number, line in enumerate(split_lines(text), start=1):
            if line.strip():
                yield ALL, f", line {number}", partial(parse, line, types, notes)

    return read


_FORMATS: dict[FileKind, Callable[..., Records]] = {
    inputs.NPZ: formats.array_records,
    inputs.NPY: formats.array_records,
    inputs.JSON_LINES: _graph_lines(
        lambda line, types, notes: records.parse_graph(parse_json(line), types, notes)
    ),
    inputs.JSON: _json_records,
    domain.GRAPH6: _graph_lines(formats.parse_graph6),
    inputs.GRAPHML: formats.graphml_records,
    domain.DIGRESS: formats.digress_records,
    domain.EDGE_TABLE: edge_list_records,
    domain.EDGE_LIST: edge_list_records,
}
"""Readers by kind of file; they take the path of a file of arrays, and the text of other files."""

_WITH_EDGES = ("num-node-list", "num-edge-list", "node-feat", "edge-feat")
"""Names of files that stand next to ``edge.csv`` among the raw files of OGB."""

_EXPECTED = (
    "JSON, JSON lines, GraphML, graph6 or sparse6, lists of edges, blocks of DiGress, or adjacency "
    "matrices (.npz, .npy)"
)
