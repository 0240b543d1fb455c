"""``Layer``: what the solver keeps before what, where a plan cannot have everything."""

from __future__ import annotations

from enum import IntEnum


class Layer(IntEnum):
    """What a plan is asked for beside relations, the outline and no overlap, most important first.

    Of wishes that exclude each other one of the lowest layer is left out.
    """

    ACCESS = 0
    SIZES = 1
    ROUGH_AREAS = 2
    WALLS = 3
    FACADE = 4
    FILL = 5
    AREAS = 6
