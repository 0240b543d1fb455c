"""``evaluate`` of graphs, and the real graphs that samples are compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discrete_diffusion.data.base import SPLITS
from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.domains.graphs.build import GraphFileDataset
from discrete_diffusion.domains.graphs.graph_types import Untyped
from discrete_diffusion.domains.graphs.libraries import check_installed
from discrete_diffusion.domains.graphs.samples import GraphSamples
from discrete_diffusion.evaluation.held_out import (
    check_reference,
    held_out_rows,
    own_data,
    some_held_out,
)
from discrete_diffusion.evaluation.measured_data import MeasuredData, RealData, measured_data
from discrete_diffusion.evaluation.sample_kind import (
    SampleEvaluation,
    evaluate_sample_files,
    evaluate_samples,
)

if TYPE_CHECKING:
    from discrete_diffusion.evaluation.requests import EvaluateRequest
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.layout.vocab_config import VocabConfig


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
