"""``DrawnRoom`` and ``DrawnDoor``: rooms and doors in a drawing of another tool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from floor_plans.plans.door import Box

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry


@dataclass(frozen=True)
class DrawnRoom:
    """``room``: its type. ``floor``: a polygon, or several, in metres, y downwards. ``number``: by
    which doors name it, and which it had in the plan that was written. ``among``: the other types
    that it may be of, because the format does not tell them apart. ``box``: of
    which the floor is what smaller rooms leave, where the file says it."""

    room: int
    floor: BaseGeometry
    number: int
    among: tuple[int, ...] = ()
    box: Box | None = None

    def moved(self, move: Callable[[BaseGeometry], BaseGeometry]) -> DrawnRoom:
        return replace(self, floor=move(self.floor), box=None)

    @property
    def bounds(self) -> Box:
        """The ``box``, unless the floor reaches out of it; the one around the floor."""
        x0, y0, x1, y1 = self.floor.bounds
        if self.box is not None:
            left, top, right, bottom = self.box
            if left <= x0 <= x1 <= right and top <= y0 <= y1 <= bottom:
                return self.box
        return x0, y0, x1, y1


@dataclass(frozen=True)
class DrawnDoor:
    """``shape``: of the opening, a line if nobody says how thick the wall is. ``rooms``: numbers of
    ``DrawnRoom``, or ``FRONT_DOOR``; None if the file does not say them."""

    shape: BaseGeometry
    is_front: bool = False
    rooms: tuple[int, int] | None = None

    @property
    def box(self) -> Box:
        return self.shape.bounds
