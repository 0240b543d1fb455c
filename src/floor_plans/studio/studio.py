"""``Studio``: a model with its threads and processes; asynchronous answers, jobs and events."""

from __future__ import annotations

import asyncio
import json
import logging
import reprlib
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from fastapi import Request
from fastapi.responses import JSONResponse, StreamingResponse

from discrete_diffusion import __version__
from floor_plans.briefs.schema import json_schema
from floor_plans.diagrams.pictures.bubbles import ROOM_STYLES, UNKNOWN_ROOM
from floor_plans.diagrams.vocabulary import ROOM_TYPES
from floor_plans.studio import answering
from floor_plans.studio.bodies import MOST_DRAWN, Accepted, SampleBody
from floor_plans.studio.jobs import Jobs, Report, Workers
from floor_plans.studio.sampling import Answer, Ask, Batcher, DiagramModel, Errands, Revealed

logger = logging.getLogger(__name__)

T = TypeVar("T")

LATE = "this took too long and was given up; ask for fewer diagrams, or for less"
FAILED = "the studio failed on this request; its log says why"

READ_SECONDS = 60.0  # most seconds until a body is read
_PLAN_SECONDS = 900.0  # most seconds of the search for the plans of one diagram

_STRICT: dict[str, Any] = {"seconds": 20.0, "most_bytes": 2 * 1024**3, "patience": 5.0}
"""Limits of tasks on unchecked input."""

_LOOK = 0.2  # seconds between two polls for new events

_STILL_THERE = 15.0
"""Seconds of silence after which a comment is sent, so that proxies keep the stream open."""

_PAIR = b'{"diagram": {"rooms": [null, null]}}'


class Studio:
    """A model with its threads and processes.

    One thread samples. One process reads bodies, one checks, and one reads and writes files.
    ``workers`` processes answer briefs and find plans; threads wait for these processes, one for
    briefs and one per process for jobs and for other requests. ``seconds``, ``brief_seconds``: time
    limits of a request without and with a brief. ``limits``: limits of ``Batcher``.
    """

    def __init__(
        self,
        model: DiagramModel,
        *,
        seconds: float = 60.0,
        brief_seconds: float = 120.0,
        workers: int = 1,
        **limits: int,
    ) -> None:
        self.model, self.seconds, self.brief_seconds = model, seconds, brief_seconds
        self.batcher = Batcher(model, **limits)
        # bodies, checks and files: a process and a queue each
        self.readers, self.reading = Workers(1, nice=0, **_STRICT), Errands("reading")
        self.checks, self.checking = Workers(1, nice=0, **_STRICT), Errands("checks")
        self.exports, self.exporting = Workers(1, **_STRICT), Errands("exports")
        self.briefs = Errands("briefs", most_waiting=8)
        self.pickled = answering.pickled_model(model)
        self.workers = Workers(workers, seconds=_PLAN_SECONDS)
        self.realising = Errands("realising", threads=workers)
        self.jobs = Jobs(threads=workers)
        self._processes = (self.workers, self.readers, self.checks, self.exports)
        self.began = time.monotonic()

    def start_workers(self) -> None:
        """Start a process of each kind and load its libraries, before the first request."""
        self.realising.submit(
            partial(self.workers.run, answering.load_model, self.pickled, lambda: False)
        )
        check = (_PAIR, self.model.vocab.n_max, self.model.words)
        self.checking.submit(partial(self.checks.run, answering.answer_check, check, lambda: False))
        read = partial(answering.read_body, SampleBody)
        self.reading.submit(partial(self.readers.run, read, b"{}", lambda: False))

    def stop(self) -> None:
        """Let all tasks of the processes raise ``Stopped``, so that requests and jobs end."""
        for processes in self._processes:
            processes.stop()

    def close(self) -> None:
        """End processes, queues and jobs."""
        for processes in self._processes:
            processes.close()
        queues = (self.reading, self.checking, self.exporting, self.briefs, self.realising)
        for each in (self.batcher, *queues, self.jobs):
            each.close()

    def model_facts(self) -> dict[str, Any]:
        """Facts of the model for the page."""
        words, model = self.model.words, self.model
        styles = [(name, ROOM_STYLES[ROOM_TYPES.index(name)]) for name in words.room_types]
        rooms = [
            {"type": name, "label": s.label, "name": s.name, "colour": s.colour, "size": s.radius}
            for name, s in styles
        ]
        return {
            "version": __version__,
            "backbone": model.checkpoint.config.algo.backbone,
            "most_rooms": model.vocab.n_max,
            "sizes": model.sizes,
            "most_drawn": MOST_DRAWN,
            "has_directions": words.has_directions,
            "relations": [*words.relations, "no-edge"],
            "brief_keys": json_schema()["properties"],
            "unknown_colour": UNKNOWN_ROOM.colour,
            "rooms": rooms,
        }

    def health(self) -> dict[str, Any]:
        """Return lengths of queues, ids of processes and running time."""
        return {
            "status": "ok",
            "waiting": len(self.batcher),
            "jobs": len(self.jobs),
            "workers": self.workers.pids,
            "last_batch": self.batcher.last_batch,
            "seconds": round(time.monotonic() - self.began, 1),
        }

    async def read_in_process(self, read_content: Callable[[bytes], T], request: Request) -> T:
        """Read the body of a request in another process."""
        work = partial(self.readers.run, read_content, await json_content_of(request))
        return await result_of_errand(self.reading, work, READ_SECONDS)

    async def diagram_answer(self, ask: Ask, *, positions: bool, stream: bool) -> Any:
        """Answer with diagrams of the network, at once or as server-sent events."""
        start = time.perf_counter()

        async def finished(future: Future[Answer]) -> dict[str, Any]:
            answer = await asyncio.wait_for(asyncio.wrap_future(future), self.seconds)
            convert = partial(answering.diagrams_as_json, answer.diagrams, positions=positions)
            return {
                "diagrams": await asyncio.to_thread(convert),
                "approximate": list(answer.approximate),
                "seconds": round(time.perf_counter() - start, 3),
            }

        if not stream:
            return await finished(self.batcher.submit(ask))
        # a stream: the network's thread puts each step into a queue of this loop
        loop = asyncio.get_running_loop()
        steps: asyncio.Queue[list[Revealed] | None] = asyncio.Queue()

        def report(step: list[Revealed]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(steps.put_nowait, step)

        # a full queue is refused here
        future = self.batcher.submit(replace(ask, on_revealed=report))
        events = _steps(steps, asyncio.ensure_future(finished(future)))
        return StreamingResponse(events, media_type="text/event-stream")

    def submit_job(
        self, request: Request, work: Callable[[Report], dict[str, Any]]
    ) -> JSONResponse:
        """Submit work as a job of the client, and answer with its id."""
        client = request.client.host if request.client else ""
        return JSONResponse(Accepted(job=self.jobs.submit(client, work)).model_dump(), 202)

    def job_events(self, job: str, request: Request) -> StreamingResponse:
        """Answer with the events of a job, after the last event that the client has received."""
        last = request.headers.get("last-event-id", "")
        events = _polled(self, job, int(last) + 1 if last.isdecimal() else 0)
        return StreamingResponse(events, media_type="text/event-stream")


async def result_of_errand(
    errands: Errands, work: Callable[[Callable[[], bool]], T], seconds: float
) -> T:
    """Submit work and await its answer for ``seconds``; then cancel work that has not begun, and
    raise ``TimeoutError``. ``work`` gets a function that is True once nobody waits."""
    unwanted = threading.Event()
    try:
        future = errands.submit(partial(work, unwanted.is_set))
        return await asyncio.wait_for(asyncio.wrap_future(future), seconds)
    finally:
        unwanted.set()


async def json_content_of(request: Request) -> bytes:
    """Return the bytes of a body. Raises ``ValueError`` unless it is sent as JSON, because a form
    of another site cannot send JSON without a preflight request."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ValueError(f"Content-Type: expected application/json, got {reprlib.repr(kind)}")
    return await request.body()


async def _steps(
    steps: asyncio.Queue[list[Revealed] | None], finished: asyncio.Task[dict[str, Any]]
) -> AsyncIterator[str]:
    """Yield ``revealed`` for every step, then ``done`` or ``error``; cancelled when nobody
    listens."""
    finished.add_done_callback(lambda _: steps.put_nowait(None))
    try:
        # None marks the end of the steps
        while (step := await steps.get()) is not None:
            yield _event_text("revealed", step)
        yield _event_text("done", finished.result())
    except TimeoutError:
        yield _event_text("error", {"error": LATE})
    except ValueError as error:
        yield _event_text("error", {"error": str(error)})
    except Exception as error:  # the status was sent: only an event can say it
        logger.error("a request failed", exc_info=error)
        yield _event_text("error", {"error": FAILED})
    finally:
        finished.cancel()


def _event_text(name: str, data: Any, number: int | None = None) -> str:
    """Return a server-sent event as text; ``number``: its id."""
    id_line = "" if number is None else f"id: {number}\n"
    return f"{id_line}event: {name}\ndata: {json.dumps(data)}\n\n"


async def _polled(studio: Studio, job: str, since: int) -> AsyncIterator[str]:
    """Yield new events of a job until it ends, by polling."""
    quiet = time.monotonic()
    while (seen := studio.jobs.events(job, since)) is not None:
        news, over = seen
        for name, data in news:
            if data:  # intermediate plans of an ended job are empty
                yield _event_text(name, data, since)
            since += 1
        if over:
            return
        now = time.monotonic()
        quiet = now if news else quiet
        if now - quiet > _STILL_THERE:
            quiet = now
            yield ": still there\n\n"
        await asyncio.sleep(_LOOK)
