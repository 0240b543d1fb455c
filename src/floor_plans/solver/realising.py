"""``realise``: find a floor plan with dimensions of a diagram; explain why none keeps all rules."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np

from discrete_diffusion.runtime import progress
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.geometry import boxes_in_metres, relations_from_boxes, threshold_of
from floor_plans.diagrams.vocabulary import NO_EDGE
from floor_plans.plans.box_model import Boxes, cp_sat, effort_left, limited_effort
from floor_plans.plans.clearing import Clearing
from floor_plans.plans.contradiction import Member, contradiction
from floor_plans.plans.doors import find_doors
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.plans.outline import FREE, PER_METRE
from floor_plans.plans.verdict import find_boxes, map_in_threads
from floor_plans.rules.asked import door_request
from floor_plans.rules.finding import ADDED, added_rooms
from floor_plans.rules.rule_set import judge
from floor_plans.solver.near_search import EarlierPlan, NearSearch, locks_text
from floor_plans.solver.plan_model import PlanModel
from floor_plans.solver.realised import (
    CIRCULATION_RULES,
    Conflict,
    Explanation,
    Job,
    Realised,
    Shortfall,
    rooms_with_split_floors,
    shortfalls_of,
)
from floor_plans.solver.room_constraints import HALL_TYPE
from floor_plans.solver.spec import NOTHING, ONLY_AREAS, WITHOUT_RULES, PlanSpec, Priority

EFFORT = 0.6
"""Effort of the solver, see ``BoxModel.solve``, to find a first plan; to decide whether soft
constraints can be satisfied; to show that requirements conflict, and again to reduce the
conflict."""

_EFFORT_AREAS, _EFFORT_RULES, _EFFORT_HALL = 0.8, 1.2, 0.3
"""Efforts to satisfy all soft constraints but areas in a free outline, those of the rules, and the
former with a hall behind the front door."""

_POLISH, _POLISH_ALONE, _LEAST_CHANGE = 0.48, 0.6, 0.6
"""Effort to improve an incumbent: with rules, without, and to bring it closer to an earlier
plan."""

_EFFORT_WHY = 0.3  # effort of each call of the solver that explains a missing plan

_EFFORT_INSTEAD, _EFFORT_EACH = 1.5, 0.3
"""Effort to find another relation, and of each one that is tried."""

_MOST_EFFORT, _FOR_A_PLAN, _FOR_PROOFS, _MOST_FOR_PROOFS = 10.0, 2.5, 1.0, 0.6
"""Effort of all searches for a plan, under a minute. Two shares of it are kept back: to find a plan
once a model is chosen, and to explain what the best plan breaks, which takes no more than the
last."""

_SPARE = 2
"""Further plans searched to replace ones that break rules although the soft constraints of the
rules hold."""

_PROVABLE = ("front", "access", "bath", "width", "area")
"""Rules whose soft constraints are necessary for the rule. If these are infeasible, so is the rule.
Soft constraints of other rules may be stricter than the rule."""

_SPECK = 1e-3  # square metres of a box out of the outline that do not count

_LIVING = "LivingRoom"  # kind of the rooms whose doors leave a rectangle

StopAsked = Callable[[], bool]


def realise(job: Job, *, stop_asked: StopAsked = lambda: False) -> Realised:
    """Find floor plans of a diagram, with boxes that have exactly its relations.

    The outline and the relations are hard constraints, and rooms overlap only if one is inside the
    other. Soft constraints are satisfied by ``Priority``, as many as possible. If areas are missed,
    other areas are tried; for rules, only if areas are missed in a given outline, or rules broken
    in a free one. The plan with the fewest shortfalls is returned. A buildable diagram has a plan
    at least in a free outline: at worst the boxes of ``find_boxes``, of any size. ``stop_asked``:
    once it returns True and a plan is found, no further is searched.

    Raises ``ValueError`` without OR-Tools, ``ImportError`` without shapely.
    """
    cp_sat()
    with limited_effort(_MOST_EFFORT * job.variants):
        if job.near is not None:
            return _realise_near(job, job.near, stop_asked)
        # try target areas until nothing can improve
        decided, best = True, None
        for areas in (job.spec.areas, *job.other_areas):
            spec, is_spent = replace(job.spec, areas=areas), _effort_to_spare() < 0
            if best is not None:
                # of plans for rules, those on a given outline may have other areas, the others
                # may keep more rules
                given = spec.outline.boundary is not None
                is_asked = bool(spec.rules.rules) and given == bool(best.broken)
                if not best.may_improve or is_asked or is_spent or stop_asked():
                    break
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
        return Realised(reason=_no_plan_reason(job, ""))
    if boxes is None:
        return Realised(reason="no floor plan was found, and none was ruled out in time")
    # its boxes are a plan in a free outline
    if job.spec.outline == FREE:
        bare = FloorPlan(replace(job.diagram, boxes=boxes_in_metres(boxes, "pixels")))
        plan = find_doors(bare, asked=door_request(job.spec.rules.rules))
        shortfalls = (shortfalls_of(plan, job.spec) + _missing_variants(job, [plan]),)
        return _add_proofs(job, Realised((plan,), job.spec.areas, shortfalls))
    if decided:
        return Realised(reason="no plan with rooms of half a metre or more fits the outline")
    return Realised(reason="no plan was found that fits the outline")


def realise_all(
    jobs: Sequence[Job], *, threads: int = 1, stop_asked: StopAsked = lambda: False
) -> Generator[Realised, None, None]:
    """Return ``realise`` of each job, in the order of the jobs, see ``map_in_threads``."""
    cp_sat()
    find = partial(realise, stop_asked=stop_asked)
    return map_in_threads(find, jobs, threads=threads, doing="finding plans")


def _effort_to_spare() -> float:
    """Effort that is left, less the shares of it that are kept back."""
    return effort_left.get() - _FOR_A_PLAN - _FOR_PROOFS


def plan_from_boxes(
    diagram: BubbleDiagram, spec: PlanSpec, boxes: Boxes, *, stays: bool = False
) -> FloorPlan:
    """Return the floor plan of boxes, with the doors that its walls have room for. A free outline
    is moved to begin at 0, unless ``stays``. An extra box is that of a hall: the last room, of type
    entrance, with its number in "added" and the relations measured on its box."""
    x, y = spec.outline.origin
    if spec.outline.boundary is None and not stays:
        left, top = min(box[0] for box in boxes), min(box[1] for box in boxes)
        boxes = tuple((x0 - left, y0 - top, x1 - left, y1 - top) for x0, y0, x1, y1 in boxes)
    # from grid units to metres
    metres = tuple(
        (x + x0 / PER_METRE, y + y0 / PER_METRE, x + x1 / PER_METRE, y + y1 / PER_METRE)
        for x0, y0, x1, y1 in boxes
    )
    hall = diagram.num_rooms
    if len(boxes) == hall:
        placed = replace(diagram, boxes=metres)
    else:
        codes = relations_from_boxes(np.array(metres), threshold_of("metres", None))
        read = [(i, hall, int(codes[i, hall])) for i in range(hall) if codes[i, hall] != NO_EDGE]
        relations = tuple(sorted((*diagram.relations, *read)))
        metadata = {**diagram.metadata, ADDED: [hall]}
        placed = BubbleDiagram((*diagram.rooms, HALL_TYPE), relations, metres, metadata)
    bare, asked = FloorPlan(placed, boundary=spec.outline.boundary), door_request(spec.rules.rules)
    # rooms that bend around a corner of the outline
    if any(room.difference(bare.outline).area > _SPECK for room in bare.boxes):
        bent = replace(bare, floors=tuple(room.intersection(bare.outline) for room in bare.boxes))
        bare = replace(bare, floors=bent.rooms)
    # doors leave a rectangle of the rule in living rooms
    rule = spec.rule("furniture") or {}
    sizes, deep = (rule.get(key, {}).get(_LIVING) for key in ("least", "in_front"))
    clearing = Clearing(_LIVING, sizes[0], deep, rule["wall"]) if sizes and deep else None
    doors = partial(find_doors, bare, front=spec.front_door, asked=asked, clearing=clearing)
    return doors(hall=hall) if _has_idle_hall(plan := doors()) else plan


def _has_idle_hall(plan: FloorPlan) -> bool:
    """True if an added hall leads nowhere: it has fewer than two doors."""
    halls = added_rooms(plan.diagram)
    return any(sum(room in door.rooms for door in plan.doors) < 2 for room in halls)


class PlanSearch:
    """Search for plans of a diagram, with an added hall if one is allowed.

    ``excluded``, after ``models``: True if the solver showed that no plan it considers keeps all
    rules, with or without a hall.
    """

    def __init__(self, job: Job, spec: PlanSpec) -> None:
        self._seed, self._spec, self._may_have_hall = job.seed, spec, job.hall
        self._strict, self._wants_hall = job.strict, job.wants_hall
        self._model = partial(PlanModel, job.diagram.rooms, job.diagram.relations, spec)
        self.excluded = False

    def models(self, *, meet_all: bool) -> Iterator[PlanModel]:
        """Yield the models to search, the most promising first.

        Many rooms, by the rule ``entry``, are first searched with a hall behind the front door.
        Another model with a hall comes first if it keeps all rules where none without was found to,
        or if it may keep more of ``CIRCULATION_RULES``. ``meet_all``: yield nothing unless all soft
        constraints can be satisfied without a hall.
        """
        answers, alone = list[bool | None](), self._spec.dropped_for_rules
        if self._wants_hall and not meet_all:
            entered = self._model(hall=True, entered=True)
            is_given = self._spec.outline.boundary is not None
            effort = EFFORT if is_given else _EFFORT_HALL
            answers.append(self._meets(entered, effort, self._spec.first_dropped))
            if answers[-1]:
                yield self._moved_to_areas(entered)
        plain = self._model(hall=False)
        if meet_all or not self._spec.rules.rules:
            if self._meets(plain, EFFORT) or not self._spec.rules.rules:
                yield plain
            return
        models = [plain, *([self._model(hall=True)] if self._may_have_hall else [])]
        for model in models:
            answers.append(self._keeps_rules(model))
            if answers[-1]:
                yield from dict.fromkeys((self._moved_to_areas(model), plain))
                return
        self.excluded |= alone == WITHOUT_RULES and set(answers) == {False}
        if self.excluded and self._strict:
            return
        # no model keeps all rules: does a hall help with circulation?
        kept = plain.search.can_keep(CIRCULATION_RULES, EFFORT, self._seed)
        helpful = [
            each
            for each in models[1:]
            if not kept and each.search.can_keep(CIRCULATION_RULES, EFFORT, self._seed)
        ]
        yield from (*helpful, plain) if kept is False else (plain, *helpful)

    def _moved_to_areas(self, model: PlanModel) -> PlanModel:
        """Move the plan that keeps the rules until its rooms have their areas."""
        model.search.climb(_EFFORT_EACH, self._seed)
        model.search.approach(NOTHING, self._seed, far=False)
        return model

    def _keeps_rules(self, model: PlanModel) -> bool | None:
        """Return True if a plan keeps all rules, False if none does, None if undecided."""
        alone, is_given = self._spec.dropped_for_rules, self._spec.outline.boundary is not None
        answer = self._meets(model, EFFORT if is_given else _EFFORT_AREAS, self._spec.first_dropped)
        if answer or (is_given and answer is False):
            return answer
        # boxes that keep the other rules may be near to ones that can be furnished
        for dropped in (alone,) if is_given else (ONLY_AREAS, alone):
            if answer := self._meets(model, EFFORT, dropped | {Priority.FURNISH}):
                if model.search.approach(alone, self._seed):
                    return True
                break
        return answer is not False and self._meets(model, _EFFORT_RULES, alone)

    def _meets(
        self, model: PlanModel, effort: float, dropped: frozenset[Priority] = NOTHING
    ) -> bool | None:
        """Return ``SoftSearch.meets``; None if it would leave too little effort to find a plan."""
        left = _effort_to_spare()
        return model.search.meets(min(effort, left), self._seed, dropped) if left > 0 else None

    def proved(self, broken: Collection[str]) -> frozenset[str]:
        """Return the ``broken`` rules that the solver shows to be infeasible, with and without a
        hall."""
        halls = (False, True) if self._may_have_hall else (False,)
        models = [self._model(hall=hall) for hall in halls]
        models += [self._model(hall=True, entered=True)] if self._wants_hall else []
        return frozenset(
            rule
            for rule in broken
            if rule in _PROVABLE
            and all(each.search.can_keep((rule,), EFFORT, self._seed) is False for each in models)
        )


def _search_plans(
    job: Job, spec: PlanSpec, before: Realised | None, stop_asked: StopAsked
) -> tuple[bool, Realised | None]:
    """Search the models of one set of areas. Returns whether the solver ruled all plans out, and
    the best plans. If plans ``before``, of other areas, keep all rules, only a plan without
    shortfalls is of interest."""
    best, ruled_out, search = None, False, PlanSearch(job, spec)
    for model in search.models(meet_all=before is not None and not before.broken):
        answer, plans = _find_variants(job, spec, model, stop_asked)
        has_hall = model.rooms.hall is not None
        ruled_out = ruled_out or (answer is False and not has_hall)
        if plans := tuple(plan for plan in plans if not _has_idle_hall(plan)):
            shortfalls = tuple(shortfalls_of(plan, spec) for plan in plans)
            found = Realised(plans, spec.areas, shortfalls)
            found = replace(found, excluded=search.excluded and bool(found.broken))
            # a hall stays only if it helps
            tied = best is not None and best.rank == found.rank and not has_hall
            best = found if best is None or tied or found.rank < best.rank else best
        # without a plan a hall does not help either
        if best is None and not has_hall:
            break
        # a hall behind the front door is needed by no rule: do other plans keep more?
        is_enough = best and not (best.broken if model.entered else best.rank[0])
        if is_enough or (best and stop_asked()):
            break
    if best is None and search.excluded and job.strict:
        best = Realised(reason="no plan keeps all rules in this outline", excluded=True)
    return ruled_out, best


def _realise_near(job: Job, near: EarlierPlan, stop_asked: StopAsked) -> Realised:
    """Find plans near an earlier plan. If the best one breaks a rule, search again with aligned
    walls kept in line, and use these plans if fewer rules are broken. Rooms without a requested
    area are scored against their area in the new plan."""

    def num_broken(plans: Sequence[FloorPlan]) -> int:
        return len({rule for rule, _ in judge(plans[0], job.spec.rules).broken})

    new = partial(NearSearch, job.diagram.rooms, job.diagram.relations, job.spec, near)
    model = new()
    answer, plans = _find_variants(job, job.spec, model, stop_asked)
    # walls that were in line may help to keep rules
    if plans and (broken := num_broken(plans)) and not stop_asked():
        straight = _find_variants(job, job.spec, new(in_line=True), stop_asked)[1]
        if len(straight) == len(plans) and num_broken(straight) < broken:
            plans = straight
    # the reason why there is none
    if not plans:
        if answer is None:
            kept = locks_text(job.diagram, [what for what, _ in model.locks])
            return Realised(reason=f"no plan was found in time that keeps {kept}")
        if not model.excluded:
            return Realised(reason=_no_plan_reason(job, " with these relations in this outline"))
        kept = locks_text(job.diagram, model.excluded)
        return Realised(reason=f"no plan of this diagram in this outline keeps {kept}")
    # the plan's own areas are the targets of other rooms
    areas = tuple(
        target if room in near.wanted else plans[0].areas[room]
        for room, target in enumerate(job.spec.areas)
    )
    spec = replace(job.spec, areas=areas)
    fewer = _missing_variants(job, plans)
    shortfalls = tuple(shortfalls_of(plan, spec) + fewer for plan in plans)
    return Realised(plans, areas, shortfalls)


def _no_plan_reason(job: Job, otherwise: str) -> str:
    """Return a sentence that no floor plan exists, with a contradiction or else ``otherwise``."""
    why = contradiction(job.diagram, effort=_EFFORT_WHY)
    return "no floor plan exists" + (f": {why.sentence()}" if why else otherwise)


def _add_proofs(job: Job, found: Realised) -> Realised:
    """Mark broken rules that the solver shows to be infeasible, and explain why."""
    if not (found.broken and job.proofs):
        return found
    spec = replace(job.spec, areas=found.areas)
    rooms = {room for each in found.given_up if each.rule for room in each.rooms}
    # prove each broken rule by itself, then explain
    with limited_effort(min(_MOST_FOR_PROOFS, effort_left.get())):
        proved = PlanSearch(job, spec).proved(found.broken)
        why = explain_conflicts(replace(job, spec=spec), rooms)
    shortfalls = tuple(
        tuple(replace(each, proved=each.rule in proved) for each in words)
        for words in found.shortfalls
    )
    excluded = found.excluded or bool(proved) or why.excludes
    return replace(found, shortfalls=shortfalls, excluded=excluded, explanation=why)


def _find_variants(
    job: Job, spec: PlanSpec, model: PlanModel | NearSearch, stop_asked: StopAsked
) -> tuple[bool | None, tuple[FloorPlan, ...]]:
    """Search one model for up to ``job.variants`` plans: the answer of ``BoxModel.solve`` and the
    plans. Plans with ``_flaws`` come last, and spare variants replace them; near an earlier plan
    the nearest comes first."""
    answer: bool | None = None
    polish, spare = (_POLISH if spec.rules.rules else _POLISH_ALONE), _SPARE
    if isinstance(model, NearSearch):
        polish, spare = _LEAST_CHANGE, 0
    elif model.entered:  # other plans are searched too, most often in a free outline
        spare = int(spec.outline.boundary is not None)
    plans: list[FloorPlan] = []
    others: dict[Boxes, tuple[frozenset[str], FloorPlan]] = {}
    with progress.calls(name="variant") as going:
        going.expect(job.variants, exact=False)
        for turn in range(job.variants + spare):
            if turn > 0 and stop_asked():
                break
            seed = job.seed + turn
            if turn < job.variants:
                if job.variants > 1:
                    going.begin()
            # a spare plan has to keep as many rules, or without rules as many areas
            elif isinstance(model, PlanModel):
                left_out = spec.dropped_for_rules if spec.rules.rules else NOTHING
                if not model.search.meets(EFFORT, seed, model.search.missed | left_out):
                    break
            found, boxes = model.find_best(EFFORT, polish, seed)
            answer = found if turn == 0 else answer
            if boxes is None:
                break
            # a plan with flaws is set aside
            plan = plan_from_boxes(job.diagram, spec, boxes, stays=job.near is not None)
            flaws = _flaws(plan, spec, model) if isinstance(model, PlanModel) else frozenset()
            if flaws:
                others.setdefault(boxes, (flaws, plan))
            else:
                plans.append(plan)
            if len(plans) == job.variants:
                break
            # the next plan has to differ; a spare one may have to be more compact instead
            to_tighten = turn >= job.variants - 1 and not flaws.isdisjoint({"compact", "slits"})
            if not (to_tighten and isinstance(model, PlanModel) and model.outline.tighten()):
                model.differ_from(boxes)
    flawed = sorted(others.values(), key=lambda each: len(each[0]))
    return answer, tuple([*plans, *(plan for _, plan in flawed)][: job.variants])


def _flaws(plan: FloorPlan, spec: PlanSpec, model: PlanModel) -> frozenset[str]:
    """Rules that a plan breaks although their soft constraints hold; "floors" if one is split."""
    split = {"floors"} if rooms_with_split_floors(plan) else set()
    is_met = model.search.missed <= WITHOUT_RULES
    broken = {rule for rule, _ in judge(plan, spec.rules).broken} if is_met else set()
    return frozenset(split | broken)


def _missing_variants(job: Job, plans: Sequence[FloorPlan]) -> tuple[Shortfall, ...]:
    """Shortfall that there are fewer plans than ``variants``; empty if there are enough."""
    text = f"{len(plans)} of {job.variants} variants were found"
    return (Shortfall(text, demand="variants"),) if len(plans) < job.variants else ()


def explain_conflicts(job: Job, broken: Collection[int] = ()) -> Explanation:
    """Explain why no plan of a job keeps all rules, for any shapes and areas above the minimum
    sizes of the rules, and search for a relation to change. ``broken``: rooms that break rules in
    the best plan."""
    model, seed = partial(PlanModel, job.diagram.rooms, job.diagram.relations, job.spec), job.seed
    search = model().search
    needed = search.conflicting_requirements(EFFORT, seed, WITHOUT_RULES)
    conflicts: list[Conflict] = []
    with_hall = None
    if job.hall:
        with_hall = model(hall=True).search
    # a conflict that a hall does not resolve, or else one for each case
    if needed and (with_hall is None or with_hall.is_infeasible(needed, EFFORT, seed)):
        conflicts.append(Conflict(needed))
    elif with_hall is not None:
        conflicts += [Conflict(needed, hall=False)] if needed else []
        needed = with_hall.conflicting_requirements(EFFORT, seed, WITHOUT_RULES)
        conflicts += [Conflict(needed, hall=True)] if needed else []
    # a hall behind the front door may resolve those of all cases
    if job.wants_hall and Explanation(tuple(conflicts), None).excludes:
        together = {one for each in conflicts for one in each.requirements}
        if not model(hall=True, entered=True).search.is_infeasible(together, EFFORT, seed):
            conflicts = [replace(each, hall=False) for each in conflicts if not each.hall]
    # a pair whose relation could be another
    concerned = {room for each in conflicts for one in each.requirements for room in one.rooms}
    instead = _find_other_relation(job, concerned or broken)
    return Explanation(tuple(conflicts), instead)


def _find_other_relation(job: Job, concerned: Collection[int]) -> tuple[Member, Member] | None:
    """Find a relation of a pair, and its replacement with which a plan keeps all rules."""
    diagram, spec = job.diagram, job.spec
    codes = {(i, j): code for i, j, code in diagram.relations}
    pairs = sorted(
        combinations(range(diagram.num_rooms), 2),
        key=lambda pair: (-sum(room in concerned for room in pair), pair not in codes),
    )
    left = _EFFORT_INSTEAD
    for pair in pairs:
        if left <= 0:
            break
        # leave the pair open and see what the solver chooses
        others = [relation for relation in diagram.relations if relation[:2] != pair]
        model = PlanModel(diagram.rooms, others, spec, unknown=[pair])
        found = model.search.solve_all(spec.dropped_for_rules, _EFFORT_EACH, job.seed)
        left -= found.spent
        if found.boxes is None:
            continue
        # check the relation on the plan itself
        metres = np.array(found.boxes) / PER_METRE
        code = int(relations_from_boxes(metres, threshold_of("metres", None))[pair])
        new = tuple(sorted([*others, *([(*pair, code)] if code != NO_EDGE else [])]))
        plan = plan_from_boxes(replace(diagram, relations=new), spec, found.boxes)
        if plan.honours_diagram and not judge(plan, spec.rules).broken:
            return (*pair, codes.get(pair, NO_EDGE)), (*pair, code)
    return None
