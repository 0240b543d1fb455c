"""One JSON object of a plans file -> ``BubbleDiagram``; the format is told by its fields."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from discrete_diffusion.data.bubble_diagrams.diagram import BubbleDiagram
from discrete_diffusion.data.bubble_diagrams.fields import (
    DiagramError,
    check_keys,
    check_metadata,
    check_size,
    checked_box,
    finite_number,
    read_relations,
    read_rooms,
    required_list,
)
from discrete_diffusion.data.bubble_diagrams.geometry import relations_from_boxes
from discrete_diffusion.rooms import NO_EDGE, ROOM_TYPES

_MASTER_BEDROOM = ROOM_TYPES.index("MasterRoom")

_COARSE_BEDROOM = 1
_COARSE_ROOMS = tuple(
    ROOM_TYPES.index(name)
    for name in ("LivingRoom", "SecondRoom", "Kitchen", "Bathroom", "Balcony", "Storage")
)
"""Room code of every coarse code of a rendered plan; its largest bedroom becomes MasterRoom."""


_HOUSE_GAN_BEDROOM = 3
_HOUSE_GAN_ROOMS = {
    code: ROOM_TYPES.index(name)
    for code, name in {
        1: "LivingRoom",
        2: "Kitchen",
        _HOUSE_GAN_BEDROOM: "SecondRoom",
        4: "Bathroom",
        5: "Balcony",
        6: "Entrance",
        7: "DiningRoom",
        8: "StudyRoom",
        10: "Storage",
    }.items()
}
"""Room code of every room of House-GAN++; its largest bedroom becomes MasterRoom."""

_HOUSE_GAN_DOORS = {15: "front-door", 17: "interior-door"}
_HOUSE_GAN_UNKNOWN = 16

WALLS = "walls"
"""What a House-GAN++ plan holds that its diagram does not."""


class LinePlan(NamedTuple):
    """A diagram, None for a rendered plan flagged as a duplicate, and the names of what was left
    out of it, once for each time."""

    diagram: BubbleDiagram | None
    left_out: tuple[str, ...] = ()


def parse_plan(data: object, *, n_max: int, threshold: float) -> LinePlan:
    """The diagram of one JSON object.

    * ``rooms``, ``relations``: the interchange format;
    * ``room_type``, ``boxes``, ``rel``: a rendered plan with coarse room codes, relations as given;
    * ``room_type``, ``boxes``, ``ed_rm``: a House-GAN++ plan;
    * ``rooms`` or ``room_type``, ``boxes``: relations by ``relations_from_boxes(.., threshold)``.

    Raises ``DiagramError`` naming the field that is wrong, more than ``n_max`` rooms, or metadata
    that could not be written again.
    """
    if not isinstance(data, Mapping):
        raise DiagramError("", f"expected a JSON object, got {reprlib.repr(data)}")
    check_keys(data)
    plan = _parse(data, n_max, threshold)
    if plan.diagram is not None:
        check_metadata(plan.diagram.metadata)
    return plan


def _parse(data: Mapping[str, Any], n_max: int, threshold: float) -> LinePlan:
    if "relations" in data:
        if isinstance(data.get("rooms"), list):
            check_size(len(data["rooms"]), n_max, "rooms")
        return LinePlan(BubbleDiagram.from_json(data))
    if "rel" in data:
        return LinePlan(_parse_rendered(data, n_max))
    if "ed_rm" in data:
        return LinePlan(_parse_house_gan(data, n_max, threshold), _walls(data))
    if "boxes" in data:
        return LinePlan(_parse_boxes(data, n_max, threshold))
    return LinePlan(BubbleDiagram.from_json(data))  # which names the field that is missing


def _parse_boxes(data: Mapping[str, Any], n_max: int, threshold: float) -> BubbleDiagram:
    key = "rooms" if "rooms" in data else "room_type"
    rooms = required_list(data, key)
    check_size(len(rooms), n_max, key)
    return _related_by_boxes(
        read_rooms(rooms, key), required_list(data, "boxes"), threshold, _rest(data, key, "boxes")
    )


def _related_by_boxes(
    rooms: tuple[int, ...], boxes: list[Any], threshold: float, metadata: Mapping[str, Any]
) -> BubbleDiagram:
    bare = BubbleDiagram(rooms=rooms, relations=(), boxes=tuple(boxes), metadata=metadata)
    codes = relations_from_boxes(np.array(bare.boxes), threshold)
    related = np.argwhere(codes != NO_EDGE).tolist()
    return replace(bare, relations=tuple((i, j, int(codes[i, j])) for i, j in related))


def _parse_house_gan(data: Mapping[str, Any], n_max: int, threshold: float) -> BubbleDiagram:
    """Boxes are (x0, y0, x1, y1) of a 256 px plan, y downwards, as House-GAN++ draws them.

    Doors are no rooms: they are kept in the metadata, as ``doors``. Walls (``edges`` and the rooms
    beside them, ``ed_rm``) are not part of a diagram.
    """
    codes, boxes = required_list(data, "room_type"), required_list(data, "boxes")
    if len(boxes) != len(codes):
        raise DiagramError("boxes", f"{len(boxes)} boxes for {len(codes)} rooms and doors")
    metadata = _rest(data, "room_type", "boxes", "edges", "ed_rm")
    if "doors" in metadata:
        raise DiagramError("doors", "a House-GAN++ plan lists its doors among its rooms")
    rooms: list[int] = []
    bedrooms: list[int] = []
    room_boxes, doors = [], []
    for k, (code, given) in enumerate(zip(codes, boxes, strict=True)):
        code, box = _house_gan_code(code, f"room_type[{k}]"), checked_box(given, f"boxes[{k}]")
        if code in _HOUSE_GAN_DOORS:
            doors.append({"type": _HOUSE_GAN_DOORS[code], "box": list(box)})
            continue
        if code == _HOUSE_GAN_BEDROOM:
            bedrooms.append(len(rooms))
        rooms.append(_HOUSE_GAN_ROOMS[code])
        room_boxes.append(box)
    if not rooms:
        raise DiagramError("room_type", "a diagram needs at least one room that is no door")
    check_size(len(rooms), n_max, "room_type")
    areas = [(x1 - x0) * (y1 - y0) for x0, y0, x1, y1 in room_boxes]
    rooms = _with_master_bedroom(rooms, bedrooms, areas)
    return _related_by_boxes(tuple(rooms), room_boxes, threshold, metadata | {"doors": doors})


def _walls(data: Mapping[str, Any]) -> tuple[str, ...]:
    walls = data.get("edges", data["ed_rm"])
    return (WALLS,) * (len(walls) if isinstance(walls, list) else 1)


def _house_gan_code(code: object, field: str) -> int:
    if isinstance(code, int) and not isinstance(code, bool):
        if code in _HOUSE_GAN_ROOMS or code in _HOUSE_GAN_DOORS:
            return code
        if code == _HOUSE_GAN_UNKNOWN:
            raise DiagramError(field, "code 16, a room of unknown type, has no room type here")
    known = ", ".join(map(str, sorted([*_HOUSE_GAN_ROOMS, *_HOUSE_GAN_DOORS])))
    raise DiagramError(
        field, f"expected a House-GAN++ room code ({known}), got {reprlib.repr(code)}"
    )


def _parse_rendered(data: Mapping[str, Any], n_max: int) -> BubbleDiagram | None:
    coarse = required_list(data, "room_type")
    check_size(len(coarse), n_max, "room_type")
    duplicate = data.get("duplicate", False)
    if not isinstance(duplicate, bool):
        raise DiagramError("duplicate", f"expected true or false, got {reprlib.repr(duplicate)}")
    diagram = BubbleDiagram(
        rooms=_rooms_of_coarse(coarse, data.get("area_px")),
        relations=read_relations(data["rel"], len(coarse), "rel"),
        boxes=tuple(required_list(data, "boxes")),
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
    sizes: list[float] = []
    if bedrooms:
        if not isinstance(areas, list) or len(areas) != len(coarse):
            raise DiagramError(
                "area_px", f"expected {len(coarse)} areas, got {reprlib.repr(areas)}"
            )
        sizes = [finite_number(area, f"area_px[{k}]") for k, area in enumerate(areas)]
    return tuple(_with_master_bedroom(rooms, bedrooms, sizes))


def _with_master_bedroom(
    rooms: list[int], bedrooms: list[int], areas: Sequence[float]
) -> list[int]:
    """The rooms with the largest bedroom (the first of equal ones) as MasterRoom."""
    if not bedrooms:
        return rooms
    largest = max(bedrooms, key=lambda room: areas[room])
    return [_MASTER_BEDROOM if room == largest else code for room, code in enumerate(rooms)]


def _rest(data: Mapping[str, Any], *used: str) -> dict[str, Any]:
    """What is left for the metadata."""
    return {key: value for key, value in data.items() if key not in used}
