"""``realise``: from a diagram to a dimensioned floor plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram
from discrete_diffusion.domains.bubble_diagrams.geometry import in_metres
from discrete_diffusion.domains.bubble_diagrams.plans.box_model import Boxes, cp_sat
from discrete_diffusion.domains.bubble_diagrams.plans.contradiction import contradiction
from discrete_diffusion.domains.bubble_diagrams.plans.door_placement import find_doors, unreached
from discrete_diffusion.domains.bubble_diagrams.plans.floor_plan import FloorPlan
from discrete_diffusion.domains.bubble_diagrams.plans.outline import FREE, PER_METRE
from discrete_diffusion.domains.bubble_diagrams.plans.plan_model import PlanModel
from discrete_diffusion.domains.bubble_diagrams.plans.room_model import Demands
from discrete_diffusion.domains.bubble_diagrams.plans.room_sizes import has_usual_shapes
from discrete_diffusion.domains.bubble_diagrams.plans.rules.judging import judge
from discrete_diffusion.domains.bubble_diagrams.plans.threads import map_shared
from discrete_diffusion.domains.bubble_diagrams.plans.verdict import find_boxes

_EFFORT, _POLISH = 0.6, 0.2
"""Efforts of the solver, see ``BoxModel.solve``: to find a first plan, and to better it."""

_OTHERS = 4
"""Plans that are looked for in the place of those with a floor in several parts."""

_EFFORT_WHY = 0.3
"""Effort of each use of the solver, to say why there is no plan."""

_ROUNDING = 1e-6


@dataclass(frozen=True)
class Job:
    """A plan to find: of ``diagram``, as ``demands`` say, ``variants`` different ones.

    ``other_areas``: targets that will do as well, where those of the demands leave no plan.
    """

    diagram: BubbleDiagram
    demands: Demands
    variants: int = 1
    seed: int = 0
    other_areas: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True)
class Realised:
    """``plans``: the best first, for the target areas ``areas``. ``shortfalls``: of each plan, in
    words, the demands that it does not meet. ``reason``: why there is no plan, in words.
    """

    plans: tuple[FloorPlan, ...] = ()
    areas: tuple[float, ...] = ()
    shortfalls: tuple[tuple[str, ...], ...] = ()
    reason: str = ""

    @property
    def given_up(self) -> tuple[str, ...]:
        """Requests that any of the plans does not meet."""
        return tuple(dict.fromkeys(word for words in self.shortfalls for word in words))


def realise(job: Job) -> Realised:
    """A dimensioned plan of a diagram: the relations of its boxes are exactly the diagram's, and no
    two rooms overlap unless a relation says that one is inside the other.

    Wishes are met by their layers (``Layer``), as many as are found together. Where areas are given
    up, other ones are tried, and of all plans the one that gives up least is kept. The outline is
    never given up; nor are relations. A diagram that is "buildable" has a plan at least in a free
    outline: at worst the boxes of ``find_boxes``, in sizes that nobody requested.

    Raises ``ValueError`` without OR-Tools, ``ImportError`` without shapely.
    """
    cp_sat()
    decided, best = True, None
    for areas in (job.demands.areas, *job.other_areas):
        demands = replace(job.demands, areas=areas)
        model = PlanModel(job.diagram.rooms, job.diagram.relations, demands)
        answer, plans = _best(job, demands, model)
        decided = decided and answer is False
        if plans:
            found = Realised(plans, areas, tuple(_shortfalls(demands, plan) for plan in plans))
            if best is None or len(found.given_up) < len(best.given_up):
                best = found
            if not any("areas" in word for word in found.given_up):
                break
    if best is not None:
        fewer = _fewer(job, best.plans)
        return replace(best, shortfalls=tuple(words + fewer for words in best.shortfalls))
    answer, boxes = find_boxes(job.diagram, "buildable")
    if answer is False:
        why = contradiction(job.diagram, effort=_EFFORT_WHY)
        return Realised(reason="no floor plan exists" + (f": {why.sentence()}" if why else ""))
    if boxes is None:
        return Realised(reason="no floor plan was found, and none was ruled out in time")
    if job.demands.outline == FREE:
        plan = find_doors(FloorPlan(replace(job.diagram, boxes=in_metres(boxes, "pixels"))))
        areas = job.demands.areas
        shortfalls = (_shortfalls(job.demands, plan) + _fewer(job, [plan]),)
        return Realised((plan,), areas, shortfalls)
    if decided:
        return Realised(reason="no plan with rooms of half a metre or more fits the outline")
    return Realised(reason="no plan was found that fits the outline")


def _best(
    job: Job, demands: Demands, model: PlanModel
) -> tuple[bool | None, tuple[FloorPlan, ...]]:
    """Answer of ``BoxModel.solve``, and up to ``job.variants``. One with a
    floor in several parts is kept only where a few others have one too."""
    answer: bool | None = None
    plans: list[FloorPlan] = []
    divided: list[FloorPlan] = []
    for turn in range(job.variants + _OTHERS):
        found, boxes = model.best(_EFFORT, _POLISH, job.seed + turn)
        answer = found if turn == 0 else answer
        if boxes is None:
            break
        plan = _plan(job.diagram, demands, boxes)
        (divided if rooms_with_split_floors(plan) else plans).append(plan)
        if len(plans) == job.variants:
            break
        model.differ_from(boxes)
    return answer, tuple([*plans, *divided][: job.variants])


def rooms_with_split_floors(plan: FloorPlan) -> list[int]:
    """Rooms whose floor the rooms inside it cut into several parts."""
    return [k for k, floor in enumerate(plan.rooms) if floor.geom_type != "Polygon"]


def realise_all(jobs: Sequence[Job], *, threads: int = 1) -> Iterator[Realised]:
    """``realise`` each, in their order, see ``map_shared``."""
    cp_sat()
    return map_shared(realise, jobs, threads=threads, doing="finding plans")


def _plan(diagram: BubbleDiagram, demands: Demands, boxes: Boxes) -> FloorPlan:
    """Plan in metres, with the doors that its walls have room for."""
    x, y = demands.outline.origin
    if demands.outline.boundary is None:
        boxes = _at_the_origin(boxes)
    metres = [
        (x + x0 / PER_METRE, y + y0 / PER_METRE, x + x1 / PER_METRE, y + y1 / PER_METRE)
        for x0, y0, x1, y1 in boxes
    ]
    placed = replace(diagram, boxes=tuple(metres))
    return find_doors(FloorPlan(placed, boundary=demands.outline.boundary))


def _at_the_origin(boxes: Boxes) -> Boxes:
    x, y = min(box[0] for box in boxes), min(box[1] for box in boxes)
    return tuple((x0 - x, y0 - y, x1 - x, y1 - y) for x0, y0, x1, y1 in boxes)


def _fewer(job: Job, plans: Sequence[FloorPlan]) -> tuple[str, ...]:
    """Sentence that there are fewer plans than ``variants``."""
    num = len(plans)
    return (f"{num} of {job.variants} variants were found",) if num < job.variants else ()


def _shortfalls(asked: Demands, plan: FloorPlan) -> tuple[str, ...]:
    """Requests that the plan does not meet, judged by the plan alone."""
    words = []
    off = plan.largest_area_error(asked.areas)
    if off > asked.tolerance + _ROUNDING:
        words.append(f"areas are up to {off:.0%} off their targets")
    if not has_usual_shapes(plan, asked.areas):
        words.append("rooms are narrower or longer than usual")
    names = plan.diagram.room_names
    if rooms := unreached(plan):
        words.append(f"no door leads to {', '.join(names[room] for room in rooms)}")
    if parts := rooms_with_split_floors(plan):
        words.append(f"the floor of {', '.join(names[room] for room in parts)} is in parts")
    broken = judge(plan, asked.rules).broken
    return (*words, *(f"{rule}: {finding.found}" for rule, finding in broken))
