"""Set-up of the process of a command: its threads, signals, output and slow imports."""

from __future__ import annotations

import ctypes
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
"""Environment variables that decide how waiting threads of OpenMP, used by torch, behave."""


def let_threads_sleep() -> None:
    """Let waiting threads sleep instead of spinning, unless the environment decides.

    On a busy processor spinning makes a command several times slower. OpenMP reads the variables
    when torch is imported; afterwards nothing is set."""
    if "torch" not in sys.modules and not any(name in os.environ for name in _WAITING):
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"


_ALLOCATION = ("GLIBC_TUNABLES", "MALLOC_")
"""Beginnings of the names of environment variables that decide how glibc allocates memory."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of ``mallopt``, from malloc.h."""


def keep_freed_memory() -> None:
    """Keep up to 1 GiB of freed memory for later tensors, unless the environment decides.

    Otherwise glibc, the C library of most Linux systems, gives each block above 32 MiB back at
    once, and the system clears every page of the next one. With large samples or batches that can
    double the time of a network call.
    """
    if sys.platform != "linux" or any(name.startswith(_ALLOCATION) for name in os.environ):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries lack it
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, 1 << 30)
        mallopt(_TRIM_THRESHOLD, 1 << 30)


# --- signals ---


def raise_stop_on_signals() -> None:
    """Let the first of ``SIGNALS`` except Ctrl-C raise ``Stop``; the second signal kills.

    Ignored signals, and handlers of other packages, stay. Forked child processes end at once."""
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
    """End a stopped command with a line on its progress and on the files ``kept``."""
    if is_first():
        print(f"discrete-diffusion: {stop}{f'; {kept}' if kept else ''}", file=sys.stderr)
    raise SystemExit(stop.exit_status) from None


@contextmanager
def command_line(arguments: Sequence[str], *, of_this_program: bool) -> Iterator[None]:
    """Set ``sys.argv`` to the whole command for the block: Lightning runs it in further processes.

    The program is the running one, or ``discrete-diffusion`` if that called ``main`` itself."""
    # the command that Lightning starts again
    main = sys.modules["__main__"]
    former, spec = sys.argv, getattr(main, "__spec__", None)
    sys.argv = [former[0], *arguments]
    if not of_this_program:
        main.__spec__ = find_spec("discrete_diffusion.__main__")
    try:
        yield
    finally:
        sys.argv, main.__spec__ = former, spec


# --- output that is closed early, as by head ---

CLOSED = 128 + signal.SIGPIPE
"""Exit status of a command whose output was closed, the same as a shell's."""


class Output:
    """Wrapper of standard output or error; once it is closed, text goes to the null device."""

    def __init__(self, stream: Any) -> None:
        self._stream, self.is_closed = stream, False

    def write(self, text: str) -> int:
        return int(self._call(self._stream.write, text) or 0)

    def flush(self) -> None:
        self._call(self._stream.flush)

    def _call(self, function: Any, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except BrokenPipeError:
            self.is_closed = True
            nowhere = os.open(os.devnull, os.O_WRONLY)
            # buffered text and child processes go on writing there
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def drop_unread_output() -> None:
    """Let the process go on if its standard output or error is closed, also from the start."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name) or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        # names of files may not be valid text
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
        setattr(sys, name, Output(stream))


def end_unread() -> None:
    """End the process with the status ``CLOSED`` if its output was closed."""
    sys.stdout.flush()
    if getattr(sys.stdout, "is_closed", False):
        raise SystemExit(CLOSED)


# --- slow imports ---

_PARTS = {"Metric": "metric", "MetricCollection": "collections", "__version__": "__about__"}
"""Names of torchmetrics that Lightning uses, each with its module."""


class _Deferred(ModuleType):
    """Stand-in for torchmetrics with ``_PARTS``; any other name imports the whole package."""

    def __getattr__(self, name: str) -> Any:
        # a name of its module of messages
        if name == "_logger":
            return logging.getLogger("torchmetrics")
        if name in _PARTS:
            try:
                # its parts import each other: this one first
                import_module("torchmetrics.utilities")
                return getattr(import_module(f"torchmetrics.{_PARTS[name]}"), name)
            except ImportError:  # a version with other parts
                pass
        # become the whole module
        self.__class__ = ModuleType  # type: ignore[assignment]
        assert self.__spec__ is not None
        assert self.__spec__.loader is not None
        self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def defer_torchmetrics() -> None:
    """Let ``import lightning`` load two classes of torchmetrics instead of the whole package.

    This saves some two seconds. Every other use of torchmetrics imports it as usual."""
    if "torchmetrics" in sys.modules:
        return
    spec = find_spec("torchmetrics")
    if spec is not None and spec.loader is not None:
        package = module_from_spec(spec)
        package.__class__ = _Deferred
        sys.modules["torchmetrics"] = package
