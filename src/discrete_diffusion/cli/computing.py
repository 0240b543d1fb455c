"""Processes, device and precision of the network of ``sample`` and ``evaluate``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from discrete_diffusion.cli.child_processes import connected
from discrete_diffusion.cli.compose import check_counts
from discrete_diffusion.cli.devices import num_processes
from discrete_diffusion.cli.launch_environment import local_rank
from discrete_diffusion.config.naming import check_name
from discrete_diffusion.config.values import check_compile
from discrete_diffusion.runtime.precision import (
    PRECISIONS,
    check_precision,
    check_units,
    computed_in,
)
from discrete_diffusion.runtime.shards import Shard

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.evaluation.requests import Request
    from discrete_diffusion.evaluation.trained_model import TrainedModel

ACCELERATORS = ("auto", "cpu", "cuda", "gpu")


def check_computing(config: DictConfig) -> None:
    """``ValueError`` for an unknown ``precision``, ``compile``, ``accelerator``, ``devices`` or
    ``num_nodes``; imports nothing slow."""
    check_compile(config.compile)
    check_precision("precision", str(config.precision), PRECISIONS)
    check_name("accelerator", config.accelerator, ACCELERATORS)
    if config.devices != "auto":
        check_counts(config, devices=1)
    check_counts(config, num_nodes=1)


@dataclass(frozen=True)
class Computing:
    """``device`` of this process; ``per_node`` processes on each of ``num_nodes`` machines;
    ``precision`` of the network; ``threads`` of a process, None for what torch finds."""

    device: str
    per_node: int
    num_nodes: int
    precision: str
    threads: int | None

    @contextmanager
    def shared(self) -> Iterator[Shard]:
        """Inside, all processes run, and matrix products in float32, which are those of the
        network, are computed in ``precision``; after it only the first process goes on."""
        with ExitStack() as stack:
            shard = Shard()
            if self.per_node * self.num_nodes > 1:
                shard = stack.enter_context(connected(self.per_node, self.num_nodes, self.threads))
            stack.enter_context(computed_in(self.precision, self.device))
            yield shard


def opened_model(config: DictConfig, request: Request, here: Computing) -> TrainedModel:
    """The model of ``config.checkpoint`` with the sampler of the request, on the device of
    ``here``; the ``ValueError`` of ``open_trained_model``."""
    from discrete_diffusion.api.opening import open_trained_model

    return open_trained_model(
        str(config.checkpoint),
        request,
        ema=config.ema,
        compiled=config.compile,
        device=here.device,
        sharing=here.shared,
    )


def where_to_compute(config: DictConfig) -> Computing:
    """One process unless ``devices``, torchrun or srun say otherwise, each on a GPU of its own if
    there are any. Sets the CPU threads of this one.

    Raises ``ValueError`` for a precision that the device does not have, more processes than GPUs,
    and numbers that contradict torchrun or srun.
    """
    import torch

    if config.threads is not None:
        torch.set_num_threads(config.threads)
    uses_gpu = config.accelerator != "cpu" and torch.cuda.is_available()
    if config.accelerator in ("cuda", "gpu") and not uses_gpu:
        raise ValueError(
            f"accelerator={config.accelerator}: torch finds no GPU here; take accelerator=cpu"
        )
    check_units("precision", str(config.precision), on_gpu=uses_gpu)
    num_gpus = torch.cuda.device_count() if uses_gpu else 0
    per_node, num_nodes = num_processes(
        config, num_gpus, defaults=(None, "auto"), prefix="", sees_own_gpu=True
    )
    device = "cuda" if uses_gpu else "cpu"
    if uses_gpu and per_node * num_nodes > 1:
        index = local_rank() % num_gpus  # a task may see its own only
        torch.cuda.set_device(index)
        device = f"cuda:{index}"
    return Computing(device, per_node, num_nodes, str(config.precision), config.threads)
