"""``sample`` of a model of graphs, fresh or completions of partial graphs, and ``evaluate`` against
real graphs.

A partial graph is a line of JSON:

    {"n": 64, "edges": [[0, 1], [1, 2]], "non_edges": [[0, 2]], "known_nodes": [3, 4, 5]}

A pair that is not listed is unknown, or has no edge if both nodes are among ``known_nodes``, which
is a list of nodes or how many of the first nodes. ``node_types`` holds null for unknown types.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from discrete_diffusion.data.base import SPLITS
from discrete_diffusion.data.files import read_text, split_lines
from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.domains.graphs import records
from discrete_diffusion.domains.graphs.build import GraphFileDataset
from discrete_diffusion.domains.graphs.graph_set import check_installed
from discrete_diffusion.domains.graphs.readers import parse_json
from discrete_diffusion.domains.graphs.records import GraphError, GraphTypes, Pair, Untyped
from discrete_diffusion.domains.graphs.samples import GraphSamples
from discrete_diffusion.evaluation import sample_kind
from discrete_diffusion.evaluation.measured_data import (
    MeasuredData,
    RealData,
    check_reference,
    held_out_rows,
    measured_data,
    own_data,
    some_held_out,
)
from discrete_diffusion.evaluation.report import Samples
from discrete_diffusion.evaluation.requests import EvaluateRequest, SampleRequest
from discrete_diffusion.evaluation.sample_kind import SampleEvaluation
from discrete_diffusion.evaluation.trained_model import COMPLETIONS, TrainedModel, warn_of_sizes
from discrete_diffusion.layout.vocab_config import VocabConfig
from discrete_diffusion.runtime.inputs import JSON, JSON_LINES, GivenObjects, place_of_line

UNKNOWN = -1

_FIXED_ORDER = (
    "the model knows graphs with their nodes in the order data.node_order={}, which the lines need "
    "not have; data.node_order=random has none"
)


@dataclass(frozen=True)
class PartialGraph:
    """Partial graph. ``nodes``: type of each node, None if unknown. ``pairs``: type of edge by pair
    (i, j), i < j, for the known pairs, with or without an edge."""

    nodes: tuple[int | None, ...]
    pairs: Mapping[Pair, int]

    def edges(self, no_edge: int) -> frozenset[Pair]:
        """Pairs that are known to be linked."""
        return frozenset(pair for pair, kind in self.pairs.items() if kind != no_edge)


def read_partials(
    given: str | GivenObjects, types: GraphTypes, n_max: int
) -> dict[int, PartialGraph]:
    """Read partial graphs, by line number. Raises ``ValueError`` naming file, line and field for a
    wrong line, and for a file without a graph."""
    partials = {}
    # one partial graph a line
    source = read_text(given, JSON_LINES, JSON, expected="a partial graph a line")
    for number, line in enumerate(split_lines(source.text), start=1):
        if line.strip():
            try:
                partials[number] = parse_partial(parse_json(line), types, n_max)
            except GraphError as error:
                raise ValueError(f"{source.place(number)}: {error}") from error
    if not partials:
        raise ValueError(f"{source.name} holds no graph; expected a partial graph a line")
    return partials


def parse_partial(record: Any, types: GraphTypes, n_max: int) -> PartialGraph:
    """Parse a partial graph. Raises ``GraphError`` naming the field."""
    num_nodes, no_edge = records.parse_size(record), len(types.edges) - 1
    if num_nodes > n_max:
        raise GraphError(f"n: {num_nodes} nodes; the model samples at most {n_max}")
    # known nodes; a number means the first ones
    known = record.get("known_nodes", 0)
    if isinstance(known, int) and not isinstance(known, bool):
        known = list(range(known)) if known >= 0 else [known]
    fits = isinstance(known, list) and all(isinstance(node, int) for node in known)
    if not fits or any(not 0 <= node < num_nodes for node in known):
        raise GraphError(
            f"known_nodes: expected nodes 0 to {num_nodes - 1}, or how many of the first, got "
            f"{reprlib.repr(record['known_nodes'])}"
        )
    # pairs without an edge: those among known nodes, and the listed ones
    pairs = dict.fromkeys(combinations(sorted(set(known)), 2), no_edge)
    edges = records.parse_edges(record.get("edges", []), num_nodes, types)
    absent = records.parse_pairs(record.get("non_edges", []), num_nodes, "non_edges")
    for k, (pair, _) in enumerate(absent):
        if pair in edges:
            raise GraphError(f"non_edges[{k}]: {list(pair)} is listed among the edges too")
        pairs[pair] = no_edge
    # types of nodes; a single type is always known
    default, names = 0 if len(types.nodes) == 1 else None, record.get("node_types")
    nodes: tuple[int | None, ...] = (default,) * num_nodes
    if names is not None:
        nodes = records.parse_names(
            names, num_nodes, lambda name: default if name is None else types.node(name)
        )
    return PartialGraph(nodes, {**pairs, **edges})


def encode_partials(partials: Sequence[PartialGraph], vocab: VocabConfig) -> tuple[Tensor, Tensor]:
    """Encode as tokens Int64[M, L] with ``UNKNOWN`` and PAD; also return Bool[M, L], True at
    data."""
    # unknown tokens at all positions of data
    real = vocab.real_positions(torch.tensor([len(each.nodes) for each in partials]))
    x0 = torch.where(real, UNKNOWN, vocab.pad_id)
    # known types and pairs
    for row, partial in zip(x0, partials, strict=True):
        for k, kind in enumerate(partial.nodes):
            if kind is not None:
                row[k] = kind
        for (i, j), kind in partial.pairs.items():
            row[vocab.edge_position(i, j)] = vocab.edge_offset + kind
    return x0, real


def sample_graphs(request: SampleRequest, trained: TrainedModel, vocab: VocabConfig) -> Samples:
    """Sample ``num_samples`` graphs, of ``nodes_per_graph`` nodes if that is given."""
    graphs, sizes = GraphSamples.of(trained.data_config, vocab), request.nodes_per_graph
    return sample_kind.sample_kind(request, trained, graphs, nodes_per_graph=sizes)


def complete_graphs(request: SampleRequest, trained: TrainedModel, vocab: VocabConfig) -> Samples:
    """Sample ``num_completions`` graphs for every line of ``given``, their nodes in its order."""
    # partial graphs of the file, with a warning for unusual sizes
    graphs, node_order = GraphSamples.of(trained.data_config, vocab), trained.data_config.node_order
    partials = read_partials(request.given, graphs.types, vocab.n_max)
    warn_of_sizes(trained, (len(each.nodes) for each in partials.values()))
    # a line that contradicts the structure is refused before any sampling
    x0, real = encode_partials([*partials.values()], vocab)
    places = [place_of_line(request.given, line) for line in partials]
    graphs.structure(request).check_given(x0, vocab.mask_id, places)
    # several completions of each line
    each = COMPLETIONS if request.num_completions is None else request.num_completions
    x0, real = (rows.repeat_interleave(each, dim=0) for rows in (x0, real))
    return sample_kind.complete_kind(
        request,
        trained,
        graphs,
        noun="partial graph",
        asked=[line for line in partials for _ in range(each)],
        make=lambda _: sample_kind.Partials(x0, real, lambda _, tokens: graphs.decode(tokens)),
        order=None if node_order == "random" else _FIXED_ORDER.format(node_order),
        inputs=partials,
    )


def evaluate_files(request: EvaluateRequest) -> SampleEvaluation[TypedGraph]:
    """Measure ``samples=FILE`` or ``samples=[A,B]``, as graphs without types, against
    ``reference=FILE``. Raises ``ValueError`` without a reference, and for an empty list."""
    check_installed()
    graphs = GraphSamples(Untyped())
    # what samples are compared with
    if request.samples and request.reference is None:
        raise ValueError(
            "samples=FILE needs graphs to compare with: give reference=FILE, and "
            "training_data=FILE for novelty and the ratio"
        )
    check_reference(request, of_files=True)
    reference, training, known = _read_real(request, graphs)
    # as many reference graphs as requested
    rows = held_out_rows(request, len(reference)).tolist()
    measured = [reference[row] for row in rows]
    real = RealData(str(request.reference), measured, training, known, len(reference))
    return sample_kind.evaluate_sample_files(request, graphs, real)


def evaluate_model(
    request: EvaluateRequest, trained: TrainedModel, vocab: VocabConfig
) -> SampleEvaluation[TypedGraph]:
    """Measure samples of a model, and the model itself, against the split that its checkpoint held
    out, or ``reference=FILE`` as its test split."""
    check_installed()
    graphs = GraphSamples.of(trained.data_config, vocab)
    if request.reference is not None:
        # graphs of the file, as a data set of the model's own vocabulary
        check_reference(request, of_files=False)
        own = own_data(trained)
        reference, training, known = _read_real(request, graphs)
        if training is None and own is not None:
            training = own.graphs("train")
        data = GraphFileDataset(
            {"train": training or [], "val": [], "test": reference},
            graphs.vocab,
            node_order=trained.data_config.node_order,
            types=graphs.types,
        )
        on = MeasuredData(data, "test", str(request.reference))
    else:
        on = measured_data(request, trained, remedy="give reference=FILE")
        splits = [on.split] if on.changes else SPLITS
        known = [graph for split in splits for graph in on.data.graphs(split)]
        training = on.data.graphs("train")
        if request.training_data is not None:
            training = graphs.read_graphs(request.training_data, request).graphs
    # as many held-out graphs as requested
    measured = some_held_out(request, on.data, on.split).graphs(on.split)
    num = len(on.data.splits[on.split])
    real = RealData(on.name, measured, training or None, known, num, on)
    return sample_kind.evaluate_samples(request, trained, graphs, real)


def _read_real(
    request: EvaluateRequest, graphs: GraphSamples
) -> tuple[list[TypedGraph], list[TypedGraph] | None, list[TypedGraph]]:
    """Read test graphs, training graphs (or None) and all graphs to compare samples with.

    Test graphs are the test split of ``reference=FILE``, or all its graphs if it has no splits.
    Training graphs are those of ``training_data=FILE``, else of the reference. All graphs are those
    of the reference.
    """
    source = graphs.read_graphs(request.reference, request)
    training = source.splits.get("train")
    if request.training_data is not None:
        training = graphs.read_graphs(request.training_data, request).graphs
    return source.splits.get("test") or source.graphs, training, source.graphs
