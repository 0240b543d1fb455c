"""``realise``: finds a floor plan with dimensions for a diagram."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from discrete_diffusion.runtime import progress
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.geometry import boxes_in_metres
from floor_plans.plans.box_model import cp_sat
from floor_plans.plans.contradiction import contradiction, room_names
from floor_plans.plans.door_placement import find_doors
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.plans.outline import FREE
from floor_plans.plans.soft_constraints import WITHOUT_RULES
from floor_plans.plans.verdict import find_boxes, map_in_threads
from floor_plans.rules.judging import judge
from floor_plans.solver.hall import CIRCULATION_RULES, halls_connect, plan_of, remove_halls
from floor_plans.solver.near_model import LOCKS, EarlierPlan, NearModel
from floor_plans.solver.plan_model import PlanModel
from floor_plans.solver.plan_search import (
    EFFORT,
    NO_EXPLANATION,
    Explanation,
    PlanSearch,
    explain_conflicts,
)
from floor_plans.solver.room_model import PlanSpec
from floor_plans.solver.shortfalls import Shortfall, rooms_with_split_floors, shortfalls_of

_POLISH, _POLISH_ALONE = 0.48, 0.6
"""Effort of the solver, see ``BoxModel.solve``, to improve an incumbent: with rules, and
without."""

_LEAST_CHANGE = 0.6
"""Effort to bring a plan closer to an earlier one."""

_SPARE = 2
"""Further plans searched to replace ones that break rules although the soft constraints of the
rules hold."""

_EFFORT_WHY = 0.3
"""Effort of each call of the solver that explains a missing plan."""


@dataclass(frozen=True)
class Job:
    """Plan to find: of ``diagram``, as ``spec`` says, in ``variants`` different ones.

    ``other_areas``: further target areas to try if those of the spec or a rule are not met.
    ``hall``: a hall may be added if that satisfies more. ``near``: an earlier plan to keep close
    to. ``proofs``: examine whether broken rules can be kept at all.
    """

    diagram: BubbleDiagram
    spec: PlanSpec
    variants: int = 1
    seed: int = 0
    other_areas: tuple[tuple[float, ...], ...] = ()
    hall: bool = False
    near: EarlierPlan | None = None
    proofs: bool = True


@dataclass(frozen=True)
class Realised:
    """Plans found for a job, the best first, with their target ``areas``. Added rooms have no
    targets.

    ``shortfalls``: unmet requirements of each plan. ``reason``: explains why no plan was found.
    ``excluded``: the plans break a rule, and the solver showed that no plan it considers keeps all
    rules, for any shapes and areas of rooms. As the model is stricter than some rules, a plan drawn
    by hand may still keep them. ``explanation``: conflicting requirements and a remedy.
    """

    plans: tuple[FloorPlan, ...] = ()
    areas: tuple[float, ...] = ()
    shortfalls: tuple[tuple[Shortfall, ...], ...] = ()
    reason: str = ""
    excluded: bool = False
    explanation: Explanation = NO_EXPLANATION

    @property
    def given_up(self) -> tuple[Shortfall, ...]:
        """Requirements that any of the plans does not meet."""
        return tuple(dict.fromkeys(each for found in self.shortfalls for each in found))

    @property
    def broken(self) -> frozenset[str]:
        """Rules that any of the plans breaks."""
        return frozenset(each.rule for each in self.given_up if each.rule)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the diagram's rooms, and of a hall; empty without a plan."""
        if not self.plans:
            return ()
        return (*room_names(remove_halls(self.plans[0].diagram)), "the hall")

    @property
    def may_improve(self) -> bool:
        """True if other target areas may lead to a plan with fewer shortfalls."""
        areas = any(each.demand == "areas" for each in self.given_up)
        return bool(areas or self.broken) and not self.excluded

    @property
    def rank(self) -> tuple[int, int, int]:
        """Sort key, smaller for better plans: broken circulation rules, broken rules,
        shortfalls."""
        rules = [each.rule for each in self.given_up if each.rule]
        circulation = sum(rule in CIRCULATION_RULES for rule in rules)
        return circulation, len(rules), len(self.given_up)


def realise(job: Job, *, stop_asked: Callable[[], bool] = lambda: False) -> Realised:
    """Find floor plans of a diagram. Their boxes have exactly the diagram's relations, and rooms
    overlap only if one is inside the other.

    Soft constraints are satisfied by ``Priority``, as many as possible. If areas are missed or
    rules broken, other areas are tried, and the plan with the fewest shortfalls is returned. The
    outline and the relations are hard constraints. A buildable diagram has a plan at least in a
    free outline: at worst the boxes of ``find_boxes``, of any size. ``stop_asked``: once it returns
    True, no further variant is searched.

    Raises ``ValueError`` without OR-Tools, ``ImportError`` without shapely.
    """
    cp_sat()
    if job.near is not None:
        return _realise_near(job, job.near, stop_asked)
    # try target areas until nothing can improve
    decided, best = True, None
    for areas in (job.spec.areas, *job.other_areas):
        if best is not None and not best.may_improve:
            break
        spec = replace(job.spec, areas=areas)
        ruled_out, found = _search_plans(job, spec, best, stop_asked)
        decided = decided and ruled_out
        best = min(filter(None, (best, found)), key=lambda each: each.rank, default=None)
    # plans were found: add what is missing and what is proved
    if best is not None:
        fewer = _missing_variants(job, best.plans)
        return _add_proofs(
            job, replace(best, shortfalls=tuple(each + fewer for each in best.shortfalls))
        )
    # none was found: does the diagram have any plan?
    answer, boxes = find_boxes(job.diagram, "buildable")
    if answer is False:
        why = contradiction(job.diagram, effort=_EFFORT_WHY)
        return Realised(reason="no floor plan exists" + (f": {why.sentence()}" if why else ""))
    if boxes is None:
        return Realised(reason="no floor plan was found, and none was ruled out in time")
    # its boxes are a plan in a free outline
    if job.spec.outline == FREE:
        plan = find_doors(FloorPlan(replace(job.diagram, boxes=boxes_in_metres(boxes, "pixels"))))
        areas = job.spec.areas
        shortfalls = (shortfalls_of(plan, job.spec) + _missing_variants(job, [plan]),)
        return _add_proofs(job, Realised((plan,), areas, shortfalls))
    if decided:
        return Realised(reason="no plan with rooms of half a metre or more fits the outline")
    return Realised(reason="no plan was found that fits the outline")


def _search_plans(
    job: Job, spec: PlanSpec, before: Realised | None, stop_asked: Callable[[], bool]
) -> tuple[bool, Realised | None]:
    """Search the models of one set of areas. Returns True if the solver ruled all plans out, and
    the best plans found.

    ``before``: best plans for other areas. If they keep all rules, only a plan without shortfalls
    is of interest.
    """
    best, ruled_out = None, False
    search = PlanSearch(job.diagram, spec, job.seed, may_have_hall=job.hall)
    meet_all = before is not None and not before.broken
    for model in search.models(meet_all=meet_all):
        # a plan counts if its added hall leads somewhere
        answer, plans = _find_variants(job, spec, model, stop_asked)
        ruled_out = ruled_out or (answer is False and model.hall is None)
        plans = tuple(plan for plan in plans if halls_connect(plan))
        if plans:
            shortfalls = tuple(shortfalls_of(plan, spec) for plan in plans)
            found = Realised(plans, spec.areas, shortfalls)
            found = replace(found, excluded=search.excluded and bool(found.broken))
            best = found if best is None else min(best, found, key=lambda each: each.rank)
        if best is None and model.hall is None:
            break  # a hall does not help either
        if best is not None and not best.rank[0]:
            break
    return ruled_out, best


def _realise_near(job: Job, near: EarlierPlan, stop_asked: Callable[[], bool]) -> Realised:
    """Find plans near an earlier one. Rooms without a requested area keep the one they get. If a
    rule is broken, aligned walls are kept in line if that breaks fewer rules."""
    of = job.diagram.rooms, job.diagram.relations, job.spec, near
    model = NearModel(*of)
    answer, plans = _find_variants(job, job.spec, model, stop_asked)
    # walls that were in line may help to keep rules
    if plans and (broken := _num_broken(plans, job)) and not stop_asked():
        straight = _find_variants(job, job.spec, NearModel(*of, in_line=True), stop_asked)[1]
        if len(straight) == len(plans) and _num_broken(straight, job) < broken:
            plans = straight
    # the reason why there is none
    if not plans:
        kept = [_lock_text(job, near, *what) for what, _ in model.locks]
        if answer is None:
            return Realised(reason=f"no plan was found in time that keeps {_joined(kept)}")
        if not model.excluded:
            why = contradiction(job.diagram, effort=_EFFORT_WHY)
            sentence = f": {why.sentence()}" if why else " with these relations in this outline"
            return Realised(reason="no floor plan exists" + sentence)
        kept = [_lock_text(job, near, *what) for what in model.excluded]
        return Realised(reason=f"no plan of this diagram in this outline keeps {_joined(kept)}")
    # the plan's own areas are the targets of other rooms
    areas = tuple(
        target if room in near.wanted else plans[0].areas[room]
        for room, target in enumerate(job.spec.areas)
    )
    spec = replace(job.spec, areas=areas)
    fewer = _missing_variants(job, plans)
    shortfalls = tuple(shortfalls_of(plan, spec) + fewer for plan in plans)
    return Realised(plans, areas, shortfalls)


def _num_broken(plans: Sequence[FloorPlan], job: Job) -> int:
    """Number of rules that the first plan breaks."""
    return len({rule for rule, _ in judge(plans[0], job.spec.rules).broken})


def _lock_text(job: Job, near: EarlierPlan, room: int, what: str) -> str:
    """Lock in words: ``the place of kitchen``, ``the left wall of kitchen where it is to be``."""
    names = [*room_names(job.diagram), "the hall"]
    if what in LOCKS:
        return f"the {what} of {names[room]}"
    return f"the {what} wall of {names[room]} where it is to be"


def _joined(words: Sequence[str]) -> str:
    """Join locks in words."""
    return " and ".join(words) if words else "near to the earlier plan"


def _add_proofs(job: Job, found: Realised) -> Realised:
    """Mark broken rules that the solver shows to be infeasible, and explain why."""
    if not (found.broken and job.proofs):
        return found
    spec = replace(job.spec, areas=found.areas)
    search = PlanSearch(job.diagram, spec, job.seed, may_have_hall=job.hall)
    # prove each broken rule by itself, then explain
    proved = search.proved(found.broken)
    shortfalls = tuple(
        tuple(replace(each, proved=each.rule in proved) for each in words)
        for words in found.shortfalls
    )
    rooms = {room for each in found.given_up if each.rule for room in each.rooms}
    why = explain_conflicts(job.diagram, spec, job.seed, may_have_hall=job.hall, broken=rooms)
    excluded = found.excluded or bool(proved) or why.excludes
    return replace(found, shortfalls=shortfalls, excluded=excluded, explanation=why)


def _find_variants(
    job: Job, spec: PlanSpec, model: PlanModel, stop_asked: Callable[[], bool]
) -> tuple[bool | None, tuple[FloorPlan, ...]]:
    """Search one model for up to ``job.variants`` plans. Returns the answer of ``BoxModel.solve``
    and the plans.

    Plans with ``_flaws`` come last, and spare variants are searched to replace them. Near an
    earlier plan the nearest comes first.
    """
    answer: bool | None = None
    polish = _POLISH if spec.rules.rules else _POLISH_ALONE
    if job.near is not None:
        polish = _LEAST_CHANGE
    plans: list[FloorPlan] = []
    others: list[tuple[frozenset[str], FloorPlan]] = []
    spare = _SPARE if job.near is None else 0
    with progress.calls(name="variant") as going:
        going.expect(job.variants, exact=False)
        for turn in range(job.variants + spare):
            if turn > 0 and stop_asked():
                break
            seed, wanted = job.seed + turn, turn < job.variants
            if wanted and job.variants > 1:
                going.begin()
            # a spare plan has to be more compact, and to satisfy as much
            if not wanted and any("compact" in flaws for flaws, _ in others):
                model.tighten()
            if not wanted and not model.meets(EFFORT, seed, model.missed):
                break
            found, boxes = model.find_best(EFFORT, polish, seed)
            answer = found if turn == 0 else answer
            if boxes is None:
                break
            # a plan with flaws is set aside
            plan = plan_of(job.diagram, spec, boxes, stays=job.near is not None)
            flaws = _flaws(plan, spec, model) if job.near is None else frozenset()
            if flaws:
                others.append((flaws, plan))
            else:
                plans.append(plan)
            if len(plans) == job.variants:
                break
            model.differ_from(boxes)
    others.sort(key=lambda each: len(each[0]))
    return answer, tuple([*plans, *(plan for _, plan in others)][: job.variants])


def _flaws(plan: FloorPlan, spec: PlanSpec, model: PlanModel) -> frozenset[str]:
    """Flaws of a plan: rules that it breaks although their soft constraints hold, and "floors" if
    one is split."""
    split = {"floors"} if rooms_with_split_floors(plan) else set()
    is_met = model.missed <= WITHOUT_RULES
    broken = {rule for rule, _ in judge(plan, spec.rules).broken} if is_met else set()
    return frozenset(split | broken)


def realise_all(
    jobs: Sequence[Job], *, threads: int = 1, stop_asked: Callable[[], bool] = lambda: False
) -> Iterator[Realised]:
    """Return ``realise`` of each job, in their order, see ``map_in_threads``."""
    cp_sat()
    find = partial(realise, stop_asked=stop_asked)
    return map_in_threads(find, jobs, threads=threads, doing="finding plans")


def _missing_variants(job: Job, plans: Sequence[FloorPlan]) -> tuple[Shortfall, ...]:
    """Shortfall that there are fewer plans than ``variants``; empty if there are enough."""
    text = f"{len(plans)} of {job.variants} variants were found"
    return (Shortfall(text, demand="variants"),) if len(plans) < job.variants else ()
