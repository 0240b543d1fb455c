"""``sample`` of a model of graphs, fresh or completions, and ``evaluate`` beside real graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discrete_diffusion.data.base import SPLITS
from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.domains.graphs.build import GraphFileDataset
from discrete_diffusion.domains.graphs.graph_types import Untyped
from discrete_diffusion.domains.graphs.libraries import check_installed
from discrete_diffusion.domains.graphs.partial import encode_partials, read_partials
from discrete_diffusion.domains.graphs.samples import GraphSamples
from discrete_diffusion.evaluation.held_out import (
    check_reference,
    held_out_rows,
    own_data,
    some_held_out,
)
from discrete_diffusion.evaluation.measured_data import MeasuredData, RealData, measured_data
from discrete_diffusion.evaluation.sample_kind import (
    Partials,
    SampleEvaluation,
    complete_kind,
    evaluate_sample_files,
    evaluate_samples,
    sample_kind,
)
from discrete_diffusion.evaluation.token_samples import COMPLETIONS, warn_of_sizes
from discrete_diffusion.runtime.inputs import place_of_line

if TYPE_CHECKING:
    from discrete_diffusion.evaluation.report import Samples
    from discrete_diffusion.evaluation.requests import EvaluateRequest, SampleRequest
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


def evaluate_files(request: EvaluateRequest) -> SampleEvaluation[TypedGraph]:
    """``samples=FILE`` or ``samples=[A,B]``, as graphs without types, beside ``reference=FILE``.

    Raises ``ValueError`` without a reference, and for an empty list."""
    check_installed()
    graphs = GraphSamples(Untyped())
    if request.samples and request.reference is None:
        raise ValueError(
            "samples=FILE needs graphs to compare with: give reference=FILE, and training=FILE for "
            "novelty and the ratio"
        )
    check_reference(request, of_files=True)
    reference, training, known = _compared_with(request, graphs)
    measured = [reference[row] for row in held_out_rows(request, len(reference)).tolist()]
    real = RealData(str(request.reference), measured, training, known, len(reference))
    return evaluate_sample_files(request, graphs, real)


def evaluate_model(
    request: EvaluateRequest, trained: TrainedModel, vocab: VocabConfig
) -> SampleEvaluation[TypedGraph]:
    """Samples of a model, and the model itself, beside the split that its checkpoint held out, or
    ``reference=FILE`` as its test split."""
    check_installed()
    graphs = GraphSamples.of(trained.data_config, vocab)
    return evaluate_samples(request, trained, graphs, _real_graphs(request, trained, graphs))


def _real_graphs(
    request: EvaluateRequest, trained: TrainedModel, graphs: GraphSamples
) -> RealData[TypedGraph]:
    if request.reference is not None:
        check_reference(request, of_files=False)
        own = own_data(trained)
        reference, training, known = _compared_with(request, graphs)
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
        known = [
            graph
            for each in ([on.split] if on.changes else SPLITS)
            for graph in on.data.graphs(each)
        ]
        training = on.data.graphs("train")
        if request.training is not None:
            training = graphs.read_graphs(request.training, request).graphs
    measured = some_held_out(request, on.data, on.split).graphs(on.split)
    num = len(on.data.splits[on.split])
    return RealData(on.name, measured, training or None, known, num, on)


def _compared_with(
    request: EvaluateRequest, graphs: GraphSamples
) -> tuple[list[TypedGraph], list[TypedGraph] | None, list[TypedGraph]]:
    """Of ``reference=FILE`` the test graphs of a file with splits, else all; ``training=FILE``,
    else the training graphs of the same file, or None; and all graphs of it."""
    found = graphs.read_graphs(request.reference, request)
    training = found.splits.get("train")
    if request.training is not None:
        training = graphs.read_graphs(request.training, request).graphs
    return found.splits.get("test") or found.graphs, training, found.graphs
