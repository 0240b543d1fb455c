"""Files that appear whole or not at all, where they are meant to, and in no other's place."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
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
def made(folder: Path) -> Iterator[None]:
    """The folder is there inside the block; what was made and is still empty goes after it."""
    missing = [part for part in (folder, *folder.parents) if not part.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        with suppress(OSError):  # not empty, or another command has removed it
            for part in missing:
                part.rmdir()


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A path beside ``path`` to write to, renamed to it if the block ends well, else removed.

    The content is on the disk before it gets its name, so that not even a power cut leaves a part
    of it. Missing folders are made. Raises ``OSError`` naming ``path`` if it cannot be written, as
    on a full disk.
    """
    unfinished = path.with_name(f".{path.stem}.{os.getpid()}.unfinished{path.suffix}")
    with made(path.parent):
        try:
            yield unfinished
            with unfinished.open("rb+") as file:
                os.fsync(file.fileno())
            unfinished.replace(path)
        except OSError as error:
            if error.errno is None or error.filename not in (None, str(unfinished)):
                raise
            raise OSError(error.errno, error.strerror, str(path)) from error
        finally:
            with suppress(OSError):  # not there, or in a folder that cannot be written to
                unfinished.unlink()


def write_text(path: Path, text: str) -> None:
    """Write ``text`` as UTF-8, whole, its line ends as they are; lone surrogates as escapes."""
    with written_whole(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8", errors="backslashreplace", newline="")


@contextmanager
def growing_file(path: Path) -> Iterator[Callable[[str], None]]:
    """A function that appends text to ``samples.partial.jsonl``, for a ``path`` samples.jsonl.

    It is for those who look while the block runs, and for what is left if the process is killed. At
    the end of the block, when ``path`` is to be there, it is removed; after an error it stays.
    Of a text that cannot be written, as on a full disk, nothing is there; ``OSError`` names the
    file.
    """
    unfinished = growing_name(path)
    length = 0

    def append(text: str) -> None:
        nonlocal length
        try:
            with unfinished.open("ab") as file:
                file.write(text.encode("utf-8", errors="backslashreplace"))
            length = unfinished.stat().st_size
        except OSError as error:
            if length:
                os.truncate(unfinished, length)
            else:
                unfinished.unlink(missing_ok=True)
            raise OSError(error.errno, error.strerror, str(unfinished)) from error

    unfinished.unlink(missing_ok=True)
    yield append
    unfinished.unlink(missing_ok=True)


def growing_name(path: Path) -> Path:
    """What ``growing_file`` appends to until ``path`` is there."""
    return path.with_name(f"{path.stem}.partial{path.suffix}")


def is_same_file(path: Path, other: Path) -> bool:
    """Whether both exist and are one file, by whatever names or links."""
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
    """``ValueError`` naming ``key`` if ``path`` would be made in a folder that is not there.

    The first part of a relative path may be made, as ``runs`` in ``runs/first``, unless it looks
    like the name of another folder misspelt.
    """
    parent = Path(path).absolute().parent
    missing = [folder for folder in (parent, *parent.parents) if not folder.exists()]
    if not missing:
        return
    top = missing[-1]
    names = [p.name for p in top.parent.iterdir() if p.is_dir()] if top.parent.is_dir() else []
    near = [
        name
        for name in get_close_matches(top.name, names)
        if not (name.startswith(top.name) or top.name.startswith(name))
    ]
    if near or len(missing) > 1 or top.parent != Path.cwd():
        remedy = f"did you mean {top.with_name(near[0])}?" if near else f"first mkdir -p {parent}"
        raise ValueError(f"{key}={path}: there is no folder {top}; {remedy}")


def put_aside(folder: Path) -> Path:
    """Rename a folder to the first free ``FOLDER.replaced-N``; its new name."""
    number = 1
    while (aside := folder.with_name(f"{folder.name}.replaced-{number}")).exists():
        number += 1
    return folder.rename(aside)
