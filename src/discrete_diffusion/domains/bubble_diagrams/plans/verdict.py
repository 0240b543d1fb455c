"""Which diagrams have a floor plan: exact answers, or none in the time that was given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from multiprocessing import get_context

import numpy as np

from discrete_diffusion import progress
from discrete_diffusion.domains.bubble_diagrams.diagram import BubbleDiagram
from discrete_diffusion.domains.bubble_diagrams.metrics.diagram_set import DiagramSet
from discrete_diffusion.domains.bubble_diagrams.plans.box_model import Boxes, boxes_of, cp_sat
from discrete_diffusion.domains.bubble_diagrams.plans.box_rule import BoxRule

LEVELS = ("realisable", "buildable")
"""Boxes whose relations are those of the diagram; such boxes that do not overlap either."""

EFFORT = 2.0
"""Of the solver for a diagram, if nothing else is said; see ``BoxModel.solve``."""


def find_boxes(
    diagram: BubbleDiagram,
    level: str = "buildable",
    *,
    rule: BoxRule | None = None,
    effort: float = EFFORT,
) -> tuple[bool | None, Boxes | None]:
    """Whether a diagram has a floor plan, and the boxes of one.

    "realisable": there are boxes whose relations, by the rule of ``relations_from_boxes``, are
    exactly those of the diagram, each read in one of its two directions (see ``BoxModel``).
    "buildable": there are such boxes of which no two share area, unless one lies within the other.

    True and False are exact for boxes as ``rule`` allows them; None: not decided with the
    ``effort``, see ``BoxModel.solve``.

    Raises ``ImportError`` without OR-Tools, ``ValueError`` for another level.
    """
    (found,) = _solved([diagram], level, rule, effort, processes=1)
    return found


def have_plans(
    diagrams: Sequence[BubbleDiagram],
    level: str = "buildable",
    *,
    rule: BoxRule | None = None,
    effort: float = EFFORT,
    processes: int = 1,
) -> list[bool | None]:
    """Whether each diagram has a floor plan: the answers of ``find_boxes``.

    Of diagrams that are equal up to the numbering of their rooms, one is solved. The work is shared
    by ``processes``.
    """
    keys = DiagramSet.of(diagrams).canonical_keys.tolist() if len(diagrams) else []
    distinct = dict(zip(keys, diagrams, strict=True))
    found = _solved(list(distinct.values()), level, rule, effort, processes)
    answers = dict(zip(distinct, (answer for answer, _ in found), strict=True))
    return [answers[key] for key in keys]


def _solved(
    diagrams: Sequence[BubbleDiagram],
    level: str,
    rule: BoxRule | None,
    effort: float,
    processes: int,
) -> list[tuple[bool | None, Boxes | None]]:
    if level not in LEVELS:
        raise ValueError(f"level={level!r}: expected {' or '.join(map(repr, LEVELS))}")
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
    with ExitStack() as stack:
        going = stack.enter_context(progress.task("looking for plans", len(rows), "diagrams"))
        solved: Iterator[tuple[bool | None, Boxes | None]] = map(solve, graphs)
        if processes > 1 and len(graphs) > 1:  # spawned: a fork may hang for threads of torch
            pool = ProcessPoolExecutor(processes, get_context("spawn"))
            solved = stack.enter_context(pool).map(solve, graphs, chunksize=4)
        for row, each in zip(rows, solved, strict=True):
            found[row] = each
            going.advance()
    return found
