"""The processes that run a command together, as the environment variables describe them."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
import warnings
from dataclasses import dataclass
from types import FrameType
from typing import NoReturn

from discrete_diffusion.runtime.stopping import SIGNALS, Stop, StopSignals


@dataclass(frozen=True)
class Started:
    """Processes started ``by`` torchrun or srun: ``rank`` of this one, ``per_node`` on each of
    ``num_nodes`` machines."""

    by: str
    rank: int
    per_node: int
    num_nodes: int


def started() -> Started | None:
    """Who started this process; None for a command by itself, also in a SLURM job without srun."""
    env = os.environ
    if "TORCHELASTIC_RUN_ID" in env:
        per_node = int(env["LOCAL_WORLD_SIZE"])
        return Started("torchrun", int(env["RANK"]), per_node, int(env["WORLD_SIZE"]) // per_node)
    interactive = env.get("SLURM_JOB_NAME") in ("bash", "interactive")
    num_tasks = int(env.get("SLURM_STEP_NUM_TASKS") or env.get("SLURM_NTASKS") or 1)
    num_nodes = int(env.get("SLURM_STEP_NUM_NODES") or env.get("SLURM_NNODES") or 1)
    if "SLURM_STEP_ID" in env and num_tasks > 1 and not interactive:
        return Started("srun", int(env["SLURM_PROCID"]), num_tasks // num_nodes, num_nodes)
    return None


def local_rank() -> int:
    """Rank of this process on its machine."""
    return int(os.environ.get("LOCAL_RANK") or os.environ.get("SLURM_LOCALID") or 0)


def rank() -> int:
    """The number of this process among those of the command, from 0."""
    found = started()
    return local_rank() if found is None else found.rank


def is_first() -> bool:
    """True if this process logs and writes for all."""
    return rank() == 0


def silence_nonzero_ranks() -> None:
    """Let only the first process log and warn; every process prints its errors."""
    if not is_first():
        logging.disable(logging.CRITICAL)
        warnings.simplefilter("ignore")


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


_ONE_SIGNAL = 5.0
"""Seconds within which torchrun or srun repeats a signal that the terminal has sent to all."""


class LaunchedSignals(StopSignals):
    """A signal that comes twice, from the terminal and from torchrun or srun, counts once. Only the
    first process announces it. Between steps the first process ends at once and kills those that it
    started, which wait for that."""

    _since = 0.0

    def _handle(self, number: int, frame: FrameType | None) -> None:
        launched = started() is not None
        if self.received is None:
            self._since = time.monotonic()
        elif launched and time.monotonic() - self._since < _ONE_SIGNAL:
            return
        if self.received is None and not is_first() and (self.finish_step or not launched):
            self.received = number
        else:
            super()._handle(number, frame)


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


def stop_signals() -> StopSignals:
    return StopSignals() if started() is None and is_first() else LaunchedSignals()


def end_stopped(stop: Stop, kept: str = "") -> NoReturn:
    """End a command that a signal stopped: one line says how far it was and what is ``kept``."""
    if is_first():
        print(f"discrete-diffusion: {stop}{f'; {kept}' if kept else ''}", file=sys.stderr)
    raise SystemExit(stop.exit_status) from None
