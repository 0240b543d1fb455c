"""Progress of a command while it works: a bar on a terminal, elsewhere occasional log lines.

Library code announces its work with ``task``; nothing is shown unless a command calls ``shown``.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Any, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")

FIRST, EVERY = 10.0, 30.0
"""Seconds from the beginning of a task to its first log line, and between later lines."""


class Task:
    """Work in progress: ``done`` of ``total`` items, called ``unit`` (a plural).

    ``wants_note``: True if the task was shown since the ``note`` was set. ``at_hand``: number of
    items in progress, of which the fraction ``share`` is done, by ``step``: its name and number.
    ``costs``: sum of the costs of all items, if they differ; the time left is then that of costs.
    """

    def __init__(
        self, name: str, total: float | None = None, unit: str = "", costs: float | None = None
    ) -> None:
        self.name, self.total, self.unit, self.note, self.step = name, total, unit, "", ("", 0)
        self.done = self._done_before = self.at_hand = self.share = 0.0
        self.costs, self._paid, self._cost_at_hand = costs, 0.0, 0.0
        self.began = self._moved = time.monotonic()
        self.logged_at: float | None = None
        self.wants_note = False

    def advance(self, num: float = 1) -> None:
        """Count ``num`` more items as done."""
        self.reach(self.done + num)

    def reach(self, done: float) -> None:
        """Set the number of items done; no item is then in progress."""
        self.done = done if self.total is None else min(done, self.total)
        self._paid, self._cost_at_hand = self._paid + self._cost_at_hand, 0.0
        self.at_hand, self.share, self.step = 0.0, 0.0, ("", 0)
        self._moved = time.monotonic()

    def take(self, num: float = 1, cost: float = 0.0) -> None:
        """Begin work on ``num`` items, which cost ``cost`` together."""
        self.at_hand, self.share, self._cost_at_hand = num, 0.0, cost

    def come(self, share: float) -> None:
        """Set the fraction done of the items in progress."""
        self.share = min(max(share, 0.0), 1.0)
        self._moved = time.monotonic()

    def begin_at(self, done: float) -> None:
        """Start from ``done`` items of an earlier run, which do not count for the speed."""
        self.done = self._done_before = done

    @property
    def place(self) -> str:
        """Name and count of the task: ``training, 120 of 3,000 steps``."""
        count = f"{self.done:,.0f}" + ("" if self.total is None else f" of {self.total:,.0f}")
        return f"{self.name}, {count} {self.unit}" if self.unit else self.name

    @property
    def noted(self) -> str:
        """Name and count, with the note, and with the step after the first."""
        name, number = self.step
        step = f"{name} {number:,}" if number > 1 else ""
        return ", ".join(part for part in (self.place, self.note, step) if part)

    @property
    def status(self) -> str:
        """``noted`` with the mean speed and the remaining time, or the time so far."""
        now = time.monotonic()
        made = self.done + self.at_hand * self.share
        made = made if self.total is None else min(made, self.total)
        fresh = made - self._done_before
        if fresh <= 0 or self.done == self.total:
            return f"{self.noted}, {_format_seconds(now - self.began)} so far"
        # speed and seconds left at the last change, so that the time goes down until the next
        speed = fresh / max(self._moved - self.began, 1e-9)
        rate = f"{speed:.3g} {self.unit}/s" if speed >= 1 else f"{1 / speed:.3g} s each"
        parts = [self.noted, rate]
        if self.total is not None:
            rest = (self.total - made) / speed
            if self.costs is not None and (paid := self._paid + self.share * self._cost_at_hand):
                rest = max(self.costs / paid - 1, 0.0) * (self._moved - self.began)
            item, since = min(rest, 1 / speed), now - self._moved  # overdue: as long again
            parts.append(f"{_format_seconds(max(rest - item + abs(item - since), 1))} left")
        return ", ".join(parts)


def _format_seconds(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


class Calls:
    """Counter of the network calls of a task, which show its progress between finished items.

    ``begun``: rounds so far, of ``most`` at most, each of ``each`` network calls."""

    def __init__(
        self, task: Task | None = None, most: int | None = None, each: int = 1, name: str = "call"
    ) -> None:
        self._task, self._each, self._name, self.begun, self.most = task, each, name, 0, most
        self._rounds_tell, self._share_known = most is not None, False

    def expect(self, most: int, *, exact: bool = True) -> None:
        """Expect at most ``most`` rounds; if ``exact``, their count gives the fraction done."""
        self.most, self._rounds_tell = most, exact

    def come(self, share: float, left: int | None = None) -> None:
        """Set the fraction done, and the number of further rounds, at most ``left``."""
        self._share_known, self._rounds_tell = True, False
        if left is not None:
            self.most = self.begun + left
        if self._task is not None:
            self._task.come(share)

    @property
    def wants_share(self) -> bool:
        task, known = self._task, self._rounds_tell or self._share_known
        return task is not None and task.wants_note and not known

    def begin(self, share: float | None = None) -> None:
        """Count a round; ``share``: fraction done before the round, None if unknown."""
        if (task := self._task) is not None:
            if share is not None:
                task.wants_note = False
            elif self._rounds_tell and self.most:
                share = self.begun / self.most
            if share is not None:
                task.come(share)
        self.begun += 1
        if task is not None:
            of = "" if self.most is None else f" of at most {self.most * self._each:,}"
            task.note = f"{self._name} {self.begun * self._each:,}{of}"


class _Lines:
    """Log lines about a task: after ``first`` seconds, then ``every`` so many seconds."""

    def __init__(self, say: Callable[[str], None], first: float, every: float) -> None:
        self._say, self._first, self._every = say, first, every
        self.interval = min(1.0, every)

    def show(self, tasks: Sequence[Task]) -> None:
        now = time.monotonic()
        due = (
            each.began + self._first if each.logged_at is None else each.logged_at + self._every
            for each in tasks
        )
        if any(now >= time_of_line for time_of_line in due):
            self._say(_line_of_tasks(tasks))
            for each in tasks:
                each.logged_at = now

    def clear(self) -> None: ...


class _Bar:
    """Progress bar of ``rich`` below printed and logged lines."""

    interval = 0.25
    """Seconds between two updates of the bar."""

    def __init__(self) -> None:
        self._progress: Any = None
        self._handlers: list[logging.StreamHandler[Any]] = []

    def show(self, tasks: Sequence[Task]) -> None:
        if self._progress is None:
            self._begin()
        self._progress.update(
            self._progress.task_ids[0],
            total=tasks[-1].total,
            completed=tasks[-1].done,
            description=_line_of_tasks(tasks),
            refresh=True,
        )

    def _begin(self) -> None:
        from rich.console import Console
        from rich.file_proxy import FileProxy
        from rich.progress import BarColumn, Progress, TextColumn

        console = Console(stderr=True)
        self._progress = Progress(
            BarColumn(bar_width=20),
            TextColumn("{task.description}", markup=False),
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),
        )
        self._progress.add_task("")
        # log lines to the terminal go above the bar
        for handler in logging.getLogger().handlers:
            if isinstance(handler, logging.StreamHandler) and handler.stream.isatty():
                handler.setStream(FileProxy(console, handler.stream))
                self._handlers.append(handler)
        self._progress.start()

    def clear(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
        while self._handlers:
            handler = self._handlers.pop()
            handler.setStream(handler.stream.rich_proxied_file)


def _line_of_tasks(tasks: Sequence[Task]) -> str:
    return ": ".join([*(each.place for each in tasks[:-1]), tasks[-1].status])


class _Screen:
    """Tasks of a command, from the outermost inwards, and a thread that displays them."""

    def __init__(self, display: _Bar | _Lines) -> None:
        self._display = display
        self.tasks: list[Task] = []
        self._lock, self._over = threading.RLock(), threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def showing(self, new: Task) -> Iterator[None]:
        """Show a new innermost task during the block; tasks begun inside end with it."""
        with self._lock:
            self.tasks.append(new)
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)
            self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                if new in self.tasks:
                    del self.tasks[self.tasks.index(new) :]
                if not self.tasks:
                    self._display.clear()

    def end(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        self._display.clear()

    def _watch(self) -> None:
        while not self._over.wait(self._display.interval):
            with self._lock:
                if self.tasks:
                    self._display.show(self.tasks)
                    self.tasks[-1].wants_note = True


_screen: _Screen | None = None


def _tasks() -> list[Task]:
    """Copy the list of shown tasks; without a lock, as signal handlers call this."""
    return [] if _screen is None else _screen.tasks[:]


@contextmanager
def shown(
    say: Callable[[str], None], *, bar: bool = True, first: float = FIRST, every: float = EVERY
) -> Iterator[None]:
    """Show the tasks of the block: as a ``bar`` if standard error is a terminal, else as lines.

    ``say`` gets a line ``first`` seconds after the beginning of a task, then ``every`` so many."""
    global _screen
    if _screen is not None:
        yield
        return
    _screen = _Screen(_Bar() if bar and sys.stderr.isatty() else _Lines(say, first, every))
    try:
        yield
    finally:
        ended, _screen = _screen, None
        ended.end()


@contextmanager
def task(
    name: str, total: float | None = None, unit: str = "", costs: float | None = None
) -> Iterator[Task]:
    """Begin a task inside the current task, and end it with the block."""
    new = Task(name, total, unit, costs)
    if _screen is None:
        yield new
        return
    with _screen.showing(new):
        yield new


def track(items: Sequence[T], name: str, unit: str) -> Iterator[T]:
    """Yield the items, with a task that shows how many are done."""
    with task(name, len(items), unit) as going:
        for item in items:
            going.take()
            yield item
            going.advance()


def parts(*names: str) -> Iterator[AbstractContextManager[Task]]:
    """Log the names of several tasks; yield each task, to be entered in turn."""
    logger.info("%d parts: %s", len(names), "; ".join(names))
    return (task(f"part {k} of {len(names)}, {name}") for k, name in enumerate(names, start=1))


@contextmanager
def calls(most: int | None = None, *, each: int = 1, name: str = "call") -> Iterator[Calls]:
    """Yield a counter of network calls, shown as the note of the innermost task."""
    task = next(iter(_tasks()[-1:]), None)
    former = "" if task is None else task.note
    try:
        yield Calls(task, most, each, name)
    finally:
        if task is not None:
            task.note = former


def step(name: str) -> None:
    """Count a step called ``name`` of the work on the innermost task's items in progress."""
    for task in _tasks()[-1:]:
        task.step = (name, task.step[1] + 1)


def where() -> str:
    """Return the current tasks of the command with their progress; "" if no task is shown."""
    return ": ".join(each.noted for each in _tasks())
