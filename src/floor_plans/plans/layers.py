"""``Layer``: what the solver keeps before what, where a plan cannot have everything."""

from __future__ import annotations

from enum import IntEnum


class Layer(IntEnum):
    """What a plan is asked for beside relations, the outline and no overlap, most important first.

    Of wishes that exclude each other one of the lowest layer is left out.
    """

    ACCESS = 0
    SIZES = 1
    LARGEST = 2
    SHAPES = 3
    WALLS = 4
    FACADE = 5
    BALCONIES = 6
    ROUGH_AREAS = 7
    FILL = 8
    AREAS = 9


NO_LAYER: frozenset[Layer] = frozenset()
AREAS_ALONE = frozenset({Layer.AREAS})
OF_NO_RULE = frozenset(
    {Layer.LARGEST, Layer.SHAPES, Layer.BALCONIES, Layer.ROUGH_AREAS, Layer.AREAS}
)
"""What may be left out, so that the rest is met: nothing; target areas; all layers without a wish
that a rule needs."""
