"""``Habitable``: judge whether the solver finds a plan of a diagram that satisfies given rules."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from itertools import chain
from pathlib import Path

import torch

from discrete_diffusion.config import counted
from discrete_diffusion.runtime import Shard
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.plans import buildable
from floor_plans.plans.buildable import Accepted, DecidedOnce, Draw, Judge, OnKept, accept_samples
from floor_plans.plans.verdict import cache_verdicts, cached_answers, have_plans, map_in_threads
from floor_plans.rules.rule_set import RuleSet
from floor_plans.rules.rule_set import judge as judge_plan
from floor_plans.solver.realised import Job, Realised, shortfalls_of
from floor_plans.solver.realising import realise
from floor_plans.solver.requests import PlanRequest

logger = logging.getLogger(__name__)

NO_PLAN = "no plan"  # name that stands for a rule where no plan was found
LESS_STRICT = "rules that demand less, livable=FILE"  # remedy if too few samples are habitable
Broken = tuple[str, ...]  # names of broken rules, or ``NO_PLAN``; empty for a habitable diagram
_AT_ONCE = 16  # diagrams that are planned before the new_accepted ones are written
_SECONDS = 7  # mean CPU-seconds of the solver for a diagram; few take more than 30


class Habitable(DecidedOnce[Broken]):
    """Judge that returns the rules broken by a plan of each diagram; without any it is habitable.

    The plan is the result of ``realise`` in a free outline, with typical areas of a fixed seed, for
    the canonical numbering of rooms. A diagram judged habitable certainly is; another may have a
    plan that keeps all rules. A diagram that is not buildable has no plan.
    """

    def __init__(self, rules: RuleSet, shard: Shard | None = None) -> None:
        super().__init__(shard or Shard())
        self.rules = rules
        self._plans: dict[bytes, Realised] = {}

    def plan_of(self, diagram: BubbleDiagram) -> Realised:
        """Plan by which a diagram is judged, with the diagram's numbers of rooms; searched again if
        another process or an earlier call found it."""
        # plan the canonical diagram
        measured = DiagramSet.of([diagram])
        (key,), order = measured.canonical_keys.tolist(), measured.canonical_orders[0].tolist()
        job = self._job(diagram.relabelled(order))
        found = self._plans.get(key) or realise(job)
        # renumber rooms, relations and metadata as in the diagram
        place = [order.index(room) for room in range(diagram.num_rooms)]
        plans = []
        for plan in found.plans:
            added = range(diagram.num_rooms, plan.diagram.num_rooms)
            moved = plan.relabelled([*place, *added])
            metadata = {**diagram.metadata, **moved.diagram.metadata}
            plans.append(replace(moved, diagram=replace(moved.diagram, metadata=metadata)))
        # renumber areas and shortfalls; a plan that keeps the rules needs no explanation
        areas = tuple(found.areas[k] for k in place) if found.plans else ()
        shortfalls = tuple(shortfalls_of(plan, replace(job.spec, areas=areas)) for plan in plans)
        return replace(found, plans=tuple(plans), areas=areas, shortfalls=shortfalls)

    def _job(self, canonical: BubbleDiagram) -> Job:
        """Job of a canonical diagram: typical areas, a free outline."""
        job = PlanRequest(rules=self.rules).job(1, replace(canonical, metadata={}))
        return replace(job, proofs=False)

    def _decide(self, diagrams: list[BubbleDiagram]) -> list[Broken]:
        if not diagrams:
            return []
        measured, threads = DiagramSet.of(diagrams), torch.get_num_threads()
        keys, orders = measured.canonical_keys.tolist(), measured.canonical_orders
        asked = f"{_planner_version()}, {json.dumps(dict(self.rules.rules), sort_keys=True)}"
        answers = cached_answers(asked, keys)
        new = [k for k, key in enumerate(keys) if key not in answers]
        # a diagram that is not buildable has no plan
        verdicts = have_plans([diagrams[k] for k in new], effort=buildable.EFFORT, threads=threads)
        possible = []
        for k, answer in zip(new, verdicts, strict=True):
            if answer is False:
                answers[keys[k]] = NO_PLAN
            else:
                possible.append(k)
        # plan the others, and cache each answer at once
        own = [diagrams[k].relabelled(orders[k][: diagrams[k].num_rooms]) for k in possible]
        jobs = [self._job(each) for each in own]
        solved = map_in_threads(realise, jobs, threads=threads, doing="planning for the rules")
        for k, found in zip(possible, solved, strict=True):
            broken = _broken_rules(found, self.rules)
            answers[keys[k]] = ",".join(broken)
            cache_verdicts(asked, {keys[k]: answers[keys[k]]})
            if not broken:
                self._plans[keys[k]] = found
        return [tuple(answers[key].split(",")) if answers[key] else () for key in keys]


def _broken_rules(found: Realised, rules: RuleSet) -> Broken:
    """Rules broken by the best plan found."""
    if not found.plans:
        return (NO_PLAN,)
    kept = judge_plan(found.plans[0], rules).kept
    return tuple(name for name, is_kept in kept.items() if is_kept is False)


@cache
def _planner_version() -> str:
    """Version of shapely and hash of the source files that an answer depends on."""
    folders = [Path(__file__).parents[1] / part for part in ("plans", "rules", "solver")]
    files = [file for folder in folders for file in sorted(folder.glob("*.py"))]
    sources = b"".join(file.read_bytes() for file in files)
    return f"habitable, shapely {version('shapely')}, {hashlib.blake2b(sources).hexdigest()}"


def keep_habitable(
    draw: Draw,
    num: int,
    habitable: Habitable,
    *,
    max_tries: int = buildable.TRIES,
    on_kept: OnKept | None = None,
) -> Accepted:
    """Accept habitable samples, and count the rules that the plans of rejected samples break."""
    kept = new_accepted(num, habitable)
    judge = counting_judge(habitable, kept, lambda diagrams: [True] * len(diagrams))
    remedy = f"max_tries={max_tries}: raise it for more, or take {LESS_STRICT}"
    return accept_samples(draw, judge, kept, max_tries=max_tries, remedy=remedy, on_kept=on_kept)


def new_accepted(num: int, habitable: Habitable, and_: str = "") -> Accepted:
    """Return an empty ``Accepted`` for ``num`` habitable samples and log the expected cost.
    ``and_``: a further condition, as in "meet the brief and "."""
    name = habitable.rules.name
    threads = torch.get_num_threads()
    logger.info(
        "livable=%s: planning takes about %d CPU-seconds for each drawn sample, rejected ones "
        "too; of %s with %s at least about %.0f s in all",
        *(name, _SECONDS, counted(num, "sample"), counted(threads, "thread")),
        num * _SECONDS / threads,
    )
    return Accepted(num, f"{and_}have a plan that keeps the rules {name}", at_once=_AT_ONCE)


def counting_judge(habitable: Habitable, kept: Accepted, first: Judge) -> Judge:
    """Return a judge that accepts diagrams if ``first`` accepts them and they are habitable.
    ``kept`` counts the rules by which diagrams are rejected."""

    def judge(diagrams: Sequence[BubbleDiagram]) -> list[bool | None]:
        answers = first(diagrams)
        rows = [k for k, answer in enumerate(answers) if answer]
        broken = habitable([diagrams[k] for k in rows])
        kept.rejected_by.update(chain.from_iterable(broken))
        for k, rules in zip(rows, broken, strict=True):
            answers[k] = not rules
        return answers

    return judge
