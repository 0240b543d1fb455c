"""What a command shows while it works: a bar on a terminal, elsewhere a line now and then.

Library code says what it is at with ``task``; that shows nothing unless a command is ``shown``.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

logger = logging.getLogger(__name__)

T = TypeVar("T")

FIRST, EVERY = 10.0, 30.0
"""Seconds from the beginning of a task to its first line, and from one line to the next."""

_REDRAWN = 0.25
"""Seconds between two states of a bar."""


class Task:
    """Something that takes time: ``done`` of ``total`` ``unit`` (a plural), None if not known.

    ``note``: what is said beside, such as the loss; ``wants_note``: the task has been shown since
    somebody set this to False. ``said``: when a line told of it."""

    def __init__(self, name: str, total: float | None = None, unit: str = "") -> None:
        self.name, self.total, self.unit, self.note = name, total, unit, ""
        self.done = self._done_before = 0.0
        self.began = self._moved = time.monotonic()
        self.said: float | None = None
        self.wants_note = False

    def advance(self, num: float = 1) -> None:
        """``num`` more are done."""
        self.reach(self.done + num)

    def reach(self, done: float) -> None:
        """So many are done in all."""
        self.done = done if self.total is None else min(done, self.total)
        self._moved = time.monotonic()

    def begin_at(self, done: float) -> None:
        """So many were done earlier, at a speed that says nothing."""
        self.done = self._done_before = done

    @property
    def place(self) -> str:
        """``training, 120 of 3,000 steps``."""
        count = f"{self.done:,.0f}" + ("" if self.total is None else f" of {self.total:,.0f}")
        return f"{self.name}, {count} {self.unit}" if self.unit else self.name

    @property
    def status(self) -> str:
        """``place``, the note, the speed and the time left, at the mean speed so far; before the
        first and after the last one, the time so far."""
        now = time.monotonic()
        parts = [self.place, *([self.note] if self.note else [])]
        fresh = self.done - self._done_before
        if fresh <= 0 or self.done == self.total:
            return ", ".join([*parts, f"{_clock(now - self.began)} so far"])
        speed = fresh / max(self._moved - self.began, 1e-9)
        parts.append(f"{speed:.3g} {self.unit}/s" if speed >= 1 else f"{1 / speed:.3g} s each")
        if self.total is not None:
            left = (self.total - self.done) / speed - (now - self._moved)
            parts.append(f"{_clock(max(left, 0))} left")
        return ", ".join(parts)


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


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
            yield item
            going.advance()


def parts(*names: str) -> Iterator[AbstractContextManager[Task]]:
    """Tasks to be entered one after the other, which are announced in the log."""
    logger.info("%d parts: %s", len(names), "; ".join(names))
    return (task(f"part {k} of {len(names)}, {name}") for k, name in enumerate(names, start=1))


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
    _screen = _Screen(_Bar() if terminal else _Lines(say, first, every))
    try:
        yield
    finally:
        ended, _screen = _screen, None
        ended.end()


class _Display(Protocol):
    interval: float
    """Seconds between two looks at the tasks."""

    def show(self, tasks: Sequence[Task]) -> None:
        """Of one task or more, the outermost first."""

    def clear(self) -> None:
        """There is no task any more."""


class _Screen:
    """The tasks of a command, and a thread that shows them on a display."""

    def __init__(self, display: _Display) -> None:
        self._display = display
        self._tasks: list[Task] = []
        self._lock, self._over = threading.RLock(), threading.Event()
        self._thread: threading.Thread | None = None

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


def _text(tasks: Sequence[Task]) -> str:
    return ": ".join([*(each.place for each in tasks[:-1]), tasks[-1].status])


class _Lines:
    def __init__(self, say: Callable[[str], None], first: float, every: float) -> None:
        self._say, self._first, self._every = say, first, every
        self.interval = min(1.0, every)

    def show(self, tasks: Sequence[Task]) -> None:
        now = time.monotonic()
        if any(now >= self._due(each) for each in tasks):
            self._say(_text(tasks))
            for each in tasks:
                each.said = now

    def _due(self, task: Task) -> float:
        return task.began + self._first if task.said is None else task.said + self._every

    def clear(self) -> None:
        pass


class _Bar:
    """Below what is printed and logged meanwhile; gone when there is no task."""

    interval = _REDRAWN

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._handlers: list[logging.StreamHandler[Any]] = []

    def show(self, tasks: Sequence[Task]) -> None:
        if self._progress is None:
            self._progress = self._begin()
        inner = tasks[-1]
        self._progress.update(
            self._progress.task_ids[0],
            description=_text(tasks),
            total=inner.total,
            completed=inner.done,
            refresh=True,
        )

    def _begin(self) -> Progress:
        from rich.console import Console
        from rich.file_proxy import FileProxy
        from rich.progress import BarColumn, Progress, TextColumn

        console = Console(stderr=True)
        progress = Progress(
            BarColumn(bar_width=20),
            TextColumn("{task.description}", markup=False),
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),
        )
        progress.add_task("")
        for handler in logging.getLogger().handlers:
            if isinstance(handler, logging.StreamHandler) and handler.stream.isatty():
                handler.setStream(FileProxy(console, handler.stream))
                self._handlers.append(handler)
        progress.start()
        return progress

    def clear(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
        while self._handlers:
            handler = self._handlers.pop()
            handler.setStream(handler.stream.rich_proxied_file)
