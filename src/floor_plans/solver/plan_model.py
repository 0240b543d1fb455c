"""``PlanModel``: constraint model of the floor plans of a diagram in an outline, with doors."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from typing import Any

from discrete_diffusion.layout import ROOM_TYPES
from floor_plans.plans.box_model import AXES, CONTAIN, Boxes, Relations
from floor_plans.plans.doors import CLOSETS, DOOR, FRONT, are_between
from floor_plans.plans.outline import PER_METRE
from floor_plans.rules.asked import door_request
from floor_plans.rules.finding import HALL, TOLERANCE
from floor_plans.solver.asked_sizes import add_clear_areas, add_turning_space
from floor_plans.solver.furnish_constraints import add_furnishing
from floor_plans.solver.outline_constraints import BALCONY, OutlineConstraints
from floor_plans.solver.room_constraints import HIGH, LOW, RoomConstraints
from floor_plans.solver.soft_search import SoftSearch
from floor_plans.solver.spec import PlanSpec, Priority

_LIVING, _ENTRANCE = map(ROOM_TYPES.index, ("LivingRoom", "Entrance"))

_NO_PASSAGE = tuple(map(ROOM_TYPES.index, ("Bathroom", "Balcony", "Storage", "Wall-in")))
"""Rooms that are not walked through, if the relations leave a choice."""

_PUBLIC = tuple(map(ROOM_TYPES.index, ("LivingRoom", "DiningRoom", "Entrance")))

DOOR_WALL, FRONT_WALL, OPEN_WALL = 10, 12, 15
"""Decimetres of wall that a door of the usual width needs, of outer wall that such a front door
needs, and of wall that is left out between rooms open to each other."""

_SLIT, _DETOUR = 50, 300
"""Penalties in square decimetres: for related rooms without a shared wall, and for a room reached
through a private one."""

_CUT = 100  # penalty in square decimetres for a cut in a corner of a free outline
_SHADE = 4  # penalty in square decimetres per half decimetre that a living room lies further north

_ROOMY_HALL = (13, 13, 300)
"""Least sides in decimetres, and floor in square decimetres, of a hall behind the front door."""

_MISSED = 300
"""Penalty in square decimetres for a soft constraint that the first incumbent violates."""

_JOG, _NEARLY = 100, 8
"""Penalty in square decimetres for walls out of line, and the decimetres up to which walls are
nearly in line."""


class PlanModel:
    """Floor plans of a diagram in an outline: groups of constraints on the boxes of one
    ``box_model``, and an objective. Soft constraints are satisfied by priority (``search``).

    The objective is 2 x (area of the outline - area of all floors) + sum of |floor - target|, plus
    penalties. These are for slits between related rooms, access through private rooms, recesses,
    and living rooms in the north. Boxes end in the middle of walls.

    ``hall``: add a hall; ``entered``: it is behind the front door. ``unknown``: pairs with any
    relation. ``requested``: the rooms with a target area; None: all rooms. ``least_grid``: minimum
    side of the grid, decimetres.
    """

    def __init__(
        self,
        rooms: Collection[int],
        relations: Relations,
        spec: PlanSpec,
        *,
        hall: bool = False,
        entered: bool = False,
        unknown: Iterable[tuple[int, int]] = (),
        requested: Collection[int] | None = None,
        least_grid: int = 0,
    ) -> None:
        pairs = tuple(relations)
        self.spec, self.entered = spec, entered
        # groups of constraints, on the boxes of one model
        self.rooms = RoomConstraints(
            tuple(rooms), pairs, spec, hall=hall, unknown=unknown, least_grid=least_grid
        )
        self.requested = self.rooms.add_area_targets(requested)
        add_furnishing(self.rooms)
        self.outline = OutlineConstraints(self.rooms)
        self.box_model, self.cp = self.rooms.box_model, self.rooms.cp
        # the objective: dead area, and absolute deviations of floors from their targets
        deviations = []
        for floor, area in zip(self.rooms.floors[: len(spec.areas)], spec.areas, strict=True):
            target = round(area * PER_METRE**2)
            deviations.append(off := self.cp.new_int_var(0, max(target, self.rooms.grid**2), ""))
            self.cp.add_abs_equality(off, floor - target)
        self._cost = 2 * self.outline.dead + sum(deviations)
        self._cost += _CUT * sum(cut.is_used for cut in self.outline.cuts)
        # living rooms: positive north of the plan's middle, negative south of it
        if spec.north is not None:
            turned = math.radians(spec.north)
            way = round(_SHADE * math.sin(turned)), -round(_SHADE * math.cos(turned))
            self._cost += sum(
                way[a] * (sum(self.rooms.span(a, i)) - self.outline.size[a])
                for i, a in product(range(len(self.rooms.rooms)), AXES)
                if self.rooms.rooms[i] == _LIVING
            )
        # an added hall, and doors
        if self.rooms.hall is not None:
            self._cost += 2 * self.rooms.floors[self.rooms.hall]
        self._cost += sum(DoorConstraints(self.outline, pairs, entered=entered).costs)
        add_clear_areas(self.outline)
        add_turning_space(self.outline)
        self.search = SoftSearch(self.outline)

    def find_best(
        self, effort: float, polish: float, seed: int
    ) -> tuple[bool | None, Boxes | None]:
        """Find the best plan: the answer of ``BoxModel.solve`` and the boxes. ``effort`` is spent
        on soft constraints, which then stay satisfied; ``polish`` on the objective: near the
        incumbent, globally, near it again, and last on straight walls."""
        search = self.search
        answer, boxes = search.satisfy(effort, seed)
        if boxes is None:
            return answer, None
        # violated soft constraints become penalties
        cost = self._cost + _MISSED * sum(literal.negated() for literal in search.fix_met())
        each = polish / 4
        # local search, global search, local search
        self.cp.minimize(cost)
        boxes, least, _ = search.improve_nearby(boxes, math.inf, each, seed)
        boxes, least = search.improve(boxes, least, each, seed, light=True)
        boxes, least, _ = search.improve_nearby(boxes, least, each, seed)
        # straighten the walls
        self.cp.minimize(cost + _JOG * sum(self._jog_literals(boxes)))
        return True, search.improve_nearby(boxes, math.inf, each, seed)[0]

    def _jog_literals(self, boxes: Boxes) -> Iterator[Any]:
        """Yield a literal for each pair of walls that are in line in ``boxes``, or nearly so; if it
        is false, they have to be exactly in line."""

        def jog(a: Any, b: Any, is_out: bool) -> Any:
            literal = self.cp.new_bool_var("")
            self.cp.add(a == b).only_enforce_if(literal.negated())
            self.cp.add_hint(literal, is_out)
            return literal

        for axis in AXES:
            lines: dict[int, list[Any]] = {}
            for i, box in enumerate(boxes):
                low, high = self.rooms.span(axis, i)
                lines.setdefault(box[axis], []).append(low)
                lines.setdefault(box[axis + 2], []).append(high)
            for first, second in pairwise(sorted(lines)):
                # different lines that could become one, then walls that are in line already
                if second - first <= _NEARLY:
                    for a, b in product(lines[first], lines[second]):
                        yield jog(a, b, True)
                for a, b in pairwise(lines[first]):
                    yield jog(a, b, False)

    def differ_from(self, boxes: Boxes) -> None:
        """Require that half of the rooms have a side a metre or more away from its position in
        ``boxes``."""
        moved = []
        for i, sides in enumerate(boxes):
            ways = []
            for variable, value in zip(self.sides_of(i), sides, strict=True):
                ways += [self.rooms.literal(variable <= value - PER_METRE)]
                ways += [self.rooms.literal(variable >= value + PER_METRE)]
            moved.append(moves := self.cp.new_bool_var(""))
            self.cp.add_bool_or(ways).only_enforce_if(moves)
        self.cp.add(sum(moved) >= (len(moved) + 1) // 2)

    def sides_of(self, i: int) -> tuple[Any, ...]:
        """Sides of a room as in ``Boxes``: x0, y0, x1, y1."""
        low, high = self.box_model.low, self.box_model.high
        return low[0][i], low[1][i], high[0][i], high[1][i]


class DoorConstraints:
    """Constraints on a tree of doors from the room that is entered first, through common rooms if
    the rules require it. A room inside another room has its door to that room.

    ``costs``: costs of slits between related rooms, and of detours through private rooms.
    """

    def __init__(
        self,
        outline: OutlineConstraints,
        relations: tuple[tuple[int, int, int], ...],
        *,
        entered: bool,
    ) -> None:
        self.outline, self.rooms, self.spec = outline, outline.rooms, outline.spec
        self.cp, self.literal = outline.cp, outline.literal
        self.one_of, self._add_soft = self.rooms.one_of, self.rooms.add_literal
        self.asked = door_request(self.spec.rules.rules)
        # walls for doors that are wider than usual
        self._door_wall = DOOR_WALL + math.ceil(PER_METRE * (self.asked.width - DOOR) - 1e-6)
        self._front_wall = FRONT_WALL + math.ceil(PER_METRE * (self.asked.front - FRONT) - 1e-6)
        num, types, hall = len(self.rooms.rooms), self.rooms.rooms, self.rooms.hall
        # the root: an entrance, or else a living room, or else the hall
        own, other = types[:hall], 0 if hall is None else hall
        first = () if entered else (_ENTRANCE, _LIVING)
        root = next((own.index(room) for room in first if room in own), other)
        self._walls: dict[tuple[int, int], list[Any]] = {}  # of doors of each pair, axis by axis
        doors = self._possible_doors(relations)
        # penalties for related rooms that share no wall
        slits = [doors[frozenset((i, j))] for i, j, code in relations if code not in CONTAIN]
        self.costs = [_SLIT * shared.negated() for shared in slits]
        # depth in the tree orders the rooms, so that doors form no circle
        depth = [self.cp.new_int_var(0, num - 1, "") for _ in range(num)]
        reached, common = ([self.cp.new_bool_var("") for _ in range(num)] for _ in range(2))
        rules = [self.spec.rule(name) or {} for name in ("access", "bath")]
        through = {kind for rule in rules for kind in rule.get("through", ())}
        from_hall, elsewhere = list[Any](), dict[int, list[Any]]()
        for i in (i for i in range(num) if i != root):
            # rooms from which i can be entered, private ones only without a choice
            near = [
                j
                for j in range(num)
                if frozenset((i, j)) in doors and not self.asked.is_excluded(self.rooms.kinds, i, j)
            ]
            parents, others, directly = [], [], []
            for j in [j for j in near if types[j] not in _NO_PASSAGE or j == root] or near:
                parents.append(parent := self.literal(depth[i] >= depth[j] + 1))
                others += [parent] if j != root else []
                self.cp.add_implication(parent, reached[j])
                if types[j] not in _PUBLIC and types[i] not in _NO_PASSAGE:
                    self.costs.append(_DETOUR * parent)
                door = doors[frozenset((i, j))]
                if door is not None:
                    self.cp.add_implication(parent, door)
                # reached through common rooms alone
                if self.rooms.kinds[j] in through:
                    directly.append(way := self.cp.new_bool_var(""))
                    self.cp.add_implication(way, parent)
                    self.cp.add_implication(way, common[j])
                    if j == hall:
                        from_hall.append(way)
            elsewhere |= {i: others} if root in near else {}
            self.cp.add_bool_or([*parents, reached[i].negated()])
            self.cp.add_bool_or([*directly, common[i].negated()])
            if parents:  # a room without relations has no door
                self._add_soft(Priority.ACCESS, reached[i], "a door leads to {}", "", i)
        self._add_access(root, common)
        self._add_asked(doors)
        self._add_entry(root, elsewhere)
        self._add_air()
        self._add_balconies()
        if hall is not None and self.rooms.kinds[hall] in through:
            self._add_hall(hall, common, from_hall, entered=entered)

    def _add_hall(
        self, hall: int, common: list[Any], from_hall: list[Any], *, entered: bool
    ) -> None:
        """Add hard constraints: the hall leads from common rooms to another room; or from the front
        door to two rooms, with space to take off a coat. ``from_hall``: literals of rooms that are
        entered from it."""
        if entered:
            sides = self.rooms.box_model.sides(hall)
            for least, size in zip(_ROOMY_HALL, (*sides, self.rooms.floors[hall]), strict=True):
                self.cp.add(size >= least)
            self.cp.add(sum(from_hall) >= 2)
            return
        self.cp.add(common[hall] == 1)
        self.cp.add_bool_or(from_hall)

    def _possible_doors(
        self, relations: tuple[tuple[int, int, int], ...]
    ) -> dict[frozenset[int], Any]:
        """Literal of a shared wall for each pair of rooms; None if one is inside the other."""
        doors: dict[frozenset[int], Any] = {frozenset(pair): None for pair in self.rooms.inside}
        # a door of an inner room leaves the free rectangle around it clear
        for u, v in self.rooms.inside:
            if v in self.rooms.free:
                doors[frozenset((u, v))] = wall = self.cp.new_bool_var("")
                self.cp.add_bool_or([*self._walls_of_corner(u, v, self._door_wall), wall.negated()])
        box_model = self.rooms.box_model
        # pairs of any relation, as with a hall, may also be far apart
        for i, j in self.rooms.unknown:
            doors[frozenset((i, j))] = self._shared_wall(i, j)
            gaps = box_model.gaps(i, j)
            far = [self.literal(gap > box_model.rule.threshold) for gap in gaps]
            self._add_no_void(i, j, doors[frozenset((i, j))], *far)
        for i, j, code in relations:
            if code not in CONTAIN:
                doors[frozenset((i, j))] = shared = self._shared_wall(i, j)
                self._add_no_void(i, j, shared)
        return doors

    def _add_asked(self, doors: dict[frozenset[int], Any]) -> None:
        """Add soft constraints: walls for the doors that are asked for, and for openings."""
        for name in ("door", "open"):
            for kinds in getattr(self.asked, name):
                pairs = [
                    (i, j)
                    for i, j in map(sorted, doors)
                    if are_between(kinds, self.rooms.kinds[i], self.rooms.kinds[j])
                ]
                ways = [doors[frozenset(pair)] for pair in pairs]
                # a room inside the other has a wall to it
                if not pairs or any(way is None for way in ways):
                    continue
                if name == "open":
                    ways = [self._shared_wall(i, j, OPEN_WALL) for i, j in pairs]
                what = "a door is" if name == "door" else "there is no wall"
                first, second = (" or ".join(sorted(each)) for each in kinds)
                text = f"{what} between {first} and {second}"
                self._add_soft(Priority.ACCESS, self.one_of(ways), text, name)

    def _add_access(self, root: int, common: list[Any]) -> None:
        """Add soft constraints on access: the front door, common rooms and a bathroom."""
        kinds = list(enumerate(self.rooms.kinds))
        # the front door: an outer wall, and perhaps a given place
        if root not in {u for u, _ in self.rooms.inside}:
            outer = self.literal(self.outline.outer_wall(root, self._front_wall, door=True) == 1)
            text = "{} has outer wall for the front door"
            self._add_soft(Priority.ACCESS, outer, text, "front", root)
            if (door := self.spec.front_door) is not None:
                origin = self.spec.outline.origin
                point = [PER_METRE * (x - least) for x, least in zip(door, origin, strict=True)]
                wall = self.outline.wall_at(root, point, self._front_wall)
                text = "the front door leads from its place into {}"
                self._add_soft(Priority.ACCESS, wall, text, "", root)
        # rooms reached through common rooms
        if (access := self.spec.rule("access")) is not None:
            for i in (i for i, kind in kinds if kind in access["reached"]):
                text = "{} is reached through common rooms"
                self._add_soft(Priority.ACCESS, common[i], text, "access", i)
        # at least one bathroom is
        if (bath := self.spec.rule("bath")) is not None and (
            baths := [i for i, kind in kinds if kind in bath["rooms"]]
        ):
            some = self.one_of(common[i] for i in baths)
            text = "a bathroom is reached through common rooms"
            self._add_soft(Priority.ACCESS, some, text, "bath", *baths)

    def _add_entry(self, root: int, elsewhere: Mapping[int, Sequence[Any]]) -> None:
        """Add a soft constraint: a living room that is entered first has few more doors, or the
        added hall has the front door. ``elsewhere``: rooms next to it, with the literals of their
        doors to other rooms, by which closets and all baths but one may be entered."""
        entry, kinds = self.spec.rule("entry"), self.rooms.kinds
        if entry is None or kinds[root] != "LivingRoom" or len(kinds) < entry["num_rooms"]:
            return
        spared, num = [], sum(kinds[i] not in ("Balcony", HALL) for i in elsewhere)
        baths = [i for i in elsewhere if kinds[i] == "Bathroom"]
        for i in (*baths[:-1], *(i for i in elsewhere if kinds[i] in CLOSETS)):
            spared.append(self.one_of(elsewhere[i]))
        # an added hall is one more door, unless it has the front door
        num += self.rooms.hall is not None
        ways = [self.literal(num - sum(spared) <= round(entry["doors"]))]
        if self.rooms.hall is not None:
            ways.append(self.outline.outer_wall(self.rooms.hall, self._front_wall))
        text = "the front door leads into a hall, or into {} with few more doors"
        self._add_soft(Priority.FURNISH, self.one_of(ways), text, "entry", root)

    def _add_air(self) -> None:
        """Add soft constraints: kitchens have an outer wall, or a wall to a balcony."""
        if (air := self.spec.rule("airy")) is None:
            return
        length, kinds = math.ceil(air["length"] * PER_METRE), self.rooms.kinds
        opened = {kind for pair in self.asked.open for side in pair for kind in side}
        for i in (i for i, kind in enumerate(kinds) if kind in {*air["rooms"]} - opened):
            ways = [self.outline.outer_wall(i, length)]
            for j in (j for j, kind in enumerate(kinds) if kind in air["to"]):
                ways += self._touching_walls(i, j, length)
            met = self.one_of(ways)
            self._add_soft(Priority.FURNISH, met, "{} has an outer wall", "airy", i)

    def _add_balconies(self) -> None:
        """Add soft constraints: balconies are as wide as deep along a room, a common one if there
        is a choice, or lie in its corner."""
        if self.spec.rule("shape") is None:
            return
        for i in (i for i, room in enumerate(self.rooms.rooms) if room == BALCONY):
            side, hall = self.rooms.box_model.sides(i), self.rooms.hall
            pairs = [p for p in self._walls if i in p and hall not in p]
            pairs = [p for p in pairs if {*_PUBLIC} & {self.rooms.rooms[j] for j in p}] or pairs
            corners = [self.rooms.in_corner.get(p if p[0] == i else p[::-1]) for p in pairs]
            ways = [corner for corner in corners if corner is not None]
            for k, wall in (each for p in pairs for each in enumerate(self._walls[p])):
                ways.append(self.literal(wall == 1, side[k // 2] <= side[1 - k // 2]))
            if pairs:
                text = "{} is as wide as deep"
                self._add_soft(Priority.BALCONIES, self.one_of(ways), text, "", i)

    def _add_no_void(self, i: int, j: int, *others: Any) -> None:
        """Add a soft constraint: rooms that face each other touch, or one of ``others`` holds."""
        if (walls := self.spec.rule("walls")) is None:
            return
        facing = math.ceil((walls["facing"] - TOLERANCE) * PER_METRE)
        ways = [*others, *self._touching_walls(i, j)]
        # diagonal neighbours do not face each other
        passed = []
        for a in AXES:
            (low_i, high_i), (low_j, high_j) = self.rooms.span(a, i), self.rooms.span(a, j)
            sides = [self.literal(each < facing) for each in (high_i - low_j, high_j - low_i)]
            passed.append(self.one_of(sides))
        diagonal = self.cp.new_bool_var("")
        for past in passed:
            self.cp.add_implication(diagonal, past)
        met = self.one_of([*ways, diagonal])
        text = "nothing but a wall is between {} and {}"
        self._add_soft(Priority.WALLS, met, text, "walls", i, j)

    def _shared_wall(self, i: int, j: int, length: int = 0) -> Any:
        """Literal that implies: two rooms share wall of the ``length``, or for a door, free of the
        rooms inside them."""
        length = length or self._door_wall
        ways = self._touching_walls(i, j, length)
        self._walls.setdefault((i, j), [*ways])
        for pair in ((i, j), (j, i)):
            if pair in self.rooms.in_corner:
                ways += self._walls_of_corner(*pair, length)
        return self.one_of(ways)

    def _touching_walls(self, i: int, j: int, length: int = 0) -> list[Any]:
        """Literals, one of which holds if two rooms share ``length`` decimetres of free wall."""
        rooms, ways = self.rooms, []
        for a, (u, v) in product(AXES, ((i, j), (j, i))):
            ways.append(way := self.literal(rooms.span(a, u)[HIGH] == rooms.span(a, v)[LOW]))
            door = length > 0
            occupants = rooms.occupants(u, a, HIGH, door=door)
            occupants += rooms.occupants(v, a, LOW, door=door)
            least = max(length, 1) if occupants else length
            rooms.add_clear_wall(
                way, 1 - a, [rooms.span(1 - a, k) for k in (u, v)], least, occupants
            )
        return ways

    def _walls_of_corner(self, u: int, v: int, length: int) -> Iterator[Any]:
        """Yield literals, each of which implies: u, inside or in a corner of v, has free wall to v
        for a door."""
        low, high = self.rooms.box_model.low, self.rooms.box_model.high
        corner, free = self.rooms.in_corner.get((u, v)), self.rooms.free.get(v)
        others = [k for k, _, _ in self.rooms.occupants(v, 0, LOW, door=True) if k != u]
        if corner is not None and not others:
            yield corner
            return
        for a, side in product(AXES, (LOW, HIGH)):
            way = self.literal(low[a][u] > low[a][v] if side == LOW else high[a][u] < high[a][v])
            if corner is not None:
                self.cp.add_implication(way, corner)
            # other rooms in v that are not behind u could take the wall, as does a free rectangle
            occupants = []
            for k, _, elsewhere in self.rooms.occupants(v, a, side, door=True):
                if k != u:
                    near, far = self.rooms.span(a, k)
                    deep = free.deep if free is not None and k < 0 else 0
                    behind, away = near >= low[a][u], far < low[a][u] - deep
                    if side == HIGH:
                        behind, away = far <= high[a][u], near > high[a][u] + deep
                    occupants.append((k, away, [*elsewhere, self.literal(behind)]))
            self.rooms.add_clear_wall(way, 1 - a, [self.rooms.span(1 - a, u)], length, occupants)
            yield way
