"""Slow answers of the studio: checks of diagrams and briefs, diagrams of a brief, files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from floor_plans.briefs.checking import verdict
from floor_plans.briefs.feasibility import feasibility
from floor_plans.briefs.reading import brief_of
from floor_plans.briefs.sentences import sentences
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.files.graph_formats import to_graphml
from floor_plans.diagrams.metrics.structure import never_valid
from floor_plans.diagrams.partial import PartialDiagram
from floor_plans.diagrams.pictures.diagram_pictures import plot_diagram
from floor_plans.diagrams.pictures.placement import place_all
from floor_plans.diagrams.pictures.sheet import svg_of
from floor_plans.diagrams.vocabulary import PlanVocabulary
from floor_plans.drawings.drawing_style import DrawingStyle
from floor_plans.drawings.pictures.plan_pictures import plot_plan
from floor_plans.drawings.plan_formats import FORMATS
from floor_plans.plans.contradiction import contradiction, room_names
from floor_plans.plans.verdict import have_plans
from floor_plans.rules.finding import check_extents, plan_within_limits
from floor_plans.studio.sampling import DiagramModel

NO_DIRECTIONS = "{} which rooms meet, not their directions, which a floor plan needs"

_EFFORT = 0.3
"""Effort of the solver for each check."""

_PARTICLES = 256

_OURS = re.compile(r"(brief=)?\S*brief\.json(, line \d+)?,? ?")
"""Name of the temporary file of a brief in messages."""


def diagrams_as_json(diagrams: Sequence[BubbleDiagram], *, positions: bool) -> list[dict[str, Any]]:
    """Convert diagrams to JSON; ``positions`` adds ``[x, y, radius]`` of each room, y downwards."""
    if not positions:
        return [diagram.to_json() for diagram in diagrams]
    return [
        {
            **diagram.to_json(),
            "positions": [
                [round(float(x), 3), round(float(y), 3), round(float(r), 3)]
                for (x, y), r in zip(place.centres, place.radii, strict=True)
            ],
        }
        for diagram, place in zip(diagrams, place_all(diagrams), strict=True)
    ]


def check_diagram(drawn: PartialDiagram, *, complete: bool) -> dict[str, Any]:
    """Check that a drawn diagram has a floor plan; if not, name contradictory relations.

    ``can_be_built`` is None if undecided, or if it depends on unknown rooms or relations.
    """
    diagram: BubbleDiagram | PartialDiagram = drawn
    answer: bool | None = None
    # a complete diagram has a floor plan, or relations that contradict each other
    found, has_directions = None, drawn.vocabulary.has_directions
    if complete:
        diagram = BubbleDiagram.from_json(drawn.to_json())
    if isinstance(diagram, BubbleDiagram) and has_directions:
        (answer,) = have_plans([diagram], effort=_EFFORT)
    if has_directions and answer is not True:
        found = contradiction(diagram, effort=_EFFORT)
    # warnings on validity
    invalid = never_valid(drawn)
    return {
        "ok": found is None and invalid is None,
        "can_be_built": False if found else answer,
        "contradiction": None
        if found is None
        else {
            "sentence": found.sentence(),
            "pairs": [sorted(member[:2]) for member in found.members],
        },
        "warning": None if invalid is None else _by_name(invalid, drawn),
    }


def _by_name(sentence: str, drawn: PartialDiagram) -> str:
    """Replace ``rooms[2]`` by the name of the room in a sentence."""
    names = room_names(drawn)
    return re.sub(r"rooms\[(\d+)\]", lambda match: names[int(match[1])], sentence)


def check_brief(asked: Mapping[str, Any], n_max: int, words: PlanVocabulary) -> dict[str, Any]:
    """Explain a brief, with a sentence for each rule, and decide if a diagram can meet it."""
    brief = brief_of(asked)
    found = feasibility(brief, n_max, words)
    return {
        "ok": found.can_be_met is not False,
        "rules": list(sentences(brief)),
        "verdict": verdict(found, brief, n_max, words, "the brief"),
        "keys": [source.key for source in found.contradiction],
        "because": [source.text for source in found.contradiction],
    }


def answer_brief(
    model: DiagramModel, asked: Mapping[str, Any], num: int, seed: int, given: PartialDiagram | None
) -> list[BubbleDiagram]:
    """Sample diagrams that meet a brief.

    Raises ``ValueError`` for a brief that is wrong, cannot be met, or is met too rarely.
    """
    # refuse before sampling
    checked = check_brief(asked, model.vocab.n_max, model.words)
    if not checked["ok"]:
        raise ValueError(checked["verdict"])
    # fresh diagrams, or completions
    draw: Any = model.algorithm.sample
    try:
        if given is None:
            return list(draw(num, seed=seed, brief=asked, particles=_PARTICLES))
        drawn = draw(given=given, completions=num, seed=seed, brief=asked, particles=_PARTICLES)
    except ValueError as error:
        raise ValueError(_OURS.sub("the brief: ", str(error), count=1)) from error
    return [replace(diagram, metadata={}) for diagram in drawn]


def diagram_as_text(drawn: PartialDiagram, format: str) -> str:
    """Write a diagram as the text of a file; a partial diagram only as JSON."""
    # JSON takes partial diagrams, other formats complete ones
    if format == "json":
        return json.dumps(drawn.to_json(), indent=1) + "\n"
    if format not in ("svg", "graphml"):
        raise ValueError(
            f"format: {format} draws a plan with dimensions; realise the diagram first "
            "(/api/realise) and send its plan"
        )
    if not drawn.is_complete:
        raise ValueError(
            f"format: {format} takes a complete diagram, and some rooms or pairs are open; "
            "complete it first, or take json"
        )
    diagram = BubbleDiagram.from_json(drawn.to_json())
    return to_graphml(diagram) if format == "graphml" else svg_of(plot_diagram(diagram))


def plan_as_file(data: Mapping[str, Any], format: str, language: str = "en") -> str | bytes:
    """Write a plan, given as the object of ``FloorPlan.to_json``, as the content of a file."""
    plan = plan_within_limits(data)
    if format == "json":
        return json.dumps(plan.to_json(), indent=1) + "\n"
    if format == "graphml":
        return to_graphml(plan.to_diagram())
    check_extents(plan)
    if format == "svg":
        return svg_of(plot_plan(plan))
    return FORMATS[format].content_of(plan, DrawingStyle(language))
