"""Files that hold no line of text: told by their first bytes, refused in one sentence."""

from __future__ import annotations

from pathlib import Path

WHAT_IS_READ = "plans are read from JSON lines, JSON, GraphML and Graph2Plan's data.mat"

_PICKLE = "a pickle, which is never loaded, it could run code; convert it to JSON lines"
_ARRAYS = "arrays of NumPy, which may be a pickle inside; convert them to JSON lines"
_WEIGHTS = "a file of PyTorch, a pickle, which is never loaded; convert it to JSON lines"
_ARCHIVE = "a compressed file or archive; unpack it first"
_PICTURE = "a picture; trace its rooms first"
_SPREADSHEET = "a spreadsheet; write its plans as JSON lines"
_OFFICE = "a document of an office program; write its plans as JSON lines"
_UTF_16 = "text in UTF-16; save it as UTF-8"

_BY_SUFFIX = {
    ".xlsx": _SPREADSHEET,
    ".xlsm": _SPREADSHEET,
    ".xls": _SPREADSHEET,
    ".ods": _SPREADSHEET,
    ".docx": _OFFICE,
    ".odt": _OFFICE,
    ".npz": _ARRAYS,
    ".pickle": _PICKLE,
    ".pkl": _PICKLE,
    ".ckpt": _WEIGHTS,
    ".pt": _WEIGHTS,
    ".pth": _WEIGHTS,
}
"""What a name says that the first bytes do not: an archive of what, a pickle in letters."""

_BY_HEAD = {
    b"\x93NUMPY": _ARRAYS,
    b"\x80\x02": _PICKLE,
    b"\x80\x03": _PICKLE,
    b"\x80\x04": _PICKLE,
    b"\x80\x05": _PICKLE,
    b"(lp0": _PICKLE,
    b"(dp0": _PICKLE,
    b"\x1f\x8b": _ARCHIVE,
    b"PK\x03\x04": _ARCHIVE,
    b"PK\x05\x06": _ARCHIVE,
    b"BZh": _ARCHIVE,
    b"7z\xbc\xaf": _ARCHIVE,
    b"\xfd7zXZ": _ARCHIVE,
    b"\x28\xb5\x2f\xfd": _ARCHIVE,
    b"\x89PNG": _PICTURE,
    b"\xff\xd8\xff": _PICTURE,
    b"GIF8": _PICTURE,
    b"II*\x00": _PICTURE,
    b"MM\x00*": _PICTURE,
    b"\xff\xfe": _UTF_16,
    b"\xfe\xff": _UTF_16,
    b"\xd0\xcf\x11\xe0": _OFFICE,
    b"%PDF": "a PDF document; trace its rooms first",
    b"\x89HDF": "an HDF5 file; convert it to JSON lines",
}
"""First bytes of a file -> what it is, and what to do about it."""

HEAD_BYTES = 4096
_CONTROL_BYTES = bytes({*range(32)} - {*b"\t\n\r\f"})
_MOST_CONTROL = 0.02
"""Share of control characters: none of text, 11 % of random bytes."""


def foreign_format(path: Path, head: bytes) -> str | None:
    """What a file of a foreign format is, with what is read instead; None for text.

    ``head``: its first ``HEAD_BYTES`` bytes.
    """
    found = next((what for start, what in _BY_HEAD.items() if head.startswith(start)), None)
    if found in (None, _ARCHIVE, _OFFICE):
        found = _BY_SUFFIX.get(path.suffix.lower(), found)
    if found is None and _num_control(head) > _MOST_CONTROL * len(head):
        found = "not text; convert it to JSON lines"
    return None if found is None else f"{found} ({WHAT_IS_READ})"


def _num_control(head: bytes) -> int:
    return len(head) - len(head.translate(None, _CONTROL_BYTES))
