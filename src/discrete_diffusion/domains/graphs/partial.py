"""Graphs of which something is known: read from files, as tokens with unknown ones at -1.

    {"n": 64, "edges": [[0, 1], [1, 2]], "non_edges": [[0, 2]], "known_nodes": [3, 4, 5]}

A pair that is not listed is unknown; among ``known_nodes``, a list of nodes or the number of the
first ones, it has no edge. ``node_types`` holds null for unknown types.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from discrete_diffusion.data.files import read_text, split_lines
from discrete_diffusion.domains.graphs.files.readers import parse_json
from discrete_diffusion.domains.graphs.files.records import (
    GraphError,
    Pair,
    parse_edges,
    parse_names,
    parse_pairs,
    parse_size,
)
from discrete_diffusion.domains.graphs.graph_types import GraphTypes
from discrete_diffusion.layout.vocab_config import VocabConfig
from discrete_diffusion.runtime.inputs import JSON, JSON_LINES, GivenObjects

UNKNOWN = -1


@dataclass(frozen=True)
class PartialGraph:
    """``nodes``: the type of each, None if unknown; ``pairs``: (i, j), i < j, to the type of edge,
    that of no edge where there is none, of the known ones."""

    nodes: tuple[int | None, ...]
    pairs: Mapping[Pair, int]

    def edges(self, no_edge: int) -> frozenset[Pair]:
        """The pairs that are known to be linked."""
        return frozenset(pair for pair, kind in self.pairs.items() if kind != no_edge)


def read_partials(
    given: str | GivenObjects, types: GraphTypes, n_max: int
) -> dict[int, PartialGraph]:
    """Partial graphs by line number. ``ValueError`` naming file, line and field for a line that is
    wrong, and for a file without one."""
    found = {}
    source = read_text(given, JSON_LINES, JSON, expected="a partial graph a line")
    for number, line in enumerate(split_lines(source.text), start=1):
        if line.strip():
            try:
                found[number] = parse_partial(parse_json(line), types, n_max)
            except GraphError as error:
                raise ValueError(f"{source.place(number)}: {error}") from error
    if not found:
        raise ValueError(f"{source.name} holds no graph; expected a partial graph a line")
    return found


def parse_partial(record: Any, types: GraphTypes, n_max: int) -> PartialGraph:
    """Raises ``GraphError`` naming the field."""
    num_nodes, no_edge = parse_size(record), len(types.edges) - 1
    if num_nodes > n_max:
        raise GraphError(f"n: {num_nodes} nodes; the model samples at most {n_max}")
    pairs = dict.fromkeys(combinations(_known_nodes(record, num_nodes), 2), no_edge)
    edges = parse_edges(record.get("edges", []), num_nodes, types)
    for k, (pair, _) in enumerate(parse_pairs(record.get("non_edges", []), num_nodes, "non_edges")):
        if pair in edges:
            raise GraphError(f"non_edges[{k}]: {list(pair)} is listed among the edges too")
        pairs[pair] = no_edge
    return PartialGraph(_node_types(record, num_nodes, types), {**pairs, **edges})


def encode_partials(partials: Sequence[PartialGraph], vocab: VocabConfig) -> tuple[Tensor, Tensor]:
    """Int64[M, L] with ``UNKNOWN`` and PAD, and Bool[M, L], which positions carry data."""
    real = vocab.real_positions(torch.tensor([len(each.nodes) for each in partials]))
    x0 = torch.where(real, UNKNOWN, vocab.pad_id)
    for row, partial in zip(x0, partials, strict=True):
        for k, kind in enumerate(partial.nodes):
            if kind is not None:
                row[k] = kind
        for (i, j), kind in partial.pairs.items():
            row[vocab.edge_position(i, j)] = vocab.edge_offset + kind
    return x0, real


def _known_nodes(record: Mapping[str, Any], num_nodes: int) -> list[int]:
    known = record.get("known_nodes", 0)
    if isinstance(known, int) and not isinstance(known, bool):
        known = list(range(known)) if known >= 0 else [known]
    fits = isinstance(known, list) and all(isinstance(node, int) for node in known)
    if not fits or any(not 0 <= node < num_nodes for node in known):
        raise GraphError(
            f"known_nodes: expected nodes 0 to {num_nodes - 1}, or how many of the first, got "
            f"{reprlib.repr(record['known_nodes'])}"
        )
    return sorted(set(known))


def _node_types(
    record: Mapping[str, Any], num_nodes: int, types: GraphTypes
) -> tuple[int | None, ...]:
    only = 0 if len(types.nodes) == 1 else None
    names = record.get("node_types")
    if names is None:
        return (only,) * num_nodes
    return parse_names(names, num_nodes, lambda name: only if name is None else types.node(name))
