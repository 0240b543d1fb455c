"""Processes of a command: signals, launchers (torchrun, srun, Lightning), and shared work.

Lightning starts further processes unless torchrun or srun has; all end with the command."""

from __future__ import annotations

import atexit
import logging
import os
import pickle
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from discrete_diffusion.runtime import progress

if TYPE_CHECKING:
    from subprocess import Popen

    from lightning.fabric import Fabric
    from lightning.fabric.plugins.environments import ClusterEnvironment
    from lightning.pytorch import Trainer

T = TypeVar("T")
R = TypeVar("R")

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
SIGNALS = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))
"""Signals that end a command, from the keyboard, a scheduler or a closed terminal."""

_entered: list[StopSignals] = []


# --- signals ---


class Stop(BaseException):
    """Request to end a run. Not an ``Exception``, so that handlers of errors do not catch it.

    ``number``: number of the signal; ``checkpoint``: path of the saved run, None if it is not
    saved; ``where``: what the command was doing, by default what it is doing now.
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
        """Exit status that a shell reports after the signal, such as 130 or 143."""
        return 128 + self.number


class StopSignals:
    """Signal handlers during a block: the first of ``SIGNALS`` requests an end, the second kills.

    ``received``: the first signal, or None; ``where``: what the command was doing when it came. The
    first signal raises ``Stop`` at once. If ``finish_step`` is set, it prints ``promise`` instead,
    and the run checks ``received``.

    Only the main thread handles signals; in other threads this does nothing. A signal that the
    parent process ignored stays ignored. At the end the former handlers are restored; a handler of
    another package, such as submitit's, which requeues a job, is then called with the signal.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self.where = ""
        self.finish_step = False
        self.promise = "stopping as soon as the run can go on from there"
        self._former: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        # handlers to restore
        self._former = {number: signal.getsignal(number) for number in SIGNALS}
        self.install()
        _entered.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _entered.remove(self)
        self._install(lambda number: self._former[number])
        former, self._former = self._former, {}
        if self.received is None:
            return
        handler = former[self.received]
        outer = getattr(handler, "__self__", None)
        # an outer block passes the signal on
        if isinstance(outer, StopSignals):
            outer.received = outer.received or self.received
            return
        # Python's handler of Ctrl-C and our own do the same as ``Stop``
        ours = str(getattr(handler, "__module__", "")).startswith("discrete_diffusion.")
        if callable(handler) and not ours and handler is not signal.default_int_handler:
            handler(self.received, None)

    def install(self) -> None:
        """Install the handlers, also again after Lightning has installed its SIGTERM handler."""
        self._install(lambda _: self._handle)

    def stop_at_once(self) -> None:
        """Raise ``Stop`` at once from now on, also for a signal received before."""
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


def is_stopping() -> bool:
    """True once a signal has requested an end; long work in any thread then gives up."""
    return any(each.received is not None for each in _entered)


def end_if_stopping() -> None:
    """Raise ``Stop`` if a signal has requested an end; called once results are saved."""
    for each in _entered:
        if each.received is not None:
            raise Stop(each.received, where=each.where)


# --- who started this process ---


IN_SWEEP = ContextVar("IN_SWEEP", default=False)
"""True while a job of a sweep runs."""


@dataclass(frozen=True)
class Started:
    """Processes of a command that torchrun or srun started, ``per_node`` on each machine."""

    by: str
    rank: int
    per_node: int
    num_nodes: int


def started() -> Started | None:
    """Return the processes that torchrun or srun started; None if neither started this one."""
    env = os.environ
    # torchrun
    if "TORCHELASTIC_RUN_ID" in env:
        per_node = int(env["LOCAL_WORLD_SIZE"])
        return Started("torchrun", int(env["RANK"]), per_node, int(env["WORLD_SIZE"]) // per_node)
    # srun, except for an interactive shell
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
    """Rank of this process among all processes of the command, from 0."""
    found = started()
    return local_rank() if found is None else found.rank


def is_first() -> bool:
    """True in the process of rank 0, which logs and writes files."""
    return rank() == 0


def silence_nonzero_ranks() -> None:
    """Silence logs and warnings of all processes but the first; errors are still printed."""
    if not is_first():
        logging.disable(logging.CRITICAL)
        warnings.simplefilter("ignore")


def cluster_environment() -> ClusterEnvironment:
    """Return Lightning's environment for the starter of this process.

    Lightning alone would assume srun in every SLURM job, also without srun or with torchrun."""
    from lightning.fabric.plugins.environments import (
        LightningEnvironment,
        SLURMEnvironment,
        TorchElasticEnvironment,
    )

    found = started()
    if found is None:
        return LightningEnvironment()
    if found.by == "torchrun":
        return TorchElasticEnvironment()
    try:
        return SLURMEnvironment(auto_requeue=False)
    except RuntimeError as error:  # --ntasks, which does not say how many each machine has
        raise ValueError(f"srun: {error}") from error


_ONE_SIGNAL = 5.0
"""Seconds within which torchrun or srun repeats a signal that the terminal sent to all
processes."""


class CommandSignals(StopSignals):
    """``StopSignals`` of a command with one process or several.

    A signal that comes twice, from the terminal and from the launcher, counts once. Only the first
    process announces it; unless a step must be finished, it ends at once and kills the others."""

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


# --- shared work ---


@dataclass(frozen=True)
class Shard:
    """One of ``world_size`` processes that share their work; by default the only one.

    ``exchange``: function that every process calls with a value, and that returns the values of all
    processes by rank. Values are pickled, and their tensors are on the CPU.
    """

    rank: int = 0
    world_size: int = 1
    exchange: Callable[[Any], list[Any]] = lambda value: [value]

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Return ``[function(item) for item in items]`` in every process, which share the work.

        Rank k mod ``world_size`` computes item k. An error in one process is raised in all."""
        # the items of this process
        own: dict[int, R] = {}
        try:
            for k, item in enumerate(items):
                if k % self.world_size == self.rank:
                    own[k] = function(item)
        except Exception as error:  # not of Ctrl-C and exits: who waits for us sees that we end
            self.exchange(_portable(error, self.rank))
            raise
        # the items of all
        done: dict[int, R] = {}
        for part in self.exchange(own):
            if isinstance(part, Exception):
                raise part
            done.update(part)
        return [done[k] for k in sorted(done)]


class LostProcessError(ConnectionError):
    """Another process of the command has ended while this one waited for it."""


def _portable(error: Exception, rank: int) -> Exception:
    """Copy an error so that another process can raise it, with a note on its origin."""
    try:
        copy: Exception = pickle.loads(pickle.dumps(error))
    except Exception:  # a constructor of a user's class may raise anything
        mendable = isinstance(error, ValueError | TypeError | OSError)
        copy = ValueError(str(error)) if mendable else RuntimeError(str(error))
    copy.add_note(f"in process {rank}:\n{''.join(traceback.format_exception(error))}")
    return copy


def distributed_shard() -> Shard:
    """Return the shard of this process in the default group of ``torch.distributed``.

    ``exchange`` waits for up to a day, so that one process may work while others wait; a signal
    ends the waiting. It raises ``LostProcessError`` if another process has ended."""
    from datetime import timedelta

    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return Shard()
    group = dist.new_group(backend="gloo", timeout=timedelta(days=1))

    def exchange(value: Any) -> list[Any]:
        values: list[Any] = [None] * dist.get_world_size()
        lost: list[RuntimeError] = []

        def gather() -> None:
            try:
                dist.all_gather_object(values, value, group=group)
            except RuntimeError as error:
                lost.append(error)

        # in another thread: while torch waits in this one, Python handles no signal
        waiting = threading.Thread(target=gather, daemon=True)
        waiting.start()
        waiting.join()
        if lost:
            raise LostProcessError(
                "another process of this command has ended before its work was done; was it "
                "killed, or out of memory?"
            ) from lost[0]
        return values

    return Shard(dist.get_rank(), dist.get_world_size(), exchange)


@contextmanager
def all_processes(engine: Trainer | Fabric, threads: int | None) -> Iterator[Callable[[], None]]:
    """End after the block the processes that Lightning's ``engine`` launched in it.

    Their process group, environment variables and division of threads end too. An error kills the
    other processes, which may be waiting for this one. Yields a function to call once they are
    connected: from then on Lightning does not watch them, as it would kill this process before the
    error of another is logged."""
    others: list[Popen[bytes]] = []

    def take_over() -> None:
        started: list[Popen[bytes]] = getattr(engine.strategy.launcher, "procs", [])
        others.extend(started)
        started.clear()

    if engine.world_size == 1:
        yield take_over
        return
    import torch
    import torch.distributed as dist

    # what is restored afterwards
    former, former_threads = dict(os.environ), torch.get_num_threads()
    if threads is not None:
        os.environ["OMP_NUM_THREADS"] = str(threads)
    failed = True
    try:
        yield take_over
        failed = False
    finally:
        # other processes first, as they may be waiting for this one
        take_over()
        for other in others if failed else ():
            other.kill()
        if dist.is_available() and dist.is_initialized():
            if is_first() or not failed:
                dist.destroy_process_group()
            else:  # others first print what went wrong; a group left behind may abort the process
                atexit.register(dist.destroy_process_group)
        for other in others:
            other.wait()
        # restore the environment and the threads
        os.environ.clear()
        os.environ.update(former)
        torch.set_num_threads(former_threads)


@contextmanager
def connected(per_node: int, num_nodes: int, threads: int | None) -> Iterator[Shard]:
    """Connect several processes during the block; after it only the first process goes on.

    Lightning starts the other processes unless torchrun or srun has. They end with the block, with
    status 0 also after an error, which the first process reports. ``threads``: number of threads of
    each process; None divides the cores. Raises ``ChildProcessError`` if a process ends before."""
    from lightning.fabric import Fabric

    # loggers of Lightning that announce every connection
    for name in ("fabric.utilities.distributed", "fabric.utilities.rank_zero"):
        logging.getLogger(f"lightning.{name}").setLevel(logging.WARNING)
    logging.getLogger("lightning.pytorch.utilities.rank_zero").setLevel(logging.WARNING)
    # gloo on any device: little is exchanged, and it notices when a process ends
    fabric = Fabric(
        accelerator="cpu",
        strategy="ddp",
        devices=per_node,
        num_nodes=num_nodes,
        plugins=[cluster_environment()],
    )
    try:
        with StopSignals(), all_processes(fabric, threads) as take_over:
            fabric.launch()
            take_over()
            try:
                yield distributed_shard()
            finally:
                # another exit status would let Lightning kill the first process
                if not is_first():
                    raise SystemExit(0)
    except Stop as stop:
        # the first process reports which files are kept
        if is_first():
            raise
        raise SystemExit(stop.exit_status) from None
    except LostProcessError as error:
        raise ChildProcessError(str(error)) from error
