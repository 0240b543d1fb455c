"""The measures of a brief, read from its nodes: areas, points and outlines in metres."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.plans.outline import MOST_AREA, Outline

if TYPE_CHECKING:
    from floor_plans.briefs.brief import Point
    from floor_plans.diagrams.files.yaml_nodes import Node


def area_of(node: Node) -> float:
    """``BriefError`` for what is no number above 0, or more than a plan can have."""
    area = _number(node)
    if area is None or not 0 < area <= MOST_AREA:
        raise node.error(
            f"expected square metres, such as 85, at most {MOST_AREA:,}; got {node.shown}"
        )
    return area


def degrees_of(node: Node) -> float:
    """``BriefError`` for what is no number."""
    degrees = _number(node)
    if degrees is None:
        raise node.error(f"expected degrees clockwise from up, such as 30, got {node.shown}")
    return degrees


def point_of(node: Node) -> Point:
    """``BriefError`` for what is not [x, y]."""
    ends = node.value if isinstance(node.value, tuple) else ()
    numbers = [_number(end) for end in ends]
    if len(numbers) != 2 or numbers[0] is None or numbers[1] is None:
        raise node.error(f"expected [x, y] in metres, got {node.shown}")
    return numbers[0], numbers[1]


def outline_of(node: Node) -> tuple[Point, ...]:
    """``BriefError`` for what are no corners of a polygon, or of one that no plan fills."""
    corners = tuple(map(point_of, node.items("the corners [[x, y], ...], in metres")))
    try:
        Outline(boundary=corners)
    except DiagramError as error:
        raise node.error(error.reason) from error
    return corners


def _number(node: Node) -> float | None:
    """A finite one; YAML's 8.5 comes as text."""
    try:
        number = None if isinstance(node.value, bool) else float(node.value)
    except (TypeError, ValueError):
        return None
    return number if number is not None and math.isfinite(number) else None
