"""``sample`` of a model of graphs: fresh ones, or completions of a file of partial ones."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config.naming import counted
from discrete_diffusion.data.graph_tokens import TypedGraph, decode_graphs
from discrete_diffusion.domains.graphs.files.linked_formats import to_graphml
from discrete_diffusion.domains.graphs.files.writers import lines_of, write_graphs
from discrete_diffusion.domains.graphs.graph_types import GraphTypes
from discrete_diffusion.domains.graphs.metrics.graph_set import GraphSet
from discrete_diffusion.domains.graphs.metrics.graphs import own_metrics
from discrete_diffusion.domains.graphs.partial import (
    UNKNOWN,
    PartialGraph,
    encode_partials,
    read_partials,
)
from discrete_diffusion.domains.graphs.pictures import MAX_DRAWN, plot_graphs
from discrete_diffusion.domains.graphs.report import SAMPLES
from discrete_diffusion.domains.graphs.structures import STRUCTURES
from discrete_diffusion.evaluation.report import Samples, SavedSamples
from discrete_diffusion.evaluation.structure import Structure
from discrete_diffusion.evaluation.token_samples import (
    complete_tokens,
    requested_sizes,
    sample_fresh,
    warn_of_sizes,
)
from discrete_diffusion.runtime.atomic_files import atomic_folder, put_aside, write_text
from discrete_diffusion.runtime.given_objects import place_of_line
from discrete_diffusion.sampling.exactness import exactness

if TYPE_CHECKING:
    from torch import Tensor

    from discrete_diffusion.contracts import SampleOutput
    from discrete_diffusion.evaluation.requests import SampleRequest
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.layout.vocab_config import VocabConfig

logger = logging.getLogger(__name__)

GRAPHML = "graphml"
"""The folder of samples as GraphML, a file each."""

_OF_AN_ORDER = (
    "the model knows graphs with their nodes in the order data.node_order={}, which the lines need "
    "not have; data.node_order=random has none"
)

MAX_COLUMNS = 6
"""Completions of a line that the picture shows."""

NUM_SAMPLES, COMPLETIONS = 64, 4
"""If ``num_samples`` or ``completions`` does not say."""


def sample_graphs(request: SampleRequest, trained: TrainedModel, vocab: VocabConfig) -> Samples:
    """``num_samples`` graphs, of ``num_nodes`` nodes if that is given."""
    size = requested_sizes(trained, vocab.n_max, nodes_per_graph=request.nodes_per_graph)
    num = NUM_SAMPLES if request.num_samples is None else request.num_samples
    types = GraphTypes.of(trained.data_config)
    structure = Structure.requested(request, STRUCTURES, vocab)

    def lines(rows: Tensor, output: SampleOutput) -> str:
        more = structure.weights(output.log_weights)
        return lines_of(decode_graphs(output.x0, vocab), types, **more)

    with trained.sharing() as shard:
        model = structure.on(trained.on(shard, lines))
        drawn = sample_fresh(trained, model, num, entropy=(request.seed,), size=size)
    graphs = decode_graphs(drawn.tokens, vocab)

    def write() -> SavedSamples:
        narrowed = structure.facts([drawn])
        if structure:
            reasons = trained.approximations(log_weights=drawn.log_weights)
            narrowed = {**exactness(reasons), **narrowed}
        what, facts = counted(len(graphs), "sample"), drawn.facts | narrowed
        more = structure.weights(drawn.log_weights)
        saved = _written(request, trained, graphs, facts, what, more)
        plot_graphs(graphs[:MAX_DRAWN], request.out / request.picture, types)
        return replace(saved, log_line=saved.log_line + structure.summary(facts))

    return Samples(graphs, write)


def complete_graphs(request: SampleRequest, trained: TrainedModel, vocab: VocabConfig) -> Samples:
    """``completions`` graphs for every line of ``given``, its nodes in the order of the line."""
    types = GraphTypes.of(trained.data_config)
    partials = read_partials(request.given, types, vocab.n_max)
    warn_of_sizes(trained, (len(each.nodes) for each in partials.values()))
    each = COMPLETIONS if request.completions is None else request.completions
    structure = Structure.requested(request, STRUCTURES, vocab)
    x0, real = encode_partials([*partials.values()], vocab)
    places = [place_of_line(request.given, line) for line in partials]
    structure.check_given(x0, vocab.mask_id, places)
    x0, real = (rows.repeat_interleave(each, dim=0) for rows in (x0, real))
    asked = [line for line in partials for _ in range(each)]

    def lines(rows: Tensor, output: SampleOutput) -> str:
        of_rows = [asked[row] for row in rows.tolist()]
        more = structure.weights(output.log_weights)
        return lines_of(decode_graphs(output.x0, vocab), types, given=of_rows, **more)

    with trained.sharing() as shard:
        model = structure.on(trained.on(shard, lines))
        drawn = complete_tokens(model, x0, real, entropy=(request.seed,))
    graphs = decode_graphs(drawn.tokens, vocab)
    lines_given = [asked[row] for row in drawn.rows.tolist()]
    reasons = trained.approximations(
        real=real[drawn.rows],
        known=x0[drawn.rows] != UNKNOWN,
        log_weights=drawn.log_weights if structure else None,
    )
    if (order := trained.data_config.node_order) != "random":
        reasons.insert(0, _OF_AN_ORDER.format(order))
    if reasons:
        logger.info("the completions are approximate: %s", "; ".join(reasons))

    def write() -> SavedSamples:
        facts = {
            "given": str(request.given),
            "num_inputs": len(partials),
            "completions": each,
            **exactness(reasons),
            **drawn.facts,
            **structure.facts([drawn], given=True),
        }
        what = f"{counted(len(graphs), 'completion')} of {counted(len(partials), 'partial graph')}"
        more: dict[str, Sequence[Any]] = {"given": lines_given}
        more |= structure.weights(drawn.log_weights)
        saved = _written(request, trained, graphs, facts, what, more)
        path = request.out / request.picture
        _sample_completed(graphs, lines_given, partials, types, path)
        return replace(saved, log_line=saved.log_line + structure.summary(facts))

    return Samples(graphs, write)


def _sample_completed(
    graphs: Sequence[TypedGraph],
    lines: Sequence[int],
    partials: Mapping[int, PartialGraph],
    types: GraphTypes,
    path: Path,
) -> None:
    """The first completions of the first lines, the same number of each."""
    of_line: dict[int, list[TypedGraph]] = {}
    for line, graph in zip(lines, graphs, strict=True):
        of_line.setdefault(line, []).append(graph)
    columns = min(MAX_COLUMNS, *map(len, of_line.values()), len(graphs))
    shown = [*of_line][: max(1, MAX_DRAWN // columns)]
    known = {line: partials[line].edges(len(types.edges) - 1) for line in shown}
    plot_graphs(
        [graph for line in shown for graph in of_line[line][:columns]],
        path,
        types,
        titles=[f"line {line}" for line in shown for _ in range(columns)],
        given=[known[line] for line in shown for _ in range(columns)],
        columns=columns,
    )


def _written(
    request: SampleRequest,
    trained: TrainedModel,
    graphs: list[TypedGraph],
    facts: dict[str, Any],
    what: str,
    more: dict[str, Sequence[Any]],
) -> SavedSamples:
    folder, types = request.out, GraphTypes.of(trained.data_config)
    write_graphs(folder / SAMPLES, graphs, types, **more)
    say = partial(logger.info, "the earlier %s is now %s", folder / GRAPHML)
    if request.graphml:
        with atomic_folder(folder / GRAPHML, replaced=say) as unfinished:
            for k, graph in enumerate(graphs):
                write_text(unfinished / f"{k}.graphml", to_graphml(graph, types))
    elif (folder / GRAPHML).exists():  # only with overwrite=true
        say(put_aside(folder / GRAPHML))
    numbers = own_metrics(GraphSet(graphs), kind=trained.data_config.kind)
    shares = ", ".join(
        f"{name} {100 * numbers[name]:.1f} %"
        for name in ("valid", "unique", "connected")
        if name in numbers
    )
    files = f"{folder / SAMPLES}, {folder / request.picture}"
    summary = f"{what} in {facts['seconds']:.1f} s: {shares}; {files}"
    return SavedSamples({**facts, **numbers}, summary)
