"""Long tasks of the studio: processes that can be stopped; jobs that clients poll or cancel."""

from __future__ import annotations

import logging
import multiprocessing
import os
import queue
import secrets
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import inf
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from floor_plans.studio.sampling import TooBusy

logger = logging.getLogger(__name__)

T = TypeVar("T")
A = TypeVar("A")

MOST_TASKS = 200  # tasks after which a process is replaced, to free its memory
NICE = 5  # niceness of processes that find plans, relative to the studio
_LOOK = 0.1  # seconds between two checks for cancelled tasks
_ENOUGH = 2  # processes that may be killed during a task before it fails
KEPT_SECONDS = 3600.0  # seconds for which the answer of a job is kept

MOST_JOBS, MOST_KEPT = 32, 256
"""Most jobs in the queue, further ones are refused; most answers that are kept, the oldest is
forgotten first."""

FAILED = "the studio failed on this job; its log says why"


class Stopped(Exception):
    """Error: the task was cancelled, or the studio ends."""


class Late(Exception):
    """Error: the task exceeded its time limit."""


class _Process:
    """A process that works on one task at a time."""

    def __init__(self, nice: int, most_bytes: int | None) -> None:
        spawn = multiprocessing.get_context("spawn")  # a fork would copy threads that hold locks
        self.connection, theirs = spawn.Pipe()
        self.process = spawn.Process(
            target=_work, args=(theirs, nice, most_bytes), name="plans", daemon=True
        )
        self.process.start()
        theirs.close()
        self.tasks = 0

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


class Workers:
    """Pool of ``num`` processes, each started when first needed. ``nice``: their niceness;
    ``seconds`` and ``most_bytes``: limits of a task, where the system supports them. ``patience``:
    seconds that a cancelled task may still take before its process is stopped, as a new one takes
    some seconds."""

    def __init__(
        self,
        num: int,
        *,
        nice: int = NICE,
        seconds: float = inf,
        most_bytes: int | None = None,
        patience: float = 0.0,
    ) -> None:
        if num < 1:
            raise ValueError(f"workers={num}: expected at least 1")
        self.num, self._nice, self._seconds, self._most_bytes = num, nice, seconds, most_bytes
        self._patience = patience
        self._free: queue.LifoQueue[_Process | None] = queue.LifoQueue()
        for _ in range(num):
            self._free.put(None)
        self._busy: set[_Process] = set()
        self._closed = threading.Event()

    @property
    def pids(self) -> list[int]:
        """Ids of the busy processes."""
        return [each.process.pid or 0 for each in list(self._busy)]

    def run(self, function: Callable[[A], T], argument: A, stop: Callable[[], bool]) -> T:
        """Call ``function(argument)`` in the first free process; a killed process is replaced once.
        Raises ``Stopped`` once ``stop()`` is true and the patience is over, and ``Late`` after the
        time limit; both end the process. Raises ``ValueError`` as the function does, or if it needs
        too much memory, and ``RuntimeError`` for other errors."""
        process = self._next(stop)
        try:
            # a killed process is replaced, and the task repeated once
            for _ in range(_ENOUGH):
                if process is None or not process.process.is_alive():
                    process = self._renewed(process)
                try:
                    return self._answer(process, function, argument, stop)
                except (EOFError, OSError):
                    logger.warning("a process that looked for plans was killed")
                    process = self._renewed(process)
            raise RuntimeError(f"{_ENOUGH} processes that looked for this plan were killed")
        except (Stopped, Late):
            self._end(process)
            process = None
            raise
        finally:
            # replace a process after many tasks, then free its place
            if process is not None and process.tasks >= MOST_TASKS:
                self._end(process)
                process = None
            if process is not None:
                self._busy.discard(process)
            self._free.put(process)

    def stop(self) -> None:
        """Let all tasks raise ``Stopped``, from now on."""
        self._closed.set()

    def close(self) -> None:
        """End all processes; their tasks raise ``Stopped``."""
        self.stop()
        for _ in range(self.num):
            if (process := self._free.get()) is not None:
                process.end()

    def _next(self, stop: Callable[[], bool]) -> _Process | None:
        """Wait for a free place, and return its process; None: no process was started yet."""
        while not (stop() or self._closed.is_set()):
            try:
                return self._free.get(timeout=_LOOK)
            except queue.Empty:
                continue
        raise Stopped

    def _renewed(self, process: _Process | None) -> _Process:
        """End a process, start a new process and return it."""
        self._end(process)
        return _Process(self._nice, self._most_bytes)

    def _end(self, process: _Process | None) -> None:
        """End a process, if there is one."""
        if process is not None:
            self._busy.discard(process)
            process.end()

    def _answer(
        self, process: _Process, function: Callable[[A], T], argument: A, stop: Callable[[], bool]
    ) -> T:
        """Send a task to a process, wait for the message "begun", then for the result."""
        self._busy.add(process)
        process.tasks += 1
        process.connection.send((function, argument))
        kind, begun = "", inf
        # poll, and check for cancelling and time limits
        while kind in ("", "begun"):
            while not process.connection.poll(_LOOK):
                now = time.monotonic()
                impatient = not self._patience or now > begun + self._patience
                if self._closed.is_set() or (impatient and stop()):
                    raise Stopped
                if now > begun + self._seconds:
                    raise Late(
                        f"this took longer than {self._seconds:g} s and was given up; ask for less"
                    )
            kind, answer = process.connection.recv()
            begun = time.monotonic()
        if kind == "done":
            return answer
        raise ValueError(answer) if kind == "wrong" else RuntimeError(answer)


def _work(connection: Connection, nice: int, most_bytes: int | None) -> None:
    """Answer tasks until the studio ends. A task is "begun" once its imports are done."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the studio's, which ends this one
    if hasattr(os, "nice"):
        os.nice(nice)
    while True:
        try:
            function, argument = connection.recv()
        except EOFError:
            return
        # limit memory once the process has its libraries
        if most_bytes is not None:
            _limit_memory(most_bytes)
            most_bytes = None
        connection.send(("begun", None))
        try:
            answer = "done", function(argument)
        except ValueError as error:
            answer = "wrong", str(error)
        except MemoryError:
            answer = "wrong", "body: this takes more memory than the studio has for it; send less"
        except Exception:  # the studio logs it
            answer = "failed", traceback.format_exc()
        connection.send(answer)


def _limit_memory(more: int) -> None:
    """Limit this process to ``more`` bytes above its present memory, if the system reports it."""
    statm = Path("/proc/self/statm")
    if not statm.exists() or find_spec("resource") is None:
        return
    import resource

    # data size of this process, plus the limit
    most = int(statm.read_text().split()[5]) * resource.getpagesize() + more
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard == resource.RLIM_INFINITY or most < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


Event = tuple[str, dict[str, Any]]
"""Name and data: "progress" {"status", "done", "total"}, "found" an intermediate plan, "done"
{"answer"}, "error" {"error"}."""


def _unwanted(report: Report) -> dict[str, Any]:
    """Raise ``Stopped``; this replaces the work of an ended job."""
    raise Stopped


@dataclass
class Report:
    """Job of a client, to which its work reports ``done`` of ``total`` parts; a call raises
    ``Stopped`` if the job was cancelled. ``status``: see ``bodies.JobState``."""

    client: str
    work: Callable[[Report], dict[str, Any]]
    status: str = "waiting"
    done: int = 0
    total: int | None = None
    answer: dict[str, Any] | None = None
    error: str | None = None
    ended: float | None = None
    events: list[Event] = field(default_factory=list)

    def __call__(self, done: int, total: int) -> None:
        if self.is_cancelled():
            raise Stopped
        self.done, self.total = done, total
        self.send("progress", {"status": "working", "done": done, "total": total})

    def is_cancelled(self) -> bool:
        return self.status == "cancelled"

    def send(self, name: str, data: dict[str, Any]) -> None:
        """Send an event to listeners, such as an intermediate plan."""
        if self.ended is None:
            self.events.append((name, data))

    def end(self, status: str, now: float) -> None:
        """End the job, unless it has ended: drop its work and intermediate plans, and add the last
        event."""
        if self.ended is not None:
            return
        self.status, self.ended, self.work = status, now, _unwanted
        kept = [(name, {} if name == "found" else data) for name, data in self.events]
        last: Event = ("error", {"error": self.error or "the job was cancelled"})
        if status == "done":
            last = ("done", {"answer": self.answer})
        self.events = [*kept, last]


class Jobs:
    """Queues of jobs, one per client, and ``threads`` that work on them. Clients take turns, so
    that many jobs of one do not delay others. ``now``: clock, in seconds."""

    def __init__(
        self,
        *,
        threads: int = 1,
        most_waiting: int = MOST_JOBS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most_waiting, self._now = most_waiting, now
        self._jobs: dict[str, Report] = {}
        # ids of waiting jobs by client, in the order of turns
        self._waiting: dict[str, deque[str]] = {}
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
        """Put a job into the queue of its client, and return its id. Raises ``TooBusy`` if full."""
        with self._changed:
            self._forget()
            if self._closed or len(self) >= self._most_waiting:
                raise TooBusy
            name = secrets.token_urlsafe(12)
            self._jobs[name] = job = Report(client, work)
            job.events.append(("progress", {"status": "waiting"}))
            self._waiting.setdefault(client, deque()).append(name)
            self._changed.notify()
        return name

    def state(self, name: str) -> dict[str, Any] | None:
        """Return the state of a job as JSON for its client; None for an unknown or forgotten job.
        ``place``: number of jobs of the same client before it."""
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
            return found | ({"error": job.error} if job.error is not None else {})

    def events(self, name: str, since: int) -> tuple[list[Event], bool] | None:
        """Return the events of a job from number ``since`` on, and True if it has ended. None for
        an unknown job."""
        with self._changed:
            job = self._jobs.get(name)
            return None if job is None else (job.events[since:], job.ended is not None)

    def cancel(self, name: str) -> bool:
        """Cancel a waiting or working job; return False for an unknown job."""
        with self._changed:
            job = self._jobs.get(name)
            if job is None:
                return False
            # a waiting job leaves its queue, a working one ends at its next report
            if job.status == "waiting":
                self._waiting[job.client].remove(name)
                if not self._waiting[job.client]:
                    del self._waiting[job.client]
            job.end("cancelled", self._now())
        return True

    def close(self) -> None:
        """Cancel all waiting and working jobs, and end the threads."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            for job in self._jobs.values():
                job.end("cancelled", self._now())
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _forget(self) -> None:
        """Forget ended jobs, by age and number."""
        limit = self._now() - KEPT_SECONDS
        ended = {name: job.ended for name, job in self._jobs.items() if job.ended is not None}
        oldest = sorted(ended, key=ended.__getitem__)
        for number, name in enumerate(oldest):
            if number < len(oldest) - MOST_KEPT or ended[name] < limit:
                del self._jobs[name]

    def _next(self) -> Report | None:
        """Take the first job of the next client, whose next turn comes after all other clients."""
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
        """Work on jobs until the studio ends."""
        while (job := self._next()) is not None:
            answer, error = None, None
            try:
                answer = job.work(job)
            except Stopped:
                with self._changed:
                    job.end("cancelled", self._now())
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
