"""Floor plans from a wish: diagrams of a model, a plan of each, and the best of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from discrete_diffusion.config import counted
from floor_plans.briefs.reading import brief_of, read_brief
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.plans.outline import FREE, Outline
from floor_plans.rules.rule_set import read_rules
from floor_plans.solver.ranking import Scores, place_of, ranked
from floor_plans.solver.realising import Job, Realised, realise_all
from floor_plans.solver.requests import PlanRequest
from floor_plans.solver.shortfalls import Shortfall


@dataclass(frozen=True)
class MadePlan:
    """Plan of a sampled diagram.

    Args:
        job: the diagram and what was requested of its plan.
        found: the plan, alone.
        scores: of the plan.
    """

    job: Job
    found: Realised
    scores: Scores

    @property
    def plan(self) -> FloorPlan:
        """Rooms, doors and outline in metres; ``to_json()`` is a line of plans.jsonl."""
        return self.found.plans[0]

    @property
    def given_up(self) -> tuple[Shortfall, ...]:
        """Demands and rules that the plan does not meet."""
        return self.found.shortfalls[0]

    @property
    def broken(self) -> tuple[str, ...]:
        """Rules that the plan breaks, of those that it was made for."""
        return rules_of(self.given_up)


def make_plans(
    model: Any,
    request: PlanRequest | None = None,
    *,
    num: int = 6,
    candidates: int | None = None,
    brief: Mapping[str, Any] | str | None = None,
    num_rooms: int | None = None,
    habitable: bool = False,
    threads: int = 1,
) -> list[MadePlan]:
    """Make floor plans: sample diagrams, find a plan of each, keep the best.

    Args:
        model: of diagrams whose relations are directions, as ``load`` gives it.
        request: areas, outline, rules and seed; by default typical areas, any outline, the rules
            ``default``, and an added hall where they need one.
        num: plans to keep at most.
        candidates: diagrams to sample; None: twice ``num``. A diagram that comes twice counts once.
        brief: what every diagram must have: a file, or what it would hold. The solver is given its
            ``area``, ``outline``, ``front_door`` and ``north``.
        num_rooms: of every diagram; None: as in the training data.
        habitable: only plans that break none of the rules; there may be fewer than ``num``.
        threads: that share the search for plans.

    Returns:
        The plans, best first: those that give up least, then those that break fewest rules, then
        by the mean of their scores.

    Raises:
        ValueError: a number is out of its range, the brief is wrong or cannot be met, no diagram
            fits the request, or OR-Tools is not installed; ``habitable`` without rules.
        ImportError: shapely is not installed.
    """
    request = PlanRequest(rules=read_rules("default")) if request is None else request
    request = with_brief(request, brief)
    check_habitable(habitable, request)
    diagrams = wished_diagrams(
        model, request.seed, num=num, candidates=candidates, brief=brief, num_rooms=num_rooms
    )
    jobs, _ = possible_jobs(request, diagrams)
    return best_plans(made_plans(jobs, realise_all(jobs, threads=threads)), num, habitable)


def check_habitable(habitable: bool, request: PlanRequest) -> None:
    """``ValueError`` for ``habitable`` plans of a request without rules."""
    if habitable and not request.rules.rules:
        raise ValueError(
            "habitable=true without rules demands nothing of a plan; take rules=default, or leave "
            "habitable out"
        )


def with_brief(request: PlanRequest, brief: Mapping[str, Any] | str | None) -> PlanRequest:
    """The request with the area, outline, front door and north that a brief states.

    Raises ``ValueError`` for a brief that is wrong, and where both state one of these.
    """
    if brief is None:
        return request
    facts = (brief_of(brief) if isinstance(brief, Mapping) else read_brief(brief)).plan_facts
    if facts.area is not None:
        if request.total_area is not None:
            raise ValueError(
                f"total_area={request.total_area:g}: the brief states an area of {facts.area:g} "
                "m2; leave one out"
            )
        request = replace(request, total_area=facts.area)
    if facts.outline is not None:
        if request.outline != FREE:
            raise ValueError("boundary or ratio: the brief states an outline; leave one out")
        request = replace(request, outline=Outline(boundary=facts.outline))
    for name in ("front_door", "north"):
        stated = getattr(facts, name)
        if stated is None:
            continue
        if getattr(request, name) is not None:
            raise ValueError(f"{name}: the brief states it; leave one out")
        request = replace(request, **{name: stated})
    return request


def wished_diagrams(
    model: Any,
    seed: int,
    *,
    num: int,
    candidates: int | None = None,
    brief: Mapping[str, Any] | str | None = None,
    num_rooms: int | None = None,
) -> list[BubbleDiagram]:
    """Different diagrams that a model samples; the arguments of ``make_plans``."""
    candidates = 2 * num if candidates is None else candidates
    if num < 1:
        raise ValueError(f"num={num}: expected at least 1")
    if candidates < num:
        raise ValueError(f"candidates={candidates}: expected at least num={num}")
    asked = {"brief": brief, "num_rooms": num_rooms}
    chosen = {name: value for name, value in asked.items() if value is not None}
    drawn = model.sample(candidates, seed=seed, **chosen)
    return list({(each.rooms, each.relations): each for each in drawn}.values())


def possible_jobs(
    request: PlanRequest, diagrams: Sequence[BubbleDiagram]
) -> tuple[list[Job], list[DiagramError]]:
    """Plans to find of the diagrams whose rooms the request has space for, and why others are left
    out; ``ValueError`` if none remains."""
    jobs: list[Job] = []
    left_out: list[DiagramError] = []
    for number, diagram in enumerate(diagrams, start=1):
        try:
            jobs.append(request.job(number, diagram))
        except DiagramError as error:
            left_out.append(error)
    if not jobs:
        raise ValueError(
            f"no plan is possible of {counted(len(left_out), 'different diagram')}; of the first: "
            f"{left_out[0]}"
        )
    return jobs, left_out


def made_plans(jobs: Sequence[Job], plans: Iterable[Realised]) -> Iterator[MadePlan]:
    """Those of ``plans``, what ``realise`` found of each job, that are there, with scores."""
    for job, any_order in zip(jobs, plans, strict=True):
        found, scores = ranked(any_order)
        if found.plans:
            yield MadePlan(job, found, scores[0])


def best_plans(made: Iterable[MadePlan], num: int, habitable: bool = False) -> list[MadePlan]:
    """The best ``num``, the best first; ``habitable``: of those that break no rule."""
    some = [each for each in made if not (habitable and each.broken)]
    return sorted(some, key=lambda each: place_of(each.given_up, each.scores))[:num]


def rules_of(given_up: Iterable[Shortfall]) -> tuple[str, ...]:
    """The rules among what is given up, once each."""
    return tuple(dict.fromkeys(each.rule for each in given_up if each.rule))


def none_found(num_diagrams: int, broken: Sequence[Sequence[str]]) -> str:
    """Why nothing is left: no diagram has a plan, or none that breaks no rule. ``broken``: the
    rules that each plan breaks."""
    if not broken:
        return f"no plan was found of {counted(num_diagrams, 'different diagram')}"
    counts = Counter(rule for rules in broken for rule in rules)
    shown = ", ".join(f"{rule} by {num}" for rule, num in counts.most_common())
    return f"{counted(len(broken), 'plan')} found, and each breaks a rule: {shown}"
