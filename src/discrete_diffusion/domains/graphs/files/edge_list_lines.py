"""The lines of a list of edges: comments, separators, attributes, and the header of their columns.

What fits two readings is refused, with both.
"""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from discrete_diffusion.data.files import split_lines
from discrete_diffusion.domains.graphs.file_kinds import ENDS, plain_names
from discrete_diffusion.domains.graphs.files.records import TYPE, GraphError

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
