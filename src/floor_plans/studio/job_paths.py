"""API paths of plans: jobs, their states and their events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from floor_plans.studio.answers import (
    Accepted,
    JobDone,
    JobProgress,
    JobState,
    Refusal,
    Revealed,
    ShownPlan,
)
from floor_plans.studio.events import event_text, read
from floor_plans.studio.jobs import Report
from floor_plans.studio.planning import plans_of
from floor_plans.studio.reading import read_plan
from floor_plans.studio.requests import PlanBody
from floor_plans.studio.studio import Studio

_LOOK = 0.2
"""Seconds between two polls for new events."""

_STILL_THERE = 15.0
"""Seconds of silence after which a comment is sent, so that proxies keep the stream open."""

EVENTS: dict[str, type[BaseModel]] = {
    "progress": JobProgress,
    "found": ShownPlan,
    "done": JobDone,
    "error": Refusal,
    "revealed": Revealed,
}
"""Data of the server-sent events, by their name."""

_NO_JOB = "no job has this id, or it ended more than an hour ago"


def accepted(
    studio: Studio, request: Request, work: Callable[[Report], dict[str, Any]]
) -> JSONResponse:
    """Submit work as a job of the client, and answer with its id."""
    client = request.client.host if request.client else ""
    return JSONResponse(Accepted(job=studio.jobs.submit(client, work)).model_dump(), 202)


def add_jobs(app: FastAPI, studio: Studio) -> None:
    # submit
    @app.post(
        "/api/plan",
        summary="Plans on a plot, as a job",
        status_code=202,
        response_model=Accepted,
        openapi_extra=takes(PlanBody),
    )
    async def plan(request: Request) -> JSONResponse:
        order = await read(studio, read_plan, request)
        return accepted(studio, request, partial(plans_of, studio.pickled, studio.workers, order))

    # state and answer
    @app.get(
        "/api/jobs/{job}",
        summary="State of a job, and its answer",
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

    # events, from the last one that the client has seen
    @app.get(
        "/api/jobs/{job}/events",
        summary="Events of a job, as server-sent events",
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


def takes(body: type[BaseModel]) -> dict[str, Any]:
    """OpenAPI description of a path with this body."""
    schema = {"$ref": f"#/components/schemas/{body.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def describe(app: FastAPI, bodies: Iterable[type[BaseModel]]) -> None:
    """Add the schemas of bodies and events to /openapi.json."""
    described = app.openapi

    def with_models() -> dict[str, Any]:
        if app.openapi_schema is None:
            # schemas of bodies and events, with their definitions
            schemas = described()["components"]["schemas"]
            for model in (*EVENTS.values(), *bodies):
                found = model.model_json_schema(ref_template="#/components/schemas/{model}")
                schemas |= {**found.pop("$defs", {}), model.__name__: found}
        return described()

    app.openapi = with_models  # type: ignore[method-assign]


async def _events(studio: Studio, job: str, since: int) -> AsyncIterator[str]:
    # poll for news until the job ends
    quiet = time.monotonic()
    while (seen := studio.jobs.events(job, since)) is not None:
        news, over = seen
        for name, data in news:
            if data:  # intermediate plans of an ended job are empty
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
