"""The precision of the network's matrix products, and whether the device has units for it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

logger = logging.getLogger(__name__)

PRECISIONS = ("32-true", "bf16-mixed")
"""Samples and bounds are computed in float32 and float64 whatever the network computes in."""

_UNITS = ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16", "svebf16")
"""Instructions that multiply bfloat16, on x86 and on ARM, as torch or Linux calls them."""


@contextmanager
def computed_in(precision: str, device: str) -> Iterator[None]:
    """Inside, matrix products in float32, which are those of the network, are computed in
    ``precision``."""
    import torch

    low = precision == "bf16-mixed"
    with torch.autocast(torch.device(device).type, torch.bfloat16, enabled=low):
        yield


def check_precision(key: str, precision: str, known: Sequence[str]) -> None:
    """``ValueError`` for an unknown ``precision``; imports nothing slow."""
    if precision not in known:
        raise ValueError(f"{key}={precision}: choose one of {', '.join(known)}")


def check_units(key: str, precision: str, *, on_gpu: bool) -> None:
    """Raise ``ValueError`` if the processor or GPU would compute 16-bit numbers in float32; warn
    about a processor of which nothing is known."""
    import torch

    if precision == "32-true":
        return
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


def multiplies_bfloat16() -> bool | None:
    """True if torch multiplies bfloat16 on this processor by instructions made for it: AVX-512
    without them takes twice as long as float32, AVX2 ten times. None if neither torch, in newer
    releases, nor Linux says what the processor has."""
    import torch

    if not torch.backends.mkldnn.is_available():  # oneDNN, whose matrix products use them
        return False
    if hasattr(torch.cpu, "get_capabilities"):
        found = torch.cpu.get_capabilities()
        has = [bool(found[unit]) for unit in _UNITS if unit in found]
        return any(has) if has else None
    flags = _flags_of_linux()
    return bool(flags & {*_UNITS}) if flags else None


def _flags_of_linux(path: Path = Path("/proc/cpuinfo")) -> set[str]:
    """Flags of the first processor, on x86 (``flags``) or ARM (``Features``); else none."""
    if not path.is_file():
        return set()
    lines = (line.partition(":") for line in path.read_text().splitlines())
    found = (flags.split() for name, _, flags in lines if name.strip() in ("flags", "Features"))
    return {*next(found, [])}
