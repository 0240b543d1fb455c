"""Folders that commands write into: nothing is replaced unasked, by one command at a time."""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig, OmegaConf

from discrete_diffusion.cli.errors import explain
from discrete_diffusion.composing.compose import compose_plainly, composed_at
from discrete_diffusion.composing.search_path import Places
from discrete_diffusion.config.constructors import leaves
from discrete_diffusion.config.files import plain
from discrete_diffusion.runtime import progress
from discrete_diffusion.runtime.atomic_files import (
    LOCK,
    check_folder,
    claimed_folder,
    ensured_folder,
    locked,
    note_of_complete_files,
    put_aside,
)
from discrete_diffusion.runtime.processes import IN_SWEEP, is_first, started

if TYPE_CHECKING:
    from omegaconf import DictConfig


logger = logging.getLogger(__name__)

_OF_A_RUN = ("config.yaml", "metrics.json", "metrics.csv", "checkpoints", "samples.*")


@contextmanager
def reserve_outputs(config: DictConfig, names: Iterable[str]) -> Iterator[None]:
    """The folder ``config.out``, made and locked inside the block; for the first process, which
    alone writes.

    Raises ``ValueError`` for ``names`` that are there already, unless ``config.overwrite``.
    """
    if not is_first():
        yield
        return
    folder, names = Path(str(config.out)), list(dict.fromkeys(names))
    with claimed_folder("out", folder), note_of_complete_files(folder, names):
        there = [name for name in names if (folder / name).exists()]
        if there and not config.overwrite:
            raise ValueError(
                f"out={folder} holds an earlier {', '.join(there)}; give overwrite=true to replace "
                "them, or another out=FOLDER"
            )
        yield


@contextmanager
def reserve_run_folder(folder: Path, config: DictConfig) -> Iterator[None]:
    """The folder of a run, made and locked inside the block. With ``config.overwrite`` a run that
    it holds is put aside first, as ``FOLDER.replaced-1``, and back if the block fails before it has
    written anything. Of a link, what it leads to is put aside.

    Raises ``ValueError`` if it holds another run than the one that is resumed.
    """
    with ensured_folder(folder):
        with locked(folder):
            if not _must_go(folder, config):
                with _without_a_lone_config(folder):
                    yield
                return
            folder = folder.resolve()
            aside = put_aside(folder)
            (aside / LOCK).unlink()
        logger.info("the earlier run is now %s", aside)
        try:
            with ensured_folder(folder), locked(folder), _without_a_lone_config(folder):
                yield
        except BaseException:
            if not folder.exists():
                aside.rename(folder)
                logger.info("the earlier run is %s again", folder)
            raise


@contextmanager
def _without_a_lone_config(folder: Path) -> Iterator[None]:
    """A run that fails before it has more than its config leaves nothing in an empty folder."""
    was_empty = _files(folder) == {LOCK}
    try:
        yield
    except BaseException:
        if was_empty and _files(folder) == {LOCK, "config.yaml"}:
            (folder / "config.yaml").unlink()
        raise


def _files(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if not path.is_dir()}


def _must_go(folder: Path, config: DictConfig) -> bool:
    """True if the folder holds a run to be put aside; ``ValueError`` if it may not be."""
    if not any(any(folder.glob(name)) for name in _OF_A_RUN):
        return False
    last = folder / "checkpoints" / "last.ckpt"
    goes_on = config.resume is not None and _is_inside(config.resume, folder)
    if goes_on and not config.overwrite:
        return False
    if not config.overwrite:
        resume = f"go on with it by resume={last}, " if last.exists() else ""
        raise ValueError(
            f"{folder} holds a run: {resume}put it aside by overwrite=true, or {_another()}"
        )
    if _is_inside(Path.cwd(), folder):
        raise ValueError(
            f"overwrite=true cannot put {folder} aside: it is the current folder, or holds it; "
            f"{_another()}"
        )
    for key, value in leaves(plain(config)):
        if isinstance(value, str) and _is_inside(value, folder):
            raise ValueError(
                f"{key}={value} is in {folder}, which overwrite=true would put aside; leave one "
                f"out, or {_another()}"
            )
    return True


def _another() -> str:
    """Words that choose the folder of a run, or of the runs of a sweep."""
    return f"give another hydra.{'sweep' if IN_SWEEP.get() else 'run'}.dir=FOLDER"


def _is_inside(path: str | Path, folder: Path) -> bool:
    """True if there is such a file, in the folder or below it, or it is the folder."""
    try:
        found = Path(path).resolve(strict=True)
    except (OSError, ValueError):
        return False
    return found.is_relative_to(folder.resolve())


_NOW = re.compile(r"\$\{now:([^}]*)\}")


def run_folder(overrides: Sequence[str], places: Places, *, sweeps: bool) -> tuple[Path, list[str]]:
    """The folder of a run, or of a sweep, and overrides that name it for all the processes of
    torchrun or srun, see ``shared_time_stamp``.

    Raises ``ValueError`` if it was requested in a folder that is not there.
    """
    from omegaconf import OmegaConf

    from discrete_diffusion.composing.compose import composed_by_hydra
    from discrete_diffusion.composing.search_path import quoted

    kind = "sweep" if sweeps else "run"
    asked = [o for o in overrides if o.startswith("hydra") or not sweeps]
    where = composed_by_hydra("train", asked, places, with_hydra=True).hydra[kind]
    patterns = OmegaConf.to_container(where, resolve=False)
    assert isinstance(patterns, dict)
    where.dir = named = shared_time_stamp(patterns["dir"])
    if sweeps and started() is None:
        where.dir = named = _NOW.sub(lambda match: time.strftime(match[1]), named)
        return Path(where.dir), [f"hydra.sweep.dir={quoted(named)}"]
    if not sweeps and is_first() and any(o.startswith("hydra.run.dir=") for o in overrides):
        check_folder("hydra.run.dir", where.dir)
    return Path(where.dir), [f"hydra.{kind}.dir={quoted(where.dir)}"]


@contextmanager
def swept(folder: Path) -> Iterator[None]:
    """Inside the block a sweep writes its runs into the folder. What its jobs made and left empty
    goes after it, and ``multirun.yaml`` too if no run is there; for the first process."""
    if not is_first():
        yield
        return
    before = set(folder.glob("*"))
    missing = [part for part in (folder, *folder.parents) if not part.exists()]
    try:
        yield
    finally:
        for path in set(folder.glob("*")) - before:
            with suppress(OSError):  # a file, or a folder of a run
                path.rmdir()
        if set(folder.glob("*")) - before == {folder / "multirun.yaml"}:
            (folder / "multirun.yaml").unlink()
        with suppress(OSError):  # not empty, or never made
            for part in missing:
                part.rmdir()


def shared_time_stamp(pattern: str) -> str:
    """A folder's ``pattern`` with each ``${now:...}`` replaced by the same text in all processes.

    Under ``torchrun`` it is the first process's time, which the agent's store carries; under
    ``srun`` the numbers of job and step, which name the folder again when the job is requeued.
    Raises ``ValueError`` under ``torchrun`` without such a store.
    """
    found = started()
    if _NOW.search(pattern) is None or found is None:
        return pattern
    if found.by == "srun":
        name = f"slurm_{os.environ['SLURM_JOB_ID']}_{os.environ['SLURM_STEP_ID']}"
        return _NOW.sub(name, pattern)
    moment = time.localtime()
    return _as_the_first_has_it(
        _NOW.sub(lambda match: time.strftime(match[1], moment), pattern), found.rank
    )


def _as_the_first_has_it(folder: str, rank: int) -> str:
    """The ``folder`` of rank 0, passed on by the store of torchrun's agent."""
    environment = os.environ
    if environment.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        raise ValueError(
            "the processes of this torchrun share no store to agree on a folder; name one with "
            "hydra.run.dir=DIR"
        )
    from torch.distributed import TCPStore

    store = TCPStore(environment["MASTER_ADDR"], int(environment["MASTER_PORT"]), is_master=False)
    key = f"discrete_diffusion/{environment.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    if rank == 0:
        store.set(key, folder)
    return str(store.get(key).decode())


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
