"""``DiagramDataset``, built from a ``data`` config, and reference data of an evaluation.

Data come from the embedded generator, from files, or from the held-out plans of a checkpoint.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import torch
from omegaconf import DictConfig
from torch import Tensor

from discrete_diffusion import evaluation
from discrete_diffusion.data import (
    SPLITS,
    EncodedGraphs,
    Examples,
    GraphDataset,
    cached_arrays,
    remove_held_out,
    split_by_graph,
)
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG, VocabConfig
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.fields import SizeError
from floor_plans.diagrams.files.foreign_files import refuse_features
from floor_plans.diagrams.files.records import ReadReport
from floor_plans.diagrams.procedural import generator
from floor_plans.diagrams.procedural.programme import N_MAX
from floor_plans.diagrams.tokens import decode, encode, symmetric_images
from floor_plans.diagrams.vocabulary import (
    DIRECTIONS,
    PlanVocabulary,
    vocabulary_named,
    vocabulary_of_graph,
)
from floor_plans.drawings.readers import ReadOptions, read_report
from floor_plans.learning.conditions import FACTS_VERSION, Facts
from floor_plans.plans.floor_plan import floor_plans, plans_with_boxes
from floor_plans.solver.spec import RoomAreas

logger = logging.getLogger(__name__)

_NUM_WITH_AREAS = 1000  # generated plans from which areas of rooms are sampled
REFERENCE_SEED = 271_828_182  # ``generator_seed`` of reference plans; no recipe trains on it
NUM_REFERENCE, NUM_KNOWN = 2_000, 20_000  # generated plans in the reference, and for floors

RealDiagrams = evaluation.RealData[BubbleDiagram]  # real plans that diagrams are compared with


class DiagramDataset(GraphDataset):
    """Diagrams in three splits that are disjoint up to relabelling. ``symmetry``: ``mirror`` or
    ``square`` adds mirrored, or also turned, copies of every training diagram (``SYMMETRIES``),
    except copies that are held-out diagrams. ``facts``: per-diagram values passed to the model as
    the condition ``condition``, or None. ``node_order``, ``splits``: as for ``GraphDataset``."""

    size_unit = "rooms"

    def __init__(
        self,
        splits: dict[str, EncodedGraphs],
        vocab: VocabConfig,
        *,
        node_order: str,
        symmetry: str = "none",
        facts: Facts | None = None,
    ) -> None:
        self.facts, self.symmetry, self._num_given = facts, symmetry, len(splits["train"])
        held_out = [splits[name] for name in SPLITS if name != "train"]
        added = remove_held_out(symmetric_images(splits["train"], vocab, symmetry), held_out, vocab)
        splits = {**splits, "train": EncodedGraphs.joined([splits["train"], added])}
        super().__init__(splits, vocab, node_order=node_order)

    def with_training_split(self, trained_on: DiagramDataset | None) -> DiagramDataset:
        made = super().with_training_split(trained_on)
        if trained_on is not None:
            made._num_given = trained_on._num_given
        return made

    def conditions_of(self, graphs: EncodedGraphs) -> dict[str, Tensor]:
        return {} if self.facts is None else {"condition": self.facts.graph_facts(graphs)}

    def unit_of_bound(self, split: str, num_tokens: float) -> tuple[str, float]:
        return "nats per unordered diagram", 1.0

    def originals(self, split: str) -> Examples:
        """Examples of a split without the copies added by ``symmetry``."""
        examples = self.splits[split]
        return examples[torch.arange(self._num_given if split == "train" else len(examples))]

    def summary(self) -> str:
        parts = ", ".join(f"{len(self.splits[name]):,} {name}" for name in SPLITS)
        added = len(self.splits["train"]) - self._num_given
        shown = f" (train with {added:,} {self.symmetry} images)" if added else ""
        return f"{parts} diagrams{shown}; node order {self.node_order}"


def build_dataset(config: DictConfig, vocab: VocabConfig) -> DiagramDataset:
    """Build the data set of a config from the procedural generator (cached), or from files. Files
    are one to split (``path``), or one per split, whose held-out diagrams are removed from training
    and counted. Raises ``ValueError`` if neither or both are given."""
    # facts of plans do not survive mirror images
    facts, symmetry = Facts.of(config, vocab), config.get("symmetry", "none")
    if facts is not None and facts.plan_names and symmetry != "none":
        raise ValueError(
            f"data.symmetry={symmetry}: images of a diagram have no {', '.join(facts.plan_names)}; "
            "leave it at none, or these out of data.condition_on"
        )
    splits = (_from_files if "path" in config else _generated)(config, vocab, facts)
    if facts is not None:
        facts.check_known(splits["train"])
    return DiagramDataset(
        splits, vocab, node_order=config.node_order, symmetry=symmetry, facts=facts
    )


def build_test_plans(config: DictConfig, vocab: VocabConfig) -> DiagramDataset:
    """Build a data set with the plans of ``path`` as its test split, for a model with this config.
    Raises the readers' errors, such as for a plan of another vocabulary or with too many rooms."""
    facts = Facts.of(config, vocab)
    remedy = ", which the model was trained for; leave such plans out with data.skip_invalid=true"
    test = _read(config.path, config, vocab, facts, remedy)
    nothing = test[torch.zeros(0, dtype=torch.long)]
    splits = {"train": nothing, "val": nothing, "test": test}
    return DiagramDataset(splits, vocab, node_order=config.node_order, facts=facts)


def _generated(
    config: DictConfig, vocab: VocabConfig, facts: Facts | None
) -> dict[str, EncodedGraphs]:
    # sizes have to fit the vocabulary
    asked = config.get("num_rooms")
    sizes = None if asked is None else generator.checked_range(asked)
    most = N_MAX if sizes is None else sizes[1]
    if vocab.n_max < most:
        raise ValueError(
            f"data.max_nodes={vocab.n_max}: the embedded plans have up to {most} rooms; take "
            f"data.max_nodes={most} or more"
        )
    # plans, and their facts if needed
    generated = (config.num_plans, config.generator_seed, sizes)
    livable = config.get("livable", False)
    plans = generator.cached_plans(*generated, livable=livable)
    graphs = plans.encode(vocab)
    if facts is not None and facts.plan_names:
        path = generator.cache_file(*generated, livable=livable)
        name = f"facts-v{FACTS_VERSION}-{'-'.join(facts.plan_names)}-of-{path.name}"
        arrays = cached_arrays(
            path.with_name(name),
            "facts of plans",
            {"facts": (np.float32, (len(plans), None))},
            lambda: {"facts": facts.plan_facts(plans.to_diagrams(), "pixels").numpy()},
        )
        graphs = replace(graphs, facts=torch.from_numpy(arrays["facts"]))
    return split_by_graph(graphs, vocab, fractions=config.split, seed=config.split_seed)


def _from_files(
    config: DictConfig, vocab: VocabConfig, facts: Facts | None
) -> dict[str, EncodedGraphs]:
    # one file to split, or a file per split
    paths = {name: config.get(f"{name}_path") for name in ("train", "val", "test")}
    if (config.path is None) == (paths["train"] is None):
        raise ValueError(
            f"data={config.name} needs data.path=FILE, or data.train_path=FILE with "
            "data.val_path=FILE"
        )
    if config.path is not None:
        if any(paths.values()):
            raise ValueError("give data.path or data.train_path and data.val_path, not both")
        graphs = _read(config.path, config, vocab, facts)
        return split_by_graph(graphs, vocab, fractions=config.split, seed=config.split_seed)
    if paths["val"] is None:
        raise ValueError("data.train_path needs data.val_path=FILE too")
    splits = {
        name: encode([], vocab) if path is None else _read(path, config, vocab, facts)
        for name, path in paths.items()
    }
    # held-out diagrams leave the training data
    kept = remove_held_out(splits["train"], [splits["val"], splits["test"]], vocab)
    if removed := len(splits["train"]) - len(kept):
        logger.warning("left out %d training diagrams that are held out too", removed)
    return {**splits, "train": kept}


def _read(
    path: str, config: DictConfig, vocab: VocabConfig, facts: Facts | None, remedy: str = ""
) -> EncodedGraphs:
    words = vocabulary_named(config.get("relations", DIRECTIONS.name))
    diagrams = read_plans(path, config, vocab.n_max, words, remedy).diagrams
    graphs = encode(diagrams, vocab)
    if facts is None or not facts.plan_names:
        return graphs
    return replace(graphs, facts=facts.plan_facts(diagrams, config.get("unit", "pixels")))


def read_plans(
    path: str,
    config: DictConfig | evaluation.EvaluateRequest,
    max_nodes: int,
    vocabulary: PlanVocabulary | None = None,
    remedy: str = "",
) -> ReadReport:
    """Read the plans of a file with at most ``max_nodes`` rooms, by the reading options of
    ``config``, and log their counts. ``remedy``: end of the message on too many rooms, with ``{}``
    for their number. Raises the readers' errors, and ``ValueError`` for a file without plans."""
    options = ReadOptions(
        skip_invalid=config.skip_invalid,
        max_nodes=max_nodes,
        unit=config.get("unit", "pixels"),
        vocabulary=vocabulary,
        **{key: config.get(key) for key in ("adjacency_threshold", "room_codes", "room_names")},
    )
    try:
        report = read_report(path, options)
    except ValueError as error:
        if not (remedy and isinstance(error.__cause__, SizeError)):
            raise
        said = str(error).rpartition("; ")[0]
        raise ValueError(said + remedy.format(error.__cause__.num_rooms)) from error
    logger.info("%s", report.summary())
    if not report.diagrams:
        raise ValueError(
            f"{path} holds no plan that can be read; `discrete-diffusion data check` says why"
        )
    return report


def training_areas(config: DictConfig) -> RoomAreas:
    """Areas of rooms in the training plans of ``config``, a ``config.data``, as target areas. If
    the plans have no boxes or cannot be read, typical areas are used, with a line in the log."""
    if config.name != "plans":
        livable = config.get("livable", False)
        drawn = generator.generate_plans(_NUM_WITH_AREAS, config.generator_seed, livable=livable)
        return RoomAreas(floor_plans(drawn, "pixels"))
    path = config.path or config.train_path
    try:
        diagrams = read_plans(path, config, config.max_nodes).diagrams
        plans = plans_with_boxes(diagrams, config.get("unit", "pixels"))
    except (OSError, ValueError) as error:
        logger.warning("room areas are typical ones, not those of the training data: %s", error)
        return RoomAreas()
    if not plans:
        logger.info("room areas are typical ones: the plans of %s have no boxes", path)
    return RoomAreas(plans)


def read_measured(
    path: str, request: evaluation.EvaluateRequest, *, trained_for: VocabConfig | None = None
) -> ReadReport:
    """Read plans for evaluation, or for comparison with samples, with the rooms of ``trained_for``,
    the vocabulary of a model, or at most ``max_nodes`` of the request."""
    refuse_features(path)
    if trained_for is None:
        return read_plans(path, request, request.max_nodes, None, "; allow more with max_nodes={}")
    words = vocabulary_of_graph(trained_for)
    remedy = ", which the model was trained for; leave such plans out with skip_invalid=true"
    return read_plans(path, request, trained_for.n_max, words, remedy)


def real_data_for_samples(
    request: evaluation.EvaluateRequest, samples: Sequence[BubbleDiagram]
) -> RealDiagrams:
    """Reference data for samples: ``reference=FILE``, or, for samples with directions, plans of the
    embedded generator; else ``ValueError``."""
    evaluation.check_reference(request, of_files=True)
    # a reference file, with its training data
    training = None
    if request.training_data is not None:
        training = list(read_measured(request.training_data, request).diagrams)
    if request.reference is not None:
        reference = list(read_measured(request.reference, request).diagrams)
        measured = [
            reference[row] for row in evaluation.held_out_rows(request, len(reference)).tolist()
        ]
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
    # no file: generated plans
    known = generator.cached_plans(NUM_KNOWN, REFERENCE_SEED).to_diagrams()
    name = f"{NUM_REFERENCE:,} fresh plans of the embedded generator, "
    name += f"generator_seed={REFERENCE_SEED}, livable or not"
    logger.info("no reference=FILE: comparing with %s", name)
    num = min(NUM_REFERENCE, request.num_held_out or NUM_REFERENCE)
    return RealDiagrams(name, known[:num], training, known, NUM_REFERENCE)


def real_data_for_model(
    request: evaluation.EvaluateRequest, trained: evaluation.TrainedModel, vocab: VocabConfig
) -> RealDiagrams:
    """Reference data for a model: the held-out split of its checkpoint, or ``reference=FILE`` as
    its test split. Training data are ``training_data=FILE``, or the checkpoint's own if still
    readable."""
    decoded: dict[str, list[BubbleDiagram]] = {}

    def with_images(data: DiagramDataset, split: str) -> list[BubbleDiagram]:
        """Diagrams of a split, including the copies added by ``symmetry``."""
        examples, originals = data.splits[split], decoded.get(split)
        if originals is not None and len(originals) == len(examples):
            return originals
        return decode(examples.x0, vocab)

    # a file as the test split
    if request.reference is not None:
        evaluation.check_reference(request, of_files=False)
        own = evaluation.own_data(trained)
        report = read_measured(request.reference, request, trained_for=vocab)
        reference = known = list(report.diagrams)
        nothing = encode([], vocab)
        data = DiagramDataset(
            {"train": nothing, "val": nothing, "test": encode(reference, vocab)},
            vocab,
            node_order=trained.data_config.node_order,
        )
        if own is not None:
            data.splits["train"] = own.splits["train"]
        on = evaluation.MeasuredData(data, "test", str(request.reference))
    else:
        # the held-out split; known diagrams are those of all splits
        on = evaluation.measured_data(request, trained, remedy="give reference=FILE")
        own = on.data
        known_splits = (on.split,) if on.changes else SPLITS
        decoded = {each: decode(own.originals(each).x0, vocab) for each in known_splits}
        reference = with_images(own, on.split)
        known = list(chain.from_iterable(decoded.values()))
    # training data, for novelty
    training = None
    if request.training_data is not None:
        training = list(read_measured(request.training_data, request, trained_for=vocab).diagrams)
    elif own is not None:
        training = with_images(own, "train") or None
    measured = evaluation.some_held_out(request, on.data, on.split)
    if measured is not on.data:
        reference = decode(measured.splits[on.split].x0, vocab)
    num = len(on.data.splits[on.split])
    return RealDiagrams(on.name, reference, training, known, num, on)
