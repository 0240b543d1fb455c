"""Files that are written whole or not at all, and locks on folders."""

from __future__ import annotations

import errno
import os
import secrets
import shlex
import shutil
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from os.path import samestat
from pathlib import Path

LOCK = ".lock"
"""Name of a folder's lock file, and suffix of a file's; the content names the command."""

UNFINISHED = ".unfinished"
"""Suffix of the hidden files that are being written."""

_GROWING = ".partial"
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers of a full disk, a used-up quota, and a file that is too large."""


# --- files ---


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path, renamed to ``path`` if the block ends well, else removed.

    The content is on the disk before the file gets its name, so that a power cut leaves no partial
    file. Missing folders are made. Each call uses a new temporary path. Raises ``OSError`` naming
    ``path`` if it cannot be written, for example on a full disk.
    """
    with written_together([path]) as (unfinished,):
        yield unfinished


@contextmanager
def written_together(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Write several files as ``atomic_write`` does; none is replaced until all are written."""
    unfinished = [_unfinished_path(path) for path in paths]
    named = dict(zip(map(str, unfinished), paths, strict=True))
    with ExitStack() as stack:
        for path in paths:
            stack.enter_context(ensured_folder(path.parent))
        try:
            yield unfinished
            # all contents to the disk, then all names
            for part in unfinished:
                with part.open("rb+") as file:
                    os.fsync(file.fileno())
            for part, path in zip(unfinished, paths, strict=True):
                part.replace(path)
        except OSError as error:
            # name the file that the caller knows, not the temporary one
            path = named.get(str(error.filename), paths[0])
            if error.errno is None or not (error.filename is None or str(error.filename) in named):
                raise
            raise OSError(error.errno, error.strerror, str(path)) from error
        finally:
            for part in unfinished:
                # the file may be gone, or in a read-only folder
                with suppress(OSError):
                    part.unlink()


@contextmanager
def atomic_folder(
    folder: Path, *, replaced: Callable[[Path], object] | None = None
) -> Iterator[Path]:
    """Yield a temporary folder, renamed to ``folder`` if the block succeeds and has written files.

    Otherwise it is removed. With ``replaced``, an earlier ``folder`` is renamed first, and
    ``replaced`` is called with its new path; without it, ``folder`` must not exist. Raises
    ``OSError`` naming the file of ``folder`` that cannot be written.
    """
    # a folder with a temporary name until it is whole
    unfinished = _unfinished_path(folder)
    with ensured_folder(folder.parent):
        unfinished.mkdir()
        try:
            yield unfinished
            aside = put_aside(folder) if replaced is not None and folder.exists() else None
            if any(unfinished.iterdir()):
                unfinished.rename(folder)
            if replaced is not None and aside is not None:
                replaced(aside)
        except OSError as error:
            if error.errno is None or not str(error.filename).startswith(str(unfinished)):
                raise
            path = folder / Path(str(error.filename)).relative_to(unfinished)
            raise OSError(error.errno, error.strerror, str(path)) from error
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


def _unfinished_path(path: Path) -> Path:
    return path.with_name(f".{path.stem}.{secrets.token_hex(6)}{UNFINISHED}{path.suffix}")


def write_text(path: Path, text: str) -> None:
    """Write ``text`` by ``atomic_write``: UTF-8, line ends unchanged, lone surrogates escaped."""
    with atomic_write(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8", errors="backslashreplace", newline="")


@contextmanager
def growing_file(path: Path) -> Iterator[Callable[[str], None]]:
    """Yield a function that appends text to ``samples.partial.jsonl`` for ``samples.jsonl``.

    The partial file stays after an error or if the process is killed; if the block succeeds, it is
    removed.
    """
    unfinished = growing_name(path)
    unfinished.unlink(missing_ok=True)
    yield partial(append_text, unfinished)
    unfinished.unlink(missing_ok=True)


def append_text(path: Path, text: str) -> None:
    """Append text to a file; if that fails, restore it and raise ``OSError`` naming it."""
    length = path.stat().st_size if path.exists() else 0
    try:
        with path.open("ab") as file:
            file.write(text.encode("utf-8", errors="backslashreplace"))
    except OSError as error:
        if length:
            os.truncate(path, length)
        else:
            path.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error


def growing_name(path: Path) -> Path:
    """Path of the partial file that ``growing_file`` appends to."""
    return path.with_name(f"{path.stem}{_GROWING}{path.suffix}")


@contextmanager
def note_of_complete_files(folder: Path, names: Sequence[str]) -> Iterator[None]:
    """Add the names of files that the block has completed to an ``OSError`` of a full disk."""
    before = states_of(folder, names)
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_SPACE:
            raise
        done = ", ".join(written_since(before, folder))
        note = f"complete in {folder}: {done}" if done else f"nothing else in {folder} is new"
        raise OSError(f"{error}; {note}") from error


def states_of(folder: Path, names: Iterable[str]) -> dict[str, tuple[int, int] | None]:
    """Identity of each named file in a folder, for ``written_since``."""
    return {name: _file_identity(folder / name) for name in names}


def written_since(before: Mapping[str, tuple[int, int] | None], folder: Path) -> list[str]:
    """Names of the complete files that were written after ``before = states_of(...)``."""
    return [
        name
        for name, state in before.items()
        if _file_identity(folder / name) not in (None, state) and _GROWING not in name
    ]


def _file_identity(path: Path) -> tuple[int, int] | None:
    """Value that changes if a file is replaced; None if the file does not exist."""
    if not path.exists():
        return None
    found = path.stat()
    return found.st_ino, found.st_mtime_ns


def refuse_overwriting(
    folder: Path, names: Iterable[str], key: str, files: Iterable[str | None]
) -> None:
    """Raise ``ValueError`` if an output would overwrite an input.

    ``names``: names of the outputs in ``folder``; ``files``: input files and folders, which the
    config key ``key`` names."""
    for path in [Path(file) for file in files if file is not None]:
        read = [path, *path.iterdir()] if path.is_dir() else [path]
        for target in [folder / name for name in names]:
            if any(file.exists() and target.exists() and target.samefile(file) for file in read):
                raise ValueError(
                    f"{key}={path}: {target} would be overwritten; choose another out=FOLDER"
                )


# --- folders ---


def check_folder(key: str, path: str | Path) -> None:
    """Raise ``ValueError`` naming ``key`` if ``path`` is not a folder or looks misspelt."""
    for part in (Path(path), *Path(path).parents):
        if os.path.lexists(part) and not part.is_dir():
            what = "a file" if part.exists() else "a broken link"
            raise ValueError(f"{key}={path}: {part} is {what}; give another folder")
    check_parent(key, path)


def check_parent(key: str, path: str | Path) -> None:
    """Raise ``ValueError`` naming ``key`` if a folder to be made for ``path`` looks misspelt.

    It does if its name is almost that of an existing folder in the same place."""
    # the topmost folder that would be made
    parent = Path(path).absolute().parent
    missing = [folder for folder in (parent, *parent.parents) if not folder.exists()]
    if not missing or not missing[-1].parent.is_dir():
        return
    top = missing[-1]
    names = sorted(folder.name for folder in top.parent.iterdir() if folder.is_dir())
    if meant := next((name for name in names if _is_misspelt(top.name, name)), None):
        raise ValueError(
            f"{key}={path}: no folder {top}; did you mean {top.with_name(meant)}? If not, "
            f"first mkdir -p {shlex.quote(str(parent))}"
        )


def _is_misspelt(name: str, other: str) -> bool:
    """True if one letter is added, missing or wrong, or two are swapped; digits do not count."""
    if name.startswith(other) or other.startswith(name) or min(len(name), len(other)) < 4:
        return False
    # the first letter that differs
    k = next(k for k, (a, b) in enumerate(zip(name, other, strict=False)) if a != b)
    swapped = name[k : k + 2] == other[k : k + 2][::-1] and name[k + 2 :] == other[k + 2 :]
    one = name[k + 1 :] in (other[k:], other[k + 1 :]) or name[k:] == other[k + 1 :]
    return swapped or (one and not (name[k] + other[k]).isdigit())


@contextmanager
def ensured_folder(folder: Path) -> Iterator[None]:
    """Create a folder and its parents; after the block, remove new folders that are empty."""
    missing = [part for part in (folder, *folder.parents) if not part.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        inside = [*folder.iterdir()] if missing and folder.is_dir() else []
        # folders that are not empty cannot be removed
        with suppress(OSError):
            for part in (*inside, *missing):
                part.rmdir()


def put_aside(folder: Path) -> Path:
    """Rename a folder to the first free ``FOLDER.replaced-N``; return the new path."""
    number = 1
    while (aside := folder.with_name(f"{folder.name}.replaced-{number}")).exists():
        number += 1
    return folder.rename(aside)


@contextmanager
def locked(target: Path) -> Iterator[None]:
    """Lock a folder or a file against other commands during the block.

    Raises ``ValueError`` naming the process that holds it, unless that was killed."""
    from filelock import FileLock, SoftFileLock, Timeout

    # a lock file in the folder, or next to the file
    path = target / LOCK if target.is_dir() else target.with_name(f".{target.name}{LOCK}")
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        # the holder: our own line, or process and machine of a soft lock's lines
        lines = list[str]()
        with suppress(OSError):
            lines = path.read_text().splitlines()
        holder = "process {} on {}".format(*lines) if len(lines) > 1 else "".join(lines)
        raise ValueError(
            f"{target} is in use by {holder or 'another command'}; wait for its end, or give "
            "another name"
        ) from None
    own = path.stat()
    try:
        # the content of a soft lock is the lock itself
        if not isinstance(lock, SoftFileLock):
            since = time.strftime("%Y-%m-%d %H:%M:%S")
            # on a full disk the holder stays unnamed
            with suppress(OSError):
                path.write_text(f"process {os.getpid()} on {socket.gethostname()} since {since}\n")
        yield
    finally:
        if path.exists() and samestat(path.stat(), own):  # else the folder was put aside
            path.unlink()
        lock.release()


@contextmanager
def claimed_folder(key: str, folder: Path) -> Iterator[None]:
    """Check, create and lock the folder that the config key ``key`` names."""
    check_folder(key, folder)
    with ensured_folder(folder), locked(folder):
        yield


@contextmanager
def claimed_file(key: str, file: Path) -> Iterator[None]:
    """Check and lock the file or new folder that ``key`` names.

    Other commands may write other files next to it, unless the whole folder is locked."""
    check_parent(key, file)
    with ensured_folder(file.parent):
        if (file.parent / LOCK).exists():
            # raises, or removes the lock of a killed process
            with locked(file.parent):
                pass
        with locked(file):
            yield
