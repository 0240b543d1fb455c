"""Ctrl-C, SIGTERM and their like: end a command where nothing that it has done is lost."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from discrete_diffusion.runtime import progress

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
SIGNALS = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))
"""Signals that end a command: of the keyboard, of schedulers, and of a terminal that is closed."""

_entered: list[StopSignals] = []


class Stop(BaseException):
    """A run was requested to end. No ``Exception``, so that nothing takes it for an error.

    ``number``: the signal; ``checkpoint``: where the run so far is, None if nothing was saved.
    ``where``: what the command was at and how far, by default at this moment.
    """

    def __init__(
        self, number: int, checkpoint: Path | None = None, where: str | None = None
    ) -> None:
        where = progress.where() if where is None else where
        at = f" at {where}" if where else ""
        super().__init__(f"stopped by {signal.Signals(number).name}{at}")
        self.number, self.checkpoint, self.where = number, checkpoint, where

    @property
    def exit_status(self) -> int:
        """Status that a shell reports of a process that the signal ended: 130 or 143."""
        return 128 + self.number


class StopSignals:
    """While entered, the first of ``SIGNALS`` requests an end, the second one kills at once.

    ``received``: the first signal, or None; ``where``: what the command was at when it came. It
    raises ``Stop`` on the spot, unless ``finish_step`` is set: then ``promise`` is printed, and the
    run looks at ``received`` itself.

    Signals belong to the main thread: entered elsewhere, this does nothing. A signal that the
    parent process ignored stays ignored. The former handlers come back at the end; one of another
    package, such as submitit's, which puts a job back into the queue, is then called with the
    signal that was received.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self.where = ""
        self.finish_step = False
        self.promise = "stopping as soon as the run can go on from there"
        self._former: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        self._former = {number: signal.getsignal(number) for number in SIGNALS}
        self.install()
        _entered.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _entered.remove(self)
        self._install(lambda number: self._former[number])
        former, self._former = self._former, {}
        if self.received is None:
            return
        handler = former[self.received]
        outer = getattr(handler, "__self__", None)
        if isinstance(outer, StopSignals):  # which knows the handler of another package
            outer.received = outer.received or self.received
        elif callable(handler) and not _ends_commands(handler):
            handler(self.received, None)

    def install(self) -> None:
        """Take the signals over (again: Lightning puts its own SIGTERM handler on top)."""
        self._install(lambda _: self._handle)

    def stop_at_once(self) -> None:
        """Raise ``Stop`` on the spot from now on, also for a signal that has come."""
        self.finish_step = False
        if self.received is not None:
            raise Stop(self.received, where=self.where)

    def _install(self, handler: Callable[[int], Any]) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number, former in self._former.items():
            if former not in (signal.SIG_IGN, None):
                signal.signal(number, handler(number))

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self.received, self.where = number, progress.where()
        if not self.finish_step:
            raise Stop(number)
        # not print: the signal may have come in the middle of one
        os.write(2, f"\n{self.promise}; the same signal again kills at once\n".encode())


def _ends_commands(handler: Any) -> bool:
    """True for a handler that does what ``Stop`` does: Python's of Ctrl-C, and our own."""
    ours = str(getattr(handler, "__module__", "")).startswith("discrete_diffusion.")
    return ours or handler is signal.default_int_handler


def is_stopping() -> bool:
    """True once a signal has requested an end, in any thread: long work gives up."""
    return any(each.received is not None for each in _entered)


def end_if_stopping() -> None:
    """Raise ``Stop`` once a signal has requested an end, after work that kept what it had then."""
    for each in _entered:
        if each.received is not None:
            raise Stop(each.received, where=each.where)
