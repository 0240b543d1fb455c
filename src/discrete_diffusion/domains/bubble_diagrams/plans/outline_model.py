"""``OutlineModel``: the rooms of a plan in their outline: what lies outside, and what is filled."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from discrete_diffusion.domains.bubble_diagrams.plans.box_model import AXES, Relations
from discrete_diffusion.domains.bubble_diagrams.plans.layers import Layer
from discrete_diffusion.domains.bubble_diagrams.plans.outline import PER_METRE
from discrete_diffusion.domains.bubble_diagrams.plans.room_model import Demands, RoomModel
from discrete_diffusion.domains.bubble_diagrams.rooms import ROOM_TYPES

_BALCONY = ROOM_TYPES.index("Balcony")


class OutlineModel(RoomModel):
    """Rooms within the outline that is demanded.

    ``size``: decimetres of the box around the plan; ``dead``: square decimetres of the outline that
    belong to no room. Wishes that rooms of the rules have outer walls, that balconies do, and that
    rooms fill an outline.
    """

    def __init__(
        self, rooms: Sequence[int], relations: Relations, demands: Demands, *, hall: bool = False
    ) -> None:
        super().__init__(rooms, relations, demands, hall=hall)
        self.nested = {u for u, _ in self.inside}
        self.size = self._add_outline()
        self.dead = self._outline_area() - sum(self.floors)
        self._outer: dict[tuple[int, int], Any] = {}
        self._add_facades()
        if demands.outline.boundary is not None and (fill := self._rule("fill")) is not None:
            least = math.ceil(fill["share"] * demands.outline.area * PER_METRE**2)
            self._wish(Layer.FILL, sum(self.floors) >= least)

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

    def _add_facades(self) -> None:
        for i in range(len(self.rooms)):
            if (length := self._facade_of(i)) and i not in self.nested:
                self._wish(Layer.FACADE, self.outer_wall(i, length) == 1)

    def _facade_of(self, room: int) -> int:
        """Decimetres of outer wall that the rules demand of a room; of a balcony 1."""
        kind, lengths = self.kinds[room], [0.1 * (self.rooms[room] == _BALCONY)]
        if (facade := self._rule("facade")) is not None and kind in facade["rooms"]:
            lengths.append(facade["length"])
        if (window := self._rule("window")) is not None and kind in window["rooms"]:
            most = self.areas[room] * (1 + self.demands.tolerance)
            lengths.append(window["share"] * most / window["height"])
        return math.ceil(PER_METRE * max(lengths))

    def outer_wall(self, i: int, length: int) -> Any:
        """A literal: so many decimetres of one side of a room lie on the outline."""
        if (i, length) not in self._outer:
            self._outer[i, length] = found = self.model.new_bool_var("")
            ways = [self._if(*side) for side in self._outer_sides(i, length)]
            self.model.add_bool_or(ways).only_enforce_if(found)
        return self._outer[i, length]

    def _outer_sides(self, i: int, length: int) -> Iterator[list[Any]]:
        """Conditions of which one set makes a side of the room an outer wall."""
        ends = self.size
        if self.demands.outline.boundary is not None:
            ends = self.demands.outline.size
        for a, end in zip(AXES, ends, strict=True):
            side = self.high[1 - a][i] - self.low[1 - a][i]
            yield [self.low[a][i] == 0, side >= length]
            yield [self.high[a][i] == end, side >= length]
        for closed in self.demands.outline.closed:
            for a in AXES:
                first, last = closed[1 - a], closed[3 - a]
                along = [self.high[1 - a][i] - first >= length, last - self.low[1 - a][i] >= length]
                along.append(self.high[1 - a][i] - self.low[1 - a][i] >= length)
                if last - first >= length:
                    yield [self.low[a][i] == closed[a + 2], *along]
                    yield [self.high[a][i] == closed[a], *along]
