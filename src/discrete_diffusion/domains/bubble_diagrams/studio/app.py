"""The web application: the page, and the JSON API that it uses."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from discrete_diffusion.domains.bubble_diagrams.plans.formats.dxf_reading import plot_of_dxf
from discrete_diffusion.domains.bubble_diagrams.studio import answering
from discrete_diffusion.domains.bubble_diagrams.studio.address import LOCAL
from discrete_diffusion.domains.bubble_diagrams.studio.answers import (
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
from discrete_diffusion.domains.bubble_diagrams.studio.batching import TooBusy
from discrete_diffusion.domains.bubble_diagrams.studio.events import (
    FAILED,
    LATE,
    answered,
    drawn,
    wanted,
)
from discrete_diffusion.domains.bubble_diagrams.studio.guards import (
    BearerAuth,
    BodyLimit,
    Logged,
    refusal,
)
from discrete_diffusion.domains.bubble_diagrams.studio.job_paths import (
    accepted,
    add_jobs,
    asked_plans,
    describe_events,
    job_of,
)
from discrete_diffusion.domains.bubble_diagrams.studio.planning import (
    BriefAsk,
    brief_answer,
    found_of,
    sampled,
)
from discrete_diffusion.domains.bubble_diagrams.studio.requests import (
    BriefBody,
    CheckBody,
    CompleteBody,
    ExportBody,
    PlotBody,
    RealiseBody,
    SampleBody,
)
from discrete_diffusion.domains.bubble_diagrams.studio.sampling import Ask, DiagramModel
from discrete_diffusion.domains.bubble_diagrams.studio.studio import Studio
from discrete_diffusion.domains.bubble_diagrams.studio.workers import call
from discrete_diffusion.runtime.version import __version__

logger = logging.getLogger(__name__)

PAGE = Path(__file__).parent / "page"

RETRY_AFTER = 2
"""Seconds that a client who is sent away should wait."""

_REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": Refusal, "description": "The request is wrong"},
    "4XX": {"model": Refusal, "description": "No token, too much, too slow, or too many at once"},
    "5XX": {"model": Refusal, "description": "It failed, or took too long"},
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

_POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "frame-ancestors 'none'"
)


def create_app(algorithm: Any, *, token: str | None = None, **limits: Any) -> FastAPI:
    """The application of a model as ``load`` gives it. ``token``: required of every request to the
    API; without it only this machine is answered. ``limits``: of ``Studio``."""
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
    app.state.studio = studio
    _add_errors(app)
    _add_questions(app, studio)
    _add_drawing(app, studio)
    add_jobs(app, studio)
    describe_events(app)
    _add_page(app)
    app.add_middleware(BodyLimit)
    if token is None:
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=[*LOCAL, "[::1]"])
    else:
        app.add_middleware(BearerAuth, token=token)
    app.add_middleware(Logged)
    return app


def _add_errors(app: FastAPI) -> None:
    """Every refusal is one sentence."""

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        return refusal(400, _sentence(error))

    @app.exception_handler(ValueError)
    async def wrong(request: Request, error: ValueError) -> JSONResponse:
        return refusal(400, str(error))

    @app.exception_handler(TooBusy)
    async def busy(request: Request, error: TooBusy) -> JSONResponse:
        sentence = f"too many requests are waiting; try again in {RETRY_AFTER} s"
        return refusal(429, sentence, **{"Retry-After": str(RETRY_AFTER)})

    @app.exception_handler(TimeoutError)
    async def late(request: Request, error: TimeoutError) -> JSONResponse:
        return refusal(504, LATE)

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> JSONResponse:
        return refusal(error.status_code, f"{request.url.path}: {error.detail}")

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> JSONResponse:
        logger.error("a request failed", exc_info=error)
        return refusal(500, FAILED)


def _sentence(error: RequestValidationError) -> str:
    """Sentence on what is wrong first, and where."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return f"the body is no JSON: {first['ctx']['error']}"
    where = ".".join(str(part) for part in first["loc"][1:] if not isinstance(part, int)) or "body"
    index = "".join(f"[{part}]" for part in first["loc"][1:] if isinstance(part, int))
    message = first["msg"][:1].lower() + first["msg"][1:]
    got = "" if first["type"] == "missing" else f", got {json.dumps(first['input'], default=str)}"
    return f"{where}{index}: {message}{got if len(got) < 80 else ''}"


def _add_questions(app: FastAPI, studio: Studio) -> None:
    @app.get(
        "/healthz", summary="Whether it works, and how many requests wait", response_model=Health
    )
    async def healthz() -> dict[str, Any]:
        return studio.health()

    @app.get("/api/model", summary="What the model knows", response_model=ModelFacts)
    async def about() -> dict[str, Any]:
        return studio.about()

    @app.post(
        "/api/check",
        summary="Whether a diagram or a brief can be, and if not, why",
        response_model=CheckedDiagram | CheckedBrief,
    )
    async def check(body: CheckBody) -> dict[str, Any]:
        if body.diagram is not None and body.brief is None:
            drawn = body.diagram.as_drawn()
            verdict = partial(answering.check_diagram, drawn, complete=body.complete)
        elif body.brief is not None and body.diagram is None:
            model = studio.model
            verdict = partial(answering.check_brief, body.brief, model.vocab.n_max, model.words)
        else:
            raise ValueError("body: give a diagram or a brief, one of them")
        work = partial(studio.checks.run, call, verdict)
        return await wanted(studio.checking, work, studio.seconds)

    @app.post(
        "/api/realise",
        summary="A dimensioned plan of a diagram, or near an earlier plan, with its picture",
        response_model=ShownPlan | NoPlan,
        response_model_exclude_unset=True,
    )
    async def realise(body: RealiseBody) -> dict[str, Any]:
        work = partial(studio.workers.run, found_of, job_of(body, asked_plans(body)))
        found = await wanted(studio.realising, work, studio.seconds)
        if not found.plans:
            return {"plan": None, "reason": found.reason}
        ((_, shown),) = found.plans
        return shown

    @app.post("/api/plot", summary="The plot of a drawing", response_model=PlotAnswer)
    async def plot(body: PlotBody) -> dict[str, Any]:
        work = partial(plot_of_dxf, body.dxf.encode())
        return {"corners": await answered(studio.exports.submit(work), studio.seconds)}

    @app.post(
        "/api/export",
        summary="A diagram or a plan as a file",
        response_class=Response,
        responses={200: {"content": _FILES, "description": "The file"}},
    )
    async def export(body: ExportBody) -> Response:
        if body.diagram is not None and body.plan is None:
            work: Any = partial(answering.diagram_as_text, body.diagram.as_drawn(), body.format)
        elif body.plan is not None and body.diagram is None:
            work = partial(answering.plan_as_file, body.plan, body.format, body.language)
        else:
            raise ValueError("body: give a diagram or a plan, one of them")
        content = await answered(studio.exports.submit(work), studio.seconds)
        name = f"{'plan' if body.plan else 'diagram'}.{body.format}"
        return Response(
            content,
            media_type=_CONTENT_TYPES.get(body.format, "text/plain"),
            headers={"Content-Disposition": f'attachment; filename="{name}"'},
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
    @app.post("/api/complete", summary="Completions of a partial diagram", **_DRAWN)
    async def complete(body: CompleteBody) -> Any:
        given = body.given.as_partial()
        studio.model.check([given])
        ask = Ask([given], body.completions, body.seed)
        return await drawn(studio, ask, positions=body.positions, stream=body.stream)

    @app.post("/api/sample", summary="Fresh diagrams", **_DRAWN)
    async def sample(body: SampleBody) -> Any:
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
    )
    async def brief(body: BriefBody, request: Request) -> Any:
        given = None if body.given is None else body.given.as_partial()
        ask = BriefAsk(
            studio.pickled, body.brief, body.num, body.seed, given, positions=body.positions
        )
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
        """What browsers ask for beside a file that is opened by itself."""
        return FileResponse(PAGE / "icon.svg")

    app.mount("/page", StaticFiles(directory=PAGE), name="page")
