"""The further processes of a command, which Lightning starts, and their end."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from discrete_diffusion.cli.launch_environment import is_first

if TYPE_CHECKING:
    from subprocess import Popen

    from lightning.fabric import Fabric
    from lightning.pytorch import Trainer


@contextmanager
def command_line(arguments: Sequence[str], *, of_this_program: bool) -> Iterator[None]:
    """Inside, ``sys.argv`` is a whole command, its name included: Lightning runs it again in every
    further process, with the program that is running, which may have registered a backbone; with
    ours where a program calls ``main`` with ``arguments`` that are not its own."""
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
def all_processes(engine: Trainer | Fabric, threads: int | None) -> Iterator[None]:
    """What is launched inside by Lightning's ``engine`` has ended afterwards: the processes it
    started, their group, the variables by which they know each other, and the division of threads.

    An error kills the others, which may be waiting for this one. ``threads``: of each process;
    None divides the cores.
    """
    if engine.world_size == 1:
        yield
        return
    import torch
    import torch.distributed as dist

    former, former_threads = dict(os.environ), torch.get_num_threads()
    if threads is not None:
        os.environ["OMP_NUM_THREADS"] = str(threads)
    others: list[Popen[bytes]] = []
    leaves_the_group = True
    try:
        yield
        others = _taken_over(engine)
    except BaseException:
        others = _taken_over(engine)
        for other in others:
            other.kill()
        leaves_the_group = is_first()  # another process says first what went wrong, and ends
        raise
    finally:
        if leaves_the_group and dist.is_available() and dist.is_initialized():
            dist.destroy_process_group()
        for other in others:
            other.wait()
        os.environ.clear()
        os.environ.update(former)  # or a later command would take itself for one that was started
        torch.set_num_threads(former_threads)


def _taken_over(engine: Trainer | Fabric) -> list[Popen[bytes]]:
    """The processes that Lightning started; it looks after them no longer, or it would kill this
    one when they are killed."""
    started: list[Popen[bytes]] = getattr(engine.strategy.launcher, "procs", [])
    others = started.copy()
    started.clear()
    return others
