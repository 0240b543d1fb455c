"""Decide which diagrams have a floor plan: exact answers, or none within the effort given."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.plans.box_model import Boxes, boxes_of, cp_sat
from floor_plans.plans.box_rule import BoxRule
from floor_plans.plans.threads import map_shared
from floor_plans.plans.verdict_cache import keep_verdicts, kept_verdicts

LEVELS = ("realisable", "buildable")
"""Boxes whose relations are those of the diagram; such boxes that overlap only where a relation
says that one room is inside the other."""


EFFORT = 2.0
"""Effort of the solver for a diagram, if nothing else is requested; see ``BoxModel.solve``."""


def find_boxes(
    diagram: BubbleDiagram,
    level: str = "buildable",
    *,
    rule: BoxRule | None = None,
    effort: float = EFFORT,
) -> tuple[bool | None, Boxes | None]:
    """True if a diagram has a floor plan, and the boxes of one.

    "realisable": there are boxes whose relations, by the rule of ``relations_from_boxes``, are
    exactly those of the diagram, each read in one of its two directions (see ``BoxModel``).
    "buildable": there are such boxes of which no two share area, unless a relation says that one is
    inside the other: then it lies within it, and leaves it a strip as wide as a room.

    True and False are exact for boxes as ``rule`` allows them; None: not decided with the
    ``effort``, see ``BoxModel.solve``.

    Raises ``ValueError`` without OR-Tools, and for another level.
    """
    (found,) = _solved([diagram], level, rule, effort, threads=1)
    return found


def have_plans(
    diagrams: Sequence[BubbleDiagram],
    level: str = "buildable",
    *,
    rule: BoxRule | None = None,
    effort: float = EFFORT,
    threads: int = 1,
) -> list[bool | None]:
    """Answers of ``find_boxes``: True for each diagram that has a floor plan.

    Of diagrams that are equal up to the numbering of their rooms, one is solved, and none of which
    the answer was kept by an earlier call (see ``verdict_cache``). The work is shared by
    ``threads``: the solver does most of it outside Python's lock.
    """
    check_level(level)
    cp_sat()
    rule = rule or BoxRule()
    keys = DiagramSet.of(diagrams).canonical_keys.tolist() if len(diagrams) else []
    distinct = dict(zip(keys, diagrams, strict=True))
    asked = f"{level}, {rule}, effort={effort!r}"
    answers = kept_verdicts(asked, list(distinct))
    new = {key: diagram for key, diagram in distinct.items() if key not in answers}
    solved = _solved(list(new.values()), level, rule, effort, threads)
    found = dict(zip(new, (answer for answer, _ in solved), strict=True))
    keep_verdicts(asked, found)
    return [(answers | found)[key] for key in keys]


def check_level(level: str) -> None:
    """``ValueError`` unless it is one of ``LEVELS``."""
    if level not in LEVELS:
        raise ValueError(f"level={level!r}: expected {' or '.join(map(repr, LEVELS))}")


def _solved(
    diagrams: Sequence[BubbleDiagram],
    level: str,
    rule: BoxRule | None,
    effort: float,
    threads: int,
) -> list[tuple[bool | None, Boxes | None]]:
    check_level(level)
    cp_sat()
    if not diagrams:
        return []
    measured = DiagramSet.of(diagrams)
    # Centres follow relations: on an axis in a circle, no boxes do.
    possible = measured.horizontally_transitive & measured.vertically_transitive
    rows = np.flatnonzero(possible).tolist()
    graphs = [(diagrams[row].num_rooms, diagrams[row].relations) for row in rows]
    solve = partial(boxes_of, rule=rule or BoxRule(), buildable=level == "buildable", effort=effort)
    found: list[tuple[bool | None, Boxes | None]] = [(False, None)] * len(diagrams)
    solved = map_shared(solve, graphs, threads=threads, doing="looking for plans")
    for row, each in zip(rows, solved, strict=True):
        found[row] = each
    return found
