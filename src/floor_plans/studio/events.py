"""Answers of the worker threads, awaited or sent as server-sent events."""

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
from fastapi.responses import StreamingResponse

from floor_plans.studio import answering
from floor_plans.studio.batching import Errands
from floor_plans.studio.sampling import Answer, Ask, Revealed
from floor_plans.studio.studio import Studio

logger = logging.getLogger(__name__)

T = TypeVar("T")

LATE = "this took too long and was given up; ask for fewer diagrams, or for less"
FAILED = "the studio failed on this request; its log says why"


READ_SECONDS = 60.0
"""Most seconds until a body is read."""


async def answered(future: Future[T], seconds: float) -> T:
    """Await a result for ``seconds``; then cancel it if it has not begun, by ``TimeoutError``."""
    return await asyncio.wait_for(asyncio.wrap_future(future), seconds)


async def wanted(errands: Errands, work: Callable[[Callable[[], bool]], T], seconds: float) -> T:
    """Submit work and await its answer; its argument returns True once nobody waits any more."""
    unwanted = threading.Event()
    try:
        return await answered(errands.submit(partial(work, unwanted.is_set)), seconds)
    finally:
        unwanted.set()


async def content_of(request: Request) -> bytes:
    """Bytes of a body, which has to be sent as JSON, by ``ValueError``: a form of another site
    cannot send JSON without a preflight request."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ValueError(f"Content-Type: expected application/json, got {reprlib.repr(kind)}")
    return await request.body()


async def read(studio: Studio, read_content: Callable[[bytes], T], request: Request) -> T:
    """Read the body of a request in a process of its own."""
    work = partial(studio.readers.run, read_content, await content_of(request))
    return await wanted(studio.reading, work, READ_SECONDS)


async def drawn(studio: Studio, ask: Ask, *, positions: bool, stream: bool) -> Any:
    """Answer with diagrams of the network, at once or as server-sent events."""
    start = time.perf_counter()

    async def finished(future: Future[Answer]) -> dict[str, Any]:
        answer = await answered(future, studio.seconds)
        return {
            "diagrams": await asyncio.to_thread(
                answering.diagrams_as_json, answer.diagrams, positions=positions
            ),
            "approximate": list(answer.approximate),
            "seconds": round(time.perf_counter() - start, 3),
        }

    # one answer
    if not stream:
        return await finished(studio.batcher.submit(ask))
    # a stream: the network's thread puts each step into a queue of this loop
    loop = asyncio.get_running_loop()
    steps: asyncio.Queue[list[Revealed] | None] = asyncio.Queue()
    reporting = replace(
        ask, on_revealed=lambda step: _from_thread(loop, partial(steps.put_nowait, step))
    )
    future = studio.batcher.submit(reporting)  # here, so that a full queue is an answer of its own
    return StreamingResponse(
        _events(steps, asyncio.ensure_future(finished(future))), media_type="text/event-stream"
    )


def _from_thread(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(call)


async def _events(
    steps: asyncio.Queue[list[Revealed] | None], finished: asyncio.Task[dict[str, Any]]
) -> AsyncIterator[str]:
    """Yield ``revealed`` for every step, then ``done`` with the answer, or ``error``; the request
    is cancelled when nobody listens any more."""
    finished.add_done_callback(lambda _: steps.put_nowait(None))
    try:
        # None marks the end of the steps
        while (step := await steps.get()) is not None:
            yield event_text("revealed", step)
        yield event_text("done", finished.result())
    except TimeoutError:
        yield event_text("error", {"error": LATE})
    except ValueError as error:
        yield event_text("error", {"error": str(error)})
    except Exception as error:  # the status was sent: only an event can say it
        logger.error("a request failed", exc_info=error)
        yield event_text("error", {"error": FAILED})
    finally:
        finished.cancel()


def event_text(name: str, data: Any, number: int | None = None) -> str:
    """Text of a server-sent event; ``number``: its id."""
    id_line = "" if number is None else f"id: {number}\n"
    return f"{id_line}event: {name}\ndata: {json.dumps(data)}\n\n"
