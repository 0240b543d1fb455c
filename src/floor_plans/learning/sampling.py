"""``sample`` of a model of diagrams: ways to draw diagrams that have a plan, samples, their plans.

``realise=true`` makes plans for the rules ``default``, with areas as in the training data;
``livable`` samples keep the plans that made them acceptable.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from discrete_diffusion import evaluation
from discrete_diffusion.categorical import effective_number
from discrete_diffusion.config import counted
from discrete_diffusion.evaluation import SampleRequest, Samples, SavedSamples, TrainedModel
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.runtime import Shard, place_of_line
from discrete_diffusion.sampling import Model, Narrowing, exactness_facts
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.diagrams.files.graph_formats import lines_of, write_diagrams
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.metrics.diagrams import structure_metrics
from floor_plans.diagrams.partial import PartialDiagram
from floor_plans.diagrams.pictures.diagram_pictures import MAX_DRAWN, plot_grid
from floor_plans.diagrams.pictures.trajectory import save_trajectory
from floor_plans.diagrams.tokens import decode
from floor_plans.diagrams.vocabulary import DIRECTIONS, vocabulary_named
from floor_plans.drawings.drawn_plan import check_installed
from floor_plans.drawings.realised_files import PlanFiles
from floor_plans.learning.build import training_areas
from floor_plans.plans import buildable
from floor_plans.plans.box_model import BoxRule, cp_sat
from floor_plans.plans.buildable import DrawnDiagram, LookAhead, NoCircles, SolverWork
from floor_plans.plans.verdict import map_in_threads
from floor_plans.rules.rule_set import RuleSet, read_rules, shipped_sets
from floor_plans.solver.habitable import Habitable, keep_habitable
from floor_plans.solver.realising import realise_all
from floor_plans.solver.requests import Diagrams, PlanRequest
from floor_plans.solver.spec import RoomAreas

logger = logging.getLogger(__name__)

REJECTING = ("rejection", "narrowing")  # ways that reject samples without a plan and sample again

_ROWS_AHEAD = 32  # batch size of the look-ahead, about half a minute's work between progress

PICTURE = "floor_plans.svg"
NUM_SAMPLES = 64  # default of ``num_samples``


@dataclass
class Way:
    """Way of sampling diagrams that have a floor plan: "" (none is required), "rejection",
    "narrowing" or "lookahead". ``rules``: those that the plan of every sample has to keep, None
    for any plan."""

    name: str
    vocab: VocabConfig
    rules: RuleSet | None = None
    _work: list[SolverWork] = field(default_factory=list)

    @classmethod
    def requested(cls, request: SampleRequest, vocab: VocabConfig) -> Way:
        """Build the way requested by ``buildable`` and ``livable``. Raises ``ValueError`` for
        options that do not go together, or without OR-Tools."""
        value = request.buildable
        name = "rejection" if value is True else str(value or "")
        shown = f"buildable={str(value).lower()}"
        if rules := requested_rules(request.livable):
            if name == "lookahead":
                raise ValueError(
                    f"buildable=lookahead does not go with livable={rules.name}, which rejects "
                    "samples; take buildable=narrowing, or leave buildable out"
                )
            name, shown = name or "rejection", f"livable={rules.name}"
        # options that do not go together
        if name not in REJECTING and request.max_tries is not None:
            raise ValueError(
                f"max_tries={request.max_tries} is for buildable=true or narrowing, and livable, "
                "which draw again; leave it out"
            )
        for key in ("given", "trajectory") if name in REJECTING else ():
            if request[key]:
                raise ValueError(
                    f"{key}={request[key]} does not go with {shown}, which draws samples that it "
                    "rejects; take buildable=lookahead"
                )
        if name:
            cp_sat()
        return cls(name, vocab, rules)

    @property
    def weighs(self) -> bool:
        """True if samples have weights."""
        return self.name in ("narrowing", "lookahead")

    def narrowing(self) -> Narrowing | None:
        """Narrowing of a batch of samples; None if this way has none."""
        if self.name == "narrowing":
            return NoCircles(self.vocab)
        if self.name != "lookahead":
            return None
        self._work.append(SolverWork())
        return LookAhead(self.vocab, threads=torch.get_num_threads(), work=self._work[-1])

    def apply_to(self, model: Model) -> Model:
        """Return the model with the sampling options of this way."""
        usual = _ROWS_AHEAD if self.name == "lookahead" else None
        return replace(model, narrowing=self.narrowing, batch_size=model.batch_size or usual)

    def work(self, shard: Shard) -> SolverWork:
        """Work of the look-ahead, summed over processes."""
        return SolverWork.sum_of(shard.exchange(SolverWork.sum_of(self._work)))

    def weighted(
        self, diagrams: Sequence[BubbleDiagram], log_weights: Tensor
    ) -> list[BubbleDiagram]:
        """Add their ``log_weight`` to the diagrams, if samples have weights."""
        if not self.weighs:
            return [*diagrams]
        return [
            replace(each, metadata={**each.metadata, "log_weight": w if isfinite(w) else None})
            for each, w in zip(diagrams, log_weights.tolist(), strict=True)
        ]

    def facts(self, log_weights: Tensor, work: SolverWork) -> dict[str, Any]:
        """Facts for ``metrics.json`` on the weights and on the look-ahead."""
        if not self.weighs:
            return {}
        effective = effective_number(log_weights)
        found = {"mean_weight": float(log_weights.exp().mean()), "effective_samples": effective}
        return found | (vars(work) if self.name == "lookahead" else {})

    def summary(self, facts: dict[str, Any]) -> str:
        """Sentence on the look-ahead, for the log."""
        return (
            f"looking ahead refused {facts['num_refused']:,} of {facts['num_asked']:,} relations "
            f"({facts['num_undecided']:,} undecided) in {facts['solver_seconds']:.1f} CPU-seconds "
            f"of the solver; about {100 * facts['mean_weight']:.1f} % of what the model draws has "
            f"a plan; weighted, these are worth {facts['effective_samples']:.1f} samples"
        )


def requested_rules(habitable: object) -> RuleSet | None:
    """Rules named by ``livable``, ``default`` if it is true; None if it is false. Raises
    ``ValueError`` for another value, an empty set of rules and without the packages that find
    plans, and ``FileNotFoundError``."""
    if habitable is None or habitable is False:
        return None
    habitable = "default" if habitable is True else habitable
    if not isinstance(habitable, str | os.PathLike):
        raise ValueError(
            f"livable={habitable}: expected false, true, or rules: {', '.join(shipped_sets())}, "
            "or a YAML file"
        )
    rules = read_rules(habitable, "livable")
    if not rules.rules:
        raise ValueError(f"livable={habitable} requires nothing of a plan; take buildable=true")
    cp_sat()
    check_installed()
    return rules


def check_partial(partial: PartialDiagram, where: str) -> None:
    """Raise ``ValueError`` if no floor plan has the known relations."""
    known = {(i, j): code for i, j, code in partial.relations}
    how: dict[str, Any] = {"rule": BoxRule(), "buildable": True, "effort": buildable.EFFORT}
    answer, _ = buildable.boxes_of_known(partial.num_rooms, known, **how)
    if not answer:
        found = "has these relations" if answer is False else "was found that has these relations"
        raise ValueError(f"{where}: no floor plan {found}; leave buildable out to complete it")


def check_realise(request: SampleRequest) -> None:
    """Raise ``ValueError`` if floor plans are requested and a package for them is missing."""
    if request.realise:
        cp_sat()
        check_installed()


def check_given(given: object, partials: Mapping[int, PartialDiagram]) -> None:
    """Raise ``ValueError`` naming the first line whose "areas" and "boundary", by which plans are
    later requested, no plan can have."""
    request = PlanRequest(areas=RoomAreas())
    # building a job checks the values; the job itself is not used
    for line, given_plan in partials.items():
        rooms = tuple(0 if room is None else room for room in given_plan.rooms)
        try:
            request.job(line, BubbleDiagram(rooms, (), metadata=given_plan.metadata))
        except DiagramError as error:
            place = place_of_line(given, line)
            raise ValueError(f"{place}: {error}; realise=true reads it") from error


def warn_of_earlier_plans(folder: Path) -> None:
    """Warn if the folder holds plans of earlier samples."""
    names = PlanFiles(folder, picture=PICTURE).names
    if left := [name for name in names if (folder / name).exists()]:
        logger.warning(
            "%s: %s are left as they were, of earlier samples; realise=true replaces them",
            *(folder, ", ".join(left)),
        )


def realise_samples(
    request: SampleRequest,
    trained: TrainedModel,
    diagrams: Sequence[BubbleDiagram],
    areas: Callable[[], RoomAreas],
    habitable: Habitable | None = None,
) -> tuple[dict[str, Any], str]:
    """Write a dimensioned plan of every sample into ``request.out``, found for target ``areas``
    unless samples are ``livable`` and have plans. Returns numbers on the plans, and a sentence. A
    stopped run keeps the plans found so far."""
    folder = request.out
    if trained.stop_asked():  # while samples were taken
        warn_of_earlier_plans(folder)
        found = f"stopped before plans; plans realise {folder / 'samples.jsonl'} finds them"
        return {"num_diagrams": 0, "num_not_tried": len(diagrams)}, found
    files, threads = PlanFiles(folder, picture=PICTURE), torch.get_num_threads()
    if habitable is None:
        plans = PlanRequest(areas=areas(), seed=request.seed, rules=read_rules("default"))
        jobs = plans.jobs(diagrams)
        planned = realise_all(jobs, threads=threads)
    else:
        jobs, doing = PlanRequest(rules=habitable.rules).jobs(diagrams), "finding plans"
        planned = map_in_threads(habitable.plan_of, diagrams, threads=threads, doing=doing)
    with closing(planned):  # a search that is given up leaves no threads behind
        return files.write_found(jobs, planned, stop_asked=trained.stop_asked)


def sample_diagrams(request: SampleRequest, trained: TrainedModel, vocab: VocabConfig) -> Samples:
    """Sample ``num_samples`` diagrams, of ``num_rooms`` rooms if given; write ``samples.jsonl``,
    ``samples.png``, and with ``trajectory`` intermediate states."""
    # check the request before sampling
    check_directions(request, trained, vocab)
    size = evaluation.requested_sizes(trained, vocab.n_max, num_rooms=request.num_rooms)
    num = NUM_SAMPLES if request.num_samples is None else request.num_samples
    way = Way.requested(request, vocab)
    check_realise(request)
    if way.name in REJECTING:
        return _sample_rejecting(request, trained, way, num, size)

    def diagrams_of(drawn: Any, tokens: Tensor) -> list[BubbleDiagram]:
        return way.weighted(decode(tokens, vocab), drawn.log_weights)

    # sample, writing finished batches on the way
    with trained.sharing() as shard:
        model = trained.model(shard, lambda _, output: lines_of(diagrams_of(output, output.x0)))
        drawn = evaluation.sample_fresh(
            trained,
            way.apply_to(model),
            num,
            entropy=(request.seed,),
            size=size,
            trajectories=request.trajectory,
        )
        weights = way.facts(drawn.log_weights, way.work(shard))
    diagrams = Diagrams(diagrams_of(drawn, drawn.tokens))
    if weights:
        logger.info("%s", way.summary(weights))

    why = exactness_facts(trained.approximations(log_weights=drawn.log_weights))
    what, facts = counted(len(diagrams), "sample"), {**drawn.facts, **why, **weights}
    return unwritten(request, trained, what, diagrams, facts, trajectory=drawn.trajectory)


def _sample_rejecting(
    request: SampleRequest,
    trained: TrainedModel,
    way: Way,
    num: int,
    size: int | Sequence[int] | None,
) -> Samples:
    """Sample until ``num`` diagrams have a floor plan, which keeps the rules if there are any.
    Without narrowing, the first round gives the same samples as sampling without rejection."""
    start, vocab = time.perf_counter(), way.vocab
    with trained.sharing() as shard:
        model = way.apply_to(trained.model(shard))
        habitable = None if way.rules is None else Habitable(way.rules, shard)

        def draw(turn: int, asked: int) -> list[DrawnDiagram]:
            entropy = (request.seed, turn) if turn else (request.seed,)
            drawn = evaluation.sample_fresh(trained, model, asked, entropy=entropy, size=size)
            found = way.weighted(decode(drawn.tokens, vocab), drawn.log_weights)
            numbers = (drawn.nfe.tolist(), drawn.log_weights.tolist())
            return [DrawnDiagram(*each) for each in zip(found, *numbers, strict=True)]

        # sample in rounds until enough are kept
        how: dict[str, Any] = {"max_tries": request.max_tries or buildable.TRIES}
        how["on_kept"] = partial(append_kept, trained, shard)
        if habitable is None:
            kept = buildable.keep_buildable(draw, num, shard=shard, **how)
        else:
            kept = keep_habitable(draw, num, habitable, **how)
    diagrams = Diagrams(each.diagram for each in kept.samples)
    # facts of the sampling
    log_weights = torch.tensor([each.log_weight for each in kept.samples], dtype=torch.float64)
    facts = {
        "num_samples": len(diagrams),
        "seconds": time.perf_counter() - start,
        **({} if way.rules is None else {"habitable": way.rules.name}),
        **kept.facts,
        **exactness_facts(trained.approximations(log_weights=log_weights)),
        **way.facts(log_weights, SolverWork()),
    }
    what = counted(len(diagrams), f"{'livable' if habitable else 'buildable'} sample")
    return unwritten(request, trained, what, diagrams, facts, habitable=habitable)


def append_kept(trained: TrainedModel, shard: Shard, kept: Sequence[DrawnDiagram]) -> None:
    """Write the diagrams that a round kept, unless several processes sample."""
    if trained.append is not None and shard.world_size == 1:
        trained.append(lines_of(each.diagram for each in kept))


def check_directions(request: SampleRequest, trained: TrainedModel, vocab: VocabConfig) -> None:
    """Raise ``ValueError`` if a request needs directions that relations of the model lack."""
    for key in ("buildable", "livable", "realise"):
        if request[key] and not vocab.edge_directions:
            raise ValueError(
                f"{key}={request[key]}: {trained.path} was trained on relations without "
                f"directions, from which no floor plan can be found; leave {key} out"
            )


def unwritten(
    request: SampleRequest,
    trained: TrainedModel,
    what: str,
    diagrams: list[BubbleDiagram],
    facts: dict[str, Any],
    *,
    habitable: Habitable | None = None,
    trajectory: Tensor | None = None,
    plot: Callable[[Path], object] | None = None,
) -> Samples:
    """Return samples to write, with a picture that ``plot`` makes (by default of the first), their
    ``trajectory`` and, if requested, their floor plans: those that made samples ``habitable``, else
    plans are searched. ``what``: text for the log."""
    folder, data = request.out, trained.data_config

    def write() -> SavedSamples:
        folder.mkdir(parents=True, exist_ok=True)
        write_diagrams(folder / "samples.jsonl", diagrams)
        (plot or partial(plot_grid, diagrams[:MAX_DRAWN]))(folder / request.picture)
        vocab: VocabConfig = trained.domain.vocabulary(data)  # type: ignore[assignment]
        save_trajectory(trajectory, folder, vocab)
        # shares of the samples in the log
        words = vocabulary_named(data.get("relations", DIRECTIONS.name))
        numbers = structure_metrics(DiagramSet.of(diagrams, words))
        names = ("valid", "transitive") if words.has_directions else ("connected",)
        shares = ", ".join(f"{name} {100 * numbers[name]:.1f} %" for name in names)
        files = f"{folder / 'samples.jsonl'}, {folder / request.picture}"
        line, plans = f"{what} in {facts['seconds']:.1f} s: {shares}; {files}", {}
        if request.realise:
            areas = partial(training_areas, data)
            found, said = realise_samples(request, trained, diagrams, areas, habitable)
            plans, line = {"plans": found}, f"{line}\n{said}"
        else:
            warn_of_earlier_plans(folder)
        return SavedSamples({**facts, **plans, **numbers}, line)

    return Samples(diagrams, write)
