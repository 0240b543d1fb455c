"""Files that appear whole or not at all, where they are meant to, in no other's place, and in a
folder that one command at a time writes into."""

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


def check_folder(key: str, path: str | Path) -> None:
    """``ValueError`` naming ``key`` if ``path`` or what it lies in is something else than a folder,
    or if it would be made where ``check_parent`` refuses it."""
    for part in (Path(path), *Path(path).parents):
        if os.path.lexists(part) and not part.is_dir():
            what = "a file" if part.exists() else "a broken link"
            raise ValueError(f"{key}={path}: {part} is {what}; give another folder")
    check_parent(key, path)


@contextmanager
def ensured_folder(folder: Path) -> Iterator[None]:
    """The folder is there inside the block; what was made and is still empty goes after it, with
    empty folders in it."""
    missing = [part for part in (folder, *folder.parents) if not part.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        inside = [*folder.iterdir()] if missing and folder.is_dir() else []
        with suppress(OSError):  # not empty, or another command has removed it
            for part in (*inside, *missing):
                part.rmdir()


LOCK = ".lock"
"""In a folder that a command writes into, and after the name of a file: which command that is."""

UNFINISHED = ".unfinished"
"""In the names of what is being written, which begin with a dot."""

_GROWING = ".partial"
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a full disk, of a person's full share of it, and of a file too large."""


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A path beside ``path`` to write to, renamed to it if the block ends well, else removed.

    The content is on the disk before it gets its name, so that not even a power cut leaves a part
    of it. Missing folders are made. No two writers share the path beside, be they threads or
    machines. Raises ``OSError`` naming ``path`` if it cannot be written, as on a full disk.
    """
    with written_together([path]) as (unfinished,):
        yield unfinished


@contextmanager
def written_together(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """``atomic_write`` of files that belong together: none is replaced until all are written."""
    unfinished = [_unfinished(path) for path in paths]
    named = dict(zip(map(str, unfinished), paths, strict=True))
    with ExitStack() as stack:
        for path in paths:
            stack.enter_context(ensured_folder(path.parent))
        try:
            yield unfinished
            for part in unfinished:
                with part.open("rb+") as file:
                    os.fsync(file.fileno())
            for part, path in zip(unfinished, paths, strict=True):
                part.replace(path)
        except OSError as error:
            path = named.get(str(error.filename), paths[0])
            if error.errno is None or not (error.filename is None or str(error.filename) in named):
                raise
            raise OSError(error.errno, error.strerror, str(path)) from error
        finally:
            for part in unfinished:
                with suppress(OSError):  # not there, or in a folder that cannot be written to
                    part.unlink()


@contextmanager
def atomic_folder(
    folder: Path, *, replaced: Callable[[Path], object] | None = None
) -> Iterator[Path]:
    """A new folder beside ``folder`` to write files into, renamed to it if the block ends well
    and has written some, else removed.

    What ``folder`` holds is put aside before, and ``replaced`` is called with the place; without
    ``replaced`` it holds nothing. Raises ``OSError`` naming the file of ``folder`` that cannot be
    written.
    """
    unfinished = _unfinished(folder)
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


def _unfinished(path: Path) -> Path:
    return path.with_name(f".{path.stem}.{secrets.token_hex(6)}{UNFINISHED}{path.suffix}")


def write_text(path: Path, text: str) -> None:
    """Write ``text`` as UTF-8, whole, its line ends as they are; lone surrogates as escapes."""
    with atomic_write(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8", errors="backslashreplace", newline="")


@contextmanager
def growing_file(path: Path) -> Iterator[Callable[[str], None]]:
    """A function that appends text to ``samples.partial.jsonl``, for a ``path`` samples.jsonl, see
    ``append_text``.

    It is for those who look while the block runs, and for what is left if the process is killed. At
    the end of the block, when ``path`` is to be there, it is removed; after an error it stays.
    """
    unfinished = growing_name(path)
    unfinished.unlink(missing_ok=True)
    yield partial(append_text, unfinished)
    unfinished.unlink(missing_ok=True)


def append_text(path: Path, text: str) -> None:
    """Append to a file, or begin it. Of a text that cannot be written, as on a full disk, nothing
    is there; ``OSError`` names the file."""
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
    """File that ``growing_file`` appends to until ``path`` is there."""
    return path.with_name(f"{path.stem}{_GROWING}{path.suffix}")


@contextmanager
def note_of_complete_files(folder: Path, names: Sequence[str]) -> Iterator[None]:
    """An ``OSError`` of a full disk inside the block also says which of the files ``names`` of the
    folder it has written."""
    before = states_of(folder, names)
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_SPACE:
            raise
        done = written_since(before, folder)
        note = (
            f"complete in {folder}: {', '.join(done)}"
            if done
            else f"nothing else in {folder} is new"
        )
        raise OSError(f"{error}; {note}") from error


def states_of(folder: Path, names: Iterable[str]) -> dict[str, tuple[int, int] | None]:
    """The present files of these names in the folder, for ``written_since``."""
    return {name: _state(folder / name) for name in names}


def written_since(before: Mapping[str, tuple[int, int] | None], folder: Path) -> list[str]:
    """The names of ``states_of`` that a complete file has taken since."""
    return [
        name
        for name, state in before.items()
        if _state(folder / name) not in (None, state) and _GROWING not in name
    ]


def _state(path: Path) -> tuple[int, int] | None:
    """Identity of a file, which changes when another takes its name; None if there is none."""
    if not path.exists():
        return None
    found = path.stat()
    return found.st_ino, found.st_mtime_ns


def is_same_file(path: Path, other: Path) -> bool:
    """True if both exist and are one file, by whatever names or links."""
    return path.exists() and other.exists() and path.samefile(other)


def refuse_overwriting(
    folder: Path, names: Iterable[str], key: str, files: Iterable[str | None]
) -> None:
    """``ValueError`` if one of the ``files`` that ``key`` names, or one in a folder among them, is
    one of the ``names`` that will be written into ``folder``; None names nothing."""
    for path in [Path(file) for file in files if file is not None]:
        read = [path, *path.iterdir()] if path.is_dir() else [path]
        for target in [folder / name for name in names]:
            if any(is_same_file(target, file) for file in read):
                raise ValueError(
                    f"{key}={path}: {target} would be overwritten; choose another out=FOLDER"
                )


def check_parent(key: str, path: str | Path) -> None:
    """``ValueError`` naming ``key`` if a folder would be made for ``path`` whose name looks like
    that of another, misspelt; any other folder may be made."""
    parent = Path(path).absolute().parent
    missing = [folder for folder in (parent, *parent.parents) if not folder.exists()]
    if not missing or not missing[-1].parent.is_dir():
        return
    top = missing[-1]
    names = sorted(folder.name for folder in top.parent.iterdir() if folder.is_dir())
    if meant := next((name for name in names if _is_a_slip(top.name, name)), None):
        raise ValueError(
            f"{key}={path}: there is no folder {top}; did you mean {top.with_name(meant)}? If not, "
            f"first mkdir -p {shlex.quote(str(parent))}"
        )


def _is_a_slip(name: str, other: str) -> bool:
    """True if one letter too many, missing or wrong, or two that are swapped, make ``name`` of
    ``other``. Names of three letters, names that begin with one another and names that differ in
    a number are not slips."""
    if name.startswith(other) or other.startswith(name) or min(len(name), len(other)) < 4:
        return False
    k = next(k for k, (a, b) in enumerate(zip(name, other, strict=False)) if a != b)
    swapped = name[k : k + 2] == other[k : k + 2][::-1] and name[k + 2 :] == other[k + 2 :]
    one = name[k + 1 :] in (other[k:], other[k + 1 :]) or name[k:] == other[k + 1 :]
    return swapped or (one and not (name[k] + other[k]).isdigit())


def put_aside(folder: Path) -> Path:
    """Rename a folder to the first free ``FOLDER.replaced-N``; its new name."""
    number = 1
    while (aside := folder.with_name(f"{folder.name}.replaced-{number}")).exists():
        number += 1
    return folder.rename(aside)


@contextmanager
def locked(target: Path) -> Iterator[None]:
    """Inside the block no other command writes into the folder ``target``, or the file of that
    name, which is there or not.

    Raises ``ValueError`` naming the process that does; the lock of a killed process is void.
    """
    from filelock import FileLock, SoftFileLock, Timeout

    path = target / LOCK if target.is_dir() else target.with_name(f".{target.name}{LOCK}")
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise ValueError(
            f"{target} is in use by {_holder(path) or 'another command'}; wait for its end, or "
            "give another name"
        ) from None
    own = path.stat()
    try:
        if not isinstance(lock, SoftFileLock):  # on a disk without flock, where the text is it
            since = time.strftime("%Y-%m-%d %H:%M:%S")
            with suppress(OSError):  # a full disk, whose holder is not named
                path.write_text(f"process {os.getpid()} on {socket.gethostname()} since {since}\n")
        yield
    finally:
        if path.exists() and samestat(path.stat(), own):  # else the folder was put aside
            path.unlink()
        lock.release()


@contextmanager
def claimed_folder(key: str, folder: Path) -> Iterator[None]:
    """The folder that ``key`` names, made and locked inside the block."""
    check_folder(key, folder)
    with ensured_folder(folder), locked(folder):
        yield


@contextmanager
def claimed_file(key: str, file: Path) -> Iterator[None]:
    """The file that ``key`` names, or a folder that is made anew, locked inside the block; its
    folder may be in use by others that write files of their own, not by one that has all of it."""
    check_parent(key, file)
    with ensured_folder(file.parent):
        if (file.parent / LOCK).exists():
            with locked(file.parent):  # raises, or takes away what a killed process left
                pass
        with locked(file):
            yield


def _holder(path: Path) -> str:
    """Contents of a lock file: a line of ours, or on a disk without flock the number of a process,
    a machine, and more, on lines of their own."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return ""
    return "process {} on {}".format(*lines) if len(lines) > 1 else "".join(lines)
