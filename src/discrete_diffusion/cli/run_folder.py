"""The folder of a run: one for all the processes that torchrun or srun started."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from discrete_diffusion.composing.search_path import Places
from discrete_diffusion.runtime.atomic_files import check_folder
from discrete_diffusion.runtime.processes import is_first, started

_NOW = re.compile(r"\$\{now:([^}]*)\}")


def run_folder(overrides: Sequence[str], places: Places, *, sweeps: bool) -> tuple[Path, list[str]]:
    """The folder of a run, or of a sweep, and overrides that name it for all the processes of
    torchrun or srun, see ``shared_time_stamp``.

    Raises ``ValueError`` if it was requested in a folder that is not there.
    """
    from omegaconf import OmegaConf

    from discrete_diffusion.composing.compose import composed_by_hydra
    from discrete_diffusion.composing.override_words import quoted

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
