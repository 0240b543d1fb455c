"""This process as that of a command: its threads, signals, output and slow imports."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from io import TextIOWrapper
from types import FrameType, ModuleType
from typing import Any, NoReturn

from discrete_diffusion.runtime.processes import SIGNALS, Stop, is_first

_WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
"""Variables that set how the threads of OpenMP, which torch computes with, wait for each other."""


def let_threads_sleep() -> None:
    """Threads that wait for each other sleep instead of spinning, unless the user's environment
    says how they wait. On a processor that is busy with other work, spinning makes a command
    several times slower; on an idle one the two do not differ.

    OpenMP reads this when torch is imported, so afterwards nothing is set.
    """
    if "torch" not in sys.modules and not any(name in os.environ for name in _WAITING):
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"


def say_terminated() -> None:
    """Make the first of ``SIGNALS``, Ctrl-C apart, raise ``Stop``: commands say how far they got
    and leave no empty folder. The second one kills. A signal that is ignored, or for which another
    package has a handler, stays so. Child processes that copy this end at once."""
    process = os.getpid()

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        if os.getpid() == process:
            raise Stop(number)
        os.kill(os.getpid(), number)

    for number in SIGNALS:
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, stop)


def end_stopped(stop: Stop, kept: str = "") -> NoReturn:
    """End a command that a signal stopped: one line says how far it was and what is ``kept``."""
    if is_first():
        print(f"discrete-diffusion: {stop}{f'; {kept}' if kept else ''}", file=sys.stderr)
    raise SystemExit(stop.exit_status) from None


@contextmanager
def command_line(arguments: Sequence[str], *, of_this_program: bool) -> Iterator[None]:
    """Inside, ``sys.argv`` is the whole command, which Lightning runs again in every further
    process: by the program that is running, which may have registered a backbone, or by ours if
    that program called ``main`` with other ``arguments`` than its own."""
    main = sys.modules["__main__"]
    former, spec = sys.argv, getattr(main, "__spec__", None)
    sys.argv = [former[0], *arguments]
    if not of_this_program:
        main.__spec__ = find_spec("discrete_diffusion.__main__")
    try:
        yield
    finally:
        sys.argv, main.__spec__ = former, spec


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


_PARTS = {"Metric": "metric", "MetricCollection": "collections", "__version__": "__about__"}
"""All that Lightning asks of torchmetrics -> the module that has it."""


class _Deferred(ModuleType):
    """torchmetrics, which is imported as a whole when anything else of it is requested."""

    def __getattr__(self, name: str) -> Any:
        if name == "_logger":  # of its module of messages
            return logging.getLogger("torchmetrics")
        if name in _PARTS:
            try:
                import_module("torchmetrics.utilities")  # first: its parts import each other
                return getattr(import_module(f"torchmetrics.{_PARTS[name]}"), name)
            except ImportError:  # a version with other parts
                pass
        self.__class__ = ModuleType  # type: ignore[assignment]
        assert self.__spec__ is not None
        assert self.__spec__.loader is not None
        self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def defer_torchmetrics() -> None:
    """Let ``import lightning`` load two classes of torchmetrics instead of all of it, which imports
    scipy, matplotlib and transformers: two of the seconds before a first step. Every use of
    torchmetrics finds what it always does."""
    if "torchmetrics" in sys.modules:
        return
    spec = find_spec("torchmetrics")
    if spec is not None and spec.loader is not None:
        package = module_from_spec(spec)
        package.__class__ = _Deferred
        sys.modules["torchmetrics"] = package
