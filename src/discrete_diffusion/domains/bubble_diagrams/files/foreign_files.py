"""Files that hold no plans: recognised by name and first bytes, refused in one sentence."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from discrete_diffusion.data.text_files import is_gzipped, suffix_of
from discrete_diffusion.domains.bubble_diagrams.files.json_text import (
    BYTE_ORDER_MARK,
    opened,
)

WHAT_IS_READ = (
    "plans are read from JSON lines, JSON, GraphML, DXF, GeoJSON, WKT and Graph2Plan's data.mat"
)


class _Format(NamedTuple):
    """``what``: it is, and what to do about it. ``suffixes``: names of such files. ``heads``: their
    first bytes. ``is_container``: what is in such a file only its name says. ``is_table``: of text,
    unless it begins as JSON does."""

    what: str
    suffixes: tuple[str, ...]
    heads: tuple[bytes, ...]
    is_container: bool = False
    is_table: bool = False


_FORMATS = (
    _Format(
        "a pickle, which is never loaded because it could run code; convert it to JSON lines",
        (".pickle", ".pkl"),
        (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"(lp0", b"(dp0"),
    ),
    _Format(
        "arrays of NumPy, which may be a pickle inside; convert them to JSON lines",
        (".npz",),
        (b"\x93NUMPY",),
    ),
    _Format(
        "a file of PyTorch, a pickle, which is never loaded; convert it to JSON lines",
        (".ckpt", ".pt", ".pth"),
        (),
    ),
    _Format(
        "a compressed file or archive; unpack it first",
        (),
        (
            *(b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b", b"BZh", b"7z\xbc\xaf", b"\xfd7zXZ"),
            b"\x28\xb5\x2f\xfd",
        ),
        is_container=True,
    ),
    _Format("CSV, which is not read; write its plans as JSON lines", (".csv",), (), is_table=True),
    _Format("TSV, which is not read; write its plans as JSON lines", (".tsv",), (), is_table=True),
    _Format("a spreadsheet; write its plans as JSON lines", (".xlsx", ".xlsm", ".xls", ".ods"), ()),
    _Format(
        "a document of an office program; write its plans as JSON lines",
        (".docx", ".odt"),
        (b"\xd0\xcf\x11\xe0",),
        is_container=True,
    ),
    _Format(
        "a picture; trace its rooms first",
        (),
        (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"II*\x00", b"MM\x00*"),
    ),
    _Format("a DWG drawing; save it as DXF", (".dwg",), (b"AC10",)),
    _Format("a binary DXF drawing; save it as text", (), (b"AutoCAD Binary DXF",)),
    _Format("a PDF document; trace its rooms first", (), (b"%PDF",)),
    _Format("an HDF5 file; convert it to JSON lines", (), (b"\x89HDF",)),
    _Format("text in UTF-16; save it as UTF-8", (), (b"\xff\xfe", b"\xfe\xff")),
)

_HEAD_BYTES, _LONGEST_TAG = 4096, 40
_CONTROL_BYTES = bytes({*range(32)} - {*b"\t\n\r\f"})
_MOST_CONTROL = 0.02
"""Share of control characters: none of text, 11 % of random bytes."""


def foreign_format(path: Path) -> str | None:
    """Name the foreign format of a file, with what is read instead; None for text, gzipped or not.

    Raises ``DiagramError`` for damaged gzip."""
    with opened(path) as file:
        head = file.read(_HEAD_BYTES)
    found = next((known for known in _FORMATS if head.startswith(known.heads)), None)
    if found is None or found.is_container:
        suffix = suffix_of(path)
        found = next((known for known in _FORMATS if suffix in known.suffixes), found)
    if found is None and (markup := _markup(head, suffix_of(path))):
        return f"{markup} ({WHAT_IS_READ})"
    num_control = len(head) - len(head.translate(None, _CONTROL_BYTES))
    if found is not None and found.is_table and head.lstrip().startswith((b"{", b"[")):
        found = None
    if found is None and num_control <= _MOST_CONTROL * len(head):
        return None
    unknown = "not text; convert it to JSON lines"
    if is_gzipped(path):
        unknown = "a compressed file or archive of something else than text; unpack it first"
    what = unknown if found is None else found.what
    return f"{what} ({WHAT_IS_READ})"


_MARKUP = {
    "svg": "an SVG picture, which is not read; draw its rooms as closed polylines in DXF, or write "
    "them as JSON lines",
    "html": "an HTML page; write its plans as JSON lines",
    "kml": "KML, in degrees; project its polygons to metres and write them as GeoJSON",
    "ifcxml": "IFC in XML, which is not read; export its spaces as DXF or GeoJSON",
}
"""Root of a text of tags -> what it is."""

_TAG = re.compile(rb"<(?![?!])\s*(?:[\w.-]+:)?([\w.-]+)")


def _markup(head: bytes, suffix: str) -> str | None:
    """Name of the format of a text that begins with a tag, unless it is GraphML; None for any
    other."""
    text = head.removeprefix(BYTE_ORDER_MARK).lstrip()
    if not text.startswith(b"<"):
        return None
    text = re.sub(rb"<!--.*?(-->|$)", b"", text, flags=re.DOTALL)
    found = _TAG.search(text)
    root = "" if found is None else found[1].decode("ascii", "replace").lower()
    if root == "graphml":
        return None if suffix == ".graphml" else "GraphML under another name; call it .graphml"
    if suffix == ".graphml":
        return None  # its own reader says what is wrong
    shown = f" (its first tag is <{root[:_LONGEST_TAG]}>)" if root else ""
    return _MARKUP.get(root, f"XML{shown}, which is not read; write its plans as JSON lines")


def refuse_features(path: str | Path) -> None:
    """``ValueError`` for an ``.npz`` file or a zarr folder, with the commands that read them."""
    path = Path(path)
    marks = [path / name for name in (".zgroup", "zarr.json")]
    if path.is_dir() and (path.suffix == ".zarr" or any(mark.is_file() for mark in marks)):
        raise ValueError(
            f"{path} is a table of regions, not a file of plans; it is read by 'discrete-diffusion "
            f"train algo=masked-features data.path={path}'"
        )
    if path.suffix == ".npz" and path.is_file():
        raise ValueError(
            f"{path} is a table of regions or rows of features, not a file of plans; a table is "
            f"read by 'discrete-diffusion train algo=masked-features data.path={path}', windows of "
            f"rows to fill by 'discrete-diffusion sample checkpoint=FILE given={path}'"
        )
