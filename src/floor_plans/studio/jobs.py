"""Long tasks of the studio: processes that can be stopped; jobs that clients poll or cancel."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import secrets
import signal
import time
import traceback
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")
A = TypeVar("A")

MOST_WAITING = 64  # most requests in a queue; further ones are refused
MOST_TASKS = 200  # tasks after which a process is replaced, to free its memory
NICE = 5  # niceness of processes that find plans, relative to the studio
_ENOUGH = 2  # processes that may be killed during a task before it fails
KEPT_SECONDS = 3600.0  # seconds for which the answer of a job is kept

MOST_JOBS, MOST_KEPT = 32, 256
"""Most jobs in the queue, further ones are refused; most answers that are kept, the oldest is
forgotten first."""

LATE = "this took too long and was given up; ask for fewer diagrams, or for less"
FAILED = "the studio failed on this request; its log says why"


class Stopped(Exception):
    """Error: the studio ends."""


class TooBusy(Exception):
    """Error: the queue is full."""


def sentence_of(error: Exception) -> str:
    """Return a sentence on an error for the client; an error of the studio is logged instead."""
    if isinstance(error, TimeoutError | ValueError):
        return str(error) or LATE
    logger.error("a request failed", exc_info=error)
    return FAILED


class Errands:
    """Queue of requests: work on ``at_once`` of them is done at a time, in order."""

    def __init__(self, at_once: int = 1, *, most: int = MOST_WAITING) -> None:
        self._turns, self._most = asyncio.Semaphore(at_once), most
        self.num = 0  # requests that wait or are worked on

    async def result(self, work: Callable[[], Awaitable[T]], seconds: float) -> T:
        """Await the turn of the work and its result. Raises ``TooBusy`` if the queue is full, and
        ``TimeoutError`` after so many ``seconds``, which cancels the work."""
        if self.num >= self._most:
            raise TooBusy
        self.num += 1
        try:
            async with asyncio.timeout(seconds), self._turns:
                return await work()
        finally:
            self.num -= 1


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

    def begin(self, function: Callable[[A], Any], argument: A) -> None:
        """Send a task, and wait until its imports are done."""
        self.tasks += 1
        self.connection.send((function, argument))
        self.connection.recv()

    def end(self) -> None:
        self.process.kill()
        self.process.join()


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
        seconds: float | None = None,
        most_bytes: int | None = None,
        patience: float = 0.0,
    ) -> None:
        if num < 1:
            raise ValueError(f"workers={num}: expected at least 1")
        self.num, self._seconds, self._patience = num, seconds, patience
        self._start = partial(_Process, nice, most_bytes)
        self._places, self._threads = asyncio.Semaphore(num), ThreadPoolExecutor(num)
        self._idle: list[_Process] = []
        self._busy: set[_Process] = set()
        self._stopped = False

    @property
    def pids(self) -> list[int]:
        """Ids of the busy processes."""
        return [each.process.pid or 0 for each in self._busy]

    async def run(self, function: Callable[[A], T], argument: A) -> T:
        """Call ``function(argument)`` in the first free process; a killed process is replaced once.
        Cancelling ends the process once the patience is over. Raises ``TimeoutError`` after the
        time limit, which ends the process as well, and ``Stopped`` if the studio ends. Raises
        ``ValueError`` as the function does, or if it needs too much memory, and ``RuntimeError``
        for other errors."""
        await self._places.acquire()
        begun = asyncio.Event()
        task = asyncio.ensure_future(self._answer(function, argument, begun))
        task.add_done_callback(self._leave)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._end_soon(task, begun)
            raise

    def _end_soon(self, task: asyncio.Task[Any], begun: asyncio.Event) -> None:
        """Cancel a task once the patience is over, which no process spends on its imports."""
        if not task.done():
            is_ready = not self._patience or begun.is_set()
            next_step = task.cancel if is_ready else partial(self._end_soon, task, begun)
            asyncio.get_running_loop().call_later(self._patience, next_step)

    def _leave(self, task: asyncio.Task[Any]) -> None:
        self._places.release()
        if not task.cancelled():
            task.exception()  # nobody may be left who wants it

    async def _answer(self, function: Callable[[A], T], argument: A, begun: asyncio.Event) -> T:
        in_thread = partial(asyncio.get_running_loop().run_in_executor, self._threads)
        for _ in range(_ENOUGH):
            if self._stopped:
                raise Stopped
            # the process that was busy last, or a new one
            self._idle = [each for each in self._idle if each.process.is_alive()]
            process = self._idle.pop() if self._idle else await in_thread(self._start)
            self._busy.add(process)
            kind = ""
            try:
                if self._stopped:  # while the process was started
                    raise Stopped
                await in_thread(process.begin, function, argument)
                begun.set()
                async with asyncio.timeout(self._seconds):
                    kind, answer = await in_thread(process.connection.recv)
            except TimeoutError:
                raise TimeoutError(
                    f"this took longer than {self._seconds:g} s and was given up; ask for less"
                ) from None
            except (EOFError, OSError):
                if self._stopped:
                    raise Stopped from None
                logger.warning("a process that looked for plans was killed")
                continue
            finally:
                # end a process that is amid its task, and after many tasks
                self._busy.discard(process)
                if kind and process.tasks < MOST_TASKS:
                    self._idle.append(process)
                else:
                    process.end()
            if kind == "done":
                return answer
            raise ValueError(answer) if kind == "wrong" else RuntimeError(answer)
        raise RuntimeError(f"{_ENOUGH} processes that looked for this plan were killed")

    def stop(self) -> None:
        """End all processes, now and from now on; tasks raise ``Stopped``."""
        self._stopped = True
        for process in (*self._busy, *self._idle):
            process.end()


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
    if not statm.exists():  # it is not Linux
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


@dataclass
class Report:
    """Job of a client, to which its work reports ``done`` of ``total`` parts. ``status``: see
    ``bodies.JobState``. ``work`` is dropped once it has begun; ``news`` is set by the next
    event."""

    client: str
    work: Callable[[Report], Awaitable[dict[str, Any]]] | None
    status: str = "waiting"
    done: int = 0
    total: int | None = None
    answer: dict[str, Any] | None = None
    error: str | None = None
    ended: float | None = None
    events: list[Event] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    def __call__(self, done: int, total: int) -> None:
        self.done, self.total = done, total
        self.send("progress", {"status": "working", "done": done, "total": total})

    def send(self, name: str, data: dict[str, Any]) -> None:
        """Send an event to listeners, such as an intermediate plan."""
        self.events.append((name, data))
        self.news.set()
        self.news = asyncio.Event()

    def end(self, status: str, now: float) -> None:
        """End the job, unless it has ended: drop its work and intermediate plans, and add the last
        event."""
        if self.ended is not None:
            return
        self.status, self.ended, self.work = status, now, None
        self.events = [(name, {} if name == "found" else data) for name, data in self.events]
        if status == "done":
            self.send("done", {"answer": self.answer})
        else:
            self.send("error", {"error": self.error or "the job was cancelled"})


class Jobs:
    """Queues of jobs, one per client, of which ``at_once`` are worked on. Clients take turns, so
    that many jobs of one do not delay others. ``now``: clock, in seconds."""

    def __init__(
        self,
        *,
        at_once: int = 1,
        most_waiting: int = MOST_JOBS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._at_once, self._most_waiting, self._now = at_once, most_waiting, now
        self._jobs: dict[str, Report] = {}
        # ids of waiting jobs by client, in the order of turns
        self._waiting: dict[str, deque[str]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def submit(self, client: str, work: Callable[[Report], Awaitable[dict[str, Any]]]) -> str:
        """Put a job into the queue of its client, and return its id. Raises ``TooBusy`` if full."""
        self._forget()
        if len(self) >= self._most_waiting:
            raise TooBusy
        name = secrets.token_urlsafe(12)
        self._jobs[name] = job = Report(client, work)
        job.send("progress", {"status": "waiting"})
        self._waiting.setdefault(client, deque()).append(name)
        self._begin()
        return name

    def get(self, name: str) -> Report | None:
        """Return a job; None for an unknown or forgotten one."""
        self._forget()
        return self._jobs.get(name)

    def state(self, name: str) -> dict[str, Any] | None:
        """Return the state of a job as JSON for its client; None for an unknown or forgotten job.
        ``place``: number of jobs of the same client before it."""
        if (job := self.get(name)) is None:
            return None
        found: dict[str, Any] = {"job": name, "status": job.status}
        if job.status == "waiting":
            found["place"] = self._waiting[job.client].index(name)
        if job.total is not None:
            found |= {"done": job.done, "total": job.total}
        found |= {"answer": job.answer} if job.answer is not None else {}
        return found | ({"error": job.error} if job.error is not None else {})

    def cancel(self, name: str) -> bool:
        """Cancel a waiting or working job; return False for an unknown job."""
        if (job := self._jobs.get(name)) is None:
            return False
        if job.status == "waiting":
            self._waiting[job.client].remove(name)
            if not self._waiting[job.client]:
                del self._waiting[job.client]
        elif job.task is not None:
            job.task.cancel()
        job.end("cancelled", self._now())
        return True

    def close(self) -> None:
        """Cancel all waiting and working jobs."""
        for name in [*self._jobs]:
            self.cancel(name)

    def _forget(self) -> None:
        """Forget ended jobs, by age and number."""
        limit = self._now() - KEPT_SECONDS
        ended = {name: job.ended for name, job in self._jobs.items() if job.ended is not None}
        oldest = sorted(ended, key=ended.__getitem__)
        for number, name in enumerate(oldest):
            if number < len(oldest) - MOST_KEPT or ended[name] < limit:
                del self._jobs[name]

    def _begin(self) -> None:
        """Begin the first job of the next client, whose next turn comes after all other clients,
        until ``at_once`` jobs are worked on."""
        num = sum(job.status == "working" for job in self._jobs.values())
        for _ in range(min(self._at_once - num, len(self))):
            client = next(iter(self._waiting))
            others = self._waiting.pop(client)
            job = self._jobs[others.popleft()]
            if others:
                self._waiting[client] = others
            job.status, job.task = "working", asyncio.ensure_future(self._work(job))
            job.task.add_done_callback(partial(self._leave, job))

    def _leave(self, job: Report, _: asyncio.Task[None]) -> None:
        job.task = None  # and what it holds
        self._begin()

    async def _work(self, job: Report) -> None:
        assert job.work is not None
        work, job.work = job.work, None
        try:
            job.answer = await work(job)
        except Stopped:
            job.end("cancelled", self._now())
        except Exception as error:  # other jobs go on
            job.error = sentence_of(error)
        job.end("done" if job.error is None else "failed", self._now())
