"""``evaluate`` of graphs, and the real graphs that samples are compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discrete_diffusion.data.base import SPLITS
from discrete_diffusion.data.graph_tokens import TypedGraph
from discrete_diffusion.domains.graphs.dataset import GraphFileDataset
from discrete_diffusion.domains.graphs.graph_types import Untyped
from discrete_diffusion.domains.graphs.libraries import check_installed
from discrete_diffusion.domains.graphs.samples import GraphSamples
from discrete_diffusion.evaluation.held_out import (
    held_out_rows,
    held_out_split,
    name_of_split,
    own_data,
    refuse_split,
    some_held_out,
)
from discrete_diffusion.evaluation.measured_data import other_data
from discrete_diffusion.evaluation.real_data import RealData
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
    refuse_split(request, of_files=True)
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
    measured_on = other_data(request, trained)
    own = own_data(request, trained) if measured_on is None else measured_on.data
    if request.reference is not None:
        refuse_split(request, of_files=False)
        reference, training, known = _compared_with(request, graphs)
        if training is None and own is not None:
            training = own.graphs("train")
        data = GraphFileDataset(
            {"train": training or [], "val": [], "test": reference},
            graphs.vocab,
            node_order=trained.data_config.node_order,
            types=graphs.types,
        )
        name, split = str(request.reference), "test"
    else:
        assert own is not None  # or own_data would have raised
        data = own
        if measured_on is None:
            remedy = "choose another split or give reference=FILE"
            split = held_out_split(own, request.split, remedy)
            name = name_of_split(trained, own, split)
            known = [graph for each in SPLITS for graph in own.graphs(each)]
        else:
            split, name = measured_on.split, measured_on.name
            known = own.graphs(split)
        training = own.graphs("train")
        if request.training is not None:
            training = graphs.read_graphs(request.training, request).graphs
    measured = some_held_out(request, data, split).graphs(split)
    num = len(data.splits[split])
    return RealData(name, measured, training or None, known, num, data, split, measured_on)


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
