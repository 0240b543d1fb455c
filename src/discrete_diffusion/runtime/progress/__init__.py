"""Progress of a command while it works: a bar on a terminal, elsewhere a line now and then.

Library code announces its work with ``task``; that shows nothing unless a command is ``shown``.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

from discrete_diffusion.runtime.progress.displays import Bar, Display, Lines
from discrete_diffusion.runtime.progress.going import Calls, Task

logger = logging.getLogger(__name__)

T = TypeVar("T")

FIRST, EVERY = 10.0, 30.0
"""Seconds from the beginning of a task to its first line, and from one line to the next."""


@contextmanager
def task(name: str, total: float | None = None, unit: str = "") -> Iterator[Task]:
    """A task while the block runs, inside of those that have begun."""
    new = Task(name, total, unit)
    if _screen is None:
        yield new
        return
    with _screen.showing(new):
        yield new


def track(items: Sequence[T], name: str, unit: str) -> Iterator[T]:
    """The items one after the other, as a task."""
    with task(name, len(items), unit) as going:
        for item in items:
            going.take()
            yield item
            going.advance()


def parts(*names: str) -> Iterator[AbstractContextManager[Task]]:
    """Tasks to be entered one after the other, which are announced in the log."""
    logger.info("%d parts: %s", len(names), "; ".join(names))
    return (task(f"part {k} of {len(names)}, {name}") for k, name in enumerate(names, start=1))


@contextmanager
def calls(most: int | None = None, *, each: int = 1, name: str = "call") -> Iterator[Calls]:
    """Calls that make what the innermost task has at hand; of none, if nothing is shown. ``name``:
    of one, which is shown."""
    tasks = [] if _screen is None else _screen.tasks
    task = tasks[-1] if tasks else None
    former = "" if task is None else task.note
    try:
        yield Calls(task, most, each, name)
    finally:
        if task is not None:
            task.note = former


def step(name: str) -> None:
    """Count one more step of work, called ``name``, on what the innermost task has at hand."""
    for task in [] if _screen is None else _screen.tasks[-1:]:
        task.step = (name, task.step[1] + 1)


def where() -> str:
    """Text shown at this moment but for times; empty if nothing is. Does not wait for a lock, so
    that a signal handler may call it."""
    tasks = [] if _screen is None else _screen.tasks
    return ": ".join(each.noted for each in tasks)


@contextmanager
def shown(
    say: Callable[[str], None], *, bar: bool = True, first: float = FIRST, every: float = EVERY
) -> Iterator[None]:
    """Show the tasks of the block: as a ``bar`` if standard error is a terminal; else ``say`` a
    line ``first`` seconds into a task, then ``every`` so many. Inside another such block, that one
    goes on."""
    global _screen
    if _screen is not None:
        yield
        return
    terminal = bar and sys.stderr.isatty()
    _screen = _Screen(Bar() if terminal else Lines(say, first, every))
    try:
        yield
    finally:
        ended, _screen = _screen, None
        ended.end()


class _Screen:
    """The tasks of a command, and a thread that shows them on a display."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._tasks: list[Task] = []
        self._lock, self._over = threading.RLock(), threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def tasks(self) -> list[Task]:
        """Tasks that go on, the outermost first."""
        return self._tasks[:]

    @contextmanager
    def showing(self, new: Task) -> Iterator[None]:
        """The task is the innermost one; with it end those that have begun inside."""
        with self._lock:
            self._tasks.append(new)
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)
            self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                if new in self._tasks:
                    del self._tasks[self._tasks.index(new) :]
                if not self._tasks:
                    self._display.clear()

    def end(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        self._display.clear()

    def _watch(self) -> None:
        while not self._over.wait(self._display.interval):
            with self._lock:
                if self._tasks:
                    self._display.show(self._tasks)
                    self._tasks[-1].wants_note = True


_screen: _Screen | None = None
