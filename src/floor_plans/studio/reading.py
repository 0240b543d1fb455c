"""Reading of request bodies, done by processes to keep the event loop free."""

from __future__ import annotations

import json
import reprlib
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from floor_plans.briefs.making import check_habitable, with_brief
from floor_plans.diagrams.files.fields import DiagramError
from floor_plans.diagrams.files.json_text import check_keys, check_metadata, load_json
from floor_plans.diagrams.partial import PartialDiagram
from floor_plans.diagrams.vocabulary import PlanVocabulary
from floor_plans.drawings.dxf_reading import plot_of_dxf
from floor_plans.plans.floor_plan import Point
from floor_plans.plans.outline import Outline
from floor_plans.rules.rule_set import read_rules
from floor_plans.solver.realised import Job
from floor_plans.solver.requests import PlanRequest
from floor_plans.studio import answering
from floor_plans.studio.answering import NO_DIRECTIONS
from floor_plans.studio.planning import PlanOrder
from floor_plans.studio.requests import (
    BriefBody,
    CheckBody,
    CompleteBody,
    ExportBody,
    PlanBody,
    PlotBody,
    RealiseBody,
    SampleBody,
)

B = TypeVar("B", bound=BaseModel)


def read_body(kind: type[B], content: bytes) -> B:
    """Read and validate a body; ``ValueError`` with a sentence that names the wrong key."""
    # JSON first, then the schema
    try:
        data = load_json(content)
    except DiagramError as error:
        raise ValueError(f"the body is {error.reason}") from error
    if not isinstance(data, dict):
        raise ValueError(f"body: expected a JSON object, got {reprlib.repr(data)}")
    check_keys(data)
    check_metadata(data)
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise ValueError(_sentence(error)) from None


def _sentence(error: ValidationError) -> str:
    """Sentence on the first error, with its key."""
    # key, index and value of the first error
    first = error.errors(include_url=False)[0]
    names = [str(part)[:80] for part in first["loc"] if not isinstance(part, int)]
    index = "".join(f"[{part}]" for part in first["loc"] if isinstance(part, int))
    message = first["msg"][:1].lower() + first["msg"][1:]
    got = "" if first["type"] == "missing" else f", got {json.dumps(first['input'], default=str)}"
    return f"{'.'.join(names) or 'body'}{index}: {message}{got if len(got) < 80 else ''}"


def read_complete(content: bytes) -> tuple[CompleteBody, PartialDiagram]:
    body = read_body(CompleteBody, content)
    return body, body.given.as_partial()


def read_sample(content: bytes) -> SampleBody:
    return read_body(SampleBody, content)


def read_brief(content: bytes) -> tuple[BriefBody, PartialDiagram | None]:
    body = read_body(BriefBody, content)
    return body, None if body.given is None else body.given.as_partial()


def read_realise(content: bytes) -> Job:
    """Read the job of a plan."""
    body = read_body(RealiseBody, content)
    return _job(body, _request(body))


def read_plan(content: bytes) -> PlanOrder:
    """Read an order of plans."""
    body = read_body(PlanBody, content)
    # a given diagram or plan excludes options of sampling
    is_given = body.diagram is not None or body.near is not None
    if is_given and (body.brief or body.num_rooms or body.candidates):
        raise ValueError("diagram: leave out brief, num_rooms and candidates, or the diagram")
    if body.candidates is not None and body.candidates < body.num:
        raise ValueError(f"candidates: {body.candidates} is below num={body.num}")
    # the request of plans, with facts of the brief
    asked = _request(body)
    job = _job(body, asked) if is_given else None
    check_habitable(body.habitable, asked)
    asked = with_brief(asked, body.brief)
    return PlanOrder(
        asked, body.num, body.candidates, job, body.brief, body.num_rooms, body.habitable
    )


def _request(body: PlanBody | RealiseBody) -> PlanRequest:
    corners = None if body.boundary is None else tuple(body.boundary)
    return PlanRequest(
        total_area=body.total_area,
        outline=Outline(boundary=corners, ratio=body.ratio),
        seed=body.seed,
        rules=read_rules(body.rules),
        front_door=body.front_door,
        north=body.north,
    )


def _job(body: PlanBody | RealiseBody, asked: PlanRequest) -> Job:
    """Build the job of a diagram, or of a change near an earlier plan."""
    diagram = None if body.diagram is None else body.diagram.as_diagram()
    if diagram is not None and not diagram.vocabulary.has_directions:
        raise ValueError("diagram: " + NO_DIRECTIONS.format("it says"))
    if body.near is not None:
        return body.near.as_change().job(asked, diagram)
    if diagram is None:
        raise ValueError("body: give a diagram, or near, an earlier plan")
    (job,) = asked.jobs([diagram])
    return job


def answer_check(asked: tuple[bytes, int, PlanVocabulary]) -> dict[str, Any]:
    """Check the diagram or brief of a body, for a model of ``n_max`` rooms with a vocabulary."""
    content, n_max, words = asked
    body = read_body(CheckBody, content)
    if body.diagram is not None and body.brief is None:
        return answering.check_diagram(body.diagram.as_drawn(), complete=body.complete)
    if body.brief is not None and body.diagram is None:
        return answering.check_brief(body.brief, n_max, words)
    raise ValueError("body: give a diagram or a brief, one of them")


def answer_plot(content: bytes) -> tuple[Point, ...]:
    """Read the corners of the plot in a drawing."""
    return plot_of_dxf(read_body(PlotBody, content).dxf.encode())


def answer_export(content: bytes) -> tuple[str, str, str | bytes]:
    """Export a diagram or plan: stem, format and content of the file."""
    body = read_body(ExportBody, content)
    if body.diagram is not None and body.plan is None:
        drawn = body.diagram.as_drawn()
        return "diagram", body.format, answering.diagram_as_text(drawn, body.format)
    if body.plan is not None and body.diagram is None:
        return "plan", body.format, answering.plan_as_file(body.plan, body.format, body.language)
    raise ValueError("body: give a diagram or a plan, one of them")
