"""Kinds of plan files, strict reading of JSON, and formats that are not read.

In JSON, repeated keys, truncated texts and extreme numbers are errors.
"""

from __future__ import annotations

import difflib
import json
import re
import reprlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from discrete_diffusion import runtime
from discrete_diffusion.runtime import FileKind, begins_with_bytes, begins_with_text
from floor_plans.diagrams.files.fields import DiagramError, finite_number

_READ = "data=plans reads it"

_HEAD_OF_GEOJSON = r'\s*\{(?s:.){0,4000}?"type"\s*:\s*"(FeatureCollection|Feature)"'
_HEAD_OF_DXF = r"(\s*999[^\S\n]*\n.*\n)*\s*0[^\S\n]*\n\s*SECTION"
_HEAD_OF_WKT, _AS_GEOJSON = r"\s*(multi)?polygon\s*\(", "write its polygons as GeoJSON in metres"
_BINARY = b"AutoCAD Binary DXF"

GEOJSON = FileKind("GeoJSON", begins_with_text(_HEAD_OF_GEOJSON), _READ, suffixes=(".geojson",))
DXF = FileKind("a DXF drawing", begins_with_text(_HEAD_OF_DXF), _READ, suffixes=(".dxf",))
PLAN_KINDS = (
    GEOJSON,
    DXF,
    FileKind("WKT", begins_with_text(_HEAD_OF_WKT), _AS_GEOJSON, suffixes=(".wkt",)),
    FileKind("a DWG drawing", begins_with_bytes(b"AC10"), "save it as DXF", is_text=False),
    FileKind("a binary DXF drawing", begins_with_bytes(_BINARY), "save it as text", is_text=False),
    FileKind("IFC", begins_with_text(r"\s*ISO-10303-21"), "export its spaces as DXF or GeoJSON"),
)

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

MAX_DEPTH = 64  # deepest nesting of lists and objects in a diagram's metadata


class RepeatedKeys(dict[str, Any]):
    """JSON object in which the key ``repeated`` occurs several times; one value is kept."""

    def __init__(self, values: Mapping[str, Any], *, repeated: str) -> None:
        super().__init__(values)
        self.repeated = repeated

    @classmethod
    def of(cls, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Build the object of these pairs: an ordinary dict if no key is repeated."""
        found = dict(pairs)
        if len(found) == len(pairs):
            return found
        counts = Counter(key for key, _ in pairs)
        return cls(found, repeated=next(key for key, num in counts.items() if num > 1))


@contextmanager
def open_plans(path: Path) -> Iterator[BinaryIO]:
    """Open a file as ``open_unpacked`` does; raise ``DiagramError`` for a damaged gzip file."""
    try:
        with runtime.open_unpacked(path) as file:
            yield file
    except runtime.CompressedFileError as error:
        raise DiagramError("", str(error)) from error


def read_document(path: Path) -> Any:
    """Read the single JSON value of a file, see ``load_plan_json``."""
    with open_plans(path) as file:
        return load_plan_json(file.read().removeprefix(BYTE_ORDER_MARK))


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file that are not blank, numbered from 1, without byte order marks."""
    with open_plans(path) as lines:
        for number, line in enumerate(lines, start=1):
            if (text := line.removeprefix(BYTE_ORDER_MARK)).strip():
                yield number, text


def one_document(path: Path) -> bool:
    """True if the content of a file is one JSON object on several lines, or one JSON list."""
    _, first = next(numbered_lines(path), (0, b""))
    if not first.lstrip().startswith((b"{", b"[")) or _is_object(first):
        return False
    with suppress(DiagramError):
        return isinstance(read_document(path), dict | list)
    return False


def holds_document(path: Path, suffix: str) -> bool:
    """True if a file is one JSON text, by its content or else by its suffix. JSON lines have an
    object in the first line, and more lines."""
    if one_document(path):
        return True
    lines = numbered_lines(path)
    _, first = next(lines, (0, b""))
    holds_lines = _is_object(first) and next(lines, None) is not None
    return suffix in (".json", ".geojson") and not holds_lines


def holds_object(path: Path) -> bool:
    """True if any line of a file is a JSON object."""
    return any(_is_object(line) for _, line in numbered_lines(path))


def _is_object(line: bytes) -> bool:
    with suppress(DiagramError):
        return isinstance(load_plan_json(line), dict)
    return False


def load_plan_json(text: bytes) -> Any:
    """Parse the single JSON value of ``text`` (UTF-8); objects with repeated keys become
    ``RepeatedKeys``. Raises ``DiagramError`` without a field for invalid text."""
    if not text.strip():
        raise DiagramError("", "empty; expected a JSON object")
    try:
        return json.loads(text.decode("utf-8"), object_pairs_hook=RepeatedKeys.of)
    # each error of the decoder becomes one sentence
    except UnicodeDecodeError as error:
        shown = f"byte 0x{text[error.start]:02x} at position {error.start}"
        raise DiagramError("", f"not UTF-8 text: {shown}") from error
    except json.JSONDecodeError as error:
        between = error.doc[: error.pos].lstrip()
        if error.msg == "Extra data" and "\r" in between and "\n" not in between:
            reason = "its lines end in CR alone, which ends no line here; save the file with LF"
            raise DiagramError("", reason) from error
        # the text ends too early, or is wrong at a line and character
        if error.msg.startswith("Unterminated string") or not error.doc[error.pos :].strip():
            end = error.doc.rstrip()
            shown = end if len(end) <= 20 else f"...{end[-20:]}"
            reason = f", or cut short: it ends too early, after {shown!r}"
        else:
            line = f"line {error.lineno}, " if error.lineno > 1 else ""
            reason = f": {error.msg} at {line}character {error.colno - 1}"
        raise DiagramError("", f"not valid JSON{reason}") from error
    except ValueError as error:  # an integer of more digits than Python reads
        raise DiagramError("", f"not valid JSON: {error}") from error
    except RecursionError as error:
        raise DiagramError("", "not valid JSON: nested too deeply") from error


def check_keys(data: Mapping[str, Any]) -> None:
    """Raise ``DiagramError`` for an object with a repeated key, since its value is ambiguous."""
    if isinstance(data, RepeatedKeys):
        shown = reprlib.repr(data.repeated)
        raise DiagramError(data.repeated or shown, f"the key {shown} is given twice in one object")


def check_spelling(data: Mapping[str, Any], fields: Sequence[str]) -> None:
    """Raise ``DiagramError`` for a misspelt key, which would be taken for metadata: one letter off
    one of ``fields``, or similar to ``relations`` in an object without that key."""
    for key in (key for key in data if key not in fields):
        meant = [field for field in fields if _differs_by_one_letter(key.casefold(), field)]
        if "relations" not in data:
            meant += difflib.get_close_matches(key.casefold(), ["relations"], n=1, cutoff=0.8)
        if meant:
            both = " That is there too: take one of them out, or rename this one."
            more = both if meant[0] in data else ""
            raise DiagramError(key, f"unknown; did you mean {meant[0]!r}?{more}")


def _differs_by_one_letter(word: str, other: str) -> bool:
    """True if words are equal, or differ by one letter inserted, removed or replaced."""
    k = next((k for k, (a, b) in enumerate(zip(word, other, strict=False)) if a != b), None)
    k = min(len(word), len(other)) if k is None else k
    return other[k + 1 :] in (word[k:], word[k + 1 :]) or word[k + 1 :] == other[k:]


def check_metadata(metadata: Mapping[str, Any]) -> None:
    """Raise ``DiagramError``, naming the key, for metadata that cannot be written as JSON again:
    numbers beyond float64, NaN, repeated keys, and nesting deeper than ``MAX_DEPTH``."""
    # depth first over nested lists and objects
    pending = [(key or repr(key), value, 0) for key, value in metadata.items()]
    while pending:
        field, value, depth = pending.pop()
        if isinstance(value, float):
            finite_number(value, field)
        elif isinstance(value, list | dict):
            if depth == MAX_DEPTH:
                reason = f"nested deeper than {MAX_DEPTH} levels"
                raise DiagramError(field[: field.find("[")], reason)
            if isinstance(value, dict):
                check_keys(value)
            inner = value.items() if isinstance(value, dict) else enumerate(value)
            pending.extend((f"{field}[{key}]", item, depth + 1) for key, item in inner)


WHAT_IS_READ = (
    "plans are read from JSON lines, JSON, GraphML, DXF, GeoJSON, Graph2Plan's data.mat, "
    "Modified Swiss Dwellings' table and ResPlan's pickle"
)

# kinds of files whose readers report errors themselves
_PLANS = (runtime.JSON_LINES, runtime.JSON, runtime.GRAPHML, GEOJSON, DXF)


def foreign_format(path: Path) -> str | None:
    """Return a phrase with a file's foreign format and the formats to use; None for text files.
    Raises ``DiagramError`` for a damaged compressed file."""
    with open_plans(path) as file:
        head = file.read(4096)
    if markup := markup_format(head, runtime.suffix_of(path)):
        return f"{markup} ({WHAT_IS_READ})"
    kind = runtime.kind_of(path, _PLANS)
    is_damaged_json = kind in (runtime.CSV, runtime.TSV) and head.lstrip().startswith((b"{", b"["))
    if kind is None or kind in _PLANS or is_damaged_json or runtime.suffix_of(path) == ".graphml":
        return None
    return f"{kind.sentence()} ({WHAT_IS_READ})"


_MARKUP = {  # a phrase on each markup file, by its root tag
    "svg": "an SVG picture, which is not read; draw its rooms as closed polylines in DXF, or write "
    "them as JSON lines",
    "html": "an HTML page; write its plans as JSON lines",
    "kml": "KML, in degrees; project its polygons to metres and write them as GeoJSON",
    "ifcxml": "IFC in XML, which is not read; export its spaces as DXF or GeoJSON",
}

_TAG = re.compile(rb"<(?![?!])\s*(?:[\w.-]+:)?([\w.-]+)")


def markup_format(head: bytes, suffix: str) -> str | None:
    """Name the format of a text that begins with a tag; None for GraphML and other texts."""
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
    shown = f" (its first tag is <{root[:40]}>)" if root else ""
    return _MARKUP.get(root, f"XML{shown}, which is not read; write its plans as JSON lines")


def refuse_features(path: str | Path) -> None:
    """Raise ``ValueError`` for ``.npz`` files and zarr folders, with the commands to read them."""
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


_WRITE = (
    'write a line {"rooms": [...], "boxes": [[x0, y0, x1, y1], ...]} for each plan, the boxes '
    "around its polygons"
)


def foreign_object(data: Mapping[str, Any]) -> tuple[str, str] | None:
    """Key that identifies a foreign format, and its remedy; None for what may be a plan."""
    rooms = data.get("rooms")
    has_objects = isinstance(rooms, list) and bool(rooms) and isinstance(rooms[0], Mapping)
    keys = rooms[0].keys() if isinstance(rooms, list) and has_objects else set[str]()
    if not has_objects and "rooms" in data and data.keys() & {"relations", "boxes"}:
        return None
    # architecture standards of Autodesk
    if "oas_layout" in data or "boundary_polygon" in keys:
        key = "oas_layout" if "oas_layout" in data else "rooms"
        return key, f"OAS-Layout, which is not read; {_WRITE}, with data.unit=millimetres"
    if "oas_program" in data or "usage" in keys:
        key = "oas_program" if "oas_program" in data else "rooms"
        remedy = "discrete-diffusion sample brief=FILE draws diagrams that meet it"
        return key, f"an OAS-Program, which is a brief, not a plan: {remedy}"
    # other formats with a list of room objects
    if "floor_polygon" in keys:
        reason = "rooms with a floor_polygon are those of DS2D, which are not read under this key"
        return "rooms", f'{reason}; call it "spaces", as the RLVR format does, or {_WRITE}'
    # parts of House-GAN++
    if "room_type" in data and not data.keys() & {"boxes", "rooms"}:
        what = "room_type and edges are" if "edges" in data else "room_type is"
        return "room_type", (
            f"{what} a part of House-GAN++ JSON: without boxes (and ed_rm, the rooms on both sides "
            'of each wall) positions of rooms are unknown; give "boxes" too, or "rooms" and '
            '"relations"'
        )
    if has_objects:
        reason = "rooms that are objects belong to a format that is not read"
        return "rooms", f'{reason}; expected a list of room types, with "relations" or "boxes"'
    # annotations of pictures
    if "shapes" in data and "imagePath" in data:
        return "shapes", f"LabelMe annotations of a picture, which are not read; {_WRITE}"
    if "annotations" in data and "images" in data:
        return "annotations", f"COCO annotations of pictures, which are not read; {_WRITE}"
    return None
