"""Graphs of files that networkx or numpy reads: GraphML, graph6, and adjacency matrices.

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
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError, fromstring

import numpy as np
from numpy.typing import NDArray

from discrete_diffusion.data.files import UNREADABLE, check_members, split_lines
from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.domains.graphs import records
from discrete_diffusion.domains.graphs.records import GraphError, GraphTypes, Notes, Records
from discrete_diffusion.layout.vocab_config import MOST_NODES

_BLOCK = re.compile(r"N\s*=\s*(\d+)")
"""First line of a block of DiGress."""

_NUM_NODES = ("num_nodes", "n_nodes", "n", "sizes")
"""Names of arrays with the number of nodes of each matrix, without padding."""


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


def to_graphml(graph: TypedGraph, types: GraphTypes) -> str:
    """GraphML text, with the attribute ``type`` of nodes and edges where there are several."""
    import networkx

    # types only where there are several
    record = records.graph_record(graph, types)
    written = networkx.empty_graph(record["n"])
    for node, name in enumerate(record.get("node_types", ())):
        written.nodes[node][records.TYPE] = name
    for i, j, *rest in record["edges"]:
        written.add_edge(i, j, **dict(zip((records.TYPE,), rest, strict=False)))
    return "\n".join(networkx.generate_graphml(written)) + "\n"


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
        arrays = _load(path)
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


def _load(path: Path) -> dict[str, NDArray[Any]]:
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
