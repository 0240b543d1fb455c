"""Arrays in files: errors of their readers, and claims that memory could not hold."""

from __future__ import annotations

import zipfile
import zlib

from numpy.lib.npyio import NpzFile

UNREADABLE = (
    *(OSError, EOFError, ValueError, LookupError, ArithmeticError, MemoryError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error),
)
"""Errors of readers of arrays that are damaged, encrypted, or claim impossible shapes."""

_MOST, _MOST_TIMES = 1 << 30, 200
"""Bytes of an array from which on it may not be more than so many times as large as in its file."""


def check_members(file: NpzFile, source: str) -> None:
    """Raise ``ValueError`` for a name that comes twice, and for an array that is tiny in the file
    and would fill memory."""
    seen = set()
    for member in file.zip.infolist() if file.zip else ():
        if member.filename in seen:
            raise ValueError(f"{source} has {member.filename} twice; write it anew with one")
        seen.add(member.filename)
        check_expansion(member.file_size, member.compress_size, f"{source}: {member.filename}")


def check_expansion(num_bytes: int, num_stored: int, array: str) -> None:
    """Raise ``ValueError`` for an ``array`` of so many bytes that would fill memory and are next to
    nothing where they are stored."""
    if num_bytes > max(_MOST, _MOST_TIMES * num_stored):
        raise ValueError(
            f"{array} is stored in {num_stored:,} bytes and takes {num_bytes:,} in memory; write "
            "it anew without compression if that is right"
        )
