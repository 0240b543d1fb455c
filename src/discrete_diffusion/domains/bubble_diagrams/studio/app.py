"""The web application: the page, and the JSON API that it uses."""

from __future__ import annotations

import asyncio
import json
import logging
import time
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

from discrete_diffusion.domains.bubble_diagrams.plans.outline import Outline
from discrete_diffusion.domains.bubble_diagrams.plans.requests import PlanRequest
from discrete_diffusion.domains.bubble_diagrams.plans.rules.rule_file import read_rules
from discrete_diffusion.domains.bubble_diagrams.studio import answering
from discrete_diffusion.domains.bubble_diagrams.studio.address import LOCAL
from discrete_diffusion.domains.bubble_diagrams.studio.batching import TooBusy
from discrete_diffusion.domains.bubble_diagrams.studio.events import FAILED, LATE, answered, drawn
from discrete_diffusion.domains.bubble_diagrams.studio.guards import (
    BearerAuth,
    BodyLimit,
    Logged,
    refusal,
)
from discrete_diffusion.domains.bubble_diagrams.studio.planning import Wish, plans_of
from discrete_diffusion.domains.bubble_diagrams.studio.requests import (
    Accepted,
    BriefBody,
    CheckBody,
    CompleteBody,
    ExportBody,
    JobState,
    PlanBody,
    RealiseBody,
    Refusal,
    SampleBody,
)
from discrete_diffusion.domains.bubble_diagrams.studio.sampling import Ask, DiagramModel
from discrete_diffusion.domains.bubble_diagrams.studio.studio import Studio
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
    _add_jobs(app, studio)
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
    @app.get("/healthz", summary="Whether it works, and how many requests wait")
    async def healthz() -> dict[str, Any]:
        return studio.health()

    @app.get("/api/model", summary="What the model knows")
    async def about() -> dict[str, Any]:
        return studio.about()

    @app.post("/api/check", summary="Whether a diagram or a brief can be, and if not, why")
    async def check(body: CheckBody) -> dict[str, Any]:
        if body.diagram is not None and body.brief is None:
            drawn = body.diagram.as_drawn()
            work = partial(answering.check_diagram, drawn, complete=body.complete)
        elif body.brief is not None and body.diagram is None:
            model = studio.model
            work = partial(answering.check_brief, body.brief, model.vocab.n_max, model.words)
        else:
            raise ValueError("body: give a diagram or a brief, one of them")
        return await answered(studio.solver.submit(work), studio.seconds)

    @app.post("/api/realise", summary="A dimensioned plan of a diagram, with its picture")
    async def realise(body: RealiseBody) -> dict[str, Any]:
        sought = answering.Sought(body.diagram.as_diagram(), body.total_area, body.ratio, body.seed)
        work = partial(answering.realise_diagram, sought)
        return await answered(studio.solver.submit(work), studio.seconds)

    @app.post("/api/export", summary="A diagram or a plan as a file")
    async def export(body: ExportBody) -> Response:
        if body.diagram is not None and body.plan is None:
            work: Any = partial(answering.diagram_as_text, body.diagram.as_drawn(), body.format)
        elif body.plan is not None and body.diagram is None:
            work = partial(answering.plan_as_file, body.plan, body.format, body.language)
        else:
            raise ValueError("body: give a diagram or a plan, one of them")
        content = await answered(studio.solver.submit(work), studio.seconds)
        name = f"{'plan' if body.plan else 'diagram'}.{body.format}"
        return Response(
            content,
            media_type=_CONTENT_TYPES.get(body.format, "text/plain"),
            headers={"Content-Disposition": f'attachment; filename="{name}"'},
        )


def _add_drawing(app: FastAPI, studio: Studio) -> None:
    @app.post("/api/complete", summary="Completions of a partial diagram")
    async def complete(body: CompleteBody) -> Any:
        given = body.given.as_partial()
        studio.model.check([given])
        ask = Ask([given], body.completions, body.seed)
        return await drawn(studio, ask, positions=body.positions, stream=body.stream)

    @app.post("/api/sample", summary="Fresh diagrams")
    async def sample(body: SampleBody) -> Any:
        partials = studio.model.fresh(body.num, body.num_rooms, body.seed)
        studio.model.check(partials)
        ask = Ask(partials, 1, body.seed)
        return await drawn(studio, ask, positions=body.positions, stream=body.stream)

    @app.post("/api/brief", summary="Diagrams that meet a brief")
    async def brief(body: BriefBody) -> dict[str, Any]:
        given = None if body.given is None else body.given.as_partial()
        start = time.perf_counter()
        work = partial(answering.answer_brief, studio.model, body.brief, body.num, body.seed, given)
        found = await answered(studio.briefs.submit(work), studio.brief_seconds)
        diagrams = await asyncio.to_thread(
            answering.diagrams_as_json, found, positions=body.positions
        )
        return {"diagrams": diagrams, "seconds": round(time.perf_counter() - start, 3)}


def _add_jobs(app: FastAPI, studio: Studio) -> None:
    @app.post("/api/plan", summary="Plans on a plot, as a job", status_code=202)
    async def plan(body: PlanBody, request: Request) -> Accepted:
        wish = _wish(body)
        client = request.client.host if request.client else ""
        return Accepted(job=studio.jobs.submit(client, partial(plans_of, studio.model, wish)))

    @app.get("/api/jobs/{job}", summary="How far a job is, and its answer", response_model=JobState)
    async def state(job: str) -> dict[str, Any]:
        if (found := studio.jobs.state(job)) is None:
            raise HTTPException(404, "there is no such job, or it ended more than an hour ago")
        return found

    @app.delete("/api/jobs/{job}", summary="Cancel a job", response_model=JobState)
    async def cancel(job: str) -> dict[str, Any]:
        studio.jobs.cancel(job)
        return await state(job)


def _wish(body: PlanBody) -> Wish:
    """``ValueError`` naming what is wrong."""
    if body.diagram is not None and (body.brief or body.num_rooms or body.candidates):
        raise ValueError("diagram: leave out brief, num_rooms and candidates, or the diagram")
    if body.candidates is not None and body.candidates < body.num:
        raise ValueError(f"candidates: {body.candidates} is below num={body.num}")
    corners = None if body.boundary is None else tuple(body.boundary)
    outline = Outline(boundary=corners, ratio=body.ratio)
    return Wish(
        PlanRequest(
            total_area=body.total_area,
            outline=outline,
            seed=body.seed,
            rules=read_rules(body.rules),
        ),
        body.num,
        body.candidates,
        None if body.diagram is None else body.diagram.as_diagram(),
        body.brief,
        body.num_rooms,
    )


def _add_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        headers = {"Content-Security-Policy": _POLICY, "Referrer-Policy": "no-referrer"}
        return FileResponse(PAGE / "index.html", headers=headers)

    app.mount("/page", StaticFiles(directory=PAGE), name="page")
