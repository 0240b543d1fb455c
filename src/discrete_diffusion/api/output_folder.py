"""Folders that commands write into: nothing is replaced unasked, by one command at a time."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from discrete_diffusion.config.files import plain
from discrete_diffusion.config.options import leaves
from discrete_diffusion.runtime.atomic_files import (
    LOCK,
    claimed_folder,
    ensured_folder,
    locked,
    note_of_complete_files,
    put_aside,
)
from discrete_diffusion.runtime.processes import IN_SWEEP, is_first

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
