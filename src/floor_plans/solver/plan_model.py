"""``PlanModel``: floor plans of a diagram, with an outline, walls for doors, and an objective."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise, product
from typing import Any, Unpack

from floor_plans.diagrams.rooms import ROOM_TYPES
from floor_plans.plans.box_model import AXES, CONTAIN, Boxes, Relations
from floor_plans.plans.outline import PER_METRE
from floor_plans.plans.soft_constraints import Priority, Requirement
from floor_plans.rules.finding import TOLERANCE
from floor_plans.solver.outline_model import HIGH, LOW
from floor_plans.solver.room_model import ModelOptions, PlanSpec, SoftConstraint
from floor_plans.solver.soft_model import SoftModel

_LIVING, _ENTRANCE, _KITCHEN = map(ROOM_TYPES.index, ("LivingRoom", "Entrance", "Kitchen"))

_NO_PASSAGE = tuple(map(ROOM_TYPES.index, ("Bathroom", "Balcony", "Storage", "Wall-in")))
"""Rooms that are not walked through, if the relations leave a choice."""

_PUBLIC = tuple(map(ROOM_TYPES.index, ("LivingRoom", "DiningRoom", "Entrance")))

_SLIT, _DETOUR = 50, 300
"""Penalties in square decimetres: for related rooms without a shared wall, and for a room reached
through a private one."""

DOOR_WALL = 10
"""Decimetres of wall that a door needs."""

FRONT_WALL = 12
"""Decimetres of outer wall that a front door needs."""

_DARK, _WINDOW_WALL = 150, 12
"""Penalty in square decimetres for a kitchen without facade, and the decimetres of facade that it
needs."""

_CUT = 100
"""Penalty in square decimetres for a cut in a corner of a free outline."""

_SHADE = 4
"""Penalty in square decimetres per half decimetre that a living room lies further north."""

_MISSED = 300
"""Penalty in square decimetres for a soft constraint that the first incumbent violates."""

_JOG, _NEARLY = 100, 8
"""Penalty in square decimetres for walls out of line, and the decimetres up to which walls are
nearly in line."""


class PlanModel(SoftModel):
    """Floor plans of a diagram in an outline. Soft constraints are satisfied by priority.

    The objective is 2 x (area of the outline - area of all floors) + sum of |floor - target|, plus
    penalties. These are for slits between related rooms, access through private rooms, recesses,
    kitchens without facade, and living rooms in the north. Boxes end in the middle of walls.
    """

    def __init__(
        self,
        rooms: Sequence[int],
        relations: Relations,
        spec: PlanSpec,
        **free: Unpack[ModelOptions],
    ) -> None:
        relations = tuple(relations)
        super().__init__(rooms, relations, spec, **free)
        # the objective
        self._cost = 2 * self.dead + sum(self._deviations())
        self._cost += _CUT * sum(cut.is_used for cut in self.cuts)
        if spec.north is not None:
            self._cost += sum(self._north_costs(spec.north))
        if self._rule("facade") is not None:
            self._cost += sum(self._dark_kitchens())
        if self.hall is not None:
            self._cost += 2 * self.floors[self.hall]
        self._cost += sum(self._add_doors(relations))

    def find_best(
        self, effort: float, polish: float, seed: int
    ) -> tuple[bool | None, Boxes | None]:
        """Find the best plan within the efforts given. Returns the answer of ``solve`` and the
        boxes.

        ``effort`` goes into satisfying soft constraints, which then stay satisfied. ``polish`` goes
        into the objective: near the incumbent, anywhere, near it again, and at last into straight
        walls.
        """
        answer, boxes = self._satisfy_soft(effort, seed)
        if boxes is None:
            return answer, None
        # violated soft constraints become penalties
        cost = self._cost + _MISSED * sum(constraint.negated() for constraint in self._fix_met())
        each = polish / 4
        # local search, global search, local search
        self.model.minimize(cost)
        boxes, least, _ = self._improve_nearby(boxes, math.inf, each, seed)
        boxes, least = self._improve(boxes, least, each, seed, light=True)
        boxes, least, _ = self._improve_nearby(boxes, least, each, seed)
        # straighten the walls
        self.model.minimize(cost + _JOG * sum(self._jogs(boxes)))
        return True, self._improve_nearby(boxes, math.inf, each, seed)[0]

    def _jogs(self, boxes: Boxes) -> Iterable[Any]:
        """Literals that walls nearly in line in ``boxes`` are out of line."""
        for axis in AXES:
            lines: dict[int, list[Any]] = {}
            for i, box in enumerate(boxes):
                lines.setdefault(box[axis], []).append(self.low[axis][i])
                lines.setdefault(box[axis + 2], []).append(self.high[axis][i])
            for first, second in pairwise(sorted(lines)):
                # different lines that could become one
                if second - first <= _NEARLY:
                    for a, b in product(lines[first], lines[second]):
                        jog = self.model.new_bool_var("")
                        self.model.add(a == b).only_enforce_if(jog.negated())
                        self.model.add_hint(jog, True)
                        yield jog
                # walls that are in line already
                for a, b in pairwise(lines[first]):
                    jog = self.model.new_bool_var("")
                    self.model.add(a == b).only_enforce_if(jog.negated())
                    self.model.add_hint(jog, False)
                    yield jog

    def differ_from(self, boxes: Boxes) -> None:
        """Add that half of the rooms, at least one, have a side a metre or more from its place in
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

    def _north_costs(self, north: float) -> Iterable[Any]:
        """Costs of living rooms north of the plan's middle; negative south of it."""
        turned = math.radians(north)
        way = round(_SHADE * math.sin(turned)), -round(_SHADE * math.cos(turned))
        for i, room in enumerate(self.rooms):
            if room == _LIVING:
                for a in AXES:
                    yield way[a] * (self.low[a][i] + self.high[a][i] - self.size[a])

    def _dark_kitchens(self) -> Iterable[Any]:
        """Penalties for kitchens without facade, where rules do not require windows."""
        for i, room in enumerate(self.rooms):
            if room == _KITCHEN:
                yield _DARK * self.outer_wall(i, _WINDOW_WALL).negated()

    def _deviations(self) -> Iterable[Any]:
        """Absolute deviations of floors from their targets, in square decimetres."""
        own = self.floors[: len(self.spec.areas)]
        for floor, area in zip(own, self.spec.areas, strict=True):
            target = round(area * PER_METRE**2)
            off = self.model.new_int_var(0, max(target, self.rule.grid**2), "")
            self.model.add_abs_equality(off, floor - target)
            yield off

    def _add_doors(self, relations: Relations) -> list[Any]:
        """Add a tree of doors from the root, through common rooms where the rules require it, and
        return the costs of slits and detours. A room inside another has its door to it."""
        num, root = len(self.rooms), self._root()
        doors = self._possible_doors(relations)
        # penalties for related rooms that share no wall
        slits = [doors[frozenset((i, j))] for i, j, code in relations if code not in CONTAIN]
        costs = [_SLIT * shared.negated() for shared in slits]
        # depth in the tree orders the rooms, so that doors form no circle
        depth = [self.model.new_int_var(0, num - 1, "") for _ in range(num)]
        reached = [self.model.new_bool_var("") for _ in range(num)]
        common = [self.model.new_bool_var("") for _ in range(num)]
        through, from_hall = self._common_rooms(), []
        for i in range(num):
            if i == root:
                continue
            # rooms from which i can be entered, private ones only without a choice
            near = [j for j in range(num) if frozenset((i, j)) in doors]
            ways = [j for j in near if self.rooms[j] not in _NO_PASSAGE or j == root] or near
            parents, directly = [], []
            for j in ways:
                parents.append(parent := self._if(depth[i] >= depth[j] + 1))
                self.model.add_implication(parent, reached[j])
                if self.rooms[j] not in _PUBLIC and self.rooms[i] not in _NO_PASSAGE:
                    costs.append(_DETOUR * parent)
                door = doors[frozenset((i, j))]
                if door is not None:
                    self.model.add_implication(parent, door)
                # reached through common rooms alone
                if j in through:
                    directly.append(way := self.model.new_bool_var(""))
                    self.model.add_implication(way, parent)
                    self.model.add_implication(way, common[j])
                    if j == self.hall:
                        from_hall.append(way)
            self.model.add_bool_or([*parents, reached[i].negated()])
            self.model.add_bool_or([*directly, common[i].negated()])
            if parents:  # a room without relations has no door
                requirement = Requirement("a door leads to {}", rooms=(i,))
                self.soft.append(SoftConstraint(Priority.ACCESS, reached[i], requirement))
        self._add_access(root, common)
        # a hall leads from common rooms to another room
        if self.hall in through:
            self.model.add(common[self.hall] == 1)
            self.model.add_bool_or(from_hall)
        return costs

    def _possible_doors(self, relations: Relations) -> dict[frozenset[int], Any]:
        """Literals, by pair of rooms, that they share a wall for a door; None if one room is inside
        the other. Adds the soft constraints that rooms facing each other touch."""
        doors: dict[frozenset[int], Any] = {frozenset(pair): None for pair in self.inside}
        doors |= {frozenset(pair): self._wall_of_unknown(*pair) for pair in self.unknown}
        for i, j, code in relations:
            if code not in CONTAIN:
                doors[frozenset((i, j))] = shared = self._shared_wall(i, j)
                self._add_no_void(i, j, shared)
        return doors

    def _root(self) -> int:
        """Room that is entered first: an entrance, or else a living room, or else the hall."""
        own = self.rooms[: self.hall]
        other = 0 if self.hall is None else self.hall
        return next((own.index(room) for room in (_ENTRANCE, _LIVING) if room in own), other)

    def _wall_of_unknown(self, i: int, j: int) -> Any:
        """Literal that two rooms of any relation, as to a hall, share a wall. Adds the soft
        constraint that they touch if they face each other and are near."""
        shared = self._shared_wall(i, j)
        far = [self._if(gap > self.rule.threshold) for gap in self._gaps(i, j)]
        self._add_no_void(i, j, shared, *far)
        return shared

    def _common_rooms(self) -> list[int]:
        """Rooms that the rules allow for access to others."""
        kinds = {
            k for name in ("access", "bath") for k in (self._rule(name) or {}).get("through", ())
        }
        return [i for i, kind in enumerate(self.kinds) if kind in kinds]

    def _add_access(self, root: int, common: list[Any]) -> None:
        """Add soft constraints on access: the front door, common rooms and a bathroom."""
        # the front door: an outer wall, and perhaps a given place
        if root not in self.nested:
            outer = self.outer_wall(root, FRONT_WALL) == 1
            requirement = Requirement("{} has outer wall for the front door", "front", (root,))
            self._add_soft(Priority.ACCESS, outer, requirement=requirement)
            if (door := self.spec.front_door) is not None:
                origin = self.spec.outline.origin
                point = [PER_METRE * (x - least) for x, least in zip(door, origin, strict=True)]
                wall = self.wall_at(root, point, FRONT_WALL)
                requirement = Requirement(
                    "the front door leads from its place into {}", rooms=(root,)
                )
                self.soft.append(SoftConstraint(Priority.ACCESS, wall, requirement))
        # rooms reached through common rooms
        if (access := self._rule("access")) is not None:
            for i, kind in enumerate(self.kinds):
                if kind in access["reached"]:
                    requirement = Requirement("{} is reached through common rooms", "access", (i,))
                    self.soft.append(SoftConstraint(Priority.ACCESS, common[i], requirement))
        # at least one bathroom is
        if (bath := self._rule("bath")) is not None:
            baths = [i for i, kind in enumerate(self.kinds) if kind in bath["rooms"]]
            if baths:
                some = self.model.new_bool_var("")
                self.model.add_bool_or([*(common[i] for i in baths), some.negated()])
                requirement = Requirement(
                    "a bathroom is reached through common rooms", "bath", tuple(baths)
                )
                self.soft.append(SoftConstraint(Priority.ACCESS, some, requirement))

    def _add_no_void(self, i: int, j: int, *others: Any) -> None:
        """Add the soft constraint that related rooms touch where they face each other. One of
        ``others`` may hold instead."""
        walls = self._rule("walls")
        if walls is None:
            return
        facing = math.ceil((walls["facing"] - TOLERANCE) * PER_METRE)
        ways = [*others, *self._touching_walls(i, j)]
        # diagonal neighbours do not face each other
        passed = []
        for a in AXES:
            sides = [
                self._if(self.high[a][u] - self.low[a][v] < facing) for u, v in ((i, j), (j, i))
            ]
            passed.append(past := self.model.new_bool_var(""))
            self.model.add_bool_or([*sides, past.negated()])
        diagonal = self.model.new_bool_var("")
        for past in passed:
            self.model.add_implication(diagonal, past)
        met = self.model.new_bool_var("")
        self.model.add_bool_or([*ways, diagonal, met.negated()])
        requirement = Requirement("nothing but a wall is between {} and {}", "walls", (i, j))
        self.soft.append(SoftConstraint(Priority.WALLS, met, requirement))

    def _shared_wall(self, i: int, j: int) -> Any:
        """Literal that two rooms share enough wall for a door, free of rooms inside them."""
        ways = self._touching_walls(i, j, DOOR_WALL)
        for pair in ((i, j), (j, i)):
            if pair in self.in_corner:
                ways += self._walls_of_corner(*pair)
        shared = self.model.new_bool_var("")
        self.model.add_bool_or(ways).only_enforce_if(shared)
        return shared

    def _touching_walls(self, i: int, j: int, length: int = 0) -> list[Any]:
        """Literals of which one holds if a wall of one room lies along the other's for ``length``
        decimetres, free of rooms inside them."""
        ways = []
        for a, (u, v) in product(AXES, ((i, j), (j, i))):
            ways.append(way := self._if(self.high[a][u] == self.low[a][v]))
            occupants = [*self._occupants(u, a, HIGH), *self._occupants(v, a, LOW)]
            least = max(length, 1) if occupants else length
            self.add_clear_wall(
                way, 1 - a, [self._span(1 - a, k) for k in (u, v)], least, occupants
            )
        return ways

    def _walls_of_corner(self, u: int, v: int) -> Iterable[Any]:
        """Literals that u lies in a corner of the box of v and has a wall for a door to its floor.
        Other rooms in v leave that wall free."""
        low, high = self.low, self.high
        if all(k == u for k, _, _ in self._occupants(v, 0, LOW)):
            yield self.in_corner[u, v]
            return
        for a, side in product(AXES, (LOW, HIGH)):
            way = self._if(low[a][u] > low[a][v] if side == LOW else high[a][u] < high[a][v])
            self.model.add_implication(way, self.in_corner[u, v])
            # other rooms in v that are not behind u could take the wall
            occupants = []
            for k, _, elsewhere in self._occupants(v, a, side):
                if k != u:
                    behind, away = low[a][k] >= low[a][u], high[a][k] < low[a][u]
                    if side == HIGH:
                        behind, away = high[a][k] <= high[a][u], low[a][k] > high[a][u]
                    occupants.append((k, away, [*elsewhere, self._if(behind)]))
            self.add_clear_wall(way, 1 - a, [self._span(1 - a, u)], DOOR_WALL, occupants)
            yield way
