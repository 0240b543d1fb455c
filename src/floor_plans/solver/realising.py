"""``realise``: from a diagram to a dimensioned floor plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from discrete_diffusion.runtime import progress
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.geometry import in_metres
from floor_plans.plans.box_model import cp_sat
from floor_plans.plans.contradiction import contradiction, room_names
from floor_plans.plans.door_placement import find_doors
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.plans.outline import FREE
from floor_plans.plans.soft_constraints import WITHOUT_RULES
from floor_plans.plans.verdict import find_boxes, map_in_threads
from floor_plans.rules.judging import judge
from floor_plans.solver.explaining import NO_REASON, Why, explained
from floor_plans.solver.hall import LED_FROM, leads_on, without_halls
from floor_plans.solver.near_model import LOCKS, Near, NearModel
from floor_plans.solver.plan_model import PlanModel
from floor_plans.solver.plan_of_boxes import plan_of
from floor_plans.solver.plan_search import EFFORT, PlanSearch
from floor_plans.solver.room_model import Demands
from floor_plans.solver.shortfalls import Shortfall, rooms_with_split_floors, shortfalls_of

_POLISH, _POLISH_ALONE = 0.48, 0.6
"""Effort of the solver, see ``BoxModel.solve``, to better a first plan: for rules, and without any,
when nothing else fills its outline."""

_LEAST_CHANGE = 0.6
"""Effort to bring a plan nearer to an earlier one."""

_OTHERS = 2
"""Plans that are looked for in the place of those that are flawed though the rules' wishes were
met."""

_EFFORT_WHY = 0.3
"""Effort of each use of the solver, to say why there is no plan."""


@dataclass(frozen=True)
class Job:
    """A plan to find: of ``diagram``, as ``demands`` say, ``variants`` different ones.

    ``other_areas``: targets that will do as well, where those of the demands or a rule are not met.
    ``hall``: a hall may be added where the solver meets more with one. ``near``: the plan is to
    keep what is locked of an earlier one, and to be as near to it as can be. ``proofs``: whether it
    is asked if rules that are broken can be kept at all.
    """

    diagram: BubbleDiagram
    demands: Demands
    variants: int = 1
    seed: int = 0
    other_areas: tuple[tuple[float, ...], ...] = ()
    hall: bool = False
    near: Near | None = None
    proofs: bool = True


@dataclass(frozen=True)
class Realised:
    """``plans``: the best first, for the target areas ``areas``, which added rooms have not.
    ``shortfalls``: of each plan, the demands that it does not meet. ``reason``: why there is no
    plan, in words. ``excluded``: the plans break a rule, and the solver showed that none that it
    considers keeps all, whatever the shapes and areas of rooms; of some rules it asks more than
    they do, so that a plan drawn by hand may. ``why``: what excludes each other, and what would
    mend it.
    """

    plans: tuple[FloorPlan, ...] = ()
    areas: tuple[float, ...] = ()
    shortfalls: tuple[tuple[Shortfall, ...], ...] = ()
    reason: str = ""
    excluded: bool = False
    why: Why = NO_REASON

    @property
    def given_up(self) -> tuple[Shortfall, ...]:
        """Demands that any of the plans does not meet."""
        return tuple(dict.fromkeys(each for found in self.shortfalls for each in found))

    @property
    def broken(self) -> frozenset[str]:
        """Rules that any of the plans breaks."""
        return frozenset(each.rule for each in self.given_up if each.rule)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the diagram's rooms, and of a hall; nothing without a plan."""
        if not self.plans:
            return ()
        return (*room_names(without_halls(self.plans[0].diagram)), "the hall")

    @property
    def may_gain(self) -> bool:
        """Whether other target areas may give up less."""
        areas = any(each.demand == "areas" for each in self.given_up)
        return bool(areas or self.broken) and not self.excluded

    @property
    def rank(self) -> tuple[int, int, int]:
        """Smaller of plans that give up less: of what a hall is for first, then of other rules."""
        rules = [each.rule for each in self.given_up if each.rule]
        led = sum(rule in LED_FROM for rule in rules)
        return led, len(rules), len(self.given_up)


def realise(job: Job, *, stop_asked: Callable[[], bool] = lambda: False) -> Realised:
    """A dimensioned plan of a diagram: the relations of its boxes are exactly the diagram's, and no
    two rooms overlap unless a relation says that one is inside the other.

    Wishes are met by their ``Priority``, as many as are found together. Where areas are given
    up or rules broken, other areas are tried, and of all plans the one that gives up least is kept.
    The outline is never given up; nor are relations. A diagram that is "buildable" has a plan at
    least in a free outline: at worst the boxes of ``find_boxes``, in sizes that nobody requested.
    ``stop_asked``: once there is a plan, no further variant is looked for.

    Raises ``ValueError`` without OR-Tools, ``ImportError`` without shapely.
    """
    cp_sat()
    if job.near is not None:
        return _changed(job, job.near, stop_asked)
    decided, best = True, None
    for areas in (job.demands.areas, *job.other_areas):
        if best is not None and not best.may_gain:
            break
        demands = replace(job.demands, areas=areas)
        ruled_out, found = _found_for(job, demands, best, stop_asked)
        decided = decided and ruled_out
        best = min(filter(None, (best, found)), key=lambda each: each.rank, default=None)
    if best is not None:
        fewer = _fewer(job, best.plans)
        return _with_proofs(
            job, replace(best, shortfalls=tuple(each + fewer for each in best.shortfalls))
        )
    answer, boxes = find_boxes(job.diagram, "buildable")
    if answer is False:
        why = contradiction(job.diagram, effort=_EFFORT_WHY)
        return Realised(reason="no floor plan exists" + (f": {why.sentence()}" if why else ""))
    if boxes is None:
        return Realised(reason="no floor plan was found, and none was ruled out in time")
    if job.demands.outline == FREE:
        plan = find_doors(FloorPlan(replace(job.diagram, boxes=in_metres(boxes, "pixels"))))
        areas = job.demands.areas
        shortfalls = (shortfalls_of(plan, job.demands) + _fewer(job, [plan]),)
        return _with_proofs(job, Realised((plan,), areas, shortfalls))
    if decided:
        return Realised(reason="no plan with rooms of half a metre or more fits the outline")
    return Realised(reason="no plan was found that fits the outline")


def _found_for(
    job: Job, demands: Demands, before: Realised | None, stop_asked: Callable[[], bool]
) -> tuple[bool, Realised | None]:
    """True if the solver ruled all plans out, and the best that was found. ``before``: the best for
    other areas; if it keeps all rules, only what meets all is looked for."""
    best, ruled_out = None, False
    search = PlanSearch(job.diagram, demands, job.seed, may_have_hall=job.hall)
    meet_all = before is not None and not before.broken
    for model in search.models(meet_all=meet_all):
        answer, plans = _best(job, demands, model, stop_asked)
        ruled_out = ruled_out or (answer is False and model.hall is None)
        plans = tuple(plan for plan in plans if leads_on(plan))
        if plans:
            shortfalls = tuple(shortfalls_of(plan, demands) for plan in plans)
            found = Realised(plans, demands.areas, shortfalls)
            found = replace(found, excluded=search.excluded and bool(found.broken))
            best = found if best is None else min(best, found, key=lambda each: each.rank)
        if best is None and model.hall is None:
            break  # nor is there one with a hall
        if best is not None and not best.rank[0]:
            break
    return ruled_out, best


def _changed(job: Job, near: Near, stop_asked: Callable[[], bool]) -> Realised:
    """Plans near an earlier one. Rooms whose areas nobody requests have those that they get. Where
    one breaks a rule, walls that were in line stay so, if fewer rules are broken then."""
    of = job.diagram.rooms, job.diagram.relations, job.demands, near
    model = NearModel(*of)
    answer, plans = _best(job, job.demands, model, stop_asked)
    if plans and (broken := _num_broken(plans, job)) and not stop_asked():
        straight = _best(job, job.demands, NearModel(*of, in_line=True), stop_asked)[1]
        if len(straight) == len(plans) and _num_broken(straight, job) < broken:
            plans = straight
    if not plans:
        kept = [_kept_in_words(job, near, *what) for what, _ in model.kept]
        if answer is None:
            return Realised(reason=f"no plan was found in time that keeps {_listed(kept)}")
        if not model.excluded:
            why = contradiction(job.diagram, effort=_EFFORT_WHY)
            sentence = f": {why.sentence()}" if why else " with these relations in this outline"
            return Realised(reason="no floor plan exists" + sentence)
        kept = [_kept_in_words(job, near, *what) for what in model.excluded]
        return Realised(reason=f"no plan of this diagram in this outline keeps {_listed(kept)}")
    areas = tuple(
        target if room in near.wanted else plans[0].areas[room]
        for room, target in enumerate(job.demands.areas)
    )
    demands = replace(job.demands, areas=areas)
    fewer = _fewer(job, plans)
    shortfalls = tuple(shortfalls_of(plan, demands) + fewer for plan in plans)
    return Realised(plans, areas, shortfalls)


def _num_broken(plans: Sequence[FloorPlan], job: Job) -> int:
    """Rules that the first plan breaks."""
    return len({rule for rule, _ in judge(plans[0], job.demands.rules).broken})


def _kept_in_words(job: Job, near: Near, room: int, what: str) -> str:
    """``the place of kitchen``, ``the left wall of kitchen where it is to be``"""
    names = [*room_names(job.diagram), "the hall"]
    if what in LOCKS:
        return f"the {what} of {names[room]}"
    return f"the {what} wall of {names[room]} where it is to be"


def _listed(words: Sequence[str]) -> str:
    return " and ".join(words) if words else "near to the earlier plan"


def _with_proofs(job: Job, found: Realised) -> Realised:
    """Say of the rules that are broken which ones the solver shows that no plan keeps, and why."""
    if not (found.broken and job.proofs):
        return found
    demands = replace(job.demands, areas=found.areas)
    search = PlanSearch(job.diagram, demands, job.seed, may_have_hall=job.hall)
    proved = search.proved(found.broken)
    shortfalls = tuple(
        tuple(replace(each, proved=each.rule in proved) for each in words)
        for words in found.shortfalls
    )
    rooms = {room for each in found.given_up if each.rule for room in each.rooms}
    why = explained(job.diagram, demands, job.seed, may_have_hall=job.hall, broken=rooms)
    excluded = found.excluded or bool(proved) or why.excludes
    return replace(found, shortfalls=shortfalls, excluded=excluded, why=why)


def _best(
    job: Job, demands: Demands, model: PlanModel, stop_asked: Callable[[], bool]
) -> tuple[bool | None, tuple[FloorPlan, ...]]:
    """Answer of ``BoxModel.solve``, and up to ``job.variants``. One with ``_flaws`` is kept only
    where a few others have as many; near an earlier plan the nearest is first."""
    answer: bool | None = None
    polish = _POLISH if demands.rules.rules else _POLISH_ALONE
    if job.near is not None:
        polish = _LEAST_CHANGE
    plans: list[FloorPlan] = []
    others: list[tuple[frozenset[str], FloorPlan]] = []
    spare = _OTHERS if job.near is None else 0
    with progress.calls(name="variant") as going:
        going.expect(job.variants, exact=False)
        for turn in range(job.variants + spare):
            if turn > 0 and stop_asked():
                break
            seed, wanted = job.seed + turn, turn < job.variants
            if wanted and job.variants > 1:
                going.begin()
            if not wanted and any("compact" in flaws for flaws, _ in others):
                model.tighten()
            if not wanted and not model.meets(EFFORT, seed, model.missed):
                break
            found, boxes = model.best(EFFORT, polish, seed)
            answer = found if turn == 0 else answer
            if boxes is None:
                break
            plan = plan_of(job.diagram, demands, boxes, stays=job.near is not None)
            flaws = _flaws(plan, demands, model) if job.near is None else frozenset()
            if flaws:
                others.append((flaws, plan))
            else:
                plans.append(plan)
            if len(plans) == job.variants:
                break
            model.differ_from(boxes)
    others.sort(key=lambda each: len(each[0]))
    return answer, tuple([*plans, *(plan for _, plan in others)][: job.variants])


def _flaws(plan: FloorPlan, demands: Demands, model: PlanModel) -> frozenset[str]:
    """Why there may be a better one: rules that it breaks though the solver met all that it wishes
    for rules, and "floors" where one is in parts."""
    split = {"floors"} if rooms_with_split_floors(plan) else set()
    is_met = model.missed <= WITHOUT_RULES
    broken = {rule for rule, _ in judge(plan, demands.rules).broken} if is_met else set()
    return frozenset(split | broken)


def realise_all(
    jobs: Sequence[Job], *, threads: int = 1, stop_asked: Callable[[], bool] = lambda: False
) -> Iterator[Realised]:
    """``realise`` each, in their order, see ``map_in_threads``."""
    cp_sat()
    find = partial(realise, stop_asked=stop_asked)
    return map_in_threads(find, jobs, threads=threads, doing="finding plans")


def _fewer(job: Job, plans: Sequence[FloorPlan]) -> tuple[Shortfall, ...]:
    """That there are fewer plans than ``variants``."""
    text = f"{len(plans)} of {job.variants} variants were found"
    return (Shortfall(text, demand="variants"),) if len(plans) < job.variants else ()
