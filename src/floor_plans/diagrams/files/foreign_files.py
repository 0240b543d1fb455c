"""Files and JSON objects of formats that are not read, recognised by first bytes and keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from discrete_diffusion.runtime import CSV, GRAPHML, JSON, JSON_LINES, TSV, kind_of, suffix_of
from floor_plans.diagrams.files.file_kinds import DXF, GEOJSON, WKT
from floor_plans.diagrams.files.json_text import BYTE_ORDER_MARK, opened

WHAT_IS_READ = (
    "plans are read from JSON lines, JSON, GraphML, DXF, GeoJSON, WKT and Graph2Plan's data.mat"
)


_PLANS = (JSON_LINES, JSON, GRAPHML, GEOJSON, DXF, WKT)
"""Kinds of files with a reader, which reports errors itself."""

_HEAD_BYTES, _LONGEST_TAG = 4096, 40


def foreign_format(path: Path) -> str | None:
    """Name the foreign format of a file and the formats to use instead; None for text.

    Raises ``DiagramError`` for a damaged compressed file.
    """
    with opened(path) as file:
        head = file.read(_HEAD_BYTES)
    # text of tags is recognised by its root tag
    if markup := _markup(head, suffix_of(path)):
        return f"{markup} ({WHAT_IS_READ})"
    # other formats by name and first bytes
    kind = kind_of(path, _PLANS)
    is_damaged_json = kind in (CSV, TSV) and head.lstrip().startswith((b"{", b"["))
    if kind is None or kind in _PLANS or is_damaged_json or suffix_of(path) == ".graphml":
        return None
    return f"{kind.sentence()} ({WHAT_IS_READ})"


_MARKUP = {
    "svg": "an SVG picture, which is not read; draw its rooms as closed polylines in DXF, or write "
    "them as JSON lines",
    "html": "an HTML page; write its plans as JSON lines",
    "kml": "KML, in degrees; project its polygons to metres and write them as GeoJSON",
    "ifcxml": "IFC in XML, which is not read; export its spaces as DXF or GeoJSON",
}
"""Description of a markup file by its root tag."""

_TAG = re.compile(rb"<(?![?!])\s*(?:[\w.-]+:)?([\w.-]+)")


def _markup(head: bytes, suffix: str) -> str | None:
    """Format of a text that begins with a tag; None for GraphML and any other text."""
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
    """Refuse ``.npz`` files and zarr folders, by ``ValueError`` with the commands for them."""
    path = Path(path)
    # zarr folders by name or content
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
    """Key that reveals a foreign format, and a sentence with the remedy; None for an object that
    may be a plan."""
    # a plain list of rooms is a plan
    if not _has(data, "rooms") and "rooms" in data and data.keys() & {"relations", "boxes"}:
        return None
    # architecture standards of Autodesk
    if "oas_layout" in data or _has(data, "rooms", "boundary_polygon"):
        key = "oas_layout" if "oas_layout" in data else "rooms"
        return key, f"OAS-Layout, which is not read; {_WRITE}, with data.unit=millimetres"
    if "oas_program" in data or _has(data, "rooms", "usage"):
        return (
            "oas_program" if "oas_program" in data else "rooms",
            "an OAS-Program, which is a brief, not a plan: discrete-diffusion sample brief=FILE "
            "draws diagrams that meet it",
        )
    # other formats with a list of room objects
    if _has(data, "rooms", "floor_polygon"):
        return (
            "rooms",
            "rooms with a floor_polygon are those of DS2D, which are not read under this key; call "
            f'it "spaces", as the RLVR format does, or {_WRITE}',
        )
    # parts of House-GAN++
    if "room_type" in data and not data.keys() & {"boxes", "rooms"}:
        what = "room_type and edges are" if "edges" in data else "room_type is"
        return (
            "room_type",
            f"{what} a part of House-GAN++ JSON: without boxes (and ed_rm, the rooms on both sides "
            'of each wall) positions of rooms are unknown; give "boxes" too, or "rooms" and '
            '"relations"',
        )
    if _has(data, "rooms"):
        return (
            "rooms",
            "rooms that are objects belong to a format that is not read; expected a list of room "
            'types, with "relations" or "boxes"',
        )
    # annotations of pictures
    if "shapes" in data and "imagePath" in data:
        return "shapes", f"LabelMe annotations of a picture, which are not read; {_WRITE}"
    if "annotations" in data and "images" in data:
        return "annotations", f"COCO annotations of pictures, which are not read; {_WRITE}"
    return None


def _has(data: Mapping[str, Any], key: str, of_each: str | None = None) -> bool:
    """True if ``key`` is a list of objects, the first of them with ``of_each``."""
    given = data.get(key)
    if not isinstance(given, list) or not given or not isinstance(given[0], Mapping):
        return False
    return of_each is None or of_each in given[0]
