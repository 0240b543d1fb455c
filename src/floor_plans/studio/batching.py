"""A queue of requests for the network: one thread answers as many of them at once as it can."""

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
"""Requests in the queue; one more is sent away."""

MOST_ROWS = 32
"""Diagrams that are sampled at once."""


class TooBusy(Exception):
    """The queue is full."""


class Batcher:
    """Answers requests in their order. Those that wait while others are answered are sampled
    together, at most ``most_rows`` diagrams at a time; one that was cancelled meanwhile is left
    out.
    """

    def __init__(
        self, model: DiagramModel, *, most_waiting: int = MOST_WAITING, most_rows: int = MOST_ROWS
    ) -> None:
        self._model, self._most_waiting, self._most_rows = model, most_waiting, most_rows
        self._waiting: deque[tuple[Ask, Future[Answer]]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self.last_batch = 0
        """Requests that were answered together last."""
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
        """Answer what waits, then end."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while batch := self._next():
            self.last_batch = len(batch)
            _answer(self._model.draw, batch)

    def _next(self) -> list[tuple[Ask, Future[Answer]]]:
        """The next requests to be answered together; none at the end."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                batch = self._taken()
                if batch or (not self._waiting and self._closed):
                    return batch

    def _taken(self) -> list[tuple[Ask, Future[Answer]]]:
        batch: list[tuple[Ask, Future[Answer]]] = []
        rows = 0
        while self._waiting and (not batch or rows + self._waiting[0][0].rows <= self._most_rows):
            ask, future = self._waiting.popleft()
            if future.set_running_or_notify_cancel():
                batch.append((_report_once(ask), future))
                rows += ask.rows
        return batch


def _report_once(ask: Ask) -> Ask:
    """The same, whose listener is not given again what it knows, when a batch that failed is
    sampled anew: only what is new, or came out otherwise."""
    report = ask.on_revealed
    if report is None:
        return ask
    known: dict[object, object] = {}

    def report_news(step: list[Revealed]) -> None:
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
    """Set every result. If the batch fails, each request by itself, so that one that cannot be
    answered does not take others with it."""
    try:
        answers = draw([ask for ask, _ in batch])
    except Exception as error:  # handed to those who requested it
        if len(batch) == 1:
            batch[0][1].set_exception(error)
            return
        for each in batch:
            _answer(draw, [each])
        return
    for (_, future), answer in zip(batch, answers, strict=True):
        future.set_result(answer)


class Errands:
    """Other work, done by threads of its own in the order in which it was requested."""

    def __init__(self, name: str, *, threads: int = 1, most_waiting: int = MOST_WAITING) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._free = threading.BoundedSemaphore(most_waiting)

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Put a request into the queue, where a cancelled one keeps no place and nothing of its
        work. Raises ``TooBusy``."""
        if not self._free.acquire(blocking=False):
            raise TooBusy
        kept = [work]
        future = self._pool.submit(lambda: kept.pop()())

        def leave(_: Future[T]) -> None:
            kept.clear()
            self._free.release()

        future.add_done_callback(leave)
        return future

    def close(self) -> None:
        """Finish what has begun, and leave out the rest."""
        self._pool.shutdown(cancel_futures=True)
