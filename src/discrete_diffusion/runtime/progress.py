"""Progress of a command while it works: a bar on a terminal, elsewhere a line now and then.

Library code announces its work with ``task``; that shows nothing unless a command is ``shown``.
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


class Task:
    """Something that takes time: ``done`` of ``total`` ``unit`` (a plural), None if not known.

    ``note``: text beside it, such as the loss; ``wants_note``: the task has been shown since
    somebody set this to False. ``logged_at``: when a line was last logged. ``at_hand``: how many
    more are being made at this moment, all at once, of which the share ``share`` is made.
    ``step``: the name and number of the last step of work on these, which says that it goes on."""

    def __init__(self, name: str, total: float | None = None, unit: str = "") -> None:
        self.name, self.total, self.unit, self.note, self.step = name, total, unit, "", ("", 0)
        self.done = self._done_before = self.at_hand = self.share = 0.0
        self.began = self._moved = time.monotonic()
        self.logged_at: float | None = None
        self.wants_note = False

    def advance(self, num: float = 1) -> None:
        """``num`` more are done."""
        self.reach(self.done + num)

    def reach(self, done: float) -> None:
        """Set how many are done in all; nothing is at hand."""
        self.done = done if self.total is None else min(done, self.total)
        self.at_hand, self.share, self.step = 0.0, 0.0, ("", 0)
        self._moved = time.monotonic()

    def take(self, num: float = 1) -> None:
        """``num`` more are at hand."""
        self.at_hand, self.share = num, 0.0

    def come(self, share: float) -> None:
        """Set the share of what is at hand that is made, from 0 to 1."""
        self.share = min(max(share, 0.0), 1.0)
        self._moved = time.monotonic()

    def begin_at(self, done: float) -> None:
        """Set how many were done earlier, at a speed that says nothing."""
        self.done = self._done_before = done

    @property
    def place(self) -> str:
        """``training, 120 of 3,000 steps``."""
        count = f"{self.done:,.0f}" + ("" if self.total is None else f" of {self.total:,.0f}")
        return f"{self.name}, {count} {self.unit}" if self.unit else self.name

    @property
    def noted(self) -> str:
        """``place``, the note, and the step, unless it is the first."""
        name, number = self.step
        step = f"{name} {number:,}" if number > 1 else ""
        return ", ".join(part for part in (self.place, self.note, step) if part)

    @property
    def status(self) -> str:
        """``noted``, the speed and the time left, at the mean speed so far; as long as nothing is
        made, and after the last one, the time so far."""
        now = time.monotonic()
        parts = [self.noted]
        made = self.done + self.at_hand * self.share
        made = made if self.total is None else min(made, self.total)
        fresh = made - self._done_before
        if fresh <= 0 or self.done == self.total:
            return ", ".join([*parts, f"{_clock(now - self.began)} so far"])
        speed = fresh / max(self._moved - self.began, 1e-9)
        parts.append(f"{speed:.3g} {self.unit}/s" if speed >= 1 else f"{1 / speed:.3g} s each")
        if self.total is not None:
            left = (self.total - made) / speed - (now - self._moved)
            parts.append(f"{_clock(max(left, 0))} left")
        return ", ".join(parts)


class Calls:
    """The network calls that make what a task has at hand, by which one sees it move.

    ``begun``: rounds of calls so far, of ``most`` if that is known, ``each`` of so many calls.
    ``wants_share``: the task has been shown since it last heard what share is made, and the number
    of rounds does not say it."""

    def __init__(
        self, task: Task | None = None, most: int | None = None, each: int = 1, name: str = "call"
    ) -> None:
        self._task, self._each, self._name, self.begun, self.most = task, each, name, 0, most
        self._follows, self._share_known = most is not None, False  # it is that of the rounds

    def expect(self, most: int, *, exact: bool = True) -> None:
        """Expect ``most`` rounds; unless ``exact``, perhaps fewer, so that they are no measure
        of what is made."""
        self.most, self._follows = most, exact

    def come(self, share: float, left: int | None = None) -> None:
        """Set the share that is made, from 0 to 1; at most ``left`` rounds are to begin."""
        self._share_known, self._follows = True, False
        if left is not None:
            self.most = self.begun + left
        if self._task is not None:
            self._task.come(share)

    @property
    def wants_share(self) -> bool:
        task = self._task
        return task is not None and task.wants_note and not (self._follows or self._share_known)

    def begin(self, share: float | None = None) -> None:
        """A round begins; ``share``: made before it, if the caller knows."""
        if (task := self._task) is not None:
            if share is not None:
                task.wants_note = False
            elif self._follows and self.most:
                share = self.begun / self.most
            if share is not None:
                task.come(share)
        self.begun += 1
        if task is not None:
            of = "" if self.most is None else f" of at most {self.most * self._each:,}"
            task.note = f"{self._name} {self.begun * self._each:,}{of}"


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


_REDRAWN = 0.25
"""Seconds between two states of a bar."""


class Display(Protocol):
    interval: float
    """Seconds between two looks at the tasks."""

    def show(self, tasks: Sequence[Task]) -> None:
        """Show one task or more, the outermost first."""

    def clear(self) -> None:
        """Clear the line: there is no task any more."""


def _text(tasks: Sequence[Task]) -> str:
    return ": ".join([*(each.place for each in tasks[:-1]), tasks[-1].status])


class Lines:
    def __init__(self, say: Callable[[str], None], first: float, every: float) -> None:
        self._say, self._first, self._every = say, first, every
        self.interval = min(1.0, every)

    def show(self, tasks: Sequence[Task]) -> None:
        now = time.monotonic()
        if any(now >= self._due(each) for each in tasks):
            self._say(_text(tasks))
            for each in tasks:
                each.logged_at = now

    def _due(self, task: Task) -> float:
        return task.began + self._first if task.logged_at is None else task.logged_at + self._every

    def clear(self) -> None:
        pass


class Bar:
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
