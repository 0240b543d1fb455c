"""What the environment says of the processes that run a command together."""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

from discrete_diffusion.stopping import StopSignals


@dataclass(frozen=True)
class Started:
    """Processes that ``by`` started, torchrun or srun: ``rank`` of this one, ``per_node`` on each
    of ``num_nodes`` machines."""

    by: str
    rank: int
    per_node: int
    num_nodes: int

    def check(self, options: Mapping[str, Any], *, defaults: tuple[Any, ...], prefix: str) -> None:
        """``ValueError`` for ``devices`` or ``num_nodes`` that contradict this; ``defaults`` give
        way. ``prefix``: of their names on the command line."""
        for key, number in (("devices", self.per_node), ("num_nodes", self.num_nodes)):
            if options.get(key) not in (*defaults, number):
                raise ValueError(
                    f"{prefix}{key}={options[key]}: {self.by} started {self.per_node} processes on "
                    f"each of {self.num_nodes} machines; leave {prefix}{key} out"
                )


def started() -> Started | None:
    """What the environment says; None for a command that was started by itself, also inside a
    SLURM job without srun."""
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
    """Which process of its machine this is."""
    return int(os.environ.get("LOCAL_RANK") or os.environ.get("SLURM_LOCALID") or 0)


def check_self_started(per_node: int, num_nodes: int, *, prefix: str) -> None:
    """``ValueError`` for what a command cannot start by itself: processes on other machines, and
    several in every job of a sweep. ``prefix``: of the names on the command line."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    if num_nodes > 1:
        raise ValueError(
            f"{prefix}num_nodes={num_nodes}: start the command on every machine by torchrun or "
            f"srun, and leave {prefix}num_nodes out"
        )
    if per_node > 1 and HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN:
        raise ValueError(
            f"{prefix}devices={per_node} does not go with --multirun; run one command after the "
            "other"
        )


def rank() -> int:
    """The number of this process among those of the command; 0 if it is the first or only one."""
    found = started()
    return local_rank() if found is None else found.rank


def is_first() -> bool:
    """Whether this process speaks for all."""
    return rank() == 0


def hush_other_ranks() -> None:
    """No logs and warnings but those of the first process; errors it may not know of remain."""
    if not is_first():
        logging.disable(logging.CRITICAL)
        warnings.simplefilter("ignore")


_ONE_SIGNAL = 5.0
"""Seconds within which torchrun or srun passes on what the terminal has sent to all anyway."""


class LaunchedSignals(StopSignals):
    """A signal that comes twice, from the terminal and from torchrun or srun, is one. Only the
    first process says that it was received. Between steps the first one ends at once and kills
    those that it started, which wait for that."""

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


def stop_signals() -> StopSignals:
    """Those of a run, whoever started it."""
    return StopSignals() if started() is None and is_first() else LaunchedSignals()
