"""``PlanModel``: a dimensioned plan of a diagram: its rooms, an outline, and walls for doors."""

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
from floor_plans.solver.room_model import Demands, Free, Wish
from floor_plans.solver.wish_model import WishModel

_LIVING, _ENTRANCE, _KITCHEN = map(ROOM_TYPES.index, ("LivingRoom", "Entrance", "Kitchen"))

_NO_PASSAGE = tuple(map(ROOM_TYPES.index, ("Bathroom", "Balcony", "Storage", "Wall-in")))
"""Rooms that one does not walk through to another, if their relations leave a choice."""

_PUBLIC = tuple(map(ROOM_TYPES.index, ("LivingRoom", "DiningRoom", "Entrance")))

_SLIT, _DETOUR = 50, 300
"""Square decimetres that two related rooms cost which share no wall, and a room other than a
bathroom, balcony or storage that is reached through a private one."""

DOOR_WALL = 10
"""Decimetres of wall that two rooms share, or that lead outside, where a door fits."""

FRONT_WALL = 12
"""Decimetres of outer wall where a front door fits."""

_DARK, _WINDOW_WALL = 150, 12
"""Square decimetres that a kitchen costs without so many decimetres of outer wall."""

_CUT = 100
"""Square decimetres that a cut in the corner of a free outline costs."""

_SHADE = 4
"""Square decimetres that half a decimetre costs by which a living room lies further north."""

_MISSED = 300
"""Square decimetres that a wish costs which the first plan found does not meet."""

_JOG, _NEARLY = 100, 8
"""Square decimetres that a wall out of line costs, and decimetres that make it so."""


class PlanModel(WishModel):
    """All plans of a diagram in an outline, with those first that meet what is wished.

    Wishes are met by their layers. Among plans that meet as many it minimises 2 x (area of the
    outline - area of all floors) + sum of |floor - target|, and costs of slits between related
    rooms, of ways through private ones, of recesses, of kitchens without outer wall, and of
    living rooms in the north. Boxes meet in the middle of walls.
    """

    def __init__(
        self, rooms: Sequence[int], relations: Relations, demands: Demands, **free: Unpack[Free]
    ) -> None:
        relations = tuple(relations)
        super().__init__(rooms, relations, demands, **free)
        self._cost = 2 * self.dead + sum(self._deviations())
        self._cost += _CUT * sum(cut.is_used for cut in self.cuts)
        if demands.north is not None:
            self._cost += sum(self._shade(demands.north))
        if self._rule("facade") is not None:
            self._cost += sum(self._dark_kitchens())
        if self.hall is not None:
            self._cost += 2 * self.floors[self.hall]
        self._cost += sum(self._add_doors(relations))

    def best(self, effort: float, polish: float, seed: int) -> tuple[bool | None, Boxes | None]:
        """Answer of ``solve``, and the best plan found: with ``effort`` one that meets what it can
        of the wishes, which stay met, then in ``polish`` units of the solver's time one that costs
        less: near by, anywhere, and near by again; at last its walls are straightened."""
        answer, boxes = self._meet_wishes(effort, seed)
        if boxes is None:
            return answer, None
        cost = self._cost + _MISSED * sum(wish.negated() for wish in self._keep_met())
        each = polish / 4
        self.model.minimize(cost)
        boxes, least, _ = self._settled(boxes, math.inf, each, seed)
        boxes, least = self._cheaper(boxes, least, each, seed, light=True)
        boxes, least, _ = self._settled(boxes, least, each, seed)
        self.model.minimize(cost + _JOG * sum(self._jogs(boxes)))
        return True, self._settled(boxes, math.inf, each, seed)[0]

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

    def _shade(self, north: float) -> Iterable[Any]:
        """What it costs that living rooms lie north of the plan's middle; less than nothing where
        they lie south of it."""
        turned = math.radians(north)
        way = round(_SHADE * math.sin(turned)), -round(_SHADE * math.cos(turned))
        for i, room in enumerate(self.rooms):
            if room == _LIVING:
                for a in AXES:
                    yield way[a] * (self.low[a][i] + self.high[a][i] - self.size[a])

    def _dark_kitchens(self) -> Iterable[Any]:
        """Costs of kitchens without an outer wall, whose windows the rules need not demand."""
        for i, room in enumerate(self.rooms):
            if room == _KITCHEN:
                yield _DARK * self.outer_wall(i, _WINDOW_WALL).negated()

    def _deviations(self) -> Iterable[Any]:
        own = self.floors[: len(self.demands.areas)]
        for floor, area in zip(own, self.demands.areas, strict=True):
            target = round(area * PER_METRE**2)
            off = self.model.new_int_var(0, max(target, self.rule.grid**2), "")
            self.model.add_abs_equality(off, floor - target)
            yield off

    def _add_doors(self, relations: Relations) -> list[Any]:
        """Wish a tree of doors from the root, through common rooms alone as far as the rules say;
        a room inside another has its door to it. What slits and detours cost."""
        num, root = len(self.rooms), self._root()
        doors = self._possible_doors(relations)
        slits = [doors[frozenset((i, j))] for i, j, code in relations if code not in CONTAIN]
        costs = [_SLIT * shared.negated() for shared in slits]
        depth = [self.model.new_int_var(0, num - 1, "") for _ in range(num)]
        reached = [self.model.new_bool_var("") for _ in range(num)]
        common = [self.model.new_bool_var("") for _ in range(num)]
        through, from_hall = self._common_rooms(), []
        for i in range(num):
            if i == root:
                continue
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
                if j in through:
                    directly.append(way := self.model.new_bool_var(""))
                    self.model.add_implication(way, parent)
                    self.model.add_implication(way, common[j])
                    if j == self.hall:
                        from_hall.append(way)
            self.model.add_bool_or([*parents, reached[i].negated()])
            self.model.add_bool_or([*directly, common[i].negated()])
            if parents:  # a room without relations has no door
                need = Requirement("a door leads to {}", rooms=(i,))
                self.wishes.append(Wish(Priority.ACCESS, reached[i], need))
        self._wish_access(root, common)
        if self.hall in through:  # it leads from common rooms to another
            self.model.add(common[self.hall] == 1)
            self.model.add_bool_or(from_hall)
        return costs

    def _possible_doors(self, relations: Relations) -> dict[frozenset[int], Any]:
        """Pairs of rooms that a door may join, with a literal: they share a wall for it; None: one
        is inside the other. Wish that those that face each other touch."""
        doors: dict[frozenset[int], Any] = {frozenset(pair): None for pair in self.inside}
        doors |= {frozenset(pair): self._wall_of_unknown(*pair) for pair in self.unknown}
        for i, j, code in relations:
            if code not in CONTAIN:
                doors[frozenset((i, j))] = shared = self._shared_wall(i, j)
                self._add_no_void(i, j, shared)
        return doors

    def _root(self) -> int:
        """Room that one enters first: an entrance, or else a living room, or else the hall."""
        own = self.rooms[: self.hall]
        other = 0 if self.hall is None else self.hall
        return next((own.index(room) for room in (_ENTRANCE, _LIVING) if room in own), other)

    def _wall_of_unknown(self, i: int, j: int) -> Any:
        """A literal: two rooms of any relation, as to a hall, share a wall. Wish that they touch if
        they face each other and are near."""
        shared = self._shared_wall(i, j)
        far = [self._if(gap > self.rule.threshold) for gap in self._gaps(i, j)]
        self._add_no_void(i, j, shared, *far)
        return shared

    def _common_rooms(self) -> list[int]:
        """Rooms through which the rules lead to others."""
        kinds = {
            k for name in ("access", "bath") for k in (self._rule(name) or {}).get("through", ())
        }
        return [i for i, kind in enumerate(self.kinds) if kind in kinds]

    def _wish_access(self, root: int, common: list[Any]) -> None:
        if root not in self.nested:
            outer = self.outer_wall(root, FRONT_WALL) == 1
            need = Requirement("{} has outer wall for the front door", "front", (root,))
            self._wish(Priority.ACCESS, outer, need=need)
            if (door := self.demands.front_door) is not None:
                origin = self.demands.outline.origin
                point = [PER_METRE * (x - least) for x, least in zip(door, origin, strict=True)]
                wall = self.wall_at(root, point, FRONT_WALL)
                need = Requirement("the front door leads from its place into {}", rooms=(root,))
                self.wishes.append(Wish(Priority.ACCESS, wall, need))
        if (access := self._rule("access")) is not None:
            for i, kind in enumerate(self.kinds):
                if kind in access["reached"]:
                    need = Requirement("{} is reached through common rooms", "access", (i,))
                    self.wishes.append(Wish(Priority.ACCESS, common[i], need))
        if (bath := self._rule("bath")) is not None:
            baths = [i for i, kind in enumerate(self.kinds) if kind in bath["rooms"]]
            if baths:
                some = self.model.new_bool_var("")
                self.model.add_bool_or([*(common[i] for i in baths), some.negated()])
                need = Requirement(
                    "a bathroom is reached through common rooms", "bath", tuple(baths)
                )
                self.wishes.append(Wish(Priority.ACCESS, some, need))

    def _add_no_void(self, i: int, j: int, *others: Any) -> None:
        """Wish that related rooms that face each other touch, or one of the ``others`` is true."""
        walls = self._rule("walls")
        if walls is None:
            return
        facing = math.ceil((walls["facing"] - TOLERANCE) * PER_METRE)
        ways = [*others, *self._touching(i, j)]
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
        need = Requirement("nothing but a wall is between {} and {}", "walls", (i, j))
        self.wishes.append(Wish(Priority.WALLS, met, need))

    def _shared_wall(self, i: int, j: int) -> Any:
        """A literal: they share a piece of wall where a door fits, which no room in them takes."""
        ways = self._touching(i, j, DOOR_WALL)
        for pair in ((i, j), (j, i)):
            if pair in self.in_corner:
                ways += self._walls_of_corner(*pair)
        shared = self.model.new_bool_var("")
        self.model.add_bool_or(ways).only_enforce_if(shared)
        return shared

    def _touching(self, i: int, j: int, length: int = 0) -> list[Any]:
        """Literals of which one is true where a wall of one room lies along the other's, at least
        so many decimetres, and one where rooms in them may take it."""
        ways = []
        for a, (u, v) in product(AXES, ((i, j), (j, i))):
            ways.append(way := self._if(self.high[a][u] == self.low[a][v]))
            held = [*self._held(u, a, HIGH), *self._held(v, a, LOW)]
            least = max(length, 1) if held else length
            self.add_clear_wall(way, 1 - a, [self._span(1 - a, k) for k in (u, v)], least, held)
        return ways

    def _walls_of_corner(self, u: int, v: int) -> Iterable[Any]:
        """Literals: u lies in a corner of the box of v, and has a wall to its floor where a door
        fits, which no other room in v takes."""
        low, high = self.low, self.high
        if all(k == u for k, _, _ in self._held(v, 0, LOW)):
            yield self.in_corner[u, v]
            return
        for a, side in product(AXES, (LOW, HIGH)):
            way = self._if(low[a][u] > low[a][v] if side == LOW else high[a][u] < high[a][v])
            self.model.add_implication(way, self.in_corner[u, v])
            held = []
            for k, _, elsewhere in self._held(v, a, side):
                if k != u:
                    behind, away = low[a][k] >= low[a][u], high[a][k] < low[a][u]
                    if side == HIGH:
                        behind, away = high[a][k] <= high[a][u], low[a][k] > high[a][u]
                    held.append((k, away, [*elsewhere, self._if(behind)]))
            self.add_clear_wall(way, 1 - a, [self._span(1 - a, u)], DOOR_WALL, held)
            yield way
