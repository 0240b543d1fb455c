"""A disk that is full, for tests of what writes files."""

from __future__ import annotations

import errno
import os
import re
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import pytest


class FullDisk:
    """Inside the block the disk is full: nothing is longer than ``size`` bytes, or for None no byte
    reaches it.

    The first is the system's word, whatever library writes; the second what a network disk says
    after it has taken everything. What is imported meanwhile leaves no cut file of bytecode."""

    def __init__(self, size: int | None) -> None:
        self.size = size

    def __enter__(self) -> None:
        self.former = resource.getrlimit(resource.RLIMIT_FSIZE)
        self.bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        if self.size is None:
            error = OSError(errno.ENOSPC, "No space left on device")
            self.patch = pytest.MonkeyPatch()
            self.patch.setattr(os, "fsync", lambda number: (_ for _ in ()).throw(error))
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.size, self.former[1]))

    def __exit__(self, *_: object) -> None:
        if self.size is None:
            self.patch.undo()
        resource.setrlimit(resource.RLIMIT_FSIZE, self.former)
        sys.dont_write_bytecode = self.bytecode


def content(folder: Path) -> dict[str, bytes]:
    """Files below a folder by name."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def check_old_or_new(path: Path, write: Callable[[Path], object], *, late: bool) -> None:
    """A writer whose disk is full leaves the old file, or none; ``late``: told when all is
    written."""
    write(path)
    before = content(path.parent)
    size = None if late else len(before[path.name]) // 2
    with FullDisk(size), pytest.raises(OSError, match=re.escape(str(path.parent))):
        write(path)
    assert content(path.parent) == before
    path.unlink()
    with FullDisk(size), pytest.raises(OSError, match=r"\S"):
        write(path)
    assert not path.exists()
    write(path)
    assert path.exists()
