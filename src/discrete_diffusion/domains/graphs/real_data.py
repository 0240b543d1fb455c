"""Graphs that an evaluation compares with: held-out graphs of a checkpoint, or a file."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from discrete_diffusion.data.base import SPLITS
from discrete_diffusion.domains.graphs.dataset import GraphFileDataset
from discrete_diffusion.domains.graphs.files.readers import ReadGraphs, read_graphs
from discrete_diffusion.domains.graphs.graph_types import GraphTypes
from discrete_diffusion.domains.graphs.metrics.graph_set import GraphSet
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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from discrete_diffusion.data.graph_tokens import TypedGraph
    from discrete_diffusion.evaluation.requests import EvaluateRequest
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.layout.vocab_config import VocabConfig

logger = logging.getLogger(__name__)

RealGraphs = RealData[GraphSet, GraphFileDataset]
"""Graphs to compare samples with."""


def read_measured(
    path: str,
    request: EvaluateRequest,
    types: GraphTypes,
    n_max: int | None = None,
    *,
    samples: bool = False,
) -> ReadGraphs:
    """The graphs of a file that is measured, ``samples``, or compared with, counted in the log."""
    found = read_graphs(
        path, types, skip_invalid=request.skip_invalid, n_max=n_max, samples=samples
    )
    logger.info("%s", found.summary(path))
    return found


def real_data_for_samples(request: EvaluateRequest, types: GraphTypes) -> RealGraphs:
    """``reference=FILE``; ``ValueError`` without one."""
    if request.reference is None:
        raise ValueError(
            "samples=FILE needs graphs to compare with: give reference=FILE, and training=FILE for "
            "novelty and the ratio"
        )
    refuse_split(request, of_files=True)
    found = read_measured(request.reference, request, types)
    reference, training = _reference_and_training(request, found, types, None)
    measured = [reference[row] for row in held_out_rows(request, len(reference)).tolist()]
    return RealGraphs(
        str(request.reference),
        GraphSet(measured),
        None if training is None else GraphSet(training),
        GraphSet(found.graphs),
        len(reference),
    )


def real_data_for_model(
    request: EvaluateRequest, trained: TrainedModel, vocab: VocabConfig
) -> RealGraphs:
    """The split that a checkpoint held out, or ``reference=FILE`` as its test split."""
    types, measured_on = GraphTypes.of(trained.data_config), other_data(request, trained)
    own = own_data(request, trained) if measured_on is None else measured_on.data
    if request.reference is not None:
        refuse_split(request, of_files=False)
        found = read_measured(request.reference, request, types, vocab.n_max)
        reference, training = _reference_and_training(request, found, types, vocab.n_max)
        known: Sequence[TypedGraph] = found.graphs
        if training is None and own is not None:
            training = own.graphs("train")
        data = GraphFileDataset(
            {"train": training or [], "val": [], "test": reference},
            vocab,
            node_order=trained.data_config.node_order,
            types=types,
        )
        name, split = str(request.reference), "test"
    else:
        assert own is not None  # or own_data would have raised
        data = own
        if measured_on is None:
            split = held_out_split(
                own, request.split, "choose another split or give reference=FILE"
            )
            name = name_of_split(trained, own, split)
            known = [graph for each in SPLITS for graph in own.graphs(each)]
        else:
            split, name = measured_on.split, measured_on.name
            known = own.graphs(split)
        training = own.graphs("train")
        if request.training is not None:
            training = read_measured(request.training, request, types, vocab.n_max).graphs
    measured = some_held_out(request, data, split)
    return RealGraphs(
        name,
        GraphSet(measured.graphs(split)),
        GraphSet(training) if training else None,
        GraphSet(known),
        len(data.splits[split]),
        data,
        split,
        measured_on,
    )


def _reference_and_training(
    request: EvaluateRequest, found: ReadGraphs, types: GraphTypes, n_max: int | None
) -> tuple[list[TypedGraph], list[TypedGraph] | None]:
    """The test graphs of a file with splits, else all; and ``training=FILE``, else the training
    graphs of the same file, or None."""
    training = found.splits.get("train")
    if request.training is not None:
        training = read_measured(request.training, request, types, n_max).graphs
    return found.splits.get("test") or found.graphs, training
