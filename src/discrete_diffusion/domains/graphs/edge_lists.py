"""Lists of edges: each line is "u v" or "u v type"; "u" alone is a node; a blank line ends a graph.

The first line "n m" of a graph is a header if m edges among n nodes follow. A file with two
possible readings is refused, and the message has both.
"""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from discrete_diffusion.data.files import split_lines
from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.domains.graphs import records
from discrete_diffusion.domains.graphs.domain import ENDS, plain_names
from discrete_diffusion.domains.graphs.records import TYPE, GraphError, GraphTypes, Notes, Records

_MARKS = (",", ";", "\t")
_COMMENTS = ("#", "%", ";")

_LETTERS = (("u", "v"), ("i", "j"), ("x", "y"))
"""Headers of the two columns of nodes, but only if all nodes are numbers."""


class Line(NamedTuple):
    """A line: its ``number``, its ``words``, and the ``attributes`` that follow them, by name."""

    number: int
    words: list[str]
    attributes: dict[str, Any]


Block = Sequence[Line]


def edge_list_records(text: str, types: GraphTypes, notes: Notes) -> Records:
    """Yield a record for each graph."""
    blocks = blocks_of(text)
    lines = [line for block in blocks for line in block]
    # refuse other formats of lines
    if not any(len(line.words) > 1 for line in lines):
        raise GraphError("holds no edge")
    if not any(set(types.edges[:-1]) & set(line.words[2:]) for line in lines):
        _refuse_adjacency(lines)
    # sizes before the edges of each graph
    headers = _have_size_headers(blocks)
    for k, block in enumerate(blocks):
        place = f", graph {k + 1}" if len(blocks) > 1 else ""
        size = int(block[0].words[0]) if headers else None
        rest = block[1:] if headers else block
        yield records.ALL, place, partial(_graph_of_lines, rest, size, types, notes)


def _graph_of_lines(block: Block, size: int | None, types: GraphTypes, notes: Notes) -> TypedGraph:
    """Graph of the lines below a header of ``size`` nodes, or of all lines if ``size`` is None.

    Nodes are named by any words. They are in numeric order if all names are whole numbers, else in
    the order in which they first appear.
    """
    # nodes in the order of their first line
    rows = [checked_words(line, types, notes) for line in block]
    names = [*dict.fromkeys(word for row in rows for word in row[:2])]
    if not are_numbers(names):
        number = {name: k for k, name in enumerate(names)}
    else:
        names.sort(key=int)
        number = {name: k for k, name in enumerate(names)}
        if size is not None:  # nodes without edges are not listed
            first = 0 if "0" in names else 1
            number = {name: int(name) - first for name in names}
        elif names and (unused := int(names[-1]) - int(names[0]) + 1 - len(names)) > 0:
            notes.remarks[
                "numbers between those of nodes that no line has, which are not nodes"
            ] += unused
    # edges between numbered nodes
    if size is not None:
        notes.remarks['first lines read as a header "nodes edges"'] += 1
    edges = [[number[row[0]], number[row[1]], *row[2:]] for row in rows if len(row) > 1]
    record = {"n": len(number) if size is None else size, "edges": edges}
    return records.parse_graph(record, types, notes, "list of edges")


def checked_words(line: Line, types: GraphTypes, notes: Notes) -> list[str]:
    """Check a line; return its nodes and, if it has one, the type of the edge. Errors name the
    line."""
    if len(line.words) > 3:
        shown = " ".join(line.words)
        raise GraphError(f"line {line.number}: expected u v, or u v type, got {shown[:60]!r}")
    words = [*line.words]
    if TYPE in line.attributes and len(words) == 2:
        words.append(str(line.attributes[TYPE]))
    notes.drop((name for name in line.attributes if name != TYPE), "edge")
    # a number behind an edge without types is a weight
    if len(words) == 3 and len(types.edges) == 2 and words[2] not in types.edges:
        with suppress(ValueError):  # not a number
            float(words[2])
            notes.drop(["number in the third column"], "edge")
            del words[2]
    # check the edge alone, so that its line can be named
    if len(words) > 1:
        try:
            records.parse_edges([[0, int(words[0] != words[1]), *words[2:]]], 2, types)
        except GraphError as error:
            reason = str(error).removeprefix("edges[0]: ")
            if words[0] == words[1]:
                reason = reason.replace("node 0", f"node {words[0]}")
            raise GraphError(f"line {line.number}: {reason}") from error
    return words


def are_numbers(words: Sequence[str]) -> bool:
    """True if all words are whole numbers, from 0 on."""
    return all(word.isdecimal() for word in words)


def blocks_of(text: str) -> list[list[Line]]:
    """Split a text at blank lines into blocks of lines, without comments and column headers.

    Raises ``GraphError`` for separators with two possible readings.
    """
    bodies: list[tuple[int, str, dict[str, Any]]] = []
    starts = [0]
    for number, line in enumerate(split_lines(text), start=1):
        if not line.strip():
            starts.append(len(bodies))
        elif not line.lstrip().startswith(_COMMENTS):
            body, attributes = _split_attributes(line.partition(" #")[0], number)
            body = body.partition("#")[0] if '"' not in body else body
            bodies.append((number, body.strip().rstrip(",;"), attributes))
    # words of each line, then named columns
    words = _split_words([number for number, *_ in bodies], [body for _, body, _ in bodies])
    lines = [Line(n, row, a) for (n, _, a), row in zip(bodies, words, strict=True)]
    lines, skipped = _named_columns(lines)
    # cut at the blank lines, which were counted before the header was removed
    cuts = sorted({max(0, start - skipped) for start in starts} | {len(lines)})
    return [lines[a:b] for a, b in pairwise(cuts)]


def _split_attributes(line: str, number: int) -> tuple[str, dict[str, Any]]:
    """Split off the attributes that networkx writes behind an edge: ``0 1 {'weight': 1}``."""
    body, brace, rest = line.partition("{")
    if not brace:
        return line, {}
    # the dictionary that networkx prints
    try:
        values = ast.literal_eval(f"{{{rest.strip()}")
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        values = None
    if not isinstance(values, dict):
        raise GraphError(
            f"line {number}: expected u v {{'attribute': value}}, got {line.strip()[:60]!r}"
        )
    return body, {str(key): value for key, value in values.items()}


def _split_words(numbers: Sequence[int], bodies: Sequence[str]) -> list[list[str]]:
    """Split each line into words at the first mark that all lines have, else at blanks and
    marks."""
    words = [[word for word in re.split(r"[\s,;]+", body) if word] for body in bodies]
    marks = [mark for mark in _MARKS if bodies and all(mark in body for body in bodies)]
    if not marks:
        return words
    # cells as a table has them
    read = csv.reader(bodies, delimiter=marks[0], skipinitialspace=True)
    try:
        cells = [[cell.strip() for cell in row] for row in read]
    except csv.Error:
        cells = []
    if len(cells) < len(bodies):
        k = next(k for k, body in enumerate(bodies) if body.count('"') % 2)
        raise GraphError(
            f"line {numbers[k]}: {bodies[k][:60]!r} has a quote without an end; close it"
        )
    # both readings have to agree, unless quotes or long rows decide
    differing = [k for k, row in enumerate(cells) if row != words[k]]
    unclear = all(len(row) <= 3 for row in words) or len(marks) > 1
    if differing and unclear and not any('"' in body for body in bodies):
        k = differing[0]
        raise GraphError(
            f"line {numbers[k]}: {bodies[k]!r} fits two readings, {cells[k]} separated by "
            f"{marks[0]!r} and {words[k]} separated by blanks too; put names in quotes, or "
            "separate by one sign"
        )
    return cells


def _named_columns(lines: list[Line]) -> tuple[list[Line], int]:
    """Remove a header such as ``source,target,weight``; its further columns become attributes.

    Return the lines below it, and how many header lines were removed.
    """
    if not lines or lines[0].attributes:
        return lines, 0
    # the header, and the lines below it
    header = plain_names(lines[0].words)
    below = [line for line in lines[1:] if line.words != lines[0].words]
    numeric = bool(below) and all(are_numbers(line.words[:2]) for line in below)
    # the names of the two columns of nodes
    ends = [pair for pair in ENDS if set(pair) <= set(header)]
    if numeric and not ends:
        ends = [pair for pair in _LETTERS if pair == tuple(header[:2])]
    # without names of ends the first line must be an edge
    if not ends:
        # a title: a word without digits above a column of numbers
        columns = ([line.words[k] for line in lines if k < len(line.words)] for k in (0, 1))
        titled = len(header) > 1 and (
            numeric
            or any(
                len(rows) > 1 and are_numbers(rows) and not _has_digit(first)
                for first, *rows in filter(None, columns)
            )
        )
        if titled and not any(map(str.isdecimal, header)):
            raise GraphError(
                f"line {lines[0].number}: {' '.join(lines[0].words)!r} fits two readings, a header "
                "and an edge of two nodes with names; call its columns source and target, or leave "
                "it out"
            )
        _refuse_labels(lines)
        return lines, 0
    # ends first, other columns as attributes
    places = [header.index(name) for name in ends[0]]
    others = {k: name for k, name in enumerate(lines[0].words) if k not in places}
    named = [_below_header(line, places, others, len(header)) for line in below]
    return named, len(lines) - len(below)


def _has_digit(word: str) -> bool:
    return any(map(str.isdecimal, word))


def _below_header(line: Line, places: Sequence[int], others: Mapping[int, str], width: int) -> Line:
    if not max(places) < len(line.words) <= width:
        raise GraphError(
            f"line {line.number}: expected {width} columns as in the header, got "
            f"{' '.join(line.words)!r}"
        )
    more = {name: line.words[k] for k, name in others.items() if k < len(line.words)}
    # Gephi's column of types says whether edges are directed
    kind = [more.pop(name) for name in [*more] if name.lower() == TYPE]
    if kind and kind[0].lower() == "directed":
        raise GraphError(f"line {line.number}: is directed; expected edges of type Undirected")
    kind = [] if kind and kind[0].lower() == "undirected" else kind
    return Line(line.number, [line.words[k] for k in places] + kind, {**line.attributes, **more})


def _refuse_labels(lines: Sequence[Line]) -> None:
    """Raise ``GraphError`` if every line may also be a node with its label."""
    pairs = [line.words[:2] for line in lines]
    if len(pairs) < 2 or any(len(pair) < 2 for pair in pairs):
        return
    # distinct numbers with words that have no digit
    nodes, labels = zip(*pairs, strict=True)
    if are_numbers(nodes) and len({*nodes}) == len(nodes) and not any(map(_has_digit, labels)):
        raise GraphError(
            f"line {lines[0].number}: {' '.join(lines[0].words)!r} fits two readings, an edge and "
            "a node with its label; add a header source,target above edges, or give the table of "
            "edges instead"
        )


def _refuse_adjacency(lines: Block) -> None:
    """Raise ``GraphError`` if every line may also be a node and its neighbours."""
    words = [line.words for line in lines]
    # only unique first nodes with unique neighbours could be such a list
    longest, nodes = max(map(len, words), default=0), {word for row in words for word in row}
    repeated = len({row[0] for row in words}) < len(words)
    repeated |= any(len(set(row)) < len(row) for row in words)
    if longest < 3 or repeated or any(line.attributes for line in lines):
        return
    third = next(line for line in lines if len(line.words) > 2)
    shown = " ".join(third.words)[:60]
    # longer lines cannot be edges
    if longest > 3 and are_numbers([*nodes]):
        raise GraphError(
            f"line {third.number}: expected u v, or u v type, got {shown!r}; a node and its "
            "neighbours a line, as networkx.write_adjlist has them, is not read: take "
            "networkx.write_edgelist"
        )
    # three numbers are an edge with a weight, or a node with two neighbours
    if longest == 3 and are_numbers([*nodes]):
        raise GraphError(
            f"line {third.number}: {shown!r} fits two readings, an edge with a number behind it "
            "and a node with its two neighbours; add a header source,target,weight, or write "
            "a line u v for each edge"
        )


def _have_size_headers(blocks: Sequence[Block]) -> bool:
    """True if each graph begins with a line "n m". Raises ``GraphError`` where that is unclear."""
    fitting = [_header_fits(block) for block in blocks]
    if all(fitting):
        if any(map(_descends, blocks)) or len(blocks[0]) == 1:
            _refuse_header(blocks[0][0])
        return True
    # most graphs have a header, and one has not
    if len(blocks) > 2 and sum(fitting) > len(blocks) / 2:
        _refuse_header(blocks[fitting.index(False)][0])
    for block, later in zip(blocks, [*blocks[1:], []], strict=True):
        if _nearly_fits(block, later):
            _refuse_header(block[0])
    return False


def _refuse_header(line: Line) -> None:
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


def _node_numbers(block: Block) -> list[tuple[int, ...]] | None:
    """Nodes of each line as numbers; None if a node is not a number."""
    ends = [line.words[:2] for line in block]
    if not all(are_numbers(pair) for pair in ends):
        return None
    return [tuple(map(int, pair)) for pair in ends]


def _header_fits(block: Block) -> bool:
    """True if the first line is "n m", and m edges among nodes 0 to n - 1 or 1 to n follow."""
    ids = _node_numbers(block)
    if ids is None or len(block[0].words) != 2 or block[0].attributes:
        return False
    (n, m), rest = ids[0], ids[1:]
    nodes = {node for pair in rest for node in pair}
    if n in nodes and len(nodes) < n / 2:
        return False  # n is a node of few, with a large number
    return _fit_size(nodes, n) and m in (len(rest), len({frozenset(pair) for pair in rest}))


def _fit_size(nodes: set[int], n: int) -> bool:
    """True if all nodes are in 0 to n - 1, or all in 1 to n."""
    return n > 0 and (not nodes or max(nodes) < n or (max(nodes) == n and min(nodes) > 0))


def _descends(block: Block) -> bool:
    """True if all lines are edges (u, v), u > v, in descending order, the first line included."""
    ids = _node_numbers(block) or []
    return ids == sorted(ids, reverse=True) and all(len(p) == 2 and p[0] > p[1] for p in ids)


def _nearly_fits(block: Block, later: Block) -> bool:
    """True if the first line may be a header with another number of edges, a header in a separate
    block, or only n."""
    ids = _node_numbers(block)
    if ids is None or block[0].attributes or len(block[0].words) > 2:
        return False
    (n, *size), rest = ids[0], ids[1:]
    nodes = {node for pair in rest for node in pair}
    # n alone: all lines are edges among n nodes
    if not size:
        linked = bool(rest) and all(len(pair) == 2 for pair in rest)
        free = n not in nodes or (max(nodes) == n and min(nodes) > 0)
        return linked and _fit_size(nodes, n) and free
    # a block with one line is the header of the next block
    if len(block) == 1 and later:
        return _header_fits([*block, *later])
    # n is not a node, or the nodes are exactly 1 to n; m is off by a tenth at most
    whole = n not in nodes or nodes == set(range(1, n + 1))
    near = abs(size[0] - len(rest)) <= max(1, size[0] // 10)
    return bool(rest) and _fit_size(nodes, n) and whole and near and not _descends(block)
