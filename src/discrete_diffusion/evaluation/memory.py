"""Amount of memory that there is, and a warning before more is requested."""

from __future__ import annotations

import logging
from pathlib import Path

logger = logging.getLogger(__name__)

_SYSTEM = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")


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
