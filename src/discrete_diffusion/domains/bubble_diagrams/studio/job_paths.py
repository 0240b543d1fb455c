"""Paths of the API for plans: jobs, their state and their events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from discrete_diffusion.domains.bubble_diagrams.briefs.making import check_habitable, with_brief
from discrete_diffusion.domains.bubble_diagrams.plans.outline import Outline
from discrete_diffusion.domains.bubble_diagrams.plans.realising import Job
from discrete_diffusion.domains.bubble_diagrams.plans.requests import PlanRequest
from discrete_diffusion.domains.bubble_diagrams.plans.rules.rule_file import read_rules
from discrete_diffusion.domains.bubble_diagrams.studio.answering import NO_DIRECTIONS
from discrete_diffusion.domains.bubble_diagrams.studio.answers import (
    Accepted,
    JobDone,
    JobProgress,
    JobState,
    Refusal,
    Revealed,
    ShownPlan,
)
from discrete_diffusion.domains.bubble_diagrams.studio.events import event_text
from discrete_diffusion.domains.bubble_diagrams.studio.jobs import Report
from discrete_diffusion.domains.bubble_diagrams.studio.planning import Wish, plans_of
from discrete_diffusion.domains.bubble_diagrams.studio.requests import PlanBody, RealiseBody
from discrete_diffusion.domains.bubble_diagrams.studio.studio import Studio

_LOOK = 0.2
"""Seconds between two looks for new events."""

_STILL_THERE = 15.0
"""Seconds after which a comment is sent if nothing else was, so that no proxy ends the stream."""

EVENTS: dict[str, type[BaseModel]] = {
    "progress": JobProgress,
    "found": ShownPlan,
    "done": JobDone,
    "error": Refusal,
    "revealed": Revealed,
}
"""Data of the server-sent events, by their name."""

_NO_JOB = "there is no such job, or it ended more than an hour ago"


def accepted(
    studio: Studio, request: Request, work: Callable[[Report], dict[str, Any]]
) -> JSONResponse:
    """Answer that the work has become a job of the client's."""
    client = request.client.host if request.client else ""
    return JSONResponse(Accepted(job=studio.jobs.submit(client, work)).model_dump(), 202)


def add_jobs(app: FastAPI, studio: Studio) -> None:
    @app.post(
        "/api/plan",
        summary="Plans on a plot, as a job",
        status_code=202,
        response_model=Accepted,
    )
    async def plan(body: PlanBody, request: Request) -> JSONResponse:
        return accepted(
            studio, request, partial(plans_of, studio.pickled, studio.workers, _wish(body))
        )

    @app.get(
        "/api/jobs/{job}",
        summary="How far a job is, and its answer",
        response_model=JobState,
        response_model_exclude_unset=True,
    )
    async def state(job: str) -> dict[str, Any]:
        if (found := studio.jobs.state(job)) is None:
            raise HTTPException(404, _NO_JOB)
        return found

    @app.delete(
        "/api/jobs/{job}",
        summary="Cancel a job",
        response_model=JobState,
        response_model_exclude_unset=True,
    )
    async def cancel(job: str) -> dict[str, Any]:
        studio.jobs.cancel(job)
        return await state(job)

    @app.get(
        "/api/jobs/{job}/events",
        summary="What happens to a job, as server-sent events",
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": _EVENTS}, "description": _MEANING}},
    )
    async def events(job: str, request: Request) -> StreamingResponse:
        if studio.jobs.events(job, 0) is None:
            raise HTTPException(404, _NO_JOB)
        last = request.headers.get("last-event-id", "")
        since = int(last) + 1 if last.isdecimal() else 0
        return StreamingResponse(_events(studio, job, since), media_type="text/event-stream")


_MEANING = (
    "progress when a part is done, found for every plan on the way, then done with the answer, or "
    "error. Each has a number (id); Last-Event-ID goes on behind it."
)
_EVENTS: dict[str, Any] = {
    "schema": {"type": "string"},
    "x-events": {
        name: {"$ref": f"#/components/schemas/{EVENTS[name].__name__}"}
        for name in ("progress", "found", "done", "error")
    },
}


def describe_events(app: FastAPI) -> None:
    """Add the data of the events to /openapi.json."""
    described = app.openapi

    def with_events() -> dict[str, Any]:
        if app.openapi_schema is None:
            schemas = described()["components"]["schemas"]
            for model in EVENTS.values():
                found = model.model_json_schema(ref_template="#/components/schemas/{model}")
                schemas |= {**found.pop("$defs", {}), model.__name__: found}
        return described()

    app.openapi = with_events  # type: ignore[method-assign]


async def _events(studio: Studio, job: str, since: int) -> AsyncIterator[str]:
    quiet = time.monotonic()
    while (seen := studio.jobs.events(job, since)) is not None:
        news, over = seen
        for name, data in news:
            if data:  # what was found on the way is forgotten when the job has ended
                yield event_text(name, data, since)
            since += 1
        if over:
            return
        now = time.monotonic()
        quiet = now if news else quiet
        if now - quiet > _STILL_THERE:
            quiet = now
            yield ": still there\n\n"
        await asyncio.sleep(_LOOK)


def asked_plans(body: PlanBody | RealiseBody) -> PlanRequest:
    """``ValueError`` naming what is wrong."""
    corners = None if body.boundary is None else tuple(body.boundary)
    return PlanRequest(
        total_area=body.total_area,
        outline=Outline(boundary=corners, ratio=body.ratio),
        seed=body.seed,
        rules=read_rules(body.rules),
        front_door=body.front_door,
        north=body.north,
    )


def job_of(body: PlanBody | RealiseBody, asked: PlanRequest) -> Job:
    """The plan to find of a diagram, or near an earlier plan. ``ValueError`` naming what is
    wrong."""
    diagram = None if body.diagram is None else body.diagram.as_diagram()
    if diagram is not None and not diagram.vocabulary.has_directions:
        raise ValueError("diagram: " + NO_DIRECTIONS.format("it says"))
    if body.near is not None:
        return body.near.as_change().job(asked, diagram)
    if diagram is None:
        raise ValueError("body: give a diagram, or near, an earlier plan")
    (job,) = asked.jobs([diagram])
    return job


def _wish(body: PlanBody) -> Wish:
    """``ValueError`` naming what is wrong."""
    is_given = body.diagram is not None or body.near is not None
    if is_given and (body.brief or body.num_rooms or body.candidates):
        raise ValueError("diagram: leave out brief, num_rooms and candidates, or the diagram")
    if body.candidates is not None and body.candidates < body.num:
        raise ValueError(f"candidates: {body.candidates} is below num={body.num}")
    asked = asked_plans(body)
    job = job_of(body, asked) if is_given else None
    check_habitable(body.habitable, asked)
    asked = with_brief(asked, body.brief)
    return Wish(asked, body.num, body.candidates, job, body.brief, body.num_rooms, body.habitable)
