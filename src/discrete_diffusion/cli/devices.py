"""How many processes a run has and what each computes on: the keys of ``trainer`` that say so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from discrete_diffusion.cli.launch_environment import check_self_started, started
from discrete_diffusion.naming import unknown_name

if TYPE_CHECKING:
    from lightning.fabric.plugins.environments import ClusterEnvironment
    from lightning.pytorch.strategies import Strategy
    from omegaconf import DictConfig

STRATEGIES = ("auto", "ddp", "ddp_find_unused_parameters_true", "fsdp")
"""Of Lightning's, those in which every process runs the command anew."""


def check_strategy(config: DictConfig) -> None:
    """``ValueError`` for a ``trainer.strategy`` or ``trainer.devices`` that there is not, or that
    does not go with the rest of a ``train`` config; before any slow import."""
    options = config.trainer
    name, devices = options.get("strategy") or "auto", options.get("devices", 1)
    if name not in STRATEGIES:
        raise ValueError(unknown_name("trainer.strategy", str(name), STRATEGIES))
    number = isinstance(devices, int) and not isinstance(devices, bool) and devices > 0
    if devices not in ("auto", -1) and not number:
        raise ValueError(
            f"trainer.devices={devices}: expected a number from 1, or auto for all; which GPUs is "
            "said before the command, as in CUDA_VISIBLE_DEVICES=1"
        )
    if name != "fsdp":
        return
    if options.get("accelerator") == "cpu":
        raise ValueError("trainer.strategy=fsdp is for GPUs; take trainer=ddp on the CPU")
    if config.callbacks.ema_decay is not None:
        raise ValueError(
            "trainer.strategy=fsdp leaves each process a part of the weights, of which Lightning "
            "keeps no average; add callbacks.ema_decay=null, or take trainer=ddp"
        )
    if options.get("gradient_clip_algorithm") == "value":
        raise ValueError(
            "trainer.strategy=fsdp clips the norm of gradients; leave out "
            "trainer.gradient_clip_algorithm=value"
        )


def computes_on_gpu(options: Mapping[str, Any]) -> bool:
    """Whether ``accelerator`` is a GPU, or ``auto`` and torch finds one."""
    import torch

    asked = options.get("accelerator", "auto")
    return asked in ("cuda", "gpu") or (asked == "auto" and torch.cuda.is_available())


def set_devices(options: dict[str, Any]) -> None:
    """Settle ``accelerator``, ``devices``, ``num_nodes`` and ``strategy`` among the arguments of
    Lightning's ``Trainer``, all in ``options``.

    ``accelerator: auto`` means CUDA if there is one, else the CPU: draws are made in float64, which
    Apple's MPS does not have. ``devices`` is per machine; torchrun and srun have chosen it when
    they started the processes. More than one process are DDP unless they are FSDP; a single one
    needs neither.

    Raises ``ValueError`` for more GPUs than there are, ``fsdp`` without a GPU, for numbers that
    contradict those of torchrun or srun, and for processes that only those can start.
    """
    import torch

    on_gpu = computes_on_gpu(options)
    if options.get("accelerator", "auto") == "auto":
        options["accelerator"] = "cuda" if on_gpu else "cpu"
    num_gpus = torch.cuda.device_count() if on_gpu else 0
    name = options.get("strategy") or "auto"
    if name == "fsdp" and not num_gpus:
        raise ValueError("trainer.strategy=fsdp: torch finds no GPU here; take trainer=ddp")
    if on_gpu and not num_gpus:
        raise ValueError("trainer.accelerator=cuda: torch finds no GPU here; leave it out")
    per_node, num_nodes = num_processes(
        options, num_gpus, defaults=(None, 1, -1, "auto"), prefix="trainer."
    )
    options["devices"], options["num_nodes"] = per_node, num_nodes
    options["strategy"] = _strategy(name, per_node * num_nodes)


def num_processes(
    options: Mapping[str, Any],
    num_gpus: int,
    *,
    defaults: tuple[Any, ...],
    prefix: str,
    sees_own_gpu: bool = False,
) -> tuple[int, int]:
    """Processes per machine, and machines: those of torchrun or srun, else ``devices`` and
    ``num_nodes`` of ``options``.

    ``num_gpus``: those of this machine that are computed on, 0 for the CPU; ``defaults``: values
    that give way to torchrun and srun; ``prefix``: of the names on the command line;
    ``sees_own_gpu``: one that torchrun or srun started may see a single GPU, its own.
    Raises ``ValueError`` as ``set_devices``.
    """
    if (found := started()) is not None:
        found.check(options, defaults=defaults, prefix=prefix)
        per_node, num_nodes = found.per_node, found.num_nodes
    else:
        asked, num_nodes = options.get("devices") or 1, options.get("num_nodes") or 1
        per_node = (num_gpus or 1) if asked in ("auto", -1) else asked
        check_self_started(per_node, num_nodes, prefix=prefix)
    own = sees_own_gpu and found is not None and num_gpus == 1
    if 0 < num_gpus < per_node and not own:
        there_are = "is one GPU" if num_gpus == 1 else f"are {num_gpus} GPUs"
        raise ValueError(
            f"{prefix}devices={per_node}: there {there_are} here; take {prefix}devices={num_gpus}, "
            f"or {prefix}accelerator=cpu"
        )
    return per_node, num_nodes


def _strategy(name: str, world_size: int) -> Strategy | str:
    """DDP is told that buffers never differ, and to reduce gradients where they are."""
    from inspect import signature

    from lightning.pytorch.strategies import DDPStrategy
    from torch.nn.parallel import DistributedDataParallel

    if name == "fsdp":
        return "fsdp"
    if world_size == 1:
        return "auto"
    arguments = signature(DistributedDataParallel).parameters  # torch 2.13 renamed one
    sync = "forward_sync_buffers" if "forward_sync_buffers" in arguments else "broadcast_buffers"
    options: dict[str, Any] = {sync: False, "gradient_as_bucket_view": True}
    return DDPStrategy(find_unused_parameters=name.endswith("_true"), **options)


def cluster_environment() -> ClusterEnvironment:
    """Who started the processes, as Lightning calls it."""
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
    except RuntimeError as error:  # --ntasks, of which it cannot tell how many each machine has
        raise ValueError(f"srun: {error}") from error
