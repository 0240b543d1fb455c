"""The web application: the page, and the JSON API that it uses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from discrete_diffusion import __version__
from floor_plans.studio import LOCAL
from floor_plans.studio.answers import (
    Accepted,
    CheckedBrief,
    CheckedDiagram,
    Drawn,
    Health,
    ModelFacts,
    NoPlan,
    PlotAnswer,
    Refusal,
    ShownPlan,
)
from floor_plans.studio.batching import TooBusy
from floor_plans.studio.events import FAILED, LATE, content_of, drawn, read, wanted
from floor_plans.studio.guards import BearerAuth, BodyLimit, Logged, OwnPages, refusal
from floor_plans.studio.job_paths import accepted, add_jobs, describe, takes
from floor_plans.studio.planning import BriefAsk, brief_answer, found_of, sampled
from floor_plans.studio.reading import (
    answer_check,
    answer_export,
    answer_plot,
    read_brief,
    read_complete,
    read_realise,
    read_sample,
)
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
from floor_plans.studio.sampling import Ask, DiagramModel
from floor_plans.studio.studio import Studio
from floor_plans.studio.workers import Late

logger = logging.getLogger(__name__)

PAGE = Path(__file__).parent / "page"

RETRY_AFTER = 2
"""Seconds that a client should wait before it tries again."""

_REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": Refusal, "description": "The request is wrong"},
    "4XX": {"model": Refusal, "description": "No token, too much, too slow, or too many at once"},
    "5XX": {"model": Refusal, "description": "It failed, or took too long"},
}
"""Refusals of every path, in /openapi.json; FastAPI would promise its own 422 without them."""

_BODIES = (
    *(CompleteBody, SampleBody, BriefBody, CheckBody),
    *(RealiseBody, PlanBody, PlotBody, ExportBody),
)

_CONTENT_TYPES = {
    "json": "application/json",
    "svg": "image/svg+xml",
    "geojson": "application/json",
    "pdf": "application/pdf",
    "ifc": "application/x-step",
}

_TEXT: dict[str, Any] = {"schema": {"type": "string"}}
_FILES = dict.fromkeys((*_CONTENT_TYPES.values(), "text/plain"), _TEXT)

_POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "frame-ancestors 'none'"
)


def create_app(algorithm: Any, *, token: str | None = None, **limits: Any) -> FastAPI:
    """Build the application of a model that ``load`` returned.

    ``token``: required of every request to the API; without a token only requests of this machine
    are answered. ``limits``: of ``Studio``.
    """
    # one studio for all requests, closed at the end
    studio = Studio(DiagramModel(algorithm), **limits)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(studio.close)

    app = FastAPI(
        title="discrete-diffusion studio",
        description="Completes, checks, realises and exports bubble diagrams of floor plans.",
        version=__version__,
        lifespan=lifespan,
        responses=_REFUSALS,
        docs_url=None,  # its page would load scripts from another host
        redoc_url=None,
    )
    # paths
    app.state.studio = studio
    _add_errors(app)
    _add_questions(app, studio)
    _add_drawing(app, studio)
    add_jobs(app, studio)
    describe(app, _BODIES)
    _add_page(app)
    # middleware, the last one is the outermost
    app.add_middleware(BodyLimit)
    if token is not None:
        app.add_middleware(BearerAuth, token=token)
    app.add_middleware(OwnPages, hosts=LOCAL if token is None else None)
    app.add_middleware(Logged)
    return app


def _add_errors(app: FastAPI) -> None:
    """Add handlers that answer every error with one sentence."""

    # wrong requests
    @app.exception_handler(ValueError)
    async def wrong(request: Request, error: ValueError) -> JSONResponse:
        return refusal(400, str(error))

    # full queues
    @app.exception_handler(TooBusy)
    async def busy(request: Request, error: TooBusy) -> JSONResponse:
        sentence = f"too many requests are waiting; try again in {RETRY_AFTER} s"
        return refusal(429, sentence, **{"Retry-After": str(RETRY_AFTER)})

    # time limits
    @app.exception_handler(Late)
    @app.exception_handler(TimeoutError)
    async def late(request: Request, error: TimeoutError | Late) -> JSONResponse:
        return refusal(504, str(error) or LATE)

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> JSONResponse:
        return refusal(error.status_code, f"{request.url.path}: {error.detail}")

    # errors of the studio itself
    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> JSONResponse:
        logger.error("a request failed", exc_info=error)
        return refusal(500, FAILED)


def _add_questions(app: FastAPI, studio: Studio) -> None:
    @app.get(
        "/healthz", summary="Health, and the number of waiting requests", response_model=Health
    )
    async def healthz() -> dict[str, Any]:
        return studio.health()

    @app.get("/api/model", summary="Facts of the model", response_model=ModelFacts)
    async def model() -> dict[str, Any]:
        return studio.model_facts()

    # checks run in a process with strict limits
    @app.post(
        "/api/check",
        summary="Check if a diagram or a brief can be met, and if not, why",
        response_model=CheckedDiagram | CheckedBrief,
        openapi_extra=takes(CheckBody),
    )
    async def check(request: Request) -> dict[str, Any]:
        asked = (await content_of(request), studio.model.vocab.n_max, studio.model.words)
        work = partial(studio.checks.run, answer_check, asked)
        return await wanted(studio.checking, work, studio.seconds)

    # plans are found by the worker processes
    @app.post(
        "/api/realise",
        summary="A dimensioned plan of a diagram, or near an earlier plan, with its picture",
        response_model=ShownPlan | NoPlan,
        response_model_exclude_unset=True,
        openapi_extra=takes(RealiseBody),
    )
    async def realise(request: Request) -> dict[str, Any]:
        work = partial(studio.workers.run, found_of, await read(studio, read_realise, request))
        found = await wanted(studio.realising, work, studio.seconds)
        if not found.plans:
            return {"plan": None, "reason": found.reason}
        ((_, shown),) = found.plans
        return shown

    # files are read and written in a process with strict limits
    @app.post(
        "/api/plot",
        summary="The plot of a drawing",
        response_model=PlotAnswer,
        openapi_extra=takes(PlotBody),
    )
    async def plot(request: Request) -> dict[str, Any]:
        work = partial(studio.exports.run, answer_plot, await content_of(request))
        return {"corners": await wanted(studio.exporting, work, studio.seconds)}

    @app.post(
        "/api/export",
        summary="A diagram or a plan as a file",
        response_class=Response,
        responses={200: {"content": _FILES, "description": "The file"}},
        openapi_extra=takes(ExportBody),
    )
    async def export(request: Request) -> Response:
        work = partial(studio.exports.run, answer_export, await content_of(request))
        stem, format, content = await wanted(studio.exporting, work, studio.seconds)
        return Response(
            content,
            media_type=_CONTENT_TYPES.get(format, "text/plain"),
            headers={"Content-Disposition": f'attachment; filename="{stem}.{format}"'},
        )


_DRAWN: dict[str, Any] = {
    "response_model": Drawn,
    "response_model_exclude_unset": True,
    "responses": {
        200: {
            "description": "The diagrams; with stream events: revealed (a list of Revealed), done "
            "(Drawn), error (Refusal)",
            "content": {"text/event-stream": _TEXT},
        }
    },
}


def _add_drawing(app: FastAPI, studio: Studio) -> None:
    # completions and samples come from the network's thread
    @app.post(
        "/api/complete",
        summary="Completions of a partial diagram",
        openapi_extra=takes(CompleteBody),
        **_DRAWN,
    )
    async def complete(request: Request) -> Any:
        body, given = await read(studio, read_complete, request)
        studio.model.check([given])
        ask = Ask([given], body.completions, body.seed)
        return await drawn(studio, ask, positions=body.positions, stream=body.stream)

    @app.post("/api/sample", summary="Fresh diagrams", openapi_extra=takes(SampleBody), **_DRAWN)
    async def sample(request: Request) -> Any:
        body = await read(studio, read_sample, request)
        partials = studio.model.fresh(body.num, body.num_rooms, body.seed)
        studio.model.check(partials)
        ask = Ask(partials, 1, body.seed)
        return await drawn(studio, ask, positions=body.positions, stream=body.stream)

    @app.post(
        "/api/brief",
        summary="Diagrams that meet a brief, at once or as a job",
        response_model=Drawn,
        response_model_exclude_unset=True,
        responses={202: {"model": Accepted, "description": "The job that was begun"}},
        openapi_extra=takes(BriefBody),
    )
    async def brief(request: Request) -> Any:
        body, given = await read(studio, read_brief, request)
        ask = BriefAsk(
            studio.pickled, body.brief, body.num, body.seed, given, positions=body.positions
        )
        # briefs take longer: in a process, or as a job
        work = partial(sampled, studio.workers, brief_answer, ask, studio.pickled)
        if body.job:
            return accepted(studio, request, lambda report: work(report.is_cancelled))
        return await wanted(studio.briefs, work, studio.brief_seconds)


def _add_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        headers = {"Content-Security-Policy": _POLICY, "Referrer-Policy": "no-referrer"}
        return FileResponse(PAGE / "index.html", headers=headers)

    @app.get("/favicon.ico", include_in_schema=False)
    async def icon() -> FileResponse:
        """Icon that browsers request by default."""
        return FileResponse(PAGE / "icon.svg")

    app.mount("/page", StaticFiles(directory=PAGE), name="page")
