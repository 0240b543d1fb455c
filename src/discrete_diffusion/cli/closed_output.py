"""Output whose reader has gone, as behind ``| head``: the work goes on, unseen."""

from __future__ import annotations

import os
import signal
import sys
from io import TextIOWrapper
from typing import Any

CLOSED = 128 + signal.SIGPIPE
"""Exit status of a command that somebody stopped reading, as a shell has it."""


class Output:
    """Standard output or error as a ``stream``, without what nobody reads."""

    def __init__(self, stream: Any) -> None:
        self._stream, self.is_closed = stream, False

    def write(self, text: str) -> int:
        return int(self._kept(self._stream.write, text) or 0)

    def flush(self) -> None:
        self._kept(self._stream.flush)

    def _kept(self, function: Any, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except BrokenPipeError:
            self.is_closed = True
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())  # for what is in buffers, and child processes
            os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def drop_unread_output() -> None:
    """Let standard output and error of this process be closed at any time, or from the start."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name) or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        if isinstance(stream, TextIOWrapper):  # names of files may be no text
            stream.reconfigure(errors="backslashreplace")
        setattr(sys, name, Output(stream))


def end_unread() -> None:
    """End the process with the status ``CLOSED`` if nobody reads its output."""
    sys.stdout.flush()
    if getattr(sys.stdout, "is_closed", False):
        raise SystemExit(CLOSED)
