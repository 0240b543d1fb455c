"""``PlanModel``: a dimensioned plan of a diagram: its rooms, an outline, and walls for doors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise, product
from typing import Any

from discrete_diffusion.domains.bubble_diagrams.plans.box_model import (
    AXES,
    CONTAIN,
    Boxes,
    Relations,
)
from discrete_diffusion.domains.bubble_diagrams.plans.outline import PER_METRE
from discrete_diffusion.domains.bubble_diagrams.plans.room_model import (
    Demands,
    RoomModel,
    within,
)
from discrete_diffusion.domains.bubble_diagrams.rooms import ROOM_TYPES

_LIVING, _BALCONY, _ENTRANCE = map(ROOM_TYPES.index, ("LivingRoom", "Balcony", "Entrance"))

_NO_PASSAGE = tuple(map(ROOM_TYPES.index, ("Bathroom", "Balcony", "Storage", "Wall-in")))
"""Rooms that one does not walk through to another, if their relations leave a choice."""

_PUBLIC = tuple(map(ROOM_TYPES.index, ("LivingRoom", "DiningRoom", "Entrance")))

_SLIT, _DETOUR = 50, 300
"""Square decimetres that two related rooms cost which share no wall, and a room other than a
bathroom, balcony or storage that is reached through a private one."""

DOOR_WALL = 10
"""Decimetres of wall that two rooms share, or that lead outside, where a door fits."""

_JOG, _NEARLY = 100, 8
"""Square decimetres that a wall out of line costs, and decimetres that make it so."""


class PlanModel(RoomModel):
    """All plans of a diagram that meet the demands, with as little dead area as can be found.

    Minimises 2 x (area of the outline - area of all floors) + sum of |floor - target|, and with
    doors costs of slits between related rooms and of ways through private ones. Boxes meet in the
    middle of walls.
    """

    def __init__(self, rooms: Sequence[int], relations: Relations, demands: Demands) -> None:
        relations = tuple(relations)
        super().__init__(rooms, relations, demands)
        if demands.tolerance is not None:  # of the sum of all areas, half as much
            least, most = within(sum(demands.areas), demands.tolerance / 2)
            self.model.add_linear_constraint(sum(self.floors), least, most)
        self.size = self._add_outline()
        dead = self._outline_area() - sum(self.floors)
        self._cost = 2 * dead + sum(self._deviations())
        if demands.doors:
            self._cost += sum(self._add_doors(relations))

    def best(self, effort: float, polish: float, seed: int) -> tuple[bool | None, Boxes | None]:
        """Answer of ``solve``, and the best plan found in ``polish`` units of
        the solver's time after the first: a third of them goes into straightening its walls."""
        self.model.clear_objective()
        answer, boxes = self.solve(effort, seed=seed)
        if boxes is None:
            return answer, None
        self.model.clear_hints()
        self.model.minimize(self._cost)
        boxes = self.solve(2 / 3 * polish, seed=seed, hint=boxes)[1] or boxes
        self.model.clear_hints()
        self.model.minimize(self._cost + _JOG * sum(self._jogs(boxes)))
        return True, self.solve(polish / 3, seed=seed, hint=boxes)[1] or boxes

    def _jogs(self, boxes: Boxes) -> Iterable[Any]:
        """Literals: walls that lie nearly in a line in ``boxes`` do not lie in one line."""
        for axis in AXES:
            lines: dict[int, list[Any]] = {}
            for i, box in enumerate(boxes):
                lines.setdefault(box[axis], []).append(self.low[axis][i])
                lines.setdefault(box[axis + 2], []).append(self.high[axis][i])
            for first, second in pairwise(sorted(lines)):
                if second - first <= _NEARLY:
                    for a, b in product(lines[first], lines[second]):
                        jog = self.model.new_bool_var("")
                        self.model.add(a == b).only_enforce_if(jog.negated())
                        self.model.add_hint(jog, True)
                        yield jog
                for a, b in pairwise(lines[first]):
                    jog = self.model.new_bool_var("")
                    self.model.add(a == b).only_enforce_if(jog.negated())
                    self.model.add_hint(jog, False)
                    yield jog

    def differ_from(self, boxes: Boxes) -> None:
        """Half of the rooms, at least one, have a side a metre or more away from where it is in
        ``boxes``."""
        moved = []
        for i, sides in enumerate(boxes):
            variables = (self.low[0][i], self.low[1][i], self.high[0][i], self.high[1][i])
            ways = []
            for variable, value in zip(variables, sides, strict=True):
                ways += [self._if(variable <= value - PER_METRE)]
                ways += [self._if(variable >= value + PER_METRE)]
            moved.append(moves := self.model.new_bool_var(""))
            self.model.add_bool_or(ways).only_enforce_if(moves)
        self.model.add(sum(moved) >= (len(moved) + 1) // 2)

    def _add_outline(self) -> tuple[Any, Any]:
        outline, grid = self.demands.outline, self.rule.grid
        width, height = (self.model.new_int_var(0, grid, "") for _ in AXES)
        for axis, end in enumerate((width, height)):
            self.model.add_max_equality(end, self.high[axis])
        if outline.boundary is not None:
            for end, most in zip((width, height), outline.size, strict=True):
                self.model.add(end <= most)
            for i, (x0, y0, x1, y1) in product(range(len(self.rooms)), outline.closed):
                sides = [self.high[0][i] <= x0, self.low[0][i] >= x1]
                sides += [self.high[1][i] <= y0, self.low[1][i] >= y1]
                self.model.add_bool_or([self._if(side) for side in sides])
            return width, height
        for axis in AXES:
            self.model.add_min_equality(0, self.low[axis])
        if outline.ratio is None:
            self.model.add(width <= 2 * height)
            self.model.add(height <= 2 * width)
        else:  # to within 2 %
            self.model.add(1000 * width <= math.ceil(1020 * outline.ratio) * height)
            self.model.add(1000 * width >= math.floor(980 * outline.ratio) * height)
        return width, height

    def _outline_area(self) -> Any:
        if self.demands.outline.boundary is not None:
            return round(self.demands.outline.area * PER_METRE**2)
        area = self.model.new_int_var(0, self.rule.grid**2, "")
        self.model.add_multiplication_equality(area, self.size)
        self.model.add(area >= sum(self.floors))
        return area

    def _deviations(self) -> Iterable[Any]:
        for floor, area in zip(self.floors, self.demands.areas, strict=True):
            target = round(area * PER_METRE**2)
            off = self.model.new_int_var(0, max(target, self.rule.grid**2), "")
            self.model.add_abs_equality(off, floor - target)
            yield off

    def _add_doors(self, relations: Relations) -> list[Any]:
        """A tree of doors from the root; a room inside another has its door to it. What slits and
        detours cost."""
        inside, costs = self.inside, []
        num = len(self.rooms)
        root = next((self.rooms.index(r) for r in (_ENTRANCE, _LIVING) if r in self.rooms), 0)
        doors: dict[frozenset[int], Any] = {frozenset(pair): None for pair in inside}
        for i, j, code in relations:
            if code not in CONTAIN:
                doors[frozenset((i, j))] = shared = self._shared_wall(i, j)
                costs.append(_SLIT * shared.negated())
        depth = [self.model.new_int_var(0, num - 1, "") for _ in range(num)]
        for i in [i for i in range(num) if i != root]:
            near = [j for j in range(num) if frozenset((i, j)) in doors]
            through = [j for j in near if self.rooms[j] not in _NO_PASSAGE or j == root] or near
            parents = []
            for j in through:
                parents.append(parent := self._if(depth[i] >= depth[j] + 1))
                if self.rooms[j] not in _PUBLIC and self.rooms[i] not in _NO_PASSAGE:
                    costs.append(_DETOUR * parent)
                door = doors[frozenset((i, j))]
                if door is not None:
                    self.model.add_implication(parent, door)
            if parents:  # a room without relations has no door
                self.model.add_bool_or(parents)
        if root not in {u for u, _ in inside}:
            self._add_on_outline(root)
        for i, room in enumerate(self.rooms):
            if room == _BALCONY and i not in {u for u, _ in inside}:
                self._add_on_outline(i)
        return costs

    def _shared_wall(self, i: int, j: int) -> Any:
        """A literal: they share a piece of wall where a door fits."""
        ways = []
        for a, (u, v) in product(AXES, ((i, j), (j, i))):
            o = 1 - a
            ways.append(
                self._if(
                    self.high[a][u] == self.low[a][v],
                    self.high[o][u] - self.low[o][v] >= DOOR_WALL,
                    self.high[o][v] - self.low[o][u] >= DOOR_WALL,
                )
            )
        ways += [self.in_corner[pair] for pair in ((i, j), (j, i)) if pair in self.in_corner]
        shared = self.model.new_bool_var("")
        self.model.add_bool_or(ways).only_enforce_if(shared)
        return shared

    def _add_on_outline(self, i: int) -> None:
        """A side lies on the box around the plan; in a boundary too, or its side does not count."""
        if self.demands.outline.boundary is not None:
            return
        sides = [self.low[a][i] == 0 for a in AXES]
        sides += [self.high[a][i] == end for a, end in zip(AXES, self.size, strict=True)]
        self.model.add_bool_or([self._if(side) for side in sides])
