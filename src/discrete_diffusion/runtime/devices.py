"""Number of processes of a command, and the device of each of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from discrete_diffusion.runtime.processes import IN_SWEEP, started

if TYPE_CHECKING:
    from lightning.pytorch.strategies import Strategy


def computes_on_gpu(options: Mapping[str, Any]) -> bool:
    """True if ``accelerator`` is a GPU, or ``auto`` and torch finds one."""
    import torch

    asked = options.get("accelerator", "auto")
    return asked in ("cuda", "gpu") or (asked == "auto" and torch.cuda.is_available())


def trainer_devices(options: Mapping[str, Any]) -> dict[str, Any]:
    """``accelerator``, ``devices``, ``num_nodes`` and ``strategy`` of Lightning's ``Trainer``, by
    the ``options`` of ``trainer``.

    ``accelerator: auto`` is CUDA if there is one, else the CPU: sampling is in float64, which
    Apple's MPS does not have. ``devices`` is per machine; torchrun and srun decide it themselves.
    Several processes are DDP or FSDP, a single one neither.

    Raises ``ValueError`` for more GPUs than there are, ``fsdp`` without a GPU, numbers that
    contradict torchrun or srun, and processes that only those can start.
    """
    import torch

    accelerator, on_gpu = options.get("accelerator", "auto"), computes_on_gpu(options)
    if accelerator == "auto":
        accelerator = "cuda" if on_gpu else "cpu"
    num_gpus = torch.cuda.device_count() if on_gpu else 0
    name = options.get("strategy") or "auto"
    if name == "fsdp" and not num_gpus:
        raise ValueError("trainer.strategy=fsdp: torch finds no GPU here; take trainer=ddp")
    if on_gpu and not num_gpus:
        raise ValueError(
            f"trainer.accelerator={accelerator}: torch finds no GPU here; leave it out"
        )
    per_node, num_nodes = num_processes(
        options, num_gpus, defaults=(None, 1, -1, "auto"), prefix="trainer."
    )
    return {
        "accelerator": accelerator,
        "devices": per_node,
        "num_nodes": num_nodes,
        "strategy": _strategy(name, per_node * num_nodes),
    }


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

    ``num_gpus``: GPUs of this machine to compute on, 0 for the CPU; ``defaults``: values that
    torchrun and srun override; ``prefix``: of the keys on the command line; ``sees_own_gpu``: a
    process that torchrun or srun started may see a single GPU, its own.
    Raises ``ValueError`` as ``trainer_devices``.
    """
    found = started()
    if found is None:
        asked, num_nodes = options.get("devices") or 1, options.get("num_nodes") or 1
        per_node = (num_gpus or 1) if asked in ("auto", -1) else asked
        if num_nodes > 1:
            raise ValueError(
                f"{prefix}num_nodes={num_nodes}: start the command on every machine by torchrun or "
                f"srun, and leave {prefix}num_nodes out"
            )
        if per_node > 1 and IN_SWEEP.get():
            raise ValueError(
                f"{prefix}devices={per_node} does not go with --multirun; run one command after "
                "the other"
            )
    else:
        per_node, num_nodes = found.per_node, found.num_nodes
        for key, number in (("devices", per_node), ("num_nodes", num_nodes)):
            if options.get(key) not in (*defaults, number):
                raise ValueError(
                    f"{prefix}{key}={options[key]}: {found.by} started {per_node} processes on "
                    f"each of {num_nodes} machines; leave {prefix}{key} out"
                )
    own = sees_own_gpu and found is not None and num_gpus == 1
    if 0 < num_gpus < per_node and not own:
        there_are = "is one GPU" if num_gpus == 1 else f"are {num_gpus} GPUs"
        raise ValueError(
            f"{prefix}devices={per_node}: there {there_are} here; take {prefix}devices={num_gpus}, "
            f"or {prefix}accelerator=cpu"
        )
    return per_node, num_nodes


def _strategy(name: str, world_size: int) -> Strategy | str:
    """DDP does not exchange buffers, which never differ, and reduces gradients in place."""
    if name == "fsdp":
        return "fsdp"
    if world_size == 1:
        return "auto"
    from inspect import signature

    from lightning.pytorch.strategies import DDPStrategy
    from torch.nn.parallel import DistributedDataParallel

    arguments = signature(DistributedDataParallel).parameters  # torch 2.13 renamed one
    sync = "forward_sync_buffers" if "forward_sync_buffers" in arguments else "broadcast_buffers"
    options: dict[str, Any] = {sync: False, "gradient_as_bucket_view": True}
    return DDPStrategy(find_unused_parameters=name.endswith("_true"), **options)
