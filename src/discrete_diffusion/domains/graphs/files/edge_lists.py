"""Lists of edges: "u v", or "u v type", a line; "u" alone is a node; a blank line ends a graph.

A first line "n m" of a graph is a header if m edges among n nodes follow. What fits two readings is
refused, with both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.domains.graphs.files.edge_list_lines import Line, are_numbers, blocks_of
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
