"""Web application of the studio: the page, and the JSON API that the page uses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, JSONResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from discrete_diffusion import __version__
from floor_plans.studio import LOCAL, answering, bodies
from floor_plans.studio.guards import BearerAuth, BodyLimit, Logged, OwnPages, refusal
from floor_plans.studio.jobs import Stopped, TooBusy, sentence_of
from floor_plans.studio.sampling import Ask, DiagramModel
from floor_plans.studio.studio import Studio, job_events, json_content_of

F = TypeVar("F", bound=Callable[..., Any])

PAGE = Path(__file__).parent / "page"

RETRY_AFTER = 2  # seconds that a client should wait before it tries again

EVENTS: dict[str, type[BaseModel]] = {
    "progress": bodies.JobProgress,
    "found": bodies.ShownPlan,
    "done": bodies.JobDone,
    "error": bodies.Refusal,
    "revealed": bodies.Revealed,
}
"""Data of the server-sent events, by their name."""

_POSTED: dict[str, tuple[str, type[BaseModel]]] = {
    "/api/check": ("Check if a diagram or a brief can be met, and if not, why", bodies.CheckBody),
    "/api/realise": (
        "A dimensioned plan of a diagram, or near an earlier plan, with its picture",
        bodies.RealiseBody,
    ),
    "/api/plot": ("The plot of a drawing", bodies.PlotBody),
    "/api/export": ("A diagram or a plan as a file", bodies.ExportBody),
    "/api/complete": ("Completions of a partial diagram", bodies.CompleteBody),
    "/api/sample": ("Fresh diagrams", bodies.SampleBody),
    "/api/brief": ("Diagrams that meet a brief, at once or as a job", bodies.BriefBody),
    "/api/plan": ("Plans on a plot, as a job", bodies.PlanBody),
}
"""Summary and body of the requests of each path."""

_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": bodies.Refusal, "description": text}
    for status, text in (
        (400, "The request is wrong"),
        ("4XX", "No token, too much, too slow, or too many at once"),
        ("5XX", "It failed, or took too long"),
    )
}
"""Refusals of every path, in /openapi.json; FastAPI would promise its own 422 without them."""

_CONTENT_TYPES = {
    "json": "application/json",
    "svg": "image/svg+xml",
    "geojson": "application/json",
    "pdf": "application/pdf",
    "ifc": "application/x-step",
}

_TEXT: dict[str, Any] = {"schema": {"type": "string"}}
_FILES = dict.fromkeys((*_CONTENT_TYPES.values(), "text/plain"), _TEXT)

_STREAM_OF_DIAGRAMS = {
    "description": "The diagrams; with stream events: revealed (a list of Revealed), done (Drawn), "
    "error (Refusal)",
    "content": {"text/event-stream": _TEXT},
}

_OF_JOBS = {
    name: {"$ref": f"#/components/schemas/{EVENTS[name].__name__}"}
    for name in ("progress", "found", "done", "error")
}
_STREAM_OF_JOB = {
    "description": "progress when a part is done, found for every plan on the way, then done with "
    "the answer, or error. Each has a number (id); Last-Event-ID goes on behind it.",
    "content": {"text/event-stream": {**_TEXT, "x-events": _OF_JOBS}},
}

_POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "frame-ancestors 'none'"
)


def create_app(algorithm: Any, *, token: str | None = None, **limits: Any) -> FastAPI:
    """Build the web application for a model (``algorithm``) that ``load`` returned. ``token``:
    secret that every request to the API has to send; None: only requests from this machine are
    answered. ``limits``: keyword arguments of ``Studio``."""
    # one studio for all requests, closed at the end
    studio = Studio(DiagramModel(algorithm), **limits)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await studio.close()

    app = FastAPI(
        title="discrete-diffusion studio",
        description="Completes, checks, realises and exports bubble diagrams of floor plans.",
        version=__version__,
        lifespan=lifespan,
        responses=_REFUSALS,
        docs_url=None,  # its page would load scripts from another host
        redoc_url=None,
    )
    app.state.studio = studio
    _add_errors(app)
    _add_facts(app, studio)
    _add_plans(app, studio)
    _add_drawing(app, studio)
    _add_jobs(app, studio)
    _describe(app)

    # the page, and the icon that browsers request by default
    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        headers = {"Content-Security-Policy": _POLICY, "Referrer-Policy": "no-referrer"}
        return FileResponse(PAGE / "index.html", headers=headers)

    @app.get("/favicon.ico", include_in_schema=False)
    async def icon() -> FileResponse:
        return FileResponse(PAGE / "icon.svg")

    app.mount("/page", StaticFiles(directory=PAGE), name="page")
    # middleware, the last one is the outermost
    app.add_middleware(BodyLimit)
    if token is not None:
        app.add_middleware(BearerAuth, token=token)
    app.add_middleware(OwnPages, hosts=LOCAL if token is None else None)
    app.add_middleware(Logged)
    return app


def _add_errors(app: FastAPI) -> None:
    """Add a handler that answers every error with one sentence."""

    async def refused(request: Request, error: Exception) -> Response:
        match error:
            case HTTPException():
                return refusal(error.status_code, f"{request.url.path}: {error.detail}")
            case TooBusy():
                sentence = f"too many requests are waiting; try again in {RETRY_AFTER} s"
                return refusal(429, sentence, **{"Retry-After": str(RETRY_AFTER)})
            case Stopped():
                return refusal(503, "the studio is being ended")
        is_late, is_wrong = isinstance(error, TimeoutError), isinstance(error, ValueError)
        return refusal(504 if is_late else 400 if is_wrong else 500, sentence_of(error))

    for kind in (HTTPException, TooBusy, Stopped, TimeoutError, ValueError, Exception):
        app.add_exception_handler(kind, refused)


def _post(app: FastAPI, path: str, **facts: Any) -> Callable[[F], F]:
    """Return the decorator of the function that answers requests of a path in ``_POSTED``."""
    summary, body = _POSTED[path]
    schema = {"$ref": f"#/components/schemas/{body.__name__}"}
    described = {"required": True, "content": {"application/json": {"schema": schema}}}
    return app.post(path, summary=summary, openapi_extra={"requestBody": described}, **facts)


def _describe(app: FastAPI) -> None:
    """Add the schemas of bodies and events to /openapi.json."""
    described = app.openapi

    def with_models() -> dict[str, Any]:
        if app.openapi_schema is None:
            schemas = described()["components"]["schemas"]
            for model in (*EVENTS.values(), *(body for _, body in _POSTED.values())):
                found = model.model_json_schema(ref_template="#/components/schemas/{model}")
                schemas |= {**found.pop("$defs", {}), model.__name__: found}
        return described()

    app.openapi = with_models  # type: ignore[method-assign]


def _add_facts(app: FastAPI, studio: Studio) -> None:
    """Add the paths for health, facts of the model, and checks."""

    @app.get(
        "/healthz",
        summary="Health, and the number of waiting requests",
        response_model=bodies.Health,
    )
    async def healthz() -> dict[str, Any]:
        return studio.health()

    @app.get("/api/model", summary="Facts of the model", response_model=bodies.ModelFacts)
    async def model() -> dict[str, Any]:
        return studio.model_facts()

    # checks run in a process with strict limits
    @_post(app, "/api/check", response_model=bodies.CheckedDiagram | bodies.CheckedBrief)
    async def check(request: Request) -> dict[str, Any]:
        asked = (await json_content_of(request), studio.model.vocab.n_max, studio.model.words)
        work = partial(studio.checks.run, answering.answer_check, asked)
        return await studio.checking.result(work, studio.seconds)


def _add_plans(app: FastAPI, studio: Studio) -> None:
    """Add the paths for floor plans and files."""

    # plans are found by the worker processes
    shown_or_none = bodies.ShownPlan | bodies.NoPlan

    @_post(app, "/api/realise", response_model=shown_or_none, response_model_exclude_unset=True)
    async def realise(request: Request) -> dict[str, Any]:
        job = await studio.read_in_process(answering.read_realise, request)
        work = partial(studio.workers.run, answering.shown_plans_of_job, job)
        found = await studio.realising.result(work, studio.seconds)
        if not found.plans:
            return {"plan": None, "reason": found.reason}
        ((_, shown),) = found.plans
        return shown

    # files are read and written in a process with strict limits
    @_post(app, "/api/plot", response_model=bodies.PlotAnswer)
    async def plot(request: Request) -> dict[str, Any]:
        work = partial(studio.exports.run, answering.answer_plot, await json_content_of(request))
        return {"corners": await studio.exporting.result(work, studio.seconds)}

    files = {200: {"content": _FILES, "description": "The file"}}

    @_post(app, "/api/export", response_class=Response, responses=files)
    async def export(request: Request) -> Response:
        work = partial(studio.exports.run, answering.answer_export, await json_content_of(request))
        stem, format, content = await studio.exporting.result(work, studio.seconds)
        headers = {"Content-Disposition": f'attachment; filename="{stem}.{format}"'}
        media_type = _CONTENT_TYPES.get(format, "text/plain")
        return Response(content, media_type=media_type, headers=headers)


def _add_drawing(app: FastAPI, studio: Studio) -> None:
    """Add the paths for completions, samples and briefs."""
    answers: dict[str, Any] = {"response_model": bodies.Drawn, "response_model_exclude_unset": True}
    streams: dict[str, Any] = {**answers, "responses": {200: _STREAM_OF_DIAGRAMS}}

    # completions and samples come from the network's thread
    @_post(app, "/api/complete", **streams)
    async def complete(request: Request) -> Any:
        body, given = await studio.read_in_process(answering.read_complete, request)
        studio.model.check([given])
        ask = Ask([given], body.completions, body.seed)
        return await studio.diagram_answer(ask, positions=body.positions, stream=body.stream)

    @_post(app, "/api/sample", **streams)
    async def sample(request: Request) -> Any:
        read = partial(answering.read_body, bodies.SampleBody)
        body = await studio.read_in_process(read, request)
        partials = studio.model.fresh(body.num, body.num_rooms, body.seed)
        studio.model.check(partials)
        ask = Ask(partials, 1, body.seed)
        return await studio.diagram_answer(ask, positions=body.positions, stream=body.stream)

    # briefs take longer: in a process, or as a job
    @_post(
        app,
        "/api/brief",
        responses={202: {"model": bodies.Accepted, "description": "The job that was begun"}},
        **answers,
    )
    async def brief(request: Request) -> Any:
        body, given = await studio.read_in_process(answering.read_brief, request)
        model, answer = studio.pickled, answering.brief_answer
        ask = (model, body, given)
        work = partial(answering.run_sampling, studio.workers, answer, ask, model)
        if body.job:
            return studio.submit_job(request, lambda report: work())
        return await studio.briefs.result(work, studio.brief_seconds)


def _add_jobs(app: FastAPI, studio: Studio) -> None:
    """Add the paths that submit, show or cancel jobs."""
    states: dict[str, Any] = {"response_model": bodies.JobState}
    states["response_model_exclude_unset"] = True
    no_job = "no job has this id, or it ended more than an hour ago"

    @_post(app, "/api/plan", status_code=202, response_model=bodies.Accepted)
    async def plan(request: Request) -> JSONResponse:
        order = await studio.read_in_process(answering.read_plan, request)
        work = partial(answering.best_plans_of_order, studio.pickled, studio.workers, order)
        return studio.submit_job(request, work)

    @app.get("/api/jobs/{job}", summary="State of a job, and its answer", **states)
    async def state(job: str) -> dict[str, Any]:
        if (found := studio.jobs.state(job)) is None:
            raise HTTPException(404, no_job)
        return found

    @app.delete("/api/jobs/{job}", summary="Cancel a job", **states)
    async def cancel(job: str) -> dict[str, Any]:
        studio.jobs.cancel(job)
        return await state(job)

    # events, from the last one that the client has seen
    @app.get(
        "/api/jobs/{job}/events",
        summary="Events of a job, as server-sent events",
        response_class=StreamingResponse,
        responses={200: _STREAM_OF_JOB},
    )
    async def events(job: str, request: Request) -> StreamingResponse:
        if (found := studio.jobs.get(job)) is None:
            raise HTTPException(404, no_job)
        last = request.headers.get("last-event-id", "")
        news = job_events(found, int(last) + 1 if last.isdecimal() else 0)
        return StreamingResponse(news, media_type="text/event-stream")
