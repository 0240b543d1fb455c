"""Readable diagrams with relations that no floor plan satisfies."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from discrete_diffusion.config import counted
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.contradictions import ORDERS, StatedRelation, check_contradictions
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.diagrams.files.records import ReadReport
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.metrics.soundness import is_acyclic
from floor_plans.diagrams.rooms import INSIDE, SURROUNDING
from floor_plans.diagrams.vocabulary import RELATION_X_ORDER, RELATION_Y_ORDER
from floor_plans.plans.contradiction import contradiction
from floor_plans.plans.verdict import have_plans

_MAX_NAMED = 3

NUM_DECIDED = 100
"""Diagrams that the solver decides by default: about 5 CPU-seconds."""

_EFFORT = 0.3
"""Effort of the solver for a diagram, about a CPU-second."""


def impossible_plans(report: ReadReport) -> list[str]:
    """Return a sentence for each kind of contradiction, with the number of diagrams and the first
    few."""
    if not report.diagrams:
        return []
    found = {
        "relations in a circle": relations_in_a_circle(report.diagrams),
        "relations that contradict their own boxes": relations_against_boxes(report.diagrams),
    }
    return [_sentence(report, kind, plans) for kind, plans in found.items() if plans]


def infeasible_plans(report: ReadReport, num: int) -> list[str]:
    """Return sentences on the diagrams, of the first ``num``, that the solver finds infeasible or
    leaves undecided.

    Diagrams with relations in a circle are skipped. The first few infeasible ones are named with
    their contradiction (see ``find_boxes``). Raises ``ValueError`` without OR-Tools.
    """
    asked = report.diagrams[:num]
    if not all(diagram.vocabulary.has_directions for diagram in asked):
        return []  # without directions no relations can be ruled out
    # decide those without circles
    circles = relations_in_a_circle(asked) if asked else {}
    rows = [k for k in range(len(asked)) if k not in circles]
    answers = have_plans([asked[k] for k in rows], effort=_EFFORT)
    without = [k for k, answer in zip(rows, answers, strict=True) if answer is False]
    # explain the first few
    found = dict.fromkeys(without, "")
    for k in without[:_MAX_NAMED]:
        why = contradiction(asked[k], effort=_EFFORT)
        found[k] = why.sentence() if why else "which relations contradict each other is unknown"
    lines = [_sentence(report, "relations that no floor plan has", found, num)] if found else []
    if undecided := answers.count(None):
        lines.append(
            f"{counted(undecided, 'diagram')} undecided: no floor plan found, nor ruled out"
        )
    return lines


def _sentence(
    report: ReadReport, kind: str, plans: Mapping[int, str], num: int | None = None
) -> str:
    """Return the sentence of one kind. ``num``: only the first ``num`` diagrams were examined."""
    named = [f"{report.places[k]}: {why}" for k, why in [*plans.items()][:_MAX_NAMED]]
    if len(plans) > _MAX_NAMED:
        named.append(f"and {len(plans) - _MAX_NAMED:,} more")
    total = counted(len(report.diagrams), "diagram")
    if num is not None and num < len(report.diagrams):
        total = f"the first {counted(num, 'diagram')}"
    return f"{len(plans):,} of {total} with {kind}: {'; '.join(named)}"


def relations_in_a_circle(diagrams: tuple[BubbleDiagram, ...]) -> dict[int, str]:
    """Problems, by index, of diagrams with a cycle of rooms: each left of, above or inside the
    next. No arrangement of points has such relations."""
    measured = DiagramSet.of(diagrams)
    if not measured.vocabulary.has_directions:
        return {}
    relations = measured.relations
    sound = np.all([is_acyclic(relations, order) for _, order in ORDERS], axis=0)
    return {k: _circle(diagrams[k]) for k in np.flatnonzero(~sound).tolist()}


def _circle(diagram: BubbleDiagram) -> str:
    """Describe one circle of a diagram."""
    try:
        check_contradictions(StatedRelation("", i, j, r) for i, j, r in diagram.relations)
    except DiagramError as error:
        return error.reason
    raise AssertionError("relations in a circle contradict each other")


def relations_against_boxes(diagrams: tuple[BubbleDiagram, ...]) -> dict[int, str]:
    """Problems, by index, of diagrams with a relation that their boxes contradict: the first one.

    The check holds for any gap and either direction of reading. The centre of a room left of
    another is not right of the other's centre. If a room is inside another, its centre lies in the
    other's box.
    """
    return {k: why for k, diagram in enumerate(diagrams) if (why := _against_boxes(diagram))}


def _against_boxes(diagram: BubbleDiagram) -> str | None:
    """Describe the first relation that the boxes contradict."""
    boxes = diagram.boxes or ()
    centres = [(x0 / 2 + x1 / 2, y0 / 2 + y1 / 2) for x0, y0, x1, y1 in boxes]
    for i, j, r in diagram.relations if boxes else ():
        # order of the centres on each axis
        signs = RELATION_X_ORDER[r], RELATION_Y_ORDER[r]
        wrong = any(
            sign * (a - b) < 0 for sign, a, b in zip(signs, centres[i], centres[j], strict=True)
        )
        # the centre of the inner room lies in the outer box
        if r in (INSIDE, SURROUNDING):
            inner, outer = (i, j) if r == INSIDE else (j, i)
            x0, y0, x1, y1 = boxes[outer]
            x, y = centres[inner]
            wrong = not (x0 <= x <= x1 and y0 <= y <= y1)
        if wrong:
            return f"{StatedRelation('', i, j, r)}, but their boxes are {boxes[i]} and {boxes[j]}"
    return None
