"""Graphs of public formats: GraphML, graph6, adjacency matrices, and folders of the TU collection.

Matrices are arrays of ``.npz`` and ``.npy``, or blocks as DiGress has them:

    N=3
    X:
    0 1 0
    E:
    0 1 0
    1 0 2
    0 2 0

An entry of 0 means no edge, k the k-th type of edges; where there is one type, any positive whole
number is a multiplicity, which is dropped, and other numbers are refused.

TU: ``DS_A.txt``, a pair of nodes a line, ``DS_graph_indicator.txt``, the graph of every node, and
labels, which are types if ``data.node_types`` or ``data.edge_types`` names them. Other content is
dropped and counted.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from functools import partial
from glob import escape
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError, fromstring

import numpy as np
from numpy.typing import NDArray

from discrete_diffusion.data.files import UNREADABLE, check_members, read_text, split_lines
from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.domains.graphs import records
from discrete_diffusion.domains.graphs.domain import EDGE_LIST
from discrete_diffusion.domains.graphs.records import GraphError, GraphTypes, Notes, Records
from discrete_diffusion.layout.vocab_config import MOST_NODES

_BLOCK = re.compile(r"N\s*=\s*(\d+)")
"""First line of a block of DiGress."""

_NUM_NODES = ("num_nodes", "n_nodes", "n", "sizes")
"""Names of arrays with the number of nodes of each matrix, without padding."""

_TU_FILE = re.compile(r"(?P<name>.+)_(?P<part>A|graph_indicator|(node|edge|graph)_\w+)\.txt(\.gz)?")
_TU_TABLES = ("A", "graph_indicator", "node_labels", "edge_labels")


def graphml_records(text: str, types: GraphTypes, notes: Notes) -> Records:
    """Yield the graph of a GraphML file."""
    yield records.ALL, "", partial(parse_graphml, text, types, notes)


def parse_graphml(text: str, types: GraphTypes, notes: Notes) -> TypedGraph:
    """Parse GraphML, with nodes in the order of the file. Raises ``GraphError`` unless the text is
    one undirected graph."""
    import networkx

    # one undirected graph
    if (num := len(re.findall(r"<graph[\s>]", text))) > 1:
        raise GraphError(f"holds {num} graphs; expected one, a file each")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="No key type for id")  # text is the default
            graph = networkx.parse_graphml(text)
    except (ParseError, networkx.NetworkXError, KeyError, ValueError) as error:
        raise GraphError(f"not GraphML: {' '.join(str(error).split())}") from error
    if graph.is_directed():
        raise GraphError('is directed; expected edgedefault="undirected"')
    # networkx merges repeated nodes and adds missing ones without a word
    tags = fromstring(text.lstrip()).iter()
    names = [each.get("id") for each in tags if each.tag.rpartition("}")[2] == "node"]
    if len({*names}) < len(names) or {*names} != {*graph}:
        wrong = next((n for n in graph if n not in names), max(names, key=names.count))
        raise GraphError(
            f"node {wrong} is listed {names.count(wrong)} times; expected each node of an edge, "
            "with its id, once"
        )
    return _from_networkx(graph, types, notes, "GraphML")


def parse_graph6(line: str, types: GraphTypes, notes: Notes) -> TypedGraph:
    """Parse a line of graph6 or, after a colon, sparse6; neither format has types."""
    import networkx

    # without header and colon
    body = re.sub("^>>(graph6|sparse6)<<", "", line.strip())
    code = body.removeprefix(":")
    if body[:1] in ("&", ";"):
        raise GraphError(f"begins with {body[0]!r}: directed or incremental; write it as graph6")
    # printable bytes that encode six bits each
    if wrong := re.search("[^?-~]", code):
        raise GraphError(
            f"not graph6: character {body.index(wrong[0]) + 1} is {wrong[0]!a}; expected bytes 63 "
            "to 126, ? to ~"
        )
    # the number of nodes first, then the graph
    try:
        num, _ = networkx.readwrite.graph6.data_to_n([ord(c) - 63 for c in code])
        if num <= MOST_NODES:  # a few bytes of sparse6 may mean as many as memory holds
            read = networkx.from_sparse6_bytes if code != body else networkx.from_graph6_bytes
            graph = read(body.encode("ascii"))
    except (UnicodeEncodeError, networkx.NetworkXError, ValueError, IndexError) as error:
        raise GraphError(f"not graph6: {' '.join(str(error).split())}") from error
    if num > MOST_NODES:
        raise GraphError(f"{num:,} nodes, more than {MOST_NODES:,}")
    return _from_networkx(graph, types, notes, "graph6")


def _from_networkx(graph: Any, types: GraphTypes, notes: Notes, form: str) -> TypedGraph:
    # count what a graph here has no place for
    for _, data in graph.nodes(data=True):
        notes.drop_others(data, (records.TYPE,), "node")
    for _, _, data in graph.edges(data=True):
        notes.drop_others(data, (records.TYPE, "id"), "edge")
    notes.drop_others(graph.graph, ("node_default", "edge_default"), "graph")
    # the record, with nodes by number
    number = {node: k for k, node in enumerate(graph)}
    named = [data.get(records.TYPE) for _, data in graph.nodes(data=True)]
    edges = [
        [number[u], number[v], *([data[records.TYPE]] if records.TYPE in data else [])]
        for u, v, data in graph.edges(data=True)
    ]
    record: dict[str, Any] = {"n": len(graph), "edges": edges}
    if any(name is not None for name in named):
        record["node_types"] = named
    return records.parse_graph(record, types, notes, form)


def graph_of_matrix(
    matrix: NDArray[Any],
    types: GraphTypes,
    notes: Notes,
    kinds: Sequence[int] | None = None,
    form: str = "adjacency matrix",
) -> TypedGraph:
    """Graph of a square matrix and the types of its nodes.

    Raises ``GraphError`` for a directed graph, and for an edge from a node to itself.
    """
    # a symmetric matrix of finite numbers without loops
    if not np.isfinite(matrix).all():
        raise GraphError("an entry of its matrix is not finite; expected 0 for no edge")
    loops, (rows, columns) = np.flatnonzero(matrix.diagonal()), np.nonzero(matrix != matrix.T)
    if len(loops):
        raise GraphError(
            f"node {loops[0]} is linked to itself; expected a matrix with 0 on its diagonal"
        )
    if len(rows):
        i, j = rows[0], columns[0]
        raise GraphError(
            f"is directed: entry [{i}, {j}] is {matrix[i, j]} and [{j}, {i}] is {matrix[j, i]}; "
            "expected a symmetric matrix"
        )
    # an edge for each entry above the diagonal
    edges: list[list[Any]] = []
    for i, j in zip(*np.nonzero(np.triu(matrix, 1)), strict=True):
        value = matrix[i, j].item()
        edges.append([int(i), int(j)])
        if len(types.edges) > 2:
            if value not in range(1, len(types.edges)):
                raise GraphError(
                    f"entry [{i}, {j}] is {value}; expected 0, or 1 to {len(types.edges) - 1} for "
                    f"{', '.join(types.edges[:-1])}"
                )
            edges[-1].append(types.edges[int(value) - 1])
        elif value < 1 or value != int(value):
            raise GraphError(
                f"entry [{i}, {j}] is {value}; expected 0 for no edge and 1 for an edge, or how "
                "many there are; make edges of probabilities or weights first, matrix > 0.5"
            )
        elif value != 1:
            notes.drop(["number in the matrix"], "edge")
    # types of nodes, or a count of those that are dropped
    record: dict[str, Any] = {"n": len(matrix), "edges": edges}
    if kinds is not None and len(types.nodes) == 1:
        notes.drop(["type"] if any(kinds) else [], "node", len(kinds))
    elif kinds is not None:
        if wrong := [kind for kind in kinds if not 0 <= kind < len(types.nodes)]:
            raise GraphError(
                f"X: a node has type {wrong[0]}; expected 0 to {len(types.nodes) - 1} for "
                f"{', '.join(types.nodes)}"
            )
        record["node_types"] = [types.nodes[kind] for kind in kinds]
    return records.parse_graph(record, types, notes, form)


def digress_records(text: str, types: GraphTypes, notes: Notes) -> Records:
    """Yield a record for each block that begins with ``N=``."""
    lines = [(k, line.strip()) for k, line in enumerate(split_lines(text), start=1)]
    lines = [(k, line) for k, line in lines if line and line[0] not in "#%"]
    starts = [k for k, (_, line) in enumerate(lines) if _BLOCK.match(line)]
    for first, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        block = lines[first:end]
        yield records.ALL, f", line {block[0][0]}", partial(_digress_graph, block, types, notes)


def _digress_graph(block: Sequence[tuple[int, str]], types: GraphTypes, notes: Notes) -> TypedGraph:
    # words of the block with their lines
    num = int(_BLOCK.match(block[0][1])[1])  # type: ignore[index]
    words = [(at, word) for at, line in block[1:] for word in line.split()]
    names = [word for _, word in words]
    if names.count("X:") != 1 or names.count("E:") != 1 or names[0] != "X:":
        raise GraphError("expected N=, X: and the types of nodes, E: and a matrix")
    # whole numbers only, cut at the mark of the matrix
    numbers = []
    for at, word in (pair for pair in words if pair[1] not in ("X:", "E:")):
        if re.fullmatch(r"-?\d{1,18}", word) is None:
            raise GraphError(f"line {at}: expected whole numbers, got {word[:60]!r}")
        numbers.append(int(word))
    cut = names.index("E:") - 1
    kinds, entries = numbers[:cut], numbers[cut:]
    # as many numbers as N requires
    if len(kinds) != num or len(entries) != num**2:
        raise GraphError(
            f"N={num}: expected {num} types of nodes and a matrix of {num} x {num}, got "
            f"{len(kinds)} and {len(entries)} numbers"
        )
    matrix = np.array(entries).reshape(num, num)
    return graph_of_matrix(matrix, types, notes, kinds, "block N= X: E: of DiGress")


def array_records(path: Path, types: GraphTypes, notes: Notes) -> Records:
    """Yield a record for every matrix of ``.npz`` or ``.npy``, where an array may hold several.

    An array named after a split holds the graphs of that split. Pickled objects are refused.
    """
    # arrays only, nothing that runs code
    try:
        arrays = _load_arrays(path)
    except UNREADABLE as error:
        if "allow_pickle" in str(error):
            raise GraphError(
                "holds pickled Python objects, which can run code and are not read; save matrices "
                "of numbers, numpy.savez(file, a, b, ...)"
            ) from error
        raise GraphError(f"is not a file of arrays: {' '.join(str(error).split())}") from error
    # sizes are an array of their own
    sizes = next((arrays.pop(name) for name in _NUM_NODES if name in arrays), None)
    any_matrix = False
    # a matrix, or a stack of matrices
    for name, array in arrays.items():
        stack = array[None] if array.ndim == 2 else array
        if stack.ndim != 3 or stack.shape[1] != stack.shape[2] or stack.dtype.kind not in "biuf":
            notes.drop([f"array {name} {array.shape}"], "file")
            continue
        any_matrix = True
        parse = partial(_padded_graph, stack, None if array.ndim == 2 else sizes, types, notes)
        for k in range(len(stack)):
            place = f", {name}" if array.ndim == 2 else f", {name}[{k}]"
            yield records.SPLIT_NAMES.get(name, records.ALL), place, partial(parse, k)
    # no array had the shape of a matrix
    if not any_matrix:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise GraphError(f"holds no adjacency matrix [N, N] or [M, N, N]; it has {shapes}")


def _padded_graph(
    stack: NDArray[Any], sizes: NDArray[Any] | None, types: GraphTypes, notes: Notes, k: int
) -> TypedGraph:
    """Graph of matrix ``k`` of a stack, without padding; ``sizes`` tells padding from unlinked
    nodes."""
    matrix = stack[k]
    # nodes up to the last one with an edge
    num = int(np.flatnonzero(matrix.any(axis=0) | matrix.any(axis=1)).max(initial=-1)) + 1
    if sizes is not None:
        if len(sizes) != len(stack) or not num <= sizes[k] <= len(matrix):
            raise GraphError(
                f"num_nodes: expected a number for each of {len(stack)} matrices, {num} to "
                f"{len(matrix)} for this one, got {sizes[k] if k < len(sizes) else 'none'}"
            )
        matrix = matrix[: int(sizes[k]), : int(sizes[k])]
    elif num < len(matrix) and len(stack) > 1:
        raise GraphError(
            f"its last {len(matrix) - num} rows are 0: either padding, of a graph of {num} nodes, "
            f"or nodes without edges, of one of {len(matrix)}; add an array num_nodes that says it"
        )
    return graph_of_matrix(matrix, types, notes)


def _load_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Load the arrays of a file by name. Raises an error in ``UNREADABLE`` if there are none."""
    # arrays of one file, by name
    with path.open("rb") as file:
        content = np.load(file, allow_pickle=False)
        if isinstance(content, np.ndarray):
            return {"array": content}
        check_members(content, path.name)
        members = ((name, content[name]) for name in content.files)  # bytes if not an array
        arrays = {name: each for name, each in members if isinstance(each, np.ndarray)}
    if not arrays:
        raise ValueError("no array is in it")
    # a sparse matrix of scipy is stored as its parts
    if {"format", "shape", "data"} <= arrays.keys():
        from scipy.sparse import load_npz  # slow to import

        sparse = load_npz(path)
        if max(sparse.shape) > MOST_NODES:
            raise ValueError(f"a matrix of {sparse.shape}, more than {MOST_NODES:,} nodes")
        return {"matrix": sparse.toarray()}
    return arrays


def tu_part(path: Path) -> tuple[str, str] | None:
    """Name of a data set of the TU collection and the part of it that a file holds; None for
    another file, and for a file without other parts next to it."""
    name = _TU_FILE.fullmatch(path.name)
    if name is None:
        return None
    siblings = path.parent.glob(f"{escape(name['name'])}_*.txt*")
    several = sum(_TU_FILE.fullmatch(each.name) is not None for each in siblings) > 1
    return (name["name"], name["part"]) if several else None


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
    tables = {part: _tu_table(file) for part, file in folder.items() if part in _TU_TABLES}
    # labels that are not types, other parts and other files are dropped
    for unit, noun, has_types in (
        ("node", "node", len(types.nodes) > 1),
        ("edge", "pair", len(types.edges) > 2),
    ):
        if not has_types and (labels := tables.pop(f"{unit}_labels", None)):
            # shown with their values, which a user may name as types
            values = sorted({row[0] for row in labels if row}, key=lambda v: (len(v), v))
            shown = ", ".join(values[:10]) + ", ..." * (len(values) > 10)
            named = f"{unit}_labels ({shown}; data.{unit}_types names what is kept)"
            notes.drop([named], noun, len(labels))
    for other in folder.keys() - {*_TU_TABLES}:
        notes.drop([other], other.partition("_")[0], len(_tu_table(folder[other])))
    notes.drop([file.name for file in files if tu_part(file) is None], "file")
    # one record for each graph
    for number, record in _tu_graphs(tables, folder).items():
        parse = partial(records.parse_graph, record, types, notes, "graph of a TU folder")
        yield records.ALL, f", graph {number}", parse


def _tu_table(file: Path) -> list[list[str]]:
    text = read_text(file, EDGE_LIST).text
    return [[word for word in re.split(r"[\s,]+", line) if word] for line in split_lines(text)]


def _tu_graphs(
    tables: dict[str, list[list[str]]], folder: dict[str, Path]
) -> dict[int, dict[str, Any]]:
    """Records by number of the graph, of ``tables`` with the words of each line by part; nodes are
    in the order of the file."""
    # the graph of every node
    rows, labels = tables["graph_indicator"], tables.get("node_labels")
    while rows and not rows[-1]:
        rows.pop()  # a blank line at the end
    graph_of = [
        _tu_numbers(row, folder["graph_indicator"], k, 1)[0] for k, row in enumerate(rows, start=1)
    ]
    # a label for every node, if there are labels
    if labels is not None and len(labels) < len(graph_of):
        raise GraphError(
            f"{folder['node_labels'].name} has {len(labels):,} lines; expected one for each of "
            f"{len(graph_of):,} nodes"
        )
    # a node takes the next number of its graph
    graphs: dict[int, dict[str, Any]] = {}
    place = []
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
    u, v = (node - 1 for node in _tu_numbers(row, file, line, 2))
    where = f"{file.name}, line {line}: {u + 1}, {v + 1}"
    if not all(0 <= node < len(graph_of) for node in (u, v)):
        raise GraphError(f"{where}: expected nodes 1 to {len(graph_of):,}")
    if graph_of[u] != graph_of[v]:
        raise GraphError(f"{where}: one is of graph {graph_of[u]}, one of {graph_of[v]}")
    if u == v:
        raise GraphError(f"{where}: node {u + 1} is linked to itself; leave such edges out")
    return u, v


def _tu_numbers(row: Sequence[str], file: Path, line: int, num: int) -> list[int]:
    if len(row) != num or not all(word.isdecimal() for word in row):
        expected = "two nodes" if num == 2 else "the number of a graph"
        raise GraphError(f"{file.name}, line {line}: expected {expected}, got {' '.join(row)!r}")
    return [int(word) for word in row]
