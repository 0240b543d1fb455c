"""Processes for long tasks, so that the studio stays responsive and can stop them."""

from __future__ import annotations

import logging
import multiprocessing
import os
import queue
import signal
import threading
import time
import traceback
from collections.abc import Callable
from importlib.util import find_spec
from math import inf
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")
A = TypeVar("A")

MOST_TASKS = 200
"""Tasks after which a process is replaced, to free its memory."""

NICE = 5
"""Niceness of processes that find plans, relative to the studio."""

_LOOK = 0.1
"""Seconds between two checks for cancelled tasks."""

_ENOUGH = 2
"""Processes that may be killed during a task before it fails."""


class Stopped(Exception):
    """Error of a cancelled task, or of the end of the studio."""


class Late(Exception):
    """Error of a task that exceeded its time limit."""


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
    """Pool of ``num`` processes, each started when first needed.

    ``nice``: niceness of the processes, where the system supports it. ``seconds``: time limit of a
    task. ``most_bytes``: memory limit of tasks, where the system can measure it. ``patience``:
    seconds that a cancelled task may still take, since replacing a stopped process takes some
    seconds.
    """

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
        too much memory, and ``RuntimeError`` for other errors.
        """
        # a killed process is replaced, and the task repeated once
        process = self._next(stop)
        try:
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
            if process is not None:
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

    def close(self) -> None:
        """End all processes; their tasks raise ``Stopped``."""
        self._closed.set()
        for _ in range(self.num):
            if (process := self._free.get()) is not None:
                process.end()

    def _next(self, stop: Callable[[], bool]) -> _Process | None:
        while not (stop() or self._closed.is_set()):
            try:
                return self._free.get(timeout=_LOOK)
            except queue.Empty:
                continue
        raise Stopped

    def _renewed(self, process: _Process | None) -> _Process:
        if process is not None:
            self._end(process)
        return _Process(self._nice, self._most_bytes)

    def _end(self, process: _Process) -> None:
        self._busy.discard(process)
        process.end()

    def _answer(
        self, process: _Process, function: Callable[[A], T], argument: A, stop: Callable[[], bool]
    ) -> T:
        """Send a task to a process and wait: for "begun", then for its result."""
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
        # the result, or the error of the task
        if kind == "done":
            return answer
        raise ValueError(answer) if kind == "wrong" else RuntimeError(answer)


def _work(connection: Connection, nice: int, most_bytes: int | None) -> None:
    """Answer tasks until the studio ends. A task is "begun" once its imports are done."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the studio's, which ends this one
    if hasattr(os, "nice"):
        os.nice(nice)
    while True:
        # run the task; errors are sent as text
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
