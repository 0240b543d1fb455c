"""The web application: the page, and the JSON API that it uses."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from discrete_diffusion import __version__
from discrete_diffusion.domains.bubble_diagrams.pictures.palette import ROOM_STYLES, UNKNOWN_ROOM
from discrete_diffusion.domains.bubble_diagrams.studio import answering
from discrete_diffusion.domains.bubble_diagrams.studio.batching import Batcher, Errands, TooBusy
from discrete_diffusion.domains.bubble_diagrams.studio.drawing import (
    Answer,
    Ask,
    DiagramModel,
    Revealed,
)
from discrete_diffusion.domains.bubble_diagrams.studio.guards import (
    BodyLimit,
    Logged,
    TokenAsked,
    refusal,
)
from discrete_diffusion.domains.bubble_diagrams.studio.requests import (
    MOST_DRAWN,
    BriefBody,
    CheckBody,
    CompleteBody,
    ExportBody,
    RealiseBody,
    SampleBody,
)
from discrete_diffusion.domains.bubble_diagrams.vocabulary import ROOM_TYPES

logger = logging.getLogger(__name__)

T = TypeVar("T")

PAGE = Path(__file__).parent / "page"

SECONDS, BRIEF_SECONDS = 30.0, 120.0
"""That a request may take, and one with a brief."""

RETRY_AFTER = 2
"""Seconds that one who is sent away is asked to wait."""

LOCAL = ("127.0.0.1", "localhost", "::1")
"""Hosts that only this machine reaches."""

_CONTENT_TYPES = {"json": "application/json", "svg": "image/svg+xml", "geojson": "application/json"}

_POLICY = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:"


class Studio:
    """A model, and those who work for the requests: one thread draws, one realises and checks, one
    answers briefs."""

    def __init__(self, model: DiagramModel, **limits: int) -> None:
        self.model = model
        self.batcher = Batcher(model, **limits)
        self.solver, self.briefs = Errands("solver"), Errands("briefs", most_waiting=8)
        self.began = time.monotonic()

    def close(self) -> None:
        for each in (self.batcher, self.solver, self.briefs):
            each.close()

    def about(self) -> dict[str, Any]:
        """What the page has to know of the model."""
        words, model = self.model.words, self.model
        styles = [(name, ROOM_STYLES[ROOM_TYPES.index(name)]) for name in words.room_types]
        return {
            "version": __version__,
            "backbone": model.checkpoint.config.algo.backbone,
            "most_rooms": model.vocab.n_max,
            "sizes": model.sizes,
            "most_drawn": MOST_DRAWN,
            "has_directions": words.has_directions,
            "relations": [*words.relations, "no-edge"],
            "unknown_colour": UNKNOWN_ROOM.colour,
            "rooms": [
                {
                    "type": name,
                    "label": s.label,
                    "name": s.name,
                    "colour": s.colour,
                    "size": s.radius,
                }
                for name, s in styles
            ],
        }

    def health(self) -> dict[str, Any]:
        return {
            "status": "ok",
            "waiting": len(self.batcher),
            "last_batch": self.batcher.last_batch,
            "seconds": round(time.monotonic() - self.began, 1),
        }


def create_app(algorithm: Any, *, token: str | None = None, **limits: int) -> FastAPI:
    """The application of a model as ``load`` gives it. ``token``: asked of every request to the
    API; without it only this machine is answered. ``limits``: of ``Batcher``."""
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
        docs_url=None,  # its page would load scripts from another host
        redoc_url=None,
    )
    app.state.studio = studio
    _add_errors(app)
    _add_questions(app, studio)
    _add_drawing(app, studio)
    _add_page(app)
    app.add_middleware(BodyLimit)
    if token is None:
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=[*LOCAL, "[::1]"])
    else:
        app.add_middleware(TokenAsked, token=token)
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
        return refusal(504, _LATE)

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> JSONResponse:
        return refusal(error.status_code, f"{request.url.path}: {error.detail}")

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> JSONResponse:
        logger.error("a request failed", exc_info=error)
        return refusal(500, "the studio failed on this request; its log says why")


_LATE = "this took too long and was given up; ask for fewer diagrams, or for less"


def _sentence(error: RequestValidationError) -> str:
    """What is wrong first, and where."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return f"the body is no JSON: {first['ctx']['error']}"
    where = ".".join(str(part) for part in first["loc"][1:] if not isinstance(part, int)) or "body"
    index = "".join(f"[{part}]" for part in first["loc"][1:] if isinstance(part, int))
    message = first["msg"][:1].lower() + first["msg"][1:]
    got = "" if first["type"] == "missing" else f", got {json.dumps(first['input'], default=str)}"
    return f"{where}{index}: {message}{got if len(got) < 80 else ''}"


async def _answer(future: Future[T], seconds: float = SECONDS) -> T:
    return await asyncio.wait_for(asyncio.wrap_future(future), seconds)


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
        return await _answer(studio.solver.submit(work))

    @app.post("/api/realise", summary="A dimensioned plan of a diagram, with its picture")
    async def realise(body: RealiseBody) -> dict[str, Any]:
        sought = answering.Sought(body.diagram.as_diagram(), body.total_area, body.ratio, body.seed)
        return await _answer(studio.solver.submit(partial(answering.realise_diagram, sought)))

    @app.post("/api/export", summary="A diagram or a plan as a file")
    async def export(body: ExportBody) -> Response:
        if body.diagram is not None and body.plan is None:
            work = partial(answering.diagram_as_text, body.diagram.as_drawn(), body.format)
        elif body.plan is not None and body.diagram is None:
            work = partial(answering.plan_as_text, body.plan, body.format)
        else:
            raise ValueError("body: give a diagram or a plan, one of them")
        text = await _answer(studio.solver.submit(work))
        name = f"{'plan' if body.plan else 'diagram'}.{body.format}"
        return Response(
            text,
            media_type=_CONTENT_TYPES.get(body.format, "text/plain"),
            headers={"Content-Disposition": f'attachment; filename="{name}"'},
        )


def _add_drawing(app: FastAPI, studio: Studio) -> None:
    @app.post("/api/complete", summary="Completions of a partial diagram")
    async def complete(body: CompleteBody) -> Any:
        given = body.given.as_partial()
        studio.model.check([given])
        ask = Ask([given], body.completions, body.seed)
        return await _drawn(studio, ask, positions=body.positions, stream=body.stream)

    @app.post("/api/sample", summary="Fresh diagrams")
    async def sample(body: SampleBody) -> Any:
        partials = studio.model.fresh(body.num, body.num_rooms, body.seed)
        studio.model.check(partials)
        ask = Ask(partials, 1, body.seed)
        return await _drawn(studio, ask, positions=body.positions, stream=body.stream)

    @app.post("/api/brief", summary="Diagrams that meet a brief")
    async def brief(body: BriefBody) -> dict[str, Any]:
        given = None if body.given is None else body.given.as_partial()
        start = time.perf_counter()
        work = partial(answering.answer_brief, studio.model, body.brief, body.num, body.seed, given)
        found = await _answer(studio.briefs.submit(work), BRIEF_SECONDS)
        diagrams = answering.diagrams_as_json(found, positions=body.positions)
        return {"diagrams": diagrams, "seconds": round(time.perf_counter() - start, 3)}


async def _drawn(studio: Studio, ask: Ask, *, positions: bool, stream: bool) -> Any:
    """The answer of the network, at once or as server-sent events."""
    start = time.perf_counter()

    async def finished(future: Future[Answer]) -> dict[str, Any]:
        answer = await _answer(future)
        return {
            "diagrams": answering.diagrams_as_json(answer.diagrams, positions=positions),
            "approximate": list(answer.approximate),
            "seconds": round(time.perf_counter() - start, 3),
        }

    if not stream:
        return await finished(studio.batcher.submit(ask))
    loop = asyncio.get_running_loop()
    steps: asyncio.Queue[list[Revealed]] = asyncio.Queue()
    told = Ask(
        ask.partials,
        ask.num,
        ask.seed,
        lambda step: _from_thread(loop, partial(steps.put_nowait, step)),
    )
    future = studio.batcher.submit(told)  # here, so that a full queue is an answer of its own
    return StreamingResponse(
        _events(steps, asyncio.ensure_future(finished(future))), media_type="text/event-stream"
    )


def _from_thread(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(call)


async def _events(
    steps: asyncio.Queue[list[Revealed]], finished: asyncio.Task[dict[str, Any]]
) -> AsyncIterator[str]:
    """``revealed`` for every step, then ``done`` with the answer, or ``error``. If nobody listens
    any more, the request is taken back."""
    try:
        while not (finished.done() and steps.empty()):
            step = asyncio.ensure_future(steps.get())
            await asyncio.wait({step, finished}, return_when=asyncio.FIRST_COMPLETED)
            if step.done():
                yield _event("revealed", step.result())
            else:
                step.cancel()
        yield _event("done", finished.result())
    except TimeoutError:
        yield _event("error", {"error": _LATE})
    except ValueError as error:
        yield _event("error", {"error": str(error)})
    finally:
        finished.cancel()


def _event(name: str, data: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


def _add_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        headers = {"Content-Security-Policy": _POLICY, "Referrer-Policy": "no-referrer"}
        return FileResponse(PAGE / "index.html", headers=headers)

    app.mount("/page", StaticFiles(directory=PAGE), name="page")
