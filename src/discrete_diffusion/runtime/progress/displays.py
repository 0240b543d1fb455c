"""Displays of what a command is at: a line now and then, or a bar."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from discrete_diffusion.runtime.progress.going import Task

if TYPE_CHECKING:
    from rich.progress import Progress

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
