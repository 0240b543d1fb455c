"""Plans from a plot and a wish, as the studio answers it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram
from discrete_diffusion.domains.bubble_diagrams.pictures.sheet import svg_of
from discrete_diffusion.domains.bubble_diagrams.plans.making import (
    MadePlan,
    best_plans,
    made_plans,
    wished_diagrams,
    with_brief,
)
from discrete_diffusion.domains.bubble_diagrams.plans.pictures.plan_pictures import plot_plan
from discrete_diffusion.domains.bubble_diagrams.plans.ranking import ranked
from discrete_diffusion.domains.bubble_diagrams.plans.realising import Job, Realised, realise
from discrete_diffusion.domains.bubble_diagrams.plans.requests import PlanRequest
from discrete_diffusion.domains.bubble_diagrams.studio.answering import check_brief
from discrete_diffusion.domains.bubble_diagrams.studio.jobs import Report
from discrete_diffusion.domains.bubble_diagrams.studio.sampling import DiagramModel


@dataclass(frozen=True)
class Wish:
    """Plans to look for: ``num`` of one ``diagram``, or the best ``num`` of ``candidates``
    diagrams that a model samples, which meet the ``brief`` and have ``num_rooms``, if these are
    given."""

    request: PlanRequest
    num: int = 3
    candidates: int | None = None
    diagram: BubbleDiagram | None = None
    brief: Mapping[str, Any] | None = None
    num_rooms: int | None = None


def plans_of(model: DiagramModel, wish: Wish, report: Report) -> dict[str, Any]:
    """The plans, best first, as JSON with pictures and scores.

    ``report``: is told how many diagrams are done. Raises ``ValueError`` for a wish that is wrong
    or cannot be met.
    """
    if not model.words.has_directions:
        raise ValueError(
            "the model's diagrams say which rooms meet, not how they lie to each other, which is "
            "what plans are found from"
        )
    if wish.diagram is not None:
        report(0, 1)
        (job,) = replace(wish.request, variants=wish.num).jobs([wish.diagram])
        found, scores = ranked(realise(job))
        made = [MadePlan(job, one, score) for one, score in zip(_each(found), scores, strict=True)]
        return {"plans": [_shown(each) for each in made], "num_diagrams": 1, "reason": found.reason}
    if wish.brief is not None:
        checked = check_brief(wish.brief, model.vocab.n_max, model.words)
        if not checked["ok"]:
            raise ValueError(checked["verdict"])
    request = with_brief(wish.request, wish.brief)
    diagrams = wished_diagrams(
        model.algorithm,
        request.seed,
        num=wish.num,
        candidates=wish.candidates,
        brief=wish.brief,
        num_rooms=wish.num_rooms,
    )
    jobs = request.jobs(diagrams)
    best = best_plans(made_plans(jobs, _realised(jobs, report)), wish.num)
    reason = "" if best else f"none of {len(jobs)} different diagrams has a plan"
    return {"plans": [_shown(each) for each in best], "num_diagrams": len(jobs), "reason": reason}


def _realised(jobs: Sequence[Job], report: Report) -> Iterator[Realised]:
    for number, job in enumerate(jobs):
        report(number, len(jobs))
        yield realise(job)


def _each(found: Realised) -> list[Realised]:
    """Each of the plans alone."""
    pairs = zip(found.plans, found.shortfalls, strict=True)
    return [replace(found, plans=(plan,), shortfalls=(words,)) for plan, words in pairs]


def _shown(made: MadePlan) -> dict[str, Any]:
    return {
        "plan": made.plan.to_json(),
        "svg": svg_of(plot_plan(made.plan)),
        "target_areas": [round(area, 2) for area in made.found.areas],
        "scores": made.scores.to_json(),
        "given_up": [each.sentence() for each in made.given_up],
    }
