"""Files that appear whole or not at all, and never in the place of an input."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A path beside ``path`` to write to, renamed to it if the block ends well, else removed.

    The content is on the disk before it gets its name, so that not even a power cut leaves a part
    of it. Missing folders are made. Raises ``OSError`` if the folder cannot be written to.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        yield unfinished
        with unfinished.open("rb+") as file:
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


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
