"""JSON objects of formats that are not read, recognised by their keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_WRITE = (
    'write a line {"rooms": [...], "boxes": [[x0, y0, x1, y1], ...]} for each plan, the boxes '
    "around its polygons"
)


def foreign_object(data: Mapping[str, Any]) -> tuple[str, str] | None:
    """Key that reveals a foreign format, and a sentence with the remedy; None for an object that
    may be a plan."""
    if not _has(data, "rooms") and "rooms" in data and data.keys() & {"relations", "boxes"}:
        return None
    if "oas_layout" in data or _has(data, "rooms", "boundary_polygon"):
        key = "oas_layout" if "oas_layout" in data else "rooms"
        return key, f"OAS-Layout, which is not read; {_WRITE}, with data.unit=millimetres"
    if "oas_program" in data or _has(data, "rooms", "usage"):
        return (
            "oas_program" if "oas_program" in data else "rooms",
            "an OAS-Program, which is a brief, not a plan: discrete-diffusion sample brief=FILE "
            "draws diagrams that meet it",
        )
    if _has(data, "rooms", "floor_polygon"):
        return (
            "rooms",
            "rooms with a floor_polygon are those of DS2D, which are not read under this key; call "
            f'it "spaces", as the RLVR format does, or {_WRITE}',
        )
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
