"""Reference data of an evaluation: held-out plans of a checkpoint, a file, or generated plans."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from discrete_diffusion.data import SPLITS, Examples
from discrete_diffusion.evaluation import (
    MeasuredData,
    RealData,
    check_reference,
    held_out_rows,
    measured_data,
    own_data,
    some_held_out,
)
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG, VocabConfig
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.fields import SizeError
from floor_plans.diagrams.files.foreign_files import refuse_features
from floor_plans.diagrams.files.records import ReadReport
from floor_plans.diagrams.procedural.generator import cached_plans
from floor_plans.diagrams.tokens import decode, encode
from floor_plans.diagrams.vocabulary import vocabulary_of_graph
from floor_plans.learning.build import DiagramDataset, read_plans, too_large

if TYPE_CHECKING:
    from discrete_diffusion.evaluation import EvaluateRequest, TrainedModel

logger = logging.getLogger(__name__)

REFERENCE_SEED = 271_828_182
"""``plan_seed`` of generated reference plans; no recipe trains on it."""

NUM_REFERENCE, NUM_KNOWN = 2_000, 20_000
"""Numbers of generated plans in the reference, and in the pool for floors."""

RealDiagrams = RealData[BubbleDiagram]
"""Real plans that diagrams are compared with."""


def read_measured(
    path: str, request: EvaluateRequest, *, trained_for: VocabConfig | None = None
) -> ReadReport:
    """Read plans to measure or to compare with.

    They have at most the rooms and only the types that a model was ``trained_for``; without a model
    at most ``n_max`` rooms.
    """
    refuse_features(path)
    n_max, words = request.n_max, None
    if trained_for is not None:
        n_max, words = trained_for.n_max, vocabulary_of_graph(trained_for)
    try:
        return read_plans(path, request, n_max, words)
    except ValueError as error:
        if not isinstance(error.__cause__, SizeError):
            raise
        raise too_large(
            error,
            f"; allow more with n_max={error.__cause__.num_rooms}"
            if trained_for is None
            else ", which the model was trained for; leave such plans out with skip_invalid=true",
        ) from error


def real_data_for_samples(
    request: EvaluateRequest, samples: Sequence[BubbleDiagram]
) -> RealDiagrams:
    """Reference data for samples: ``reference=FILE``, or plans of the embedded generator.

    Raises ``ValueError`` without a reference for ``samples`` without directions.
    """
    check_reference(request, of_files=True)
    # a reference file, with its training data
    training = None if request.training is None else _plans(request.training, request)
    if request.reference is not None:
        reference = _plans(request.reference, request)
        measured = [reference[row] for row in held_out_rows(request, len(reference)).tolist()]
        return RealDiagrams(str(request.reference), measured, training, reference, len(reference))
    if not all(diagram.vocabulary.has_directions for diagram in samples):
        raise ValueError(
            "the samples have relations without directions, unlike the embedded plans; give "
            "reference=FILE, plans to compare with"
        )
    if (largest := max(diagram.num_rooms for diagram in samples)) > RPLAN_VOCAB_CONFIG.n_max:
        logger.warning(
            "the samples have up to %d rooms, the embedded plans up to %d: distances say little; "
            "give reference=FILE",
            *(largest, RPLAN_VOCAB_CONFIG.n_max),
        )
    # no file: generated plans of a seed that no recipe trains on
    known = cached_plans(NUM_KNOWN, REFERENCE_SEED).to_diagrams()
    name = (
        f"{NUM_REFERENCE:,} fresh plans of the embedded generator, plan_seed={REFERENCE_SEED}, "
        "livable or not"
    )
    logger.info("no reference=FILE: comparing with %s", name)
    num = min(NUM_REFERENCE, request.num_held_out or NUM_REFERENCE)
    return RealDiagrams(name, known[:num], training, known, NUM_REFERENCE)


def real_data_for_model(
    request: EvaluateRequest, trained: TrainedModel, vocab: VocabConfig
) -> RealDiagrams:
    """Reference data for a model: the held-out split of its checkpoint, or ``reference=FILE`` as
    its test split.

    Training data are ``training=FILE``, or the checkpoint's own if still readable.
    """
    decoded: dict[str, list[BubbleDiagram]] = {}
    # a file as the test split
    if request.reference is not None:
        check_reference(request, of_files=False)
        own = own_data(trained)
        reference = known = _plans(request.reference, request, trained_for=vocab)
        nothing = encode([], vocab)
        data = DiagramDataset(
            {"train": nothing, "val": nothing, "test": encode(reference, vocab)},
            vocab,
            node_order=trained.data_config.node_order,
        )
        if own is not None:
            data.splits["train"] = own.splits["train"]
        on = MeasuredData(data, "test", str(request.reference))
    else:
        # the held-out split; known diagrams are those of all splits
        on = measured_data(request, trained, remedy="give reference=FILE")
        own = on.data
        known_splits = (on.split,) if on.changes else SPLITS
        decoded = {each: _decoded(own.originals(each), vocab) for each in known_splits}
        reference = _with_images(own, on.split, decoded, vocab)
        known = list(chain.from_iterable(decoded.values()))
    # training data, for novelty
    training = None
    if request.training is not None:
        training = _plans(request.training, request, trained_for=vocab)
    elif own is not None:
        training = _with_images(own, "train", decoded, vocab) or None
    measured = some_held_out(request, on.data, on.split)
    if measured is not on.data:
        reference = _decoded(measured.splits[on.split], vocab)
    num = len(on.data.splits[on.split])
    return RealDiagrams(on.name, reference, training, known, num, on)


def _plans(
    path: str, request: EvaluateRequest, *, trained_for: VocabConfig | None = None
) -> list[BubbleDiagram]:
    return list(read_measured(path, request, trained_for=trained_for).diagrams)


def _decoded(examples: Examples, vocab: VocabConfig) -> list[BubbleDiagram]:
    return decode(examples.x0, vocab) if len(examples) else []


def _with_images(
    data: DiagramDataset,
    split: str,
    originals: Mapping[str, list[BubbleDiagram]],
    vocab: VocabConfig,
) -> list[BubbleDiagram]:
    """Diagrams of a split, including the images added by ``symmetry``."""
    examples = data.splits[split]
    found = originals.get(split)
    if found is not None and len(found) == len(examples):
        return found
    return _decoded(examples, vocab)
