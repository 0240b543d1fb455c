"""Lists of edges: "u v", or "u v type", a line; "u" alone is a node; a blank line ends a graph.

Lines may have comments, separators, attributes, and a header of their columns. A first line "n m"
of a graph is a header if m edges among n nodes follow. What fits two readings is refused, with
both.
"""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.data.text_files import split_lines
from discrete_diffusion.domains.graphs.file_kinds import ENDS, plain_names
from discrete_diffusion.domains.graphs.files.records import (
    ALL,
    TYPE,
    GraphError,
    Notes,
    Records,
    parse_edges,
    parse_graph,
)
from discrete_diffusion.domains.graphs.graph_types import GraphTypes

_MARKS = (",", ";", "\t")
_COMMENTS = ("#", "%", ";")

_LETTERS = (("u", "v"), ("i", "j"), ("x", "y"))
"""The same, where all nodes are numbers: they may be names of nodes else."""


class Line(NamedTuple):
    """``words``: what stands in it; ``attributes``: by name, what stands beside."""

    number: int
    words: list[str]
    attributes: dict[str, Any]


def blocks_of(text: str) -> list[list[Line]]:
    """The lines that are no comments, in blocks between blank lines, without a header of columns.

    ``GraphError`` for separators that fit two readings.
    """
    bodies: list[tuple[int, str, dict[str, Any]]] = []
    starts = [0]
    for number, line in enumerate(split_lines(text), start=1):
        if not line.strip():
            starts.append(len(bodies))
        elif not line.lstrip().startswith(_COMMENTS):
            body, attributes = _attributes(line.partition(" #")[0], number)
            body = body.partition("#")[0] if '"' not in body else body
            bodies.append((number, body.strip().rstrip(",;"), attributes))
    split = _split(bodies)
    lines = [Line(n, w, a) for (n, _, a), w in zip(bodies, split, strict=True)]
    lines, skipped = _named_columns(lines)
    cuts = sorted({max(0, start - skipped) for start in starts} | {len(lines)})
    blocks = [lines[a:b] for a, b in pairwise(cuts)]
    return [block for block in blocks if block]


def are_numbers(words: Sequence[str]) -> bool:
    """True if all of them are whole numbers, from 0 on."""
    return all(word.isdecimal() for word in words)


def _attributes(line: str, number: int) -> tuple[str, dict[str, Any]]:
    """Attributes that networkx writes behind an edge: ``0 1 {'weight': 1}``."""
    body, brace, rest = line.partition("{")
    if not brace:
        return line, {}
    try:
        found = ast.literal_eval(f"{{{rest.strip()}")
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        found = None
    if not isinstance(found, dict):
        raise GraphError(
            f"line {number}: expected u v {{'attribute': value}}, got {line.strip()[:60]!r}"
        )
    return body, {str(key): value for key, value in found.items()}


def _split(bodies: Sequence[tuple[int, str, dict[str, Any]]]) -> list[list[str]]:
    """The words of each line: separated by the mark that all lines have, else by blanks and
    marks."""
    words = [[word for word in re.split(r"[\s,;]+", body) if word] for _, body, _ in bodies]
    quoted = any('"' in body for _, body, _ in bodies)
    marks = [mark for mark in _MARKS if bodies and all(mark in body for _, body, _ in bodies)]
    for mark in marks:
        read = csv.reader((body for _, body, _ in bodies), delimiter=mark, skipinitialspace=True)
        try:
            cells = [[cell.strip() for cell in row] for row in read]
        except csv.Error:
            cells = []
        if len(cells) < len(bodies):
            k = next(k for k, (_, body, _) in enumerate(bodies) if body.count('"') % 2)
            number, body, _ = bodies[k]
            raise GraphError(f"line {number}: {body[:60]!r} has a quote without an end; close it")
        differing = [k for k, row in enumerate(cells) if row != words[k]]
        if not differing:
            return cells
        if quoted:
            return cells
        k = differing[0]
        if all(len(row) <= 3 for row in words) or len(marks) > 1:
            raise GraphError(
                f"line {bodies[k][0]}: {bodies[k][1]!r} fits two readings, {cells[k]} separated "
                f"by {mark!r} and {words[k]} separated by blanks too; put names in quotes, or "
                "separate by one sign"
            )
        return cells
    return words


def _named_columns(lines: list[Line]) -> tuple[list[Line], int]:
    """The lines below a header such as ``source,target,weight``, whose further columns become
    attributes; and how many lines it took."""
    if not lines or lines[0].attributes:
        return lines, 0
    header = plain_names(lines[0].words)
    below = [line for line in lines[1:] if line.words != lines[0].words]
    numeric = bool(below) and all(are_numbers(line.words[:2]) for line in below)
    ends = [pair for pair in ENDS if set(pair) <= set(header)]
    if numeric and not ends:
        ends = [pair for pair in _LETTERS if pair == tuple(header[:2])]
    if not ends:
        if (
            len(header) > 1
            and (numeric or _is_title(lines))
            and not any(map(str.isdecimal, header))
        ):
            raise GraphError(
                f"line {lines[0].number}: {' '.join(lines[0].words)!r} fits two readings, a header "
                "and an edge of two nodes with names; call its columns source and target, or leave "
                "it out"
            )
        _refuse_labels(lines)
        return lines, 0
    places = [header.index(name) for name in ends[0]]
    others = {k: name for k, name in enumerate(lines[0].words) if k not in places}
    return [_below_header(line, places, others, len(header)) for line in below], len(lines) - len(
        below
    )


def _is_title(lines: Sequence[Line]) -> bool:
    """True if a column of nodes has numbers alone below its first line, which has none."""
    columns = [[line.words[k] for line in lines if k < len(line.words)] for k in (0, 1)]
    return any(
        len(below) > 1 and are_numbers(below) and not _has_digit(first)
        for first, *below in filter(None, columns)
    )


def _refuse_labels(lines: Sequence[Line]) -> None:
    """``GraphError`` if every line may as well be a node with its label."""
    pairs = [line.words[:2] for line in lines]
    if len(pairs) < 2 or any(len(pair) < 2 for pair in pairs):
        return
    nodes, labels = zip(*pairs, strict=True)
    if are_numbers(nodes) and len({*nodes}) == len(nodes) and not any(map(_has_digit, labels)):
        raise GraphError(
            f"line {lines[0].number}: {' '.join(lines[0].words)!r} fits two readings, an edge and "
            "a node with its label; add a header source,target above edges, or give a folder with "
            "a table of nodes and one of edges"
        )


def _has_digit(word: str) -> bool:
    return any(map(str.isdecimal, word))


def _below_header(line: Line, places: Sequence[int], others: Mapping[int, str], width: int) -> Line:
    if not max(places) < len(line.words) <= width:
        raise GraphError(
            f"line {line.number}: expected {width} columns as in the header, got "
            f"{' '.join(line.words)!r}"
        )
    more = {name: line.words[k] for k, name in others.items() if k < len(line.words)}
    kind = [more.pop(name) for name in [*more] if name.lower() == TYPE]
    if kind and kind[0].lower() == "directed":
        raise GraphError(f"line {line.number}: is directed; expected edges of type Undirected")
    kind = [] if kind and kind[0].lower() == "undirected" else kind
    return Line(line.number, [line.words[k] for k in places] + kind, {**line.attributes, **more})


Block = Sequence[Line]


def edge_list_records(text: str, types: GraphTypes, notes: Notes) -> Records:
    """A record for each graph."""
    blocks = blocks_of(text)
    lines = [line for block in blocks for line in block]
    if not any(len(line.words) > 1 for line in lines):
        raise GraphError("holds no edge")
    if not any(set(types.edges[:-1]) & set(line.words[2:]) for line in lines):
        _refuse_adjacency(lines)
    headers = _size_headers(blocks)
    for k, block in enumerate(blocks):
        place = f", graph {k + 1}" if len(blocks) > 1 else ""
        size = int(block[0].words[0]) if headers else None
        yield ALL, place, partial(_graph, block[1:] if headers else block, size, types, notes)


def _graph(block: Block, size: int | None, types: GraphTypes, notes: Notes) -> TypedGraph:
    """Nodes are any words. They are numbered in the order of whole numbers if all of them are such,
    else in the order in which they come first. ``size``: what a header says."""
    found: dict[str, None] = {}
    edges, links = [], {}
    for line in block:
        words = checked_words(line, types, notes)
        found |= dict.fromkeys(words[:2])
        if len(words) > 1:
            edges.append(words)
            links[frozenset(words[:2])] = line
    number = _numbered([*found], size, notes)
    if size is not None:
        notes.remarks['first lines read as a header "nodes edges"'] += 1
    listed = [[number[u], number[v], *rest] for u, v, *rest in edges]
    num = len(number) if size is None else size
    return parse_graph({"n": num, "edges": listed}, types, notes, "list of edges")


def _numbered(names: Sequence[str], size: int | None, notes: Notes) -> Mapping[str, int]:
    if not are_numbers(names):
        return {name: k for k, name in enumerate(names)}
    ordered = sorted(names, key=int)
    if size is not None:
        first = 0 if "0" in ordered else 1
        return {name: int(name) - first for name in ordered}
    if ordered and (unused := int(ordered[-1]) - int(ordered[0]) + 1 - len(ordered)) > 0:
        notes.remarks["numbers of nodes in between that no line has, which are no nodes"] += unused
    return {name: k for k, name in enumerate(ordered)}


def checked_words(line: Line, types: GraphTypes, notes: Notes) -> list[str]:
    """The words of a line, and the type behind them if types are known. An error names the line."""
    if len(line.words) > 3:
        shown = " ".join(line.words)
        raise GraphError(f"line {line.number}: expected u v, or u v type, got {shown[:60]!r}")
    words = [*line.words]
    if TYPE in line.attributes and len(words) == 2:
        words.append(str(line.attributes[TYPE]))
    notes.drop((name for name in line.attributes if name != TYPE), "edge")
    untyped = len(types.edges) == 2
    if len(words) == 3 and untyped and words[2] not in types.edges and _is_real(words[2]):
        notes.drop(["number in the third column"], "edge")
        del words[2]
    if len(words) > 1:
        try:
            parse_edges([[0, int(words[0] != words[1]), *words[2:]]], 2, types)
        except GraphError as error:
            reason = str(error).removeprefix("edges[0]: ")
            if words[0] == words[1]:
                reason = reason.replace("node 0", f"node {words[0]}")
            raise GraphError(f"line {line.number}: {reason}") from error
    return words


def _is_real(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _refuse_adjacency(lines: Block) -> None:
    """``GraphError`` if every line may as well be a node and its neighbours."""
    words = [line.words for line in lines]
    if max(map(len, words), default=0) < 3 or any(line.attributes for line in lines):
        return
    firsts = [row[0] for row in words]
    nodes = {word for row in words for word in row}
    if len(set(firsts)) < len(firsts) or any(len(set(row)) < len(row) for row in words):
        return
    third = next(line for line in lines if len(line.words) > 2)
    shown = " ".join(third.words)[:60]
    if max(map(len, words)) > 3 and are_numbers([*nodes]):
        raise GraphError(
            f"line {third.number}: expected u v, or u v type, got {shown!r}; a node and its "
            "neighbours a line, as networkx.write_adjlist has them, is not read: take "
            "networkx.write_edgelist"
        )
    if max(map(len, words)) == 3 and are_numbers([*nodes]):
        raise GraphError(
            f"line {third.number}: {shown!r} fits two readings, an edge with a number behind it "
            "and a node with its two neighbours; add a header source,target,weight, or write "
            "a line u v for each edge"
        )


def _size_headers(blocks: Sequence[Block]) -> bool:
    """True if each graph begins with a line "n m". ``GraphError`` for what may be one."""
    fitting = [_header_fits(block) for block in blocks]
    if all(fitting):
        first = blocks[0][0]
        _refuse_two(blocks, first if any(map(_descends, blocks)) or len(blocks[0]) == 1 else None)
        return True
    if len(blocks) > 2 and sum(fitting) > len(blocks) / 2:
        _refuse_two(blocks, blocks[fitting.index(False)][0])
    for block, later in zip(blocks, [*blocks[1:], []], strict=True):
        _refuse_two(blocks, block[0] if _nearly_fits(block, later) else None)
    return False


def _refuse_two(blocks: Sequence[Block], line: Line | None) -> None:
    if line is None:
        return
    words = " ".join(line.words)
    readings = (
        f"a header of {line.words[0]} nodes and {line.words[1]} edges, and an edge"
        if len(line.words) == 2
        else f"a header of {line.words[0]} nodes, and a node without edges"
    )
    raise GraphError(
        f"line {line.number}: {words!r} fits two readings, {readings}; add a line source,target "
        'above the edges of a file without headers, or give every graph a header "nodes edges" '
        "that agrees with the lines below"
    )


def _ids(block: Block) -> list[tuple[int, ...]] | None:
    """The nodes of each line; None if not all are numbers."""
    ends = [line.words[:2] for line in block]
    if not all(are_numbers(pair) for pair in ends):
        return None
    return [tuple(map(int, pair)) for pair in ends]


def _header_fits(block: Block) -> bool:
    """The first line is "n m", and m edges among nodes 0 to n - 1 or 1 to n follow."""
    ids = _ids(block)
    if ids is None or len(block[0].words) != 2 or block[0].attributes:
        return False
    (n, m), rest = ids[0], ids[1:]
    nodes = {node for pair in rest for node in pair}
    if n in nodes and len(nodes) < n / 2:
        return False  # a node among few
    return _among(rest, n) and m in (len(rest), len({frozenset(pair) for pair in rest}))


def _among(rest: Sequence[tuple[int, ...]], n: int) -> bool:
    nodes = {node for pair in rest for node in pair}
    return n > 0 and (not nodes or (max(nodes) < n or (max(nodes) == n and min(nodes) > 0)))


def _descends(block: Block) -> bool:
    """The first line stands where it would in a list of edges sorted from large to small."""
    ids = _ids(block) or []
    return ids == sorted(ids, reverse=True) and all(len(p) == 2 and p[0] > p[1] for p in ids)


def _nearly_fits(block: Block, later: Block) -> bool:
    """The first line may be a header: of another number of edges, of a block of its own, or n
    alone."""
    ids = _ids(block)
    if ids is None or block[0].attributes or len(block[0].words) > 2:
        return False
    first, rest = ids[0], ids[1:]
    nodes = {node for pair in rest for node in pair}
    if len(first) == 1:
        return (
            bool(rest)
            and all(len(pair) == 2 for pair in rest)
            and _among(rest, first[0])
            and (first[0] not in nodes or (max(nodes) == first[0] and min(nodes) > 0))
        )
    if len(block) == 1 and later:
        return _header_fits([*block, *later])
    whole = first[0] not in nodes or nodes == set(range(1, first[0] + 1))
    near = abs(first[1] - len(rest)) <= max(1, first[1] // 10)
    return bool(rest) and _among(rest, first[0]) and whole and near and not _descends(block)
