"""Jobs: long work that clients poll or cancel, with answers kept for an hour."""

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
"""Seconds for which an answer is kept."""

MOST_WAITING = 32
"""Most jobs in the queue; further ones are refused."""

MOST_KEPT = 256
"""Most answers that are kept; the oldest is forgotten first."""

FAILED = "the studio failed on this job; its log says why"
CANCELLED = "the job was cancelled"

Event = tuple[str, dict[str, Any]]
"""Name and data: "progress" {"status", "done", "total"}, "found" an intermediate plan, "done"
{"answer"}, "error" {"error"}."""


class Cancelled(Exception):
    """Error raised in the work of a cancelled job."""


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
        """End the job: drop its request and intermediate plans, and add the last event."""
        self.status, self.ended, self.work = status, now, _unwanted
        kept = [(name, {} if name == "found" else data) for name, data in self.events]
        last: Event = ("error", {"error": self.error or CANCELLED})
        if status == "done":
            last = ("done", {"answer": self.answer})
        self.events = [*kept, last]


@dataclass(frozen=True)
class Report:
    """Reports the progress of a job, ``done`` of ``total`` parts; raises ``Cancelled`` if it was
    cancelled."""

    _job: _Job

    def __call__(self, done: int, total: int) -> None:
        if self.is_cancelled():
            raise Cancelled
        self._job.done, self._job.total = done, total
        self._send("progress", {"status": "working", "done": done, "total": total})

    def is_cancelled(self) -> bool:
        return self._job.status == "cancelled"

    def add_plan(self, plan: dict[str, Any]) -> None:
        """Send an intermediate plan to listeners."""
        self._send("found", plan)

    def _send(self, name: str, data: dict[str, Any]) -> None:
        if self._job.ended is None:
            self._job.events.append((name, data))


class Jobs:
    """Queues of jobs, one per client, and ``threads`` that work on them.

    Clients take turns, so that one with many jobs does not delay the others. ``now``: clock, in
    seconds.
    """

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
        """Ids of waiting jobs by client, in the order of turns."""
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
        """Put a job into the queue of its client and return its id. Raises ``TooBusy``."""
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
        """State of a job for its client; None for an unknown or forgotten job.

        ``place``: number of jobs of the same client before it.
        """
        with self._changed:
            self._forget()
            job = self._jobs.get(name)
            if job is None:
                return None
            # place, progress, answer and error, as far as there are any
            found: dict[str, Any] = {"job": name, "status": job.status}
            if job.status == "waiting":
                found["place"] = self._waiting[job.client].index(name)
            if job.total is not None:
                found |= {"done": job.done, "total": job.total}
            found |= {"answer": job.answer} if job.answer is not None else {}
            found |= {"error": job.error} if job.error is not None else {}
            return found

    def events(self, name: str, since: int) -> tuple[list[Event], bool] | None:
        """Events of a job from number ``since`` on, and True if it has ended; None for an unknown
        job."""
        with self._changed:
            job = self._jobs.get(name)
            return None if job is None else (job.events[since:], job.ended is not None)

    def cancel(self, name: str) -> bool:
        """Cancel a waiting or working job; False for an unknown one."""
        with self._changed:
            job = self._jobs.get(name)
            if job is None:
                return False
            # a waiting job leaves its queue, a working one ends at its next report
            if job.status == "waiting":
                self._take_out(job.client, name)
            if job.status in ("waiting", "working"):
                job.end("cancelled", self._now())
        return True

    def close(self) -> None:
        """Cancel all waiting and working jobs, and end the threads."""
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
        # ended jobs, by age and number
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
        """Take the first job of the next client, who then moves to the end of the turns."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if self._closed:
                return None
            # take one job, and move the client to the end
            client = next(iter(self._waiting))
            others = self._waiting.pop(client)
            job = self._jobs[others.popleft()]
            if others:
                self._waiting[client] = others
            job.status = "working"
            return job

    def _work(self) -> None:
        while (job := self._next()) is not None:
            # errors of the request are shown, others are logged
            answer, error = None, None
            try:
                answer = job.work(Report(job))
            except (Cancelled, Stopped):
                continue
            except (ValueError, Late) as wrong:
                error = str(wrong)
            except Exception as failed:  # the thread goes on with other jobs
                logger.error("a job failed", exc_info=failed)
                error = FAILED
            with self._changed:
                if job.status != "cancelled":
                    job.answer, job.error = answer, error
                    job.end("done" if error is None else "failed", self._now())
