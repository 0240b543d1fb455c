"""Answers of the studio with floor plans, and with diagrams of a brief, found by processes."""

from __future__ import annotations

import logging
import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

import torch

from floor_plans.briefs.making import candidate_diagrams, no_plan_reason, possible_jobs, rules_of
from floor_plans.diagrams.partial import PartialDiagram
from floor_plans.diagrams.pictures.sheet import svg_of
from floor_plans.drawings.pictures.plan_pictures import plot_plan
from floor_plans.solver.realised import Job, rank_key, ranked_variants
from floor_plans.solver.realising import realise
from floor_plans.solver.requests import PlanRequest
from floor_plans.studio.answering import NO_DIRECTIONS, answer_brief, check_brief, diagrams_as_json
from floor_plans.studio.jobs import Report
from floor_plans.studio.sampling import DiagramModel
from floor_plans.studio.workers import Workers

logger = logging.getLogger(__name__)

A = TypeVar("A")
T = TypeVar("T")


@dataclass(frozen=True)
class PlanOrder:
    """Plans to find: ``num`` of one ``job``, or the best ``num`` from sampled diagrams.

    ``candidates``: diagrams to sample; ``brief``, ``num_rooms``: requirements on them.
    ``habitable``: keep only plans that break none of the request's rules.
    """

    request: PlanRequest
    num: int = 3
    candidates: int | None = None
    job: Job | None = None
    brief: Mapping[str, Any] | None = None
    num_rooms: int | None = None
    habitable: bool = False


@dataclass(frozen=True)
class FoundPlans:
    """Plans of a job, best first, as pairs of a sort key and JSON; or the reason for having
    none."""

    plans: tuple[tuple[tuple[float, ...], dict[str, Any]], ...]
    reason: str


@dataclass(frozen=True)
class BriefAsk:
    """Request for diagrams that meet a brief, or for such completions of ``given``.

    ``model``: as ``pickled_model`` returns it.
    """

    model: bytes | DiagramModel
    brief: Mapping[str, Any]
    num: int
    seed: int
    given: PartialDiagram | None
    positions: bool


def pickled_model(model: DiagramModel) -> bytes | DiagramModel:
    """Pickle a model for other processes, each of which reads it once.

    A model that cannot be pickled is returned as it stands, and sampling stays in this process.
    """
    try:
        return pickle.dumps(model)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        logger.warning("briefs are answered without processes of their own: %s", error)
        return model


@lru_cache(maxsize=1)
def _read(model: bytes) -> DiagramModel:
    torch.set_num_threads(1)  # the processes share the cores
    found: DiagramModel = pickle.loads(model)
    return found


def _model_of(model: bytes | DiagramModel) -> DiagramModel:
    return model if isinstance(model, DiagramModel) else _read(model)


def ready(model: bytes | DiagramModel) -> bool:
    """Load the model in a process; True when done."""
    return _model_of(model).device is not None


def sampled(
    workers: Workers, function: Callable[[A], T], ask: A, model: Any, stop: Callable[[], bool]
) -> T:
    """Call ``function(ask)``, which samples, in a process if the model is pickled, else here."""
    return function(ask) if isinstance(model, DiagramModel) else workers.run(function, ask, stop)


def brief_answer(ask: BriefAsk) -> dict[str, Any]:
    """Sample diagrams for a brief, as JSON; ``ValueError`` if it is wrong or cannot be met."""
    start, model = time.perf_counter(), _model_of(ask.model)
    found = answer_brief(model, ask.brief, ask.num, ask.seed, ask.given)
    diagrams = diagrams_as_json(found, positions=ask.positions)
    return {"diagrams": diagrams, "seconds": round(time.perf_counter() - start, 3)}


def found_of(job: Job) -> FoundPlans:
    """Find the plans of a job, with pictures and scores; runs in a process."""
    found, scores = ranked_variants(realise(job))
    why, instead = (
        found.explanation.sentences(found.names),
        found.explanation.to_json(found.names).get("instead"),
    )
    # each plan with its sort key and its JSON
    plans = zip(found.plans, found.shortfalls, scores, strict=True)
    return FoundPlans(
        tuple(
            (
                rank_key(shortfalls, score),
                {
                    "plan": plan.to_json(),
                    "svg": svg_of(plot_plan(plan)),
                    "target_areas": [round(area, 2) for area in found.areas],
                    "scores": score.to_json(),
                    "rules": score.kept,
                    "broken": list(rules_of(shortfalls)),
                    "given_up": [each.sentence() for each in shortfalls],
                    "why": why,
                    "instead": instead,
                },
            )
            for plan, shortfalls, score in plans
        ),
        found.reason,
    )


def plans_of(
    model: bytes | DiagramModel, workers: Workers, order: PlanOrder, report: Report
) -> dict[str, Any]:
    """Find plans, best first, as JSON with pictures and scores.

    ``report`` gets the number of finished diagrams, and every plan. Raises ``ValueError`` for an
    order that is wrong or cannot be met, ``Cancelled`` or ``Stopped`` for a cancelled one.
    """
    # plans of one diagram
    if order.job is not None:
        report(0, 1)
        found = workers.run(found_of, replace(order.job, variants=order.num), report.is_cancelled)
        jobs, every, reason = [order.job], list(found.plans), found.reason
    else:
        jobs = sampled(workers, _jobs_of, (model, order), model, report.is_cancelled)
        every, reason = list(_find_all(workers, jobs, report, order.habitable)), ""
    # the best of all plans
    kept = [each for each in every if not (order.habitable and each[1]["broken"])]
    best = [shown for _, shown in sorted(kept, key=lambda each: each[0])[: order.num]]
    if not best and not reason:
        reason = no_plan_reason(len(jobs), [shown["broken"] for _, shown in every])
    return {"plans": best, "num_diagrams": len(jobs), "reason": reason}


def _jobs_of(ask: tuple[bytes | DiagramModel, PlanOrder]) -> list[Job]:
    """Sample diagrams of a model, and build the job of each."""
    model, order = _model_of(ask[0]), ask[1]
    if not model.words.has_directions:
        raise ValueError(NO_DIRECTIONS.format("the model's diagrams say"))
    # refuse a brief that cannot be met before sampling
    if order.brief is not None:
        checked = check_brief(order.brief, model.vocab.n_max, model.words)
        if not checked["ok"]:
            raise ValueError(checked["verdict"])
    diagrams = candidate_diagrams(
        model.algorithm,
        order.request.seed,
        num=order.num,
        candidates=order.candidates,
        brief=order.brief,
        num_rooms=order.num_rooms,
    )
    return possible_jobs(order.request, diagrams)[0]


def _find_all(
    workers: Workers, jobs: Sequence[Job], report: Report, habitable: bool
) -> Iterator[tuple[tuple[float, ...], dict[str, Any]]]:
    """Yield the plans of all jobs, as many at once as there are processes.

    ``report`` gets all plans, or, if ``habitable``, those that break no rule.
    """
    report(0, len(jobs))
    # threads that wait for the processes
    with ThreadPoolExecutor(workers.num) as threads:
        tasks = [threads.submit(workers.run, found_of, job, report.is_cancelled) for job in jobs]
        for number, task in enumerate(as_completed(tasks), start=1):
            plans = task.result().plans
            for _, shown in plans:
                if not (habitable and shown["broken"]):
                    report.add_plan(shown)
            report(number, len(jobs))
            yield from plans
