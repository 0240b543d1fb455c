"""The processes that ``sample`` and ``evaluate`` share their work among, started and connected."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from discrete_diffusion.cli.child_processes import all_processes
from discrete_diffusion.cli.devices import cluster_environment
from discrete_diffusion.cli.launch_environment import is_first
from discrete_diffusion.shards import LostProcessError, Shard, distributed_shard
from discrete_diffusion.stopping import Stop, StopSignals

if TYPE_CHECKING:
    from lightning.fabric import Fabric

_ANNOUNCERS = (
    "fabric.utilities.distributed",
    "fabric.utilities.rank_zero",
    "pytorch.utilities.rank_zero",
)
"""Modules of Lightning that log how processes are being connected."""


@contextmanager
def connected(per_node: int, num_nodes: int, threads: int | None) -> Iterator[Shard]:
    """The processes inside the block; what follows it is done by the first one alone.

    Lightning starts all but this one unless torchrun or srun has. The others end with the block,
    with status 0 after an error too, which the first one has been told of and reports. SIGINT and
    SIGTERM end all, with status 130 or 143. ``threads``: of each process; None divides the cores.

    Raises ``ChildProcessError`` if another process ends before the block does.
    """
    fabric = _fabric(per_node, num_nodes)
    try:
        with StopSignals(), all_processes(fabric, threads):
            fabric.launch()
            try:
                yield distributed_shard()
            finally:
                if not is_first():  # Lightning kills the first one if another status comes before
                    raise SystemExit(0)
    except Stop as stop:
        if is_first():
            print(f"discrete-diffusion: {stop}", file=sys.stderr)
        raise SystemExit(stop.exit_status) from None
    except LostProcessError as error:
        raise ChildProcessError(str(error)) from error


def _fabric(per_node: int, num_nodes: int) -> Fabric:
    """Lightning's engine. It connects the processes through their CPUs, whatever they compute on:
    what they exchange is small, and it is noticed when one of them ends."""
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
