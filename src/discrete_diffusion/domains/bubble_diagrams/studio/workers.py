"""Processes that find plans, so that the studio answers others meanwhile and can stop them."""

from __future__ import annotations

import logging
import multiprocessing
import os
import queue
import signal
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")
A = TypeVar("A")

MOST_TASKS = 200
"""Tasks of a process, which is then replaced, whatever memory it has collected."""

NICE = 5
"""By which processes that look for plans stand back behind the studio itself."""

_LOOK = 0.1
"""Seconds between two looks if the task is still wanted."""

_ENOUGH = 2
"""Processes that may die of a task before it fails."""


class Stopped(Exception):
    """Nobody wants the task any more, or the studio ends."""


class _Process:
    """A process that does one task after the other."""

    def __init__(self, nice: int) -> None:
        spawn = multiprocessing.get_context("spawn")  # a fork would copy threads that hold locks
        self.connection, theirs = spawn.Pipe()
        self.process = spawn.Process(target=_work, args=(theirs, nice), name="plans", daemon=True)
        self.process.start()
        theirs.close()
        self.tasks = 0

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


class Workers:
    """``num`` processes, each started when it is first needed. ``nice``: by how much they stand
    back behind others, where the system knows it."""

    def __init__(self, num: int, *, nice: int = NICE) -> None:
        if num < 1:
            raise ValueError(f"workers={num}: expected at least 1")
        self.num, self._nice = num, nice
        self._free: queue.LifoQueue[_Process | None] = queue.LifoQueue()
        for _ in range(num):
            self._free.put(None)
        self._busy: set[_Process] = set()
        self._closed = threading.Event()

    @property
    def pids(self) -> list[int]:
        """Of processes that work."""
        return [each.process.pid or 0 for each in list(self._busy)]

    def run(self, function: Callable[[A], T], argument: A, stop: Callable[[], bool]) -> T:
        """``function(argument)`` in one of the processes, as soon as one is free. If it is killed,
        another one begins anew, once.

        Raises ``Stopped`` soon after ``stop()`` is true, and ends the process then; ``ValueError``
        as the function does; ``RuntimeError`` for all else that goes wrong.
        """
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
        except Stopped:
            if process is not None:
                self._end(process)
                process = None
            raise
        finally:
            if process is not None and process.tasks >= MOST_TASKS:
                self._end(process)
                process = None
            if process is not None:
                self._busy.discard(process)
            self._free.put(process)

    def close(self) -> None:
        """End all processes; tasks that they do are ``Stopped``."""
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
        return _Process(self._nice)

    def _end(self, process: _Process) -> None:
        self._busy.discard(process)
        process.end()

    def _answer(
        self,
        process: _Process,
        function: Callable[[A], T],
        argument: A,
        stop: Callable[[], bool],
    ) -> T:
        self._busy.add(process)
        process.tasks += 1
        process.connection.send((function, argument))
        while not process.connection.poll(_LOOK):
            if stop() or self._closed.is_set():
                raise Stopped
        kind, answer = process.connection.recv()
        if kind == "done":
            return answer
        raise ValueError(answer) if kind == "wrong" else RuntimeError(answer)


def call(work: Callable[[], T]) -> T:
    """What the work gives: a task without an argument."""
    return work()


def _work(connection: Connection, nice: int) -> None:
    """Answer the tasks that come, until the studio is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the studio's, which ends this one
    if hasattr(os, "nice"):
        os.nice(nice)
    while True:
        try:
            function, argument = connection.recv()
        except EOFError:
            return
        try:
            answer = "done", function(argument)
        except ValueError as error:
            answer = "wrong", str(error)
        except Exception:  # the studio's log has it
            answer = "failed", traceback.format_exc()
        connection.send(answer)
