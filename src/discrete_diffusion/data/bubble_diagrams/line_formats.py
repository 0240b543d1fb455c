"""One JSON object of a plans file -> ``BubbleDiagram``; the format is told by its fields."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from discrete_diffusion.data.bubble_diagrams.diagram import BubbleDiagram
from discrete_diffusion.data.bubble_diagrams.fields import (
    NO_EDGE,
    DiagramError,
    finite_number,
    read_relations,
    read_rooms,
)
from discrete_diffusion.data.bubble_diagrams.geometry import relations_from_boxes
from discrete_diffusion.rooms import ROOM_TYPES

_LARGEST_BEDROOM, _OTHER_BEDROOM = ROOM_TYPES.index("MasterRoom"), ROOM_TYPES.index("SecondRoom")

_COARSE_BEDROOM = 1
_COARSE_ROOMS = tuple(
    ROOM_TYPES.index(name)
    for name in ("LivingRoom", "SecondRoom", "Kitchen", "Bathroom", "Balcony", "Storage")
)
"""Room code of every coarse code of a rendered plan; its largest bedroom becomes MasterRoom."""


def parse_plan(data: object, *, n_max: int, threshold: float) -> BubbleDiagram | None:
    """The diagram of one JSON object, or None for a rendered plan flagged as a duplicate.

    * ``rooms``, ``relations``: the interchange format;
    * ``room_type``, ``boxes``, ``rel``: a rendered plan with coarse room codes, relations as given;
    * ``rooms`` or ``room_type``, ``boxes``: relations by ``relations_from_boxes(.., threshold)``.

    Raises ``DiagramError`` naming the field that is wrong, or more than ``n_max`` rooms.
    """
    if not isinstance(data, Mapping):
        raise DiagramError("line", f"expected a JSON object, got {reprlib.repr(data)}")
    if "relations" in data:
        _check_size(data.get("rooms"), n_max, "rooms")
        return BubbleDiagram.from_json(data)
    if "rel" in data:
        return _parse_rendered(data, n_max)
    if "boxes" in data:
        return _parse_boxes(data, n_max, threshold)
    return BubbleDiagram.from_json(data)  # which names the field that is missing


def _parse_boxes(data: Mapping[str, Any], n_max: int, threshold: float) -> BubbleDiagram:
    if "ed_rm" in data:
        raise DiagramError("ed_rm", "a House-GAN++ plan; its room codes are not those read here")
    key = "rooms" if "rooms" in data else "room_type"
    rooms_given = _required_list(data, key)
    _check_size(rooms_given, n_max, key)
    bare = BubbleDiagram(
        rooms=read_rooms(rooms_given, key),
        relations=(),
        boxes=tuple(_required_list(data, "boxes")),
    )
    codes = relations_from_boxes(np.array(bare.boxes), threshold)
    related = np.argwhere(codes != NO_EDGE).tolist()
    return BubbleDiagram(
        rooms=bare.rooms,
        relations=tuple((i, j, int(codes[i, j])) for i, j in related),
        boxes=bare.boxes,
        metadata=_rest(data, key, "boxes"),
    )


def _parse_rendered(data: Mapping[str, Any], n_max: int) -> BubbleDiagram | None:
    coarse = _required_list(data, "room_type")
    _check_size(coarse, n_max, "room_type")
    duplicate = data.get("duplicate", False)
    if not isinstance(duplicate, bool):
        raise DiagramError("duplicate", f"expected true or false, got {reprlib.repr(duplicate)}")
    diagram = BubbleDiagram(
        rooms=_rooms_of_coarse(coarse, data.get("area_px")),
        relations=read_relations(data["rel"], len(coarse), "rel"),
        boxes=tuple(_required_list(data, "boxes")),
        metadata=_rest(data, "room_type", "boxes", "rel", "duplicate"),
    )
    return None if duplicate else diagram


def _rooms_of_coarse(coarse: list[Any], areas: object) -> tuple[int, ...]:
    """Room codes of coarse codes; ``areas`` tells which of the bedrooms is the largest."""
    for k, code in enumerate(coarse):
        known = isinstance(code, int) and not isinstance(code, bool)
        if not known or not 0 <= code < len(_COARSE_ROOMS):
            reason = f"expected a coarse room code 0..{len(_COARSE_ROOMS) - 1}"
            raise DiagramError(f"room_type[{k}]", f"{reason}, got {reprlib.repr(code)}")
    rooms = [_COARSE_ROOMS[code] for code in coarse]
    bedrooms = [k for k, code in enumerate(coarse) if code == _COARSE_BEDROOM]
    if bedrooms:
        if not isinstance(areas, list) or len(areas) != len(coarse):
            raise DiagramError(
                "area_px", f"expected {len(coarse)} areas, got {reprlib.repr(areas)}"
            )
        sizes = [finite_number(area, f"area_px[{k}]") for k, area in enumerate(areas)]
        rooms[max(bedrooms, key=lambda k: sizes[k])] = _LARGEST_BEDROOM
    return tuple(rooms)


def _required_list(data: Mapping[str, Any], key: str) -> list[Any]:
    if key not in data:
        raise DiagramError(key, f"missing; the fields are {', '.join(map(repr, data))}")
    if not isinstance(data[key], list):
        raise DiagramError(key, f"expected a list, got {reprlib.repr(data[key])}")
    return data[key]


def _check_size(rooms: object, n_max: int, field: str) -> None:
    if isinstance(rooms, list) and len(rooms) > n_max:
        raise DiagramError(field, f"{len(rooms)} rooms, more than n_max={n_max}")


def _rest(data: Mapping[str, Any], *used: str) -> dict[str, Any]:
    """What is left for the metadata."""
    return {key: value for key, value in data.items() if key not in used}
