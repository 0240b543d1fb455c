"""Processes, devices and precision that the config of a command chooses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discrete_diffusion.config.constructors import check_keys
from discrete_diffusion.config.naming import check_name
from discrete_diffusion.config.values import Count, check_compile
from discrete_diffusion.runtime.devices import (
    PRECISIONS,
    check_precision,
    check_units,
    computed_in,
    computes_on_gpu,
    num_processes,
)
from discrete_diffusion.runtime.processes import Shard, connected, local_rank

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.evaluation.requests import Request
    from discrete_diffusion.evaluation.trained_model import TrainedModel

STRATEGIES = ("auto", "ddp", "ddp_find_unused_parameters_true", "fsdp")
"""Those of Lightning's in which every process runs the whole command."""

ACCELERATORS = ("auto", "cpu", "cuda", "gpu")

_TRAINING_PRECISIONS = (*PRECISIONS, "16-mixed")


def check_strategy(config: DictConfig) -> None:
    """``ValueError`` for a ``trainer.strategy`` or ``trainer.devices`` that is unknown or does not
    fit the rest of a ``train`` config; imports nothing slow."""
    options = config.trainer
    name, devices = options.get("strategy") or "auto", options.get("devices", 1)
    check_name("trainer.strategy", name, STRATEGIES)
    number = isinstance(devices, int) and not isinstance(devices, bool) and devices > 0
    if devices not in ("auto", -1) and not number:
        raise ValueError(
            f"trainer.devices={devices}: expected a number from 1, or auto for all; choose GPUs "
            "before the command, as in CUDA_VISIBLE_DEVICES=1"
        )
    if name != "fsdp":
        return
    if options.get("accelerator") == "cpu":
        raise ValueError("trainer.strategy=fsdp is for GPUs; take trainer=ddp on the CPU")
    if config.callbacks.ema_decay is not None:
        raise ValueError(
            "EMA is not supported with trainer.strategy=fsdp: it averages whole weights, of which "
            "each process has a part; set callbacks.ema_decay=null, or take trainer=ddp"
        )
    if str(config.optim.get("_target_")).endswith(("MuonAdamW", ".Muon")):
        raise ValueError(
            "trainer.strategy=fsdp does not go with Muon, which moves whole matrices, of which "
            "each process has a part; take optim=adamw, or trainer=ddp"
        )
    if options.get("gradient_clip_algorithm") == "value":
        raise ValueError(
            "trainer.strategy=fsdp can clip only the norm of gradients; leave out "
            "trainer.gradient_clip_algorithm=value"
        )


def check_trainer_precision(options: Mapping[str, Any]) -> None:
    """``check_precision`` of a ``config.trainer``."""
    precision = str(options.get("precision", "32-true"))
    check_precision("trainer.precision", precision, _TRAINING_PRECISIONS)


def check_trainer_units(options: Mapping[str, Any]) -> None:
    """``check_units`` of a ``config.trainer``."""
    precision = str(options.get("precision", "32-true"))
    check_units("trainer.precision", precision, on_gpu=computes_on_gpu(options))


def check_computing(config: DictConfig) -> None:
    """``ValueError`` for an unknown ``compile``, ``accelerator``, ``devices``, ``num_nodes`` or
    ``threads``; imports nothing slow."""
    check_compile(config.compile)
    check_name("accelerator", config.accelerator, ACCELERATORS)
    keys = ("threads", "num_nodes", *(("devices",) if config.devices != "auto" else ()))
    check_keys(config, dict.fromkeys(keys, Count))


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
