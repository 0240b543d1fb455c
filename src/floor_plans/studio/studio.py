"""``Studio``: a model with its threads and processes; asynchronous answers, jobs and events."""

from __future__ import annotations

import asyncio
import json
import reprlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
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
from floor_plans.studio.jobs import Errands, Jobs, Report, Workers, sentence_of
from floor_plans.studio.sampling import Answer, Ask, Batcher, DiagramModel, Revealed

T = TypeVar("T")

READ_SECONDS = 60.0  # most seconds until a body is read
_PLAN_SECONDS = 900.0  # most seconds of the search for the plans of one diagram

_STRICT: dict[str, Any] = {"seconds": 20.0, "most_bytes": 2 * 1024**3, "patience": 5.0}
"""Limits of tasks on unchecked input."""

_STILL_THERE = 15.0
"""Seconds of silence after which a comment is sent, so that proxies keep the stream open."""

_PAIR = b'{"diagram": {"rooms": [null, null]}}'


class Studio:
    """A model with its threads and processes.

    One thread samples. One process reads bodies, one checks, and one reads and writes files.
    ``workers`` processes answer briefs, one at a time, and find plans, for as many jobs and other
    requests. ``seconds``, ``brief_seconds``: time limits of a request without and with a brief.
    ``limits``: limits of ``Batcher``.
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
        self.readers, self.reading = Workers(1, nice=0, **_STRICT), Errands()
        self.checks, self.checking = Workers(1, nice=0, **_STRICT), Errands()
        self.exports, self.exporting = Workers(1, **_STRICT), Errands()
        self.briefs = Errands(most=8)
        self.pickled = answering.pickled_model(model)
        self.workers = Workers(workers, seconds=_PLAN_SECONDS)
        self.realising = Errands(workers)
        self.jobs = Jobs(at_once=workers)
        self._processes = (self.workers, self.readers, self.checks, self.exports)
        self.began = time.monotonic()

    def start_workers(self) -> None:
        """Start a process of each kind and load its libraries, before the first request."""
        check = (_PAIR, self.model.vocab.n_max, self.model.words)
        self._starting = asyncio.gather(
            self.workers.run(answering.load_model, self.pickled),
            self.checks.run(answering.answer_check, check),
            self.readers.run(partial(answering.read_body, SampleBody), b"{}"),
            return_exceptions=True,
        )

    def stop(self) -> None:
        """Let all tasks of the processes raise ``Stopped``, so that requests and jobs end."""
        for processes in self._processes:
            processes.stop()

    async def close(self) -> None:
        """End processes, jobs and the queue of the network."""
        self.stop()
        self.jobs.close()
        await asyncio.to_thread(self.batcher.close)

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
        return await self.reading.result(work, READ_SECONDS)

    async def diagram_answer(self, ask: Ask, *, positions: bool, stream: bool) -> Any:
        """Answer with diagrams of the network, at once or as server-sent events."""
        start = time.perf_counter()

        async def finished(future: asyncio.Future[Answer]) -> dict[str, Any]:
            answer = await asyncio.wait_for(future, self.seconds)
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
        self, request: Request, work: Callable[[Report], Awaitable[dict[str, Any]]]
    ) -> JSONResponse:
        """Submit work as a job of the client, and answer with its id."""
        client = request.client.host if request.client else ""
        return JSONResponse(Accepted(job=self.jobs.submit(client, work)).model_dump(), 202)


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
    except Exception as error:  # the status was sent: only an event can say it
        yield _event_text("error", {"error": sentence_of(error)})
    finally:
        finished.cancel()


def _event_text(name: str, data: Any, number: int | None = None) -> str:
    """Return a server-sent event as text; ``number``: its id."""
    id_line = "" if number is None else f"id: {number}\n"
    return f"{id_line}event: {name}\ndata: {json.dumps(data)}\n\n"


async def job_events(job: Report, since: int) -> AsyncIterator[str]:
    """Yield events of a job from number ``since`` on, until it ends."""
    while True:
        while since < len(job.events):
            name, data = job.events[since]
            if data:  # intermediate plans of an ended job are empty
                yield _event_text(name, data, since)
            since += 1
        if job.ended is not None:
            return
        try:
            await asyncio.wait_for(job.news.wait(), _STILL_THERE)
        except TimeoutError:
            yield ": still there\n\n"
