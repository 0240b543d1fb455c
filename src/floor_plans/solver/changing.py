"""``Change``: locks, moved walls and requests for an earlier plan, and the new plan."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from random import Random
from typing import Any

from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.plans.contradiction import room_names
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.plans.outline import FREE, PER_METRE, Outline
from floor_plans.rules.finding import added_rooms, remove_halls
from floor_plans.solver.near_search import LOCKS, PLACE, SIDES, EarlierPlan
from floor_plans.solver.realised import Job, Realised
from floor_plans.solver.realising import realise
from floor_plans.solver.requests import CHANGE_KEYS, PlanRequest, given_areas

_SAME = 0.006  # square metres lost by rounding written areas


@dataclass(frozen=True)
class Change:
    """Change of an earlier ``plan``, which the new plan should stay near to.

    ``locked``: "place" (the box stays) or "size" (its width and height) by room. ``areas``:
    requested square metres by room; areas of other rooms are free. ``moved``: new coordinate of a
    side, in metres of the plan, by room and side ("left", "top", "right", "bottom"; y grows
    downwards). Rooms are numbered as in the plan. Lengths are kept to a decimetre.

    Raises ``ValueError`` if a room does not exist, or requests for it contradict each other.
    """

    plan: FloorPlan
    locked: Mapping[int, str] = field(default_factory=dict)
    areas: Mapping[int, float] = field(default_factory=dict)
    moved: Mapping[tuple[int, str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        num, moved = self.plan.diagram.num_rooms, [room for room, _ in self.moved]
        named = [*(("locked", room) for room in self.locked), *(("moved", room) for room in moved)]
        for key, room in named:
            if not 0 <= room < num:
                raise ValueError(
                    f"{key}: room {room}, but the earlier plan has rooms 0 to {num - 1}"
                )
        for room, lock in self.locked.items():
            if lock not in LOCKS:
                raise ValueError(f"locked: room {room}: {lock!r}, expected {' or '.join(LOCKS)}")
            if room in self.areas:
                raise ValueError(f"areas: room {room} is locked; unlock it or leave its area out")
            if lock == PLACE and room in moved:
                raise ValueError(f"moved: the place of room {room} is locked; unlock it")
        for (room, side), to in self.moved.items():
            if side not in SIDES:
                raise ValueError(f"moved: room {room}: {side!r}, expected {', '.join(SIDES)}")
            if not math.isfinite(to):
                raise ValueError(f"moved: room {room}: {to}, expected metres")
        for room, area in self.areas.items():
            if not (math.isfinite(area) and area > 0):
                raise ValueError(f"areas: room {room}: {area}, expected square metres above 0")

    @classmethod
    def read(cls, plan: FloorPlan, locked: Any, areas: Mapping[int, float], moved: Any) -> Change:
        """Read a change from JSON: ``locked`` [{"room": 1, "keep": "place"}, ...] and ``moved``
        [{"room": 1, "side": "left", "to": 3.5}, ...]. Raises ``DiagramError`` naming the wrong
        entry."""
        locks = _checked_entries("locked", locked or [], {"room": int, "keep": str})
        moves = _checked_entries(
            "moved", moved or [], {"room": int, "side": str, "to": (int, float)}
        )
        return cls(
            plan,
            {each["room"]: each["keep"] for each in locks},
            areas,
            {(each["room"], each["side"]): float(each["to"]) for each in moves},
        )

    def job(self, request: PlanRequest | None = None, diagram: BubbleDiagram | None = None) -> Job:
        """Return the job of the change. ``diagram``: another diagram, in which rooms keep their
        numbers and further rooms are new. Raises ``ValueError`` if rooms with locked places do not
        have the relation of the diagram there, or a field is wrong."""
        request = PlanRequest() if request is None else request
        # an added hall is the last room
        own = remove_halls(self.plan.diagram)
        added, last = added_rooms(self.plan.diagram), self.plan.diagram.num_rooms - 1
        if added and list(added) != [last]:
            raise ValueError('near: "added" of the earlier plan: expected its last room alone')
        diagram = own if diagram is None else remove_halls(diagram)
        # number of each earlier room in the new diagram
        shared = min(own.num_rooms, diagram.num_rooms)
        number = {room: room for room in range(shared)}
        if added:
            number[last] = diagram.num_rooms
        # locked and moved rooms still exist
        lost = [room for room in [*self.locked, *(r for r, _ in self.moved)] if room not in number]
        if lost:
            raise ValueError(f"locked, moved: room {lost[0]} is not in the diagram any more")
        if wrong := [room for room in self.areas if not 0 <= room < diagram.num_rooms]:
            raise ValueError(f"areas: room {wrong[0]} is none of the diagram's")
        self._check_relations(diagram, shared)
        # the job without the earlier plan: areas are requested, those of the plan, or sampled
        new = request.areas.draw(diagram.rooms, Random(f"{request.seed} 1"))
        areas = [
            self.areas.get(room, self.plan.areas[room] if room < shared else new[room])
            for room in range(diagram.num_rooms)
        ]
        left_out = ("boundary", *CHANGE_KEYS)
        kept = {key: value for key, value in diagram.metadata.items() if key not in left_out}
        sized = replace(request, outline=self._new_outline(request.outline), total_area=None)
        job = sized.job(1, replace(diagram, metadata={**kept, "areas": areas}))

        # the earlier plan on the grid of the solver, in decimetres from its origin
        def on_grid(metres: float, axis: int) -> int:
            return round((metres - job.spec.outline.origin[axis]) * PER_METRE)

        boxes: list[tuple[int, int, int, int] | None] = [None] * (diagram.num_rooms + bool(added))
        for room, k in number.items():
            assert self.plan.diagram.boxes is not None  # of a plan
            x0, y0, x1, y1 = self.plan.diagram.boxes[room]
            boxes[k] = (on_grid(x0, 0), on_grid(y0, 1), on_grid(x1, 0), on_grid(y1, 1))
        moved = {
            (number[room], side): on_grid(to, SIDES.index(side) % 2)
            for (room, side), to in self.moved.items()
        }
        locked = {number[room]: lock for room, lock in self.locked.items()}
        further = frozenset(range(shared, diagram.num_rooms))
        wanted = further.union(self.areas)
        near = EarlierPlan(tuple(boxes), locked, moved, wanted, bool(added))
        spec = replace(job.spec, typical=further.difference(self.areas))
        return replace(job, spec=spec, other_areas=(), hall=False, near=near)

    def _new_outline(self, requested: Outline) -> Outline:
        """Requested outline, or else that of the plan; a long free one keeps its ratio."""
        if requested != FREE or self.plan.boundary is not None:
            return requested if requested != FREE else Outline(boundary=self.plan.boundary)
        x0, y0, x1, y1 = self.plan.outline.bounds
        ratio = (x1 - x0) / (y1 - y0)
        return FREE if 1 / FREE.elongation <= ratio <= FREE.elongation else Outline(ratio=ratio)

    def _check_relations(self, diagram: BubbleDiagram, shared: int) -> None:
        """Raise ``ValueError`` if two rooms with locked places do not have their relation there."""
        boxes = (self.plan.diagram.boxes or ())[:shared]
        relations = tuple(each for each in diagram.relations if max(each[:2]) < shared)
        placed = FloorPlan(BubbleDiagram(diagram.rooms[:shared], relations, boxes))
        stay = {room for room, lock in self.locked.items() if lock == PLACE}
        names = room_names(diagram)
        for i, j in placed.misread_pairs():
            if {i, j} <= stay:
                raise ValueError(
                    f"locked: {names[i]} and {names[j]} keep their places, where they do not lie "
                    "to each other as the diagram says; unlock one of them, or change the relation"
                )


def change_plan(
    change: Change, request: PlanRequest | None = None, *, diagram: BubbleDiagram | None = None
) -> Realised:
    """Change a plan as little as a request needs; see ``Change.job``. Returns the ``plans`` that
    change least, or the ``reason`` why there is none. Raises ``ValueError`` if requests contradict
    each other, or without OR-Tools; ``ImportError`` without shapely."""
    return realise(change.job(request, diagram))


def changed_jobs(
    request: PlanRequest,
    diagrams: Sequence[BubbleDiagram],
    near: Sequence[FloorPlan | None],
    places: Sequence[str],
) -> list[Job]:
    """Return a job for each diagram, near the plan of the same index, if that is not None. A
    diagram's metadata may hold "locked" and "moved" (see ``Change.read``), and "areas" and
    "boundary", which count as requested if they differ from the plan's. Raises ``DiagramError``
    naming the place, out of ``places``, of a wrong diagram."""
    found = []
    for number, (diagram, plan) in enumerate(zip(diagrams, near, strict=True), start=1):
        try:
            if plan is None:
                found.append(request.job(number, diagram))
                continue
            for key in diagram.metadata:
                close = get_close_matches(key, CHANGE_KEYS, 1, 0.8)
                if close and key not in CHANGE_KEYS:
                    raise DiagramError(
                        key, f"did you mean {close[0]!r}? Nothing is read from {key!r}"
                    )
            locked, moved = (diagram.metadata.get(key) for key in CHANGE_KEYS)
            # areas that differ from the earlier plan's
            known = plan.areas[: remove_halls(plan.diagram).num_rooms]
            drawn = remove_halls(diagram)
            given = given_areas(drawn.metadata.get("areas"), drawn.num_rooms)
            areas = {
                room: area
                for room, area in enumerate(given)
                if area is not None and (room >= len(known) or abs(area - known[room]) > _SAME)
            }
            # a boundary, unless the earlier plan has the same one
            outline = Outline(boundary=diagram.metadata.get("boundary"))
            is_new = outline.boundary not in (None, plan.boundary)
            own = replace(request, outline=outline) if is_new else request
            found.append(Change.read(plan, locked, areas, moved).job(own, diagram))
        except ValueError as error:
            raise DiagramError("", f"{places[number - 1]}, {error}") from error
    return found


def _checked_entries(key: str, entries: Any, types: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """Return the entries; ``DiagramError`` unless all are objects with exactly these fields."""
    if not isinstance(entries, list):
        raise DiagramError(key, f"expected a list, got {reprlib.repr(entries)}")
    for k, entry in enumerate(entries):
        if (
            not isinstance(entry, dict)
            or entry.keys() != types.keys()
            or not all(isinstance(entry[name], kind) for name, kind in types.items())
        ):
            names = ", ".join(types)
            raise DiagramError(
                f"{key}[{k}]", f"expected an object of {names}, got {reprlib.repr(entry)}"
            )
    return entries
