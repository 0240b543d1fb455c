"""Queue of requests for the network, which one thread answers in batches."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from floor_plans.studio.sampling import Answer, Ask, DiagramModel, Revealed

T = TypeVar("T")

MOST_WAITING = 64
"""Most requests in the queue; further ones are refused."""

MOST_ROWS = 32
"""Most diagrams in one batch."""


class TooBusy(Exception):
    """Error of a full queue."""


class Batcher:
    """Answers requests in their order, in batches.

    Requests that wait during a batch form the next one, of at most ``most_rows`` diagrams;
    cancelled requests are left out.
    """

    def __init__(
        self, model: DiagramModel, *, most_waiting: int = MOST_WAITING, most_rows: int = MOST_ROWS
    ) -> None:
        self._model, self._most_waiting, self._most_rows = model, most_waiting, most_rows
        self._waiting: deque[tuple[Ask, Future[Answer]]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self.last_batch = 0
        """Number of requests in the last batch."""
        self._thread = threading.Thread(target=self._work, name="network", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        return len(self._waiting)

    def submit(self, ask: Ask) -> Future[Answer]:
        """Put a request into the queue. Raises ``TooBusy``."""
        future: Future[Answer] = Future()
        with self._changed:
            self._waiting = deque(each for each in self._waiting if not each[1].cancelled())
            if self._closed or len(self._waiting) >= self._most_waiting:
                raise TooBusy
            self._waiting.append((ask, future))
            self._changed.notify()
        return future

    def close(self) -> None:
        """Answer the waiting requests, then end."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while batch := self._next():
            self.last_batch = len(batch)
            _answer(self._model.draw, batch)

    def _next(self) -> list[tuple[Ask, Future[Answer]]]:
        """Wait for the next batch; an empty one means the end."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                batch = self._taken()
                if batch or (not self._waiting and self._closed):
                    return batch

    def _taken(self) -> list[tuple[Ask, Future[Answer]]]:
        batch: list[tuple[Ask, Future[Answer]]] = []
        rows = 0
        # at least one request, and more while they fit
        while self._waiting and (not batch or rows + self._waiting[0][0].rows <= self._most_rows):
            ask, future = self._waiting.popleft()
            if future.set_running_or_notify_cancel():
                batch.append((_report_once(ask), future))
                rows += ask.rows
        return batch


def _report_once(ask: Ask) -> Ask:
    """Return the request with a listener that gets each token only once.

    After a failed batch each request is sampled anew; only new or changed tokens are reported.
    """
    report = ask.on_revealed
    if report is None:
        return ask
    known: dict[object, object] = {}

    def report_news(step: list[Revealed]) -> None:
        # keep tokens that are new or changed
        news = []
        for each in step:
            place = each["completion"], each.get("room"), tuple(each.get("pair", ()))
            value = each.get("type", each.get("relation"))
            if known.get(place) != value:
                known[place] = value
                news.append(each)
        if news or not step:
            report(news)

    return replace(ask, on_revealed=report_news)


def _answer(
    draw: Callable[[list[Ask]], list[Answer]], batch: list[tuple[Ask, Future[Answer]]]
) -> None:
    """Answer a batch. If it fails, answer each request alone, so that one error does not affect the
    others."""
    try:
        answers = draw([ask for ask, _ in batch])
    except Exception as error:  # passed on to the client
        if len(batch) == 1:
            batch[0][1].set_exception(error)
            return
        for each in batch:
            _answer(draw, [each])
        return
    for (_, future), answer in zip(batch, answers, strict=True):
        future.set_result(answer)


class Errands:
    """Queue of other work, done by own threads in the order of requests."""

    def __init__(self, name: str, *, threads: int = 1, most_waiting: int = MOST_WAITING) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._free = threading.BoundedSemaphore(most_waiting)

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Put work into the queue; a cancelled request frees its place. Raises ``TooBusy``."""
        if not self._free.acquire(blocking=False):
            raise TooBusy
        # drop the work, and what it holds, once it has run or was cancelled
        kept = [work]
        future = self._pool.submit(lambda: kept.pop()())

        def leave(_: Future[T]) -> None:
            kept.clear()
            self._free.release()

        future.add_done_callback(leave)
        return future

    def close(self) -> None:
        """Finish the work that has begun, and cancel the rest."""
        self._pool.shutdown(cancel_futures=True)
