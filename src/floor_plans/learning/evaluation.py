"""``evaluate`` of diagrams: metrics of samples, of the model itself, and of its conditioning."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from discrete_diffusion import evaluation
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.data import Examples
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG, VocabConfig
from discrete_diffusion.runtime import install_command, progress
from discrete_diffusion.sampling import Model, sample_in_batches
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.graph_formats import write_diagrams
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.metrics.diagrams import (
    METRICS,
    SIZE_DEPENDENT,
    bubble_metrics,
    stratified_metrics,
    structure_metrics,
)
from floor_plans.diagrams.pictures.diagram_pictures import MAX_DRAWN, plot_grid
from floor_plans.diagrams.pictures.statistics import plot_samples
from floor_plans.diagrams.tokens import decode, encode
from floor_plans.diagrams.vocabulary import OF_ROOMS
from floor_plans.learning import build
from floor_plans.learning.conditions import Facts
from floor_plans.learning.report import NUM_LARGE_VERDICTS
from floor_plans.plans.verdict import NUM_VERDICTS, PlanScores, score_plans

logger = logging.getLogger(__name__)

NUM_HELD_OUT = 300  # most held-out diagrams on whose facts the model is conditioned
GUIDANCE = (1.0, 2.0)  # guidance weights at which obedience is measured

_BOUND, _SAMPLES, _OTHERS = (31,), (32,), (33,)
"""Entropy of the random numbers for the bound, the samples and the exchanged facts."""

REFERENCE_REPEATS = 20  # default of ``reference_repeats``
NUM_SAMPLES = 2_000  # default of ``num_samples``


def score_samples(
    sample_sets: Sequence[Sequence[BubbleDiagram]],
    reference: Sequence[BubbleDiagram],
    *,
    training: Sequence[BubbleDiagram] | None = None,
    known: Sequence[BubbleDiagram] | None = None,
    reference_repeats: int = 20,
    seed: int = 0,
    num_unreadable: int = 0,
) -> evaluation.SampleScores:
    """Compute every metric of every set, one set per sampling seed, against one reference.

    ``training``: training diagrams, for novelty. ``known``: real diagrams for ``real_floors``, by
    default the reference. The value of real data is this floor for metrics in ``SIZE_DEPENDENT``,
    and the value of the reference for others; novelty has none, since held-out data are novel.
    ``stratified`` has metrics by room count. Raises ``ValueError`` without a set, or if a set is
    empty.
    """
    if not sample_sets:
        raise ValueError("no samples to measure: give at least one set")
    # all sets in the vocabulary of the reference
    reference = DiagramSet.of(reference)
    words = reference.vocabulary
    sets = [DiagramSet.of(samples, words) for samples in sample_sets]
    training = None if training is None else DiagramSet.of(training, words)
    # metrics of each set, floors, and values of the reference
    found = [
        bubble_metrics(samples, reference, training=training)
        for samples in progress.track(sets, "metrics", "sets")
    ]
    per_seed = {name: [scores[name] for scores in found] for name in found[0]}
    known = reference if known is None else known
    floors = None
    if len(known) > 1:
        known = DiagramSet.of(known, words)
        floors = real_floors(known, len(sets[0]), len(reference), reference_repeats, seed)
    real = structure_metrics(reference)
    if floors is not None:
        real |= {name: floors.mean[name] for name in SIZE_DEPENDENT}
    # metrics by room count, over all sets
    pooled = [diagram for samples in sets for diagram in samples]
    sizes = [len(samples) for samples in sets]
    stratified = {
        "samples": stratified_metrics(DiagramSet.of(pooled, words)),
        "reference": stratified_metrics(reference),
    }
    return evaluation.SampleScores(
        METRICS,
        sizes,
        per_seed,
        real,
        tables={"real": real, **(floors.as_dict() if floors else {}), "stratified": stratified},
        notes=_notes(sizes, reference, num_unreadable, floors),
    )


def _notes(
    sizes: Sequence[int],
    reference: DiagramSet,
    num_unreadable: int,
    floors: evaluation.RealVsReal | None,
) -> list[str]:
    compared = f"Samples: {evaluation.shown_sizes(sizes)} against {len(reference):,} real diagrams."
    notes = [compared, evaluation.error_note(len(sizes))]
    if not reference.vocabulary.has_directions:
        notes.append(
            "The relations have no direction, so transitive, inside_valid and floor plans are not "
            "measured; nor is valid, which is about plans with one living room."
        )
    if num_unreadable:
        notes.append(
            f"{num_unreadable:,} of {num_unreadable + sum(sizes):,} samples could not be "
            "read and were left out: all shares, validity too, are of the readable ones."
        )
    if floors is None:
        return notes
    # meaning of the floor, and its limits
    notes.append(
        f"Floor: the metric of {floors.num_samples:,} real diagrams against "
        f"{floors.num_reference:,} others, mean of {floors.draws} draws; it stands under 'real "
        "data' for distances, coverage and diversity; ratio = value / floor."
    )
    higher = "a smaller set has a higher floor"
    if len(set(sizes)) > 1:
        notes.append(f"The sample sets differ in size and the floor is for the first; {higher}.")
    if (floors.num_samples, floors.num_reference) != (sizes[0], len(reference)):
        few = "There are too few real diagrams for a floor at the sizes measured"
        notes.append(f"{few}: {higher}, so the ratios flatter the samples.")
    return notes


def real_floors(
    known: DiagramSet, num_samples: int, num_reference: int, draws: int, seed: int
) -> evaluation.RealVsReal | None:
    """Real-vs-real baseline: metrics between two disjoint random subsets of ``known``, of the sizes
    of the samples and the reference, averaged over ``draws`` pairs; None if ``draws`` is 0."""
    if not draws:
        return None
    sizes = {"num_samples": num_samples, "num_reference": num_reference}
    return evaluation.real_vs_real(known.prepare(), bubble_metrics, **sizes, draws=draws, seed=seed)


@dataclass(frozen=True)
class ConditioningScores:
    """Scores of a conditional model on ``num`` held-out diagrams. ``more``: mean increase of the
    bound in nats per diagram, and its standard error, if the facts are changed, by name of the
    change. ``obeyed``: share of samples that have the given counts of rooms, by guidance weight;
    empty for a model that is not conditioned on counts."""

    num: int
    more: dict[str, tuple[float, float]]
    obeyed: dict[float, float]

    def as_dict(self) -> dict[str, Any]:
        """Values for ``metrics.json``."""
        return {
            "told_num_held_out": self.num,
            "told": {
                name: {"nats_more": mean, "standard_error": error}
                for name, (mean, error) in self.more.items()
            },
            **{f"obeyed_at_guidance_{weight:g}": share for weight, share in self.obeyed.items()},
        }

    def section(self) -> evaluation.TableSection:
        rows = {
            f"nats more, {name}": f"{mean:.3f} ± {error:.3f}"
            for name, (mean, error) in self.more.items()
        }
        for weight, share in self.obeyed.items():
            rows[f"counts obeyed at sampling.guidance={weight:g}"] = f"{share:.3f}"
        title = f"what the model makes of facts, {self.num} held-out diagrams"
        return evaluation.TableSection(
            title, tuple(evaluation.TableRow(*row) for row in rows.items())
        )

    def note(self) -> str:
        return (
            "Conditions: the samples above are unconditional; the bound is conditional on all "
            "facts. Nats more: for the same diagrams and noise, ± standard error."
        )


def measure_conditioning(
    model: Model, data: build.DiagramDataset, split: str, seed: int
) -> ConditioningScores | None:
    """Score a conditional model on the first diagrams of a split; None if it is unconditional."""
    facts, examples = data.facts, data.splits[split][:NUM_HELD_OUT]
    if facts is None or not len(examples):
        return None
    condition, size = examples.conditions["condition"], model.rows_at_once
    other = _derangement(len(examples), seed)
    # the condition with all facts, none, one missing, one exchanged
    changed = {"told all": condition, "told nothing": torch.full_like(condition, torch.nan)}
    for name in facts.names:
        columns = facts.columns(name)
        changed[f"not told its {name}"] = condition.masked_fill(columns, torch.nan)
        changed[f"told the {name} of another"] = condition.where(~columns, condition[other])
    # bound of the same noisy diagrams under each change of the condition
    bounds: dict[str, Tensor] = {}
    batch = data.augment(examples, make_generator(seed, *_BOUND))
    for name, given in progress.track(list(changed.items()), "changing the conditions", "times"):
        rows = Examples(batch.x0, batch.real, batch.log_num_orders, conditions={"condition": given})
        batches = [rows[k : k + size].batch() for k in range(0, len(rows), size)]
        bounds[name] = evaluation.sample_bounds(
            model.algorithm,
            batches,
            draws=2,
            settings=evaluation.MeasurementSettings((seed, *_BOUND), model.device, model.shard),
        ).nelbo
    right, more = bounds.pop("told all"), {}
    for name, found in bounds.items():
        change = found - right
        more[name] = float(change.mean()), float(change.std()) / len(change) ** 0.5
    # samples conditioned on counts only
    obeyed = {}
    if "counts" in facts.names:
        masks = [facts.columns(name) for name in facts.names if name in OF_ROOMS]
        asked = condition.masked_fill(~torch.stack(masks).any(dim=0), torch.nan)
        obeyed = {w: share_obeyed(model, facts, asked, examples.real, w, seed) for w in GUIDANCE}
    return ConditioningScores(len(examples), more, obeyed)


def share_obeyed(
    model: Model, facts: Facts, asked: Tensor, real: Tensor, weight: float, seed: int
) -> float:
    """Share of samples that have the facts given in their row of ``asked``."""
    drawn = sample_in_batches(
        replace(model, sampler=replace(model.sampler, guidance=weight), on_sampled=None),
        real,
        generator=make_generator(seed, *_SAMPLES, device=model.device),
        conditions={"condition": asked},
    )
    found = facts.graph_facts(encode(decode(drawn.x0, facts.vocab), facts.vocab))
    return float((asked.isnan() | (found == asked)).all(dim=1).double().mean())


def _derangement(num: int, seed: int) -> Tensor:
    """Int[num]: random permutation that maps no row to itself."""
    order = torch.randperm(num, generator=make_generator(seed, *_OTHERS))
    return order[(order.argsort() + 1) % num]


@dataclass(frozen=True)
class DiagramEvaluation(evaluation.Evaluation):
    """Evaluation of sampled diagrams, and of their model. ``facts``: settings of the measurement.
    ``sets``: samples by sampling seed or file. ``model``: None for files of samples. ``plans``:
    None if not requested, or without OR-Tools."""

    facts: dict[str, Any]
    real: build.RealDiagrams
    sets: list[list[BubbleDiagram]]
    scores: evaluation.SampleScores
    model: evaluation.ModelEvaluation | None
    plans: PlanScores | None
    conditioning: ConditioningScores | None = None

    def sections(self) -> list[evaluation.TableSection]:
        """Sections of the table, samples first."""
        plans = [] if self.plans is None else [self.plans.section()]
        model = [] if self.model is None else self.model.sections()
        conditioning = [] if self.conditioning is None else [self.conditioning.section()]
        return [*self.scores.sections(), *plans, *model, *conditioning]

    def notes(self) -> list[str]:
        notes = [f"Real data: {self.real.name}.", *self.scores.notes, *self.real.notes()]
        notes += [each.note() for each in (self.plans, self.conditioning) if each is not None]
        return notes if self.model is None else [*notes, *evaluation.model_notes(self.model.scores)]

    def metrics(self) -> dict[str, Any]:
        """Values for ``metrics.json``: single numbers before lists and tables."""
        found = self.scores.as_dict() | ({} if self.model is None else self.model.metrics())
        if self.plans is not None:
            found |= self.plans.as_dict()
            found |= evaluation.interval_entries({**self.scores.intervals, **self.plans.intervals})
        found |= {} if self.conditioning is None else self.conditioning.as_dict()
        return {**self.facts, **evaluation.scalars_first(found)}

    def save(self, folder: Path) -> None:
        """Write the samples of the first set."""
        write_diagrams(folder / "samples.jsonl", self.sets[0])

    def plot(self, folder: Path) -> None:
        plot_grid(self.sets[0][:MAX_DRAWN], folder / "samples.png")
        plot_samples(list(chain.from_iterable(self.sets)), self.real.reference, folder)
        if self.model is not None:
            self.model.plot(folder)


def evaluate_files(request: evaluation.EvaluateRequest) -> DiagramEvaluation:
    """Evaluate ``samples=FILE`` or ``samples=[A,B]``; warn if the files differ in size. Raises
    ``ValueError`` for an empty list."""
    if not (names := request.samples):
        raise ValueError("samples=[]: give at least one file")
    reports = [build.read_measured(name, request) for name in names]
    sets = [list(report.diagrams) for report in reports]
    unreadable = [len(report.problems) for report in reports]
    facts = evaluation.facts_of_files(names, [len(diagrams) for diagrams in sets], unreadable)
    real = build.real_data_for_samples(request, sets[0])
    return _scored(request, facts, real, sets, num_unreadable=sum(unreadable))


def evaluate_model(
    request: evaluation.EvaluateRequest, trained: evaluation.TrainedModel, vocab: VocabConfig
) -> DiagramEvaluation:
    """Evaluate samples of a model, and the model itself."""
    real = build.real_data_for_model(request, trained, vocab)
    on = real.on
    assert on is not None
    trained.check_weights()
    conditioning = list[ConditioningScores | None]()
    tokens, facts, measured, scoring = evaluation.sample_and_measure(
        request,
        trained,
        on,
        num=NUM_SAMPLES,
        save=lambda drawn, folder: write_diagrams(folder / "samples.jsonl", decode(drawn, vocab)),
        scoring=f"scoring the samples, with {num_repeats(request)} draws for the floors",
        also=lambda model: conditioning.append(
            measure_conditioning(model, on.data, on.split, request.seed)
        ),
    )
    sets = [decode(drawn, vocab) for drawn in tokens]
    with scoring:
        return replace(_scored(request, facts, real, sets, measured), conditioning=conditioning[0])


def num_repeats(request: evaluation.EvaluateRequest) -> int:
    repeats = request.reference_repeats
    return REFERENCE_REPEATS if repeats is None else int(repeats)


def _scored(
    request: evaluation.EvaluateRequest,
    facts: dict[str, Any],
    real: build.RealDiagrams,
    sets: list[list[BubbleDiagram]],
    model: evaluation.ModelEvaluation | None = None,
    num_unreadable: int = 0,
) -> DiagramEvaluation:
    sizes = evaluation.shown_sizes([len(diagrams) for diagrams in sets])
    num = f"{len(real.reference):,}"
    logger.info("measuring %s samples against %s real plans", sizes, num)
    scores = score_samples(
        sets,
        real.reference,
        training=real.training,
        known=real.known,
        reference_repeats=num_repeats(request),
        seed=request.seed,
        num_unreadable=num_unreadable,
    )
    facts = {**facts, **real.facts()}
    # shares of samples that can be built, if OR-Tools is installed
    is_large = any(diagram.num_rooms > RPLAN_VOCAB_CONFIG.n_max for diagram in real.reference)
    usual = NUM_LARGE_VERDICTS if is_large else NUM_VERDICTS
    asked = usual if request.num_solver_checks is None else int(request.num_solver_checks)
    if "transitive" not in scores.per_seed:
        asked = 0  # relations without direction have no contradictions
    plans = score_plans(sets, real.reference, asked)
    if plans is None and asked:
        needed = install_command("plans")
        logger.info("the share of samples that can be built is not measured without %s", needed)
    return DiagramEvaluation(facts, real, sets, scores, model, plans)
