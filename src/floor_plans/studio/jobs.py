"""Jobs: long work that a client asks about, or cancels, and whose answer is kept for an hour."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from floor_plans.studio.batching import TooBusy
from floor_plans.studio.workers import Late, Stopped

logger = logging.getLogger(__name__)

KEPT_SECONDS = 3600.0
"""That an answer is kept."""

MOST_WAITING = 32
"""Jobs in the queue; one more is sent away."""

MOST_KEPT = 256
"""Answers that are kept; with one more the oldest is forgotten before its hour is over."""

FAILED = "the studio failed on this job; its log says why"
CANCELLED = "the job was cancelled"

Event = tuple[str, dict[str, Any]]
"""Name and data: "progress" {"status", "done", "total"}, "found" what was found on the way, "done"
{"answer"}, "error" {"error"}."""


class Cancelled(Exception):
    """A job was cancelled."""


def _unwanted(report: Report) -> dict[str, Any]:
    raise Cancelled


@dataclass
class _Job:
    client: str
    work: Callable[[Report], dict[str, Any]]
    status: str = "waiting"  # working, done, failed, cancelled
    done: int = 0
    total: int | None = None
    answer: dict[str, Any] | None = None
    error: str | None = None
    ended: float | None = None
    events: list[Event] = field(default_factory=list)

    def end(self, status: str, now: float) -> None:
        """Leave out what was found on the way, whose best the answer has, and the request."""
        self.status, self.ended, self.work = status, now, _unwanted
        kept = [(name, {} if name == "found" else data) for name, data in self.events]
        last: Event = ("error", {"error": self.error or CANCELLED})
        if status == "done":
            last = ("done", {"answer": self.answer})
        self.events = [*kept, last]


@dataclass(frozen=True)
class Report:
    """Says how many of how many parts of a job are done; raises ``Cancelled`` if nobody wants the
    rest."""

    _job: _Job

    def __call__(self, done: int, total: int) -> None:
        if self.is_cancelled():
            raise Cancelled
        self._job.done, self._job.total = done, total
        self._tell("progress", {"status": "working", "done": done, "total": total})

    def is_cancelled(self) -> bool:
        return self._job.status == "cancelled"

    def found(self, what: dict[str, Any]) -> None:
        """Tell those who listen what was found on the way."""
        self._tell("found", what)

    def _tell(self, name: str, data: dict[str, Any]) -> None:
        if self._job.ended is None:
            self._job.events.append((name, data))


class Jobs:
    """``threads`` that work on jobs, each on one after the other; clients take turns, so that one
    with many jobs does not keep others waiting. ``now``: seconds of a clock."""

    def __init__(
        self,
        *,
        threads: int = 1,
        most_waiting: int = MOST_WAITING,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most_waiting, self._now = most_waiting, now
        self._jobs: dict[str, _Job] = {}
        self._waiting: dict[str, deque[str]] = {}
        """Ids by client, the client whose turn is next first."""
        self._changed = threading.Condition()
        self._closed = False
        self._threads = [
            threading.Thread(target=self._work, name="jobs", daemon=True) for _ in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def submit(self, client: str, work: Callable[[Report], dict[str, Any]]) -> str:
        """Put a job into the queue of its client; its id. Raises ``TooBusy``."""
        with self._changed:
            self._forget()
            if self._closed or len(self) >= self._most_waiting:
                raise TooBusy
            name = secrets.token_urlsafe(12)
            self._jobs[name] = job = _Job(client, work)
            job.events.append(("progress", {"status": "waiting"}))
            self._waiting.setdefault(client, deque()).append(name)
            self._changed.notify()
        return name

    def state(self, name: str) -> dict[str, Any] | None:
        """What a client is told of a job; None if there is none, or no longer. ``place``: jobs of
        the same client before it."""
        with self._changed:
            self._forget()
            job = self._jobs.get(name)
            if job is None:
                return None
            found: dict[str, Any] = {"job": name, "status": job.status}
            if job.status == "waiting":
                found["place"] = self._waiting[job.client].index(name)
            if job.total is not None:
                found |= {"done": job.done, "total": job.total}
            found |= {"answer": job.answer} if job.answer is not None else {}
            found |= {"error": job.error} if job.error is not None else {}
            return found

    def events(self, name: str, since: int) -> tuple[list[Event], bool] | None:
        """Events of a job from number ``since`` on, and if there will be no more; None if there is
        no such job."""
        with self._changed:
            job = self._jobs.get(name)
            return None if job is None else (job.events[since:], job.ended is not None)

    def cancel(self, name: str) -> bool:
        """Leave a job out, or end it where it is. False if there is none."""
        with self._changed:
            job = self._jobs.get(name)
            if job is None:
                return False
            if job.status == "waiting":
                self._take_out(job.client, name)
            if job.status in ("waiting", "working"):
                job.end("cancelled", self._now())
        return True

    def close(self) -> None:
        """Cancel what waits and what is worked on."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            for job in self._jobs.values():
                if job.status in ("waiting", "working"):
                    job.end("cancelled", self._now())
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _forget(self) -> None:
        limit = self._now() - KEPT_SECONDS
        ended = {name: job.ended for name, job in self._jobs.items() if job.ended is not None}
        oldest = sorted(ended, key=ended.__getitem__)
        too_many = len(oldest) - MOST_KEPT
        for number, name in enumerate(oldest):
            if number < too_many or ended[name] < limit:
                del self._jobs[name]

    def _take_out(self, client: str, name: str) -> None:
        self._waiting[client].remove(name)
        if not self._waiting[client]:
            del self._waiting[client]

    def _next(self) -> _Job | None:
        """The first job of the client whose turn it is, who then is last."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if self._closed:
                return None
            client = next(iter(self._waiting))
            others = self._waiting.pop(client)
            job = self._jobs[others.popleft()]
            if others:
                self._waiting[client] = others
            job.status = "working"
            return job

    def _work(self) -> None:
        while (job := self._next()) is not None:
            answer, error = None, None
            try:
                answer = job.work(Report(job))
            except (Cancelled, Stopped):
                continue
            except (ValueError, Late) as wrong:
                error = str(wrong)
            except Exception as failed:  # the thread works on
                logger.error("a job failed", exc_info=failed)
                error = FAILED
            with self._changed:
                if job.status != "cancelled":
                    job.answer, job.error = answer, error
                    job.end("done" if error is None else "failed", self._now())
