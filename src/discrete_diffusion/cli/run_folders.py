"""Folders that commands write into, and the jobs of a sweep.

Nothing is replaced unless requested, and one command at a time writes into a folder."""

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

from omegaconf import DictConfig, OmegaConf

from discrete_diffusion.cli.errors import explain_hydra_error
from discrete_diffusion.composing.compose import compose, compose_plainly
from discrete_diffusion.composing.search_path import quoted
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

logger = logging.getLogger(__name__)

_OF_A_RUN = ("config.yaml", "metrics.json", "metrics.csv", "checkpoints", "samples.*")
"""Names of files that show that a folder holds a run."""

_NOW = re.compile(r"\$\{now:([^}]*)\}")


@contextmanager
def reserve_outputs(config: DictConfig, names: Iterable[str]) -> Iterator[None]:
    """Create and lock the folder ``config.out`` for the block, in the first process only.

    Raises ``ValueError`` if files called ``names`` exist there, unless ``config.overwrite``."""
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


# --- the folder of a run ---


@contextmanager
def reserve_run_folder(folder: Path, config: DictConfig) -> Iterator[None]:
    """Create and lock the folder of a run for the block.

    With ``config.overwrite`` an earlier run is renamed first, to ``FOLDER.replaced-1``, and renamed
    back if the block fails before it has written anything. Raises ``ValueError`` if the folder
    holds another run than the one that is resumed."""
    with ensured_folder(folder):
        with locked(folder):
            if not _replaces_run(folder, config):
                with _lone_config_removed(folder):
                    yield
                return
            # rename the folder of the earlier run
            folder = folder.resolve()
            aside = put_aside(folder)
            (aside / LOCK).unlink()
        logger.info("the earlier run is now %s", aside)
        # the new run; if it writes nothing, the earlier run gets its name back
        try:
            with ensured_folder(folder), locked(folder), _lone_config_removed(folder):
                yield
        except BaseException:
            if not folder.exists():
                aside.rename(folder)
                logger.info("the earlier run is %s again", folder)
            raise


@contextmanager
def _lone_config_removed(folder: Path) -> Iterator[None]:
    """Remove the config of a failed run if the folder was empty before and holds nothing else."""

    def files() -> set[str]:
        return {path.name for path in folder.rglob("*") if not path.is_dir()}

    was_empty = files() == {LOCK}
    try:
        yield
    except BaseException:
        if was_empty and files() == {LOCK, "config.yaml"}:
            (folder / "config.yaml").unlink()
        raise


def _replaces_run(folder: Path, config: DictConfig) -> bool:
    """True if the folder holds a run to replace; raise ``ValueError`` if that is not allowed."""
    if not any(any(folder.glob(name)) for name in _OF_A_RUN):
        return False
    # a run that is resumed, or an earlier run without overwrite=true
    last = folder / "checkpoints" / "last.ckpt"
    goes_on = config.resume is not None and _is_inside(config.resume, folder)
    if goes_on and not config.overwrite:
        return False
    another = f"give another hydra.{'sweep' if IN_SWEEP.get() else 'run'}.dir=FOLDER"
    if not config.overwrite:
        resume = f"go on with it by resume={last}, " if last.exists() else ""
        raise ValueError(
            f"{folder} holds a run: {resume}put it aside by overwrite=true, or {another}"
        )
    # the replaced folder must not hold files that the new run reads
    if _is_inside(Path.cwd(), folder):
        raise ValueError(
            f"overwrite=true cannot put {folder} aside: it is the current folder, or holds it; "
            f"{another}"
        )
    for key, value in leaves(plain(config)):
        if isinstance(value, str) and _is_inside(value, folder):
            raise ValueError(
                f"{key}={value} is in {folder}, which overwrite=true would put aside; leave one "
                f"out, or {another}"
            )
    return True


def _is_inside(path: str | Path, folder: Path) -> bool:
    """True if ``path`` exists and is the folder or lies in it."""
    try:
        found = Path(path).resolve(strict=True)
    except (OSError, ValueError):
        return False
    return found.is_relative_to(folder.resolve())


def run_folder(
    overrides: Sequence[str], user_dir: Path | None, *, sweeps: bool
) -> tuple[Path, list[str]]:
    """Return the folder of a run or of a sweep, and overrides that set it in all processes.

    Raises ``ValueError`` if a parent of the folder is not a folder."""
    kind = "sweep" if sweeps else "run"
    asked = [o for o in overrides if o.startswith("hydra") or not sweeps]
    # the folder's pattern, with the time of the first process
    where = compose_plainly("train", asked, user_dir, with_hydra=True).hydra[kind]
    patterns = OmegaConf.to_container(where, resolve=False)
    assert isinstance(patterns, dict)
    where.dir = named = shared_time_stamp(patterns["dir"])
    if sweeps and started() is None:
        where.dir = named = _NOW.sub(lambda match: time.strftime(match[1]), named)
        return Path(where.dir), [f"hydra.sweep.dir={quoted(named)}"]
    if not sweeps and is_first() and any(o.startswith("hydra.run.dir=") for o in overrides):
        check_folder("hydra.run.dir", where.dir)
    return Path(where.dir), [f"hydra.{kind}.dir={quoted(where.dir)}"]


def shared_time_stamp(pattern: str) -> str:
    """Replace each ``${now:...}`` of a folder's ``pattern`` by the same text in all processes.

    Under ``torchrun`` it is the time of the first process; under ``srun`` it is the numbers of job
    and step, the same again when the job is requeued. Raises ``ValueError`` under ``torchrun``
    without a store."""
    found = started()
    if _NOW.search(pattern) is None or found is None:
        return pattern
    environment = os.environ
    if found.by == "srun":
        name = f"slurm_{environment['SLURM_JOB_ID']}_{environment['SLURM_STEP_ID']}"
        return _NOW.sub(name, pattern)
    if environment.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        raise ValueError(
            "the processes of this torchrun share no store to agree on a folder; name one with "
            "hydra.run.dir=DIR"
        )
    from torch.distributed import TCPStore

    # the folder of rank 0, for all
    store = TCPStore(environment["MASTER_ADDR"], int(environment["MASTER_PORT"]), is_master=False)
    key = f"discrete_diffusion/{environment.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    if found.rank == 0:
        moment = time.localtime()
        store.set(key, _NOW.sub(lambda match: time.strftime(match[1], moment), pattern))
    return str(store.get(key).decode())


# --- sweeps ---


@contextmanager
def swept(folder: Path) -> Iterator[None]:
    """Clean up the folder of a sweep after the block, in the first process.

    Removes empty folders of jobs, and ``multirun.yaml`` if no run is left."""
    if not is_first():
        yield
        return
    before = set(folder.glob("*"))
    with ensured_folder(folder):
        try:
            yield
        finally:
            for path in set(folder.glob("*")) - before:
                # files and folders of runs stay
                with suppress(OSError):
                    path.rmdir()
            if set(folder.glob("*")) - before == {folder / "multirun.yaml"}:
                (folder / "multirun.yaml").unlink()


def jobs_of(
    command: str, overrides: Sequence[str], user_dir: Path | None
) -> list[list[str]] | None:
    """Overrides of each job of ``--multirun``; None if the sweeper chooses them step by step."""
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
    from hydra.core.override_parser.overrides_parser import OverridesParser

    of_hydra = [word for word in overrides if word.lstrip("+~").startswith("hydra")]
    others = [word for word in overrides if word not in of_hydra]
    # only the basic sweeper knows its jobs beforehand
    sweeper = compose_plainly(command, of_hydra, user_dir, with_hydra=True).hydra.sweeper
    if not str(sweeper.get("_target_")).endswith(".BasicSweeper"):
        return None
    words = [f"{key}={value}" for key, value in (sweeper.get("params") or {}).items()]
    parsed = OverridesParser.create().parse_overrides([*words, *others])
    return [words for batch in BasicSweeper.split_arguments(parsed, None) for words in batch]


def check_launcher(overrides: Sequence[str]) -> None:
    """Raise ``ValueError`` if ``hydra/launcher=submitit_slurm`` cannot submit jobs from here."""
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
    user_dir: Path | None,
    check: Callable[[DictConfig], object],
) -> None:
    """Compose the config of every job and ``check`` it, before the first job runs.

    Raises ``ValueError`` naming a wrong job, or two jobs that have the same folder ``out``."""
    from hydra.errors import HydraException

    # errors name the overrides in which the jobs differ
    shared = set(jobs[0]).intersection(*jobs)
    folders: dict[str, int] = {}
    for number, job in enumerate(progress.track(jobs, "checking all jobs", "jobs"), start=1):
        own = [word for word in job if word not in shared]
        try:
            config = compose(command, job, user_config_dir=user_dir)
            # ${hydra:...} in the folder, known to running jobs only, is the job's number
            if out := plain(config, resolve=False).get("out"):
                config.out = re.sub(r"\$\{hydra:[^}]*\}", str(number - 1), out)
                out = str(config.out)
            check(config)
        except (HydraException, ValueError, OSError) as error:
            what = explain_hydra_error(error, command, job, user_dir)
            which = f"job {number} of {len(jobs)}, {' '.join(own)}"
            raise ValueError(f"{which}: {what}; no job was run") from error
        if out is not None and (first := folders.setdefault(out, number)) != number:
            raise ValueError(
                f"out={out}: jobs {first} and {number} would write into one folder; give "
                f"each its own, as in 'out={out}/${{hydra:job.num}}'"
            )


class Sweep:
    """Jobs of a sweep, ``num`` if that is known.

    If a job fails in this process, the others go on; in a launcher's process it ends the sweep."""

    def __init__(self, num: int | None) -> None:
        self.of = "" if num is None else f" of {num:,}"
        self.process, self.failed = os.getpid(), list[int]()

    @contextmanager
    def job(self, number: int) -> Iterator[None]:
        """Run the block as job ``number``, counted from 1, and log that."""
        logger.info("--- job %s%s", f"{number:,}", self.of)
        token = IN_SWEEP.set(True)
        try:
            with progress.task(f"job {number:,}{self.of}"):
                yield
        except SystemExit as ended:
            if ended.code != 1 or os.getpid() != self.process:
                raise
            self.failed.append(number)
        finally:
            IN_SWEEP.reset(token)

    def end(self) -> None:
        """Print which jobs failed and exit with status 1; do nothing if none failed."""
        if self.failed:
            numbers = ", ".join(map(str, self.failed))
            failed = f"{len(self.failed)}{self.of} jobs failed: {numbers}"
            print(f"discrete-diffusion: {failed}", file=sys.stderr)
            raise SystemExit(1)
