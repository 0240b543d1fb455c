"""Plans from a plot and a wish, as the studio answers it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from typing import Any

from discrete_diffusion.domains.bubble_diagrams.pictures.sheet import svg_of
from discrete_diffusion.domains.bubble_diagrams.plans.making import wished_diagrams
from discrete_diffusion.domains.bubble_diagrams.plans.pictures.plan_pictures import plot_plan
from discrete_diffusion.domains.bubble_diagrams.plans.ranking import place_of, ranked
from discrete_diffusion.domains.bubble_diagrams.plans.realising import Job, realise
from discrete_diffusion.domains.bubble_diagrams.plans.requests import PlanRequest
from discrete_diffusion.domains.bubble_diagrams.plans.rules.judging import judge
from discrete_diffusion.domains.bubble_diagrams.plans.rules.rule_file import read_rules
from discrete_diffusion.domains.bubble_diagrams.studio.answering import NO_DIRECTIONS, check_brief
from discrete_diffusion.domains.bubble_diagrams.studio.jobs import Report
from discrete_diffusion.domains.bubble_diagrams.studio.sampling import DiagramModel
from discrete_diffusion.domains.bubble_diagrams.studio.workers import Workers


@dataclass(frozen=True)
class Wish:
    """Plans to look for: ``num`` of one ``job``, or the best ``num`` of ``candidates`` diagrams
    that a model samples, which meet the ``brief`` and have ``num_rooms``, if these are given."""

    request: PlanRequest
    num: int = 3
    candidates: int | None = None
    job: Job | None = None
    brief: Mapping[str, Any] | None = None
    num_rooms: int | None = None


@dataclass(frozen=True)
class Found:
    """Plans of a job, best first, as JSON, with what sorts them among those of other jobs; or the
    reason why there is none."""

    plans: tuple[tuple[tuple[float, ...], dict[str, Any]], ...]
    reason: str


def ready(_: None) -> bool:
    """True in a process that has loaded all that it needs."""
    return True


def found_of(job: Job) -> Found:
    """Plans of a job with pictures and scores; what the processes do."""
    found, scores = ranked(realise(job))
    plans = zip(found.plans, found.shortfalls, scores, strict=True)
    return Found(
        tuple(
            (
                place_of(shortfalls, score),
                {
                    "plan": plan.to_json(),
                    "svg": svg_of(plot_plan(plan)),
                    "target_areas": [round(area, 2) for area in found.areas],
                    "scores": score.to_json(),
                    "rules": judge(plan, read_rules("default")).kept,
                    "given_up": [each.sentence() for each in shortfalls],
                },
            )
            for plan, shortfalls, score in plans
        ),
        found.reason,
    )


def plans_of(model: DiagramModel, workers: Workers, wish: Wish, report: Report) -> dict[str, Any]:
    """The plans, best first, as JSON with pictures and scores.

    ``report``: is told how many diagrams are done, and every plan. Raises ``ValueError`` for a wish
    that is wrong or cannot be met, ``Cancelled`` or ``Stopped`` if nobody wants it any more.
    """
    if not model.words.has_directions:
        raise ValueError(NO_DIRECTIONS.format("the model's diagrams say"))
    if wish.job is not None:
        report(0, 1)
        found = workers.run(found_of, replace(wish.job, variants=wish.num), report.is_cancelled)
        plans = [shown for _, shown in found.plans]
        return {"plans": plans, "num_diagrams": 1, "reason": found.reason}
    if wish.brief is not None:
        checked = check_brief(wish.brief, model.vocab.n_max, model.words)
        if not checked["ok"]:
            raise ValueError(checked["verdict"])
    diagrams = wished_diagrams(
        model.algorithm,
        wish.request.seed,
        num=wish.num,
        candidates=wish.candidates,
        brief=wish.brief,
        num_rooms=wish.num_rooms,
    )
    jobs = wish.request.jobs(diagrams)
    every = list(_found(workers, jobs, report))
    best = [shown for _, shown in sorted(every, key=lambda each: each[0])[: wish.num]]
    reason = "" if best else f"none of {len(jobs)} different diagrams has a plan"
    return {"plans": best, "num_diagrams": len(jobs), "reason": reason}


def _found(
    workers: Workers, jobs: Sequence[Job], report: Report
) -> Iterator[tuple[tuple[float, ...], dict[str, Any]]]:
    """What is found of all jobs, as many at once as there are processes."""
    report(0, len(jobs))
    with ThreadPoolExecutor(workers.num) as threads:
        tasks = [threads.submit(workers.run, found_of, job, report.is_cancelled) for job in jobs]
        for number, task in enumerate(as_completed(tasks), start=1):
            plans = task.result().plans
            for _, shown in plans:
                report.found(shown)
            report(number, len(jobs))
            yield from plans
