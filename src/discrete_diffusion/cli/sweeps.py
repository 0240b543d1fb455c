"""Jobs of a sweep: how many there are, and which one this is."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from discrete_diffusion.runtime import progress

logger = logging.getLogger(__name__)


def number_of_jobs(
    command: str, overrides: Sequence[str], user_config_dir: str | None
) -> int | None:
    """Number of jobs of ``--multirun`` with overrides; None if the sweeper decides as it goes."""
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
    from hydra.core.override_parser.overrides_parser import OverridesParser

    from discrete_diffusion.cli.compose import compose_plainly

    of_hydra = [word for word in overrides if word.lstrip("+~").startswith("hydra")]
    others = [word for word in overrides if word not in of_hydra]
    sweeper = compose_plainly(command, of_hydra, user_config_dir, with_hydra=True).hydra.sweeper
    if not str(sweeper.get("_target_")).endswith(".BasicSweeper"):
        return None
    words = [f"{key}={value}" for key, value in (sweeper.get("params") or {}).items()]
    parsed = OverridesParser.create().parse_overrides([*words, *others])
    return sum(map(len, BasicSweeper.split_arguments(parsed, None)))


@contextmanager
def job_of_sweep(number: int, num_jobs: int | None) -> Iterator[None]:
    """Job ``number`` of a sweep, from 0, as a task while the block runs; the log says so."""
    of = "" if num_jobs is None else f" of {num_jobs:,}"
    logger.info("--- job %s%s", f"{number + 1:,}", of)
    with progress.task(f"job {number + 1:,}{of}"):
        yield
