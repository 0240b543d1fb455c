"""Number of processes of a command, and the device and precision of each."""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.runtime.processes import IN_SWEEP, started

if TYPE_CHECKING:
    from lightning.pytorch.strategies import Strategy

logger = logging.getLogger(__name__)

REDUCE_OVERHEAD = "reduce-overhead"
"""Value of ``compile`` besides true and false: PyTorch's mode that records CUDA graphs."""


def check_compile(value: Any) -> None:
    """Raise ``ValueError`` for an unknown value of the option ``compile``."""
    if not isinstance(value, bool) and value != REDUCE_OVERHEAD:
        raise ValueError(
            f"compile={value}: expected true, false, or {REDUCE_OVERHEAD}, CUDA graphs on a GPU"
        )


def computes_on_gpu(options: Mapping[str, Any]) -> bool:
    """True if ``accelerator`` is a GPU, or ``auto`` and torch finds one."""
    import torch

    asked = options.get("accelerator", "auto")
    return asked in ("cuda", "gpu") or (asked == "auto" and torch.cuda.is_available())


def trainer_devices(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``accelerator``, ``devices``, ``num_nodes`` and ``strategy`` for Lightning's Trainer.

    ``accelerator: auto`` is CUDA if there is a GPU, else the CPU: sampling needs float64, which
    Apple's MPS does not have. ``devices`` counts processes per machine.

    Raises ``ValueError`` for more GPUs than there are, ``fsdp`` without a GPU, numbers that
    contradict torchrun or srun, and several machines without torchrun or srun."""
    import torch

    accelerator, on_gpu = options.get("accelerator", "auto"), computes_on_gpu(options)
    if accelerator == "auto":
        accelerator = "cuda" if on_gpu else "cpu"
    num_gpus = torch.cuda.device_count() if on_gpu else 0
    name = options.get("strategy") or "auto"
    # fsdp, or a GPU as accelerator, needs a GPU
    if name == "fsdp" and not num_gpus:
        raise ValueError("trainer.strategy=fsdp: torch finds no GPU here; take trainer=ddp")
    if on_gpu and not num_gpus:
        raise ValueError(
            f"trainer.accelerator={accelerator}: torch finds no GPU here; leave it out"
        )
    # processes, and how they are connected
    per_node, num_nodes = num_processes(
        options, num_gpus, defaults=(None, 1, -1, "auto"), prefix="trainer."
    )
    return {
        "accelerator": accelerator,
        "devices": per_node,
        "num_nodes": num_nodes,
        "strategy": _lightning_strategy(name, per_node * num_nodes),
    }


def num_processes(
    options: Mapping[str, Any],
    num_gpus: int,
    *,
    defaults: tuple[Any, ...],
    prefix: str,
    sees_own_gpu: bool = False,
) -> tuple[int, int]:
    """Return the number of processes per machine and of machines.

    torchrun and srun decide, else ``options``. ``defaults``: values that torchrun and srun
    override; ``sees_own_gpu``: True if a started process may see only its own GPU. Raises
    ``ValueError`` as ``trainer_devices``."""
    found = started()
    # started by neither: as many processes as requested
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
    else:  # torchrun or srun decide, and keys may not say otherwise
        per_node, num_nodes = found.per_node, found.num_nodes
        for key, number in (("devices", per_node), ("num_nodes", num_nodes)):
            if options.get(key) not in (*defaults, number):
                raise ValueError(
                    f"{prefix}{key}={options[key]}: {found.by} started {per_node} processes on "
                    f"each of {num_nodes} machines; leave {prefix}{key} out"
                )
    # a GPU for each process
    own = sees_own_gpu and found is not None and num_gpus == 1
    if 0 < num_gpus < per_node and not own:
        there_are = "is one GPU" if num_gpus == 1 else f"are {num_gpus} GPUs"
        raise ValueError(
            f"{prefix}devices={per_node}: there {there_are} here; take {prefix}devices={num_gpus}, "
            f"or {prefix}accelerator=cpu"
        )
    return per_node, num_nodes


def _lightning_strategy(name: str, world_size: int) -> Strategy | str:
    """Return Lightning's strategy. DDP exchanges no buffers, which are equal everywhere."""
    if name == "fsdp":
        return "fsdp"
    if world_size == 1:
        return "auto"
    from inspect import signature

    from lightning.pytorch.strategies import DDPStrategy
    from torch.nn.parallel import DistributedDataParallel

    # torch 2.13 renamed an argument
    arguments = signature(DistributedDataParallel).parameters
    sync = "forward_sync_buffers" if "forward_sync_buffers" in arguments else "broadcast_buffers"
    options: dict[str, Any] = {sync: False, "gradient_as_bucket_view": True}
    return DDPStrategy(find_unused_parameters=name.endswith("_true"), **options)


PRECISIONS = ("32-true", "bf16-mixed")
"""Precisions of the network; samples and bounds are computed in float32 and float64."""

_UNITS = ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16", "svebf16")
"""Names in torch and Linux of the instructions that multiply bfloat16, on x86 and ARM."""


@contextmanager
def computed_in(precision: str, device: str) -> Iterator[None]:
    """Compute the float32 matrix products of the block in ``precision``."""
    import torch

    low = precision == "bf16-mixed"
    with torch.autocast(torch.device(device).type, torch.bfloat16, enabled=low):
        yield


def check_precision(key: str, precision: str, known: Sequence[str]) -> None:
    """Raise ``ValueError`` unless ``precision`` is one of ``known``."""
    if precision not in known:
        raise ValueError(f"{key}={precision}: choose one of {', '.join(known)}")


def check_units(key: str, precision: str, *, on_gpu: bool) -> None:
    """Raise ``ValueError`` if the device has no units for a 16-bit ``precision``; warn if that is
    unknown."""
    import torch

    if precision == "32-true":
        return
    # on a GPU
    if on_gpu:
        if precision != "bf16-mixed" or not torch.cuda.is_available():
            return
        if not torch.cuda.is_bf16_supported(including_emulation=False):
            other = f" or {key}=16-mixed" if key.startswith("trainer") else ""
            raise ValueError(
                f"{key}=bf16-mixed: {torch.cuda.get_device_name()} has no units for bfloat16, "
                f"which GPUs have from Ampere on; take {key}=32-true{other}"
            )
        return
    # on the CPU
    has_units = multiplies_bfloat16()
    if precision == "16-mixed":
        others = f"{key}=bf16-mixed or {key}=32-true" if has_units else f"{key}=32-true"
        raise ValueError(f"{key}=16-mixed is for GPUs; on the CPU take {others}")
    if has_units is None:
        logger.warning(
            "%s=%s: it is unknown whether this processor multiplies bfloat16; if it does not, "
            "%s=32-true is several times as fast",
            *(key, precision, key),
        )
    elif not has_units:
        raise ValueError(
            f"{key}={precision}: this processor has no units for bfloat16 that torch uses (AVX-512 "
            "BF16, AMX, or BF16 of ARM), which makes it several times slower than float32; take "
            f"{key}=32-true, or a GPU"
        )


def hardware() -> str:
    """Return a text that names processor, cores, threads of torch and GPU."""
    import torch

    # the processor, as Linux or Python names it
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    cpu = names[0] if names else platform.processor() or platform.machine()
    counts = {"core": os.cpu_count() or 1, "thread": torch.get_num_threads()}
    parts = [cpu, *(f"{num} {name}{'s' * (num != 1)}" for name, num in counts.items())]
    return ", ".join(parts + ([torch.cuda.get_device_name()] if torch.cuda.is_available() else []))


def multiplies_bfloat16() -> bool | None:
    """True if this processor has instructions for bfloat16; None if torch and Linux do not say.

    Without them bfloat16 takes twice as long as float32 with AVX-512, ten times with AVX2."""
    import torch

    # matrix products of oneDNN use such instructions
    if not torch.backends.mkldnn.is_available():
        return False
    if hasattr(torch.cpu, "get_capabilities"):
        # newer releases of torch list the instructions
        found = torch.cpu.get_capabilities()
        has = [bool(found[unit]) for unit in _UNITS if unit in found]
        return any(has) if has else None
    flags = _linux_cpu_flags()
    return bool(flags & {*_UNITS}) if flags else None


def _linux_cpu_flags(path: Path = Path("/proc/cpuinfo")) -> set[str]:
    """Flags of the first processor, on x86 (``flags``) or ARM (``Features``), else an empty set."""
    if not path.is_file():
        return set()
    lines = (line.partition(":") for line in path.read_text().splitlines())
    found = (flags.split() for name, _, flags in lines if name.strip() in ("flags", "Features"))
    return {*next(found, [])}
