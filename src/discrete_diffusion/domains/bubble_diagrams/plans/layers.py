"""``Layer``: what the solver keeps before what, where a plan cannot have everything."""

from __future__ import annotations

from enum import IntEnum


class Layer(IntEnum):
    """What a plan is asked for beside relations, the outline and no overlap, most important first.

    Of wishes that exclude each other one of the lowest layer is left out.
    """

    ACCESS = 0
    SIZES = 1
    WALLS = 2
    FACADE = 3
    ROUGH_AREAS = 4
    FILL = 5
    AREAS = 6
