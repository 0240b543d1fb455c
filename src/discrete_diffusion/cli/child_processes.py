"""The further processes of a command: Lightning starts them, and none is left behind."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from discrete_diffusion.cli.devices import cluster_environment
from discrete_diffusion.cli.launch_environment import is_first
from discrete_diffusion.runtime.shards import LostProcessError, Shard, distributed_shard
from discrete_diffusion.runtime.stopping import Stop, StopSignals

if TYPE_CHECKING:
    from subprocess import Popen

    from lightning.fabric import Fabric
    from lightning.pytorch import Trainer

_ANNOUNCERS = (
    "fabric.utilities.distributed",
    "fabric.utilities.rank_zero",
    "pytorch.utilities.rank_zero",
)
"""Modules of Lightning that log how processes are being connected."""


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


@contextmanager
def all_processes(engine: Trainer | Fabric, threads: int | None) -> Iterator[Callable[[], None]]:
    """End, after the block, what Lightning's ``engine`` launched inside it: the processes,
    their group, their environment variables, and the division of threads.

    An error kills the other processes, which may be waiting for this one. ``threads``: of each
    process; None divides the cores.

    Yields a function to call when they are connected: Lightning, which kills this process a few
    seconds after another has failed, then no longer watches them, and the error is logged.
    """
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

    former, former_threads = dict(os.environ), torch.get_num_threads()
    if threads is not None:
        os.environ["OMP_NUM_THREADS"] = str(threads)
    failed = True
    try:
        yield take_over
        failed = False
    finally:
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
        os.environ.clear()
        os.environ.update(former)  # or a later command would take itself for one that was started
        torch.set_num_threads(former_threads)


@contextmanager
def connected(per_node: int, num_nodes: int, threads: int | None) -> Iterator[Shard]:
    """Several processes inside the block, connected; after it only the first one goes on.

    Lightning starts the others unless torchrun or srun has. They end with the block, with status 0
    also after an error, which the first process knows and reports. SIGINT and SIGTERM end all, with
    status 130 or 143. ``threads``: of each process; None divides the cores.

    Raises ``ChildProcessError`` if another process ends before the block does.
    """
    fabric = _fabric(per_node, num_nodes)
    try:
        with StopSignals(), all_processes(fabric, threads) as take_over:
            fabric.launch()
            take_over()
            try:
                yield distributed_shard()
            finally:
                if not is_first():  # Lightning kills the first one if another status comes before
                    raise SystemExit(0)
    except Stop as stop:
        if is_first():  # which says what is kept
            raise
        raise SystemExit(stop.exit_status) from None
    except LostProcessError as error:
        raise ChildProcessError(str(error)) from error


def _fabric(per_node: int, num_nodes: int) -> Fabric:
    """Lightning's engine. It connects the processes by gloo, whatever they compute on: they
    exchange little, and gloo notices when one of them ends."""
    from lightning.fabric import Fabric

    for name in _ANNOUNCERS:
        logging.getLogger(f"lightning.{name}").setLevel(logging.WARNING)
    return Fabric(
        accelerator="cpu",
        strategy="ddp",
        devices=per_node,
        num_nodes=num_nodes,
        plugins=[cluster_environment()],
    )
