"""Time and memory that the distances of many molecules take: reported before they
begin."""

from __future__ import annotations

import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

from discrete_diffusion.domains.molecules.metrics import chemnet
from discrete_diffusion.domains.molecules.metrics.molecule_set import MoleculeSet
from discrete_diffusion.domains.molecules.metrics.nspdk import (
    AT_ONCE,
    BYTES,
    KEPT,
    features_of_smiles,
)

logger = logging.getLogger(__name__)

MANY = 20_000
"""Different molecules from which on it is logged."""

_TRIED = 128
"""Molecules that are measured to know how long all take."""

_ALWAYS, _EACH = 0.5e9, 1e3
"""Bytes of ChemNet at work, and of what is known of a molecule."""

_SYSTEM = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")


def log_cost(sets: Sequence[MoleculeSet]) -> None:
    """Log how long it takes to measure sets of many molecules, the reference among them, and warn
    if it takes more memory or temporary disk than there is. Nothing of small ones."""
    distinct = [list(dict.fromkeys(each.smiles)) for each in sets]
    num = sum(map(len, distinct))
    if num < MANY:
        return
    largest = max(distinct, key=len)
    tried = largest[:: max(1, len(largest) // _TRIED)][:_TRIED]
    new = num
    if chemnet.is_installed():
        known = zip(sets, distinct, strict=True)
        new -= sum(len(texts) for each, texts in known if chemnet.is_known(each.smiles))
    features = sum(len(features_of_smiles(text)) for text in tried) / len(tried) * num
    _warn(num, features)
    seconds = {
        "NSPDK": num * _per_molecule(lambda: [features_of_smiles(text) for text in tried], tried),
        "properties": num * _per_molecule(lambda: MoleculeSet(tried).properties, tried),
    }
    if chemnet.is_installed() and new:
        seconds["ChemNet"] = new * _per_molecule(lambda: chemnet.activations_of(tried), tried)
    shown = ", ".join(f"{name} {_clock(each)}" for name, each in seconds.items())
    logger.info(
        "about %s to measure %s different molecules: %s",
        *(_clock(sum(seconds.values())), f"{num:,}", shown),
    )


def _warn(num: int, features: float) -> None:
    remedy = "take fewer reference molecules"
    needed = _ALWAYS + _EACH * num + BYTES * (min(features, KEPT) + 4 * AT_ONCE)
    warn_if_short(needed, f"measuring {num:,} molecules", remedy)
    on_disk, folder = BYTES * max(0.0, features - KEPT), tempfile.gettempdir()
    if on_disk > (free := shutil.disk_usage(folder).free):
        logger.warning(
            "NSPDK of %s molecules takes about %.1f GB in %s, where %.1f GB are free: set TMPDIR "
            "to another folder, or %s",
            *(f"{num:,}", on_disk / 1e9, folder, free / 1e9, remedy),
        )


def _per_molecule(measure: Callable[[], object], tried: Sequence[str]) -> float:
    start = time.perf_counter()
    measure()
    return (time.perf_counter() - start) / len(tried)


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def available_memory() -> int | None:
    """Bytes that this process can still have: of the machine, or of its container if that has
    less; None where the system does not say."""
    found = [each for each in (_of_system(), _of_container()) if each is not None]
    return min(found, default=None)


def warn_if_short(needed: float, purpose: str, remedy: str) -> None:
    """A warning in the log if ``needed`` bytes are more than there are. ``purpose``: what takes
    them; ``remedy``: what takes less."""
    available = available_memory()
    if available is not None and needed > available:
        logger.warning(
            "%s takes about %.1f GB of memory and %.1f GB are free: it may be killed; %s",
            *(purpose, needed / 1e9, available / 1e9, remedy),
        )


def _of_system() -> int | None:
    try:
        lines = _SYSTEM.read_text().splitlines()
    except OSError:
        return None
    kilobytes = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return 1024 * kilobytes[0] if kilobytes else None


def _of_container() -> int | None:
    try:
        most, used = (
            (_GROUP / name).read_text().strip() for name in ("memory.max", "memory.current")
        )
    except OSError:
        return None
    return max(0, int(most) - int(used)) if most.isdecimal() else None
