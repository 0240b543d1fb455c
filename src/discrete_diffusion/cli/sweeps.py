"""Jobs of a sweep: what each is given, whether all of them can run, and which one this is."""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from omegaconf import DictConfig, OmegaConf

from discrete_diffusion.cli.errors import explain
from discrete_diffusion.composing.compose import compose_plainly, composed_at
from discrete_diffusion.composing.search_path import Places
from discrete_diffusion.runtime import progress
from discrete_diffusion.runtime.processes import IN_SWEEP

logger = logging.getLogger(__name__)


def jobs_of(command: str, overrides: Sequence[str], places: Places) -> list[list[str]] | None:
    """Overrides of each job of ``--multirun``; None if the sweeper decides as it goes."""
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
    from hydra.core.override_parser.overrides_parser import OverridesParser

    of_hydra = [word for word in overrides if word.lstrip("+~").startswith("hydra")]
    others = [word for word in overrides if word not in of_hydra]
    sweeper = compose_plainly(command, of_hydra, places, with_hydra=True).hydra.sweeper
    if not str(sweeper.get("_target_")).endswith(".BasicSweeper"):
        return None
    words = [f"{key}={value}" for key, value in (sweeper.get("params") or {}).items()]
    parsed = OverridesParser.create().parse_overrides([*words, *others])
    return [words for batch in BasicSweeper.split_arguments(parsed, None) for words in batch]


def check_launcher(overrides: Sequence[str]) -> None:
    """``ValueError`` if ``hydra/launcher=submitit_slurm`` cannot hand jobs to SLURM from here."""
    missing = [name for name in ("sbatch", "srun") if shutil.which(name) is None]
    if missing and "hydra/launcher=submitit_slurm" in overrides:
        raise ValueError(
            f"hydra/launcher=submitit_slurm: SLURM's {' and '.join(missing)} not found on this "
            "machine; start the sweep on a login node of the cluster, or take "
            "hydra/launcher=submitit_local or joblib, which run the jobs here"
        )


def check_jobs(
    command: str,
    jobs: Sequence[Sequence[str]],
    places: Places,
    check: Callable[[DictConfig], object],
) -> None:
    """Compose the config of every job and ``check`` it, before the first one runs.

    Raises ``ValueError`` naming a job whose config is wrong, or ``out`` if several jobs would write
    into one folder.
    """
    from hydra.errors import HydraException

    shared = set(jobs[0]).intersection(*jobs)
    folders: dict[str, int] = {}
    for number, job in enumerate(progress.track(jobs, "checking all jobs", "jobs"), start=1):
        own = [word for word in job if word not in shared]
        try:
            config = composed_at(places, command, job)
            out = _out_of(config, number)
            check(config)
        except (HydraException, ValueError, OSError) as error:
            what = explain(error, command, job, places)
            which = f"job {number} of {len(jobs)}, {' '.join(own)}"
            raise ValueError(f"{which}: {what}; no job was run") from error
        if out is not None and (first := folders.setdefault(out, number)) != number:
            raise ValueError(
                f"out={out}: jobs {first} and {number} would write into one folder; give "
                f"each its own, as in 'out={out}/${{hydra:job.num}}'"
            )


def _out_of(config: DictConfig, number: int) -> str | None:
    """``out`` of a job's config, in which its number stands for what only a job that runs knows."""
    if "out" not in config:
        return None
    written = OmegaConf.to_container(config, resolve=False)["out"]  # type: ignore[index,call-overload]
    config.out = written and re.sub(r"\$\{hydra:[^}]*\}", str(number - 1), written)
    return None if config.out is None else str(config.out)


@contextmanager
def job_of_sweep(number: int, num_jobs: int | None) -> Iterator[None]:
    """Job ``number`` of a sweep, from 0, as a task while the block runs; the log says so."""
    of = "" if num_jobs is None else f" of {num_jobs:,}"
    logger.info("--- job %s%s", f"{number + 1:,}", of)
    token = IN_SWEEP.set(True)
    try:
        with progress.task(f"job {number + 1:,}{of}"):
            yield
    finally:
        IN_SWEEP.reset(token)


class FailedJobs:
    """Jobs of a sweep that an error ended, by number: others of this process go on. In processes of
    a launcher's such an error ends the sweep."""

    def __init__(self) -> None:
        self.process, self.numbers = os.getpid(), list[int]()

    @contextmanager
    def noted(self, job: int) -> Iterator[None]:
        """Note that a job failed, if the block ends with exit status 1."""
        try:
            yield
        except SystemExit as ended:
            if ended.code != 1 or os.getpid() != self.process:
                raise
            self.numbers.append(job)

    def end(self, num_jobs: int | None) -> None:
        """Exit status 1, and a line that says which jobs failed, if some did."""
        if self.numbers:
            of = "" if num_jobs is None else f" of {num_jobs:,}"
            print(
                f"discrete-diffusion: {len(self.numbers)}{of} jobs failed: "
                f"{', '.join(map(str, self.numbers))}",
                file=sys.stderr,
            )
            raise SystemExit(1)
