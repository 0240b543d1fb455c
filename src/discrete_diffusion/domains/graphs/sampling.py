"""``sample`` of a model of graphs: fresh ones, or completions of a file of partial ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discrete_diffusion.domains.graphs.partial import encode_partials, read_partials
from discrete_diffusion.domains.graphs.samples import GraphSamples
from discrete_diffusion.evaluation.sample_kind import (
    COMPLETIONS,
    Partials,
    complete_kind,
    sample_kind,
)
from discrete_diffusion.evaluation.token_samples import warn_of_sizes
from discrete_diffusion.runtime.inputs import place_of_line

if TYPE_CHECKING:
    from discrete_diffusion.evaluation.report import Samples
    from discrete_diffusion.evaluation.requests import SampleRequest
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.layout.vocab_config import VocabConfig

_OF_AN_ORDER = (
    "the model knows graphs with their nodes in the order data.node_order={}, which the lines need "
    "not have; data.node_order=random has none"
)


def sample_graphs(request: SampleRequest, trained: TrainedModel, vocab: VocabConfig) -> Samples:
    """``num_samples`` graphs, of ``nodes_per_graph`` nodes if that is given."""
    graphs = GraphSamples.of(trained.data_config, vocab)
    return sample_kind(request, trained, graphs, nodes_per_graph=request.nodes_per_graph)


def complete_graphs(request: SampleRequest, trained: TrainedModel, vocab: VocabConfig) -> Samples:
    """``completions`` graphs for every line of ``given``, its nodes in the order of the line."""
    graphs, node_order = GraphSamples.of(trained.data_config, vocab), trained.data_config.node_order
    partials = read_partials(request.given, graphs.types, vocab.n_max)
    warn_of_sizes(trained, (len(each.nodes) for each in partials.values()))
    each = COMPLETIONS if request.completions is None else request.completions
    x0, real = encode_partials([*partials.values()], vocab)
    places = [place_of_line(request.given, line) for line in partials]
    graphs.structure(request).check_given(x0, vocab.mask_id, places)
    x0, real = (rows.repeat_interleave(each, dim=0) for rows in (x0, real))
    return complete_kind(
        request,
        trained,
        graphs,
        noun="partial graph",
        asked=[line for line in partials for _ in range(each)],
        make=lambda _: Partials(x0, real, lambda _, tokens: graphs.decode(tokens)),
        order=None if node_order == "random" else _OF_AN_ORDER.format(node_order),
        inputs=partials,
    )
